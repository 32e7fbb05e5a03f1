"""The fields of a configuration as it was written, and their problems.

A :class:`Field` is a part of the :mod:`tree <muster_core.config.tree>` with its path. Its methods
return a text, a number or the fields of a map, or add a problem to the :class:`Report` and return a
default. So the loading goes on, and the author of the file gets all problems at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, TypeAlias, TypeVar, final

import attrs

from muster_core.config.tree import (
    MAX_DEPTH,
    describe,
    entries_of,
    is_null,
    items_of,
    line_of,
    text_of,
)
from muster_core.values.configuration import NamedType
from muster_core.values.errors import Problem, QuantityError
from muster_core.values.names import did_you_mean
from muster_core.values.resources import parse_integer, parse_quantity

# CONFIG-3
MAX_APPLICATIONS: Final = 2**64 - 1
"""The highest ``maxapplications``: a uint64 in YuniKorn."""

# The booleans of YAML 1.1 and of YuniKorn's reader, in any case. They apply only where a boolean is
# expected: everywhere else these are texts.
# CONFIG-8
BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "y"), True),
    **dict.fromkeys(("false", "no", "off", "n"), False),
}


T = TypeVar("T")

Order: TypeAlias = tuple[int, ...]
"""A place in a document: the line, and the places in the maps and lists around it."""


@final
class Report:
    """The problems and warnings of a document.

    Args:
        file: The name of the file, or None for a configuration given inline.
        problems: The list of problems, which the parts of a file share.
    """

    def __init__(
        self, file: str | None, problems: list[tuple[Order, Problem]] | None = None
    ) -> None:
        self._file = file
        self._problems: list[tuple[Order, Problem]] = [] if problems is None else problems
        self._warnings: list[DocumentWarning] = []
        self._types: dict[str, Field] = {}

    def part(self) -> Report:
        """Return a report with its own warnings and the same list of problems."""
        return Report(self._file, self._problems)

    # CONFIG-33
    def refuse(self, field: Field, message: str) -> None:
        """Add a problem with a field."""
        problem = Problem(message, field.path, self._file, field.line)
        self._problems.append((field.order, problem))

    def warn(self, field: Field, message: str, once: str | None, guess: str) -> None:
        """Add a warning; only the first one with the same ``once`` is kept."""
        problem = Problem(message, field.path, self._file, field.line)
        self._warnings.append(DocumentWarning(field.order, once, problem, guess))

    def names_type(self, name: str, field: Field) -> None:
        """Record that a field names a resource type; only the first one is kept."""
        first = self._types.get(name)
        if first is None or field.order < first.order:
            self._types[name] = field

    # CONFIG-34
    @property
    def problems(self) -> list[Problem]:
        """All problems, in the order of the document."""
        return [problem for _, problem in sorted(self._problems, key=lambda found: found[0])]

    @property
    def warnings(self) -> list[DocumentWarning]:
        """All warnings, in the order of the document."""
        kept: list[DocumentWarning] = []
        seen: set[str] = set()
        for warning in sorted(self._warnings, key=lambda found: found.order):
            if warning.once not in seen:
                kept.append(warning)
            if warning.once is not None:
                seen.add(warning.once)
        return kept

    @property
    def types(self) -> list[tuple[Order, NamedType]]:
        """All resource types with their places, in the order of the document."""
        found = sorted(self._types.items(), key=lambda item: item[1].order)
        return [
            (field.order, NamedType(name, field.path, self._file, field.line))
            for name, field in found
        ]


@final
@attrs.frozen
class DocumentWarning:
    """A warning of a document.

    Attributes:
        order: Its place in the order of the document.
        once: The key of which only the first warning is kept, or None.
        guess: The name that the author may have meant; the decision log leaves it out.
    """

    order: Order
    once: str | None
    problem: Problem
    guess: str = ""


# CONFIG-3
@final
@attrs.frozen
class Field:
    """A part of the document, with its path.

    Attributes:
        node: The value.
        path: The path from the top, such as ``partitions[0].queues[1].name``.
        line: The line of its key (for an item of a list, its first line), or None.
        places: Its place in each of the maps and lists around it.
    """

    node: object
    path: str
    report: Report
    line: int | None = None
    places: tuple[int, ...] = ()

    @classmethod
    def top(cls, document: object, report: Report, line: int | None = None) -> Field:
        """Return the field that is the whole document; parts that know no line are at ``line``."""
        return cls(document, "", report, line_of(document, line))

    @property
    def order(self) -> Order:
        """Its place in the order of the document."""
        return (self.line or 0, *self.places)

    @property
    def is_map(self) -> bool:
        """Whether it is a map."""
        return entries_of(self.node) is not None

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return items_of(self.node) is not None

    def refuse(self, message: str) -> None:
        """Add a problem with this field."""
        self.report.refuse(self, message)

    def warn(self, message: str, *, once: str | None = None, guess: str = "") -> None:
        """Add a warning about this field; only the first one with the same ``once`` is kept."""
        self.report.warn(self, message, once, guess)

    def reporting_to(self, report: Report) -> Field:
        """Return the same field with another report."""
        return attrs.evolve(self, report=report)

    def below(self, name: str) -> str:
        """Return the path of a field of this map, on one line and of limited length."""
        part = name if name.isprintable() else repr(name)[1:-1]
        part = part if len(part) <= 80 else f"{part[:60]}…"
        return f"{self.path}.{part}" if self.path else part

    # CONFIG-4
    @property
    def is_null(self) -> bool:
        """Whether the field is empty."""
        return is_null(self.node)

    # CONFIG-18, CONFIG-36, CONFIG-87
    def fields(self, known: Collection[str] | None = None) -> dict[str, Field]:
        """Return the fields of this map by name, in the order of the document."""
        found: dict[str, Field] = {}
        for place, (key, value) in enumerate(self._parts(entries_of(self.node), "map")):
            name = text_of(key)
            if name is None:
                self.refuse(f"{describe(key)} stands where the name of a field is expected")
                continue
            field = self._part(value, self.below(name), line_of(key, self.line), place)
            if known is not None and name not in known:
                guess = did_you_mean(name, known)
                field.refuse(f"unknown field {describe(name)}: known are {', '.join(known)}{guess}")
            elif name in found:
                first = found[name].line
                before = "" if first is None else f", first in line {first}"
                field.refuse(f"the name {describe(name)} is used twice{before}")
            else:
                found[name] = field
        return found

    def items(self) -> list[Field]:
        """Return the items of this list."""
        return [
            self._part(item, f"{self.path}[{place}]", line_of(item, self.line), place)
            for place, item in enumerate(self._parts(items_of(self.node), "list"))
        ]

    def _part(self, node: object, path: str, line: int | None, place: int) -> Field:
        return Field(node, path, self.report, line, (*self.places, place))

    def _parts(self, parts: Sequence[T] | None, form: str) -> Sequence[T]:
        """Return the parts of this map or list; none, with a problem, if it is neither."""
        if parts is not None and len(self.places) < MAX_DEPTH:
            return parts
        if parts is not None:
            self.refuse(f"nested deeper than {MAX_DEPTH} levels")
        elif not self.is_null:
            self.refuse(f"{describe(self.node)} stands where a {form} is expected")
        return ()

    def text(self, expected: str = "a text") -> str | None:
        """Return the text of this field; None, with a problem, if it is not a text."""
        text = text_of(self.node)
        if text is None:
            self.refuse(f"{describe(self.node)} stands where {expected} is expected")
        return text

    # CONFIG-8
    def boolean(self, default: bool) -> bool:
        """Return the boolean of this field; the default, with a problem, if it is invalid."""
        text = self.text()
        if text is None or self.is_null:
            return default
        value = BOOLEANS.get(text.lower())
        if value is None:
            self.refuse(f"{describe(self.node)} is not a boolean: write true or false")
        return default if value is None else value

    def applications(self) -> int:
        """Return this number of applications; 0, with a problem, if it is invalid."""
        text = self.text()
        if text is None or self.is_null:
            return 0
        try:
            return parse_integer(text, 0, MAX_APPLICATIONS)
        except QuantityError as error:
            self.refuse(str(error))
            return 0

    def amounts(self) -> tuple[dict[str, int], dict[str, Field]]:
        """Return the quantity and the field of each resource type in this map."""
        fields = self.fields()
        amounts: dict[str, int] = {}
        for name, field in fields.items():
            text = field.text()
            if not name:
                field.refuse("a resource type has an empty name")
            elif text is not None:
                self.report.names_type(name, field)
                try:
                    amounts[name] = parse_quantity(name, text)
                except QuantityError as error:
                    field.refuse(str(error))
        return amounts, fields
