"""Runs one measurement in a process of its own.

    python -m benchmarks.child benchmarks.drive:with_tasks W1 --scale 0.1

So earlier measurements affect neither memory nor the garbage collector, and the peak of memory
belongs to this measurement. A measurement is a function that takes the scale, or an argument and
the scale, and returns numbers by name, or figures. The process adds ``lb_s``, the yardstick of
``lower_bound.py`` as measured before and after it, and ``peak_bytes``, the peak of memory. All of
this is printed as JSON.
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
    """The results of a process.

    Attributes:
        values: Numbers by name.
        figures: The figures that the measurement has returned.
    """

    values: Mapping[str, float]
    figures: Sequence[Figure] = ()

    def __getitem__(self, name: str) -> float:
        """Return the number with this name."""
        return self.values[name]


def measure(target: str, arguments: Sequence[str], scale: float) -> Measured:
    """Run a measurement in this process.

    Args:
        target: The function: `MODULE:NAME`.
        arguments: Its arguments before the scale.
        scale: The share of the full size.
    """
    module, _, name = target.partition(":")
    function = cast("Callable[..., Result]", getattr(importlib.import_module(module), name))
    gc.set_threshold(100_000, 50, 100)  # as the command does; the usual ones cost a third more
    times = 3 if scale >= 0.1 else 1
    before = best_of(times)
    gc.collect()
    found = function(*arguments, scale)
    peak = peak_bytes()
    extra = {"lb_s": min(before, best_of(times)), "peak_bytes": float(peak)}
    if isinstance(found, Mapping):
        return Measured({**found, **extra})
    return Measured(extra, found)


def peak_bytes() -> int:
    """Return the peak of memory of this process, in bytes.

    ``ru_maxrss`` would include the memory of the parent if the process was forked from it.
    """
    if STATUS.exists():
        for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def main(arguments: Sequence[str]) -> None:
    """Run the measurement of the command line, and print the results as JSON."""
    parser = argparse.ArgumentParser(description="Measure one thing in this process.")
    parser.add_argument("target", metavar="MODULE:FUNCTION")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    options = parser.parse_args(arguments)
    found = measure(options.target, options.arguments, options.scale)
    print(json.dumps(attrs.asdict(found)))


if __name__ == "__main__":
    main(sys.argv[1:])
