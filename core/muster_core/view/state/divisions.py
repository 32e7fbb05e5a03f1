"""The amounts that queues deserve whose parents share by weight (SHARE-2 to SHARE-11).

Such a parent divides its amounts among its children, each type by itself. The part of a child
replaces its ``guaranteed``; readers of either use ``deserved`` of the queue.

The amounts change between batches only, and most batches change none: a division keeps what it was
computed from, and is made again when a result may be another one. Mostly only the asks of a child
have changed, which gets no more than its asks come to. If there were more of them before and are
more of them now than it ever had on the way, no child gets anything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import final

from muster_core.structures.amounts import divide
from muster_core.view.tree.queue import ParentView, ViewQueue


@final
class _Division:
    """How a parent shares among its children; the first index is always that of the type."""

    __slots__ = (
        "amounts",
        "ceilings",
        "children",
        "floors",
        "peaks",
        "places",
        "weights",
        "wholes",
    )

    def __init__(self, parent: ParentView) -> None:
        names = parent.types.names
        # SHARE-2, SHARE-8
        self.children = sorted(parent.children.values(), key=_path)
        self.places = {child.key: place for place, child in enumerate(self.children)}
        self.weights = [child.config.settings.weight for child in self.children]
        self.floors = [[child.config.guaranteed[name] for child in self.children] for name in names]
        ceilings = [_ceilings(child) for child in self.children]
        self.ceilings = [[most[number] for most in ceilings] for number in range(len(names))]
        self.wholes = [-1 for _ in names]
        #: What each child gets, and the most that it had on the way.
        self.amounts: list[list[int]] = [[] for _ in names]
        self.peaks: list[list[int]] = [[] for _ in names]

    def update(
        self, parent: ParentView, changed: Iterable[ViewQueue], total: Mapping[str, int]
    ) -> list[int]:
        """Divide again where need be; return the places of the children that get something else."""
        found: set[int] = set()
        for number in self._stale_types(parent, changed, total):
            before = self.amounts[number]
            now, self.peaks[number] = divide(
                self.wholes[number], self.weights, self.floors[number], self.ceilings[number]
            )
            self.amounts[number] = now
            if not before:  # This is the first time.
                found.update(range(len(now)))
            elif now != before:
                found.update(place for place, one in enumerate(now) if one != before[place])
        return sorted(found)

    def _stale_types(
        self, parent: ParentView, changed: Iterable[ViewQueue], total: Mapping[str, int]
    ) -> set[int]:
        """Take the present amounts and requests of children; return the types to divide again."""
        stale: set[int] = set()
        for number, whole in _wholes(parent, total):
            if whole != self.wholes[number]:
                self.wholes[number] = whole
                stale.add(number)
        for child in changed:
            place = self.places[child.key]
            for number, most in enumerate(_ceilings(child)):
                before = self.ceilings[number][place]
                self.ceilings[number][place] = most
                if most != before and number not in stale:
                    peak = self.peaks[number][place]
                    if peak > most or peak > before:
                        stale.add(number)
        return stale

    def of(self, place: int, names: Iterable[str]) -> Counter[str]:
        """Return the part of a child of each type."""
        amounts = self.amounts
        return Counter({name: amounts[number][place] for number, name in enumerate(names)})


# SHARE-5
def _wholes(parent: ParentView, total: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Yield how much of each type a parent has to share."""
    for number, own, whole in parent.find_divisors(total):
        yield number, int(min(own, whole))  # A value for no amount is less than 1.


# SHARE-6
def _ceilings(child: ViewQueue) -> list[int]:
    """Return the most of each type that a child can get."""
    most, config = list(child.asked), child.config
    for name, amount in config.max.amounts:
        number = child.types.find(name)
        if number is not None:
            most[number] = min(most[number], amount)
    for name, amount in config.guaranteed.items():
        number = child.types.find(name)
        if number is not None:
            most[number] = max(most[number], amount)
    return most


def _path(queue: ViewQueue) -> str:
    return queue.config.path


@final
class Divisions:
    """The amounts that all queues deserve whose parents share by weight.

    Attributes:
        in_use: Whether there may be such a queue.
        stale: The parents that must divide again, by key, each with those of its children whose
            asks have changed.
        changes: Increases whenever the amounts of some queue change.
    """

    def __init__(self, queues: Mapping[int, ViewQueue]) -> None:
        self._queues = queues
        self._known: dict[int, _Division] = {}
        self.stale: dict[int, dict[int, ViewQueue]] = {}
        self.in_use = False
        self.changes = 0

    def note(self, leaf: ViewQueue) -> None:
        """Record that what the asks of a queue, and of those above it, come to has changed."""
        for queue in leaf.line:
            if queue.by_weight and queue.parent is not None:
                self.stale.setdefault(queue.parent.key, {})[queue.key] = queue

    def note_queue(self, queue: ViewQueue) -> None:
        """Record that a queue is new, or is gone."""
        self._known.pop(queue.key, None)
        self.stale.pop(queue.key, None)
        if queue.by_weight and queue.parent is not None:
            self._begin_anew(queue, queue.parent)

    def note_types(self) -> None:
        """Record that the partition has more types."""
        for key in self._known:
            self.stale[key] = {}
        self._known.clear()

    def note_settings(self) -> None:
        """Record that settings of queues, or the total, have changed."""
        self._known.clear()
        self.stale.clear()
        self.in_use = False
        for queue in self._queues.values():
            queue.follow_share_policy()
            if queue.by_weight and queue.parent is not None:
                self._begin_anew(queue, queue.parent)

    def _begin_anew(self, child: ViewQueue, parent: ParentView) -> None:
        child.types.learn(child.config.guaranteed)  # It deserves that, even without asks.
        self._known.pop(parent.key, None)
        self.stale[parent.key] = {}
        self.in_use = True

    # SHARE-4, SHARE-5
    def update(self, total: Mapping[str, int]) -> Iterator[ViewQueue]:
        """Bring all amounts up to date; yield the queues that deserve something else now.

        The amounts of a parent must be known before those of its children.
        """
        queues, stale = self._queues, self.stale
        order = [(queues[key].depth, key) for key in stale]
        heapify(order)
        while order:
            _, key = heappop(order)
            parent, changed = queues[key], stale.pop(key)
            assert isinstance(parent, ParentView), "what has children is a parent"
            for child in self._update(parent, changed.values(), total):
                if child.key not in stale and _shares_by_weight(child):
                    stale[child.key] = {}
                    heappush(order, (child.depth, child.key))
                yield child

    def _update(
        self, parent: ParentView, changed: Iterable[ViewQueue], total: Mapping[str, int]
    ) -> Iterator[ViewQueue]:
        division = self._known.get(parent.key)
        if division is None:
            division, changed = _Division(parent), ()
            self._known[parent.key] = division
        for place in division.update(parent, changed, total):
            child = division.children[place]
            child.deserve(division.of(place, parent.types.names))
            self.changes += 1
            yield child

    def check(self, total: Mapping[str, int]) -> None:
        """Assert the invariants between two batches; for tests."""
        assert not self.stale
        assert self._known.keys() <= self._queues.keys()
        for queue in self._queues.values():
            above = queue.parent
            assert queue.by_weight is (above is not None and _shares_by_weight(above))
            if above is None or not queue.by_weight:
                assert queue.deserved is queue.config.guaranteed
                continue
            fresh = _Division(above)
            fresh.update(above, (), total)
            assert queue.deserved == fresh.of(fresh.places[queue.key], queue.types.names)


def _shares_by_weight(queue: ViewQueue) -> bool:
    return isinstance(queue, ParentView) and queue.config.settings.share_by_weight
