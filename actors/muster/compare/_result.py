"""What comes of a comparison: the first decision that differs, figures, and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import attrs

from muster.replay import Remark, WaitSummary
from muster_core.decisions import Announced
from muster_core.snapshots import AskPlace

MOST_JOBS: Final = 10
"""How many jobs each list of :class:`JobChanges` has at the most."""

MOST_REFUSALS: Final = 10
"""How many events each list of :class:`Refusals` has at the most."""

MOST_PRIORITIES: Final = 10
"""How many rows the table of priorities has at the most."""


@final
@attrs.frozen
class Elsewhere:
    """Where the ask that a decision of one side is about is on the other side at that instant.

    Attributes:
        app: Its application.
        ask: Its name.
        place: Where it is, or None if there is no such ask.
        node: The node that it holds, or None.
        reasons: If it is not bound, why not when the batch is over: all reasons, the dominant one
            first, each with its code, a colon, and a sentence.
        turn: If another ask was placed there instead because it was before it in the order: by
            what. A code, a colon, and a sentence; None if that is not why, or not known.
    """

    app: str
    ask: str
    place: AskPlace | None = None
    node: str | None = None
    reasons: tuple[str, ...] = ()
    turn: str | None = None


@final
@attrs.frozen
class Version:
    """What one side decided where the two differ.

    Attributes:
        announced: The decision.
        index: Where it is from, by the index from 0: of a feed, the event that it is about, or
            that brought the ask that it is about; of a decision log, its own. None if not known.
        line: The line of that, from 1, or None where there are none.
        elsewhere: Where its ask is on the other side; None if it is about no ask, or the
            sides are decision logs.
    """

    announced: Announced
    index: int | None = None
    line: int | None = None
    elsewhere: Elsewhere | None = None


@final
@attrs.frozen
class FirstDifference:
    """The first place where the two sides decide differently.

    Attributes:
        at_us: Its instant, in microseconds since the start.
        same: How many decisions before it are the same, either of changes of ``currentPriority``
            or of all others.
        a: What one side decides there; None if nothing more at this instant.
        b: What the other side decides there, likewise.
    """

    at_us: int
    same: int
    a: Version | None
    b: Version | None


@final
@attrs.frozen
class Figures:
    """What became of all asks, of those of a leaf or of those of some priorities, on one side.

    Attributes:
        jobs: How many applications were submitted; of priorities, how many have had an ask of
            these that was bound or is pending at the end.
        asks_bound: Asks that were bound at least once.
        asks_pending: Asks that are pending, parked or waiting at the end; None for a log, which
            does not tell.
        asks_preempted: How often an ask was taken for one of higher priority.
        asks_reclaimed: How often an ask was taken for a queue that is guaranteed more.
        wait: How long the asks waited that were bound, from when they came until then for the
            first time; None for a log.
        job_wait: How long the applications waited of which an ask was bound, from when they were
            submitted until then; None for priorities.
        utilisation: For each resource type of the nodes, how much of what *all* nodes offered
            over time was used, as in :class:`muster.replay.Summary`; empty for a log and for
            priorities.
        makespan_s: From when the first application was submitted until an ask was bound or
            released for the last time, in seconds; None if none was, and for priorities.
        events_refused: Events that were refused; None for a leaf and for priorities.
    """

    jobs: int
    asks_bound: int
    asks_pending: int | None
    asks_preempted: int
    asks_reclaimed: int
    wait: WaitSummary | None
    job_wait: WaitSummary | None = None
    utilisation: Mapping[str, float | None] = attrs.field(factory=dict[str, "float | None"])
    makespan_s: float | None = None
    events_refused: int | None = None


@final
@attrs.frozen
class Refusals:
    """Which events are refused on one side alone, and which on both.

    Of one feed an event is the same on both sides. Of two feeds or logs, two events of one
    instant that are refused for the same reason count as the same. Index and line are those in
    the feed; of a decision log, those of the decision.

    Attributes:
        both: How many events both sides refuse.
        only_a: How many the first side refuses and the second does not.
        only_b: How many the second side refuses and the first does not.
        first_both: The first of those that both refuse, at most :data:`MOST_REFUSALS`: what each
            side says of it.
        first_a: The first of those that the first side alone refuses, likewise.
        first_b: The first of those that the second side alone refuses, likewise.
    """

    both: int
    only_a: int
    only_b: int
    first_both: tuple[tuple[Remark, Remark], ...]
    first_a: tuple[Remark, ...]
    first_b: tuple[Remark, ...]


@final
@attrs.frozen
class QueueRow:
    """What became of a leaf.

    Attributes:
        queue: Its full path.
        a: On one side.
        b: On the other side.
    """

    queue: str
    a: Figures
    b: Figures


@final
@attrs.frozen
class PriorityRow:
    """What became of the asks of some priorities.

    Attributes:
        lowest: The lowest of these priorities.
        highest: The highest of them.
        a: On one side.
        b: On the other side.
    """

    lowest: int
    highest: int
    a: Figures
    b: Figures


@final
@attrs.frozen
class JobTimes:
    """How an application fared on one side.

    Attributes:
        queue: The path of its queue.
        wait_s: From when it was submitted until an ask of it was bound, in seconds; None if
            none ever was.
        end_s: When its last ask was released, in seconds since the start; None if it has asks
            at the end, or never had any.
    """

    queue: str
    wait_s: float | None
    end_s: float | None


@final
@attrs.frozen
class JobChange:
    """How an application fares differently.

    Attributes:
        app: Its name.
        a: How it fared on one side.
        b: How it fared on the other side.
    """

    app: str
    a: JobTimes
    b: JobTimes


@final
@attrs.frozen
class Movement:
    """Which applications have less of something on the second side, and which have more.

    Attributes:
        gained: How many have less.
        lost: How many have more, or have it without end.
        most_gained: The first of them, at most :data:`MOST_JOBS`, those that gained most first;
            of those that gained the same, the one that was submitted first.
        most_lost: Likewise.
    """

    gained: int
    lost: int
    most_gained: tuple[JobChange, ...]
    most_lost: tuple[JobChange, ...]


@final
@attrs.frozen
class JobChanges:
    """Which applications fare better or worse.

    An application of one side is compared with that of the same name on the other side; of
    several, the first with the first.

    Attributes:
        compared: How many were on both sides.
        only_a: How many were on one side alone.
        only_b: How many were on the other side alone.
        refused_a: How many of those on the first side alone the second side refused when they
            were submitted; 0 for logs, which do not tell.
        refused_b: How many of those on the second side alone the first side refused, likewise.
        wait: By how long they wait. One that is never bound waits without end.
        end: By when they end. One that has asks at the end ends never.
    """

    compared: int
    only_a: int
    only_b: int
    refused_a: int
    refused_b: int
    wait: Movement
    end: Movement


@final
@attrs.frozen
class Compared:
    """What comes of a comparison.

    Attributes:
        decisions: How many decisions both sides have made alike until they part.
        first: The first decision that differs, changes of ``currentPriority`` aside.
        first_priority: The first change of a ``currentPriority`` that differs.
        a: What became of everything on one side.
        b: What became of everything on the other side.
        queues: The same for each leaf that an application was submitted to, by path.
        priorities: The same by priority, the highest first; empty for logs. Where there are
            more than :data:`MOST_PRIORITIES`, neighbours are put together, about as many asks
            in each row.
        jobs: Which applications fare better or worse.
        refusals: Which events are refused.
    """

    decisions: int
    first: FirstDifference | None
    first_priority: FirstDifference | None
    a: Figures
    b: Figures
    queues: tuple[QueueRow, ...]
    priorities: tuple[PriorityRow, ...]
    jobs: JobChanges
    refusals: Refusals

    @property
    def same(self) -> bool:
        """Whether both sides decide the same."""
        return self.first is None and self.first_priority is None
