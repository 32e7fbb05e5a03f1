"""``preemption.delay``: which pending asks may take something from others already.

EVICTION-5 to EVICTION-7. An ask has to be pending for as long as its leaf says before it may
reclaim or preempt, and the end of that time is a timer. As many asks come at one instant,
a leaf counts how many of its pending asks count since when, and only of those that could
ever take something; each such instant has one deadline, whatever the number of asks.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, final

from muster_core.values.configuration import PreemptionPolicy
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue

Entry = tuple[int, int, int]
"""When a delay is over, the leaf, and since when asks in it count as pending."""

_KEPT: Final = 64
"""How many ends of delays are kept in any case, whether they still stand or not."""


@final
class Delays:
    """The ends of all delays.

    Args:
        queues: The queues of the view, by key.
    """

    def __init__(self, queues: Mapping[int, ViewQueue]) -> None:
        self._queues = queues
        #: ``preemption.enabled`` of the partition.
        self.enabled = True
        #: Settings have changed, so that everything has to be looked at anew.
        self.stale = False
        #: Delays that are over at this instant, in microseconds, need no timer any more.
        self._now_us = 0
        self._ends: list[Entry] = []
        #: How many there may be before it is looked for those that do not stand any more.
        self._limit = _KEPT
        #: What is in the heap, so that nothing is twice.
        self._listed: set[Entry] = set()
        #: What is to be put there if it stands at the end of the batch: most asks are bound then.
        self._new: dict[Entry, None] = {}

    def __len__(self) -> int:
        """Give how many ends are kept."""
        return len(self._ends)

    def watch(self, leaf: LeafView) -> Steps[None]:
        """Find out which asks of a leaf could take something, and count those."""
        leaf.watched = self._watched(leaf)
        leaf.since.clear()
        if not (leaf.watched or (leaf.watched is not None and leaf.preempting)):
            return  # None of its asks could ever take anything.
        for app in leaf.apps.values():
            yield
            for ask in app.pending.values():
                if leaf.watches(ask):
                    self.add(leaf, app.pending_since_us(ask))

    def _watched(self, leaf: LeafView) -> frozenset[str] | None:
        policy = leaf.config.settings.preemption_policy
        if not self.enabled or policy is PreemptionPolicy.DISABLED:
            return None
        above = [queue for queue in leaf.upward() if queue.parent is not None]
        return frozenset(name for queue in above for name in queue.config.guaranteed)

    def refresh(self) -> Steps[None]:
        """Take over settings that have changed."""
        if self.stale:
            self.stale = False
            for queue in self._queues.values():
                yield
                if isinstance(queue, LeafView):
                    yield from self.watch(queue)

    def add(self, leaf: LeafView, since_us: int) -> None:
        """Count one more pending ask since an instant, in microseconds."""
        leaf.since[since_us] = leaf.since.get(since_us, 0) + 1
        entry = (since_us + leaf.config.settings.preemption_delay_us, leaf.key, since_us)
        if entry[0] > self._now_us and entry not in self._listed:
            self._new[entry] = None

    def remove(self, leaf: LeafView, since_us: int) -> None:
        """Count one pending ask less since an instant, in microseconds."""
        leaf.since[since_us] -= 1
        if not leaf.since[since_us]:
            del leaf.since[since_us]

    @staticmethod
    def is_over(leaf: LeafView, app: ViewApp, ask: Ask, now_us: int) -> bool:
        """Say whether the delay of a pending ask is over."""
        return app.pending_since_us(ask) + leaf.config.settings.preemption_delay_us <= now_us

    def pass_to(self, now_us: int) -> None:
        """Let time pass."""
        self._now_us = now_us
        while self._ends and self._ends[0][0] <= now_us:
            self._drop_first()

    def next_us(self) -> int | None:
        """Give the instant of the next end of a delay, in microseconds, or None."""
        for entry in self._new:
            if entry[0] > self._now_us and self._stands(entry):
                self._listed.add(entry)
                heappush(self._ends, entry)
        self._new.clear()
        if len(self._ends) > self._limit:  # Most may be of asks that are no longer pending.
            self._ends = [entry for entry in self._ends if self._stands(entry)]
            heapify(self._ends)
            self._listed = set(self._ends)
            self._limit = 2 * len(self._ends) + _KEPT
        while self._ends and not self._stands(self._ends[0]):
            self._drop_first()
        return self._ends[0][0] if self._ends else None

    def _drop_first(self) -> None:
        self._listed.remove(heappop(self._ends))

    def _stands(self, entry: Entry) -> bool:
        end_us, key, since_us = entry
        leaf = self._queues.get(key)
        if not isinstance(leaf, LeafView) or since_us not in leaf.since:
            return False
        return since_us + leaf.config.settings.preemption_delay_us == end_us

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        assert not self.stale
        assert len(self._ends) == len(self._listed)
        for leaf in self._queues.values():
            if not isinstance(leaf, LeafView):
                continue
            assert leaf.watched == self._watched(leaf)
            fresh: dict[int, int] = {}
            for app in leaf.apps.values():
                for ask in app.pending.values():
                    if leaf.watches(ask):
                        since_us = app.pending_since_us(ask)
                        fresh[since_us] = fresh.get(since_us, 0) + 1
            assert leaf.since == fresh
            # Every delay that goes on has its timer.
            for since_us in fresh:
                end_us = since_us + leaf.config.settings.preemption_delay_us
                entry = (end_us, leaf.key, since_us)
                known = entry in self._listed or entry in self._new
                assert end_us <= self._now_us or known
