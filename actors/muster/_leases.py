"""A lease: what only one of several processes holds at a time, and what it lets the others know.

:class:`Lease` is the state machine. What keeps the record, such as an API server or a file that
machines share, has to read it and to exchange it for another in one step.

No two machines need the same time. The holder counts from before it asked to have the lease, and
the others from after they have seen it change; so its time ends before theirs, if all clocks run at
about the same rate. Exchanging also separates processes that want it at once: one of them has seen
the version that is there, and what was asked for long ago and is carried out late changes nothing.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final, final

import attrs
import trio
from typing_extensions import override

from muster_core.errors import MusterError

_log: Final = logging.getLogger(__name__)


@final
@attrs.frozen
class LeaseRecord:
    """What is known of a lease.

    Attributes:
        holder: The name of its holder; empty without one.
        url: Where the holder is reached; empty if that is not known.
        term: The number of its term; 0 if it is not known.
        seconds: How long it holds without a renewal.
    """

    holder: str = ""
    url: str = ""
    term: int = 0
    seconds: int = 0


# REPLICA-20
@final
@attrs.frozen
class LeaseTimes:
    """The times of a lease, in seconds.

    Attributes:
        held_s: How long it holds without a renewal.
        renewed_s: How often it is renewed, and how often others look at it.
        given_up_s: How long its holder keeps it after the last renewal that succeeded.
    """

    held_s: int = 15
    renewed_s: float = 2.0
    given_up_s: float = 10.0

    def __attrs_post_init__(self) -> None:
        assert 0 < self.renewed_s < self.given_up_s < self.held_s, self

    @property
    def attempt_s(self) -> float:
        """How long one attempt to read it, to take it or to renew it may take, in seconds."""
        return self.given_up_s / 2


TIMES: Final = LeaseTimes()


class Lease(ABC):
    """A lease, wanted by this process.

    Args:
        place: Where it is, in words for the log, such as ``the lease default/muster``.
        holder: What this process calls itself there; no other process ever has that name.
        url: The address of this process for the others.
        times: Its times.

    Attributes:
        holder: What this process calls itself.
        url: Where it is reached.
        term: Its term, which is written with every renewal; 0 if it has none.
        trouble: What was wrong with the last attempt, or None.
        times: Its times.
    """

    def __init__(self, place: str, holder: str, url: str = "", times: LeaseTimes = TIMES) -> None:
        assert holder, "an empty name means that there is no holder"
        self.holder = holder
        self.url = url
        self.term = 0
        self.trouble: str | None = None
        self.times: Final = times
        self._place = place
        #: What was seen last, its version, and when that was seen for the first time.
        self._seen = LeaseRecord()
        self._version: object = None
        self._since = -inf
        #: Until when this process may take itself for the holder, by trio's clock.
        self._until = -inf
        self._is_wanted = False
        self._turn = trio.Lock()

    @override
    def __str__(self) -> str:
        """Return where it is."""
        return self._place

    # What keeps the record

    @abstractmethod
    async def _read(self) -> tuple[LeaseRecord, object] | None:
        """Return the record and its version, which each write changes; None if there is no record.

        Raises:
            MusterError: If there is no answer.
        """

    @abstractmethod
    async def _swap(self, version: object, record: LeaseRecord) -> bool:
        """Write a record in place of the one with a version, or of none; return whether it was that.

        Raises:
            MusterError: If there is no answer; whether it was written is unknown then.
        """

    # What is known

    @property
    def seen(self) -> LeaseRecord:
        """What was seen last, or was written."""
        return self._seen

    @property
    def is_held(self) -> bool:
        """Whether this process may take itself for the holder at this moment."""
        is_ours = self._is_wanted and self._seen.holder == self.holder
        return is_ours and trio.current_time() < self._until

    async def look(self) -> LeaseRecord | None:
        """Read the record, and take nothing; None if there is no answer in time.

        A record that is gone counts as it was seen last.
        """

        async def read() -> bool:
            await self._look()
            return True

        return self._seen if await self._attempt(read) else None

    # To have it

    # POD-25, REPLICA-20
    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, and work while it is held; then wait again, until the work returns.

        Args:
            work: The work. It is cancelled when the lease is lost.
        """
        while True:
            await self.acquire()
            _log.info("%s holds %s", self.holder, self)
            try:
                if await self._work(work):
                    return
            finally:
                if self.is_held:
                    await self.release()
            _log.warning("%s has lost %s", self.holder, self)

    async def _work(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Work while the lease is held; return whether the work is done."""
        is_done = False
        async with trio.open_nursery() as nursery:
            # Work that is cancelled may take a while to end: it is held until then.
            holding = trio.CancelScope(shield=True)

            async def hold() -> None:
                with holding:
                    await self.hold()
                    nursery.cancel_scope.cancel()

            nursery.start_soon(hold)
            try:
                await work()
                is_done = True
            finally:
                holding.cancel()
        return is_done

    # REPLICA-22
    async def acquire(self, may: Callable[[LeaseRecord], bool] = lambda _: True) -> None:
        """Wait until the lease is held.

        Args:
            may: Whether it may be taken now, by the record that was seen last; it is asked each
                time that the lease is free.
        """
        self._is_wanted, self._until = True, -inf

        def can() -> bool:
            return self._is_free() and may(self._seen)

        while not (await self._attempt(lambda: self._take(can)) and self.is_held):
            left_s = self._others_until - trio.current_time()
            renewed_s = self.times.renewed_s
            await trio.sleep(left_s if 0 < left_s < renewed_s else renewed_s)

    async def hold(self) -> None:
        """Renew the lease, which was acquired, until it is lost or released.

        It is lost after a time without a renewal that succeeded, and if another process has it.
        """

        def can() -> bool:
            return self._seen.holder == self.holder

        while self.is_held:
            await trio.sleep_until(min(self._until, trio.current_time() + self.times.renewed_s))
            if self.is_held:
                await self._attempt(lambda: self._take(can), self._until)
        self._until = -inf

    # REPLICA-23
    async def release(self) -> None:
        """Let another one have the lease at once; what needs it has to have ended.

        It takes no longer than the time between two renewals, and cannot be cancelled.
        """
        self._is_wanted = False

        async def give() -> bool:
            version = await self._look()
            is_ours = version is not None and self._seen.holder == self.holder
            # The address stays: the last leader may go on, if no other has led since.
            return is_ours and await self._write(version, LeaseRecord(url=self.url, seconds=1))

        with trio.CancelScope(shield=True):
            await self._attempt(give, trio.current_time() + self.times.renewed_s)

    # Steps

    async def _attempt(self, step: Callable[[], Awaitable[bool]], end: float = inf) -> bool:
        """Try something, one at a time, within a limit of time; return whether it was possible."""
        attempt_s = self.times.attempt_s
        trouble = f"there is no answer within {attempt_s:g} s"
        with trio.move_on_at(min(end, trio.current_time() + attempt_s)):
            async with self._turn:
                try:
                    done = await step()
                except MusterError as error:
                    done, trouble = False, str(error)
                else:
                    self.trouble = None
                    return done
        if trouble != self.trouble:
            _log.warning("%s: %s", self, trouble)
        self.trouble = trouble
        return False

    async def _take(self, can: Callable[[], bool]) -> bool:
        """Take the lease, or renew it, if that can be done after a look at it."""
        began = trio.current_time()  # From then on it holds, whenever the answer comes.
        version = await self._look()
        wanted = LeaseRecord(self.holder, self.url, self.term, self.times.held_s)
        if not (self._is_wanted and can() and await self._write(version, wanted)):
            return False
        self._until = began + self.times.given_up_s
        return True

    # REPLICA-21
    async def _look(self) -> object:
        """Note what there is; return its version.

        A record that is gone stays as it was seen: its holder may not know yet.
        """
        found = await self._read()
        if found is None:
            return None
        record, version = found
        if version != self._version:
            self._seen, self._version, self._since = record, version, trio.current_time()
        return version

    # REPLICA-24
    async def _write(self, version: object, record: LeaseRecord) -> bool:
        """Exchange the record; a term that was seen never becomes lower."""
        record = attrs.evolve(record, term=max(self.term, self._seen.term))
        if not await self._swap(version, record):
            return False
        self._seen, self._version = record, None
        return True

    @property
    def _others_until(self) -> float:
        """Until when another process holds it without a renewal, by trio's clock."""
        return self._since + (self._seen.seconds or self.times.held_s)

    def _is_free(self) -> bool:
        is_open = self._seen.holder in {"", self.holder}
        return is_open or trio.current_time() >= self._others_until
