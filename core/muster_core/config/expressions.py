"""Regular expressions in filters, in time proportional to the length of a name (PLACEMENT-5).

RE2 and Python's ``re`` must both accept an expression, with the same meaning; any other one is
refused. It is parsed into a tree of patterns.

``re`` would try ways one after the other, and for ``(a+)+$`` their number doubles with each
character of a name that any user may choose. Here all ways are followed at once, one character
after the other, so the time is at most that of the expression times that of the name.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final, NoReturn, TypeAlias, assert_never, final

import attrs

from muster_core.enumerations import quick_members

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Characters: pairs of a first and a last code point."""

LAST_CHARACTER: Final = 0x10FFFF

NEWLINE: Final[Ranges] = ((10, 10),)
DIGITS: Final[Ranges] = ((48, 57),)
WORD_CHARACTERS: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
BLANKS: Final[Ranges] = ((9, 10), (12, 13), (32, 32))


@final
@quick_members
class Assertion(Enum):
    """A place between two characters, where an expression may require to be."""

    START = auto()
    END = auto()
    LINE_START = auto()
    LINE_END = auto()
    WORD_EDGE = auto()
    NO_WORD_EDGE = auto()

    def holds(self, text: str, position: int) -> bool:
        """Return whether a position in a text is such a place."""
        if self is Assertion.START:
            return position == 0
        if self is Assertion.END:
            return position == len(text)
        if self is Assertion.LINE_START:
            return position == 0 or text[position - 1] == "\n"
        if self is Assertion.LINE_END:
            return position == len(text) or text[position] == "\n"
        if self is Assertion.WORD_EDGE:
            return _at_edge(text, position)
        if self is Assertion.NO_WORD_EDGE:
            return not _at_edge(text, position)
        assert_never(self)


