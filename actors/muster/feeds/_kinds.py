"""Kinds of fields: what may stand in a field of an event, and what it means.

A :class:`Kind` has two sides. ``parse`` makes the typed value, or says why there is none.
``normal`` gives the same value as every encoding can write it (what YAML writes without
quotes becomes the number, the boolean or the text that the field takes it for), and leaves
what ``parse`` would refuse so that it is still refused. For every kind and every value::

    kind.parse(kind.normal(value)) == kind.parse(value)
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, Generic, NoReturn, TypeVar, final

import attrs

from muster.feeds._raw import Plain, Raw, is_null
from muster_core.decisions import MICROSECONDS
from muster_core.errors import QuantityError
from muster_core.quantities import (
    MAX_INT32,
    MIN_INT32,
    parse_duration,
    parse_integer,
    parse_quantity,
    shown,
)
from muster_core.resources import Resources

T = TypeVar("T")
K = TypeVar("K")

MAX_COUNT: Final = 10_000_000
"""The most asks that one event may bring; more is surely a slip."""

_TRUE: Final = frozenset({"true", "yes", "on", "y"})
_FALSE: Final = frozenset({"false", "no", "off", "n"})
_NUMBER: Final = re.compile(r"[+-]?([0-9]+)(\.[0-9]*)?([eE][+-]?[0-9]+)?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,1000}", re.ASCII)
_LARGEST_INT64: Final = 2**63 - 1
_GANG_KEYS: Final = re.compile(
    r"gang\.scheduling\.koordinator\.sh/.*"
    r"|pod-group\.scheduling\.sigs\.k8s\.io(/.*)?"
    r"|scheduling\.x-k8s\.io/pod-group"
    r"|scheduling\.k8s\.io/group-name",
    re.DOTALL,
)


@final
class FieldError(Exception):
    """What stands in a field is not what belongs there.

    Attributes:
        message: The offending value, and what would be right.
        place: Where inside the field, such as ``.vcore`` or ``[0]``; empty: the field itself.
    """

    def __init__(self, message: str, place: str = "") -> None:
        self.message = message
        self.place = place
        super().__init__(f"{place}: {message}" if place else message)

    def inside(self, place: str) -> FieldError:
        """Give the same error as seen from the list or map around the value."""
        return FieldError(self.message, place + self.place)


@final
@attrs.frozen
class Kind(Generic[T]):
    """What may stand in a field.

    Attributes:
        name: What it is called in the reference.
        parse: Makes the typed value. Raises :class:`FieldError`.
        normal: Gives the value in the form that every encoding can write.
    """

    name: str
    parse: Callable[[Raw], T]
    normal: Callable[[Raw], Raw]


def told(value: object) -> str:
    """Say what stands somewhere, for a message."""
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


def _refuse(value: object, message: str) -> NoReturn:
    msg = f"{told(value)} {message}"
    raise FieldError(msg)


# -- normal forms ---------------------------------------------------------------------------


def as_written(value: Raw) -> Raw:
    """Give a value that no field expects: what stands there, in the form all encodings have."""
    match value:
        case str():
            return None if isinstance(value, Plain) and is_null(value) else str(value)
        case bool() | None:
            return value
        case int() | float():
            # JSON has no infinity, and msgpack no integers beyond 64 bits. No field takes
            # such a number; as a text it is as wrong as before, and still legible.
            return value if abs(value) <= _LARGEST[type(value)] else str(value)
        case list():
            return [as_written(part) for part in value]
        case dict():
            return {str(key): as_written(part) for key, part in value.items()}


_LARGEST: Final[Mapping[type, float]] = {int: _LARGEST_INT64, float: sys.float_info.max}


def _text_normal(value: Raw) -> Raw:
    if isinstance(value, bool | float):
        # No text; but written in YAML it would look like one. In a list it stays wrong.
        return [as_written(value)]
    return str(value) if isinstance(value, int) else as_written(value)


def _word_normal(value: Raw) -> Raw:
    return told(value) if isinstance(value, bool) else _text_normal(value)


def _integer_normal(value: Raw) -> Raw:
    if isinstance(value, Plain) and _INTEGER.fullmatch(value):
        number = int(value)
        return number if -_LARGEST_INT64 <= number <= _LARGEST_INT64 else str(value)
    return as_written(value)


def _boolean_normal(value: Raw) -> Raw:
    if isinstance(value, Plain) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    return as_written(value)


def _seconds_normal(value: Raw) -> Raw:
    text = value.strip() if isinstance(value, Plain) else ""
    if not _NUMBER.fullmatch(text):
        return as_written(value)
    if _INTEGER.fullmatch(text) and abs(int(text)) <= _LARGEST_INT64:
        return int(text)
    number = float(text)
    if math.isfinite(number) and Decimal(repr(number)) == Decimal(text):
        return number
    # More digits than a float has: as a duration with a unit they stay exact.
    exact = f"{Decimal(text):f}" if len(text) < 50 and abs(number) < 1e50 else text
    return f"{exact}s"


# -- texts and names ------------------------------------------------------------------------


def _parse_text(value: Raw) -> str:
    if isinstance(value, str) and not is_null(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    _refuse(value, "is not a text" + _quotes(value))


def _quotes(value: Raw) -> str:
    return ": put it in quotes" if isinstance(value, bool | float) else ""


def _parse_name(value: Raw) -> str:
    name = _parse_text(value)
    if not name:
        _refuse(value, "is empty: a name has at least one character")
    return name


def _parse_owned_name(value: Raw) -> str:
    name = _parse_name(value)
    if "/" in name:
        _refuse(value, "has a '/', which the name of an application or ask must not have")
    return name


def _parse_ask(value: Raw) -> str:
    name = _parse_text(value)
    app, slash, ask = name.partition("/")
    if not (app and slash and ask) or "/" in ask:
        _refuse(value, "is not an ask: write 'application/ask'")
    return name


def _parse_word(value: Raw) -> str:
    """Take a text, or a boolean as the text that it is in YAML."""
    return told(value) if isinstance(value, bool) else _parse_text(value)


TEXT: Final = Kind("text", _parse_text, _text_normal)
NAME: Final = Kind("name", _parse_name, _text_normal)
OWNED_NAME: Final = Kind("name without `/`", _parse_owned_name, _text_normal)
ASK: Final = Kind("`app/ask`", _parse_ask, _text_normal)
WORD: Final = Kind("text", _parse_word, _word_normal)


def one_of(*words: str) -> Kind[str]:
    """Make the kind of a text that is one of a few."""

    def parse(value: Raw) -> str:
        text = _parse_text(value)
        if text not in words:
            _refuse(value, f"is none of {', '.join(words)}")
        return text

    return Kind(" or ".join(f"`{word}`" for word in words), parse, _text_normal)


# -- numbers --------------------------------------------------------------------------------


def integer(lowest: int, highest: int, name: str) -> Kind[int]:
    """Make the kind of a whole number between two bounds, both included."""

    def parse(value: Raw) -> int:
        if isinstance(value, str) and not isinstance(value, Plain):
            _refuse(value, "is a text, not a number: leave out the quotes")
        if isinstance(value, bool | list | dict) or is_null(value):
            _refuse(value, f"is not a whole number between {lowest} and {highest}")
        try:
            return parse_integer(value, lowest, highest)
        except QuantityError as error:
            raise FieldError(str(error)) from None

    return Kind(name, parse, _integer_normal)


INT32: Final = integer(MIN_INT32, MAX_INT32, "int32")
COUNT: Final = integer(1, MAX_COUNT, f"1 … {MAX_COUNT}")
TALLY: Final = integer(0, _LARGEST_INT64, "whole number")


def _parse_boolean(value: Raw) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Plain) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    _refuse(value, "is not a boolean: write true or false")


BOOLEAN: Final = Kind("boolean", _parse_boolean, _boolean_normal)


def _parse_seconds(value: Raw) -> int:
    if type(value) is int and 0 <= value <= MAX_INT32:
        return value * MICROSECONDS  # what most feeds have, for which fractions would be slow
    if isinstance(value, str) and not isinstance(value, Plain) and _NUMBER.fullmatch(value.strip()):
        _refuse(value, "is a text, not a number: leave out the quotes, or add a unit such as 's'")
    if isinstance(value, bool | list | dict) or is_null(value):
        _refuse(value, "is not a duration")
    try:
        return parse_duration(value)
    except QuantityError as error:
        raise FieldError(str(error)) from None


def _parse_positive_seconds(value: Raw) -> int:
    duration_us = _parse_seconds(value)
    if duration_us == 0:
        _refuse(value, "is not above 0")
    return duration_us


INSTANT: Final = Kind("seconds or duration", _parse_seconds, _seconds_normal)
DURATION: Final = Kind("seconds or duration, above 0", _parse_positive_seconds, _seconds_normal)


def _parse_share(value: Raw) -> float:
    if isinstance(value, str) and value in {"inf", ".inf", "Infinity"}:
        return math.inf
    number: float | None = None
    if isinstance(value, Plain) and _NUMBER.fullmatch(value.strip()):
        number = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = _as_float(value)
    if number is None or not number >= 0:
        _refuse(value, "is not a share: write a number of at least 0, or 'inf'")
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


# -- lists and maps -------------------------------------------------------------------------


def listed(kind: Kind[T], name: str) -> Kind[tuple[T, ...]]:
    """Make the kind of a list of values of one kind."""

    def parse(value: Raw) -> tuple[T, ...]:
        if not isinstance(value, list):
            _refuse(value, "is not a list")
        return tuple(_inside(f"[{index}]", kind, part) for index, part in enumerate(value))

    def normal(value: Raw) -> Raw:
        return (
            [kind.normal(part) for part in value] if isinstance(value, list) else as_written(value)
        )

    return Kind(name, parse, normal)


def set_of(kind: Kind[T], name: str) -> Kind[frozenset[T]]:
    """Make the kind of a list whose order means nothing."""
    ordered = listed(kind, name)
    return Kind(name, lambda value: frozenset(ordered.parse(value)), ordered.normal)


def mapped(keys: Kind[str], values: Kind[T], name: str) -> Kind[Mapping[str, T]]:
    """Make the kind of a map from texts of one kind to values of another."""

    def parse(value: Raw) -> Mapping[str, T]:
        if not isinstance(value, dict):
            _refuse(value, "is not a map")
        made: dict[str, T] = {}
        for key, part in value.items():
            place = f".{key}"
            made[_inside(place, keys, str(key))] = _inside(place, values, part)
        return made

    def normal(value: Raw) -> Raw:
        if not isinstance(value, dict):
            return as_written(value)
        return {str(key): values.normal(part) for key, part in value.items()}

    return Kind(name, parse, normal)


def _inside(place: str, kind: Kind[T], value: Raw) -> T:
    try:
        return kind.parse(value)
    except FieldError as error:
        raise error.inside(place) from None


def _parse_amounts(value: Raw) -> Resources:
    if not isinstance(value, dict):
        _refuse(value, "is not a map of resource types and quantities")
    return Resources({name: _parse_amount(name, part) for name, part in value.items()})


def _parse_amount(name: str, value: Raw) -> int:
    if not name:
        raise FieldError("a resource type has an empty name")
    if is_null(value) or isinstance(value, bool | list | dict):
        raise FieldError(f"{told(value)} is not a quantity", f".{name}")
    try:
        return parse_quantity(name, value)
    except QuantityError as error:
        raise FieldError(str(error), f".{name}") from None


def _parse_some_amounts(value: Raw) -> Resources:
    amounts = _parse_amounts(value)
    if not amounts:
        raise FieldError("an ask has at least one type above 0")
    return amounts


def _amounts_normal(value: Raw) -> Raw:
    return as_written(value)


RESOURCES: Final = Kind("map of quantities", _parse_amounts, _amounts_normal)
SOME_RESOURCES: Final = Kind("map of quantities, one above 0", _parse_some_amounts, _amounts_normal)
NAMES: Final = listed(NAME, "list of names")
TEXTS: Final = listed(TEXT, "list of texts")
WORDS: Final = mapped(NAME, WORD, "map of texts")


def _parse_annotation_key(value: Raw) -> str:
    name = _parse_name(value)
    if _GANG_KEYS.fullmatch(name):
        _refuse(value, "speaks of a gang, which this version does not have")
    return name


ANNOTATIONS: Final = mapped(Kind("name", _parse_annotation_key, _text_normal), WORD, "map of texts")
