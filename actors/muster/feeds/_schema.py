"""Schemas of Kubernetes objects: the fields that matter, at any depth, and their kinds.

A schema is a declarative table of fields, some of which are schemas. Fields that are not in the
table are allowed and ignored. As in Kubernetes, null is the same as no field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar, cast, final

import attrs

from muster.feeds._fields import Values
from muster.feeds._kinds import (
    NAME,
    TEXT,
    WORD,
    EventFields,
    FieldError,
    Kind,
    as_written,
    display_value,
    listed,
    parse_amount,
    refused,
    without_device_types,
    write_amounts,
)
from muster.feeds._raw import Raw
from muster_core.config.model import Limits
from muster_core.config.queues import canonical_path, check_queue_name
from muster_core.config.tree import Plain, is_null
from muster_core.resources import Resources
from muster_core.values.names import canonical_gang
from muster_core.values.resources import VCORE

T = TypeVar("T")

# How YAML 1.2 reads plain scalars (its core schema), without infinities: JSON has none.
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,1000}|0o[0-7]{1,1000}|0x[0-9a-fA-F]{1,1000}", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_BASES: Final = {"0o": 8, "0x": 16}

_TEXTS: Final = frozenset({"annotations", "labels", "matchLabels", "nodeSelector"})
"""Maps of texts in any object: ``true`` and ``3`` are texts there."""


def as_kubernetes(value: Raw, name: str = "") -> Raw:
    """Return a value that no shape describes, with the plain scalars of YAML 1.2 as that reads them.

    Args:
        value: The value as written.
        name: The name of its field.
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
class SchemaField:
    """A field that matters.

    Attributes:
        attribute: The name of its typed value.
        kind: The values that it accepts.
        required: Whether it is required.
    """

    attribute: str
    kind: Kind[object]
    required: bool = False

    def read(self, holder: Mapping[str, Raw], name: str, values: dict[str, object]) -> None:
        """Add the typed value to ``values``, if the field has one.

        Raises:
            FieldError: If the value is invalid, or the field is required and missing.
        """
        if self.required and name not in holder:
            msg = "is missing"
            raise FieldError(msg)
        if self.required or not is_null(holder.get(name)):
            values[self.attribute] = self.kind.parse(holder[name])

    def normal(self, value: Raw) -> Raw:
        """Return the value in the form that every encoding can write."""
        return self.kind.normal(value)


def _has_required(shape: ObjectSchema) -> bool:
    return any(field.required for field in shape.fields.values())


