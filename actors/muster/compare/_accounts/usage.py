"""How much of the nodes is used over time, in all and by queue."""

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
        amount: What it is, in base units.
        since_us: Since when, in microseconds.
        area: Its integral until then, in base units times microseconds.
    """

    amount: int = 0
    since_us: int = 0
    area: int = 0

    def change(self, by: int, now_us: int) -> None:
        """Let it be more, or less."""
        self.area += self.amount * (now_us - self.since_us)
        self.since_us = now_us
        self.amount += by


@final
class Usage:
    """What the nodes offer, and what each queue uses of it.

    Only what changes is touched, however many queues there are.
    """

    def __init__(self) -> None:
        self._capacity: dict[str, int] = {}
        self._there: dict[str, _Level] = defaultdict(_Level)
        self._used: dict[str, dict[str, _Level]] = defaultdict(lambda: defaultdict(_Level))

    def set_capacity(self, capacity: Mapping[str, int], now_us: int) -> None:
        """Take note of what all nodes have together."""
        if capacity == self._capacity:
            return
        for kind in {*capacity, *self._capacity}:
            by = capacity.get(kind, 0) - self._capacity.get(kind, 0)
            self._there[kind].change(by, now_us)
        self._capacity = dict(capacity)

    def take(self, queue: str, amounts: Resources, now_us: int) -> None:
        """Let a queue use some."""
        levels = self._used[queue]
        for kind, amount in amounts.items():
            levels[kind].change(amount, now_us)

    def give_back(self, queue: str, amounts: Resources, now_us: int) -> None:
        """Let a queue use some no longer."""
        levels = self._used[queue]
        for kind, amount in amounts.items():
            levels[kind].change(-amount, now_us)

    def end(self, now_us: int) -> None:
        """Let time pass until the end."""
        for levels in (self._there, *self._used.values()):
            for level in levels.values():
                level.change(0, now_us)

    def shares(self, queues: Iterable[str]) -> dict[str, float | None]:
        """Give for each type how much of it these queues used, from 0 to 1; after the end."""
        listed = [self._used[queue] for queue in queues if queue in self._used]
        return {
            kind: sum(levels[kind].area for levels in listed if kind in levels) / there.area
            if there.area
            else None
            for kind, there in sorted(self._there.items())
        }
