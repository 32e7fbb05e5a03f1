"""What a program observes: decisions as they are announced, and the newest values.

Each observer of decisions has a buffer of its own. A watched value is published by one task and
watched by others, which see the newest value, not all values. Values that a batch has changed are
decided at its end and published when it is announced. With a store the two are apart: the next
batch is decided while this one is written, and no task may see a value that is not on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from itertools import count
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar, final
from weakref import ReferenceType, ref

import attrs
import trio

from muster._errors import LaggedError
from muster._runtime.clock import slices
from muster_core.decisions import Announced, Kind
from muster_core.errors import EventError, MusterError
from muster_core.structures.steps import Steps
from muster_core.values.names import canonical_gang

T = TypeVar("T")


@final
class Watched(Generic[T]):
    """A place for one immutable value: publishing replaces the value and wakes waiting tasks.

    A task that does not run between two values never sees the first of them. So a fact that a task
    must not miss has to be part of all later values.

    Args:
        value: The first value.

    Attributes:
        value: The newest value that was published.
        decided: The newest value that the owner has decided; only the owner may read it.
    """

    __slots__ = ("_changed", "_listeners", "decided", "value")

    def __init__(self, value: T) -> None:
        self.value = self.decided = value
        self._changed: trio.Event | None = None
        self._listeners: dict[object, Callable[[T], None]] = {}

    def publish(self, value: T) -> None:
        """Replace the value; only the task that owns the watched state may do that."""
        self.value = value
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        for listener in list(self._listeners.values()):
            listener(value)

    @contextmanager
    def notifying(self, listener: Callable[[T], None]) -> Generator[None, None, None]:
        """Call a listener for every value during the block, at once and in the publisher's task.

        Args:
            listener: Called with the value. It must be fast and must not raise: it is meant to
                cancel a scope.
        """
        key = object()
        self._listeners[key] = listener
        try:
            yield
        finally:
            del self._listeners[key]

    async def changed(self) -> None:
        """Wait until another value is published."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()


class Publications(Protocol):
    """Takes the values that the coordinator decides, to publish them."""

    def put(self, watched: Watched[T], value: T, /) -> None:
        """Decide a value; the values are published in this order."""

    def until_published(self, close: Callable[[], None], /) -> None:
        """Keep a function until everything that was put so far is published.

        Args:
            close: Closes the values of something that is not tracked any more.
        """

    def close(self) -> None:
        """Call the functions that are kept: what they wait for will never be published."""


@final
class Immediate:
    """Publishes each value as soon as it is decided."""

    @staticmethod
    def put(watched: Watched[T], value: T, /) -> None:
        """Decide a value and publish it."""
        watched.decided = value
        watched.publish(value)

    @staticmethod
    def until_published(close: Callable[[], None], /) -> None:
        """Do nothing: everything is published."""

    @staticmethod
    def close() -> None:
        """Do nothing: everything is published."""


@final
class Staged:
    """Collects the values of a batch, which are published when the batch is on disk."""

    def __init__(self) -> None:
        #: The functions that publish the values since the last :meth:`take`. It has no bound of its
        #: own: a batch changes at most every tracked ask and gang.
        self._waiting: list[Callable[[], None]] = []
        #: The functions that close what is not tracked any more and not published yet, in order.
        self._unpublished: dict[Callable[[], None], None] = {}

    def put(self, watched: Watched[T], value: T, /) -> None:
        """Decide a value."""
        watched.decided = value
        self._waiting.append(partial(watched.publish, value))

    def until_published(self, close: Callable[[], None], /) -> None:
        """Keep a function until everything that was put so far is published."""
        self._unpublished[close] = None
        self._waiting.append(partial(self._unpublished.pop, close))

    def close(self) -> None:
        """Call the functions that are kept."""
        for close in self._unpublished:
            close()
        self._unpublished.clear()

    def take(self) -> list[Callable[[], None]]:
        """Return the functions that publish the collected values, in order; begin anew."""
        taken, self._waiting = self._waiting, []
        return taken


