"""Rows of a table, plain or gzip-compressed, with their lines."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence

from muster.feeds import FeedError
from muster.feeds._encodings.source import Input
from muster.importing.workload.reading import lines_of
from muster_core.values.nearest import did_you_mean

Row = tuple[int, Sequence[str]]
"""The line of a row, and its cells."""


def rows_of(
    source: Input, delimiter: str, needed: Collection[str], says: str
) -> tuple[list[str], Iterator[Row]]:
    """Return the columns of a table, and its rows.

    Args:
        source: The table.
        delimiter: What parts its cells.
        needed: The columns that it must have.
        says: The mapping file, which names them.

    Raises:
        FeedError: If it cannot be read, or lacks a column.
    """
    place = _Place()
    reader = csv.reader(place.texts(lines_of(source)), delimiter=delimiter, strict=True)
    rows = _rows(reader, place, source.name)
    first = next(rows, None)
    if first is None:
        raise FeedError(source.name, "is empty: its first line has to name the columns")
    columns = [cell.strip() for cell in first[1]]
    twice = [name for name in needed if columns.count(name) > 1]
    if twice:
        msg = f"names the column {twice[0]!r} twice: give one of them another name"
        raise FeedError(source.name, msg, first[0])
    for name in needed:
        if name not in columns:
            hint = _delimiter_hint(columns, delimiter, says) or did_you_mean(name, columns)
            msg = f"has no column {name!r}, which {says} names: {', '.join(columns)[:200]}{hint}"
            raise FeedError(source.name, msg, first[0])
    return columns, rows


def _delimiter_hint(columns: Sequence[str], delimiter: str, says: str) -> str:
    """Return what to write if something else parts the cells."""
    if len(columns) != 1:
        return ""
    other = max((mark for mark in ";\t|," if mark != delimiter), key=columns[0].count)
    if other not in columns[0]:
        return ""
    word = "tab" if other == "\t" else f"'{other}'"
    return f"; if {word} parts the cells, write `delimiter: {word}` in {says}"


class _Place:
    """The line at which a reader is; a quoted cell may span several lines."""

    def __init__(self) -> None:
        self.line = 0

    def texts(self, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
        for number, line in lines:
            self.line = number
            yield line.replace("\x00", "\ufffd") + "\n"


def _rows(reader: Iterator[list[str]], place: _Place, name: str) -> Iterator[Row]:
    line = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                msg = "a cell begins with a quotation mark, and none ends it: write two for one"
                raise FeedError(name, msg, line) from None
            raise FeedError(name, f"is no table from here on: {error}", place.line) from None
        if row is None:
            return
        if row:
            yield line, row
        line = place.line + 1
