"""A program that embeds Muster can be checked strictly, and all that it sees is the wheel."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
from hatchling.build import build_wheel

import muster
import muster.asyncio
from muster import subprocesses, testing

pytestmark = pytest.mark.starts_early

PROJECT = Path(__file__).parent.parent
CONSUMER = PROJECT / "tests" / "consumer"
PROGRAMS = sorted(CONSUMER.glob("*.py"))
ON_ASYNCIO = CONSUMER / "under_asyncio.py"

#: Every marked line is a mistake; without the marks, type checkers say what is wrong.
MIXED = CONSUMER / "mixed.py"
MARK = re.compile(r"  # type: ignore\[[a-z-]+\]$", re.MULTILINE)
UNMARKED = "unmarked.py"

#: What the programs are checked with. Nothing of pyproject.toml: users have their own.
PYRIGHT = """
{"include": ["*.py"], "typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": true}
"""

#: Handed out by a scheduler, so that their methods are a part of the surface.
HANDLES = ("Scheduler", "Application", "Ask", "Allocation", "Gang", "Decisions")

#: For the scheduler itself, which fills what others read.
INTERNAL = {"offer", "end", "is_over", "take_now"}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with the wheel and its dependencies, and return its Python.

    Where Muster is installed for its own tests, that is a path to the source tree. Paths in
    the packages of others are not followed, so the wheel is all that there is of Muster.
    """
    wheels, home = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROJECT)
        patch.setenv("MUSTER_PURE", "1")  # To compile takes minutes.
        name = build_wheel(str(wheels))
    venv.create(home, symlinks=True)
    scheme = sysconfig.get_preferred_scheme("prefix")
    where = {"base": str(home), "platbase": str(home)}
    packages = Path(sysconfig.get_path("purelib", scheme, where))
    zipfile.ZipFile(wheels / name).extractall(packages)
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "others.pth").write_text("\n".join(sorted(others)), encoding="utf-8")
    return Path(sysconfig.get_path("scripts", scheme, where)) / Path(sys.executable).name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the programs to where nothing says how Muster's own code is checked."""
    folder = tmp_path_factory.mktemp("consumer")
    for program in PROGRAMS:
        (folder / program.name).write_bytes(program.read_bytes())
    text = MARK.sub("", MIXED.read_text(encoding="utf-8"))
    (folder / UNMARKED).write_text(text, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(PYRIGHT, encoding="utf-8")
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\n", encoding="utf-8")
    return folder


def output_of(*command: str | Path, cwd: Path) -> tuple[int, str]:
    """Run a command; return its status and its output."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},  # of newer ones
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout


def test_wheel_is_all_there_is_and_is_marked_as_typed(python: Path, folder: Path) -> None:
    ask = "import muster, muster_core; print(muster.__path__[0], muster_core.__path__[0])"

    status, answer = output_of(python, "-W", "error", "-c", ask, cwd=folder)

    assert status == 0, answer
    for package in map(Path, answer.split()):
        assert package.is_relative_to(python.parent.parent)
        assert (package / "py.typed").exists()


def test_wheel_runs_the_first_example(python: Path, folder: Path) -> None:
    status, answer = output_of(python, "-W", "error", PROJECT / "examples" / "embed.py", cwd=folder)

    assert status == 0, answer


@pytest.fixture(scope="module")
def mypy(python: Path, folder: Path) -> str:
    """Return what mypy says about all programs: one run, as each reads all of Muster."""
    options = [f"--python-executable={python}", "--no-error-summary", "--cache-dir=/dev/null"]
    status, answer = output_of(sys.executable, "-m", "mypy", *options, ".", cwd=folder)
    assert status == 1, answer  # because of the mistakes without marks
    return answer


@pytest.fixture(scope="module")
def pyright(python: Path, folder: Path) -> str:
    """Return what pyright says about all programs."""
    options = ["--warnings", "--pythonpath", str(python)]
    status, answer = output_of(sys.executable, "-m", "pyright", *options, cwd=folder)
    assert status == 1, answer
    return answer


def files_in(answer: str) -> set[str]:
    """Return the names of the files that a type checker objects to."""
    return {Path(name).name for name in re.findall(r"^ *(\S+):\d+:", answer, re.MULTILINE)}


def test_mypy_objects_to_nothing_but_misuse(mypy: str) -> None:
    assert files_in(mypy) == {UNMARKED}, mypy


@pytest.mark.takes_long
def test_pyright_objects_to_nothing_but_misuse(pyright: str) -> None:
    assert files_in(pyright) == {UNMARKED}, pyright


@pytest.fixture(scope="module")
def mistakes() -> list[int]:
    """Return the lines of the mistakes."""
    text = MIXED.read_text(encoding="utf-8")
    return [number for number, line in enumerate(text.splitlines(), 1) if MARK.search(line)]


def names_apart(message: str) -> bool:
    """Whether a message is clear: it names two classes of allocations."""
    return len(set(re.findall(r"\b\w*Allocation\b", message))) == 2


def messages(answer: str, line: str) -> dict[int, str]:
    """Return all messages about each line of the mistakes.

    Args:
        answer: What the type checker says.
        line: The pattern of the beginning of a message, with the number of the line. What does not
            begin like that belongs to the message before.
    """
    found: dict[int, str] = {}
    number = None
    for one in answer.splitlines():
        start = re.search(line, one)
        number = number if start is None else int(start[1])
        if number is not None:
            found[number] = found.get(number, "") + one + "\n"
    return found


def test_mypy_tells_the_allocations_of_trio_and_asyncio_apart(
    mypy: str, mistakes: list[int]
) -> None:
    found = messages(mypy, rf"{UNMARKED}:(\d+): ")

    assert sorted(found) == mistakes, mypy
    assert [line for line in mistakes if not names_apart(found[line])] == [], mypy


@pytest.mark.takes_long
def test_pyright_tells_the_allocations_of_trio_and_asyncio_apart(
    pyright: str, mistakes: list[int]
) -> None:
    found = messages(pyright, rf"{UNMARKED}:(\d+):")

    assert sorted(found) == mistakes, pyright
    assert [line for line in mistakes if not names_apart(found[line])] == [], pyright


def used(programs: Iterable[Path]) -> set[str]:
    """Return every name that programs use, of whatever."""
    found: set[str] = set()
    for program in programs:
        for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(attr=name) | ast.Name(id=name):
                    found.add(name)
                case ast.ImportFrom(names=names):
                    found.update(alias.name for alias in names)
                case _:
                    pass
    return found


def surface(package: ModuleType, *more: str) -> set[str]:
    """Return every public name of a package, and of what its schedulers hand out."""
    found: set[str] = set(package.__all__)
    for handle in (*HANDLES, *more):
        found.update(dir(cast("type", getattr(package, handle))))
    return {name for name in found if not name.startswith("_")} - INTERNAL


def test_programs_on_trio_use_the_whole_surface() -> None:
    programs = [path for path in PROGRAMS if path != ON_ASYNCIO]
    brought_along = {*subprocesses.__all__, *testing.__all__}

    assert (surface(muster, "Simulation") | brought_along) - used(programs) == set()


def test_program_on_asyncio_uses_the_whole_surface() -> None:
    assert surface(muster.asyncio) - used([ON_ASYNCIO]) == set()
