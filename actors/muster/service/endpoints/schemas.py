"""JSON schemas of the values that lists show, named as a table of columns reads best."""

from __future__ import annotations

from collections.abc import Iterable
from math import isinf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from muster.service.endpoints.kinds import Schema

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
SECONDS: Final[Schema] = {"type": "number"}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
WORDS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
RATIO: Final[Schema] = {"anyOf": [{"type": "number"}, {"const": "inf"}]}
"""A number that may be infinite; see :func:`ratio`."""

AMOUNTS: Final[Schema] = {"type": "object", "additionalProperties": NUMBER}
"""Amounts in base units, by type."""

_NUMBERS: Final[Schema] = {"type": "array", "items": NUMBER}
DEVICES: Final[Schema] = {"type": "object", "additionalProperties": _NUMBERS}
"""Numbers of devices, by type."""

STOCKS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {"model": {"anyOf": [TEXT, {"type": "null"}]}, "free": _NUMBERS},
    },
}
"""The devices of a node, by type."""


def ratio(number: float) -> float | str:
    """Return a number as JSON has it: an infinite one as ``expect`` writes it."""
    return "inf" if isinf(number) else number


def maybe(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def word(words: Iterable[str]) -> Schema:
    """Return the schema of one word out of several."""
    return {"type": "string", "enum": [str(one) for one in words]}
