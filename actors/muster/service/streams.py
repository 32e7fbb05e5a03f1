"""Streams: responses that go on for long, above all decisions as server-sent events.

Open streams are counted, given up when they are not read, and ended when their client leaves.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import trio
from starlette.responses import Response
from typing_extensions import override

from muster.service.decision_log import (
    Cursor,
    DecisionsRemovedError,
    DecisionTail,
    LaggingError,
    StoredDecisions,
)
from muster.service.limits import Slots
from muster.service.payloads import Problem

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from muster._runtime.observers import Filter


_THREADS: Final = 2
"""How many threads read decisions from the store at the same time."""


@final
class Broadcast:
    """What all streams share.

    Args:
        directory: The state directory, or None without one.
        slots: The limit on how many streams there are.
        patience_s: How long a stream may wait for its reader, in seconds.

    Attributes:
        tail: The latest decisions.
        slots: The limit on how many streams there are, and how many there are.
        opened: How many streams there were since the start.
        lagged: How many of them were cut off because they read too slowly.
        stalled: How many of them were cut off because they did not read at all.
    """

    def __init__(self, directory: Path | None, slots: Slots, patience_s: float) -> None:
        self._directory = directory
        self.slots = slots
        self._limiter = trio.CapacityLimiter(_THREADS)
        self.patience_s: Final = patience_s
        self.tail = DecisionTail()
        self.opened = 0
        self.lagged = 0
        self.stalled = 0

    # STREAM-8
    @asynccontextmanager
    async def running(self, ends: trio.Event) -> AsyncGenerator[None, None]:
        """Serve streams for the time of a block.

        Args:
            ends: When it is set, all streams end when they have sent what was announced.
        """

        async def end() -> None:
            await ends.wait()
            self.tail.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.tail.run)
            nursery.start_soon(end)
            yield
            nursery.cancel_scope.cancel()

    def cursor(self, after: int, *, lags: bool) -> Cursor:
        """Return a cursor after a decision; see :class:`Cursor`."""
        return Cursor(self.tail, self._history(), after, lags=lags)

    def _history(self) -> StoredDecisions | None:
        return None if self._directory is None else StoredDecisions(self._directory, self._limiter)

    async def first(self) -> int:
        """Return the number of the first decision that is kept.

        Raises:
            StoreError: If the store cannot be read.
        """
        history = self._history()
        if history is None or self.tail.first == 1:
            return self.tail.first
        try:
            return await history.first()
        finally:
            history.close()

    # STREAM-4
    async def check(self, after: int) -> None:
        """Check that the decisions after a number are there, or will be.

        Raises:
            Problem: 409 if the number itself was not announced yet; 410 if they are not kept.
            StoreError: If the store cannot be read.
        """
        if after > self.tail.last:
            message = f"decision {after} is not announced yet: the last one is {self.tail.last}"
            raise Problem(409, f"after: {message}", last=self.tail.last)
        if after + 1 < self.tail.first:
            first = await self.first()
            if after + 1 < first:
                raise removed_problem(DecisionsRemovedError(first))

    # STREAM-7
    def check_room(self) -> None:
        """Check that there may be one more stream.

        Raises:
            Problem: 503 if there may not.
        """
        with self.slots.taken():
            pass

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count a stream for the time of a block.

        Raises:
            Problem: 503 if there are too many already.
        """
        with self.slots.taken():
            self.opened += 1
            yield


def removed_problem(error: DecisionsRemovedError) -> Problem:
    """Return the problem of decisions that are not kept any more."""
    return Problem(410, f"after: {error}", first=error.first)


EVENT_STREAM: Final = "text/event-stream"
"""The media type of server-sent events."""

HEARTBEAT_S: Final = 15.0
"""After how long a stream without news sends something, in seconds."""


class _StalledError(Exception):
    """Nothing was read for too long."""


