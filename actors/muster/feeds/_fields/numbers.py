"""Kinds of numbers: integers, durations, shares; and of booleans."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from muster.feeds._encodings.raw import Plain, Raw, is_null
from muster.feeds._fields.kinds import LARGEST_INT64, FieldError, Kind, as_written, refused
from muster_core.config.fields import BOOLEANS
from muster_core.decisions import MICROSECONDS
from muster_core.errors import QuantityError
from muster_core.values.event_fields import LEAST, PRIORITIES
from muster_core.values.quantities import MAX_INT32, parse_duration, parse_integer

MAX_COUNT: Final = 10_000_000
"""The most asks that one event may add; a larger number is surely a mistake."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,1000}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", re.ASCII)
_LONGEST: Final = 1000
"""The longest number, in characters."""


def _integer_normal(value: Raw) -> Raw:
    if isinstance(value, Plain) and _INTEGER.fullmatch(value):
        number = int(value)
        return number if -LARGEST_INT64 <= number <= LARGEST_INT64 else str(value)
    return as_written(value)


def integer(lowest: int, highest: int, name: str) -> Kind[int]:
    """Return the kind of an integer between two bounds, both included."""

    def parse(value: Raw) -> int:
        if isinstance(value, str) and not isinstance(value, Plain):
            raise refused(value, "is a text, not a number: leave out the quotes")
        if isinstance(value, bool | list | dict) or is_null(value):
            raise refused(value, f"is not a whole number between {lowest} and {highest}")
        try:
            return parse_integer(value, lowest, highest)
        except QuantityError as error:
            raise FieldError(str(error)) from None

    return Kind(name, parse, _integer_normal)


INT32: Final = integer(*PRIORITIES, "int32")
COUNT: Final = integer(LEAST, MAX_COUNT, f"{LEAST} … {MAX_COUNT}")
TALLY: Final = integer(0, LARGEST_INT64, "whole number")


def _boolean_normal(value: Raw) -> Raw:
    boolean = BOOLEANS.get(value.lower()) if isinstance(value, Plain) else None
    return as_written(value) if boolean is None else boolean


def _parse_boolean(value: Raw) -> bool:
    boolean = BOOLEANS.get(value.lower()) if isinstance(value, Plain) else value
    if isinstance(boolean, bool):
        return boolean
    raise refused(value, "is not a boolean: write true or false")


BOOLEAN: Final = Kind("boolean", _parse_boolean, _boolean_normal)


def seconds_normal(value: Raw) -> Raw:
    """Return a time in seconds in the form that every encoding can write; see :class:`Kind`."""
    text = value.strip() if isinstance(value, Plain) else ""
    if len(text) > _LONGEST or not _SECONDS.fullmatch(text):
        return as_written(value)
    if text.isdigit():
        return int(text) if int(text) <= LARGEST_INT64 else text
    number = float(text)
    if number == 0:
        return 0  # also for a number too small for a float
    if math.isfinite(number) and Decimal(repr(number)) == Decimal(text):
        return number
    # The text has more digits than a float. A duration with a unit keeps them exact, unless
    # it is far too long (and refused) or far below 1 µs.
    if number > LARGEST_INT64:
        return text
    return f"{Decimal(text):f}"[: _LONGEST - 1] + "s" if number > 1 / LARGEST_INT64 else 0


# FEED-6, FEED-7
def parse_seconds(value: Raw) -> int:
    """Return a time, in seconds or as a duration, in microseconds.

    Raises:
        FieldError: If it is none.
    """
    if type(value) is int and 0 <= value <= MAX_INT32:
        return value * MICROSECONDS  # the usual case, for which exact fractions would be slow
    if isinstance(value, str) and not isinstance(value, Plain) and _NUMBER.fullmatch(value.strip()):
        raise refused(
            value, "is a text, not a number: leave out the quotes, or add a unit such as 's'"
        )
    if isinstance(value, bool | list | dict) or is_null(value):
        raise refused(value, "is not a duration")
    try:
        return parse_duration(value)
    except QuantityError as error:
        raise FieldError(str(error)) from None


def _parse_positive_seconds(value: Raw) -> int:
    return long_enough(value, parse_seconds(value))


def long_enough(value: Raw, duration_us: int) -> int:
    """Return a duration, in microseconds, that is above 0.

    Raises:
        FieldError: If it is not.
    """
    if duration_us < LEAST:
        raise refused(value, "is not above 0")
    return duration_us


def _parse_whole_seconds(value: Raw) -> int:
    return _WHOLE_SECONDS.parse(value) * MICROSECONDS


_WHOLE_SECONDS: Final = integer(LEAST, MAX_INT32, "seconds, above 0")
WHOLE_SECONDS: Final = Kind(_WHOLE_SECONDS.name, _parse_whole_seconds, _WHOLE_SECONDS.normal)

# FEED-6
SECONDS: Final = Kind("seconds or duration", parse_seconds, seconds_normal)
DURATION: Final = Kind("seconds or duration, above 0", _parse_positive_seconds, seconds_normal)


def _parse_share(value: Raw) -> float:
    if isinstance(value, str) and value in {"inf", ".inf", "Infinity"}:
        return math.inf
    number: float | None = None
    if isinstance(value, Plain) and _NUMBER.fullmatch(value.strip()):
        number = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = _as_float(value)
    if number is None or not number >= 0:
        raise refused(value, "is not a share: write a number of at least 0, or 'inf'")
    return number


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _share_normal(value: Raw) -> Raw:
    if isinstance(value, Plain) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = _as_float(value)
    return "inf" if value == math.inf else as_written(value)


SHARE: Final = Kind('number, or `"inf"`', _parse_share, _share_normal)
