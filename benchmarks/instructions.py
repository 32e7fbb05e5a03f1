"""The number of processor instructions of an allocation, counted by callgrind.

The number does not depend on the speed or the load of the computer, so it can be compared over
years, for the same Python. Each case is run twice, the second time with about 1,000 more asks,
releases or members of gangs; the difference of the two counts is divided by how many there were
more. So the start of the program does not count.

The runs are deterministic: hashes have a fixed seed, and so has trio, which otherwise runs ready
tasks in any order. No task pauses because of its time limit, since callgrind slows everything down.
"""

from __future__ import annotations

import gc
import importlib
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, final

import attrs

from benchmarks import jobs
from benchmarks.drive import with_tasks, without_tasks
from benchmarks.figures import Figure
from benchmarks.memory import APPS, EACH, asks as ingest
from benchmarks.processes import FailedError, python, run

COUNTED: Final = re.compile(r"Collected : (\d+)")
AGREE_PERCENT: Final = 0.1
MILLION: Final = "million"
WAYS: Final = {"core": "core without tasks", "tasks": "with tasks"}


@final
@attrs.frozen
class Run:
    """A run that is counted.

    Attributes:
        what: The name of a workload, or `ingest`.
        share: The share of its full size.
        releases: How many running asks are released, if the workload releases any.
    """

    what: str
    share: float
    releases: int = 0


@final
@attrs.frozen
class Case:
    """Two runs and two more whose counts are subtracted, if there are any.

    Attributes:
        about: What there is 1,000 more of in the larger run.
        less: The smaller run.
        more: The larger run.
        plain: For gangs the name of the workload with the same members as plain asks.
        ways: `core`, `tasks`, or both.
    """

    about: str
    less: Run
    more: Run
    plain: str = ""
    ways: Sequence[str] = ("core", "tasks")


CASES: Final[Mapping[str, Case]] = {
    "W1": Case("1,000 more asks", Run("W1", 0.1), Run("W1", 0.2)),
    "W2": Case("1,000 more asks", Run("W2", 0.01), Run("W2", 0.02)),
    "W3a": Case("1,000 releases", Run("W3a", 0.05), Run("W3a", 0.05, 1_000)),
    "W3b": Case("1,000 releases", Run("W3b", 0.05), Run("W3b", 0.05, 1_000)),
    "W4": Case("1,000 more asks", Run("W4", 0.01), Run("W4", 0.02)),
    "limits": Case("1,000 more asks", Run("limits", 0.01), Run("limits", 0.02)),
    "W6a": Case("1,000 members beyond asks", Run("W6a", 0.03), Run("W6a", 0.06), "asks-110"),
    **{name: Case("1,000 more jobs", Run(name, 0.05), Run(name, 0.15)) for name in jobs.VARIANTS},
    "ingest": Case("1,000 events", Run("ingest", 0.001), Run("ingest", 0.002), ways=("core",)),
}

BASE_COMMIT: Final = "69a0ed0"
BASE: Final[Mapping[tuple[str, str], float]] = {
    ("W1", "core"): 205.505,
    ("W1", "tasks"): 201.597,
    ("W2", "core"): 388.300,
    ("W2", "tasks"): 471.060,
    ("W3a", "core"): 1_221.911,
    ("W3a", "tasks"): 1_771.019,
    ("W3b", "core"): 656.573,
    ("W3b", "tasks"): 849.953,
    ("W4", "core"): 400.654,
    ("W4", "tasks"): 483.147,
    ("W6a", "core"): 113.061,
    ("W6a", "tasks"): 113.272,
    ("ingest", "core"): 88.172,
}
"""What CPython 3.11.7 needed with the commit that the goals refer to, in millions; not of new cases."""

GOALS: Final[Mapping[tuple[str, str], float]] = {
    ("W1", "core"): 0.60,
    ("W1", "tasks"): 0.60,
    ("W2", "core"): 0.70,
    ("W2", "tasks"): 0.70,
    ("W3a", "tasks"): 0.55,
    ("W3b", "tasks"): 0.55,
    ("W4", "core"): 0.70,
    ("W4", "tasks"): 0.70,
    ("W6a", "core"): 0.75,
    ("W6a", "tasks"): 0.75,
    ("ingest", "core"): 0.90,
}
"""The share of ``BASE`` that each case is to need at most, where there is a goal."""

