"""The result of a comparison: the first decision that differs, figures, and jobs; and all of it as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import Final, TypeAlias, final

import attrs

from muster.replay import Fairness, JobMeasures, LostRuns, QueuePart, Remark, Reserved, WaitSummary
from muster_core.decisions import Announced, seconds
from muster_core.snapshots import AskPlace

MOST_JOBS: Final = 10
"""The most jobs in a list of :class:`JobChanges`."""

MOST_REFUSALS: Final = 10
"""The most events in a list of :class:`Refusals`."""

MOST_PRIORITIES: Final = 10
"""The most rows in the table of priorities."""


@final
@attrs.frozen
class Elsewhere:
    """The state that the ask of one side's decision has on the other side at that instant.

    Attributes:
        app: Its application.
        ask: Its name.
        place: Its place, or None if there is no such ask.
        node: The node that it holds, or None.
        reasons: If it is not bound, all reasons for that at the end of the batch, the dominant
            one first; each is a code, a colon and a sentence.
        turn: If the other side placed another ask first because of the order, the reason for that
            order: a code, a colon and a sentence. None for another or an unknown cause.
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
    """The decision of one side where the two differ.

    Attributes:
        announced: The decision.
        index: In a feed, the index of the event that it is about, or that added its ask; in a
            decision log, its own index. Both are from 0; None if not known.
        line: The line of that event or decision, from 1, or None if there are no lines.
        elsewhere: The state of its ask on the other side; None if it is about no ask, or the
            other side is a decision log.
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
        same: How many earlier decisions are the same: changes of ``currentPriority`` if this is
            one, otherwise all others.
        a: The decision of one side; None if it makes no more at this instant.
        b: The decision of the other side, likewise.
    """

    at_us: int
    same: int
    a: Version | None
    b: Version | None


@final
@attrs.frozen
class Figures:
    """The figures of one side: of all asks, those of a leaf, or those of some priorities.

    Attributes:
        jobs: How many applications were submitted; for priorities, how many had an ask of these
            priorities that was bound or is pending at the end.
        asks_bound: How many asks were bound at least once.
        asks_unbound: How many asks ended without having been bound; None for a log and for
            priorities.
        asks_pending: How many asks are pending, parked or waiting at the end; None for a log,
            which does not say.
        asks_preempted: How often an ask was evicted by preemption.
        asks_reclaimed: How often an ask was evicted by reclaim.
        asks_run_limit: How many asks were ended by their run limits.
        wait: How long asks waited until their first bind, or their end without one; for
            priorities, only those that were bound; None for a log.
        job_wait: How long applications waited from their submission until the first bind of one
            of their asks; None for priorities.
        utilisation: For each resource type of the nodes, the share of the capacity of *all* nodes
            that was used over time, as in :class:`muster.replay.Summary`; empty for a log and
            for priorities.
        makespan_s: The time from the first submission of an application to the last bind or
            release of an ask, in seconds; None if there was none, and for priorities.
        events_refused: How many events were refused; None for a leaf and for priorities.
        lost: The runs that were cut short and have to be run again, by the reason of the release;
            None for a log and for priorities.
        fairness: How even the shares of queues and users were; None for a log, a leaf and
            priorities.
        reserved: How many asks had a reservation, and what became of them; None for a leaf and for
            priorities.
        parts: What queues below parents with a half-life had, and what was their due; empty for a
            log, a leaf and priorities.
        utilisation_to_last_arrival: The same as ``utilisation`` until the last ask came; empty for
            a log, a leaf and priorities.
        measures: The measures of jobs; None for a log, a leaf and priorities.
    """

    jobs: int
    asks_bound: int
    asks_unbound: int | None
    asks_pending: int | None
    asks_preempted: int
    asks_reclaimed: int
    asks_run_limit: int
    wait: WaitSummary | None
    job_wait: WaitSummary | None = None
    utilisation: Mapping[str, float | None] = attrs.field(factory=dict[str, "float | None"])
    makespan_s: float | None = None
    events_refused: int | None = None
    lost: Mapping[str, LostRuns] | None = None
    fairness: Fairness | None = None
    reserved: Reserved | None = None
    parts: Mapping[str, QueuePart] = attrs.field(factory=dict[str, QueuePart])
    utilisation_to_last_arrival: Mapping[str, float | None] = attrs.field(
        factory=dict[str, "float | None"]
    )
    measures: JobMeasures | None = None


