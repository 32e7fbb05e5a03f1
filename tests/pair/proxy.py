"""A proxy between two servers, which cuts, stalls and slows their connections."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, final

import trio

_CONNECT_S: Final = 5.0
_RESETS: Final = struct.pack("ii", 1, 0)


@final
class Proxy:
    """Passes bytes on to a port of this machine.

    Args:
        port: The port that it passes them to.

    Attributes:
        url: Where it listens.
        pause_s: How long each piece waits, in seconds.
        piece: How many bytes a piece has at most.
        is_cut: Whether connections are refused.
    """

    def __init__(self, port: int) -> None:
        self.url = ""
        self.pause_s = 0.0
        self.piece = 65_536
        self.is_cut = False
        self._port = port
        self._flows = trio.Event()
        self._flows.set()
        self._open: set[trio.CancelScope] = set()

    def cut(self, *, for_ever: bool) -> None:
        """Break all connections, and future ones if so wanted."""
        self.is_cut = for_ever
        for scope in self._open:
            scope.cancel()

    def stall(self) -> None:
        """Hold back all bytes; connections stay."""
        self._flows = trio.Event()

    def slow(self, pause_s: float, piece: int) -> None:
        """Pass on small pieces, each after a pause."""
        self.pause_s, self.piece = pause_s, piece

    def heal(self) -> None:
        """Pass everything on again."""
        self.is_cut = False
        self._flows.set()
        self.slow(0.0, 65_536)

    async def serve(self, near: trio.SocketStream) -> None:
        """Serve one connection."""
        with trio.CancelScope() as scope:
            self._open.add(scope)
            try:
                if not self.is_cut:
                    await self._join(near)
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                pass
            finally:
                self._open.discard(scope)
                if scope.cancel_called:
                    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS)
                await trio.aclose_forcefully(near)

    async def _join(self, near: trio.SocketStream) -> None:
        with trio.fail_after(_CONNECT_S):
            far = await trio.open_tcp_stream("127.0.0.1", self._port)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass, near, far)
                nursery.start_soon(self._pass, far, near)
        except ExceptionGroup as group:
            _, others = group.split((OSError, trio.BrokenResourceError, trio.ClosedResourceError))
            if others is not None:
                raise
        finally:
            await trio.aclose_forcefully(far)

    async def _pass(self, source: trio.SocketStream, target: trio.SocketStream) -> None:
        while data := await source.receive_some(self.piece):
            await trio.sleep(self.pause_s)
            await self._flows.wait()
            await target.send_all(data)
        msg = "the connection has ended at one side"
        raise trio.BrokenResourceError(msg)


@asynccontextmanager
async def proxy_to(port: int) -> AsyncGenerator[Proxy]:
    """Start a proxy in front of a port for the time of a block."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = Proxy(port)
    proxy.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, proxy.serve, listeners)
        yield proxy
        nursery.cancel_scope.cancel()
