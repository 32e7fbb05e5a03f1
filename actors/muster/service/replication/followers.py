"""The followers of a leader: what they are sent, what they have, and what is waited for.

Batches come in when they are on disk. The latest are remembered as frames, so that a follower that
is level does not read them from the store; with ``--sync`` they are announced when a follower has
them on disk, too.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar, final

import attrs
import outcome
import trio

from muster._errors import ClosedSchedulerError
from muster.service.options import Sync
from muster.service.payloads import Problem
from muster.store._copies import BatchGroup

_LOG: Final = logging.getLogger("muster.service")
_CHANGE: Final = {"fields": {"what": "change"}}

_RECENT_BYTES: Final = 32 * 1024 * 1024
_END_S: Final = 2.0
"""How long followers may take at the end, in seconds."""

_LAST_S: Final = 0.1
"""For how long calls under way may still bring batches then, in seconds."""

_KNOWN: Final = 16
"""How many followers are remembered."""


T = TypeVar("T")

_goes_on: Final = ContextVar("_goes_on", default=False)
"""Whether a task waits while calls are held back: it has no client to answer."""


def wait_while_held() -> None:
    """Let this task, and those that it starts, wait where calls of clients are held back."""
    _goes_on.set(True)


def held_problem() -> Problem:
    """Return the problem of what is held back."""
    return Problem(
        503,
        "no follower has acknowledged what was written last, as --sync strict wants: whether this "
        "is kept is not known; send it again with the same Idempotency-Key",
        headers={"Retry-After": "1"},
    )


@final
@attrs.define(eq=False)
class Follower:
    """A follower, as its leader knows it.

    Attributes:
        name: What it calls itself.
        url: Where it is reached; empty if it has not said.
        version: Its version of Muster.
        batch: The last batch that it has on disk.
        connections: How many streams it reads; 0 if it is away.
        level_at: When it had all batches last, by trio's clock.
        difference: Why it has ended, if it decided otherwise; or None.
    """

    name: str
    url: str = ""
    version: str = ""
    batch: int = 0
    connections: int = 0
    level_at: float = attrs.field(factory=trio.current_time)
    difference: str | None = None


@final
class Followers:
    """The followers of this server; takes batches when they are on disk.

    Args:
        sync: What to do if none acknowledges in time; None not to wait.
        timeout_s: How long to wait, in seconds.

    Attributes:
        last: The number of the last batch that is on disk.
        differences: How many followers have ended since they decided otherwise.
        is_held: Whether nothing is answered, since no follower has what was written.
        is_alone: Whether batches are announced without a follower, until one is level again.
        is_over: Whether the service ends, so that streams do.
        check_lead: Checks that the lease is held, if there is one; without it nothing is announced.
    """

    def __init__(self, sync: Sync | None, timeout_s: float) -> None:
        self._sync = sync
        self._timeout_s = timeout_s
        self.last = 0
        self.differences = 0
        self.is_held = self.is_alone = self.is_over = False
        self.check_lead: Callable[[], None] = lambda: None
        #: Runs calls that may be held back, while the scheduler runs.
        self._nursery: trio.Nursery | None = None
        self._is_open = False
        #: The last batch when this server began to lead.
        self._first = 0
        self._recent: deque[tuple[int, int, bytes]] = deque()
        self._recent_bytes = 0
        self._known: dict[str, Follower] = {}
        self._news = trio.Event()
        self._acknowledged = trio.Event()
        #: Set while nothing is answered; renewed whenever that begins anew.
        self._held = trio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run calls that may be held back for the time of a block."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                yield
            finally:
                self._nursery = None
                nursery.cancel_scope.cancel()

    def begin(self, last: int) -> None:
        """Take note of the last batch that is on disk, and wait for followers from now on."""
        self.last = self._first = max(self.last, last)
        self._is_open = True

    # REPLICA-10
    async def wait_for_first(self, ends: trio.Event) -> None:
        """With ``--sync strict``, wait until a follower has what is kept, or the service ends."""
        if self._sync != "strict":
            return
        async with trio.open_nursery() as nursery:

            async def reach() -> None:
                await self._wait_for_acknowledgement(self.last)
                nursery.cancel_scope.cancel()

            nursery.start_soon(reach)
            _LOG.info("a follower has to come first: --sync strict", extra=_CHANGE)
            await ends.wait()
            nursery.cancel_scope.cancel()

    async def end(self) -> None:
        """End all streams, soon after those who read have what was answered."""
        with trio.move_on_after(_END_S):
            await trio.sleep(_LAST_S)
            while any(one.connections and one.batch < self.last for one in self._known.values()):
                await self._acknowledged.wait()
        self.is_over = True
        self._wake()

    # What is sent

    # REPLICA-9
    async def written(self, group: BatchGroup, /) -> None:
        """Take batches that were written; return when they may be announced.

        Raises:
            MusterError: If the lease is lost: they must not be announced.
        """
        self.last = group.rows[-1].number
        if any(one.connections for one in self._known.values()):
            self._remember(group)
        else:
            self._recent.clear()
            self._recent_bytes = 0
        self._wake()
        if self._sync is not None and self._is_open:
            await self._confirm(self.last)
        # REPLICA-18: the lease may have run out while this process was stopped.
        if self._is_open:
            self.check_lead()

    def _remember(self, group: BatchGroup) -> None:
        frame = group.frame()
        self._recent.append((group.rows[0].number, self.last, frame))
        self._recent_bytes += len(frame)
        while self._recent_bytes > _RECENT_BYTES and len(self._recent) > 1:
            self._recent_bytes -= len(self._recent.popleft()[2])

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    def recent(self, after: int) -> tuple[int, bytes] | None:
        """Return the frame with the batches after one, and the number of its last one.

        None if they are not remembered: they are in the store, or not there yet.
        """
        if not self._recent or not self._recent[0][0] <= after + 1 <= self.last:
            return None
        for wait_for_first, last, frame in reversed(self._recent):
            if wait_for_first == after + 1:
                return last, frame
            if wait_for_first <= after:
                return None  # It is within a frame.
        return None

    async def wait_for_batches(self, after: int) -> None:
        """Wait until there are batches after one, or the service ends."""
        while self.last <= after and not self.is_over:
            await self._news.wait()

    # What is acknowledged

    # REPLICA-10
    async def _confirm(self, number: int) -> None:
        if self.is_alone:
            return
        with trio.move_on_after(self._timeout_s) as waiting:
            await self._wait_for_acknowledgement(number)
        if not waiting.cancelled_caught:
            return
        message = f"no follower has acknowledged batch {number} within {self._timeout_s:g} s"
        if self._sync == "available":
            self.is_alone = True
            _LOG.warning("%s: this server goes on alone", message, extra=_CHANGE)
            return
        _LOG.error("%s: calls are held back until one does", message, extra=_CHANGE)
        self.is_held = True
        self._held.set()
        try:
            await self._wait_for_acknowledgement(number)
        finally:
            self.is_held, self._held = False, trio.Event()
        _LOG.warning("a follower has batch %d: calls are answered again", number, extra=_CHANGE)

    async def _wait_for_acknowledgement(self, number: int) -> None:
        while self._most < number:
            await self._acknowledged.wait()

    # REPLICA-10
    async def unless_held(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a call of a client; with ``--sync strict`` it may be held back.

        The call goes on then, without an answer to the client: whether a follower has it is
        unknown. A call within a call is held back with that one.

        Raises:
            Problem: 503 if it is held back.
            MusterError: What the call raises.
            ClosedSchedulerError: If the scheduler is closed before it answers.
        """
        nursery = self._nursery
        if self._sync != "strict" or _goes_on.get() or nursery is None:
            return await call()
        found: list[outcome.Outcome[T]] = []
        held = self._held

        async def run() -> None:
            wait_while_held()
            try:
                found.append(outcome.Value(await call()))
            except Exception as error:  # noqa: BLE001 - raised below
                found.append(outcome.Error(error))
            finally:
                scope.cancel()

        with trio.CancelScope() as scope:
            nursery.start_soon(run)
            await held.wait()
        if found:
            return found[0].unwrap()
        if held.is_set():
            raise held_problem()
        msg = "the scheduler was closed before it answered"
        raise ClosedSchedulerError(msg)

    @contextmanager
    def reading(self, name: str, url: str, version: str, batch: int) -> Generator[Follower]:
        """Count a follower that reads, for the time of a block.

        Args:
            name: What it calls itself.
            url: Where it is reached; empty if it has not said.
            version: Its version of Muster.
            batch: The last batch that it has.
        """
        follower = self._known.pop(name, None) or Follower(name)
        self._known[name] = follower
        follower.url, follower.version, follower.difference = url, version, None
        follower.connections += 1
        self._forget()
        self._note(follower, batch)
        _LOG.info("follower %s reads after batch %d", name, batch, extra=_CHANGE)
        try:
            yield follower
        finally:
            follower.connections -= 1
            if not follower.connections:
                _LOG.warning("follower %s is away", name, extra=_CHANGE)

    def _forget(self) -> None:
        disconnected = [one.name for one in self._known.values() if not one.connections]
        for name in disconnected[: max(0, len(self._known) - _KNOWN)]:
            del self._known[name]

    def acknowledge(self, name: str, batch: int) -> None:
        """Note that a follower has all batches up to one on disk."""
        follower = self._known.get(name)
        if follower is not None and batch <= self.last:
            self._note(follower, batch)

    def _note(self, follower: Follower, batch: int) -> None:
        follower.batch = batch
        if batch >= self.last:
            follower.level_at = trio.current_time()
            if self.is_alone:
                self.is_alone = False
                message = "follower %s is level: batches are announced when it has them"
                _LOG.info(message, follower.name, extra=_CHANGE)
        self._acknowledged.set()
        self._acknowledged = trio.Event()

    # REPLICA-6
    def note_difference(self, name: str, difference: str) -> None:
        """Note that a follower has ended, since it decided otherwise."""
        self.differences += 1
        # It may have found the difference in its own store, before it asked for batches.
        self._known.setdefault(name, Follower(name)).difference = difference
        self._forget()
        _LOG.error(
            "follower %s decides otherwise, and has ended: %s", name, difference, extra=_CHANGE
        )

    # Status

    # REPLICA-10
    @property
    def lacks_first(self) -> bool:
        """Whether this server leads with ``strict``, and no follower has what was there first."""
        return self._sync == "strict" and self._is_open and self._most < self._first

    @property
    def _most(self) -> int:
        """The last batch that a follower has."""
        return max((one.batch for one in self._known.values()), default=-1)

    @property
    def known(self) -> Sequence[Follower]:
        """The followers that are remembered, those that came last at the end."""
        return [*self._known.values()]

    @property
    def troubles(self) -> Mapping[str, bool]:
        """The state of ``--sync``."""
        return {"alone": self.is_alone, "held": self.is_held}

    def lag(self, follower: Follower) -> tuple[int, float]:
        """Return how many batches and seconds a follower is behind."""
        batches = max(0, self.last - follower.batch)
        return batches, trio.current_time() - follower.level_at if batches else 0.0

    def rows(self) -> list[dict[str, Any]]:
        """Return the items of the list of followers."""
        found: list[dict[str, Any]] = []
        for one in self._known.values():
            batches, seconds = self.lag(one)
            row: dict[str, Any] = {
                "follower": one.name,
                "url": one.url,
                "version": one.version,
                "connected": one.connections > 0,
                "batch": one.batch,
                "batches_behind": batches,
                "seconds_behind": round(seconds, 3),
                "difference": one.difference,
            }
            found.append(row)
        return found

    def health(self) -> Mapping[str, object]:
        """Return their part of ``/healthz``."""
        report: dict[str, object] = {
            "followers": sum(one.connections > 0 for one in self._known.values()),
            "differences": self.differences,
        }
        if self._sync is not None:
            report |= {"sync": self._sync, **self.troubles}
        different = next((one for one in self._known.values() if one.difference), None)
        if different is not None:
            report["difference"] = f"{different.name}: {different.difference}"
        return report
