"""What is wrong with what has happened, by the books of Muster and by what the work has written."""

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
if this member has not begun: the gate is open before anybody can know of it."""

_FOR_OTHERS: Final = frozenset({Reason.PREEMPTED, Reason.RECLAIMED})

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
class Bound:
    """A member of a step that was to be run.

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
class Ran:
    """What a run has written.

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
    """Everything that is known afterwards.

    Attributes:
        asks: All that was asked for.
        completed: How often each ask ended as completed.
        removed: The asks that were given up.
        reasons: How often allocations ended for which reason.
        evicted_s: When each ask has lost its allocation to others.
        bound: What was to be run.
        ran: What has run.
        kills: What was killed.
    """

    asks: frozenset[Key]
    completed: Counter[Key]
    removed: frozenset[Key]
    reasons: Counter[str]
    evicted_s: dict[Key, list[float]]
    bound: tuple[Bound, ...]
    ran: tuple[Ran, ...]
    kills: tuple[Kill, ...]


def read_books(plan: Plan, kills: Sequence[Kill], clock_s: float) -> Books:
    """Read what is in the store and in the files of the work.

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
                _enter(one.decision, at_s, completed, removed, reasons, evicted)
    return Books(
        frozenset((unit.app, ask) for unit in units_of(plan) for ask in unit.asks()),
        completed,
        frozenset(removed),
        reasons,
        evicted,
        tuple(_bound(plan.bound)),
        tuple(_ran(plan.runs)),
        tuple(kills),
    )


def _enter(
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
    elif decision.reason in _FOR_OTHERS:
        evicted[key].append(at_s)


def _bound(file: Path) -> Iterator[Bound]:
    for line in file.read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if len(fields) == 6:  # the service may have been killed while it wrote
            app, ask, step, peers, node, at_s = fields
            yield Bound((app, ask), int(step), int(peers), node, float(at_s))


def _ran(folder: Path) -> Iterator[Ran]:
    for file in folder.iterdir():
        app, ask, step, _ = file.name.split()
        beats = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
        if beats:
            has_ended = beats[-1][-1] == "end"
            began_s, lived_s = float(beats[0][0]), float(beats[-1][0])
            yield Ran((app, ask), int(step), began_s, lived_s, has_ended)


def faults_in(books: Books) -> list[str]:
    """Return everything that is wrong."""
    return [*_of_books(books), *_of_overlaps(books), *_of_gangs(books)]


def _of_books(books: Books) -> Iterator[str]:
    ended = {run.key for run in books.ran if run.has_ended}
    for key in sorted(books.asks):
        name = "/".join(key)
        if books.completed[key] != 1:
            gone = ", and was given up" if key in books.removed else ""
            yield f"{name} was completed {books.completed[key]} times{gone}"
        elif key not in ended:
            yield f"{name} was completed, and no run of it has come to its end"
    for key in sorted(set(books.completed) - books.asks):
        yield f"{'/'.join(key)} was completed, and nobody has asked for it"


def _of_overlaps(books: Books) -> Iterator[str]:
    runs: dict[Key, list[Ran]] = defaultdict(list)
    for run in books.ran:
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


def _of_gangs(books: Books) -> Iterator[str]:
    steps: dict[tuple[str, int], dict[Key, Bound]] = defaultdict(dict)
    for bound in books.bound:
        if bound.peers > 1:
            steps[bound.key[0], bound.step][bound.key] = bound
    began: dict[tuple[Key, int], float] = {}
    for run in books.ran:
        key = run.key, run.step
        began[key] = min(run.began_s, began.get(key, run.began_s))
    yield from _of_first_steps(books, began)
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


def _of_first_steps(books: Books, began: Mapping[tuple[Key, int], float]) -> Iterator[str]:
    """Find gangs that began with a step in which not all of them were bound."""
    sizes = Counter(app for app, _ in books.asks)
    first: dict[str, tuple[float, Bound]] = {}
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


def _is_excused(member: Bound, began_s: float, books: Books) -> bool:
    """Return whether something has hit a member when its gang began, that nobody could know yet."""
    hits = [kill.at_s for kill in books.kills if kill.node in {None, member.node}]
    hits += books.evicted_s.get(member.key, [])
    return any(abs(at_s - began_s) <= NEAR_S for at_s in hits)


def _nearest(books: Books, at_s: float) -> str:
    """Say which kill was the last one before a time."""
    before = [kill for kill in books.kills if kill.at_s <= at_s + 0.01]
    if not before:
        return ""
    kill = max(before, key=lambda kill: kill.at_s)
    return f" ({at_s - kill.at_s:.1f} s after the kill of {kill.what} {kill.node or ''})"
