"""Kinds of fields: the values that a field of an event accepts, and what they mean.

A :class:`Kind` has two functions. ``parse`` returns the typed value, or raises an error that
says why there is none. ``normal`` returns the same value in a form that every encoding can
write: a plain YAML scalar becomes the number, boolean or text that the field reads in it. A
value that ``parse`` refuses is still refused afterwards. For every kind and every value::

    kind.parse(kind.normal(value)) == kind.parse(value)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar, final

import attrs

from muster.feeds._encodings.raw import Plain, Raw, is_null
from muster_core.values.quantities import shown

T = TypeVar("T")

LARGEST_INT64: Final = 2**63 - 1


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
    """

    name: str
    parse: Callable[[Raw], T]
    normal: Callable[[Raw], Raw]


def told(value: object) -> str:
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
    return FieldError(f"{told(value)} {message}")


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
