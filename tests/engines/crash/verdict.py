"""The faults of a crash run, by the store of Muster and by the files that the work has written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, final

import attrs

from muster.store import StateReader
from muster_core.decisions import Decision, Kind, Reason
from tests.engines.crash.plans import Plan, units_of

NEAR_S: Final = 5.0
"""How near to the start of a gang its member must have been hit, in seconds, so that it is no fault
if this member has not begun: the gate may open before the hit is known."""

_EVICTIONS: Final = frozenset({Reason.PREEMPTED, Reason.RECLAIMED})

Key = tuple[str, str]
"""The names of an application and an ask."""


@final
@attrs.frozen
class Kill:
    """Something that was killed.

    Attributes:
        at_s: When, by the clock of the work.
        what: ``raylet``, ``agent``, ``service`` or ``head``.
        node: The node, if it was a raylet.
    """

    at_s: float
    what: str
    node: str | None = None


@final
@attrs.frozen
class BoundMember:
    """A member of a step that was bound.

    Attributes:
        key: Its application and its name.
        step: The number of the step in which it was bound.
        peers: How many were bound in this step.
        node: Where.
        at_s: When its work was looked up.
    """

    key: Key
    step: int
    peers: int
    node: str
    at_s: float


@final
@attrs.frozen
class WorkRun:
    """A run, by its file.

    Attributes:
        key: Its application and its name.
        step: The number of the step in which it was bound.
        began_s: When it began.
        lived_s: Until when it lived at least.
        has_ended: Whether it came to its end.
    """

    key: Key
    step: int
    began_s: float
    lived_s: float
    has_ended: bool


@final
@attrs.frozen
class Books:
    """Everything that is known after a crash run.

    Attributes:
        asks: All asks.
        completed: How often each ask ended as completed.
        removed: The asks that were given up.
        reasons: How many allocations ended for each reason.
        evicted_s: When each ask has lost its allocation to others.
        bound: The members that were bound.
        ran: What has run.
        kills: The kills.
    """

    asks: frozenset[Key]
    completed: Counter[Key]
    removed: frozenset[Key]
    reasons: Counter[str]
    evicted_s: dict[Key, list[float]]
    bound: tuple[BoundMember, ...]
    runs: tuple[WorkRun, ...]
    kills: tuple[Kill, ...]


def read_books(plan: Plan, kills: Sequence[Kill], clock_s: float) -> Books:
    """Read the store and the files of the work.

    Args:
        plan: The plan.
        kills: What was killed.
        clock_s: What the clock of the work showed at the start of 1970.
    """
    completed = Counter[Key]()
    removed: set[Key] = set()
    reasons = Counter[str]()
    evicted: dict[Key, list[float]] = defaultdict(list)
    with StateReader(plan.store) as reader:
        origin_s = reader.meta.origin_us / 1e6 + clock_s
        for batch in reader.batches():
            for one in batch.decisions:
                at_s = origin_s + batch.at_us / 1e6
                _count_release(one.decision, at_s, completed, removed, reasons, evicted)
    return Books(
        frozenset((unit.app, ask) for unit in units_of(plan) for ask in unit.asks()),
        completed,
        frozenset(removed),
        reasons,
        evicted,
        tuple(_read_bound(plan.bound)),
        tuple(_read_runs(plan.runs)),
        tuple(kills),
    )


def _count_release(
    decision: Decision,
    at_s: float,
    completed: Counter[Key],
    removed: set[Key],
    reasons: Counter[str],
    evicted: dict[Key, list[float]],
) -> None:
    if decision.kind is not Kind.RELEASED or decision.app is None or decision.ask is None:
        return
    key = decision.app, decision.ask
    reasons[str(decision.reason)] += 1
    if decision.reason is Reason.COMPLETED:
        completed[key] += 1
    elif decision.reason is Reason.REMOVED:
        removed.add(key)
    elif decision.reason in _EVICTIONS:
        evicted[key].append(at_s)


def _read_bound(file: Path) -> Iterator[BoundMember]:
    for line in file.read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if len(fields) == 6:  # the service may have been killed while it wrote
            app, ask, step, peers, node, at_s = fields
            yield BoundMember((app, ask), int(step), int(peers), node, float(at_s))


def _read_runs(folder: Path) -> Iterator[WorkRun]:
    for file in folder.iterdir():
        app, ask, step, _ = file.name.split()
        beats = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
        if beats:
            has_ended = beats[-1][-1] == "end"
            began_s, lived_s = float(beats[0][0]), float(beats[-1][0])
            yield WorkRun((app, ask), int(step), began_s, lived_s, has_ended)


def faults_in(books: Books) -> list[str]:
    """Return all faults."""
    return [*_faults_of_asks(books), *_faults_of_overlaps(books), *_faults_of_gangs(books)]


def _faults_of_asks(books: Books) -> Iterator[str]:
    ended = {run.key for run in books.runs if run.has_ended}
    for key in sorted(books.asks):
        name = "/".join(key)
        if books.completed[key] != 1:
            gone = ", and was given up" if key in books.removed else ""
            yield f"{name} was completed {books.completed[key]} times{gone}"
        elif key not in ended:
            yield f"{name} was completed, and no run of it has come to its end"
    for key in sorted(set(books.completed) - books.asks):
        yield f"{'/'.join(key)} was completed, and nobody has asked for it"


def _faults_of_overlaps(books: Books) -> Iterator[str]:
    runs: dict[Key, list[WorkRun]] = defaultdict(list)
    for run in books.runs:
        runs[run.key].append(run)
    for key, of_ask in sorted(runs.items()):
        of_ask.sort(key=lambda run: run.began_s)
        lived = of_ask[0]
        for later in of_ask[1:]:
            if later.began_s <= lived.lived_s:
                over_s = lived.lived_s - later.began_s
                near = _nearest(books, later.began_s)
                yield (
                    f"{'/'.join(key)}: the run of step {later.step} began at {later.began_s:.2f}, "
                    f"{over_s:.2f} s before that of step {lived.step} ended{near}"
                )
            lived = max(lived, later, key=lambda run: run.lived_s)


def _faults_of_gangs(books: Books) -> Iterator[str]:
    steps: dict[tuple[str, int], dict[Key, BoundMember]] = defaultdict(dict)
    for bound in books.bound:
        if bound.peers > 1:
            steps[bound.key[0], bound.step][bound.key] = bound
    began: dict[tuple[Key, int], float] = {}
    for run in books.runs:
        key = run.key, run.step
        began[key] = min(run.began_s, began.get(key, run.began_s))
    yield from _faults_of_first_steps(books, began)
    for (gang, step), members in sorted(steps.items()):
        there = {key: began[key, step] for key in members if (key, step) in began}
        missing = [one for key, one in members.items() if key not in there]
        if not there or (not missing and len(members) == next(iter(members.values())).peers):
            continue
        first_s = min(there.values())
        faulty = [one for one in missing if not _is_excused(one, first_s, books)]
        if faulty:
            names = ", ".join(f"{one.key[1]} on {one.node}" for one in faulty)
            near = _nearest(books, first_s)
            yield (
                f"gang {gang}, step {step}: {len(there)} of {len(members)} began, at "
                f"{first_s:.2f}, without {names}{near}"
            )


def _faults_of_first_steps(books: Books, began: Mapping[tuple[Key, int], float]) -> Iterator[str]:
    """Find gangs that began with a step in which not all of them were bound."""
    sizes = Counter(app for app, _ in books.asks)
    first: dict[str, tuple[float, BoundMember]] = {}
    for one in books.bound:
        gang, at_s = one.key[0], began.get((one.key, one.step))
        if at_s is not None and (gang not in first or at_s < first[gang][0]):
            first[gang] = at_s, one
    for gang, (at_s, one) in sorted(first.items()):
        if one.peers != sizes[gang]:
            near = _nearest(books, at_s)
            yield (
                f"gang {gang} began at {at_s:.2f} with step {one.step}, in which {one.peers} of "
                f"{sizes[gang]} were bound{near}"
            )


def _is_excused(member: BoundMember, began_s: float, books: Books) -> bool:
    """Return whether a kill or an eviction has hit a member when its gang began, too late to be known."""
    hits = [kill.at_s for kill in books.kills if kill.node in {None, member.node}]
    hits += books.evicted_s.get(member.key, [])
    return any(abs(at_s - began_s) <= NEAR_S for at_s in hits)


def _nearest(books: Books, at_s: float) -> str:
    """Describe the last kill before a time."""
    before = [kill for kill in books.kills if kill.at_s <= at_s + 0.01]
    if not before:
        return ""
    kill = max(before, key=lambda kill: kill.at_s)
    return f" ({at_s - kill.at_s:.1f} s after the kill of {kill.what} {kill.node or ''})"
