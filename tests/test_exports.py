"""What is public is named, and what is named is there."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import muster
import muster_core


def public_modules() -> list[str]:
    """Give the names of all modules without an underscore anywhere in their path."""
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
