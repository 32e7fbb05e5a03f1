"""How many asks are not running for which reason; counted beside everything else, in short looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from muster._errors import ClosedSchedulerError
from muster.service.problems import Problem
from muster_core.decisions import MICROSECONDS
from muster_core.reasons import Code

if TYPE_CHECKING:
    from muster.service.metrics.figures import Looks
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp

EVERY_S: Final = 10.0
"""How long it rests at most before it counts anew, in seconds."""

_SHARE: Final = 100
"""How much longer than a count it rests at least, unless that is longer than ``EVERY_S``."""

WANTED_S: Final = 300.0
"""How long it goes on after somebody wanted to know, in seconds."""

_LOOK_S: Final = 0.002
"""How long a look takes at most, about, in seconds."""

_REST: Final = 9
"""How much longer than a look it then waits."""

_PIECE: Final = 32


@final
@attrs.frozen
class Waiting:
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
    longest: Waiting | None


@final
@attrs.frozen
class ReasonCounts:
    """What was counted, and when.

    Attributes:
        at: When they were counted, as ``trio.current_time`` says.
        took_s: How long it took, in seconds.
        found: What was counted.
    """

    at: float
    took_s: float
    found: ReasonCount

    @property
    def counts(self) -> Mapping[Code, int]:
        """The counts."""
        return self.found.counts

    def age_us(self) -> int:
        """Return how old it is, in microseconds."""
        return round((trio.current_time() - self.began) * MICROSECONDS)

    @property
    def began(self) -> float:
        """When the count began."""
        return self.at - self.took_s


@final
class ReasonCensus:
    """Counts reasons again and again while somebody wants to know them.

    Args:
        look: Reads the state between two batches.

    Attributes:
        latest: What was counted last; None before the first time.
    """

    def __init__(self, look: Looks) -> None:
        self._look = look
        self._wanted_at = -WANTED_S
        self._wanted = trio.Event()
        self._wanted.set()  # The first time nobody has to ask.
        self._missed = trio.Event()
        self._counted = trio.Event()
        self.latest: ReasonCounts | None = None

    # STREAM-11
    async def want(self, fresh_s: float, patience_s: float) -> None:
        """Say that somebody wants to know, and wait for a new count if the latest is old.

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
        """Rest until it is time to count anew; somebody who misses a count cuts it short."""
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
        counting = _Counting(await self._look(_keys))
        while not counting.is_done:
            before = trio.current_time()
            await self._look(counting.go_on)
            took_s = trio.current_time() - before
            await trio.sleep(min(_REST * took_s, 1.0))
        now = trio.current_time()
        self.latest = ReasonCounts(now, now - began, counting.found())
        self._counted.set()
        self._counted = trio.Event()


def _keys(machine: CoordinatorMachine) -> Steps[list[int]]:
    yield
    return list(machine.view.apps)


def reasons_of(machine: CoordinatorMachine) -> Steps[ReasonCount]:
    """Count the reasons of a state that nobody else waits for."""
    counting = _Counting((yield from _keys(machine)))
    while not counting.is_done:
        yield from counting.go_on(machine)
    return counting.found()


@final
class _Counting:
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

    def found(self) -> ReasonCount:
        """Return what was counted."""
        if self._longest is None:
            return ReasonCount(self.counts, None)
        since_us, app, ask = self._longest
        return ReasonCount(self.counts, Waiting(since_us, app.identity.name, ask))

    @property
    def is_done(self) -> bool:
        """Whether every application was counted."""
        return not self._keys and not self._names

    def go_on(self, machine: CoordinatorMachine) -> Steps[None]:
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
                        self.counts[machine.view.dominant(app, name, machine.now_us)] += 1
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
