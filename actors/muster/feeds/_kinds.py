"""Kinds of fields: the values that a field of an event accepts, and what they mean.

A :class:`Kind` has three functions. ``parse`` returns the typed value, or raises an error that
says why there is none. ``normal`` returns the same value in a form that every encoding can
write: a plain YAML scalar becomes the number, boolean or text that the field reads in it. A
value that ``parse`` refuses is still refused afterwards. ``write`` returns the shortest form of a
typed value, for the kinds of the fields of events. For every kind and every value::

    kind.parse(kind.normal(value)) == kind.parse(value)
    kind.parse(kind.write(kind.parse(value))) == kind.parse(value)

Here are the kinds of texts, numbers, booleans, instants, lists, maps and resources. A date is an
instant of the calendar, in microseconds since 1970 in UTC.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar, cast, final

import attrs

from muster.feeds._raw import Raw
from muster_core.config.document import BOOLEANS
from muster_core.config.loader import type_name_warning
from muster_core.config.tree import Plain, is_null
from muster_core.decisions import MICROSECONDS, seconds
from muster_core.errors import QuantityError
from muster_core.resources import MAX_QUANTITY, Resources, UnitSeconds
from muster_core.values.devices import WHOLE, is_device_type, names_devices
from muster_core.values.event_fields import LEAST, PRIORITIES, is_owned_name
from muster_core.values.names import did_you_mean
from muster_core.values.resources import (
    DEVICE_PREFIX,
    MAX_INT32,
    MEMORY,
    VCORE,
    format_quantity,
    parse_duration,
    parse_integer,
    parse_quantity,
    shown,
)

T = TypeVar("T")

LARGEST_INT64: Final = 2**63 - 1

EventFields: TypeAlias = dict[str, Raw]
"""An event, or a part of one, as written in a feed."""


@final
class FieldError(Exception):
    """The value of a field is invalid.

    Attributes:
        message: The invalid value, and what would be valid.
        place: The path inside the field, such as ``.vcore`` or ``[0]``; empty for the field.
    """

    def __init__(self, message: str, place: str = "") -> None:
        self.message = message
        self.place = place
        super().__init__(f"{place}: {message}" if place else message)

    def inside(self, place: str) -> FieldError:
        """Return the same error with a path from the list or map around the value."""
        return FieldError(self.message, place + self.place)


@final
@attrs.frozen
class Kind(Generic[T]):
    """The values that a field accepts.

    Attributes:
        name: Its name in the reference.
        parse: Returns the typed value. Raises :class:`FieldError`.
        normal: Returns the value in the form that every encoding can write.
        write: Returns a typed value as a feed has it; by default as it is.
    """

    name: str
    parse: Callable[[Raw], T]
    normal: Callable[[Raw], Raw]
    write: Callable[[T], Raw] = lambda value: cast("Raw", value)

    @property
    def general(self) -> Kind[object]:
        """The same kind, as one of any values."""
        return cast("Kind[object]", self)


def display_value(value: object) -> str:
    """Return a value as messages show it."""
    if isinstance(value, Plain) and is_null(value):
        return "null" if value else "nothing"
    match value:
        case None | bool():
            return _CONSTANTS[value]
        case dict() | list():
            return "a map" if isinstance(value, dict) else "a list"
        case _:
            return shown(str(value) if isinstance(value, str) else value)


_CONSTANTS: Final = {None: "null", True: "true", False: "false"}


def refused(value: object, message: str) -> FieldError:
    """Return the error whose message starts with the invalid value."""
    return FieldError(f"{display_value(value)} {message}")


def as_written(value: Raw) -> Raw:
    """Return a value that no field interprets, in the form that every encoding can write."""
    match value:
        case str():
            return None if isinstance(value, Plain) and is_null(value) else str(value)
        case bool() | None:
            return value
        case int() | float():
            # JSON has no infinity, and msgpack no integers beyond 64 bits. No field accepts
            # such a number; as a text it is still refused, and still legible.
            return value if abs(value) <= _LARGEST[type(value)] else str(value)
        case list():
            return [as_written(part) for part in value]
        case dict():
            return {str(key): as_written(part) for key, part in value.items()}


_LARGEST: Final[Mapping[type, float]] = {int: LARGEST_INT64, float: sys.float_info.max}


def _text_normal(value: Raw) -> Raw:
    if isinstance(value, bool | float):
        # Not a text, but YAML would write it like one. Inside a list it is still refused.
        return [as_written(value)]
    return str(value) if isinstance(value, int) else as_written(value)


def _word_normal(value: Raw) -> Raw:
    return display_value(value) if isinstance(value, bool) else _text_normal(value)


def _parse_text(value: Raw) -> str:
    if isinstance(value, str) and not is_null(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise refused(value, "is not a text" + _quotes(value))


def _quotes(value: Raw) -> str:
    return ": put it in quotes" if isinstance(value, bool | float) else ""


# FEED-5
def _parse_name(value: Raw) -> str:
    name = _parse_text(value)
    if not name:
        raise refused(value, "is empty: a name has at least one character")
    return name


def _parse_owned_name(value: Raw) -> str:
    name = _parse_name(value)
    if not is_owned_name(name):
        raise refused(value, "has a '/', which the name of an application or ask must not have")
    return name


# EXPECT-1
def _parse_ask(value: Raw) -> str:
    name = _parse_text(value)
    app, slash, ask = name.partition("/")
    if not (app and slash and ask and is_owned_name(ask)):
        raise refused(value, "is not an ask: write 'application/ask'")
    return name


def _parse_word(value: Raw) -> str:
    """Accept a text, or a boolean as the text that YAML writes for it."""
    return display_value(value) if isinstance(value, bool) else _parse_text(value)


TEXT: Final = Kind("text", _parse_text, _text_normal)
NAME: Final = Kind("name", _parse_name, _text_normal)
OWNED_NAME: Final = Kind("name without `/`", _parse_owned_name, _text_normal)
ASK: Final = Kind("`app/ask`", _parse_ask, _text_normal)
WORD: Final = Kind("text", _parse_word, _word_normal)


def one_of(*words: str) -> Kind[str]:
    """Return the kind of a text that is one of ``words``."""

    def parse(value: Raw) -> str:
        text = _parse_text(value)
        if text not in words:
            raise refused(value, f"is none of {', '.join(words)}{did_you_mean(text, words)}")
        return text

    return Kind(" or ".join(f"`{word}`" for word in words), parse, _text_normal)


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
WHOLE_SECONDS: Final = Kind(
    _WHOLE_SECONDS.name, _parse_whole_seconds, _WHOLE_SECONDS.normal, seconds
)


def write_duration(length_us: int) -> int | float | str:
    """Return an instant or a duration: in seconds if that is exact, else in microseconds."""
    written = seconds(length_us)
    if isinstance(written, int):
        return written
    return written if round(written * MICROSECONDS) == length_us < _EXACT else f"{length_us}us"


_EXACT: Final = 10**15
"""Times below it, in microseconds, are exact as floats of seconds, which have 15 digits."""

# FEED-6
SECONDS: Final = Kind("seconds or duration", parse_seconds, seconds_normal, write_duration)
DURATION: Final = Kind(
    "seconds or duration, above 0", _parse_positive_seconds, seconds_normal, write_duration
)


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
    except ValueError:
        msg = f"is no date: {_out_of_range(year, month, hour, minute, second)}"
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


def _out_of_range(year: int, month: int, *time: int) -> str:
    """Return why there is no such date; the message of Python is different in 3.14."""
    if year == 0:
        return "year 0 is out of range"
    if not 1 <= month <= 12:
        return "month must be in 1..12"
    for name, number, most in zip(("hour", "minute", "second"), time, (23, 59, 59), strict=True):
        if number > most:
            return f"{name} must be in 0..{most}"
    return "day is out of range for month"


def _fraction_us(digits: str) -> int:
    """Return a fraction of a second in microseconds; half of one is rounded up."""
    scale: int = 10 ** len(digits)
    return (2 * int(digits) * MICROSECONDS + scale) // (2 * scale)


def date_text(date_us: int) -> str:
    """Return a date, in microseconds since 1970 in UTC, as text: ``2026-01-31T18:30:00Z``.

    :func:`parse_date` reads it. Only an instant after the year 9999 has none; it is written in
    seconds.
    """
    if not _FIRST_US <= date_us <= _LAST_US:
        return f"{seconds(date_us)} s since 1970"
    date = (_EPOCH + date_us * _MICROSECOND).replace(tzinfo=None)
    text = date.isoformat()
    return f"{text.rstrip('0') if date.microsecond else text}Z"


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


def _write(at: Instant) -> Raw:
    return date_text(at.us) if isinstance(at, Date) else write_duration(at)


INSTANT: Final = Kind("seconds, duration or date", _parse, _normal, _write)


_NO_DEVICES: Final = frozenset({VCORE, MEMORY})
"""The resource types that are no devices for sure."""


def listed(kind: Kind[T], name: str) -> Kind[tuple[T, ...]]:
    """Return the kind of a list of values of one kind."""

    def parse(value: Raw) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise refused(value, "is not a list")
        return tuple(_inside(f"[{index}]", kind, part) for index, part in enumerate(value))

    def normal(value: Raw) -> Raw:
        return (
            [kind.normal(part) for part in value] if isinstance(value, list) else as_written(value)
        )

    return Kind(name, parse, normal, lambda values: [kind.write(value) for value in values])


def set_of(kind: Kind[T], name: str) -> Kind[frozenset[T]]:
    """Return the kind of a list whose order means nothing."""
    ordered = listed(kind, name)
    return Kind(name, lambda value: frozenset(ordered.parse(value)), ordered.normal)


def mapped(keys: Kind[str], values: Kind[T], name: str) -> Kind[Mapping[str, T]]:
    """Return the kind of a map from texts of one kind to values of another."""

    def parse(value: Raw) -> Mapping[str, T]:
        if not isinstance(value, dict):
            raise refused(value, "is not a map")
        made: dict[str, T] = {}
        for key, part in value.items():
            place = f".{key}"
            made[_inside(place, keys, str(key))] = _inside(place, values, part)
        return made

    def normal(value: Raw) -> Raw:
        if not isinstance(value, dict):
            return as_written(value)
        return {str(key): values.normal(part) for key, part in value.items()}

    def write(value: Mapping[str, T]) -> Raw:
        return {key: values.write(part) for key, part in value.items()}

    return Kind(name, parse, normal, write)


def _inside(place: str, kind: Kind[T], value: Raw) -> T:
    try:
        return kind.parse(value)
    except FieldError as error:
        raise error.inside(place) from None


def _parse_amounts(value: Raw, of: type[Resources] = Resources) -> Resources:
    if not isinstance(value, dict):
        raise refused(value, "is not a map of resource types and quantities")
    return of({name: parse_amount(name, part, of.MOST) for name, part in value.items()})


# QUANTITY-2, QUANTITY-17
def parse_amount(name: str, value: Raw, most: int = MAX_QUANTITY) -> int:
    """Return the quantity of one resource type, in its base unit, up to a maximum.

    Raises:
        FieldError: If the value is no quantity, or the name is empty.
    """
    if not name:
        raise FieldError("a resource type has an empty name")
    if is_null(value) or isinstance(value, bool | list | dict):
        raise FieldError(f"{display_value(value)} is not a quantity", f".{name}")
    try:
        return parse_quantity(name, value, most)
    except QuantityError as error:
        raise FieldError(str(error), f".{name}") from None


# DEVICE-5
def _parse_written_amounts(value: Raw) -> Resources:
    return without_device_types(_parse_amounts(value))


def without_device_types(amounts: Resources) -> Resources:
    """Return an amount that names no devices.

    Raises:
        FieldError: If it names some.
    """
    if DEVICE_PREFIX in "".join(amounts.amounts):
        named = names_devices(amounts)
        if named is not None:
            raise FieldError("devices are no resources: name them in 'devices'", f".{named}")
    return amounts


def _parse_asked_amounts(value: Raw) -> Resources:
    try:
        return _parse_written_amounts(value)
    except FieldError as error:
        name = error.place.removeprefix(".")
        if not isinstance(value, dict) or name not in value:
            raise
        raise FieldError(error.message + _hint_for_part(name, value[name]), error.place) from None


def _hint_for_part(name: str, written: Raw) -> str:
    """Return the hint about a part of a unit, for the end of the refusal of a quantity.

    The text is empty for what is no part: not between 0 and 1 if it is read like ``vcore``.
    """
    try:
        share = parse_quantity(VCORE, written)
    except QuantityError:
        return ""
    if name in _NO_DEVICES or not 0 < share < WHOLE:
        return ""
    slip = type_name_warning(name)
    if slip is not None:
        return f"; {slip}"
    own = name.rpartition("/")[2]
    device = own if is_device_type(own) else "gpu"
    return f"; of devices that nodes name, this share is devices: {{{device}: {{milli: {share}}}}}"


# QUANTITY-18
def _parse_some_amounts(value: Raw) -> Resources:
    amounts = _parse_asked_amounts(value)
    if not amounts:
        named = ", ".join(
            f"{name} {display_value(part)}"
            for name, part in dict(cast("dict[str, Raw]", value)).items()
        )
        raise FieldError(f"{named or 'nothing'}: an ask has at least one type above 0")
    return amounts


def write_quantity(name: str, amount: int) -> int | str:
    """Return an amount of a resource type in its shortest form in a feed."""
    text = format_quantity(name, amount)
    return int(text) if text.isdigit() and amount <= LARGEST_INT64 else text


def write_amounts(resources: Mapping[str, int]) -> EventFields:
    """Return amounts of several types in their shortest form in a feed."""
    return {name: write_quantity(name, amount) for name, amount in resources.items()}


def _amounts(parse: Callable[[Raw], Resources], name: str = "map of quantities") -> Kind[Resources]:
    return Kind(name, parse, as_written, write_amounts)


RESOURCES: Final = _amounts(_parse_amounts)
WRITTEN_RESOURCES: Final = _amounts(_parse_written_amounts)
ASKED_RESOURCES: Final = _amounts(_parse_asked_amounts)
# USAGE-14, EXPECT-16
SEEN_USAGE: Final = _amounts(partial(_parse_amounts, of=UnitSeconds))
USAGE: Final = _amounts(lambda value: without_device_types(_parse_amounts(value, UnitSeconds)))
SOME_RESOURCES: Final = _amounts(_parse_some_amounts, "map of quantities, one above 0")
NAMES: Final = listed(NAME, "list of names")
TEXTS: Final = listed(TEXT, "list of texts")
WORDS: Final = mapped(NAME, WORD, "map of texts")
