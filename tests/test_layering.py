"""The core stands alone, and the wheel holds the two packages and a manual page.

import-linter holds the order of the layers (``make lint``); these tests look at what
really happens when the core is imported and the wheel is built.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_wheel

from muster import __version__

PROJECT = Path(__file__).parent.parent
PACKAGES = {"muster_core": PROJECT / "core", "muster": PROJECT / "actors"}

# What the actors stand on and the core must not: a name that is None in sys.modules cannot be
# imported.
IMPORT_CORE_ALONE = """
import importlib, pkgutil, sys
for name in ("muster", "trio", "asyncio", "click", "msgpack", "rich", "yaml"):
    sys.modules[name] = None
import muster_core
for module in pkgutil.walk_packages(muster_core.__path__, "muster_core."):
    importlib.import_module(module.name)
    print(module.name)
"""


def sources(package: str) -> set[str]:
    """Return every source file of a package, as its path inside a wheel."""
    root = PACKAGES[package]
    return {path.relative_to(root).as_posix() for path in (root / package).rglob("*.py")}


def test_core_imports_with_trio_blocked() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_CORE_ALONE],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    modules = {name.replace(".", "/") for name in done.stdout.split()}
    files = {f.removesuffix(".py").removesuffix("/__init__") for f in sources("muster_core")}
    assert modules == files - {"muster_core"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROJECT)
        patch.setenv("MUSTER_PURE", "1")  # To compile takes minutes.
        name = build_wheel(str(folder))
    return zipfile.ZipFile(folder / name)


def test_wheel_holds_the_two_packages_and_the_manual_page(wheel: zipfile.ZipFile) -> None:
    files = {name for name in wheel.namelist() if ".dist-info/" not in name}

    others = {f"{package}/py.typed" for package in PACKAGES}
    others |= {f"muster/report/_page/page.{kind}" for kind in ("css", "js")}
    others |= {f"muster/figures/{name}.css" for name in ("charts", "colours")}
    others.add(f"muster_scheduler-{__version__}.data/data/share/man/man1/muster.1")
    for folder in ("templates", "static", "static/vendor"):
        of_page = PROJECT / "actors" / "muster" / "service" / "page" / folder
        others |= {
            f"muster/service/page/{folder}/{one.name}" for one in of_page.iterdir() if one.is_file()
        }
    assert {name for name in files if not name.endswith(".py")} == others
    assert files - others == sources("muster") | sources("muster_core")


def test_wheel_names_command_and_licence(wheel: zipfile.ZipFile) -> None:
    about = {Path(name).name: name for name in wheel.namelist() if ".dist-info/" in name}

    assert "muster = muster.cli:main" in wheel.read(about["entry_points.txt"]).decode()
    assert "Apache License" in wheel.read(about["LICENSE"]).decode()


def test_source_roots_are_no_packages() -> None:
    for root in PACKAGES.values():
        assert not (root / "__init__.py").exists()
