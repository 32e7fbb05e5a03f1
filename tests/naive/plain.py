"""The machines of Muster in one loop, taking the same steps as the naive model."""

from __future__ import annotations

from collections.abc import Sequence

from muster_core.coordinator.plain import PlainScheduler
from muster_core.decisions import Announced
from tests.naive.harness import Marker, Step


def run_plainly(steps: Sequence[Step], scheduler: PlainScheduler | None = None) -> list[Announced]:
    """Take steps with the machines of Muster, and give what they announced."""
    scheduler = PlainScheduler() if scheduler is None else scheduler
    for index, step in enumerate(steps):
        if isinstance(step.what, Marker):
            scheduler.settle(step.at_us)
        else:
            scheduler.submit(step.what, step.at_us, index)
    scheduler.finish()
    return scheduler.announced
