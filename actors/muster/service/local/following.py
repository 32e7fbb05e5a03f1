"""The output of a command as the body of a response, also while it is still written."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import trio
from starlette.responses import Response
from typing_extensions import override

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from muster.service.streaming.broadcast import Broadcast

TEXT: Final = "text/plain"

IsOver = Callable[[], Awaitable[bool]]
"""Tells whether a command has ended."""

_LOOKS_S: Final = 0.1
"""How long to wait between looks at a file that may grow, in seconds."""

_PART: Final = 256 * 1024
"""How much is read and sent at once, in bytes."""


# LOCAL-10
@final
class Output(Response):
    """The output of one start of an ask, or of all of them.

    Args:
        file: The file that has it.
        number: Which start it is.
        broadcast: Counts what is open for long, and knows when the service ends.
        is_over: Tells whether the command has ended: until then the response goes on. None: the
            response ends with what is there.
    """

    def __init__(
        self, file: Path, number: int, broadcast: Broadcast, is_over: IsOver | None
    ) -> None:
        headers = {
            "Cache-Control": "no-cache, no-store",
            "Muster-Attempt": str(number),
            "X-Accel-Buffering": "no",
        }
        super().__init__(None, 200, headers, media_type=TEXT)
        del self.headers["content-length"]
        self._file = file
        self._broadcast = broadcast
        self._is_over = is_over

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the output until there is no more, or the client leaves."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        with self._broadcast.one_more():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_left, receive, nursery.cancel_scope)
                await self._run(send)
                nursery.cancel_scope.cancel()

    async def _run(self, send: Send) -> None:
        position = 0
        while True:
            # In this order: what was written before the end is read after it.
            is_last = self._is_over is None or self._broadcast.tail.is_over or await self._is_over()
            part = await trio.to_thread.run_sync(self._read, position)
            if part:
                position += len(part)
                if not await self._push(send, part):
                    return
            elif is_last:
                break
            else:
                await trio.sleep(_LOOKS_S)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _read(self, position: int) -> bytes:
        try:
            file = os.open(self._file, os.O_RDONLY)
        except FileNotFoundError:  # it was removed with history
            return b""
        try:
            return os.pread(file, _PART, position)
        finally:
            os.close(file)

    async def _push(self, send: Send, part: bytes) -> bool:
        """Send a part; return whether it was read in time."""
        with trio.move_on_after(self._broadcast.patience_s) as pushing:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if pushing.cancelled_caught:
            self._broadcast.stalled += 1
        return not pushing.cancelled_caught


async def _until_left(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel a response when its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
