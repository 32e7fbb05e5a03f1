"""The two pipes between the program and the agent, on the loop of asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgpack

if TYPE_CHECKING:
    from muster.ray._messages import FromAgent


_CHUNK: Final = 262_144
_POLL_S: Final = 0.01


class Talk:
    """Tells the program messages, several at a time where they come together."""

    def __init__(self, loop: asyncio.AbstractEventLoop, out: asyncio.WriteTransport) -> None:
        self._loop = loop
        self._out = out
        self._waiting: list[bytes] = []
        # A text of a program may have surrogates, as the names of files have.
        self._pack = msgpack.Packer(unicode_errors="backslashreplace").pack

    def say(self, message: FromAgent) -> None:
        """Tell the program something. It never waits."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(self._packed(message))

    def _packed(self, message: Mapping[str, object]) -> bytes:
        return self._pack(message)

    def flush(self) -> None:
        """Write what waits."""
        self._out.write(b"".join(self._waiting))
        self._waiting.clear()

    async def drain(self, within_s: float) -> None:
        """Wait until the program has read everything, but no longer than this."""
        self.flush()
        until = self._loop.time() + within_s
        while self._out.get_write_buffer_size() and self._loop.time() < until:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_POLL_S)


def own_output() -> BinaryIO:
    """Keep the standard output for messages: what is printed goes to the standard error."""
    out = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(out, "wb", buffering=0)


async def open_output(out: BinaryIO) -> Talk:
    """Make the pipe to the program ready."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, out)
    return Talk(loop, transport)


async def listen(source: BinaryIO, told: Callable[[dict[str, Any]], None]) -> None:
    """Read the messages of the program until it has gone.

    Args:
        source: Where they come from.
        told: Called with each.
    """
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    while data := await reader.read(_CHUNK):
        unpacker.feed(data)
        for message in unpacker:
            told(message)


def in_a_line(error: BaseException) -> str:
    """Return an error as a line: Ray puts whole remote tracebacks into the texts of errors."""
    first = next((line for line in str(error).splitlines() if line.strip()), "").strip()
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
