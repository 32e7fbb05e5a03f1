"""Which server leads: the term of this one, its leader, and how it learns that it is over.

A term is a number that each promotion raises. A server that learns of a higher one leads no more.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, final

import attrs
import trio
from typing_extensions import override

from muster.service.access import Principal, Role
from muster.service.payloads import Problem
from muster.store._file import NAME
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation, Binder
    from muster.service.options import Backend
    from muster.service.replication.followers import Followers

    _Resume = Callable[[Allocation, Callable[[], None]], Awaitable[None]]

_LOG: Final = logging.getLogger("muster.service")
_CHANGE: Final = {"fields": {"what": "change"}}

TERM: Final = "Muster-Term"
"""The header with the term of a server, or the highest one that a client knows."""

_REDIRECTED: Final = "http"

_OWN_PATHS: Final = ("/api/v1/replica", "/login", "/logout", "/config/check", "/events/try")
"""The paths that a follower answers itself though the method is that of a write."""

_OUTPUT: Final = re.compile("/api/v1/asks/.*/logs")
"""The output of commands, which only the server that runs them has."""

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


_OVER: Final = f"{NAME}.over"
"""The file in a state directory whose server was over; it says why."""


@final
class OverError(MusterError):
    """Another server leads with a higher term."""


# REPLICA-14
def check_not_over(state: Path) -> None:
    """Check that a server may lead with a state directory.

    Raises:
        OverError: If another one had a higher term when this one led last.
    """
    try:
        reason = (state / _OVER).read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    raise OverError(f"{reason}; or remove {state / _OVER} if that server is gone for good")


def forget_over(state: Path) -> None:
    """Forget that a server was over, now that it follows."""
    (state / _OVER).unlink(missing_ok=True)


@final
@attrs.frozen
class FollowerLag:
    """How far a follower is behind.

    Attributes:
        batches: How many batches it lacks.
        seconds: For how long it has lacked one, or had no beat of its leader.
    """

    batches: int
    seconds: float

    @override
    def __str__(self) -> str:
        """Return it as the header has it."""
        return f"batches={self.batches}, seconds={self.seconds:.1f}"


class Progress(Protocol):
    """How a follower gets on."""

    @property
    def problem(self) -> str:
        """Why the leader is not followed at present."""
        ...

    def behind(self) -> FollowerLag:
        """Return how far it is behind."""
        ...

    def health(self) -> Mapping[str, object]:
        """Return its part of ``/healthz``."""
        ...


@final
class Leadership:
    """The role of this server.

    Args:
        follows: The address of the leader; None if this server leads.

    Attributes:
        term: Its term; 0 until its store is open, or without one.
        url: Where it is reached, once that is known.
        followers: Those who follow it.
        following: How it follows the leader; None if it leads, or once it does.
        waits_for: What is waited for before it leads, in words, or None.
        over: Set when another server leads with a higher term.
    """

    def __init__(self, followers: Followers, follows: str | None) -> None:
        self.term = 0
        self.url = ""
        self.followers = followers
        self.following: Progress | None = None
        self.waits_for: str | None = None
        self.over = trio.Event()
        self._follows = follows
        self._reason = ""

    @property
    def leader(self) -> str | None:
        """The address of the leader, if this server follows it."""
        return self._follows

    @property
    def role(self) -> str:
        """``leader`` or ``follower``."""
        return "leader" if self._follows is None else "follower"

    def follow(self, leader: str | None) -> None:
        """Note the leader that this server follows; None if it leads."""
        self._follows = leader

    def lead(self, term: int) -> None:
        """Note that this server leads from now on."""
        self.term, self._follows, self.following = term, None, None

    # REPLICA-14
    def observe_term(self, term: int, url: str, whom: str) -> bool:
        """Take note of a term; a leader whose term is lower is over.

        Args:
            term: The term.
            url: The address of its leader; empty if unknown.
            whom: The source of the term, in words.

        Returns:
            Whether this server is over.
        """
        if self._follows is not None or not self.term or term <= self.term:
            return False
        if not self.over.is_set():
            place = f" at {url}" if url else ""
            self._reason = (
                f"{whom} knows of term {term}: another server leads{place}, and this one's term "
                f"{self.term} is over: start it again with --follow{f' {url}' if url else ''}"
            )
            self.over.set()
        return True

    # REPLICA-14
    def check(self, header: str | None, who: Principal) -> None:
        """Take note of the term that a client knows, if its role may change something here.

        Args:
            header: The header ``Muster-Term``, or None.
            who: Who sends it.

        Raises:
            Problem: 503 if this server is over.
        """
        if (
            header is None
            or who.role < Role.REPLICA
            or not header.isascii()
            or not header.isdigit()
        ):
            return
        if self.observe_term(int(header), "", f"client {who.name!r}") or self.over.is_set():
            raise Problem(503, self._reason)

    async def end(self, state: Path | None) -> None:
        """Wait until this server is over; a later start learns of it from the state directory.

        Raises:
            OverError: Then.
        """
        await self.over.wait()
        if state is not None:
            await trio.to_thread.run_sync((state / _OVER).write_text, self._reason)
        _LOG.error("%s", self._reason, extra=_CHANGE)
        raise OverError(self._reason)

    # REPLICA-8
    def headers(self) -> Iterable[tuple[bytes, bytes]]:
        """Yield the headers that every answer has."""
        if self.term:
            yield TERM.lower().encode(), b"%d" % self.term
        if self._follows is not None:
            yield b"muster-role", b"follower"
            if self.following is not None:
                yield b"muster-behind", str(self.following.behind()).encode()

    def is_elsewhere(self, method: str, path: str) -> bool:
        """Return whether a request is for the leader only, and this server follows it."""
        is_own = method in _READS or path.startswith(_OWN_PATHS)
        return self._follows is not None and (not is_own or _OUTPUT.fullmatch(path) is not None)

    def place(self, path: str, query: str) -> str | None:
        """Return the address of a path at the leader, if a client can be sent there."""
        if self._follows is None or not self._follows.startswith(_REDIRECTED):
            return None
        return f"{self._follows.rstrip('/')}{path}{f'?{query}' if query else ''}"

    def health(self) -> Mapping[str, object]:
        """Return its part of ``/healthz``."""
        report: dict[str, object] = {"role": self.role, "term": self.term}
        if self.following is not None:
            return {**report, "leader": self._follows, **self.following.health()}
        return {**report, **self.followers.health()}


@final
class LateBackend:
    """A binder whose work waits until a backend is open. Make one by :meth:`of`."""

    def __init__(self) -> None:
        self._wanted = trio.Event()
        self._opened = trio.Event()
        self._binder: Binder

    @classmethod
    @asynccontextmanager
    async def of(cls, backend: Backend) -> AsyncGenerator[LateBackend]:
        """Yield a binder; the backend stays open to the end of the block, once it is."""
        made = cls()
        async with trio.open_nursery() as nursery:
            over = trio.Event()
            nursery.start_soon(made._hold, backend, over)
            try:
                yield made
            finally:
                over.set()
                if not made._opened.is_set():
                    nursery.cancel_scope.cancel()

    async def _hold(self, backend: Backend, over: trio.Event) -> None:
        await self._wanted.wait()
        async with backend.opened() as binder:
            self._binder = binder
            self._opened.set()
            await over.wait()

    # REPLICA-13
    async def open(self) -> None:
        """Open the backend, and let work run.

        Raises:
            MusterError: If it cannot be opened; this ends the block of :meth:`of`.
        """
        self._wanted.set()
        await self._opened.wait()

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Do the work of an allocation; see :class:`muster.Binder`."""
        await self._opened.wait()
        await self._binder.run(allocation, started)

    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Go on with the work that the old leader had started, where the backend can."""
        await self._opened.wait()
        resume: _Resume | None = getattr(self._binder, "resume", None)
        await (resume or self._binder.run)(allocation, started)
