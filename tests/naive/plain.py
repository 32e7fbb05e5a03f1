"""The machines of Muster in one loop, taking the same steps as the naive model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced
from tests.naive.harness import Marker, Step


def run_plainly(
    steps: Sequence[Step],
    scheduler: PlainScheduler | None = None,
    settled: Callable[[], None] | None = None,
) -> list[Announced]:
    """Take steps with the machines of Muster, and give what they announced.

    Args:
        steps: The steps.
        scheduler: Who takes them, or None for one of its own.
        settled: Called after each ``SETTLE``.
    """
    scheduler = PlainScheduler() if scheduler is None else scheduler
    for index, step in enumerate(steps):
        if isinstance(step.what, Marker):
            scheduler.settle(step.at_us)
            if settled is not None:
                settled()
        else:
            scheduler.submit(step.what, step.at_us, index)
    scheduler.finish()
    return scheduler.announced
