"""Tables of numbers that cut nothing: columns that do not fit go to another table below."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, final

import attrs
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

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
    for unit in (part for whole in units for part in _parted(console.width, names, whole)):
        if beside and _taken([column.least for column in (*columns, *unit)]) > console.width:
            yield _table(console.width, columns)
            columns = [*names]
        columns += unit
        beside = True
    yield _table(console.width, columns)


def _parted(width: int, names: Unit, unit: Unit) -> Iterator[Unit]:
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
