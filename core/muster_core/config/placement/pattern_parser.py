"""Parsing regular expressions: what RE2 and Python's ``re`` both accept (PLACEMENT-5).

What only one of the two accepts, or what they take for different things, is refused.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn, final

import attrs

from muster_core.config.placement.patterns import (
    BLANKS,
    DIGITS,
    NEWLINE,
    WORD_CHARACTERS,
    Choice,
    OneOf,
    Part,
    Ranges,
    Repeat,
    Sequence,
    Spot,
    complement,
)

MOST_REPEATS: Final = 1000
"""The largest number in ``{…}``, as in RE2."""

DEEPEST_GROUP: Final = 50
"""How deep groups may be nested."""

_COUNT: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}", re.ASCII)
_NO_LEAST: Final = re.compile(r"\{,[0-9]*\}", re.ASCII)
_FLAGS: Final = re.compile(r"\?([ims]*)(?:-([ims]+))?([:)])")
_NAME: Final = re.compile(r"\?P<([A-Za-z_][A-Za-z0-9_]*)>", re.ASCII)
_HEX: Final = re.compile(r"[0-9a-fA-F]{2}", re.ASCII)

_CLASSES: Final[dict[str, Ranges]] = {
    "d": DIGITS,
    "w": WORD_CHARACTERS,
    "s": BLANKS,
    "D": complement(DIGITS),
    "W": complement(WORD_CHARACTERS),
    "S": complement(BLANKS),
}
_SPOTS: Final = {"A": Spot.START, "b": Spot.WORD_EDGE, "B": Spot.NO_WORD_EDGE}
_CONTROLS: Final = {"a": 7, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


def parse_pattern(text: str) -> Part:
    """Parse a regular expression.

    Raises:
        ValueError: If it is none that RE2 and Python's ``re`` both accept.
    """
    return _Parser(text).whole()


@final
@attrs.frozen
class _Flags:
    """The flags in force.

    Attributes:
        any_case: ``i``.
        lines: ``m``: ``^`` and ``$`` are at each line.
        any_character: ``s``: a point is a newline, too.
    """

    any_case: bool = False
    lines: bool = False
    any_character: bool = False

    def changed(self, on: str, off: str) -> _Flags:
        """Return the flags after ``(?on-off)``."""
        return _Flags(
            (self.any_case or "i" in on) and "i" not in off,
            (self.lines or "m" in on) and "m" not in off,
            (self.any_character or "s" in on) and "s" not in off,
        )


@final
class _Parser:
    """One expression, and how much of it is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = _Flags()
        self._names: set[str] = set()

    def whole(self) -> Part:
        flags = _FLAGS.match(self._text, 1) if self._text.startswith("(?") else None
        if flags is not None and flags[3] == ")":
            # Python's re takes flags for the whole expression only here, and none off.
            if flags[2] or not flags[1]:
                self._refuse("these flags are not possible")
            self._flags = self._flags.changed(flags[1], "")
            self._at = flags.end()
        part = self._choice()
        if self._at < len(self._text):
            self._refuse("')' closes nothing")
        return part

    def _refuse(self, why: str) -> NoReturn:
        msg = f"{why} (at character {self._at + 1})"
        raise ValueError(msg)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        self._at += len(expected) * found
        return found

    def _take_match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        self._at = self._at if found is None else found.end()
        return found

    def _choice(self) -> Part:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Part:
        parts: list[Part] = []
        while self._peek() not in ("", "|", ")"):
            if self._repeats() is not None:
                self._refuse("there is nothing to repeat")
            parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    # Repetitions

    def _repeated(self, part: Part) -> Part:
        counts = self._repeats()
        if counts is None:
            return part
        if isinstance(part, Spot):
            self._refuse("a place such as '^' cannot be repeated")
        self._take("?")  # Whether it takes few or many does not matter for a search.
        if self._repeats() is not None:
            self._refuse("a repetition cannot be repeated: put it in a group")
        return Repeat(part, *counts)

    def _repeats(self) -> tuple[int, int | None] | None:
        """Read a repetition, and return how often at least and at most; None if there is none."""
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        if _NO_LEAST.match(self._text, self._at) is not None:
            self._refuse("write {0,n} for '{,n}', of which RE2 and Python's re think differently")
        found = self._take_match(_COUNT)
        if found is None:
            return None
        numbers = [int(number) for number in (found[1], found[3]) if number and len(number) < 8]
        if len(numbers) < 1 + bool(found[3]) or max(numbers) > MOST_REPEATS:
            self._refuse(f"at most {MOST_REPEATS} repetitions are possible")
        least, most = numbers[0], numbers[-1] if found[3] or not found[2] else None
        if most is not None and most < least:
            self._refuse(f"{least} repetitions are more than {most}")
        return least, most

    # Atoms

    def _atom(self) -> Part:
        character = self._peek()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escaped()
        self._at += 1
        if character == ".":
            return OneOf(() if self._flags.any_character else NEWLINE, negated=True)
        if character == "^":
            return Spot.LINE_START if self._flags.lines else Spot.START
        if character == "$":
            return Spot.LINE_END if self._flags.lines else Spot.END
        return self._one(((ord(character), ord(character)),))

    def _one(self, ranges: Ranges, *, negated: bool = False) -> OneOf:
        return OneOf(ranges, negated, self._flags.any_case)

    def _group(self) -> Part:
        self._at += 1
        outer = self._flags
        self._depth += 1
        if self._depth > DEEPEST_GROUP:
            self._refuse(f"at most {DEEPEST_GROUP} groups can be nested")
        if self._peek() == "?":
            self._open_special()
        part = self._choice()
        if not self._take(")"):
            self._refuse("a ')' is missing")
        self._flags = outer
        self._depth -= 1
        # A place can be repeated in a group.
        return Sequence((part,)) if isinstance(part, Spot) else part

    def _open_special(self) -> None:
        """Read what stands after the ``(`` of a group that begins with ``(?``."""
        name = self._take_match(_NAME)
        if name is not None:
            if name[1] in self._names:
                self._refuse(f"two groups are called {name[1]!r}")
            self._names.add(name[1])
            return
        flags = _FLAGS.match(self._text, self._at)
        if flags is None or flags[3] == ")" or set(flags[1]) & set(flags[2] or ""):
            self._refuse(
                "'(?' stands before ':', 'P<name>' or flags out of i, m and s with ':'; "
                "RE2 and Python's re have nothing else in common"
            )
        self._at = flags.end()
        self._flags = self._flags.changed(flags[1], flags[2] or "")

    # Escapes and classes

    def _escaped(self) -> Part:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in _SPOTS:
            self._at += 2
            return _SPOTS[letter]
        return self._one(self._escape())

    def _escape(self) -> Ranges:
        """Read an escape that stands for characters."""
        self._at += 1
        letter = self._peek()
        self._at += 1
        if letter in _CLASSES:
            return _CLASSES[letter]
        code = ord(letter) if letter and letter.isascii() and not letter.isalnum() else None
        if letter == "x":
            digits = self._take_match(_HEX)
            code = None if digits is None else int(digits[0], 16)
        code = _CONTROLS.get(letter, code)
        if code is None:
            self._at -= 2
            self._refuse(f"'\\{letter}' is nothing that RE2 and Python's re have in common")
        return ((code, code),)

    def _class(self) -> Part:
        self._at += 1
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self._peek() != "]":
            first = False
            ranges.extend(self._class_item())
        self._at += 1
        return self._one(tuple(ranges), negated=negated)

    def _class_item(self) -> Ranges:
        start = self._class_character()
        after = self._text[self._at + 1 : self._at + 2]
        if self._peek() != "-" or after in ("]", ""):
            return start
        self._at += 1
        end = self._class_character()
        if not _is_one(start) or not _is_one(end) or end < start:
            self._refuse("a range goes from a character to one that is not before it")
        return ((start[0][0], end[0][0]),)

    def _class_character(self) -> Ranges:
        character = self._peek()
        if not character:
            self._refuse("a ']' is missing")
        if self._text.startswith(("[:", "[=", "[."), self._at):
            self._refuse("'[:' is a class in RE2 alone: write '\\[:', or the characters themselves")
        if character == "\\":
            return self._escape()
        self._at += 1
        return ((ord(character), ord(character)),)


def _is_one(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]
