"""The time of ``muster --version``: the least that every use of the command costs."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.figures import Figure
from benchmarks.processes import Cost, python, run

TIMES: Final = 10
TARGET_S: Final = 0.15


def measure(scale: float) -> list[Figure]:
    """Measure some starts after a first one; and starts of Python alone, for comparison."""
    times = max(3, int(TIMES * scale))
    command = Path(sys.executable).with_name("muster")
    words = [str(command)] if command.exists() else [sys.executable, "-m", "muster"]
    costs: list[Cost] = []
    bare: list[Cost] = []
    for _ in range(times + 1):
        costs.append(run([*words, "--version"]))
        bare.append(python("-c", "pass"))
    took = median(cost.wall_s for cost in costs[1:])
    processor = median(cost.processor_s for cost in costs[1:])
    empty = median(cost.wall_s for cost in bare[1:])
    note = f"{processor:.3f} s of the processor; Python that does nothing: {empty:.3f} s"
    return [Figure("start-up", "muster --version", took, "s", target=TARGET_S, note=note)]
