"""Output of commands: tables for people, JSON and YAML for programs.

A table cuts nothing: columns that do not fit go to another table below.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast, final

import attrs
import click
import yaml
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table

from muster.cli._options import printable
from muster_core.values.resources import has_parts

_WIDE: Final = 250
"""The width in columns of output that is not a terminal, so that nothing is folded."""

_EDGES: Final = 2
_GAP: Final = 3
"""The width of a table besides its cells: both edges together, and the gap between two cells."""

_NAME: Final = 16
"""The width to which names are folded before numbers go to another table."""

_SHORT: Final = 6
"""The most characters of a title that is never folded."""


@final
@attrs.frozen
class Column:
    """A column of a table.

    Attributes:
        title: Its title.
        cells: Its cells.
        footer: Its footer.
        folds: Whether it has names, which may be folded, not numbers, which may not.
        alone: Its title if it is parted from the columns of its unit; empty for the same.
    """

    title: str
    cells: Sequence[str]
    footer: str = ""
    folds: bool = False
    alone: str = ""

    @property
    def least(self) -> int:
        """The smallest width to which it can shrink."""
        if self.folds:
            return min(_NAME, self.most)
        words = [self.title] if len(self.title) <= _SHORT else self.title.split()
        return max(map(cell_len, ("", *self.cells, self.footer, *words)))

    @property
    def most(self) -> int:
        """The width at which nothing is folded."""
        return max(map(cell_len, (self.title, *self.cells, self.footer)))


Unit: TypeAlias = Sequence[Column]
"""Columns that stay in one table, if it has room for them."""


def console_of(*, err: bool = False) -> Console:
    """Return the console to render for; it is wide if not a terminal and ``COLUMNS`` is not set.

    Args:
        err: Whether it is for standard error instead of standard output.
    """
    console = Console(stderr=err, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    return console


def tables_of(console: Console, names: Unit, units: Sequence[Unit]) -> Iterator[Table]:
    """Yield a table, or several if the terminal is narrow.

    Args:
        console: The console to render for. Print the tables without cropping: a column that is
            too wide even alone extends beyond the edge.
        names: The columns that begin each table.
        units: The columns of numbers; those that do not fit go to the next table.
    """
    columns, beside = [*names], False
    for unit in (part for whole in units for part in _split_unit(console.width, names, whole)):
        if beside and _taken([column.least for column in (*columns, *unit)]) > console.width:
            yield _table(console.width, columns)
            columns = [*names]
        columns += unit
        beside = True
    yield _table(console.width, columns)


def print_parts(
    parts: Iterable[RenderableType], console: Console, *, err: bool = False, soft_wrap: bool = False
) -> None:
    """Print texts and tables for people.

    Args:
        parts: The texts and tables.
        console: The console that they are rendered for.
        err: Whether they go to standard error.
        soft_wrap: Whether texts are left to the terminal to wrap.
    """
    # rich exits by itself if a pipe is closed, so it only renders and click prints.
    with console.capture() as capture:
        for part in parts:
            console.print(part, soft_wrap=soft_wrap and isinstance(part, str), crop=False)
    text = "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
    click.echo(text, nl=False, err=err, color=True)


def _split_unit(width: int, names: Unit, unit: Unit) -> Iterator[Unit]:
    """Yield a unit, or its columns one by one if a table has no room for all of them."""
    if len(unit) == 1 or _taken([column.least for column in (*names, *unit)]) <= width:
        yield unit
    else:
        for column in unit:
            yield [attrs.evolve(column, title=column.alone or column.title)]


def _taken(widths: Sequence[int]) -> int:
    return _EDGES + sum(widths) + _GAP * (len(widths) - 1)


def _table(width: int, columns: Sequence[Column]) -> Table:
    footer = any(column.footer for column in columns)
    widths = _widths(width, columns)
    # With an explicit width, rich does not shrink a table that is too wide.
    table = Table(box=box.SIMPLE_HEAD, show_footer=footer, pad_edge=False, width=_taken(widths))
    for column, chosen in zip(columns, widths, strict=True):
        table.add_column(
            column.title,
            column.footer,
            justify="left" if column.folds else "right",
            overflow="fold",
            width=chosen,
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


def _widths(width: int, columns: Sequence[Column]) -> list[int]:
    """Return the widths of columns: what each needs at least, then more from the left."""
    widths = [column.least for column in columns]
    for at, column in enumerate(columns):
        spare = max(0, width - _taken(widths))
        widths[at] += min(column.most - column.least, spare)
    return widths


Function = TypeVar("Function", bound=Callable[..., Any])

Item = Mapping[str, Any]
"""An item of an answer of the server."""


@final
class OutputForm(StrEnum):
    """The form in which a command prints."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def map_of(value: object) -> Mapping[str, Any] | None:
    """Return a value if it is a map, or None."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def list_of(value: object) -> Sequence[Any] | None:
    """Return a value if it is a list, or None."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else None


