"""How long asks are pending before they may reclaim or preempt: ``preemption.delay``.

EVICTION-5 to EVICTION-7. Since many asks become pending at one instant, a leaf counts its pending
asks by that instant, and only those that could ever evict others; each such instant has one deadline
for all its asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Final, final

from muster_core.owners.asks import Ask
from muster_core.structures.steps import PART, Steps, in_pieces
from muster_core.values.configuration import PreemptionPolicy
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import EVERY_TYPE, LeafView
from muster_core.view.tree.queue import ViewQueue

DelayEnd = tuple[int, int, int]
"""The end of a delay, the key of the leaf, and the instant from which asks count as pending."""

_DELAYS_KEPT: Final = 64
"""How many ends of delays are kept before those that no longer apply are removed."""


@final
class Delays:
    """The ends of all delays."""

    def __init__(self, queues: Mapping[int, ViewQueue]) -> None:
        self._queues = queues
        #: ``preemption.enabled`` of the partition.
        self.enabled = True
        #: Settings have changed, so that all leaves must be counted again.
        self.stale = False
        #: The instant of the last batch, in microseconds; delays that are over by then need no
        #: timer.
        self.passed_us = 0
        #: The leaves in which asks age, by key: from the same instants on as their delays.
        self.aging: dict[int, LeafView] = {}
        #: The leaves in which aging has ended in this batch.
        self.unaged: list[LeafView] = []
        self._ends: list[DelayEnd] = []
        #: How many ends there may be before those that no longer apply are removed.
        self._limit = _DELAYS_KEPT
        #: The entries of the heap, so that none is in it twice.
        self._listed: set[DelayEnd] = set()
        #: Entries to add if they still apply at the end of the batch, when most asks are bound.
        self._new: dict[DelayEnd, None] = {}

    # AGING-7
    def end_aging(self, queue: int) -> None:
        """Let no ask of a queue with a key age any more, if they do."""
        leaf = self.aging.pop(queue, None)
        if leaf is not None:
            self.unaged.append(leaf)

    def __len__(self) -> int:
        """Return the number of ends that are kept."""
        return len(self._ends)

    def watch(self, leaf: LeafView) -> Steps[None]:
        """Count the asks of a leaf that could reclaim or preempt."""
        leaf.watched = self._watched(leaf)
        leaf.since.clear()
        if not (leaf.watched or (leaf.watched is not None and leaf.preempting)):
            return  # None of its asks could ever evict another one.
        for app in leaf.apps.values():
            for asks in in_pieces(app.each_pending(), PART):
                yield
                for ask in asks:
                    if leaf.watches(ask):
                        self.add(leaf, app.pending_since_us(ask))

    def _watched(self, leaf: LeafView) -> frozenset[str] | None:
        policy = leaf.config.settings.preemption_policy
        # EVICTION-3, EVICTION-4
        if not self.enabled or policy is PreemptionPolicy.DISABLED:
            return None
        above = [queue for queue in leaf.upward() if queue.parent is not None]
        # SHARE-14
        if any(queue.by_weight for queue in above):
            return EVERY_TYPE
        return frozenset(name for queue in above for name in queue.config.guaranteed)

    def refresh(self) -> Steps[None]:
        """Count all leaves again if settings have changed."""
        if self.stale:
            self.stale = False
            for queue in self._queues.values():
                yield
                if isinstance(queue, LeafView):
                    yield from self.watch(queue)

    # CHECKPOINT-5
    def load(self, passed_us: int) -> Steps[None]:
        """Count all leaves after they were loaded."""
        self.passed_us, self.stale = passed_us, True
        self._new.clear()
        yield from self.refresh()

    def add(self, leaf: LeafView, since_us: int) -> None:
        """Count one more ask that is pending since an instant, in microseconds."""
        leaf.since[since_us] = leaf.since.get(since_us, 0) + 1
        entry = (since_us + leaf.config.settings.preemption_delay_us, leaf.key, since_us)
        if entry[0] > self.passed_us and entry not in self._listed:
            self._new[entry] = None

    def remove(self, leaf: LeafView, since_us: int) -> None:
        """Count one ask less that is pending since an instant, in microseconds."""
        leaf.since[since_us] -= 1
        if not leaf.since[since_us]:
            del leaf.since[since_us]

    # EVICTION-5
    @staticmethod
    def is_over(leaf: LeafView, app: ViewApp, ask: Ask, now_us: int) -> bool:
        """Return whether the delay of a pending ask is over."""
        return app.pending_since_us(ask) + leaf.config.settings.preemption_delay_us <= now_us

    def pass_to(self, now_us: int) -> None:
        """Advance the present instant, in microseconds."""
        self.passed_us = now_us
        while self._ends and self._ends[0][0] <= now_us:
            self._drop_first()

    # EVICTION-7
    def next_us(self) -> int | None:
        """Return the instant at which the next delay ends, in microseconds, or None."""
        if not (self._new or self._ends):
            return None
        for entry in self._new:
            if entry[0] > self.passed_us and self._applies(entry):
                self._listed.add(entry)
                heappush(self._ends, entry)
        self._new.clear()
        if len(self._ends) > self._limit:  # Most may be for asks that are no longer pending.
            self._ends = [entry for entry in self._ends if self._applies(entry)]
            heapify(self._ends)
            self._listed = set(self._ends)
            self._limit = 2 * len(self._ends) + _DELAYS_KEPT
        while self._ends and not self._applies(self._ends[0]):
            self._drop_first()
        return self._ends[0][0] if self._ends else None

    def _drop_first(self) -> None:
        self._listed.remove(heappop(self._ends))

    def _applies(self, entry: DelayEnd) -> bool:
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
                for ask in app.each_pending():
                    if leaf.watches(ask):
                        since_us = app.pending_since_us(ask)
                        fresh[since_us] = fresh.get(since_us, 0) + 1
            assert leaf.since == fresh
            # Every delay that is not over has its timer.
            for since_us in fresh:
                end_us = since_us + leaf.config.settings.preemption_delay_us
                entry = (end_us, leaf.key, since_us)
                known = entry in self._listed or entry in self._new
                assert end_us <= self.passed_us or known
