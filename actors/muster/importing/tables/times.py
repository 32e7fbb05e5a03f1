"""Instants and times in the cells of a table."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Final, final
from zoneinfo import ZoneInfo

import attrs

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{0,9})?", re.ASCII)
_CLOCK: Final = re.compile(
    r"(?:([0-9]{1,6})[-:])?([0-9]{1,6}):([0-5]?[0-9]):([0-5]?[0-9](?:\.[0-9]{1,9})?)"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST_US: Final = 253_402_300_800_000_000
"""The end of the year 9999, in microseconds since 1970."""

UNITS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1, "min": 60_000_000, "h": 3_600_000_000}
"""The units of numbers, in microseconds."""


@final
@attrs.frozen
class Clock:
    """How a table writes instants and times.

    Attributes:
        unit_us: The unit of numbers, in microseconds.
        form: The form of dates, as ``strptime`` takes it; empty for ISO dates and numbers.
        origin_us: The instant from which numbers count, in microseconds since 1970; None if
            nobody knows it.
        zone: The time zone of dates without an offset.
    """

    unit_us: int = UNITS["s"]
    form: str = ""
    origin_us: int | None = None
    zone: str = "UTC"

    def has_zone(self) -> bool:
        """Return whether the time zone is known."""
        try:
            _zone(self.zone)
        except (KeyError, ValueError, OSError):
            return False
        return True

    @property
    def right(self) -> str:
        """What an instant has to look like, for messages."""
        if self.form:
            return f"`time.format` of the mapping file says {self.form!r}"
        return "write 2026-01-31 18:30, a number, or its form as `time: {format: '%d.%m.%Y %H:%M'}`"

    def instant(self, text: str) -> tuple[int, bool] | None:
        """Return an instant in microseconds, and whether it is a date; None if it is none."""
        if not self.form and _NUMBER.fullmatch(text):
            at_us = (self.origin_us or 0) + self._amount(text)
            return (at_us, self.origin_us is not None) if 0 <= at_us < _LAST_US else None
        try:
            date = (
                datetime.strptime(text, self.form)  # noqa: DTZ007 - it gets its zone below
                if self.form
                else datetime.fromisoformat(text)
            )
        except ValueError:
            return None
        try:
            if date.tzinfo is None:
                date = date.replace(tzinfo=_zone(self.zone))
            at_us = (date - _EPOCH) // _MICROSECOND
        except OverflowError:
            return None
        return (at_us, True) if at_us >= 0 else None

    def time(self, text: str) -> int | None:
        """Return a length of time in microseconds: a number, or ``d-hh:mm:ss``; None if it is none."""
        if _NUMBER.fullmatch(text):
            return self._amount(text)
        match = _CLOCK.fullmatch(text)
        if match is None:
            return None
        days, hours, minutes, rest = match.groups(default="0")
        whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60
        return whole * UNITS["s"] + int(Decimal(rest) * UNITS["s"])

    def _amount(self, text: str) -> int:
        return int(text) * self.unit_us if text.isdigit() else int(Decimal(text) * self.unit_us)


@lru_cache
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)
