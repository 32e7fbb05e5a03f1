"""The record of nodes: a bar for each allocation if they are few, and how full nodes were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs

from muster.figures.devices import held_words, milli_held
from muster.replay import Key, LiveAsk
from muster.report._recording.timeline import Series, Timeline
from muster_core.decisions import Reason
from muster_core.resources import Resources
from muster_core.structures.totals import add_to, take_from
from muster_core.values.devices import stocks_in

MOST_ROWS: Final = 384
"""The most rows of nodes; if there are more nodes, neighbours share a row."""

MOST_BARS: Final = 5_000
"""The most allocations that are drawn one by one; with more, only how full nodes were."""

MOST_MARKS: Final = 20_000
"""The most evictions that are marked if there are no bars."""

FULL: Final = 1_000
"""The level of a full node."""

MARKED: Final = frozenset(Reason) - {
    Reason.COMPLETED,
    Reason.REMOVED,
    Reason.CANCELLED,
    Reason.GANG_ROLLBACK,
}
"""The reasons for which the end of an allocation is marked."""


@final
@attrs.frozen
class Bar:
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
        held: The same in words; empty for none.
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
class Mark:
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
class Row:
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
        self.rows: list[Row] = []
        self.bars: list[Bar] | None = []
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
    def marks(self) -> list[Mark]:
        """The marks in order, at most the first :data:`MOST_MARKS`."""
        return [Mark(number >> self._shift, at_us, why) for number, at_us, why in self._marks]

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
            self.rows.append(Row(self._timeline, name))
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

    def bar(self, ask: LiveAsk, end_us: int | None, reason: Reason | None) -> Bar:
        """Return the bar of an ask that holds a node."""
        node = self._nodes[ask.node or ""]
        share = _share(ask.resources, node.capacity)
        return Bar(
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

    def _row(self, node: _Node) -> Row:
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
