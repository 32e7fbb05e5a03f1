"""Collectors of metrics: counts of every batch, figures of the state, and reasons of pending asks.

The state is read in several short looks, so that batches are decided in between. So the figures of
two queues may be some milliseconds apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, final

import attrs
import trio

from muster._errors import ClosedSchedulerError
from muster._runtime.clock import Timings, slices
from muster.figures.usage import NOTHING, UsageTotals, total
from muster.service.ask_index import ask_counts
from muster.service.payloads import Problem
from muster_core.decisions import MICROSECONDS, Announced, Kind, Reason
from muster_core.reasons import Code
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster.service.ledger.ledger import Ledger
    from muster.service.ledger.usage import UserAccounts
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue


WAIT_BOUNDS_S: Final = (
    0.01,
    0.1,
    0.5,
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    14400.0,
    86400.0,
)
"""The upper bounds of the buckets for waits of asks, in seconds."""

_KIND: Final = attrgetter("decision.kind")


@final
class BatchCounts:
    """Counts what is decided since the start of the process.

    Args:
        ledger: Knows since when asks wait; it observes a batch before this does.

    Attributes:
        is_open: Whether it counts; batches that are replayed at the start are from before.
        decisions: How many decisions there were, by kind.
        released: How many asks were released, by reason.
        waits: How long asks waited until they were bound.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.is_open = False
        self.decisions: Counter[Kind] = Counter()
        self.released: Counter[Reason | None] = Counter()
        self.waits = Timings(WAIT_BOUNDS_S)

    def observe(self, at_us: int, announced: Sequence[Announced]) -> Steps[None]:
        """Count the decisions of a batch, in steps.

        Args:
            at_us: The instant of the batch, in microseconds since the origin.
            announced: Its decisions.
        """
        if not self.is_open:
            return
        for piece in slices(announced):
            self.decisions.update(map(_KIND, piece))
            for one in piece:
                decision = one.decision
                if decision.kind is Kind.BOUND:
                    self._note_wait(at_us, decision.app, decision.ask)
                elif decision.kind is Kind.RELEASED:
                    self.released[decision.reason] += 1
            yield

    def _note_wait(self, at_us: int, app: str | None, ask: str | None) -> None:
        entry = None if app is None or ask is None else self._ledger.ask(app, ask)
        if entry is not None and entry.since_us is not None:  # It may have ended since.
            self.waits.note((at_us - entry.since_us) / 1e6)


T = TypeVar("T")

MOST_QUEUES: Final = 1_000
"""How many queues have figures of their own; those of all others are summed up."""

OTHER: Final = "other"
"""The label of all queues or users beyond the first ones; no path of a queue is like that."""

_LOOK_QUEUES: Final = 64
_LOOK_APPS: Final = 512


class StateInspector(Protocol):
    """Reads the state between two batches."""

    async def __call__(self, read: Callable[[CoordinatorMachine], Steps[T]], /) -> T:
        """Return what was read."""
        ...


@final
@attrs.frozen
class QueueFigures:
    """The figures of a queue, by resource in base units.

    Attributes:
        path: Its path.
        pending: What its pending asks ask for.
        allocated: What its waiting and bound asks hold.
        guaranteed: Its ``guaranteed``.
        most: Its ``max``.
        priority: Its ``currentPriority``, or None.
    """

    path: str
    pending: Mapping[str, int]
    allocated: Mapping[str, int]
    guaranteed: Mapping[str, int]
    most: Mapping[str, int]
    priority: int | None


@final
@attrs.frozen
class StateFigures:
    """What the state is.

    Attributes:
        at: When it was read, as ``trio.current_time`` says.
        queues: The figures of queues; those beyond the most are summed up in one.
        summed: How many queues are summed up.
        apps: How many applications there are, by state.
        asks: How many asks there are, by place.
        gangs: How many gangs there are.
        nodes: How many nodes there are.
        capacity: What they have, by resource in base units.
        reservations: How many reservations are in force.
    """

    at: float
    queues: Sequence[QueueFigures]
    summed: int
    apps: Mapping[str, int]
    asks: Mapping[str, int]
    gangs: int
    nodes: int
    capacity: Mapping[str, int]
    reservations: int


@final
@attrs.frozen
class UserFigures:
    """The figures of a user, or of several together.

    Attributes:
        held: What the asks hold now, by resource in base units.
        used: What asks have used so far.
    """

    held: Mapping[str, int]
    used: UsageTotals


_NOBODY: Final = UserFigures({}, NOTHING)


# LISTS-23
def figures_of_users(accounts: UserAccounts, now_us: int) -> Mapping[str, UserFigures]:
    """Return the figures of users by their label; those of all beyond the first ones are summed up.

    Args:
        accounts: The accounts of all users.
        now_us: The present instant, in microseconds since the origin.
    """
    found: dict[str, UserFigures] = {}
    for name, held, used in accounts.labelled(now_us):
        label = OTHER if name is None else name
        known = found.get(label, _NOBODY)  # There may be a user of that name.
        found[label] = UserFigures(Counter(known.held) + Counter(held), total([known.used, used]))
    return found


