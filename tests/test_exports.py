"""What is public is named, and what is named is there."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import muster
import muster_core


def public_modules() -> list[str]:
    """Return the names of all modules without an underscore anywhere in their path."""
    names = [muster.__name__, muster_core.__name__]
    for package in (muster, muster_core):
        walk = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        names += [module.name for module in walk]
    return [name for name in names if not any(part.startswith("_") for part in name.split("."))]


def is_package(name: str) -> bool:
    return hasattr(importlib.import_module(name), "__path__")


def exports(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", ()))


@pytest.mark.parametrize("name", public_modules())
def test_everything_exported_is_there(name: str) -> None:
    module = importlib.import_module(name)

    assert [export for export in exports(module) if not hasattr(module, export)] == []


@pytest.mark.parametrize("name", public_modules())
def test_exports_are_named_once_and_are_public(name: str) -> None:
    names = exports(importlib.import_module(name))

    assert len(names) == len(set(names))
    assert [export for export in names if export.startswith("_") and export != "__version__"] == []


@pytest.mark.parametrize("name", [name for name in public_modules() if is_package(name)])
def test_packages_say_what_they_export(name: str) -> None:
    package = importlib.import_module(name)
    visible = {member for member in dir(package) if not member.startswith("_")}
    modules = {member for member in visible if isinstance(getattr(package, member), ModuleType)}

    assert visible - modules - {"annotations"} == set(exports(package)) - {"__version__"}


PUBLIC_VALUES = {
    **{
        f"muster_core.{name}": (f"muster_core.values.{name}",)
        for name in ("decisions", "errors", "events", "reasons", "resources", "snapshots")
    },
    "muster_core.config.model": ("muster_core.values.configuration",),
}
"""By which names programs import values of the core, and where these are defined."""


@pytest.mark.parametrize(("public", "homes"), PUBLIC_VALUES.items(), ids=PUBLIC_VALUES)
def test_public_values_of_the_core_have_all_their_names(
    public: str, homes: tuple[str, ...]
) -> None:
    shown = importlib.import_module(public)
    defined = {
        name: value
        for home in homes
        for name, value in vars(importlib.import_module(home)).items()
        if not name.startswith("_")
    }
    classes = {
        name
        for name, value in defined.items()
        if isinstance(value, type) and value.__module__ in homes
    }

    assert classes <= set(exports(shown))
    assert [name for name in exports(shown) if getattr(shown, name) is not defined[name]] == []