@final
class Lag(StrEnum):
    """What happens when the buffer of an observer is full. It never delays the scheduler."""

    DROP = "drop"
    """The observer ends: when its buffer is read, it raises :class:`~muster.LaggedError`."""
    SKIP = "skip"
    """The oldest decisions in the buffer are lost, and :attr:`Decisions.missed` counts them."""


@final
@attrs.frozen
class Filter:
    """The conditions for the decisions that an observer receives; None is no condition.

    Attributes:
        kinds: The decision has one of these kinds.
        app: The decision is about this application.
        queue: The decision is about this queue, in lower case, or a queue below it.
        gang: The decision is about this gang or one of its members.
        where: This function returns true for the decision.
    """

    kinds: frozenset[Kind] | None = None
    app: str | None = None
    queue: str | None = None
    gang: str | None = None
    where: Callable[[Announced], bool] | None = None

    def wants(self, announced: Announced) -> bool:
        """Return whether a decision meets all conditions."""
        decision = announced.decision
        return (
            (self.kinds is None or decision.kind in self.kinds)
            and (self.app is None or decision.app == self.app)
            and (self.queue is None or is_below(decision.queue, self.queue))
            and (self.gang is None or decision.gang == self.gang)
            and (self.where is None or self.where(announced))
        )


_EVERYTHING: Final = Filter()


def is_below(queue: str | None, top: str) -> bool:
    """Return whether a queue is ``top``, a path in lower case, or a queue below it."""
    if queue is None:
        return False
    path = queue.lower()
    return path == top or path.startswith(f"{top}.")


def filter_of(
    kinds: Collection[Kind | str] | None,
    app: str | None,
    queue: str | None,
    gang: str | None,
    where: Callable[[Announced], bool] | None,
) -> Filter:
    """Create a filter from the arguments of a program.

    Raises:
        EventError: If a kind or the name of the gang is invalid.
    """
    try:
        return Filter(
            kinds=None if kinds is None else frozenset(map(Kind, _several(kinds))),
            app=app,
            queue=None if queue is None else path_of(queue),
            gang=None if gang is None else canonical_gang(gang),
            where=where,
        )
    except ValueError as error:
        msg = f"{error}; kinds are {', '.join(Kind)}"
        raise EventError(msg) from None


def _several(kinds: Collection[Kind | str]) -> Collection[Kind | str]:
    """Return a collection, also for a single kind."""
    return (kinds,) if isinstance(kinds, str) else kinds


def path_of(queue: str) -> str:
    """Return the full path of a queue in lower case; ``root.`` may be left out."""
    path = queue.lower()
    return path if path == "root" or path.startswith("root.") else f"root.{path}"