async def read_figures(inspect: StateInspector) -> StateFigures:
    """Read the figures in short looks.

    Args:
        inspect: Reads the state between two batches.

    Raises:
        MusterError: If the scheduler is closed, or there are too many calls.
    """
    at = trio.current_time()
    survey = await inspect(_survey)
    queues: list[QueueFigures] = []
    for keys in _pieces(survey.queues, _LOOK_QUEUES):
        queues += await inspect(partial(_queues, keys=keys))
    apps: Counter[str] = Counter()
    asks: Counter[str] = Counter()
    for keys in _pieces(survey.apps, _LOOK_APPS):
        some = await inspect(partial(_apps, keys=keys))
        apps.update(some[0])
        asks.update(some[1])
    summed = queues[MOST_QUEUES:]
    if summed:
        queues = [*queues[:MOST_QUEUES], _sum(summed)]
    return StateFigures(
        at,
        queues,
        len(summed),
        apps,
        asks,
        survey.gangs,
        survey.nodes,
        survey.capacity,
        survey.reservations,
    )


def _pieces(keys: Iterable[int], size: int) -> Iterable[list[int]]:
    left = iter(keys)
    while piece := list(islice(left, size)):
        yield piece


@final
@attrs.frozen
class _Survey:
    """What one look can read: all keys, and what is counted already."""

    queues: Sequence[int]
    apps: Sequence[int]
    gangs: int
    nodes: int
    capacity: Mapping[str, int]
    reservations: int


def _survey(machine: CoordinatorMachine) -> Steps[_Survey]:
    yield
    view = machine.view
    return _Survey(
        # Queues of the configuration were created before dynamic ones, unless it was changed.
        queues=list(view.queues),
        apps=list(view.apps),
        gangs=len(view.gangs),
        nodes=len(view.nodes.nodes),
        capacity={**view.nodes.total},
        reservations=view.reservation_count,
    )


def _queues(machine: CoordinatorMachine, keys: Sequence[int]) -> Steps[list[QueueFigures]]:
    yield
    known = machine.view.queues
    return [_figures_of(known[key]) for key in keys if key in known]


def _figures_of(queue: ViewQueue) -> QueueFigures:
    config = queue.config
    return QueueFigures(
        config.path,
        queue.types.amounts(queue.pending),
        queue.usage(),
        dict(config.guaranteed.amounts),
        dict(config.max.amounts),
        queue.priority,
    )


def _apps(
    machine: CoordinatorMachine, keys: Sequence[int]
) -> Steps[tuple[Counter[str], Counter[str]]]:
    yield
    apps: Counter[str] = Counter()
    asks: Counter[str] = Counter()
    known = machine.view.apps
    for key in keys:
        app = known.get(key)
        if app is not None:
            apps[app.state.value] += 1
            asks.update(ask_counts(app))
    return apps, asks


def _sum(queues: Iterable[QueueFigures]) -> QueueFigures:
    pending, allocated, guaranteed, most = (Counter[str]() for _ in range(4))
    for one in queues:
        pending.update(one.pending)
        allocated.update(one.allocated)
        guaranteed.update(one.guaranteed)
        most.update(one.most)
    return QueueFigures(OTHER, pending, allocated, guaranteed, most, None)


EVERY_S: Final = 10.0
"""How long it rests at most before it counts anew, in seconds."""

_SHARE: Final = 100
"""How much longer than a count it rests at least, unless that is longer than ``EVERY_S``."""

WANTED_S: Final = 300.0
"""How long it goes on after the last request, in seconds."""

_LOOK_S: Final = 0.002
"""How long a look takes at most, about, in seconds."""

_REST: Final = 9
"""How much longer than a look it then waits."""

_PIECE: Final = 32


@final
@attrs.frozen
class PendingAsk:
    """A pending ask.

    Attributes:
        since_us: Since when it is pending, in microseconds since the origin.
        app: Its application.
        ask: Its name.
    """

    since_us: int
    app: str
    ask: str


@final
@attrs.frozen
class ReasonCount:
    """How many asks are not running for which dominant reason.

    Attributes:
        counts: The counts.
        longest: The ask that has been pending for the longest time, or None.
    """

    counts: Mapping[Code, int]
    longest: PendingAsk | None


@final
@attrs.frozen
class ReasonCounts:
    """What was counted, and when.

    Attributes:
        at: When they were counted, as ``trio.current_time`` says.
        took_s: How long it took, in seconds.
        result: What was counted.
    """

    at: float
    took_s: float
    result: ReasonCount

    @property
    def counts(self) -> Mapping[Code, int]:
        """The counts."""
        return self.result.counts

    def age_us(self) -> int:
        """Return how old it is, in microseconds."""
        return round((trio.current_time() - self.began) * MICROSECONDS)

    @property
    def began(self) -> float:
        """When the count began."""
        return self.at - self.took_s


