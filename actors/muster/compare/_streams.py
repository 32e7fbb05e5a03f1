"""Compare two streams of decisions as they come, and find their first difference."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

import attrs

from muster_core.decisions import Announced, Decision, Kind

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_CONFIG: Final = Kind.CONFIG
_WARNING: Final = Kind.WARNING
_QUEUE_PRIORITY: Final = Kind.QUEUE_PRIORITY
_RESERVED: Final = Kind.RESERVED


@final
@attrs.frozen
class Parting:
    """The first difference of two streams.

    Attributes:
        same: How many earlier decisions are the same.
        a: The next decision of one stream, or None if it has none at this instant.
        b: The next decision of the other stream, likewise.
    """

    same: int
    a: Announced | None
    b: Announced | None


@final
class _Stream:
    """Selects the decisions of one side that count.

    Those about a configuration do not, nor do reservations: they are plans, and what comes of them
    shows in what runs.
    """

    def __init__(self) -> None:
        self._config_index: int | None = None
        #: Whether the last decision was about a configuration, or there was none yet.
        self._after_config = True

    def counts(self, decision: Decision) -> bool:
        """Return whether a decision counts; call it for each decision in order.

        When a configuration comes into force, a decision reports it, and its warnings follow
        with the index of the same event. One that is in force from the start has its warnings
        before all other decisions.
        """
        if decision.kind is _CONFIG:
            self._after_config, self._config_index = True, decision.index
            return False
        if (
            self._after_config
            and decision.kind is _WARNING
            and decision.index == self._config_index
        ):
            return False
        self._after_config = False
        # COMMAND-26
        return decision.kind is not _RESERVED


@final
class _Race:
    """Two streams of decisions that are the same up to their first difference.

    Attributes:
        same: How many decisions are the same so far.
        parting: Their first difference, or None.
    """

    def __init__(self) -> None:
        self.same = 0
        self.parting: Parting | None = None
        self._open: tuple[deque[Announced], deque[Announced]] = (deque(), deque())

    def add(self, side: int, announced: Announced) -> None:
        """Add a decision of side 0 or 1; after the first difference, do nothing."""
        if self.parting is None:
            self._open[side].append(announced)

    def compare(self, *, is_all: bool) -> None:
        """Compare the decisions added so far; see :meth:`Streams.compare`."""
        a, b = self._open
        while a and b and is_same(a[0], b[0]):
            a.popleft()
            b.popleft()
            self.same += 1
        if (a and b) or (is_all and (a or b)):
            self.parting = Parting(self.same, a[0] if a else None, b[0] if b else None)
            a.clear()
            b.clear()


@final
class Streams:
    """Compares the decisions of two sides; changes of ``currentPriority`` separately.

    It keeps only the decisions that one side has made ahead of the other.
    """

    def __init__(self) -> None:
        self._sides = (_Stream(), _Stream())
        self._decisions = _Race()
        self._priorities = _Race()

    @property
    def first(self) -> Parting | None:
        """The first difference of the other decisions, or None."""
        return self._decisions.parting

    @property
    def first_priority(self) -> Parting | None:
        """The first difference of the changes of ``currentPriority``, or None."""
        return self._priorities.parting

    @property
    def same(self) -> int:
        """How many decisions of both kinds are the same before their first difference."""
        return self._decisions.same + self._priorities.same

    def feed(self, side: int, decisions: Sequence[Announced]) -> None:
        """Add decisions of side 0 or 1."""
        stream = self._sides[side]
        for announced in decisions:
            if stream.counts(announced.decision):
                is_priority = announced.decision.kind is _QUEUE_PRIORITY
                (self._priorities if is_priority else self._decisions).add(side, announced)

    def compare(self, *, is_all: bool) -> None:
        """Compare the decisions added so far.

        Args:
            is_all: Whether the instant is complete, so that a decision that only one side has
                is a difference.
        """
        self._decisions.compare(is_all=is_all)
        self._priorities.compare(is_all=is_all)


def is_same(one: Announced, other: Announced) -> bool:
    """Return whether two decisions of one instant are the same, apart from index and line."""
    mine, theirs = one.decision, other.decision
    return mine == theirs or attrs.evolve(mine, index=None, line=None) == attrs.evolve(
        theirs, index=None, line=None
    )
