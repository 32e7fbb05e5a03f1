"""The parts of a regular expression, as a tree (PLACEMENT-5)."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, TypeAlias, assert_never, final

import attrs

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Characters: pairs of a first and a last code point."""

LAST_CHARACTER: Final = 0x10FFFF

NEWLINE: Final[Ranges] = ((10, 10),)
DIGITS: Final[Ranges] = ((48, 57),)
WORD_CHARACTERS: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
BLANKS: Final[Ranges] = ((9, 10), (12, 13), (32, 32))


@final
class Spot(Enum):
    """A place between two characters, where an expression may require to be."""

    START = auto()
    END = auto()
    LINE_START = auto()
    LINE_END = auto()
    WORD_EDGE = auto()
    NO_WORD_EDGE = auto()

    def holds(self, text: str, position: int) -> bool:
        """Return whether a position in a text is such a place."""
        if self is _START:
            return position == 0
        if self is _END:
            return position == len(text)
        if self is _LINE_START:
            return position == 0 or text[position - 1] == "\n"
        if self is _LINE_END:
            return position == len(text) or text[position] == "\n"
        if self is _WORD_EDGE:
            return _at_edge(text, position)
        if self is _NO_WORD_EDGE:
            return not _at_edge(text, position)
        assert_never(self)


# Looking up a member of an enum takes ten times as long, and this is done for each place in a text.
_START: Final = Spot.START
_END: Final = Spot.END
_LINE_START: Final = Spot.LINE_START
_LINE_END: Final = Spot.LINE_END
_WORD_EDGE: Final = Spot.WORD_EDGE
_NO_WORD_EDGE: Final = Spot.NO_WORD_EDGE


@final
@attrs.frozen
class OneOf:
    """One character.

    Attributes:
        ranges: The characters.
        negated: Whether it is any character but these.
        any_case: Whether the other case of a character counts as well.
    """

    ranges: Ranges
    negated: bool = False
    any_case: bool = False

    def has(self, character: str) -> bool:
        """Return whether a character is one of these."""
        found = self._lists(character)
        if self.any_case and not found:
            found = any(
                len(other) == 1 and self._lists(other)
                for other in (character.lower(), character.upper())
            )
        return found is not self.negated

    def _lists(self, character: str) -> bool:
        code = ord(character)
        return any(first <= code <= last for first, last in self.ranges)


@final
@attrs.frozen
class Sequence:
    """Several parts, one after the other."""

    parts: tuple[Part, ...] = ()


@final
@attrs.frozen
class Choice:
    """One of several parts."""

    parts: tuple[Part, ...]


@final
@attrs.frozen
class Repeat:
    """A part, several times.

    Attributes:
        part: The part.
        least: How often at least.
        most: How often at most, or None for any number.
    """

    part: Part
    least: int
    most: int | None


Part: TypeAlias = OneOf | Spot | Sequence | Choice | Repeat


def _at_edge(text: str, position: int) -> bool:
    before = position > 0 and _in_word(text[position - 1])
    after = position < len(text) and _in_word(text[position])
    return before is not after


def _in_word(character: str) -> bool:
    code = ord(character)
    return any(first <= code <= last for first, last in WORD_CHARACTERS)


def complement(ranges: Ranges) -> Ranges:
    """Return all other characters."""
    found: list[tuple[int, int]] = []
    start = 0
    for first, last in sorted(ranges):
        if start < first:
            found.append((start, first - 1))
        start = max(start, last + 1)
    if start <= LAST_CHARACTER:
        found.append((start, LAST_CHARACTER))
    return tuple(found)
