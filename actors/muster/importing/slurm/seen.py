"""Which runs of which jobs were read, in little memory: a dump has millions of jobs."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Final, final
from zlib import crc32

_BITS: Final = 6
"""How many numbers of jobs have a page together: 2 to the power of this."""


@final
class Seen:
    """Remembers runs by the number of the job, and by what tells apart its runs."""

    def __init__(self) -> None:
        self._pages: dict[tuple[Hashable, int], array[int]] = {}
        self._more: dict[tuple[Hashable, int], list[int]] = {}

    def add(self, group: Hashable, number: int, run: str) -> int:
        """Remember a run.

        Args:
            group: In which numbers are unique, such as an array.
            number: The number, from 0.
            run: What only this run of the job has, such as the time of its start.

        Returns:
            Which run of the job this is, from 1; 0 if it was remembered before.
        """
        page = self._pages.get((group, number >> _BITS))
        if page is None:
            page = self._pages[group, number >> _BITS] = array("I", bytes(4 << _BITS))
        mark = crc32(run.encode()) or 1
        first = page[number & ((1 << _BITS) - 1)]
        if not first:
            page[number & ((1 << _BITS) - 1)] = mark
            return 1
        others = self._more.setdefault((group, number), [])
        if mark == first or mark in others:
            return 0
        others.append(mark)
        return len(others) + 1

    def has(self, group: Hashable, number: int) -> bool:
        """Return whether there was a run of a job."""
        page = self._pages.get((group, number >> _BITS))
        return page is not None and page[number & ((1 << _BITS) - 1)] != 0
