"""The output of a command as the body of a response, also while it is still written."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import attrs
import trio
from typing_extensions import override

from muster.service.streaming.open_ended import OpenEnded

if TYPE_CHECKING:
    from starlette.types import Send

    from muster.service.streaming.broadcast import Broadcast

TEXT: Final = "text/plain"

IsOver = Callable[[], Awaitable[bool]]
"""Tells whether a command has ended."""

# PAGE-86
EARLIER: Final = "Muster-Earlier-Ask"
"""The header that says that the output is of an earlier ask of the same name."""

_LOOKS_S: Final = 0.1
"""How long to wait between looks at a file that may grow, in seconds."""

_PART: Final = 256 * 1024
"""How much is read and sent at once, in bytes."""


@final
@attrs.frozen
class Written:
    """The output of a start of an ask.

    Attributes:
        file: The file that has it.
        number: Which start of an ask of this name it is, from 1.
        is_over: Tells whether the command has ended.
        others: The numbers of other starts, the latest first, each with whether it is of an
            earlier ask of this name.
        is_earlier: Whether it is of an earlier ask of this name.
    """

    file: Path
    number: int
    is_over: IsOver
    others: Sequence[tuple[int, bool]] = ()
    is_earlier: bool = False


# LOCAL-10
@final
class Output(OpenEnded):
    """The output of one start of an ask, or of all of them.

    Args:
        written: The output.
        broadcast: Counts what is open for long, and knows when the service ends.
        follows: Whether the response goes on until the command has ended, and does not end with
            what is there.
        after: How many bytes of it the client has already.
    """

    def __init__(
        self, written: Written, broadcast: Broadcast, *, follows: bool, after: int = 0
    ) -> None:
        headers = {
            "Cache-Control": "no-cache, no-store",
            "Muster-Attempt": str(written.number),
        }
        if written.is_earlier:
            headers[EARLIER] = "true"
        super().__init__(broadcast, TEXT, headers)
        self._file = written.file
        self._is_over = written.is_over if follows else None
        self._after = after

    @override
    async def _follow(self, send: Send) -> bytes:
        """Send the output until there is no more."""
        position = self._after
        while True:
            # In this order: what was written before the end is read after it.
            is_last = self._is_over is None or self._broadcast.tail.is_over or await self._is_over()
            part = await trio.to_thread.run_sync(self._read, position)
            if part:
                position += len(part)
                await self._push(send, part)
            elif is_last:
                return b""
            else:
                await trio.sleep(_LOOKS_S)

    def _read(self, position: int) -> bytes:
        try:
            file = os.open(self._file, os.O_RDONLY)
        except FileNotFoundError:  # it was removed with history
            return b""
        try:
            return os.pread(file, _PART, position)
        finally:
            os.close(file)
