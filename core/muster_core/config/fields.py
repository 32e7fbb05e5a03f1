"""Reading one field of a document at a time, and collecting what is wrong with all of them.

A :class:`Field` is a node with its path; what is asked of it (a text, a number, the
fields of a map) either comes back or becomes a problem in the :class:`Report`, and
the reading goes on: whoever wrote the file wants to hear of all of it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.config.document import Listing, Node, Scalar, Table, describe
from muster_core.values.errors import Problem, QuantityError
from muster_core.values.quantities import parse_integer, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_APPLICATIONS: Final = 2**64 - 1
"""The highest ``maxapplications``: a uint64 in YuniKorn."""

# What YAML 1.1 and the reader of YuniKorn take for booleans; the spelling in capitals does not
# matter. Only where a boolean is expected: everywhere else these are texts.
BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "y"), True),
    **dict.fromkeys(("false", "no", "off", "n"), False),
}


@final
class Report:
    """What is wrong with a document, and what its author should know.

    Args:
        file: The name of the file, or None for a configuration given inline.
        problems: Where the problems go; shared between the parts of a file.
    """

    def __init__(self, file: str | None, problems: list[tuple[int, Problem]] | None = None) -> None:
        self._file = file
        self._problems: list[tuple[int, Problem]] = [] if problems is None else problems
        self._warnings: list[tuple[int, str | None, str]] = []

    def part(self) -> Report:
        """Give a report with warnings of its own, and the same problems."""
        return Report(self._file, self._problems)

    def refuse(self, field: Field, message: str) -> None:
        """Add a problem with a field."""
        problem = Problem(message, field.path, self._file, field.line)
        self._problems.append((field.order, problem))

    def warn(self, field: Field, message: str, once: str | None) -> None:
        """Add a warning; of those with the same ``once`` only the first counts."""
        self._warnings.append((field.order, once, message))

    @property
    def problems(self) -> list[Problem]:
        """Every problem, in the order of the text."""
        return [problem for _, problem in sorted(self._problems, key=lambda found: found[0])]

    @property
    def warnings(self) -> list[tuple[int, str]]:
        """Every warning with its place, in the order of the text."""
        kept: list[tuple[int, str]] = []
        seen: set[str] = set()
        for order, once, message in sorted(self._warnings, key=lambda found: found[0]):
            if once not in seen:
                kept.append((order, message))
            if once is not None:
                seen.add(once)
        return kept


@final
@attrs.frozen
class Field:
    """A node of the document, with its name and what it is to be reported as.

    Attributes:
        node: What stands there.
        path: The path from the top, such as ``partitions[0].queues[1].name``.
        report: Where problems and warnings go.
        line: The line of its key (of an item of a list: its first line), or None.
        order: The place of its key in the order of the text.
    """

    node: Node
    path: str
    report: Report
    line: int | None = None
    order: int = 0

    @classmethod
    def top(cls, node: Node, report: Report) -> Field:
        """Give the field that is the whole document."""
        return cls(node, "", report, node.line, node.order)

    def refuse(self, message: str) -> None:
        """Report that this field makes the configuration unusable."""
        self.report.refuse(self, message)

    def warn(self, message: str, *, once: str | None = None) -> None:
        """Report what its author should know; of those with the same ``once``, the first."""
        self.report.warn(self, message, once)

    def reporting_to(self, report: Report) -> Field:
        """Give the same field with another report."""
        return attrs.evolve(self, report=report)

    def below(self, name: str) -> str:
        """Give the path of a field of this map, on one line and not without end."""
        part = name if name.isprintable() else repr(name)[1:-1]
        part = part if len(part) <= 80 else f"{part[:60]}…"
        return f"{self.path}.{part}" if self.path else part

    @property
    def is_null(self) -> bool:
        """Say whether nothing stands there."""
        return isinstance(self.node, Scalar) and self.node.is_null

    def fields(self, known: Collection[str] | None = None) -> dict[str, Field]:
        """Give the fields of this map by name, in the order of the text.

        Args:
            known: The names that may stand there; None for any.
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
                field.refuse(f"unknown field {describe(key)}: known are {', '.join(known)}")
            elif key.text in found:
                first = found[key.text].line
                before = "" if first is None else f", first in line {first}"
                field.refuse(f"the name {describe(key)} is used twice{before}")
            else:
                found[key.text] = field
        return found

    def items(self) -> list[Field]:
        """Give the items of this list."""
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
        """Give the text that stands there, or None (and a problem) if it is none."""
        if isinstance(self.node, Scalar):
            return self.node.text
        self.refuse(f"{describe(self.node)} stands where a text is expected")
        return None

    def boolean(self, default: bool) -> bool:
        """Give the boolean that stands there; the default (and a problem) if it is none."""
        text = self.text()
        if text is None or self.is_null:
            return default
        value = BOOLEANS.get(text.lower())
        if value is None:
            self.refuse(f"{describe(self.node)} is not a boolean: write true or false")
        return default if value is None else value

    def applications(self) -> int:
        """Give the number of applications that stands there; 0 (and a problem) if it is none."""
        text = self.text()
        if text is None or self.is_null:
            return 0
        try:
            return parse_integer(text, 0, MAX_APPLICATIONS)
        except QuantityError as error:
            self.refuse(str(error))
            return 0

    def amounts(self) -> tuple[dict[str, int], dict[str, Field]]:
        """Give the quantity of each resource type that this map names, and its field."""
        fields = self.fields()
        amounts: dict[str, int] = {}
        for name, field in fields.items():
            text = field.text()
            if not name:
                field.refuse("a resource type has an empty name")
            elif text is not None:
                try:
                    amounts[name] = parse_quantity(name, text)
                except QuantityError as error:
                    field.refuse(str(error))
        return amounts, fields
