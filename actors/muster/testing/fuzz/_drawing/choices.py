"""Many small choices out of a few drawn bytes.

Hypothesis spends tens of microseconds on every choice that it draws, and a program needs
hundreds. A step is therefore drawn as one piece of bytes, which Hypothesis also shrinks byte by
byte; a 0 stands for the simplest choice everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, final

T = TypeVar("T")


@final
class Choices:
    """Hands out one choice for each byte.

    Args:
        drawn: The bytes; when they are used up every further choice is the simplest.
    """

    def __init__(self, drawn: bytes) -> None:
        self._drawn = drawn
        self._next = 0

    def number(self, below: int) -> int:
        """Give a number from 0, less than ``below`` (at most 256)."""
        byte = self._drawn[self._next] if self._next < len(self._drawn) else 0
        self._next += 1
        return byte % below

    def large(self) -> int:
        """Give a number of two bytes."""
        return self.number(256) * 256 + self.number(256)

    def of(self, options: Sequence[T]) -> T:
        """Give one of some options, the simplest of which comes first."""
        return options[self.number(len(options))]

    def one_in(self, chances: int) -> bool:
        """Give True once in so many times."""
        return self.number(chances) == chances - 1
