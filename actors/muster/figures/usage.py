"""The usage of users: amounts times the time for which they were held, in all and since an instant.

The list of users, the page, the metrics and the report take their figures from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, final

import attrs

from muster_core.decisions import MICROSECONDS
from muster_core.values.resources import MEMORY, VCORE, has_parts

__all__ = [
    "NOTHING",
    "UsageAccount",
    "UsageTotals",
    "begin_of",
    "hours_text",
    "in_hours",
    "in_seconds",
    "share_of",
    "total",
]


HOUR_US: Final = 3_600 * MICROSECONDS
DAY_US: Final = 24 * HOUR_US

KEPT_HOURS_US: Final = 48 * HOUR_US
"""For how long usage is known hour by hour; before that, day by day."""

KEPT_DAYS_US: Final = 92 * DAY_US
"""For how long it is known day by day."""

_LEAST_HOURS: Final = 0.01
_MANY_HOURS: Final = 100
_MILLI: Final = 1_000
_GIB: Final = 2**30

Areas = Mapping[str, int]
"""Amounts times time, by resource type: base units times microseconds."""


@final
class UsageTotals(NamedTuple):
    """The usage until an instant, or in a span.

    Attributes:
        areas: The amounts times the time for which they were held.
        ended: How many asks have ended, by outcome.
    """

    areas: Areas
    ended: Mapping[str, int]

    def without(self, before: UsageTotals) -> UsageTotals:
        """Return the usage after ``before``."""
        return UsageTotals(_less(self.areas, before.areas), _less(self.ended, before.ended))


NOTHING: Final = UsageTotals({}, {})


def _less(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    left = {name: count - before.get(name, 0) for name, count in now.items()}
    return {name: count for name, count in left.items() if count}


def total(those: Iterable[UsageTotals]) -> UsageTotals:
    """Return the sum of several usages."""
    areas: dict[str, int] = {}
    ended: dict[str, int] = {}
    for one in those:
        for sums, more in ((areas, one.areas), (ended, one.ended)):
            for name, count in more.items():
                sums[name] = sums.get(name, 0) + count
    return UsageTotals(areas, ended)


# LISTS-21
@final
@attrs.define(eq=False)
class UsageAccount:
    """The resources that one user holds, and the usage so far.

    The usage of each type is a line: ``base + held * t``. So an allocation or release changes two
    numbers, and nothing has to be done as time passes.

    Attributes:
        held: The amounts that are held now, by resource type in base units; no zeros.
        base: The line at the origin of time, by resource type.
        ended: How many asks have ended, by outcome.
        marks: The usage at the end of an hour or a day, oldest first.
        apps: How many applications it has that have not completed.
    """

    held: dict[str, int] = attrs.field(factory=dict[str, int])
    base: dict[str, int] = attrs.field(factory=dict[str, int])
    ended: dict[str, int] = attrs.field(factory=dict[str, int])
    marks: list[tuple[int, UsageTotals]] = attrs.field(factory=list[tuple[int, UsageTotals]])
    apps: int = 0

    def take(self, amounts: Mapping[str, int], at_us: int) -> None:
        """Note that amounts are held from an instant on."""
        held, base = self.held, self.base
        for kind, amount in amounts.items():
            held[kind] = held.get(kind, 0) + amount
            base[kind] = base.get(kind, 0) - amount * at_us

    def give_back(self, amounts: Mapping[str, int], at_us: int) -> None:
        """Note that amounts, which were taken before, are held no longer."""
        held, base = self.held, self.base
        for kind, amount in amounts.items():
            if held[kind] > amount:
                held[kind] -= amount
            else:
                del held[kind]
            base[kind] += amount * at_us

    def end(self, outcome: str) -> None:
        """Note that an ask has ended."""
        self.ended[outcome] = self.ended.get(outcome, 0) + 1

    def areas(self, at_us: int) -> dict[str, int]:
        """Return the areas until an instant that is not before the last change; zeros too."""
        held = self.held
        return {kind: base + held.get(kind, 0) * at_us for kind, base in self.base.items()}

    def used(self, at_us: int) -> UsageTotals:
        """Return the usage until an instant that is not before the last change."""
        areas = {kind: area for kind, area in self.areas(at_us).items() if area}
        return UsageTotals(areas, dict(self.ended))

    def mark(self, at_us: int) -> None:
        """Keep the usage until the end of an hour; forget what is too old to be asked for."""
        used = self.used(at_us)
        if (self.marks[-1][1] if self.marks else NOTHING) != used:
            self.marks.append((at_us, used))
        if at_us % DAY_US == 0:
            self._thin(at_us)

    def _thin(self, now_us: int) -> None:
        """Keep one mark of each day that is long ago, and one of all that is longer ago."""
        last: dict[int, tuple[int, UsageTotals]] = {}
        for one in self.marks:
            at_us = one[0]
            if at_us <= now_us - KEPT_DAYS_US:
                place = -DAY_US
            elif at_us <= now_us - KEPT_HOURS_US:
                place = -(-at_us // DAY_US) * DAY_US
            else:
                place = at_us
            last[place] = one
        self.marks = [*last.values()]

    def used_since(self, since_us: int, at_us: int, changed_us: int) -> UsageTotals:
        """Return the usage after an instant of :func:`begin_of`, until another.

        Args:
            since_us: The first instant, in microseconds since the origin.
            at_us: The last one.
            changed_us: Since when nothing has changed.
        """
        if since_us >= changed_us:
            return self.used(at_us).without(self.used(since_us))
        marks = reversed(self.marks)
        before = next((used for then_us, used in marks if then_us <= since_us), NOTHING)
        return self.used(at_us).without(before)


def begin_of(since_us: int, now_us: int, known_us: int) -> int:
    """Return the instant from which on usage is known, at or before another where that is possible.

    Args:
        since_us: From when on it is asked for, in microseconds since the origin.
        now_us: The present instant, likewise.
        known_us: When the accounts began, likewise.
    """
    last_day_us = now_us // DAY_US * DAY_US
    if since_us > last_day_us - KEPT_HOURS_US:
        begin_us = since_us // HOUR_US * HOUR_US
    else:
        begin_us = max(since_us // DAY_US * DAY_US, last_day_us - KEPT_DAYS_US)
    return max(begin_us, known_us, 0)


# How it is shown


def in_seconds(areas: Areas) -> dict[str, int]:
    """Return areas in base units times whole seconds."""
    return {kind: area // MICROSECONDS for kind, area in sorted(areas.items(), key=_in_order)}


def in_hours(areas: Mapping[str, int], per_second: int = 1) -> dict[str, float]:
    """Return areas in units for people: hours of cores, of GiB of memory, and of devices.

    Args:
        areas: The areas, by resource type.
        per_second: How many of their units of time make a second.
    """
    return {
        kind: area / (per_second * 3_600 * _unit(kind))
        for kind, area in sorted(areas.items(), key=_in_order)
        if area
    }


def hours_text(areas: Mapping[str, int], per_second: int = 1) -> str:
    """Return areas as text: ``12.5 vcore h, 40 GiB h``."""
    return ", ".join(
        f"{_number(hours)} {'GiB' if kind == MEMORY else kind} h"
        for kind, hours in in_hours(areas, per_second).items()
    )


def _in_order(item: tuple[str, int]) -> tuple[bool, bool, str]:
    kind = item[0]
    return kind != VCORE, kind != MEMORY, kind


def _unit(kind: str) -> int:
    if kind == MEMORY:
        return _GIB
    return _MILLI if has_parts(kind) else 1


def _number(hours: float) -> str:
    """Return hours with three significant digits."""
    if hours < _LEAST_HOURS:
        return f"<{_LEAST_HOURS}"
    return f"{hours:,.3g}" if hours < _MANY_HOURS else f"{hours:,.0f}"


def share_of(areas: Areas, capacity: Mapping[str, int], span_us: int) -> float:
    """Return the largest share, over the types, of the capacity in a span."""
    if span_us <= 0:
        return 0.0
    parts = (
        area / (capacity[kind] * span_us) for kind, area in areas.items() if capacity.get(kind)
    )
    return max(parts, default=0.0)