class LongResponse(Response):
    """A response whose length is unknown when it begins.

    Args:
        broadcast: Counts such responses, and says how long one may wait for its reader.
        media: The media type.
        headers: Further headers.
        held: What is held while it goes on.
    """

    def __init__(
        self,
        broadcast: Broadcast,
        media: str,
        headers: Mapping[str, str],
        held: AbstractContextManager[object] | None = None,
    ) -> None:
        all_headers = {"X-Accel-Buffering": "no", **headers}
        super().__init__(None, 200, all_headers, media_type=media)
        del self.headers["content-length"]
        self._broadcast = broadcast
        self._held = nullcontext() if held is None else held

    @abstractmethod
    async def _follow(self, send: Send) -> bytes:
        """Send parts with :meth:`_push` until there are no more; return the last one."""

    @final
    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until there is no more, or the client leaves."""
        start = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        with self._broadcast.counted(), self._held:
            await send(start)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_left, receive, nursery.cancel_scope)
                await self._run(send)
                nursery.cancel_scope.cancel()

    async def _run(self, send: Send) -> None:
        try:
            last = await self._follow(send)
        except _StalledError:
            self._broadcast.stalled += 1
        else:
            await send({"type": "http.response.body", "body": last, "more_body": False})

    # STREAM-6
    @final
    async def _push(self, send: Send, part: bytes) -> None:
        """Send a part; the response ends if it is not read in time."""
        with trio.move_on_after(self._broadcast.patience_s) as pushing:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if pushing.cancelled_caught:
            raise _StalledError


async def _until_left(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel a response when its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


_RETRY: Final = b"retry: 2000\n\n"
"""When a client shall connect again that was cut off, in milliseconds."""

_SEND_BYTES: Final = 256 * 1024
"""After how many bytes they are sent, though there are more."""

_SKIP: Final = 10_000
"""After how many decisions that a filter did not let through the client learns where it is."""


@final
class EventStream(LongResponse):
    """The response with the decisions that follow a number, without an end.

    Args:
        broadcast: What all streams share.
        after: The number.
        wanted: Which decisions are wanted; None for all.
        until: The number of the last decision; None for no end.
        limit: After how many decisions it ends; None for no end.
    """

    def __init__(
        self,
        broadcast: Broadcast,
        after: int,
        wanted: Filter | None,
        until: int | None,
        limit: int | None,
    ) -> None:
        cursor = broadcast.cursor(after, lags=True)
        super().__init__(
            broadcast, EVENT_STREAM, {"Cache-Control": "no-cache, no-store"}, held=cursor
        )
        self._tail = broadcast.tail
        self._cursor = cursor
        self._wanted = wanted
        self._until = until
        self._left = limit
        #: The number that the client knows to be the last one it has got or need not get.
        self._known_seq = after

    # STREAM-3, STREAM-5
    @override
    async def _follow(self, send: Send) -> bytes:
        """Send decisions until there is a reason to end; return the last part, which names it."""
        await self._push(send, _RETRY)
        while not self._is_complete():
            try:
                part = await self._gather()
            except LaggingError:
                self._broadcast.lagged += 1
                return self._farewell("lagged", self._tail.first)
            except DecisionsRemovedError as error:
                return self._farewell("gone", error.first)
            if part:
                await self._push(send, part)
            elif self._cursor.is_at_end and not self._is_complete():
                if self._tail.is_over:
                    break
                await self._wait(send)
        return self._advance()

    def _is_complete(self) -> bool:
        return self._left == 0 or (self._until is not None and self._cursor.position >= self._until)

    async def _gather(self) -> bytes:
        """Return the next events; nothing if no more are there, or none is wanted."""
        parts: list[bytes] = []
        size = 0
        while size < _SEND_BYTES and not self._is_complete():
            block = await self._cursor.next()
            if block is None:
                break
            places, position = block.choose(
                self._cursor.position, self._until, self._wanted, self._left
            )
            self._cursor.position = position
            if places:
                events = block.events_at(places)
                self._known_seq = block.first + places[-1]
                if self._left is not None:
                    self._left -= len(places)
                parts.append(events)
                size += len(events)
            elif position - self._known_seq >= _SKIP:
                parts.append(self._advance())
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # STREAM-5
    async def _wait(self, send: Send) -> None:
        """Wait for news; send a sign of life meanwhile."""
        with trio.move_on_after(HEARTBEAT_S) as waiting:
            await self._tail.wait(self._cursor.position)
        if waiting.cancelled_caught:
            await self._push(send, self._advance() or b":\n\n")

    def _advance(self) -> bytes:
        """Return an event with the position, if the client does not know it."""
        if self._cursor.position <= self._known_seq:
            return b""
        self._known_seq = self._cursor.position
        return b"id: %d\n\n" % self._known_seq

    def _farewell(self, event: str, first: int) -> bytes:
        data = json.dumps({"after": self._cursor.position, "first": first})
        return self._advance() + f"event: {event}\ndata: {data}\n\n".encode()
