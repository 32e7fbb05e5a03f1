"""Who watches a replay looks at the scheduler between two instants, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import pytest

from muster import Simulation
from muster.feeds import FeedItem
from muster.replay import Beginning, replay
from muster.testing import Recording
from muster_core.decisions import Announced, Kind
from tests.actors.replay.helpers import items

SECOND = 1_000_000

#: At 10 s an ask ends, and one of high priority comes: that is one batch.
FEED = """\
- {op: add_node, node: n, capacity: {vcore: 1}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: first, resources: {vcore: 1}, run_for: 10}
- {op: add_ask, app: a, ask: patient, resources: {vcore: 1}, run_for: 10, at: 5}
- {op: add_ask, app: a, ask: urgent, resources: {vcore: 1}, run_for: 10, priority: 9, at: 10}
"""


@final
class EverySecond:
    """Looks every second.

    Attributes:
        looks: When it looked, in seconds, and how many asks held a node.
        ends: The same for the last look.
    """

    def __init__(self) -> None:
        self.looks: list[tuple[int, int]] = []
        self.ends: list[tuple[int, int]] = []
        self._due_us = 0

    def begin(self, beginning: Beginning, /) -> None:
        """Nothing to begin with."""

    def saw(self, item: FeedItem, /) -> None:
        """Nothing to take note of."""

    def write(self, batch: Sequence[Announced], /) -> None:
        """Nothing to take note of."""

    def due_us(self) -> int:
        """Give the next second."""
        return self._due_us

    async def look(self, scheduler: Simulation, at_us: int, /) -> None:
        """Count what holds a node."""
        self._due_us = at_us + SECOND
        self.looks.append((at_us // SECOND, await self._held(scheduler)))

    async def look_at_end(self, scheduler: Simulation, at_us: int, /) -> None:
        """Count it for the last time."""
        self.ends.append((at_us // SECOND, await self._held(scheduler)))

    async def _held(self, scheduler: Simulation) -> int:
        snapshot = await scheduler.snapshot()
        assert (scheduler.next_timer_us() is None) == (not snapshot.apps)
        assert set(scheduler.queues()) == set(snapshot.queues)
        return sum(ask.node is not None for app in snapshot.apps.values() for ask in app.asks)


async def test_looking_does_not_part_a_batch() -> None:
    log, watcher = Recording(), EverySecond()
    await replay(items(FEED), journals=[log], watchers=[watcher])
    bound = [
        (announced.at_us // SECOND, announced.decision.ask)
        for announced in log.decisions
        if announced.decision.kind is Kind.BOUND
    ]

    assert bound == [(0, "first"), (10, "urgent"), (20, "patient")]
    # The application completes 30 s after its last ask; then no timer is left to wait for.
    assert watcher.looks == [(second, int(second < 30)) for second in range(61)]
    assert watcher.ends == [(60, 0)]


@pytest.mark.parametrize(("until", "last"), [(7, 7), (60, 60), (100, 100)])
async def test_it_looks_for_the_last_time_when_the_replay_ends(until: int, last: int) -> None:
    watcher = EverySecond()
    await replay(items(FEED), watchers=[watcher], until_us=until * SECOND)

    assert watcher.ends[0][0] == last
    assert all(second <= until for second, _ in watcher.looks)


async def test_with_a_refusal_that_ends_the_replay() -> None:
    watcher = EverySecond()
    await replay(
        items(FEED + "- {op: add_app, app: a, queue: q}\n"), watchers=[watcher], strict=True
    )

    assert watcher.ends == [(10, 1)]
