"""Time in a running scheduler: its clocks, its timers, its pace, and what it measures of itself.

The timekeeper is the task that waits until a timer is due. The pace makes long work yield
regularly, so that other tasks of the program can run. Trio checks timers and sockets only after all
ready tasks have run. So it is not enough that each task yields: all tasks of a scheduler share one
pace, and together they use one slice of time between two such checks. The meter collects the
figures; other parts of the program show them.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Sequence
from time import perf_counter
from typing import Final, Protocol, TypeVar, cast, final

import trio

from muster_core.structures.steps import Steps

MICROSECONDS: Final = 1_000_000

_CHECK_INTERVAL_S: Final = 5.0
"""The period for reading the clock of the machine during a wait, in seconds: it may have been set."""


class Clock(Protocol):
    """The source of the time.

    It may start at any value: only differences count. With a store it tells microseconds since
    1970 in UTC, since the next process has to go on from there.
    """

    def now_us(self) -> int:
        """Return the present time in microseconds; the scheduler's time never goes back with it."""
        ...

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until ``at_us``, in microseconds; return at once if it is in the past.

        The scheduler may cancel this and then wait for another instant.
        """
        ...


@final
class TrioClock:
    """The clock of the trio program in which the scheduler runs.

    With :class:`trio.testing.MockClock`, a test controls the time.
    """

    def now_us(self) -> int:
        """Return the present time in microseconds."""
        return round(trio.current_time() * MICROSECONDS)

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until ``at_us``, in microseconds."""
        # Compared as `now_us` rounds, so that it never sleeps until a time that is reached.
        while self.now_us() < at_us:  # noqa: ASYNC110 - a clock has no event to wait for
            await trio.sleep_until(at_us / MICROSECONDS)


@final
class WallClock:
    """The clock of the machine, which people may set."""

    @staticmethod
    def now_us() -> int:
        """Return the microseconds since 1970 in UTC."""
        return time.time_ns() // 1_000

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until ``at_us``, in microseconds since 1970 in UTC; also if the clock is set."""
        while (left_us := at_us - self.now_us()) > 0:  # noqa: ASYNC110 - nobody tells if it is set
            await trio.sleep(min(left_us / MICROSECONDS, _CHECK_INTERVAL_S))


@final
class Timekeeper:
    """Wakes the coordinator when its next timer is due.

    Args:
        clock: The clock.
        start_us: The time of the clock at the opening, in microseconds; instants count from it.
        ring: Notifies the coordinator that a timer is due; may wait for a place at the entry.
    """

    def __init__(self, clock: Clock, start_us: int, ring: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._start_us = start_us
        self._ring = ring
        #: The instant to wait for, in microseconds since the opening, or None.
        self._target_us: int | None = None
        #: The scope of the present wait, to cancel when the target becomes earlier.
        self._sleep: trio.CancelScope | None = None
        self._set = trio.Event()

    def now_us(self) -> int:
        """Return the time since the opening, in microseconds."""
        return self._clock.now_us() - self._start_us

    def aim(self, at_us: int | None) -> None:
        """Set the instant to wait for, or None; a later instant than before costs nothing."""
        before, self._target_us = self._target_us, at_us
        if self._sleep is not None:
            if before is None or at_us is None or at_us < before:
                self._sleep.cancel()
        elif at_us is not None:
            self._set.set()

    async def run(self) -> None:
        """Ring at every instant that :meth:`aim` sets."""
        while True:
            if self._target_us is None:
                self._set = trio.Event()
                await self._set.wait()
            at_us = self._target_us
            if at_us is None:
                continue
            with trio.CancelScope() as self._sleep:
                await self._clock.wait_until_us(self._start_us + at_us)
            self._sleep = None
            if self._target_us == at_us and self.now_us() >= at_us:
                self._target_us = None  # The coordinator sets the next one afterwards.
                await self._ring()


R = TypeVar("R")
T = TypeVar("T")

SLICE_S: Final = 0.002
"""How long the tasks of a scheduler work before they let other tasks run, in seconds."""

PORTION: Final = 64
"""How many messages are put before their readers may run."""


PIECE: Final = 256
"""How many small steps are done between two checks of the clock."""

SMALL_PIECE: Final = 8
"""How many events are created from maps between two checks of the clock."""


def slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield a sequence in pieces of at most :data:`PIECE` items, in order."""
    if len(items) <= PIECE:
        if items:
            yield items
        return
    for at in range(0, len(items), PIECE):
        yield items[at : at + PIECE]


@final
class Pace:
    """Says when to let other tasks run. Decisions do not depend on it."""

    __slots__ = ("_slices", "_until")

    def __init__(self) -> None:
        self._until = 0.0
        #: How many slices have begun.
        self._slices = 0

    def start(self) -> None:
        """Begin a slice, as other tasks have just run."""
        self._slices += 1
        self._until = perf_counter() + SLICE_S

    def is_up(self) -> bool:
        """Return whether other tasks should run now."""
        return perf_counter() >= self._until

    async def rest(self, *, shield: bool = False) -> None:
        """Let other tasks run.

        Args:
            shield: Whether this must not be cancelled.
        """
        while True:
            before = self._slices
            if shield:
                await trio.lowlevel.cancel_shielded_checkpoint()
            else:
                await trio.lowlevel.checkpoint()
            if self._slices == before:
                self.start()  # The first task that continues begins the next slice.
                return
            if not self.is_up():  # Otherwise another task has used up the slice.
                return

    async def take(self, steps: Steps[R], *, shield: bool = False) -> R:
        """Run steps at this pace, and return their result.

        Args:
            steps: The steps.
            shield: Whether they must not be cancelled in between.
        """
        try:
            while True:
                next(steps)
                if perf_counter() >= self._until:
                    await self.rest(shield=shield)
        except StopIteration as end:
            return cast("R", end.value)

    async def let_go(self, items: list[T], *, shield: bool = False) -> None:
        """Empty a list in pieces, because freeing many objects at once takes long.

        Args:
            items: The list, which must have no other user.
            shield: Whether this must not be cancelled in between.
        """
        while items:
            del items[-PIECE:]
            if self.is_up():
                await self.rest(shield=shield)


BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the buckets for short durations, in seconds."""


@final
class Timings:
    """A histogram of durations.

    Args:
        bounds_s: The upper bounds of the buckets, rising, in seconds; one without a bound follows.

    Attributes:
        bounds_s: The bounds.
        counts: How often it took at most the bound of each bucket, and more than the one before.
        sum_s: The sum of all, in seconds.
    """

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: Sequence[float] = BOUNDS_S) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def note(self, took_s: float) -> None:
        """Count a duration, in seconds."""
        self.counts[bisect_left(self.bounds_s, took_s)] += 1
        self.sum_s += took_s


@final
class Meter:
    """Measures a scheduler.

    Attributes:
        decide: The time of the batches of callers until they are decided.
        commit: The time until a batch is in the store.
    """

    __slots__ = ("commit", "decide")

    def __init__(self) -> None:
        self.decide = Timings()
        self.commit = Timings()
