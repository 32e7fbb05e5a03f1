"""Measures one thing in a process of its own.

    python -m benchmarks.child benchmarks.drive:with_tasks W1 --scale 0.1

So neither memory nor the state of the garbage collector is left over from what was measured
before, and the peak of memory is that of this thing. What is measured is a function that takes
the scale, or an argument and the scale, and gives numbers by their names, or figures. With
them, ``lb_s`` is the yardstick of ``lower_bound.py`` as this process found it, before and after,
and ``peak_bytes`` is how much memory there was at the most. All of it is printed as JSON.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast, final

import attrs

from benchmarks.figures import Figure
from benchmarks.lower_bound import best_of

Result = Mapping[str, float] | Sequence[Figure]

STATUS = Path("/proc/self/status")


@final
@attrs.frozen
class Measured:
    """What a process has measured.

    Attributes:
        values: Numbers by their names.
        figures: What the measuring has already made figures of.
    """

    values: Mapping[str, float]
    figures: Sequence[Figure] = ()

    def __getitem__(self, name: str) -> float:
        """Give one of the numbers."""
        return self.values[name]


def measure(target: str, arguments: Sequence[str], scale: float) -> Measured:
    """Measure something here.

    Args:
        target: The function: `MODULE:NAME`.
        arguments: What it is given.
        scale: The share of the full size.
    """
    module, _, name = target.partition(":")
    function = cast("Callable[..., Result]", getattr(importlib.import_module(module), name))
    gc.set_threshold(100_000, 50, 100)  # as the command does; the usual ones cost a third more
    before = best_of()
    gc.collect()
    found = function(*arguments, scale)
    peak = peak_bytes()
    extra = {"lb_s": min(before, best_of()), "peak_bytes": float(peak)}
    if isinstance(found, Mapping):
        return Measured({**found, **extra})
    return Measured(extra, found)


def peak_bytes() -> int:
    """Give how much memory this process had at the most, in bytes.

    ``ru_maxrss`` would count the parent's memory in where the process was forked from it.
    """
    if STATUS.exists():
        for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def main(arguments: Sequence[str]) -> None:
    """Measure what the command line names, and print it as JSON."""
    parser = argparse.ArgumentParser(description="Measure one thing in this process.")
    parser.add_argument("target", metavar="MODULE:FUNCTION")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    options = parser.parse_args(arguments)
    found = measure(options.target, options.arguments, options.scale)
    print(json.dumps(attrs.asdict(found)))


if __name__ == "__main__":
    main(sys.argv[1:])
