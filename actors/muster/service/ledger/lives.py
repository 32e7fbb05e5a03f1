"""The lives of asks that have ended, the latest ones: when, how, and what they have used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, final

import attrs

from muster_core.decisions import Reason

if TYPE_CHECKING:
    from muster.service.ledger.entries import AppEntry, AskEntry
    from muster_core.decisions import Decision
    from muster_core.events import Exit

KEPT: Final = 10_000
"""How many lives are kept in memory, the latest ones."""


# LISTS-15
@final
class Ending(StrEnum):
    """How an ask has ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_OF_REASONS: Final[Mapping[Reason | None, str]] = {
    Reason.COMPLETED: Ending.COMPLETED.value,
    Reason.FAILED: Ending.FAILED.value,
    Reason.CANCELLED: Ending.CANCELLED.value,
    Reason.REMOVED: Ending.CANCELLED.value,
}
_FAILED: Final = Ending.FAILED.value


@final
class Life(NamedTuple):
    """An ask that has ended; all instants and durations are in microseconds.

    Attributes:
        seq: The number of the decision that ended it; no two lives have the same one.
        ended_us: When it ended.
        app: Its application.
        ask: Its name.
        user: The user of its application, or None.
        queue: The path of its queue.
        node: The node that it held at the end, or None.
        came_us: When it was added, or None if nobody knows.
        started_us: When it was bound last, or None.
        ran_us: How long it was bound in all.
        held_us: How long it held a node in all.
        ending: How it has ended.
        message: What the decision log says of that, or None.
        exited: How its process has ended, or None.
        amounts: What it asked for, by resource type in base units.
    """

    seq: int
    ended_us: int
    app: str
    ask: str
    user: str | None
    queue: str
    node: str | None
    came_us: int | None
    started_us: int | None
    ran_us: int
    held_us: int
    ending: str
    message: str | None
    exited: Exit | None
    amounts: Mapping[str, int]

    @property
    def wait_us(self) -> int | None:
        """How long it was not bound, or None if nobody knows when it came."""
        return None if self.came_us is None else self.ended_us - self.came_us - self.ran_us

    @property
    def areas(self) -> dict[str, int]:
        """What it has used: amounts times the time for which it held a node."""
        return {kind: amount * self.held_us for kind, amount in self.amounts.items()}


_made: Final[Callable[[type[Life], tuple[object, ...]], Life]] = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - of any tuple


@final
@attrs.frozen
class LifeFilter:
    """Which lives are listed; None for all.

    Attributes:
        queue: Those in this queue, a path in lower case, and below it.
        app: Those of this application.
        ask: Those of this name.
        user: Those of this user.
        since_us: Those that ended at this instant or later, in microseconds since the origin.
    """

    queue: str | None = None
    app: str | None = None
    ask: str | None = None
    user: str | None = None
    since_us: int | None = None

    def keeps(self, life: Life) -> bool:
        """Return whether a life is wanted, but for the instant."""
        return (
            (self.app is None or life.app == self.app)
            and (self.ask is None or life.ask == self.ask)
            and (self.user is None or life.user == self.user)
            and (self.queue is None or f"{life.queue}.".startswith(f"{self.queue}."))
        )

    def latest(self, lives: Iterable[Life], before_seq: int | None, most: int) -> Iterator[Life]:
        """Yield those that are wanted.

        Args:
            lives: The lives, latest first.
            before_seq: Only those that ended before this decision; None for all.
            most: How many at most.
        """
        for life in lives:
            if not most or (self.since_us is not None and life.ended_us < self.since_us):
                return
            if (before_seq is None or life.seq < before_seq) and self.keeps(life):
                most -= 1
                yield life


# LISTS-16
@final
class Lives:
    """The lives that are known.

    Args:
        most: How many are kept, the latest ones; None for all.

    Attributes:
        kept: The lives, in the order in which they ended.
        after_seq: Every ask that was ended by a later decision than this one is in ``kept``.
    """

    def __init__(self, most: int | None = KEPT) -> None:
        self.kept: deque[Life] = deque(maxlen=most)
        self.after_seq = 0

    def end(self, seq: int, at_us: int, decision: Decision, app: AppEntry, entry: AskEntry) -> None:
        """Keep an ask that has ended.

        Args:
            seq: The number of the decision.
            at_us: When.
            decision: The decision that it is released.
            app: Its application.
            entry: What is known of it, with the node that it still holds.
        """
        ending, message = _OF_REASONS[decision.reason], decision.message
        taken_us, started_us = entry.taken_us, entry.bound_us
        held_us = 0 if taken_us is None else at_us - taken_us
        ran_us = 0 if started_us is None else at_us - started_us
        exited = None
        before = entry.earlier
        if before is not None:
            held_us, ran_us = held_us + before.held_us, ran_us + before.ran_us
            started_us = before.started_us if started_us is None else started_us
            exited = before.exited
            if before.unstarted is not None:
                ending, message = _FAILED, before.unstarted or None
        ended = app.account.ended
        ended[ending] = ended.get(ending, 0) + 1
        kept, event = self.kept, entry.event
        if len(kept) == kept.maxlen:
            self.after_seq = kept[0].seq
        # A named tuple takes twice as long to make in the usual way.
        life = _made(
            Life,
            (
                seq,
                at_us,
                event.app,
                decision.ask,
                app.event.user,
                app.queue,
                decision.node,
                entry.came_us,
                started_us,
                ran_us,
                held_us,
                ending,
                message,
                exited,
                event.wanted.amounts,
            ),
        )
        kept.append(life)


__all__ = ["KEPT", "Ending", "Life", "LifeFilter", "Lives"]