# OBJECT-1
@final
@attrs.frozen
class ObjectSchema:
    """A map of which some fields matter, perhaps inside optional nested maps.

    Attributes:
        fields: The fields that matter, by name.
        required: Whether one of them is required.
    """

    fields: Mapping[str, SchemaField | ObjectSchema]
    required: bool = attrs.field(init=False, default=attrs.Factory(_has_required, takes_self=True))

    def parse(self, written: Raw) -> dict[str, object]:
        """Return the typed values by attribute, with those of nested shapes.

        Raises:
            FieldError: If a value is invalid, or a required field is missing.
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
            if name not in written and not known.required:
                continue
            try:
                known.read(written, name, values)
            except FieldError as error:
                raise error.inside(f".{name}") from None

    def places(self, *above: str) -> Iterator[tuple[str, tuple[tuple[str, ...], Kind[object]]]]:
        """Yield the path and the kind of each attribute."""
        for name, known in self.fields.items():
            if isinstance(known, SchemaField):
                yield known.attribute, ((*above, name), known.kind)
            else:
                yield from known.places(*above, name)

    def write(self, values: Values) -> EventFields:
        """Return the map that has these values: its parts in order, each with values in theirs."""
        places, parts = dict(self.places()), [*self.fields]
        written: EventFields = {}
        for attribute in sorted(values, key=lambda name: parts.index(places[name][0][0])):
            (*path, last), kind = places[attribute]
            inner = written
            for name in path:
                inner = cast("EventFields", inner.setdefault(name, {}))
            inner[last] = kind.write(values[attribute])
        return written

    def with_fields(self, other: ObjectSchema) -> ObjectSchema:
        """Return the schema that has the fields of another one, too, at any depth."""
        fields = {**self.fields}
        for name, more in other.fields.items():
            known = fields.get(name)
            if isinstance(known, ObjectSchema) and isinstance(more, ObjectSchema):
                fields[name] = known.with_fields(more)
            else:
                fields[name] = more
        return ObjectSchema(fields)

    def normal(self, value: Raw) -> Raw:
        """Return the value in the form that every encoding can write."""
        if not isinstance(value, dict):
            return as_kubernetes(value)
        return {
            str(key): self.fields[key].normal(inner)
            if key in self.fields
            else as_kubernetes(inner, key)
            for key, inner in value.items()
        }


def schema_field(attribute: str, kind: Kind[T], *, required: bool = False) -> SchemaField:
    """Make a field; the type of its kind is widened to ``Kind[object]``."""
    return SchemaField(attribute, kind.general, required)


def list_of(shape: ObjectSchema, name: str = "map") -> Kind[tuple[dict[str, object], ...]]:
    """Return the kind of a list of maps of one shape."""
    return listed(Kind(name, shape.parse, shape.normal, shape.write), f"list of {name}s")


_CPU: Final = "cpu"


def unless_empty(kind: Kind[T]) -> Kind[T | None]:
    """Return the kind in which an empty text means no value, as programs in Go write it."""
    return Kind(
        kind.name,
        lambda value: None if value == "" else kind.parse(value),
        kind.normal,
        kind.general.write,
    )


def unless_0(kind: Kind[int]) -> Kind[int | None]:
    """Return the kind in which 0 means no value, as programs in Go write it."""
    return Kind(
        kind.name,
        lambda value: kind.parse(value) or None,
        kind.normal,
        kind.general.write,
    )


def _parse_namespace(value: Raw) -> str:
    namespace = TEXT.parse(value)
    _check_object(f"{namespace}/x", value, "an RFC 1123 label, which a namespace is")
    return namespace


def _parse_group_name(value: Raw) -> str:
    name = NAME.parse(value)
    _check_object(f"x/{name}", value, "an RFC 1123 subdomain, which a name is")
    return name


def _check_object(full: str, value: Raw, right: str) -> None:
    try:
        canonical_gang(full)
    except ValueError:
        raise refused(value, f"is not {right}") from None


def _parse_amounts(value: Raw) -> Mapping[str, int]:
    if not isinstance(value, dict):
        raise refused(value, "is not a map of resource types and quantities")
    amounts: dict[str, int] = {}
    for name, written in value.items():
        # QUANTITY-12
        key = VCORE if name == _CPU else str(name)
        if key in amounts:
            msg = (
                f"{display_value(written)} stands beside {_CPU} or {VCORE}, which is the same type"
            )
            raise FieldError(msg, f".{name}")
        amounts[key] = _parse_amount(name, key, written)
    return amounts


def _parse_amount(name: str, key: str, written: Raw) -> int:
    try:
        return parse_amount(key, written)
    except FieldError as error:  # whose place has Muster's name of the type
        raise FieldError(error.message, f".{name}" if error.place else "") from None


def _legal(check: Callable[[str], str]) -> Callable[[Raw], str]:
    """Return a parser that accepts a valid queue name or path, and returns it as written."""

    def parse(value: Raw) -> str:
        name = NAME.parse(value)
        try:
            check(name)
        except ValueError as error:
            raise FieldError(str(error)) from None
        return name

    return parse


QUEUE_NAME: Final = Kind("name of a queue", _legal(check_queue_name), NAME.normal)
QUEUE_PATH: Final = Kind("path of a queue", _legal(canonical_path), NAME.normal)
NAMESPACE: Final = unless_empty(Kind("namespace", _parse_namespace, TEXT.normal))
GROUP_NAME: Final = Kind("name of a PodGroup", _parse_group_name, NAME.normal)
AMOUNTS: Final = Kind(
    "map of quantities",
    lambda value: Resources(_parse_amounts(value)),
    as_written,
    write_amounts,
)
# DEVICE-11
WRITTEN_AMOUNTS: Final = Kind(
    "map of quantities",
    lambda value: without_device_types(Resources(_parse_amounts(value))),
    as_written,
    write_amounts,
)
"""The amounts of Nodes and Pods, which have no devices."""

LIMITS: Final = Kind(
    "map of quantities",
    lambda value: Limits.of(_parse_amounts(value)),
    as_written,
    lambda limits: write_amounts(dict(limits.amounts)),
)
