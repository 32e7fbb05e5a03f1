"""Which of several servers leads, by a lease that one of them holds at a time.

A server that follows takes the lease when it is free and nothing of the leader is missing here. A
leader that loses it ends: it can be started again, and follows then.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, final

import trio

from muster._leases import Lease, LeaseRecord
from muster.service.replication.file_lease import lease_of
from muster.service.replication.following import (
    FollowError,
    Following,
    Promotion,
    name_of,
)
from muster.service.replication.leadership import Leadership, OverError
from muster.store import StateReader
from muster.store._file import NAME
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from muster._runtime.calls import Client

_LOG: Final = logging.getLogger("muster.service")
_CHANGE: Final = {"fields": {"what": "change"}}

_AGAIN_S: Final = 0.2
_PROMOTION_S: Final = 30.0
"""How long a promotion waits for the lease: longer than one holds that nobody renews."""


@final
class LeaseLostError(MusterError):
    """The lease was lost: another server may lead."""


@final
class Election:
    """Wants a lease for a server. Make one by :meth:`of`.

    Args:
        lease: The lease.
        leadership: The role of the server.
        state: Its state directory.
    """

    def __init__(self, lease: Lease, leadership: Leadership, state: Path) -> None:
        self._lease = lease
        self._leadership = leadership
        self._state = state
        self._trying = trio.CancelScope()
        #: Whether an administrator has said that this server shall lead.
        self._is_promoted = False

    @classmethod
    @asynccontextmanager
    async def of(cls, text: str, leadership: Leadership, state: Path) -> AsyncGenerator[Self]:
        """Want the lease that an option names for the time of a block; give it back at its end.

        Raises:
            MusterError: If there is no such lease, or it cannot be used.
        """
        holder = name_of(state)
        async with lease_of(text, holder, leadership.url) as lease:
            try:
                yield cls(lease, leadership, state)
            finally:
                if lease.is_held:
                    await lease.release()

    def note_term(self, term: int) -> None:
        """Write a term with the lease from now on."""
        self._lease.term = term

    def is_held(self) -> bool:
        """Return whether this server may lead at this moment, by its own clock."""
        return self._lease.is_held

    # REPLICA-17
    async def begin(self, follow: str | None) -> str | None:
        """Return the address of the server to follow; None when this one holds the lease.

        A server that led last goes on, unless another one has led since. One that has nobody to
        follow waits for the lease.

        Args:
            follow: The address of the other server, if there is one.

        Raises:
            OverError: If there is nobody to follow, and a higher term has begun.
        """
        term = await trio.to_thread.run_sync(self._own_term)
        self.note_term(term)
        if follow is None:
            await self._acquire_first(term)
            return None
        record = await self._lease.look() or LeaseRecord()
        if term and self._led_last(record, term):
            with trio.move_on_after(self._lease.times.attempt_s):
                await self._lease.acquire(lambda one: self._led_last(one, term))
                _LOG.info("this server has %s again, and leads", self._lease, extra=_CHANGE)
                return None
        is_other = record.holder not in {"", self._lease.holder}
        return record.url if is_other and record.url else follow

    async def _acquire_first(self, term: int) -> None:
        record = await self._lease.look() or LeaseRecord()
        if record.term > max(term, 1) or (record.term > term > 0):
            place = f" at {record.url}" if record.url else ""
            told = f"{self._lease} has term {record.term}: another server leads{place}, or has led"
            raise OverError(
                f"{told}: start this one with --follow{f' {record.url}' if place else ''}"
            )
        self._leadership.waits_for = f"another server holds {self._lease}"
        await self._lease.acquire(lambda one: one.term <= max(term, 1))
        self._leadership.waits_for = None

    def _own_term(self) -> int:
        """Return the term of the own store; 0 without one."""
        if not (self._state / NAME).exists():
            return 0
        with StateReader(self._state) as reader:
            return reader.meta.term

    def _led_last(self, record: LeaseRecord, term: int) -> bool:
        """Return whether nobody has led since this server did."""
        is_own = record.holder == self._lease.holder
        was_given = record.holder == "" and record.url == self._lease.url != ""
        return record.term <= term and (is_own or was_given)

    # REPLICA-18
    async def hold(self) -> None:
        """Renew the lease as long as that is possible.

        Raises:
            LeaseLostError: When it is lost.
        """
        await self._lease.hold()
        msg = f"{self._lease} is lost: another server may lead now, so this one ends"
        raise LeaseLostError(msg)

    # REPLICA-19
    async def stand(self, following: Following, client: Client) -> None:
        """Lead when the lease can be had and nothing of the leader is missing, then hold it.

        Raises:
            LeaseLostError: When it is lost.
        """

        def may(record: LeaseRecord) -> bool:
            is_right = record.term <= self._leadership.term and following.is_level
            return is_right or self._is_promoted

        while not self._lease.is_held:
            self._trying = trio.CancelScope()
            with self._trying:
                await self._lease.acquire(may)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.hold)
            made = await following.promote(client)
            self.note_term(made.term)

    async def take(self, following: Following) -> Promotion:
        """Let this server lead at once, as an administrator says: the old leader ends.

        Raises:
            FollowError: If the old leader keeps the lease.
        """
        self._is_promoted = True
        await following.tell_old_leader(self._leadership.term + 1)
        with trio.move_on_after(_PROMOTION_S):
            while not following.leads.is_set():
                if not self._lease.is_held:
                    self._trying.cancel()
                with trio.move_on_after(_AGAIN_S):
                    await following.leads.wait()
        if following.made is None:
            self._is_promoted = False
            told = (
                f"{self._lease} is held by {self._lease.seen.holder}, which does not give it back"
            )
            raise FollowError(told)
        return following.made
