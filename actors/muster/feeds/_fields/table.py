"""Fields of events and of the maps inside them: a declarative table for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar, final

import attrs

from muster.feeds._encodings.raw import Raw, is_null
from muster.feeds._fields.kinds import FieldError, Kind, as_written, told
from muster_core.values.nearest import did_you_mean

T = TypeVar("T")


@final
@attrs.frozen
class Field:
    """One field of a map.

    Attributes:
        name: Its name as written.
        kind: The values that it accepts.
        doc: What it means, for the reference.
        required: Whether it is required.
        attribute: The name of the value in the typed event; by default ``name``.
        beside: The name of another field, beside which this one is optional, and what it then
            accepts; None if there is no such field.
    """

    name: str
    kind: Kind[object]
    doc: str
    required: bool = False
    attribute: str = attrs.field(
        default=attrs.Factory(lambda self: self.name, takes_self=True), kw_only=True
    )
    beside: tuple[str, Kind[object]] | None = None

    def rule(self, written: Mapping[str, Raw]) -> tuple[Kind[object], bool]:
        """Return what the field accepts in a map, and whether it is required there."""
        if self.beside is not None and not is_null(written.get(self.beside[0])):
            return self.beside[1], False
        return self.kind, self.required


def field(
    name: str,
    kind: Kind[T],
    doc: str,
    *,
    required: bool = False,
    attribute: str | None = None,
    beside: tuple[str, Kind[T]] | None = None,
) -> Field:
    """Make a field; the type of its kind is widened to ``Kind[object]``."""
    other = None if beside is None else (beside[0], _general(beside[1]))
    return Field(name, _general(kind), doc, required, attribute=attribute or name, beside=other)


def _general(kind: Kind[T]) -> Kind[object]:
    return Kind[object](kind.name, kind.parse, kind.normal)


# FEED-14
def parse_fields(
    fields: Mapping[str, Field],
    written: Mapping[str, Raw],
    problems: list[FieldError],
    *,
    null_is_absent: bool,
) -> dict[str, object]:
    """Parse every field of a map; add the problems to ``problems``.

    Args:
        fields: The known fields, by name.
        written: The map as written.
        problems: Gets every problem, in the order of the map, missing fields last.
        null_is_absent: Whether null in an optional field is the same as no field.

    Returns:
        The typed values by attribute, without the invalid ones.
    """
    values: dict[str, object] = {}
    for name, value in written.items():
        known = fields.get(name)
        if known is None:
            problems.append(_unknown(name, value, fields))
            continue
        kind, required = (
            (known.kind, known.required) if known.beside is None else known.rule(written)
        )
        if required or not (is_null(value) and null_is_absent):
            try:
                values[known.attribute] = kind.parse(value)
            except FieldError as error:
                problems.append(error.inside(name))
    problems.extend(
        FieldError("is missing", known.name)
        for known in fields.values()
        if known.required and known.name not in written and known.rule(written)[1]
    )
    return values


# FEED-80
@lru_cache(maxsize=256)  # a mistake is repeated in each event
def guessed(name: str, known: tuple[str, ...]) -> str:
    """Return which of the known names may have been meant, for the end of a message."""
    return did_you_mean(name, known)


def _unknown(name: str, value: Raw, fields: Mapping[str, Field]) -> FieldError:
    names = f"the fields are: {', '.join(fields)}" if fields else "there are no fields here"
    guess = guessed(str(name), tuple(fields))
    return FieldError(f"unknown field (with {told(value)}); {names}{guess}", name[:80])


def normal_fields(fields: Mapping[str, Field], written: Mapping[str, Raw]) -> dict[str, Raw]:
    """Return every field in the form that every encoding can write; see :class:`Kind`."""
    return {
        str(name): fields[name].kind.normal(value) if name in fields else as_written(value)
        for name, value in written.items()
    }


def record(fields: Sequence[Field], build: Callable[..., T], name: str) -> Kind[T]:
    """Return the kind of a map with named fields."""
    table = {known.name: known for known in fields}

    def parse(value: Raw) -> T:
        if not isinstance(value, dict):
            msg = f"{told(value)} is not a map"
            raise FieldError(msg)
        problems: list[FieldError] = []
        values = parse_fields(table, value, problems, null_is_absent=False)
        if problems:
            raise problems[0].inside(".")
        return build(**values)

    def normal(value: Raw) -> Raw:
        return normal_fields(table, value) if isinstance(value, dict) else as_written(value)

    return Kind(name, parse, normal)
