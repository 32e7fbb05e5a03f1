"""Other processes: what a command costs as a whole."""

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
    """A command that is measured has failed; the message says which one, and what it said."""


@final
@attrs.frozen
class Cost:
    """What a process took.

    Attributes:
        processor_s: The time of the processor, in seconds.
        wall_s: The real time, in seconds.
        out: What it wrote on standard output.
        err: What it wrote on standard error.
    """

    processor_s: float
    wall_s: float
    out: str
    err: str


def python(*arguments: object, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command of this Python to its end, in the main folder.

    Raises:
        FailedError: It failed.
    """
    return run([sys.executable, *map(str, arguments)], environment)


def run(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end, in the main folder.

    Args:
        words: The command.
        environment: What differs in its environment.

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
