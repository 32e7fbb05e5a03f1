"""Kinds of fields: what may stand in a field of an event, and what it means.

A :class:`Kind` has two sides. ``parse`` makes the typed value, or says why there is none.
``normal`` gives the same value as every encoding can write it (what YAML writes without
quotes becomes the number, the boolean or the text that the field takes it for), and leaves
what ``parse`` would refuse so that it is still refused. For every kind and every value::

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


def refused(value: object, message: str) -> FieldError:
    """Make the error that starts with the offending value."""
    return FieldError(f"{told(value)} {message}")


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


_LARGEST: Final[Mapping[type, float]] = {int: LARGEST_INT64, float: sys.float_info.max}
