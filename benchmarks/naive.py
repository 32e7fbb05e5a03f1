"""The naive algorithm and the state machines of Muster on the same small workloads.

The naive model of the tests follows the text of the specification: it sorts everything again for
every allocation. Its input is a workload that is small enough for this. It must make the same
decisions as Muster, one by one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.workloads import WORKLOADS, Workload
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import Configure, Release
from tests.naive.harness import SETTLE, Batch, Drive, Step, What, comparable, run_plainly
from tests.naive.scheduler import NaiveScheduler

SHRUNK: Final = {"W1": 0.04, "W2": 0.004, "W3a": 0.003, "W3b": 0.004, "W4": 0.004}
"""The share of the full size for the naive model."""

RELEASES: Final = 20
"""The largest number of released asks; all at once if a workload releases more at a time."""


def measure(name: str, scale: float) -> dict[str, float]:
    """Run a workload with both.

    Args:
        name: The name of the workload.
        scale: The share of the size in :data:`SHRUNK`.

    Returns:
        The number of ``asks``, the number of allocations ``binds``, and the times of both in
        seconds, ``naive_s`` and ``muster_s``.

    Raises:
        AssertionError: They have made different decisions.
    """
    steps = story(WORKLOADS[name], max(0.002, SHRUNK[name] * scale))
    gc.collect()
    start = time.process_time()
    batches = Drive(NaiveScheduler()).run(steps)
    between = time.process_time()
    gc.collect()
    again = time.process_time()
    announced = run_plainly(steps)
    end = time.process_time()
    check(batches, announced)
    binds = sum(one.decision.kind is Kind.BOUND for one in announced)
    return {"binds": binds, "naive_s": between - start, "muster_s": end - again}


def story(workload: Workload, scale: float) -> list[Step]:
    """Record a workload: its events, and the releases of asks that Muster has bound."""
    stimuli: list[What] = [Configure(config=workload.config), *workload.events(scale), SETTLE]
    if workload.releases:
        announced = run_plainly([Step(0, what) for what in stimuli])
        decisions = [one.decision for one in announced]
        bound = [
            Release(app=one.app, ask=one.ask)
            for one in decisions
            if one.kind is Kind.BOUND and one.app and one.ask
        ]
        for at in range(0, min(len(bound), RELEASES), workload.releases):
            stimuli += [*bound[at : at + workload.releases], SETTLE]
    return [Step(0, what) for what in stimuli]


def check(batches: Sequence[Batch], announced: Sequence[Announced]) -> None:
    """Check that both have made the same decisions.

    Raises:
        AssertionError: They have not.
    """
    wanted: list[tuple[int, Decision]] = [
        (batch.at_us, comparable(decision)) for batch in batches for decision in batch.decisions
    ]
    found = [(one.at_us, comparable(one.decision)) for one in announced]
    if wanted != found:
        place = next(
            (at for at, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]),
            min(len(wanted), len(found)),
        )
        raise AssertionError(f"they differ from decision {place + 1} on")
