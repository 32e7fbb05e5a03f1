"""What became of everything that was read: nothing of a dump is left out in silence."""

from __future__ import annotations

from collections import Counter
from typing import final

import attrs


@final
@attrs.frozen
class Cause:
    """Why some records are not in the feed, or are in it in another form.

    Attributes:
        what: What they are, in the singular, such as ``job``.
        text: The cause, as a text that follows their number.
        count: How many they are.
        first: Where the first of them stands, such as ``jobs.txt:17``.
        example: What is wrong with the first of them, such as the value; may be empty.
    """

    what: str
    text: str
    count: int
    first: str
    example: str = ""


# IMPORT-2
@final
class Account:
    """Counts what is read, what becomes part of the feed, and what is left out, by cause.

    Every record that is read has to be taken or left out, once. What is noted is taken, but the
    feed does not say all of it; what is changed is taken, and the feed says it in another form.

    Attributes:
        read: How many records were read, by kind, in the singular.
        taken: How many of them are in the feed.
    """

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        self._left_out: dict[tuple[str, str], Cause] = {}
        self._notes: dict[tuple[str, str], Cause] = {}
        self._changes: dict[tuple[str, str], Cause] = {}

    def leave_out(
        self, what: str, text: str, first: str, example: str = "", count: int = 1
    ) -> None:
        """Count records that are left out.

        Args:
            what: Their kind, in the singular.
            text: The cause.
            first: Where the first of them stands.
            example: What is wrong with it.
            count: How many they are.
        """
        _count(self._left_out, Cause(what, text, count, first, example))

    def note(self, what: str, text: str, first: str, example: str = "", count: int = 1) -> None:
        """Count records that are taken, although the feed does not say all of them.

        Args:
            what: Their kind, in the singular.
            text: What the feed does not say.
            first: Where the first of them stands.
            example: Its value.
            count: How many they are.
        """
        _count(self._notes, Cause(what, text, count, first, example))

    def change(self, what: str, text: str, first: str, example: str = "", count: int = 1) -> None:
        """Count records that are taken, and that the feed says in another form.

        Args:
            what: Their kind, in the singular.
            text: In what form.
            first: Where the first of them stands.
            example: Its value.
            count: How many they are.
        """
        _count(self._changes, Cause(what, text, count, first, example))

    @property
    def left_out(self) -> tuple[Cause, ...]:
        """What was left out, the most frequent cause first."""
        return _by_number(self._left_out)

    @property
    def notes(self) -> tuple[Cause, ...]:
        """What was noted, the most frequent first."""
        return _by_number(self._notes)

    @property
    def changes(self) -> tuple[Cause, ...]:
        """What was changed, the most frequent first."""
        return _by_number(self._changes)

    @property
    def missing(self) -> Counter[str]:
        """How many records were neither taken nor left out, by kind; always empty, but for bugs."""
        rest = Counter(self.read)
        rest.subtract(self.taken)
        for cause in self._left_out.values():
            rest[cause.what] -= cause.count
        return Counter({what: number for what, number in rest.items() if number})


def _count(causes: dict[tuple[str, str], Cause], new: Cause) -> None:
    key = (new.what, new.text)
    old = causes.get(key)
    causes[key] = new if old is None else attrs.evolve(old, count=old.count + new.count)


def _by_number(causes: dict[tuple[str, str], Cause]) -> tuple[Cause, ...]:
    return tuple(sorted(causes.values(), key=lambda cause: (-cause.count, cause.what, cause.text)))
