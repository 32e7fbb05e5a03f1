"""Tables that ``sacctmgr --parsable2`` prints: a line that names the columns, and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.feeds import FeedError

Row = tuple[int, Mapping[str, str]]
"""The line of a row, from 1, and its values by the names of the columns, without blanks."""


def text_of(file: str) -> str:
    """Return the text of a file.

    Raises:
        FeedError: If it cannot be read.
    """
    try:
        return Path(file).read_bytes().decode("utf-8-sig", "backslashreplace")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise FeedError(file, f"cannot be read: {reason}") from None


def rows_of(text: str, file: str, needed: Sequence[str], right: str) -> list[Row]:
    """Return the rows of a table.

    Args:
        text: What was printed.
        file: Its name for messages.
        needed: The columns that must be there, in lower case.
        right: The command that prints such a table.

    Raises:
        FeedError: If it is no such table.
    """
    lines = text.splitlines()
    names = [name.strip().replace(" ", "").lower() for name in lines[0].split("|")] if lines else []
    lacks = [name for name in needed if name not in names]
    if lacks:
        msg = f"has no column {lacks[0]!r} in its first line: make it with {right}"
        raise FeedError(file, msg, 1)
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], start=2):
        values = line.split("|")
        if not line.strip():
            continue
        if len(values) < len(names):
            msg = f"has {len(values)} columns where {len(names)} are named"
            raise FeedError(file, msg, number)
        rows.append((number, dict(zip(names, values, strict=False))))
    return rows
