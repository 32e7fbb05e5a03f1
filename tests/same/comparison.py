"""Compare two folders of items, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import attrs

WIDTH: Final = 160
"""How much is shown of a line, in characters."""

AROUND: Final = 2
"""How many lines are shown before the first that differs, and so many more after it."""


@attrs.frozen
class Comparison:
    """The result of comparing the items of a kind.

    Attributes:
        count: How many items were there on either side.
        wrong: For each item that differs or is missing, its name and how.
        least: How many items there should be at least, on each side.
        counts: How many there were on each side.
    """

    count: int
    wrong: Sequence[tuple[str, str]]
    least: int
    counts: tuple[int, int]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs, and enough was compared."""
        return not self.wrong and min(self.counts) >= self.least

    def lines(self, what: str, most: int) -> Iterator[str]:
        """Yield the lines of a report, with the first differences."""
        few = min(self.counts) < self.least
        how = f"{len(self.wrong):,} DIFFER" if self.wrong else "TOO FEW" if few else "the same"
        yield f"{what}: {how}"
        if few:
            old, new = self.counts
            yield f"  {old:,} before, {new:,} now, and at least {self.least:,} expected"
        for name, how in self.wrong[:most]:
            yield f"  {name}:"
            yield from (f"    {line}" for line in how.splitlines())
        if len(self.wrong) > most:
            yield f"  and {len(self.wrong) - most:,} more"


def compare(old: Path, new: Path, least: int) -> Comparison:
    """Compare the items of a kind.

    Args:
        old: Their folder as they were.
        new: Their folder as they are.
        least: How many there should be at least.
    """
    before, after = ({path.name for path in folder.iterdir()} for folder in (old, new))
    wrong: list[tuple[str, str]] = []
    for name in sorted(before | after):
        if name not in after:
            wrong.append((unquote(name), "is missing now"))
        elif name not in before:
            wrong.append((unquote(name), "was not there before"))
        else:
            was, is_ = (old / name).read_bytes(), (new / name).read_bytes()
            if was != is_:
                wrong.append((unquote(name), difference(was, is_)))
    return Comparison(len(before | after), wrong, least, (len(before), len(after)))


def difference(old: bytes, new: bytes) -> str:
    """Return the first lines that differ; of long ones the part around the first difference."""
    was, is_ = (text.decode("utf-8", "backslashreplace").split("\n") for text in (old, new))
    pairs = enumerate(zip(was, is_, strict=False))
    first = next((at for at, (one, two) in pairs if one != two), min(len(was), len(is_)))
    begin = max(0, first - AROUND)
    column = 0
    if first < min(len(was), len(is_)):
        letters = enumerate(zip(was[first], is_[first], strict=False))
        shorter = min(len(was[first]), len(is_[first]))
        column = next((at for at, (one, two) in letters if one != two), shorter)
    left = max(0, column - WIDTH // 2)
    one, two = (
        [line[left : left + WIDTH] for line in lines[begin : first + 2 * AROUND]]
        for lines in (was, is_)
    )
    _, _, _, *diff = unified_diff(one, two, n=AROUND, lineterm="")
    where = f"line {first + 1:,}" + (f", from character {left + 1:,} on" if left else "")
    return "\n".join([where, *diff])