@final
@attrs.frozen
class Refusals:
    """The events that only one side refuses, and those that both refuse.

    With one feed, both sides have the same events. With two feeds or logs, two events of one
    instant count as the same if they are refused with the same message. Index and line are those
    of the event in the feed, or those of the decision in a decision log.

    Attributes:
        both: How many events both sides refuse.
        only_a: How many events only the first side refuses.
        only_b: How many events only the second side refuses.
        first_both: The first events that both refuse, at most :data:`MOST_REFUSALS`, with the
            refusal of each side.
        first_a: The first events that only the first side refuses, likewise.
        first_b: The first events that only the second side refuses, likewise.
        ends_a: How many of ``only_a`` would have ended the work of an ask (`release`,
            `bind_failed`), which is not bound there at that instant.
        ends_b: How many of ``only_b``, likewise.
    """

    both: int
    only_a: int
    only_b: int
    first_both: tuple[tuple[Remark, Remark], ...]
    first_a: tuple[Remark, ...]
    first_b: tuple[Remark, ...]
    ends_a: int = 0
    ends_b: int = 0


@final
@attrs.frozen
class QueueRow:
    """The figures of a leaf on both sides.

    Attributes:
        queue: Its full path.
        a: The figures of one side.
        b: The figures of the other side.
    """

    queue: str
    a: Figures
    b: Figures


@final
@attrs.frozen
class PriorityRow:
    """The figures of the asks of some priorities on both sides.

    Attributes:
        lowest: The lowest of these priorities.
        highest: The highest of these priorities.
        a: The figures of one side.
        b: The figures of the other side.
    """

    lowest: int
    highest: int
    a: Figures
    b: Figures


@final
@attrs.frozen
class JobTimes:
    """The wait and the end of an application on one side.

    Attributes:
        queue: The path of its queue.
        wait_s: The time from its submission to the first bind of one of its asks, in seconds;
            None if none was bound.
        end_s: When its last ask was released, in seconds since the start; None if it has asks
            at the end, or never had any.
    """

    queue: str
    wait_s: float | None
    end_s: float | None


@final
@attrs.frozen
class JobChange:
    """An application that waits or ends differently on the two sides.

    Attributes:
        app: Its name.
        a: Its times on one side.
        b: Its times on the other side.
    """

    app: str
    a: JobTimes
    b: JobTimes


@final
@attrs.frozen
class Movement:
    """The applications that gain or lose on the second side, by their wait or by their end.

    Attributes:
        gained: How many gained: they wait less, or end earlier.
        lost: How many lost: they wait longer, or end later or never.
        most_gained: Those that gained most, at most :data:`MOST_JOBS`, the largest gain first;
            of equal ones, the one that was submitted first.
        most_lost: Those that lost most, likewise.
    """

    gained: int
    lost: int
    most_gained: tuple[JobChange, ...]
    most_lost: tuple[JobChange, ...]


@final
@attrs.frozen
class JobChanges:
    """The applications that wait or end differently on the second side.

    An application is compared with the one of the same name on the other side. If several have
    the name, the first is compared with the first, and so on.

    Attributes:
        compared: How many were on both sides.
        only_a: How many were only on the first side.
        only_b: How many were only on the second side.
        refused_a: How many of ``only_a`` the second side refused; 0 for logs, which do not say.
        refused_b: How many of ``only_b`` the first side refused, likewise.
        wait: The changes of their waits. The wait of one that is never bound is infinite.
        end: The changes of their ends. One that has asks at the end never ends.
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
    """The result of a comparison.

    Attributes:
        decisions: How many decisions of both sides are the same before the first difference.
        first: The first decision that differs, without changes of ``currentPriority``.
        first_priority: The first change of a ``currentPriority`` that differs.
        a: The figures of one side.
        b: The figures of the other side.
        queues: The figures of each leaf that was used, by path.
        priorities: The figures by priority, the highest first; empty for logs. With more than
            :data:`MOST_PRIORITIES` priorities, neighbours share a row, with about the same number
            of asks in each row.
        jobs: The applications that wait or end differently.
        refusals: The events that are refused.
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
        """Whether both sides make the same decisions."""
        return self.first is None and self.first_priority is None


@final
@attrs.frozen
class LeftOut:
    """A ``configure`` event that is left out because another configuration is in force.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line, from 1, or None if the encoding has no lines.
        partition: The partition that it names, or None.
    """

    index: int
    line: int | None
    partition: str | None


@final
@attrs.frozen
class Warned:
    """A warning about a configuration.

    Attributes:
        file: The name of its file.
        line: The line, from 1, or None if it is not known.
        path: The path of the field.
        message: The text of the warning.
    """

    file: str
    line: int | None
    path: str
    message: str


# As JSON

Number: TypeAlias = "int | float | None"
Tree: TypeAlias = "Mapping[str, Tree] | Number | str"
"""Numbers in nested maps, and names."""