LIMITS: Final[Mapping[tuple[str, str], float]] = {
    ("jobs", "tasks"): 1_900,
    ("jobs that wait", "tasks"): 2_300,
    ("jobs, backfill", "tasks"): 1.5 * 2_300,
}
"""What the cases that are new since then are to need at most, in millions."""


def measure(scale: float) -> list[Figure]:
    """Count all cases; the scale changes nothing, as every run is small."""
    del scale
    figures = [_figure(name, way) for name, case in CASES.items() for way in case.ways]
    again = CASES["W2"].less  # Whether the runs are as deterministic as they should be.
    counts = [count("tasks", again) for _ in range(2)]
    apart = abs(counts[0] - counts[1]) / counts[0] * 100
    return [*figures, Figure("instructions", "two counts differ by", apart, "%", AGREE_PERCENT)]


def _figure(name: str, way: str) -> Figure:
    case, found = CASES[name], each(name, way) / 1_000  # Thousands for one: millions for 1,000.
    base = BASE.get((name, way)) if sys.version_info[:2] == (3, 11) else None
    goal = GOALS.get((name, way))
    target = LIMITS.get((name, way)) if base is None or goal is None else goal * base
    raw = "" if base is None else f"{found / base:.2f} × {BASE_COMMIT}"
    what = f"{name}: {case.about}, {WAYS[way]}"
    return Figure("instructions", what, found, MILLION, target, raw=raw)


def each(name: str, way: str) -> float:
    """Return how many instructions a case needs for one ask, release, member or event.

    Args:
        name: The name of the case.
        way: `core` or `tasks`.
    """
    case = CASES[name]
    units = _units(case.more) - _units(case.less)
    more = count(way, case.more) - count(way, case.less)
    if case.plain:
        plain = [attrs.evolve(one, what=case.plain) for one in (case.more, case.less)]
        more -= count(way, plain[0]) - count(way, plain[1])
    return more / units


def _units(one: Run) -> int:
    """Count the asks, releases or members of a run."""
    if one.what == "ingest":
        return round(one.share * APPS) * EACH
    if one.what in jobs.VARIANTS:
        return round(one.share * jobs.JOBS)
    if one.releases or one.what.startswith("W3"):
        return one.releases
    return int(carry_out("core", one)["asks"])


def available() -> bool:
    """Return whether callgrind is available here."""
    return shutil.which("valgrind") is not None


def count(way: str, one: Run) -> int:
    """Count the instructions of a run.

    Raises:
        FailedError: callgrind has not printed a number.
    """
    words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}"]
    arguments = ("-m", "benchmarks.instructions", way, one.what, str(one.share), str(one.releases))
    python(*arguments)  # So that all modules are compiled.
    output = run([*words, sys.executable, *arguments]).err
    found = COUNTED.search(output)
    if found is None:
        raise FailedError(f"callgrind has not counted: {output}")
    return int(found[1])


def leave_nothing_to_chance() -> None:
    """Make trio run tasks in the same order each time, and let no task pause early."""
    internals = importlib.import_module("trio._core._run")
    vars(internals)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    vars(internals)["_r"] = Random(0)
    pace = importlib.import_module("muster._runtime.clock")
    vars(pace)["perf_counter"] = lambda: 0.0


def carry_out(way: str, one: Run) -> Mapping[str, float]:
    """Carry out a run in this process; return its measurements."""
    if one.what == "ingest":
        return ingest(one.share, 1)
    if one.what in jobs.VARIANTS:
        run_jobs = jobs.with_tasks if way == "tasks" else jobs.without_tasks
        run_jobs(one.what, _units(one))
        return {}
    function = with_tasks if way == "tasks" else without_tasks
    return function(one.what, one.share, releases=one.releases)


def main(arguments: Sequence[str]) -> None:
    """Run the code that is counted."""
    way, what, share, releases = arguments
    gc.set_threshold(100_000, 50, 100)
    leave_nothing_to_chance()
    carry_out(way, Run(what, float(share), int(releases)))


if __name__ == "__main__":
    main(sys.argv[1:])