@final
class Decisions:
    """An observer of decisions; :meth:`muster.Scheduler.decisions` creates it.

    It receives the decisions that are announced from its creation on, and ends when the
    scheduler is closed. One task reads it with ``async for``. To stop earlier, close it
    (``async with``, or :meth:`close`), or drop all references to it.
    """

    def __init__(self, wanted: Filter, buffer: int, lag: Lag | str) -> None:
        if buffer < 1:
            msg = f"buffer: {buffer!r} decisions: there has to be room for 1 at least"
            raise EventError(msg)
        self._filter = wanted
        if lag not in set(Lag):
            msg = f"lag: {lag!r}: there are {', '.join(Lag)}"
            raise EventError(msg)
        self._lag = Lag(lag)
        self._room = buffer
        #: The unread decisions, at most ``buffer`` of them.
        self._buffer: deque[Announced] = deque()
        self._waiter: trio.lowlevel.Task | None = None
        self._is_over = False
        #: The error to raise when the buffer has been read, or None.
        self._error: Exception | None = None
        #: How many decisions were lost because the buffer was full.
        self.missed = 0
        #: Called when the observer ends.
        self.leave: Callable[[], object] = lambda: None

    # Read by one task

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Announced:
        await self._wait()
        if self._buffer:
            return self._buffer.popleft()
        self.take_now()  # raises the error that has ended the observer, if there is one
        raise StopAsyncIteration

    async def take(self) -> Sequence[Announced]:
        """Wait for decisions, and return all that are there; an empty sequence at the end.

        Raises:
            LaggedError: If the buffer was full and ``lag`` is :attr:`Lag.DROP`.
            Exception: What the filter ``where`` has raised.
        """
        await self._wait()
        return self.take_now()

    def take_now(self) -> Sequence[Announced]:
        """Return all decisions that are there, without waiting; see :meth:`take`."""
        if not self._buffer and self._error is not None:
            error, self._error = self._error, None
            raise error
        taken = tuple(self._buffer)
        self._buffer.clear()
        return taken

    async def _wait(self) -> None:
        """Wait until there is a decision, or the observer has ended."""
        if self._waiter is not None:
            msg = "another task is reading these decisions; make an observer for each"
            raise trio.BusyResourceError(msg)
        if self._buffer or self._is_over:
            await trio.lowlevel.checkpoint()
        else:
            self._waiter = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._waiter = None
        return trio.lowlevel.Abort.SUCCEEDED

    def close(self) -> None:
        """Stop observing; unread decisions are lost."""
        self._buffer.clear()
        self._error = None
        self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Filled by the coordinator

    @property
    def is_over(self) -> bool:
        """Whether the observer has ended; the decisions in its buffer can still be read."""
        return self._is_over

    def offer(self, announced: Sequence[Announced]) -> None:
        """Put the decisions that pass the filter into the buffer."""
        wanted, error = ((), None) if self._is_over else self._select(announced)
        for one in wanted:
            if self._is_over:  # closed by its own filter
                return
            if len(self._buffer) == self._room:
                self.missed += 1
                if self._lag is Lag.DROP:
                    msg = f"decision {one.seq} found the buffer full, of {self._room} decisions"
                    self.end(LaggedError(msg, self.missed))
                    return
                self._buffer.popleft()
            self._buffer.append(one)
        if error is not None:
            self.end(error)
        elif wanted:
            self._wake()

    def _select(
        self, announced: Sequence[Announced]
    ) -> tuple[Sequence[Announced], Exception | None]:
        """Return the decisions that pass, up to an exception of the filter, and this exception."""
        if self._filter == _EVERYTHING:
            return announced, None
        wanted: list[Announced] = []
        try:
            wanted.extend(filter(self._filter.wants, announced))
        except Exception as error:  # noqa: BLE001 - raised where the decisions are read
            return wanted, error
        return wanted, None

    def end(self, error: Exception | None = None) -> None:
        """End the observer.

        Args:
            error: The error to raise when the buffer has been read, or None.
        """
        if not self._is_over:
            self._is_over = True
            self._error = error
            self.leave()
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None


@final
class Observers:
    """The observers of a scheduler, in the order of their creation."""

    def __init__(self) -> None:
        #: Weak references: an observer without other references is closed.
        self._observers: dict[int, ReferenceType[Decisions]] = {}
        self._numbers = count()
        self._is_closed = False

    def admit(self, observer: Decisions) -> None:
        """Add an observer; it receives the decisions that are announced from now on."""
        if self._is_closed:
            observer.end()
        else:
            number = next(self._numbers)
            leave = partial(self._observers.pop, number, None)
            observer.leave = leave
            self._observers[number] = ref(observer, lambda _: leave())

    def publish(self, announced: Sequence[Announced]) -> Steps[None]:
        """Offer the decisions of a batch to all observers, except those added meanwhile."""
        for known in list(self._observers.values()):
            for piece in slices(announced):
                yield
                observer = known()
                if observer is not None:
                    observer.offer(piece)

    def close(self, error: MusterError | None) -> None:
        """End all observers.

        Args:
            error: The error that they raise if the scheduler has failed, or None.
        """
        self._is_closed = True
        for known in list(self._observers.values()):
            observer = known()
            if observer is not None:
                observer.end(error)