def _as_output_form(_context: click.Context, _parameter: click.Parameter, value: str) -> OutputForm:
    return OutputForm(value)


def form_option(function: Function) -> Function:
    """Add ``-o`` to a command, as the argument ``form``."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice([form.value for form in OutputForm]),
        callback=_as_output_form,
        default=OutputForm.TABLE.value,
        show_default=True,
        help="A table, one with more columns, or the whole answer as JSON or YAML.",
    )(function)


@final
@attrs.frozen
class ItemField:
    """A column of a table of items.

    Attributes:
        title: Its title.
        text: Returns the cell of an item.
        wide: Whether only wide tables have it.
        folds: Whether it has names, which may be folded, not numbers, which may not.
        if_any: Whether it is left out if it is empty in each row.
    """

    title: str
    text: Callable[[Item], str]
    wide: bool = False
    folds: bool = False
    if_any: bool = False


@final
@attrs.frozen
class FieldKind:
    """Columns of fields that are written in the same way; their titles are the names of the fields."""

    text: Callable[[Any], str]
    folds: bool = False

    def __call__(self, *fields: str, wide: bool = False, if_any: bool = False) -> list[ItemField]:
        """Return the columns of some fields."""
        return [
            ItemField(name.replace("_", " "), partial(self._cell, name), wide, self.folds, if_any)
            for name in fields
        ]

    def _cell(self, name: str, item: Item) -> str:
        return self.text(item.get(name))


def cell_text(value: object) -> str:
    """Return the text of a value in a cell."""
    listed = list_of(value)
    if listed is not None:
        return ", ".join(map(cell_text, listed))
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else ""
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.6g}"
        case _:
            return printable(str(value))


names: Final = FieldKind(cell_text, folds=True)
numbers: Final = FieldKind(cell_text)

_UNITS: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def amounts_text(found: Mapping[str, int] | None) -> str:
    """Return amounts in base units as a person writes them: ``vcore 1.5, memory 4Gi``."""
    if not found:
        return ""
    return ", ".join(f"{printable(kind)} {_amount(kind, one)}" for kind, one in found.items())


amounts: Final = FieldKind(amounts_text, folds=True)


def _amount(kind: str, amount: int) -> str:
    if has_parts(kind):
        return _exact(amount / 1000, 2) if amount % 10 == 0 else f"{amount}m"
    if kind == "memory":
        for unit, size in _UNITS:
            if amount >= size and amount * 10 % size == 0:
                return f"{_exact(amount / size, 1)}{unit}"
    return f"{amount:,}"


def _exact(amount: float, places: int) -> str:
    """Return a number with a limited number of decimal places, without an exponent."""
    return f"{amount:.{places}f}".rstrip("0").rstrip(".")


def table_text(
    items: Sequence[Item], fields: Sequence[ItemField], form: OutputForm, heads: int = 1
) -> str:
    """Return items as a table, whose first columns, one or more, have the names of the rows."""
    used = [field for field in fields if form is OutputForm.WIDE or not field.wide]
    columns = [
        Column(field.title, [field.text(item) for item in items], folds=field.folds)
        for field in used
        if not field.if_any or any(map(field.text, items))
    ]
    return rendered(columns, heads)


def rendered(columns: Sequence[Column], heads: int = 1) -> str:
    """Return a table, whose first columns, one or more, have the names of the rows."""
    console = console_of()
    with console.capture() as capture:
        for table in tables_of(console, columns[:heads], [[one] for one in columns[heads:]]):
            console.print(table, crop=False)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def print_map(value: object, form: OutputForm) -> None:
    """Print a whole answer as JSON or YAML."""
    if form is OutputForm.YAML:
        text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=100)
        click.echo(text, nl=False)
    else:
        click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Print an item as lines of a name and a text."""
    found = [(title, text) for title, text in pairs if text]
    width = max((len(title) for title, _ in found), default=0)
    for title, text in found:
        first, *more = text.splitlines() or [""]
        click.echo(f"{title:<{width}}  {first}")
        for line in more:
            click.echo(f"{'':<{width}}  {line}")
