"""Kinds of parameters, and the columns of lists, each with its JSON schema.

One table of columns gives the rows of a list, what ``fields`` may name, and the schema of the
answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isinf
from typing import Any, Final, Generic, TypeVar, final

import attrs

from muster.service.payloads import Problem
from muster_core.decisions import seconds as as_seconds

Schema = Mapping[str, Any]
"""A JSON schema, as OpenAPI 3.1 has it."""


@final
@attrs.frozen
class ParameterKind:
    """A kind of value.

    Attributes:
        schema: Its JSON schema.
        read: Reads it from the text in a request; raises ValueError with what would be right.
    """

    schema: Schema
    read: Callable[[str], object]


@final
@attrs.frozen
class Parameter:
    """A parameter of an end point.

    Attributes:
        name: Its name in the request.
        where: ``path``, ``query`` or ``header``.
        kind: Its kind.
        about: What it means.
        required: Whether it has to be there.
        default: Its value if it is not there.
    """

    name: str
    where: str
    kind: ParameterKind
    about: str
    required: bool = False
    default: object = None

    def read(self, written: str | None) -> object:
        """Return the value.

        Args:
            written: The text in the request, or None.

        Raises:
            Problem: 400 if it is missing or wrong.
        """
        if written is None:
            if self.required:
                raise Problem(400, f"{self.name}: is missing", parameter=self.name)
            return self.default
        try:
            return self.kind.read(written)
        except ValueError as error:
            message = f"{self.name}: {written[:100]!r}: {error}"
            raise Problem(400, message, parameter=self.name) from None


def query(name: str, kind: ParameterKind, about: str, *, default: object = None) -> Parameter:
    """Return a parameter after the question mark, which may be left out."""
    return Parameter(name, "query", kind, about, default=default)


def in_path(name: str, about: str) -> Parameter:
    """Return a part of the path, which is a text."""
    return Parameter(name, "path", TEXT_KIND, about, required=True)


def header(name: str, kind: ParameterKind, about: str) -> Parameter:
    """Return a header, which may be left out."""
    return Parameter(name, "header", kind, about)


def _text(written: str) -> str:
    if not written:
        msg = "must not be empty"
        raise ValueError(msg)
    return written


TEXT_KIND: Final = ParameterKind({"type": "string", "minLength": 1}, _text)

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")


def integer(lowest: int, highest: int) -> ParameterKind:
    """Return the kind of whole numbers in a range, both bounds included."""

    def read(written: str) -> int:
        if _INTEGER.fullmatch(written) is None or not lowest <= int(written) <= highest:
            msg = f"must be a whole number from {lowest} to {highest}"
            raise ValueError(msg)
        return int(written)

    return ParameterKind({"type": "integer", "minimum": lowest, "maximum": highest}, read)


def _flag(written: str) -> bool:
    if written not in {"true", "false"}:
        msg = "must be true or false"
        raise ValueError(msg)
    return written == "true"


FLAG: Final = ParameterKind({"type": "boolean"}, _flag)


def choice(*words: str) -> ParameterKind:
    """Return the kind of one word out of several."""

    def read(written: str) -> str:
        if written not in words:
            msg = f"must be one of {', '.join(words)}"
            raise ValueError(msg)
        return written

    return ParameterKind({"type": "string", "enum": list(words)}, read)


def listed(*words: str) -> ParameterKind:
    """Return the kind of some words, with commas between them; without ``words`` any are right."""

    def read(written: str) -> tuple[str, ...]:
        found = tuple(written.split(","))
        wrong = [word for word in found if not word or (words and word not in words)]
        if wrong:
            right = f"names out of {', '.join(words)}" if words else "names"
            msg = f"must be {right}, with commas between them"
            raise ValueError(msg)
        return found

    item: Schema = {"type": "string", "enum": list(words)} if words else TEXT_KIND.schema
    return ParameterKind({"type": "array", "items": item, "minItems": 1}, read)


TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
SECONDS: Final[Schema] = {"type": "number"}
OBJECT: Final[Schema] = {"type": "object"}


def shape(**properties: Schema) -> dict[str, Any]:
    """Return the schema of an object with these properties, which need not be there."""
    return {"type": "object", "properties": properties}


def record(**properties: Schema) -> dict[str, Any]:
    """Return the schema of an object that has all of these properties."""
    return {**shape(**properties), "required": [*properties]}


def only(schema: Schema) -> dict[str, Any]:
    """Return the schema of an object that has no other properties."""
    return {**schema, "additionalProperties": False}


def array(items: Schema) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def about(schema: Schema, description: str) -> dict[str, Any]:
    """Return a schema with a description."""
    return {**schema, "description": description}


TEXTS: Final[Schema] = array(TEXT)
WORDS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
RATIO: Final[Schema] = {"anyOf": [{"type": "number"}, {"const": "inf"}]}
"""A number that may be infinite; see :func:`ratio`."""

AMOUNTS: Final[Schema] = {"type": "object", "additionalProperties": NUMBER}
"""Amounts in base units, by type."""

_NUMBERS: Final[Schema] = array(NUMBER)
DEVICES: Final[Schema] = {"type": "object", "additionalProperties": _NUMBERS}
"""Numbers of devices, by type."""


def ratio(number: float) -> float | str:
    """Return a number as JSON has it: an infinite one as ``expect`` writes it."""
    return "inf" if isinf(number) else number


def maybe(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


STOCKS: Final[Schema] = {
    "type": "object",
    "additionalProperties": shape(model=maybe(TEXT), free=_NUMBERS),
}
"""The devices of a node, by type."""


def word(words: Iterable[str]) -> Schema:
    """Return the schema of one word out of several."""
    return {"type": "string", "enum": [str(one) for one in words]}


R = TypeVar("R")


def _nothing(_: object) -> None:
    """Read what is filled in later."""


@final
@attrs.frozen
class Column(Generic[R]):
    """A field of the items of a list.

    Attributes:
        name: Its name.
        schema: The JSON schema of its values.
        about: What it means, with its unit.
        read: Reads it from what an item is made of.
        single: Whether only a single item has it, as it may be long.
        if_any: Whether an item has it only if it is not null.
    """

    name: str
    schema: Schema
    about: str
    read: Callable[[R], object] = _nothing
    single: bool = False
    if_any: bool = False


def in_seconds(at_us: int | None) -> float | int | None:
    """Return an instant or a duration in seconds, or None."""
    return None if at_us is None else as_seconds(at_us)


@final
@attrs.frozen
class ColumnKind:
    """Columns whose values have the same schema."""

    schema: Schema
    written: Callable[[Any], object] = lambda value: value
    """Returns a value as JSON has it."""

    def __call__(
        self, name: str, about: str, read: Callable[[R], object] = _nothing, *, single: bool = False
    ) -> Column[R]:
        """Return a column."""
        return Column(name, self.schema, about, lambda row: self.written(read(row)), single)


text: Final = ColumnKind(TEXT)
maybe_text: Final = ColumnKind(maybe(TEXT))
texts: Final = ColumnKind(TEXTS)
flag: Final = ColumnKind(BOOLEAN)
number: Final = ColumnKind(NUMBER)
maybe_number: Final = ColumnKind(maybe(NUMBER))
amounts: Final = ColumnKind(AMOUNTS, dict)
maybe_amounts: Final = ColumnKind(maybe(AMOUNTS), lambda some: None if some is None else dict(some))
words: Final = ColumnKind(WORDS, dict)
seconds: Final = ColumnKind(SECONDS, in_seconds)
instant: Final = ColumnKind(maybe(SECONDS), in_seconds)
"""Instants and durations are read in microseconds."""


@final
class Table(Generic[R]):
    """The fields of the items of a list, in their order."""

    def __init__(self, *columns: Column[R]) -> None:
        self.columns = columns

    # LISTS-12
    def names(self, *, single: bool) -> Sequence[str]:
        """Return the names that the parameter ``fields`` may have.

        Args:
            single: Whether it is for a single item.
        """
        return [one.name for one in self._columns_of(single=single)]

    def picked(self, names: Sequence[str] | None, *, single: bool) -> Sequence[Column[R]]:
        """Return the columns of these names in the order of the table; all for None."""
        columns = self._columns_of(single=single)
        return columns if names is None else [one for one in columns if one.name in names]

    def schema(self, *, single: bool) -> dict[str, Any]:
        """Return the JSON schema of an item; with ``fields`` it has only those."""
        columns = self._columns_of(single=single)
        return only(shape(**{one.name: about(one.schema, one.about) for one in columns}))

    def _columns_of(self, *, single: bool) -> Sequence[Column[R]]:
        return [one for one in self.columns if single or not one.single]


def row_of(columns: Iterable[Column[R]], item: R) -> Mapping[str, object]:
    """Return the fields of an item."""
    return {
        one.name: value
        for one in columns
        if (value := one.read(item)) is not None or not one.if_any
    }
