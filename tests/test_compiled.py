"""The compiled core: which code runs, what a wheel has, and that it behaves like the Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Final

import pytest

PROJECT: Final = Path(__file__).parent.parent
CORE: Final = PROJECT / "core"
SUFFIX: Final = str(sysconfig.get_config_var("EXT_SUFFIX"))
MODULES: Final = {
    f"{path.relative_to(CORE).with_suffix('')}{SUFFIX}" for path in CORE.rglob("*.pxd")
}
FEED: Final = PROJECT / "docs" / "feeds" / "first.yaml"
BUILD: Final = (
    "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
)
#: Where a core fails that is asked for something that is not there.
FAILS: Final = """
import traceback
from muster_core.structures.ranking import PriorityTally
try:
    PriorityTally().remove(7)
except KeyError as error:
    last = traceback.extract_tb(error.__traceback__)[-1]
    print(repr(error), last.filename.replace("\\\\", "/").rpartition("muster_core/")[2], last.lineno)
"""


def environment(**changes: str) -> dict[str, str]:
    return {name: one for name, one in os.environ.items() if name != "MUSTER_PURE"} | changes


def build(folder: Path, **changes: str) -> tuple[Path, str]:
    """Build a wheel of this tree into a folder; return it, and the output of the build."""
    words = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(
        words, cwd=PROJECT, env=environment(**changes), capture_output=True, text=True, check=True
    )
    (wheel,) = folder.glob("*.whl")
    return wheel, done.stdout + done.stderr


def extensions(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".pyd"))}


def test_a_wheel_without_compiler_has_the_python_and_says_so(tmp_path: Path) -> None:
    wheel, output = build(tmp_path, CC="/nowhere/cc")

    assert wheel.name.endswith("-py3-none-any.whl")
    assert extensions(wheel) == set()
    assert "Muster is not compiled, and runs as plain Python: " in output


def test_a_wheel_is_not_compiled_if_that_is_asked_for(tmp_path: Path) -> None:
    wheel, output = build(tmp_path, MUSTER_PURE="1")

    assert extensions(wheel) == set()
    assert "not compiled" not in output


def test_python_is_taken_instead_of_compiled_modules_if_that_is_asked_for(tmp_path: Path) -> None:
    for package in (CORE / "muster_core", PROJECT / "actors" / "muster"):
        shutil.copytree(
            package, tmp_path / package.name, ignore=shutil.ignore_patterns(f"*{SUFFIX}")
        )
    # No module: its import fails.
    (tmp_path / "muster_core" / "structures" / f"ranking{SUFFIX}").write_text("", "utf-8")

    def muster(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "muster", *arguments]
        changes |= {"PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            words, env=environment(**changes), capture_output=True, text=True, check=False
        )

    assert muster("check", str(FEED), MUSTER_PURE="1").returncode == 0
    assert muster("--version", MUSTER_PURE="1").stdout.endswith("(pure Python)\n")
    assert "ImportError" in muster("check", str(FEED)).stderr
    assert muster("--version").stdout.endswith("(compiled)\n")


@pytest.mark.takes_long
@pytest.mark.starts_early
def test_a_wheel_is_compiled_and_behaves_like_the_python(tmp_path: Path) -> None:
    """It takes two minutes to compile."""
    wheel, output = build(tmp_path)

    assert "not compiled" not in output
    assert extensions(wheel) == MODULES
    assert wheel.stat().st_size <= 3_400_000

    home = tmp_path / "home"
    venv.create(home, symlinks=True)
    scheme = sysconfig.get_preferred_scheme("prefix")
    where = {"base": str(home), "platbase": str(home)}
    packages = Path(sysconfig.get_path("platlib", scheme, where))
    zipfile.ZipFile(wheel).extractall(packages)
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "others.pth").write_text("\n".join(sorted(others)), encoding="utf-8")
    python = str(Path(sysconfig.get_path("scripts", scheme, where)) / Path(sys.executable).name)

    def run(*arguments: str, **changes: str) -> str:
        return subprocess.run(
            [python, *arguments],
            cwd=home,
            env=environment(**changes),
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert run("-m", "muster", "--version").endswith("(compiled)\n")
    assert run("-m", "muster", "--version", MUSTER_PURE="1").endswith("(pure Python)\n")
    replay = ("-m", "muster", "replay", str(FEED), "--decisions")
    run(*replay, "compiled.jsonl")
    run(*replay, "pure.jsonl", MUSTER_PURE="1")
    assert (home / "compiled.jsonl").read_bytes() == (home / "pure.jsonl").read_bytes()
    # The same exception, from the same line of the source.
    fails = ("-c", f"import muster\n{FAILS}")
    assert run(*fails) == run(*fails, MUSTER_PURE="1") != ""
