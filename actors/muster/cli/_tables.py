"""Tables of numbers that cut nothing: what does not fit beside the rest stands below it."""

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
"""The width of what does not go to a terminal, in columns, so that nothing is folded."""

_EDGES: Final = 2
_GAP: Final = 3
"""What a table takes besides its cells: at both ends together, and between two cells."""

_NAME: Final = 16
"""To how much names are folded before numbers go to another table."""

_SHORT: Final = 6
"""Up to how many characters a title stands in one line."""


@final
@attrs.frozen
class Column:
    """A column of a table.

    Attributes:
        title: What stands above it.
        cells: What stands in it.
        footer: What stands below it.
        folds: It has names, which may be folded; else numbers, which are never.
    """

    title: str
    cells: Sequence[str]
    footer: str = ""
    folds: bool = False

    @property
    def least(self) -> int:
        """To how much it can shrink."""
        if self.folds:
            return min(_NAME, self.most)
        words = [self.title] if len(self.title) <= _SHORT else self.title.split()
        return max(map(cell_len, ("", *self.cells, self.footer, *words)))

    @property
    def most(self) -> int:
        """How much it takes if nothing is folded."""
        return max(map(cell_len, (self.title, *self.cells, self.footer)))


Unit: TypeAlias = Sequence[Column]
"""Columns that are not parted."""


def console_of(*, err: bool = False) -> Console:
    """Give the terminal to write for; what is no terminal is wide, unless ``COLUMNS`` says else.

    Args:
        err: Standard error, not standard output.
    """
    console = Console(stderr=err, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    return console


def tables_of(console: Console, names: Unit, units: Sequence[Unit]) -> Iterator[Table]:
    """Make a table, or several where the terminal is narrow.

    Args:
        console: What is written to. Print without cropping: what is too wide even alone runs
            over the edge.
        names: The columns that begin each table.
        units: The columns of numbers; the next table goes on with those that do not fit.
    """
    columns, beside = [*names], False
    for unit in units:
        if beside and _taken([column.least for column in (*columns, *unit)]) > console.width:
            yield _table(console.width, columns)
            columns = [*names]
        columns += unit
        beside = True
    yield _table(console.width, columns)


def _taken(widths: Sequence[int]) -> int:
    return _EDGES + sum(widths) + _GAP * (len(widths) - 1)


def _table(width: int, columns: Sequence[Column]) -> Table:
    footer = any(column.footer for column in columns)
    widths = _widths(width, columns)
    # With a width of its own a table that is too wide is not squeezed.
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
    """Give each column what it needs, and then what it would like, from the left."""
    widths = [column.least for column in columns]
    for at, column in enumerate(columns):
        spare = max(0, width - _taken(widths))
        widths[at] += min(column.most - column.least, spare)
    return widths
