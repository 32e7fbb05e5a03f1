"""The number of processor instructions of one fixed small run, counted by callgrind.

The number does not depend on the speed or the load of the computer, so it can be compared over
years, for the same Python. The run is W2 with 1,000 asks, without tasks and with them. The
instructions of the start of the program are counted separately and subtracted.

The run is deterministic: hashes have a fixed seed, and so has trio, which otherwise runs ready tasks
in any order. No task pauses because of its time limit, since callgrind slows everything down.
"""

from __future__ import annotations

import gc
import importlib
import os
import re
import shutil
import sys
from collections.abc import Sequence
from random import Random
from typing import Final

import trio

from benchmarks.drive import with_tasks, without_tasks
from benchmarks.figures import Figure
from benchmarks.processes import FailedError, python, run

SCALE: Final = 0.01
COUNTED: Final = re.compile(r"Collected : (\d+)")
AGREE_PERCENT: Final = 0.1


def measure(scale: float) -> list[Figure]:
    """Count everything twice; the counts should agree."""
    share = max(0.001, SCALE * scale)
    python("-m", "benchmarks.instructions", "tasks", share)  # so that all modules are compiled
    nothing = count("nothing", share)
    plain = [count("plain", share) - nothing for _ in range(2)]
    tasks = [count("tasks", share) - nothing for _ in range(2)]
    apart = max(abs(one - other) / one * 100 for one, other in (plain, tasks))
    asks = f"{int(10_000 * share) * 10:,} asks"
    return [
        Figure("instructions", "without tasks", plain[0] / 1e6, "million", raw=asks),
        Figure("instructions", "with tasks", tasks[0] / 1e6, "million", raw=asks),
        Figure("instructions", "two counts differ by", apart, "%", target=AGREE_PERCENT),
    ]


def available() -> bool:
    """Return whether callgrind is available here."""
    return shutil.which("valgrind") is not None


def count(what: str, share: float) -> int:
    """Count the instructions of a run.

    Args:
        what: `nothing`, `plain` or `tasks`.
        share: The share of the full size of W2.

    Raises:
        FailedError: callgrind has not printed a number.
    """
    words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}"]
    program = [sys.executable, "-m", "benchmarks.instructions", what, str(share)]
    said = run([*words, *program]).err
    found = COUNTED.search(said)
    if found is None:
        raise FailedError(f"callgrind has not counted: {said}")
    return int(found[1])


def leave_nothing_to_chance() -> None:
    """Make trio run tasks in the same order each time, and let no task pause early."""
    internals = importlib.import_module("trio._core._run")
    vars(internals)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    vars(internals)["_r"] = Random(0)
    pace = importlib.import_module("muster._runtime.pace")
    vars(pace)["perf_counter"] = lambda: 0.0


def main(arguments: Sequence[str]) -> None:
    """Run the code that is counted."""
    what, share = arguments[0], float(arguments[1])
    gc.set_threshold(100_000, 50, 100)
    leave_nothing_to_chance()
    match what:
        case "plain":
            without_tasks("W2", share)
        case "tasks":
            with_tasks("W2", share)
        case _:
            trio.run(trio.lowlevel.checkpoint)


if __name__ == "__main__":
    main(sys.argv[1:])
