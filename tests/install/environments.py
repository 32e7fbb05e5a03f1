"""Wheels, source distributions, and fresh environments with Muster installed as by a user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import attrs

PROJECT: Final = Path(__file__).parent.parent.parent
LIMIT_S: Final = 600.0
"""How long one command may take, in seconds."""

BUILD: Final = (
    "import sys, hatchling.build as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"
)


def environment(**changes: str) -> dict[str, str]:
    """Return the variables of this process without those that lead to the source tree."""
    left_out = ("MUSTER_", "PYTHONPATH", "VIRTUAL_ENV")
    kept = {name: one for name, one in os.environ.items() if not name.startswith(left_out)}
    return kept | changes


def build(kind: str, into: Path, source: Path = PROJECT, **changes: str) -> Path:
    """Build without compiling, with the tools of this Python; return the file.

    Args:
        kind: ``wheel`` or ``sdist``.
        into: The folder for the file.
        source: The source tree.
        changes: Other variables of the environment.
    """
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(into)],
        cwd=source,
        env=environment(MUSTER_PURE="1", **changes),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return into / done.stdout.split()[-1]


@attrs.frozen
class Environment:
    """A fresh environment.

    Attributes:
        home: Its folder.
    """

    home: Path

    @classmethod
    def make(cls, home: Path, python: str = sys.executable) -> Environment:
        """Make one that has pip alone.

        Args:
            home: The folder.
            python: The Python that it is of.
        """
        subprocess.run([python, "-m", "venv", str(home)], timeout=LIMIT_S, check=True)
        return cls(home)

    def install(self, *words: str) -> None:
        """Install packages with pip, as its command line names them.

        Raises:
            AssertionError: If pip fails.
        """
        done = self.run("python", "-m", "pip", "install", "--quiet", *words, cwd=self.home)
        assert done.returncode == 0, f"pip install {' '.join(words)}\n{done.stderr}"

    def run(
        self, program: str, *words: str, cwd: Path, **changes: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its programs in a folder, without input; return how it ended."""
        return subprocess.run(
            [str(self.home / "bin" / program), *words],
            cwd=cwd,
            env=environment(PIP_DISABLE_PIP_VERSION_CHECK="1", **changes),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
