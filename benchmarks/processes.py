"""Commands in other processes, and their cost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

import attrs

PROJECT: Final = Path(__file__).resolve().parent.parent


class FailedError(Exception):
    """A measured command has failed; the message has the command and its output."""


@final
@attrs.frozen
class Cost:
    """The cost of a process, and its output.

    Attributes:
        processor_s: The processor time, in seconds.
        wall_s: The wall-clock time, in seconds.
        out: The standard output.
        err: The standard error.
    """

    processor_s: float
    wall_s: float
    out: str
    err: str


def python(*arguments: object, environment: Mapping[str, str] | None = None) -> Cost:
    """Run this Python to its end, in the main folder.

    Raises:
        FailedError: It failed.
    """
    return run([sys.executable, *map(str, arguments)], environment)


def run(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end, in the main folder.

    Args:
        words: The command.
        environment: Changes of its environment.

    Raises:
        FailedError: It failed.
    """
    before, start = _processor_s(), time.perf_counter()
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
        env={**os.environ, "PYTHONHASHSEED": "0", **(environment or {})},
    )
    wall_s = time.perf_counter() - start
    if done.returncode:
        raise FailedError(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}{done.stdout}")
    return Cost(_processor_s() - before, wall_s, done.stdout, done.stderr)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
