"""Many small choices from a few drawn bytes.

Hypothesis needs tens of microseconds for each choice, and a program has hundreds. So Hypothesis
draws each step as one string of bytes, which it also shrinks byte by byte. A 0 is always the
simplest choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, final

T = TypeVar("T")


@final
class Choices:
    """Makes a choice from each byte.

    Args:
        drawn: The bytes; after the last, all choices are the simplest ones.
    """

    def __init__(self, drawn: bytes) -> None:
        self._drawn = drawn
        self._next = 0

    def number(self, below: int) -> int:
        """Return a number from 0, less than ``below`` (at most 256)."""
        byte = self._drawn[self._next] if self._next < len(self._drawn) else 0
        self._next += 1
        return byte % below

    def large(self) -> int:
        """Return a number of two bytes."""
        return self.number(256) * 256 + self.number(256)

    def of(self, options: Sequence[T]) -> T:
        """Return one of some options, whose simplest comes first."""
        return options[self.number(len(options))]

    def one_in(self, chances: int) -> bool:
        """Return True in one of ``chances`` cases; the simplest choice is False."""
        return self.number(chances) == chances - 1
