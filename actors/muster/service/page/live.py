"""Telling open pages that something was decided, so that they fetch what they show again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import trio
from typing_extensions import override

from muster.service.access.who import Role
from muster.service.page.viewed import Page, Viewed
from muster.service.streaming.open_ended import EVENT_STREAM, HEARTBEAT_S, OpenEnded

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Send

    from muster.service.streaming.broadcast import Broadcast

PAUSE_S: Final = 0.5
"""How often a page is told at most, in seconds."""


# PAGE-4, PAGE-68
@final
class Live(OpenEnded):
    """The response that tells whenever there are new decisions: server-sent events, without an end.

    It says only how far the batches have come; a page then fetches itself again.

    Args:
        broadcast: The latest decisions.
    """

    def __init__(self, broadcast: Broadcast) -> None:
        super().__init__(broadcast, EVENT_STREAM, {"Cache-Control": "no-store"})

    @override
    async def _follow(self, send: Send) -> bytes:
        """Tell until the service ends."""
        tail = self._broadcast.tail
        while not tail.is_over:
            batch, told_at = tail.batch, trio.current_time()
            await self._push(send, f"event: decided\ndata: {batch}\n\n".encode())
            await self._wait(batch, told_at + HEARTBEAT_S)
            await trio.sleep_until(told_at + PAUSE_S)
        return b""

    async def _wait(self, batch: int, until: float) -> None:
        """Wait for another batch, until some time at most.

        An ask that has to wait changes what is shown, though nothing is decided about it.
        """
        tail = self._broadcast.tail
        while tail.batch == batch and not tail.is_over and trio.current_time() < until:
            with trio.move_on_after(PAUSE_S):
                await tail.wait(tail.last)


async def _live(viewed: Viewed) -> Response:
    viewed.service.broadcast.check_room()
    return Live(viewed.service.broadcast)


LIVE: Final = (Page("GET", "/live", Role.READER, _live),)
"""The stream that keeps pages up to date."""
