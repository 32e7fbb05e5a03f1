"""Telling open pages that something was decided, so that they fetch what they show again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import trio
from starlette.responses import Response
from typing_extensions import override

from muster.service.access.who import Role
from muster.service.page.viewed import Page, Viewed

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from muster.service.streaming.broadcast import Broadcast

PAUSE_S: Final = 0.5
"""How often a page is told at most, in seconds."""

HEARTBEAT_S: Final = 15.0
"""After how long without news it is told that the service is there, in seconds."""


# PAGE-4
@final
class Live(Response):
    """The response that tells whenever there are new decisions: server-sent events, without an end.

    It says only how far the batches have come; a page then fetches itself again.

    Args:
        broadcast: The latest decisions.
    """

    def __init__(self, broadcast: Broadcast) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(None, 200, headers, media_type="text/event-stream")
        del self.headers["content-length"]
        self._broadcast = broadcast

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell until the browser leaves, or the service ends."""
        start = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        with self._broadcast.one_more():
            await send(start)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_left, receive, nursery.cancel_scope)
                await self._run(send)
                nursery.cancel_scope.cancel()

    async def _run(self, send: Send) -> None:
        tail = self._broadcast.tail
        while not tail.is_over:
            batch, told_at = tail.batch, trio.current_time()
            text = f"event: decided\ndata: {batch}\n\n"
            with trio.move_on_after(self._broadcast.patience_s) as sending:
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
            if sending.cancelled_caught:
                self._broadcast.stalled += 1
                return
            await self._wait(batch, told_at + HEARTBEAT_S)
            await trio.sleep_until(told_at + PAUSE_S)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait(self, batch: int, until: float) -> None:
        """Wait for another batch, until some time at most.

        An ask that has to wait changes what is shown, though nothing is decided about it.
        """
        tail = self._broadcast.tail
        while tail.batch == batch and not tail.is_over and trio.current_time() < until:
            with trio.move_on_after(PAUSE_S):
                await tail.wait(tail.last)


async def _until_left(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _live(viewed: Viewed) -> Response:
    viewed.service.broadcast.check_room()
    return Live(viewed.service.broadcast)


LIVE: Final = (Page("GET", "/live", Role.READER, _live),)
"""The stream that keeps pages up to date."""
