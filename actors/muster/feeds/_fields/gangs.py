"""Kinds of the fields that define a gang, in events and in annotations."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, TypeVar

from muster.feeds._encodings.raw import Raw, is_null
from muster.feeds._fields.collections import listed
from muster.feeds._fields.kinds import FieldError, Kind, as_written, refused
from muster.feeds._fields.numbers import integer, long_enough
from muster.feeds._fields.texts import NAME, TEXT, WORD
from muster_core.errors import QuantityError
from muster_core.gangs.definition import GangMode
from muster_core.values.event_fields import LEAST
from muster_core.values.gang_names import DEFAULT_NAMESPACE, canonical_gang
from muster_core.values.quantities import MAX_INT32, parse_duration, parse_integer

T = TypeVar("T")

_MODES: Final = {mode.lower(): mode for mode in GangMode}


# OBJECT-10
def full_name(value: Raw, namespace: str = DEFAULT_NAMESPACE) -> str:
    """Return the full name of a gang.

    Raises:
        FieldError: If it is not a valid name of a gang.
    """
    try:
        return canonical_gang(NAME.parse(value), namespace)
    except ValueError as error:
        raise FieldError(str(error)) from None


GANG: Final = Kind("name of a gang", full_name, NAME.normal)
_GANGS: Final = listed(GANG, "list of names of gangs")


# OBJECT-12
def _parse_groups(value: Raw) -> tuple[str, ...]:
    """Accept a list, or a JSON list in a text; its order means nothing."""
    if isinstance(value, str) and not is_null(value):
        value = _from_json(value) if value else []
    if not isinstance(value, list):
        raise refused(value, _NO_GROUPS)
    return tuple(sorted(set(_GANGS.parse(value))))


_NO_GROUPS: Final = "is not a list of names of gangs, nor a JSON list in a text"


def _from_json(text: str) -> list[Raw]:
    try:
        value: Raw = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    # In JSON a number is not a name: JSON distinguishes numbers from texts.
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise refused(text, _NO_GROUPS)
    return value


def _groups_normal(value: Raw) -> Raw:
    return _GANGS.normal(value) if isinstance(value, list) else as_written(value)


# GANG-4, OBJECT-13
def _parse_mode(value: Raw) -> GangMode:
    mode = _MODES.get(TEXT.parse(value).lower())
    if mode is None:
        raise refused(value, f"is none of {', '.join(GangMode)}")
    return mode


GROUPS: Final = Kind(
    "list of names of gangs, or a JSON list in a text", _parse_groups, _groups_normal
)
MODE: Final = Kind(
    " or ".join(f"`{mode}`" for mode in GangMode) + ", in any case", _parse_mode, TEXT.normal
)
MEMBERS: Final = integer(LEAST, MAX_INT32, f"{LEAST} … {MAX_INT32}")


# -- kinds of annotations, whose values are texts -------------------------------------------


# OBJECT-13
def _written(read: Callable[[str], T]) -> Callable[[Raw], T]:
    """Return the parser of an annotation's value, which is always a text."""

    def parse(value: Raw) -> T:
        try:
            return read(WORD.parse(value))
        except QuantityError as error:
            raise FieldError(str(error)) from None

    return parse


WRITTEN_NAME: Final = Kind("name of a gang", NAME.parse, NAME.normal)
WRITTEN_MEMBERS: Final = Kind(
    MEMBERS.name, _written(lambda text: parse_integer(text, LEAST, MAX_INT32)), WORD.normal
)
WRITTEN_WAIT: Final = Kind(
    "seconds or duration, above 0",
    _written(lambda text: long_enough(text, parse_duration(text))),
    WORD.normal,
)
WRITTEN_MODE: Final = Kind(MODE.name, _written(_parse_mode), WORD.normal)
# OBJECT-17
WRITTEN_TRUTH: Final = Kind(
    "`true`", _written(lambda text: True if text == "true" else None), WORD.normal
)