def as_map(
    compared: Sequence[Compared],
    sides: Sequence[str],
    left_out: Mapping[str, Iterable[LeftOut]],
    warnings: Iterable[Warned],
    origin: str | None = None,
) -> dict[str, object]:
    """Return the whole result of a comparison.

    Args:
        compared: The first side compared with each of the others. If there are several others,
            the map has one entry for each in ``comparisons``.
        sides: The names of all sides.
        left_out: The ``configure`` events that are left out, by feed.
        warnings: The warnings about the configurations.
        origin: The date from which instants count, or None.
    """
    events = [
        {**attrs.asdict(event), **({"feed": feed} if len(left_out) > 1 else {})}
        for feed, found in left_out.items()
        for event in found
    ]
    whole = {
        "same": all(one.same for one in compared),
        "sides": dict(zip(ascii_lowercase, sides, strict=False)),
        "origin": origin,
        "warnings": [attrs.asdict(warned) for warned in warnings],
        "left_out": events,
    }
    if len(compared) == 1:
        return {**whole, **_pair_map(compared[0])}
    pairs = zip(ascii_lowercase[1:], compared, strict=False)
    return {
        **whole,
        "comparisons": [
            {"side": letter, "same": one.same, **_pair_map(one)} for letter, one in pairs
        ],
    }


def _pair_map(compared: Compared) -> dict[str, object]:
    return {
        "decisions": compared.decisions,
        "first": _difference(compared.first),
        "first_priority": _difference(compared.first_priority),
        "refused": _refused(compared.refusals),
        "all": both(compared.a, compared.b),
        "queues": [{"queue": row.queue, **both(row.a, row.b)} for row in compared.queues],
        "priorities": [
            {"lowest": row.lowest, "highest": row.highest, **both(row.a, row.b)}
            for row in compared.priorities
        ],
        "jobs": {
            "compared": compared.jobs.compared,
            "only_a": compared.jobs.only_a,
            "only_b": compared.jobs.only_b,
            "refused_a": compared.jobs.refused_a,
            "refused_b": compared.jobs.refused_b,
            "wait": _movement(compared.jobs.wait),
            "end": _movement(compared.jobs.end),
        },
    }


def _refused(refusals: Refusals) -> dict[str, object]:
    return {
        "both": refusals.both,
        "only_a": refusals.only_a,
        "only_b": refusals.only_b,
        "ends_a": refusals.ends_a,
        "ends_b": refusals.ends_b,
        "first_both": [
            {"a": attrs.asdict(a), "b": attrs.asdict(b)} for a, b in refusals.first_both
        ],
        "first_a": [attrs.asdict(remark) for remark in refusals.first_a],
        "first_b": [attrs.asdict(remark) for remark in refusals.first_b],
    }


def both(a: Figures, b: Figures) -> dict[str, object]:
    """Return the figures of both sides, and the second minus the first."""
    of_a: dict[str, Tree] = attrs.asdict(a)
    of_b: dict[str, Tree] = attrs.asdict(b)
    of_a["lost"], of_b["lost"] = _alike(of_a["lost"], of_b["lost"])
    return {"a": of_a, "b": of_b, "difference": difference(of_a, of_b)}


def _alike(a: Tree, b: Tree) -> tuple[Tree, Tree]:
    """Return two maps of sums with the same keys: a key that one side lacks is zero there."""
    if not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        return a, b
    keys = {**a, **b}
    pairs = {key: _alike(a.get(key, _none(b, key)), b.get(key, _none(a, key))) for key in keys}
    return {key: pair[0] for key, pair in pairs.items()}, {
        key: pair[1] for key, pair in pairs.items()
    }


def _none(there: Mapping[str, Tree], key: str) -> Tree:
    return {} if isinstance(there.get(key), Mapping) else 0


def difference(a: Tree, b: Tree) -> Tree:
    """Return the second value minus the first, part by part; None if one is unknown, or a name."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return {name: difference(a.get(name), b.get(name)) for name in {**a, **b}}
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return b - a
    return None


def _difference(first: FirstDifference | None) -> dict[str, object] | None:
    if first is None:
        return None
    return {
        "at": seconds(first.at_us),
        "same": first.same,
        "a": _version(first.a),
        "b": _version(first.b),
    }


def _version(version: Version | None) -> dict[str, object] | None:
    if version is None:
        return None
    return {
        "decision": version.announced.as_map(),
        "index": version.index,
        "line": version.line,
        "elsewhere": _elsewhere(version.elsewhere),
    }


def _elsewhere(elsewhere: Elsewhere | None) -> dict[str, object] | None:
    return None if elsewhere is None else attrs.asdict(elsewhere)


def _movement(movement: Movement) -> dict[str, object]:
    return {
        "gained": movement.gained,
        "lost": movement.lost,
        "most_gained": [_change(change) for change in movement.most_gained],
        "most_lost": [_change(change) for change in movement.most_lost],
    }


def _change(change: JobChange) -> dict[str, object]:
    a, b = change.a, change.b
    return {
        "app": change.app,
        "a": attrs.asdict(a),
        "b": attrs.asdict(b),
        "difference": {
            "wait_s": difference(a.wait_s, b.wait_s),
            "end_s": difference(a.end_s, b.end_s),
        },
    }
