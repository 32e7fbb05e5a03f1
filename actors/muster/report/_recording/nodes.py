"""What happened on nodes: one bar for each allocation while there are few, and how full they were."""

from __future__ import annotations

from typing import Final, final

import attrs

from muster.replay import Key, LiveAsk
from muster.report._recording.timeline import Series, Timeline
from muster_core.decisions import Reason
from muster_core.resources import Resources
from muster_core.structures.totals import add_to, take_from

MOST_ROWS: Final = 384
"""How many rows of nodes there are at the most; beyond it neighbours share a row."""

MOST_BARS: Final = 5_000
"""How many allocations are drawn one by one; of more, only how full nodes were is drawn."""

MOST_MARKS: Final = 20_000
"""How many evictions are marked where there are no bars."""

FULL: Final = 1_000
"""How full a full node is."""

MARKED: Final = frozenset(Reason) - {Reason.COMPLETED, Reason.REMOVED, Reason.GANG_ROLLBACK}
"""The ends of allocations that are worth a mark."""


@final
@attrs.frozen
class Bar:
    """An allocation.

    Attributes:
        node: Its node.
        key: Its application and ask.
        queue: The full path of its queue.
        gang: The gang of which it was a member, or None.
        share: How much of the node it took in the type of which it took most, from 0 to 1.
        held_us: Since when it held the node, in microseconds.
        bound_us: Since when it was bound; None if it only waited there.
        end_us: Until when; None if it still does.
        reason: Why it ended, or None.
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


@final
@attrs.frozen
class Mark:
    """Where and when an ask lost its node before its time.

    Attributes:
        row: The row of the node.
        at_us: When, in microseconds.
        reason: Why.
    """

    row: int
    at_us: int
    reason: Reason


@final
class Row:
    """Neighbouring nodes; one alone while there are not too many.

    Attributes:
        first: The name of the first node.
        last: The name of the last one.
        fill: How full its nodes are in sum, each from 0 to :data:`FULL`.
        there: How full they could be.
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
    there: bool = False
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    fill: int = 0


@final
class NodeRecord:
    """Follows nodes and what is on them.

    Args:
        timeline: The timeline of the report.

    Attributes:
        rows: The rows, in the order in which nodes came.
        bars: The allocations that have ended; None if there were too many.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.rows: list[Row] = []
        self.bars: list[Bar] | None = []
        self._marks: list[tuple[int, int, Reason]] = []
        self._timeline = timeline
        self._nodes: dict[str, _Node] = {}
        #: How often neighbouring rows have been joined.
        self._shift = 0

    @property
    def count(self) -> int:
        """How many nodes there ever were."""
        return len(self._nodes)

    @property
    def marks(self) -> list[Mark]:
        """The evictions, in order; of very many the first."""
        return [Mark(number >> self._shift, at_us, why) for number, at_us, why in self._marks]

    def set(self, at_us: int, name: str, capacity: Resources | None) -> None:
        """Give a node another capacity; None if it goes."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node(len(self._nodes))
            self._make_room(name, at_us)
        there = capacity is not None
        if there != node.there:
            self._row(node).there.change(FULL if there else -FULL, at_us)
        node.there, node.capacity = there, capacity or Resources()
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
        """Take note that an ask holds a node."""
        node = self._nodes.get(ask.node or "")
        if node is not None:
            add_to(node.used, ask.resources)
            self._refill(node, at_us)

    def give_back(self, at_us: int, ask: LiveAsk, reason: Reason | None) -> None:
        """Take note that an ask holds its node no longer."""
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
        """Make the bar of an ask that holds a node."""
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
        )

    def close(self, at_us: int) -> None:
        """Take note that nothing changed until an instant."""
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
    """Give the largest share of a capacity, at the most 1."""
    shares = (
        amount / capacity[kind] if capacity.get(kind) else 1.0 for kind, amount in used.items()
    )
    return min(max(shares, default=0.0), 1.0)
