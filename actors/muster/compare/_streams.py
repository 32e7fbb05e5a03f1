"""Two streams of decisions, compared as they come: the first place where they part."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import final

import attrs

from muster_core.decisions import Announced, Decision, Kind


@final
@attrs.frozen
class Parting:
    """Where two streams part.

    Attributes:
        same: How many decisions before are the same.
        a: The next decision of one stream, or None if it has none at this instant.
        b: The next decision of the other stream, likewise.
    """

    same: int
    a: Announced | None
    b: Announced | None


@final
class _Stream:
    """One side's decisions, without what merely speaks of a configuration."""

    def __init__(self) -> None:
        self._config_index: int | None = None
        #: The last decision was of a configuration, or there was none yet.
        self._after_config = True

    def counts(self, decision: Decision) -> bool:
        """Say whether a decision counts; to be asked of each in its turn.

        A configuration that comes into force says so, and then gives its warnings, with the
        index of the same event; one that is in force from the start gives them before all else.
        """
        if decision.kind is Kind.CONFIG:
            self._after_config, self._config_index = True, decision.index
            return False
        if (
            self._after_config
            and decision.kind is Kind.WARNING
            and decision.index == self._config_index
        ):
            return False
        self._after_config = False
        return True


@final
class _Race:
    """Two streams of decisions that are alike until they part.

    Attributes:
        same: How many decisions are the same so far.
        parting: Where they part, if they do.
    """

    def __init__(self) -> None:
        self.same = 0
        self.parting: Parting | None = None
        self._open: tuple[deque[Announced], deque[Announced]] = (deque(), deque())

    def add(self, side: int, announced: Announced) -> None:
        """Take a decision of side 0 or 1; nothing is kept of what comes after the parting."""
        if self.parting is None:
            self._open[side].append(announced)

    def compare(self, *, is_all: bool) -> None:
        """Compare what there is; see :meth:`Streams.compare`."""
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
    """Compares the decisions of two sides, changes of ``currentPriority`` apart from the others.

    Nothing is kept but what one side has announced ahead of the other.
    """

    def __init__(self) -> None:
        self._sides = (_Stream(), _Stream())
        self._decisions = _Race()
        self._priorities = _Race()

    @property
    def first(self) -> Parting | None:
        """Where the decisions part, if they do."""
        return self._decisions.parting

    @property
    def first_priority(self) -> Parting | None:
        """Where the changes of ``currentPriority`` part, if they do."""
        return self._priorities.parting

    @property
    def same(self) -> int:
        """How many decisions of both kinds are the same, until they part."""
        return self._decisions.same + self._priorities.same

    def feed(self, side: int, decisions: Sequence[Announced]) -> None:
        """Take what side 0 or 1 has decided."""
        stream = self._sides[side]
        for announced in decisions:
            if stream.counts(announced.decision):
                is_priority = announced.decision.kind is Kind.QUEUE_PRIORITY
                (self._priorities if is_priority else self._decisions).add(side, announced)

    def compare(self, *, is_all: bool) -> None:
        """Compare what there is.

        Args:
            is_all: Nothing more comes of this instant: what only one side has is a difference.
        """
        self._decisions.compare(is_all=is_all)
        self._priorities.compare(is_all=is_all)


def is_same(one: Announced, other: Announced) -> bool:
    """Say whether two decisions of one instant are the same but for their places in log and feed."""
    mine, theirs = one.decision, other.decision
    return mine == theirs or attrs.evolve(mine, index=None, line=None) == attrs.evolve(
        theirs, index=None, line=None
    )