@final
@attrs.frozen
class CharacterSet:
    """One character.

    Attributes:
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
class Concatenation:
    """Several parts, one after the other."""

    parts: tuple[Pattern, ...] = ()


@final
@attrs.frozen
class Alternation:
    """One of several parts."""

    parts: tuple[Pattern, ...]


@final
@attrs.frozen
class Repetition:
    """A part, several times.

    Attributes:
        least: How often at least.
        most: How often at most, or None for any number.
    """

    part: Pattern
    least: int
    most: int | None


Pattern: TypeAlias = CharacterSet | Assertion | Concatenation | Alternation | Repetition


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


MOST_REPEATS: Final = 1000
"""The largest number in ``{…}``, as in RE2."""

DEEPEST_GROUP: Final = 50
"""How deep groups may be nested."""

_REPETITION_COUNT: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}", re.ASCII)
_NO_LEAST: Final = re.compile(r"\{,[0-9]*\}", re.ASCII)
_FLAGS: Final = re.compile(r"\?([ims]*)(?:-([ims]+))?([:)])")
_GROUP_NAME: Final = re.compile(r"\?P<([A-Za-z_][A-Za-z0-9_]*)>", re.ASCII)
_HEX: Final = re.compile(r"[0-9a-fA-F]{2}", re.ASCII)

_CLASSES: Final[dict[str, Ranges]] = {
    "d": DIGITS,
    "w": WORD_CHARACTERS,
    "s": BLANKS,
    "D": complement(DIGITS),
    "W": complement(WORD_CHARACTERS),
    "S": complement(BLANKS),
}
_ASSERTIONS: Final = {"A": Assertion.START, "b": Assertion.WORD_EDGE, "B": Assertion.NO_WORD_EDGE}
_CONTROLS: Final = {"a": 7, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


def parse_pattern(text: str) -> Pattern:
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

    def whole(self) -> Pattern:
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

    def _choice(self) -> Pattern:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def _sequence(self) -> Pattern:
        parts: list[Pattern] = []
        while self._peek() not in ("", "|", ")"):
            if self._repeats() is not None:
                self._refuse("there is nothing to repeat")
            parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    # Repetitions

    def _repeated(self, part: Pattern) -> Pattern:
        counts = self._repeats()
        if counts is None:
            return part
        if isinstance(part, Assertion):
            self._refuse("a place such as '^' cannot be repeated")
        self._take("?")  # Whether it takes few or many does not matter for a search.
        if self._repeats() is not None:
            self._refuse("a repetition cannot be repeated: put it in a group")
        return Repetition(part, *counts)

    def _repeats(self) -> tuple[int, int | None] | None:
        """Read a repetition, and return how often at least and at most; None if there is none."""
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        if _NO_LEAST.match(self._text, self._at) is not None:
            self._refuse("write {0,n} for '{,n}', of which RE2 and Python's re think differently")
        found = self._take_match(_REPETITION_COUNT)
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

    def _atom(self) -> Pattern:
        character = self._peek()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escaped()
        self._at += 1
        if character == ".":
            return CharacterSet(() if self._flags.any_character else NEWLINE, negated=True)
        if character == "^":
            return Assertion.LINE_START if self._flags.lines else Assertion.START
        if character == "$":
            return Assertion.LINE_END if self._flags.lines else Assertion.END
        return self._one(((ord(character), ord(character)),))

    def _one(self, ranges: Ranges, *, negated: bool = False) -> CharacterSet:
        return CharacterSet(ranges, negated, self._flags.any_case)

    def _group(self) -> Pattern:
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
        return Concatenation((part,)) if isinstance(part, Assertion) else part

    def _open_special(self) -> None:
        """Read the rest of a group that begins with ``(?``."""
        name = self._take_match(_GROUP_NAME)
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

    def _escaped(self) -> Pattern:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in _ASSERTIONS:
            self._at += 2
            return _ASSERTIONS[letter]
        return self._one(self._escape())

    def _escape(self) -> Ranges:
        """Read an escape that denotes characters."""
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

    def _class(self) -> Pattern:
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


MOST_STEPS: Final = 5000
"""How many steps an expression may have when its repetitions are written out."""

_TOO_LARGE: Final = f"it is too large: written out, it has more than {MOST_STEPS} steps"


@final
@attrs.define(eq=False)
class _Step:
    """One step: its requirement, and the steps after it.

    Attributes:
        needs: A character that it takes, a place where it must be, or None for nothing.
        after: The steps that come next; empty at the end of the expression.
    """

    needs: CharacterSet | Assertion | None
    after: list[_Step]


@final
class Expression:
    """A regular expression.

    Args:
        text: The expression, in the form that RE2 and Python's ``re`` have in common.

    Raises:
        ValueError: If it is no such expression, or too large.
    """

    def __init__(self, text: str) -> None:
        self._steps = 0
        self._end = _Step(None, [])
        self._start = self._before(parse_pattern(text), self._end)

    def found_in(self, text: str) -> bool:
        """Return whether the expression matches anywhere in a text."""
        active: list[_Step] = []
        for position in range(len(text) + 1):
            active.append(self._start)
            ready = self._reached(active, text, position)
            if self._end in ready:
                return True
            character = text[position : position + 1]
            active = [
                step.after[0]
                for step in ready
                if character and isinstance(step.needs, CharacterSet) and step.needs.has(character)
            ]
        return False

    @staticmethod
    def _reached(steps: list[_Step], text: str, position: int) -> dict[_Step, None]:
        """Return these steps, and those that are reached from them without taking a character."""
        reached: dict[_Step, None] = {}
        left = list(steps)
        while left:
            step = left.pop()
            if step in reached:
                continue
            reached[step] = None
            needs = step.needs
            if needs is None or (isinstance(needs, Assertion) and needs.holds(text, position)):
                left.extend(step.after)
        return reached

    def _before(self, part: Pattern, after: _Step) -> _Step:
        """Return the first step of a part that is followed by a step."""
        match part:
            case CharacterSet() | Assertion():
                return self._step(part, [after])
            case Concatenation():
                for one in reversed(part.parts):
                    after = self._before(one, after)
                return after
            case Alternation():
                return self._step(None, [self._before(one, after) for one in part.parts])
            case Repetition():
                return self._before_repeat(part, after)

    def _before_repeat(self, repeat: Repetition, after: _Step) -> _Step:
        if repeat.most is None:
            loop = self._step(None, [after])
            loop.after.append(self._before(repeat.part, loop))
            after = loop
        else:
            end = after
            for _ in range(repeat.most - repeat.least):
                after = self._step(None, [self._before(repeat.part, after), end])
        for _ in range(repeat.least):
            first = self._before(repeat.part, after)
            if first is after:  # Nothing, however often, is nothing.
                break
            after = first
        return after

    def _step(self, needs: CharacterSet | Assertion | None, after: list[_Step]) -> _Step:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise ValueError(_TOO_LARGE)
        return _Step(needs, after)
