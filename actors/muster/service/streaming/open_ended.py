"""Responses that go on for long: counted, given up when nobody reads, ended when their client leaves."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, final

import trio
from starlette.responses import Response
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

    from muster.service.streaming.broadcast import Broadcast

EVENT_STREAM: Final = "text/event-stream"
"""The media type of server-sent events."""

HEARTBEAT_S: Final = 15.0
"""After how long a stream without news sends something, in seconds."""


class _StalledError(Exception):
    """Nothing was read for too long."""


class OpenEnded(Response):
    """A response whose length nobody knows when it begins.

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
        with self._broadcast.one_more(), self._held:
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
        """Send a part; the response ends if nobody reads it in time."""
        with trio.move_on_after(self._broadcast.patience_s) as pushing:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if pushing.cancelled_caught:
            raise _StalledError


async def _until_left(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel a response when its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
