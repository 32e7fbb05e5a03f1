"""A configuration as it was written: a tree of texts with their lines, and its fields.

CONFIG-7 requires the original text of every name, property value and quantity, and the line of
every problem. So the reader of YAML in ``muster.config_files`` builds this tree and does not
resolve scalars; the loader decides what it expects at each place. Mappings keep the order of
their keys, and keep duplicate keys, which the loader refuses.

A :class:`Field` is a node with its path. Its methods return a text, a number or the fields of a
map, or add a problem to the :class:`Report` and return a default. So the loading goes on, and the
author of the file gets all problems at once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, final

import attrs

from muster_core.values.configuration import NamedType
from muster_core.values.errors import Problem, QuantityError
from muster_core.values.names import did_you_mean
from muster_core.values.resources import parse_integer, parse_quantity

MAX_DEPTH: Final = 200
"""How deep a document may be nested; a deeper one is a mistake or an attack on the stack."""

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@final
@attrs.frozen
class Scalar:
    """A text.

    Attributes:
        text: The text, without quotes and escapes.
        line: Its line, from 1, or None if there are no lines.
        order: Its place in the order of the document.
        quoted: Whether it was written in quotes (or as a block), and so is never null.
        literal: Whether it is a block whose lines follow ``line`` as they are.
    """

    text: str
    line: int | None = None
    order: int = 0
    quoted: bool = False
    literal: bool = False

    @property
    def is_null(self) -> bool:
        """Whether this is null, where no text is expected."""
        return not self.quoted and self.text in _NULLS


@final
@attrs.frozen
class Table:
    """A mapping, with its entries in the order of the document; a key may occur twice."""

    entries: tuple[tuple[Node, Node], ...] = ()
    line: int | None = None
    order: int = 0


@final
@attrs.frozen
class Listing:
    """A sequence."""

    items: tuple[Node, ...] = ()
    line: int | None = None
    order: int = 0


Node = Scalar | Table | Listing
"""A document, or any part of it."""


def describe(node: Node) -> str:
    """Describe a node for a message."""
    if isinstance(node, Scalar):
        return repr(node.text) if len(node.text) <= 80 else f"{node.text[:60]!r}…"
    return "a map" if isinstance(node, Table) else "a list"


def unprintable(text: str) -> bool:
    """Return whether a text has half a surrogate pair, which no output can encode."""
    return any("\ud800" <= character <= "\udfff" for character in text)


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


@final
class Report:
    """The problems and warnings of a document.

    Args:
        file: The name of the file, or None for a configuration given inline.
        problems: The list of problems, which the parts of a file share.
    """

    def __init__(self, file: str | None, problems: list[tuple[int, Problem]] | None = None) -> None:
        self._file = file
        self._problems: list[tuple[int, Problem]] = [] if problems is None else problems
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
    def types(self) -> list[tuple[int, NamedType]]:
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
        problem: The warning.
        guess: What the author may have meant; it is told and not announced.
    """

    order: int
    once: str | None
    problem: Problem
    guess: str = ""


# CONFIG-3
@final
@attrs.frozen
class Field:
    """A node of the document, with its path.

    Attributes:
        node: The node.
        path: The path from the top, such as ``partitions[0].queues[1].name``.
        report: The report for problems and warnings.
        line: The line of its key (for an item of a list, its first line), or None.
        order: The place of its key in the order of the document.
    """

    node: Node
    path: str
    report: Report
    line: int | None = None
    order: int = 0

    @classmethod
    def top(cls, node: Node, report: Report) -> Field:
        """Return the field that is the whole document."""
        return cls(node, "", report, node.line, node.order)

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
        return isinstance(self.node, Scalar) and self.node.is_null

    # CONFIG-18, CONFIG-36, CONFIG-87
    def fields(self, known: Collection[str] | None = None) -> dict[str, Field]:
        """Return the fields of this map by name, in the order of the document.

        Args:
            known: The names that are allowed; None for any.
        """
        if self.is_null:
            return {}
        if not isinstance(self.node, Table):
            self.refuse(f"{describe(self.node)} stands where a map is expected")
            return {}
        found: dict[str, Field] = {}
        for key, value in self.node.entries:
            if not isinstance(key, Scalar):
                self.refuse(f"{describe(key)} stands where the name of a field is expected")
                continue
            field = Field(value, self.below(key.text), self.report, key.line, key.order)
            if known is not None and key.text not in known:
                guess = did_you_mean(key.text, known)
                field.refuse(f"unknown field {describe(key)}: known are {', '.join(known)}{guess}")
            elif key.text in found:
                first = found[key.text].line
                before = "" if first is None else f", first in line {first}"
                field.refuse(f"the name {describe(key)} is used twice{before}")
            else:
                found[key.text] = field
        return found

    def items(self) -> list[Field]:
        """Return the items of this list."""
        if self.is_null:
            return []
        if not isinstance(self.node, Listing):
            self.refuse(f"{describe(self.node)} stands where a list is expected")
            return []
        return [
            Field(item, f"{self.path}[{index}]", self.report, item.line, item.order)
            for index, item in enumerate(self.node.items)
        ]

    def text(self) -> str | None:
        """Return the text of this field; None, with a problem, if it is not a text."""
        if isinstance(self.node, Scalar):
            return self.node.text
        self.refuse(f"{describe(self.node)} stands where a text is expected")
        return None

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