@final
class ReasonCensus:
    """Counts reasons again and again while they are requested.

    Args:
        inspect: Reads the state between two batches.

    Attributes:
        latest: What was counted last; None before the first time.
    """

    def __init__(self, inspect: StateInspector) -> None:
        self._inspect = inspect
        self._wanted_at = -WANTED_S
        self._wanted = trio.Event()
        self._wanted.set()  # The first count needs no request.
        self._missed = trio.Event()
        self._counted = trio.Event()
        self.latest: ReasonCounts | None = None

    # STREAM-11
    async def want(self, fresh_s: float, patience_s: float) -> None:
        """Request a count, and wait for a new one if the latest is old.

        Args:
            fresh_s: How old it may be, in seconds.
            patience_s: How long to wait at most, in seconds.
        """
        now = self._wanted_at = trio.current_time()
        self._wanted.set()
        with trio.move_on_after(patience_s):
            while self.latest is None or self.latest.began < now - fresh_s:
                self._missed.set()
                await self._counted.wait()

    async def run(self) -> None:
        """Count until the scheduler is closed."""
        try:
            while True:
                await self._wanted.wait()
                with suppress(Problem):  # There may be too many calls now.
                    await self.count()
                if trio.current_time() > self._wanted_at + WANTED_S:
                    self._wanted = trio.Event()
                await self._rest()
        except ClosedSchedulerError:
            pass

    async def _rest(self) -> None:
        """Rest until it is time to count anew; a request for a fresh count cuts it short."""
        self._missed = trio.Event()
        took_s = EVERY_S if self.latest is None else self.latest.took_s
        with trio.move_on_after(EVERY_S):
            await trio.sleep(_SHARE * took_s)
            await self._missed.wait()

    async def count(self) -> None:
        """Count once.

        Raises:
            Problem: If there are too many calls.
            ClosedSchedulerError: If the scheduler is closed.
        """
        began = trio.current_time()
        counting = _CensusPass(await self._inspect(_keys))
        while not counting.is_done:
            before = trio.current_time()
            await self._inspect(counting.advance)
            took_s = trio.current_time() - before
            await trio.sleep(min(_REST * took_s, 1.0))
        now = trio.current_time()
        self.latest = ReasonCounts(now, now - began, counting.result())
        self._counted.set()
        self._counted = trio.Event()


def _keys(machine: CoordinatorMachine) -> Steps[list[int]]:
    yield
    return list(machine.view.apps)


def reasons_of(machine: CoordinatorMachine) -> Steps[ReasonCount]:
    """Count the reasons of a past state, all at once."""
    counting = _CensusPass((yield from _keys(machine)))
    while not counting.is_done:
        yield from counting.advance(machine)
    return counting.result()


@final
class _CensusPass:
    """One count, in several looks.

    Args:
        keys: The keys of the applications.
    """

    def __init__(self, keys: Sequence[int]) -> None:
        self._keys = list(reversed(keys))
        #: The application that is counted, and the names of its asks that are left.
        self._key = -1
        self._names: list[str] = []
        self.counts: Counter[Code] = Counter()
        self._longest: tuple[int, ViewApp, str] | None = None

    def result(self) -> ReasonCount:
        """Return what was counted."""
        if self._longest is None:
            return ReasonCount(self.counts, None)
        since_us, app, ask = self._longest
        return ReasonCount(self.counts, PendingAsk(since_us, app.identity.name, ask))

    @property
    def is_done(self) -> bool:
        """Whether every application was counted."""
        return not self._keys and not self._names

    def advance(self, machine: CoordinatorMachine) -> Steps[None]:
        """Count for a moment."""
        until = perf_counter() + _LOOK_S
        apps = machine.view.apps
        while not self.is_done:
            if not self._names:
                self._begin_app(machine, self._keys.pop())
            piece = self._names[-_PIECE:]
            del self._names[-_PIECE:]
            app = apps.get(self._key)
            if app is not None:
                for name in piece:
                    ask = app.pending.get(name) or app.backing_off.get(name)
                    if ask is not None:
                        self.counts[machine.view.explainer.dominant(app, name, machine.now_us)] += 1
                        since_us = app.pending_since_us(ask)
                        if self._longest is None or since_us < self._longest[0]:
                            self._longest = since_us, app, name
            if perf_counter() >= until:
                return
            yield

    def _begin_app(self, machine: CoordinatorMachine, key: int) -> None:
        app = machine.view.apps.get(key)
        if app is not None:
            self._key = key
            self._names = [*app.pending, *app.backing_off]
            self.counts[Code.GANG_TIMED_OUT] += len(app.parked)
            self.counts[Code.PERMIT_WAITING] += len(app.waiting)
