"""Dates: instants of the calendar, in microseconds since 1970 in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from muster_core.decisions import MICROSECONDS, seconds

_DATE: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,1000}))?)?"
    r"(?:([Zz])|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?",
    re.ASCII,
)
_BEGINS: Final = re.compile(r"\s*[0-9]{4}-", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST_US: Final = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

_HOW: Final = "write it like 2026-01-31 or 2026-01-31T18:30:00Z"


def is_like_date(text: str) -> bool:
    """Return whether a text can only be meant as a date: it begins with a year and a hyphen."""
    return _BEGINS.match(text) is not None


# FEED-85
def parse_date(text: str) -> int:
    """Parse a date with or without a time of day, such as ``2026-01-31T18:30:00.5+01:00``.

    Without a time of day it is midnight. Without an offset it is in UTC. Fractions of a second are
    rounded to the nearest microsecond.

    Returns:
        Microseconds since 1970 in UTC.

    Raises:
        ValueError: If it is no date. The message says why, without the text.
    """
    found = _DATE.fullmatch(text.strip())
    if found is None:
        msg = f"is no date: {_HOW}"
        raise ValueError(msg)
    *parts, fraction, _, sign, offset_hours, offset_minutes = found.groups(default="0")
    year, month, day, hour, minute, second = map(int, parts)
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        msg = f"is no date: {str(error).partition(',')[0]}"
        raise ValueError(msg) from None
    hours, minutes = int(offset_hours), int(offset_minutes)
    if hours > 23 or minutes > 59:
        msg = "is no date: its offset must be below 24:00"
        raise ValueError(msg)
    ahead_us = (hours * 60 + minutes) * 60 * MICROSECONDS * (-1 if sign == "-" else 1)
    date_us = (whole - _EPOCH) // _MICROSECOND - ahead_us + _fraction_us(fraction)
    if not _FIRST_US <= date_us <= _LAST_US:
        msg = "is no date: in UTC it is not within the years 1 to 9999"
        raise ValueError(msg)
    return date_us


def _fraction_us(digits: str) -> int:
    """Return a fraction of a second in microseconds; half of one is rounded up."""
    scale: int = 10 ** len(digits)
    return (2 * int(digits) * MICROSECONDS + scale) // (2 * scale)


def date_text(date_us: int) -> str:
    """Return a date, in microseconds since 1970 in UTC, as text: ``2026-01-31T18:30:00Z``.

    :func:`parse_date` reads it. Only an instant after the year 9999 has none, and is told in
    seconds.
    """
    if not _FIRST_US <= date_us <= _LAST_US:
        return f"{seconds(date_us)} s since 1970"
    date = (_EPOCH + date_us * _MICROSECOND).replace(tzinfo=None)
    text = date.isoformat()
    return f"{text.rstrip('0') if date.microsecond else text}Z"
