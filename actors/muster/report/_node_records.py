"""The records of nodes: a bar for each allocation if they are few, and how full nodes were.

The record of reservations has which node was reserved for which ask, from when until when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs

from muster.figures.text import held_words, milli_held
from muster.replay import Key, LiveAsk
from muster.report._timeline import Series, Timeline
from muster_core.decisions import GONE, Announced, Kind, Reason
from muster_core.resources import Resources
from muster_core.snapshots import ReservationSnapshot
from muster_core.structures.amounts import add_to, take_from
from muster_core.values.devices import stocks_in

MOST_ROWS: Final = 384
"""The most rows of nodes; if there are more nodes, neighbours share a row."""

MOST_BARS: Final = 5_000
"""The most allocations that are drawn one by one; with more, only how full nodes were."""

MOST_MARKS: Final = 20_000
"""The most evictions that are marked if there are no bars."""

FULL: Final = 1_000
"""The level of a full node."""

MARKED: Final = frozenset(Reason) - (GONE - {Reason.FAILED}) - {Reason.GANG_ROLLBACK}
"""The reasons for which the end of an allocation is marked."""


@final
@attrs.frozen
class AllocationBar:
    """An allocation.

    Attributes:
        node: Its node.
        key: Its application and ask.
        queue: The full path of its queue.
        gang: The gang of its ask, or None.
        share: Its dominant share of the node, from 0 to 1.
        held_us: When it began, in microseconds.
        bound_us: When its ask was bound, in microseconds; None if it only waited there.
        end_us: When it ended, in microseconds; None if it has not ended.
        reason: Why it ended, or None.
        devices: The devices that it held: of each type their numbers, and how much it held of each
            in milli.
        held: The same as text; empty for none.
    """

    node: str
    key: Key
    queue: str
    gang: str | None
    share: float
    held_us: int
    bound_us: int | None
    end_us: int | None
    reason: Reason | None
    devices: Sequence[tuple[str, Sequence[int], int]] = ()
    held: str = ""


@final
@attrs.frozen
class EvictionMark:
    """The mark of an ask that lost its node before it ended.

    Attributes:
        row: The row of the node.
        at_us: When the ask lost the node, in microseconds.
        reason: Why it lost the node.
    """

    row: int
    at_us: int
    reason: Reason


@final
class NodeBars:
    """One node, or several neighbouring nodes if there are many.

    Attributes:
        first: The name of the first node.
        last: The name of the last one.
        fill: The sum of the levels of its nodes, each from 0 to :data:`FULL`.
        there: The sum if all its nodes were full.
    """

    def __init__(self, timeline: Timeline, name: str) -> None:
        self.first = self.last = name
        self.fill = Series(timeline)
        self.there = Series(timeline)


@final
@attrs.define(eq=False)
class _Node:
    number: int
    capacity: Resources = Resources()
    exists: bool = False
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    fill: int = 0
    devices: dict[str, int] = attrs.field(factory=dict[str, int])


@final
class NodeRecord:
    """Records nodes and their allocations.

    Args:
        timeline: The timeline of the report.

    Attributes:
        rows: The rows, in the order in which nodes were added.
        bars: The allocations that have ended; None if they are too many.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.rows: list[NodeBars] = []
        self.bars: list[AllocationBar] | None = []
        self._marks: list[tuple[int, int, Reason]] = []
        self._timeline = timeline
        self._nodes: dict[str, _Node] = {}
        #: How often neighbouring rows have been merged in pairs.
        self._shift = 0

    @property
    def count(self) -> int:
        """How many nodes have existed."""
        return len(self._nodes)

    @property
    def marks(self) -> list[EvictionMark]:
        """The marks in order, at most the first :data:`MOST_MARKS`."""
        return [
            EvictionMark(number >> self._shift, at_us, why) for number, at_us, why in self._marks
        ]

    def set(self, at_us: int, name: str, capacity: Resources | None) -> None:
        """Set the capacity of a node; None if it was removed."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node(len(self._nodes))
            self._make_room(name, at_us)
        exists = capacity is not None
        if exists != node.exists:
            self._row(node).there.change(FULL if exists else -FULL, at_us)
        node.exists, node.capacity = exists, capacity or Resources()
        for kind, stock in stocks_in(node.capacity).items():
            node.devices[kind] = max(stock.count, node.devices.get(kind, 0))
        self._refill(node, at_us)

    def _make_room(self, name: str, at_us: int) -> None:
        number = len(self._nodes) - 1
        while number >> self._shift >= MOST_ROWS:
            self._shift += 1
            for first, second in zip(self.rows[::2], self.rows[1::2], strict=False):
                first.last = second.last
                first.fill.absorb(second.fill, at_us)
                first.there.absorb(second.there, at_us)
            self.rows = self.rows[::2]
        if number >> self._shift == len(self.rows):
            self.rows.append(NodeBars(self._timeline, name))
        else:
            self.rows[-1].last = name

    def take(self, at_us: int, ask: LiveAsk) -> None:
        """Record that an ask holds a node."""
        node = self._nodes.get(ask.node or "")
        if node is not None:
            add_to(node.used, ask.resources)
            self._refill(node, at_us)

    def give_back(self, at_us: int, ask: LiveAsk, reason: Reason | None) -> None:
        """Record that an ask no longer holds its node."""
        node = self._nodes.get(ask.node or "")
        if node is None:
            return
        if self.bars is not None and at_us > ask.held_us:
            self.bars.append(self.bar(ask, at_us, reason))
            if len(self.bars) > MOST_BARS:
                self.bars = None
        if reason is not None and reason in MARKED and len(self._marks) < MOST_MARKS:
            self._marks.append((node.number, at_us, reason))
        take_from(node.used, ask.resources)
        self._refill(node, at_us)

    def bar(self, ask: LiveAsk, end_us: int | None, reason: Reason | None) -> AllocationBar:
        """Return the bar of an ask that holds a node."""
        node = self._nodes[ask.node or ""]
        share = _share(ask.resources, node.capacity)
        return AllocationBar(
            node=ask.node or "",
            key=ask.key,
            queue=ask.queue,
            gang=ask.gang,
            share=share,
            held_us=ask.held_us,
            bound_us=ask.bound_us,
            end_us=end_us,
            reason=reason,
            devices=[
                (kind, numbers, milli_held(kind, ask.resources))
                for kind, numbers in sorted(ask.devices.items())
            ],
            held=held_words(ask.devices, ask.resources),
        )

    def devices_of(self, node: str) -> Mapping[str, int]:
        """Return the most devices of each type that a node had."""
        return self._nodes[node].devices

    def share_of(self, ask: LiveAsk, node: str) -> float:
        """Return the dominant share of a node that an ask would have there, from 0 to 1."""
        known = self._nodes.get(node)
        return 0.0 if known is None else _share(ask.resources, known.capacity)

    def close(self, at_us: int) -> None:
        """Advance all series to an instant, in microseconds."""
        for row in self.rows:
            row.fill.close(at_us)
            row.there.close(at_us)

    def _row(self, node: _Node) -> NodeBars:
        return self.rows[node.number >> self._shift]

    def _refill(self, node: _Node, at_us: int) -> None:
        fill = round(_share(node.used, node.capacity) * FULL)
        if fill != node.fill:
            self._row(node).fill.change(fill - node.fill, at_us)
            node.fill = fill


def _share(used: dict[str, int] | Resources, capacity: Resources) -> float:
    """Return the dominant share of a capacity, at most 1."""
    shares = (
        amount / capacity[kind] if capacity.get(kind) else 1.0 for kind, amount in used.items()
    )
    return min(max(shares, default=0.0), 1.0)


MOST_RESERVED: Final = 2_000
"""The most reservations that are drawn."""


@final
@attrs.frozen
class ReservedBar:
    """A node that was reserved for an ask.

    Attributes:
        node: The node.
        ask: The ask.
        since_us: When that was announced first, in microseconds.
        start_us: From when on it was reserved, as it was announced last; None if that was not known.
        end_us: When the ask got a node or the reservation was given up; None if it lasts.
    """

    node: str
    ask: LiveAsk
    since_us: int
    start_us: int | None
    end_us: int | None = None


@final
class ReservationRecord:
    """Follows reservations.

    Decisions say when a reservation is new or changes. That one is given up without another is no
    decision, so the scheduler is asked after each batch while there are any.

    Attributes:
        present: Those that last, by ask.
    """

    def __init__(self) -> None:
        self.present: dict[Key, ReservedBar] = {}
        self._past: list[ReservedBar] | None = []
        self._is_new = False

    @property
    def wants_look(self) -> bool:
        """Whether a reservation may have been given up since the last look."""
        return self._is_new and bool(self.present)

    @property
    def bars(self) -> list[ReservedBar] | None:
        """The reservations that lasted for some time, by their ends; None if there are too many."""
        return None if self._past is None else [*self._past, *self.present.values()]

    def observe(self, batch: Sequence[Announced], unbound: Mapping[Key, LiveAsk]) -> None:
        """Record the decisions of a batch.

        Args:
            batch: Its decisions.
            unbound: The asks that are pending at its end.
        """
        self._is_new = True
        for announced in batch:
            decision = announced.decision
            if decision.kind is not Kind.RESERVED:
                continue
            assert decision.node is not None, "a reservation without a node"
            ask = unbound[decision.app or "", decision.ask or ""]
            self._reserve(ask, decision.node, decision.start_us, announced.at_us)

    def _reserve(self, ask: LiveAsk, node: str, start_us: int | None, at_us: int) -> None:
        before = self.present.get(ask.key)
        if before is not None and before.node == node:
            self.present[ask.key] = attrs.evolve(before, start_us=start_us)
            return
        self.end(ask.key, at_us)
        self.present[ask.key] = ReservedBar(node, ask, at_us, start_us)

    def end(self, key: Key, at_us: int) -> None:
        """End the reservation of an ask, if it has one: it is pending no more."""
        before = self.present.pop(key, None)
        if before is None or self._past is None or before.since_us == at_us:
            return
        self._past.append(attrs.evolve(before, end_us=at_us))
        if len(self._past) > MOST_RESERVED:
            self._past = None

    def look(self, there: Mapping[str, ReservationSnapshot], at_us: int) -> None:
        """End the reservations that no longer exist.

        Args:
            there: The present reservations, by ``app/ask``.
            at_us: The instant, in microseconds.
        """
        self._is_new = False
        for key in [key for key in self.present if "/".join(key) not in there]:
            self.end(key, at_us)
