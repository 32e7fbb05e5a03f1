"""The usage of the nodes over time, by queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import final

import attrs

from muster_core.resources import Resources


@final
@attrs.define
class _Level:
    """An amount that changes over time.

    Attributes:
        amount: The current amount, in base units.
        since_us: When it last changed, in microseconds.
        area: Its integral until then, in base units times microseconds.
    """

    amount: int = 0
    since_us: int = 0
    area: int = 0

    def change(self, by: int, now_us: int) -> None:
        """Add ``by`` to the amount at ``now_us``."""
        self.area += self.amount * (now_us - self.since_us)
        self.since_us = now_us
        self.amount += by


@final
class Usage:
    """The capacity of all nodes, and the usage of each queue, over time.

    A change costs the same however many queues there are.
    """

    def __init__(self) -> None:
        self._capacity: dict[str, int] = {}
        self._offered: dict[str, _Level] = defaultdict(_Level)
        self._used: dict[str, dict[str, _Level]] = defaultdict(lambda: defaultdict(_Level))

    def set_capacity(self, capacity: Mapping[str, int], now_us: int) -> None:
        """Set the total capacity of all nodes."""
        if capacity == self._capacity:
            return
        for kind in {*capacity, *self._capacity}:
            by = capacity.get(kind, 0) - self._capacity.get(kind, 0)
            self._offered[kind].change(by, now_us)
        self._capacity = dict(capacity)

    def take(self, queue: str, amounts: Resources, now_us: int) -> None:
        """Add resources to the usage of a queue."""
        levels = self._used[queue]
        for kind, amount in amounts.items():
            levels[kind].change(amount, now_us)

    def give_back(self, queue: str, amounts: Resources, now_us: int) -> None:
        """Subtract resources from the usage of a queue."""
        levels = self._used[queue]
        for kind, amount in amounts.items():
            levels[kind].change(-amount, now_us)

    def end(self, now_us: int) -> None:
        """Advance all integrals to the end."""
        for levels in (self._offered, *self._used.values()):
            for level in levels.values():
                level.change(0, now_us)

    def shares(self, queues: Iterable[str]) -> dict[str, float | None]:
        """Return the share of each type that some queues used, from 0 to 1; after :meth:`end`."""
        listed = [self._used[queue] for queue in queues if queue in self._used]
        return {
            kind: sum(levels[kind].area for levels in listed if kind in levels) / offered.area
            if offered.area
            else None
            for kind, offered in sorted(self._offered.items())
        }
