"""The kind of an instant: a time since the start, or a date."""

from __future__ import annotations

from typing import Final, TypeAlias, final

import attrs

from muster.feeds._dates import date_text, is_like_date, parse_date
from muster.feeds._encodings.raw import Raw
from muster.feeds._fields.kinds import FieldError, Kind, refused
from muster.feeds._fields.numbers import parse_seconds, seconds_normal
from muster_core.decisions import MICROSECONDS
from muster_core.values.quantities import MAX_INT32

_NO_DURATION: Final = " is not a duration: "


@final
@attrs.frozen
class Date:
    """An instant of the calendar.

    Attributes:
        us: Microseconds since 1970 in UTC.
    """

    us: int


Instant: TypeAlias = int | Date
"""Microseconds since the start, or a date."""


# FEED-7
def _parse(value: Raw) -> Instant:
    if type(value) is int and 0 <= value <= MAX_INT32:
        return value * MICROSECONDS  # the usual case
    if isinstance(value, str) and "-" in value and is_like_date(value):
        return _parse_date(value)
    try:
        return parse_seconds(value)
    except FieldError as error:
        if _NO_DURATION in error.message:
            error = FieldError(f"{error.message}, or a date such as '2026-01-31T18:30:00Z'")
        raise error from None


# FEED-85
def _parse_date(text: str) -> Date:
    try:
        return Date(parse_date(text))
    except ValueError as error:
        raise refused(text, str(error)) from None


def _normal(value: Raw) -> Raw:
    if isinstance(value, str) and is_like_date(value):
        try:
            return date_text(parse_date(value))
        except ValueError:
            return str(value)
    return seconds_normal(value)


INSTANT: Final = Kind("seconds, duration or date", _parse, _normal)
