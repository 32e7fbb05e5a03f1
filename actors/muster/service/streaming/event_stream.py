"""A stream of decisions that goes on as they are made: server-sent events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, final

import trio
from typing_extensions import override

from muster.service.streaming.cursor import Lagged
from muster.service.streaming.history import Gone
from muster.service.streaming.open_ended import EVENT_STREAM, HEARTBEAT_S, OpenEnded

if TYPE_CHECKING:
    from starlette.types import Send

    from muster._runtime.clients.observers import Filter
    from muster.service.streaming.broadcast import Broadcast

_RETRY: Final = b"retry: 2000\n\n"
"""When a client shall connect again that was cut off, in milliseconds."""

_SEND_BYTES: Final = 256 * 1024
"""After how many bytes they are sent, though there are more."""

_SKIP: Final = 10_000
"""After how many decisions that a filter did not let through the client learns where it is."""


@final
class EventStream(OpenEnded):
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
        self._told = after

    # STREAM-3, STREAM-5
    @override
    async def _follow(self, send: Send) -> bytes:
        """Send decisions until there is a reason to end; return what tells the client of it."""
        await self._push(send, _RETRY)
        while not self._is_complete():
            try:
                part = await self._gather()
            except Lagged:
                self._broadcast.lagged += 1
                return self._farewell("lagged", self._tail.first)
            except Gone as error:
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
                self._told = block.first + places[-1]
                if self._left is not None:
                    self._left -= len(places)
                parts.append(events)
                size += len(events)
            elif position - self._told >= _SKIP:
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
        """Return what tells the client how far it is, if it does not know it."""
        if self._cursor.position <= self._told:
            return b""
        self._told = self._cursor.position
        return b"id: %d\n\n" % self._told

    def _farewell(self, event: str, first: int) -> bytes:
        data = json.dumps({"after": self._cursor.position, "first": first})
        return self._advance() + f"event: {event}\ndata: {data}\n\n".encode()
