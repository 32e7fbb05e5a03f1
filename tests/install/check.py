"""Install Muster in every supported way, and run tests with the oldest and the newest dependencies.

    python -m tests.install.check --python python3.13

Installs the wheel without extras and with each alone, with the newest and the lowest versions that
pyproject.toml allows, and the source distribution. ``make install-check`` runs it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from tests.install.environments import PROJECT, Environment, build, environment

USES: Final = {
    "": ("-m", "muster", "check", "docs/feeds/first.yaml"),
    "client": ("-c", "import muster.client"),
    "kubernetes": ("-c", "import muster.kubernetes"),
    "ray": ("-c", "import muster.ray, cloudpickle, ray"),
    "fuzz": ("-m", "muster.testing.fuzz", "--programs", "3"),
    "serve": ("-c", "import muster.service.serve"),
}
"""For each extra, and for none, what Python does with it."""

TOOLS: Final = ("hatchling", "hypothesis", "pytest", "pytest-trio", "pytest-xdist", "trustme")
"""What the tests need besides the extras, in the versions of constraints.txt."""

TESTS: Final = (
    "tests/core",
    "tests/actors/cli",
    "tests/actors/feeds",
    "tests/actors/serving/test_serve.py",
)
TESTS_S: Final = 3_600.0
"""How long they may take, in seconds."""


def project() -> dict[str, Any]:
    """Return the table ``project`` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    return dict(found["project"])


def lowest() -> dict[str, str]:
    """Return the lowest version of each package that Muster allows."""
    extras = project()["optional-dependencies"]
    needed = [*project()["dependencies"], *(one for group in extras.values() for one in group)]
    bounds = re.findall(r"^([\w-]+)>=([\w.]+)$", "\n".join(needed), re.MULTILINE)
    assert len(bounds) == len(needed), "each dependency is NAME>=VERSION"
    return dict(bounds)


def tested() -> list[str]:
    """Return the versions of the tools, as pip names them."""
    lines = (PROJECT / "constraints.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line.partition("==")[0] in TOOLS]


class Check:
    """Runs the steps, and counts failures.

    Args:
        python: The Python to install for.
        folder: For all files.
    """

    def __init__(self, python: str, folder: Path) -> None:
        self.failed = 0
        self._python, self._folder = python, folder

    def install(self, what: str, *, low: bool, tools: Sequence[str] = ()) -> Environment | None:
        """Make an environment that has a file of Muster, with extras, and more; None if it fails."""
        name = f"{what.rpartition('/')[2]}, {'lowest' if low else 'newest'}"
        began = time.monotonic()
        made = Environment.make(Path(tempfile.mkdtemp(dir=self._folder)), self._python)
        versions = made.home / "versions.txt"
        # What draws the examples of tests is no part of what they test.
        pinned = [(one, at) for one, at in lowest().items() if not tools or one not in TOOLS]
        versions.write_text("".join(f"{one}=={at}\n" for one, at in pinned if low), "utf-8")
        try:
            made.install(what, *tools, "-c", str(versions))
        except AssertionError as error:
            self.report(name, began, str(error))
            return None
        done = made.run("python", "-m", "pip", "check", cwd=PROJECT)
        self.report(name, began, done.stdout if done.returncode else None)
        return made

    def use(self, made: Environment, extra: str) -> None:
        """Run the command of an extra."""
        began = time.monotonic()
        done = made.run("python", "-P", *USES[extra], cwd=PROJECT)
        self.report(f"  {' '.join(USES[extra])}", began, done.stderr if done.returncode else None)

    def test(self, made: Environment, *paths: str) -> None:
        """Run tests with the installed Muster."""
        began = time.monotonic()
        words = ("-q", "-n", "2", "-p", "no:anyio", "-m", "not takes_long", *paths)
        command = [str(made.home / "bin" / "python"), "-P", "-m", "pytest", *words]
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=TESTS_S,
            check=False,
        )
        last = done.stdout.splitlines()[-1:] or [done.stderr]
        output = done.stdout[-8000:] if done.returncode else None
        self.report(f"  tests: {last[0]}", began, output)

    def report(self, what: str, began: float, wrong: str | None) -> None:
        """Print how a step ended, with its error if it failed."""
        self.failed += wrong is not None
        state = "ok" if wrong is None else "FAILED"
        click.echo(f"{what}: {state} ({time.monotonic() - began:.0f} s)")
        if wrong is not None:
            click.echo(wrong)


def main() -> int:
    """Check all; return the exit status."""
    parser = argparse.ArgumentParser(description="Install Muster in every way that is allowed.")
    parser.add_argument("--python", default=sys.executable, help="the Python to install for")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="which tests are run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, source = build("wheel", folder), build("sdist", folder)
        check = Check(options.python, folder)
        if made := check.install(str(source), low=False):
            check.use(made, "")
        for low in (False, True):
            for extra in USES:
                what = f"{wheel}[{extra}]" if extra else str(wheel)
                if made := check.install(what, low=low):
                    check.use(made, extra)
            what = f"{wheel}[client,kubernetes,serve]"
            if options.tests and (made := check.install(what, low=low, tools=tested())):
                check.test(made, *options.tests)
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
