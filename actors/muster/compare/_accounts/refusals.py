"""The refused events, and the side that refused each."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias, final

from muster.compare._result import MOST_REFUSALS, Refusals
from muster.replay import Remark

_Queues: TypeAlias = dict[object, deque[Remark]]
"""The refusals of an instant, by index or by message."""


@final
class _List:
    """The refusals of one side: their number, how many are of ends, and the first of them."""

    def __init__(self) -> None:
        self.number = 0
        self.ends = 0
        self.first: list[Remark] = []

    def add(self, remark: Remark, *, is_end: bool) -> None:
        """Count a refusal."""
        self.number += 1
        self.ends += is_end
        if len(self.first) < MOST_REFUSALS:
            self.first.append(remark)


@final
class RefusalBook:
    """Compares the refusals of both sides, instant by instant.

    Attributes:
        totals: How many refusals each side has.

    Args:
        in_step: Whether both sides have the same events: then the index identifies a refused
            event, otherwise the message does.
    """

    def __init__(self, *, in_step: bool) -> None:
        self.totals = [0, 0]
        self._in_step = in_step
        self._open: tuple[_Queues, _Queues] = ({}, {})
        #: The indexes of refused events of this instant that end the work of an ask.
        self._ends: tuple[set[int], set[int]] = (set(), set())
        self._alone = (_List(), _List())
        self._both = 0
        self._first_both: list[tuple[Remark, Remark]] = []

    def add(self, side: int, remark: Remark, *, is_end: bool) -> None:
        """Record that side 0 or 1 has refused an event at the current instant.

        Args:
            side: The side.
            remark: The refusal.
            is_end: Whether the event would have ended the work of an ask.
        """
        self.totals[side] += 1
        if is_end:
            self._ends[side].add(remark.index)
        key = remark.index if self._in_step else remark.message
        self._open[side].setdefault(key, deque()).append(remark)

    def compare(self) -> None:
        """Compare the refusals of both sides at the instant that ends."""
        a, b = self._open
        for key, remarks in a.items():
            others = b.get(key, deque())
            while remarks and others:
                self._match(remarks.popleft(), others.popleft())
        for queues, ends, alone in zip(self._open, self._ends, self._alone, strict=True):
            left = [remark for remarks in queues.values() for remark in remarks]
            for remark in sorted(left, key=lambda one: one.index):
                alone.add(remark, is_end=remark.index in ends)
            queues.clear()
            ends.clear()

    def _match(self, a: Remark, b: Remark) -> None:
        self._both += 1
        if len(self._first_both) < MOST_REFUSALS:
            self._first_both.append((a, b))

    def refusals(self) -> Refusals:
        """Return the refusals so far."""
        a, b = self._alone
        return Refusals(
            both=self._both,
            only_a=a.number,
            only_b=b.number,
            first_both=tuple(self._first_both),
            first_a=tuple(a.first),
            first_b=tuple(b.first),
            ends_a=a.ends,
            ends_b=b.ends,
        )
