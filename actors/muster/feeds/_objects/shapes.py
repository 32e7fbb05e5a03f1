"""Shapes of Kubernetes objects: the fields that matter, wherever they are nested.

Declarative: a shape is a table of fields, some of which are shapes. What is not in the table
may stand there, and means nothing here. As in Kubernetes null is the same as no field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeVar, final

import attrs

from muster.feeds._encodings.raw import Plain, Raw, is_null
from muster.feeds._fields.kinds import FieldError, Kind, as_written, refused
from muster.feeds._fields.texts import WORD

T = TypeVar("T")

# What YAML 1.2 makes of plain text (its core schema), infinities left out: JSON has none.
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,1000}|0o[0-7]{1,1000}|0x[0-9a-fA-F]{1,1000}", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_BASES: Final = {"0o": 8, "0x": 16}

_TEXTS: Final = frozenset({"annotations", "labels", "matchLabels", "nodeSelector"})
"""Maps of texts, in whatever object: ``true`` and ``3`` are texts there."""


def as_kubernetes(value: Raw, name: str = "") -> Raw:
    """Give a value of which nothing is known, with plain text as what it means in YAML 1.2.

    Args:
        value: What stands there.
        name: The field that it stands in.
    """
    match value:
        case Plain():
            return as_written(_resolved(value))
        case list():
            return [as_kubernetes(inner) for inner in value]
        case dict() if name in _TEXTS:
            return {
                str(key): WORD.normal(inner) if isinstance(inner, Plain) else as_kubernetes(inner)
                for key, inner in value.items()
            }
        case dict():
            return {str(key): as_kubernetes(inner, key) for key, inner in value.items()}
        case _:
            return as_written(value)


def _resolved(text: Plain) -> Raw:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        base = _BASES.get(text[:2])
        return int(text) if base is None else int(text[2:], base)
    return float(text) if _FLOAT.fullmatch(text) else text


@final
@attrs.frozen
class Part:
    """A field that matters.

    Attributes:
        attribute: What its typed value is called.
        kind: What may stand there.
        required: Whether it must stand there.
    """

    attribute: str
    kind: Kind[object]
    required: bool = False

    def read(self, holder: Mapping[str, Raw], name: str, values: dict[str, object]) -> None:
        """Add the typed value, if there is one.

        Raises:
            FieldError: If what stands there does not belong there, or nothing does.
        """
        if self.required and name not in holder:
            msg = "is missing"
            raise FieldError(msg)
        if self.required or not is_null(holder.get(name)):
            values[self.attribute] = self.kind.parse(holder[name])

    def normal(self, value: Raw) -> Raw:
        """Give the value in the form that every encoding can write."""
        return self.kind.normal(value)


@final
@attrs.frozen
class Shape:
    """A map of which some fields matter, perhaps below fields that need not be there.

    Attributes:
        fields: Those fields, by name.
    """

    fields: Mapping[str, Part | Shape]

    def parse(self, written: Raw) -> dict[str, object]:
        """Give the typed values by attribute, those of nested shapes among them.

        Raises:
            FieldError: If a field is missing, or what stands there does not belong there.
        """
        values: dict[str, object] = {}
        self._fill(written, values)
        return values

    def read(self, holder: Mapping[str, Raw], name: str, values: dict[str, object]) -> None:
        """Add the typed values of this shape, which is the field ``name`` of another."""
        self._fill(holder.get(name), values)

    def _fill(self, written: Raw, values: dict[str, object]) -> None:
        if is_null(written):
            written = {}
        if not isinstance(written, dict):
            raise refused(written, "is not a map")
        for name, known in self.fields.items():
            try:
                known.read(written, name, values)
            except FieldError as error:
                raise error.inside(f".{name}") from None

    def normal(self, value: Raw) -> Raw:
        """Give the value in the form that every encoding can write."""
        if not isinstance(value, dict):
            return as_kubernetes(value)
        return {
            str(key): self.fields[key].normal(inner)
            if key in self.fields
            else as_kubernetes(inner, key)
            for key, inner in value.items()
        }


def part(attribute: str, kind: Kind[T], *, required: bool = False) -> Part:
    """Make a field; the kinds of different values are all kinds of something."""
    return Part(attribute, Kind[object](kind.name, kind.parse, kind.normal), required)
