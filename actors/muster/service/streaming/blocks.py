"""Blocks of decisions that follow one another, each encoded once for everybody who gets it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, final

from muster.feeds._encodings.encode import to_json_line

if TYPE_CHECKING:
    from muster._runtime.clients.observers import Filter
    from muster_core.decisions import Announced

BLOCK: Final = 256
"""How many decisions a block has at most."""

_BASE_BYTES: Final = 600
"""About what a decision takes that is not encoded, in bytes."""


@final
class Block:
    """Some decisions that follow one another. Once it was read, nothing is added to it.

    Args:
        announced: The decisions, at least one; more may be added while nobody has read them.
        grown: Called with the bytes by which it grows.

    Attributes:
        first: The number of the first one.
        size: About what it takes, in bytes.
    """

    __slots__ = ("_announced", "_events", "_grown", "_lines", "first", "size")

    def __init__(
        self, announced: Sequence[Announced], grown: Callable[[int], None] | None = None
    ) -> None:
        self._announced: list[Announced] = []
        self._lines: list[bytes] | None = None
        self._events: bytes | None = None
        self._grown = grown
        self.first = announced[0].seq
        self.size = 0
        self.add(announced)

    def __len__(self) -> int:
        return len(self._announced)

    @property
    def last(self) -> int:
        """The number of the last one."""
        return self.first + len(self._announced) - 1

    @property
    def announced(self) -> Sequence[Announced]:
        """The decisions."""
        return self._announced

    def add(self, more: Sequence[Announced]) -> bool:
        """Add the decisions that follow; return False if they need a block of their own."""
        if self._lines is not None or len(self._announced) + len(more) > BLOCK:
            return False
        self._announced.extend(more)
        texts = sum([len(one.decision.message or "") for one in more])
        self._grow(len(more) * _BASE_BYTES + texts)
        return True

    def _grow(self, size: int) -> None:
        self.size += size
        if self._grown is not None:
            self._grown(size)

    @property
    def lines(self) -> Sequence[bytes]:
        """The lines of the decision log, each with a line feed at its end."""
        if self._lines is None:
            self._lines = [to_json_line(one.as_map()) for one in self._announced]
            self._grow(sum(map(len, self._lines)))
        return self._lines

    @property
    def events(self) -> bytes:
        """All of them as events of a stream."""
        if self._events is None:
            events = [_event(seq, line) for seq, line in enumerate(self.lines, self.first)]
            self._events = b"".join(events)
            self._grow(len(self._events))
        return self._events

    def choose(
        self, after: int, until: int | None, wanted: Filter | None, most: int | None
    ) -> tuple[Sequence[int], int]:
        """Return where those decisions are that somebody wants.

        Args:
            after: Only decisions after this number.
            until: Only decisions up to this number; None for all.
            wanted: Only those that this filter lets through; None for all.
            most: How many at most, from 1; None for all.

        Returns:
            Their places in this block, and the number of the last decision that was looked at.
        """
        start = max(0, after + 1 - self.first)
        stop = len(self._announced)
        if until is not None:
            stop = min(stop, until + 1 - self.first)
        chosen: Sequence[int] = range(start, stop)
        if wanted is not None:
            chosen = [at for at in chosen if wanted.wants(self._announced[at])]
        if most is not None and len(chosen) > most:
            chosen = chosen[:most]
            stop = chosen[-1] + 1
        return chosen, self.first + stop - 1

    def lines_at(self, places: Sequence[int]) -> list[bytes]:
        """Return the lines of decisions at some places."""
        lines = self.lines
        return [lines[at] for at in places]

    def events_at(self, places: Sequence[int]) -> bytes:
        """Return the decisions at some places as events of a stream."""
        if len(places) == len(self._announced):
            return self.events
        lines, first = self.lines, self.first
        return b"".join([_event(first + at, lines[at]) for at in places])


# STREAM-3
def _event(seq: int, line: bytes) -> bytes:
    return b"id: %d\nevent: decision\ndata: %s\n" % (seq, line)
