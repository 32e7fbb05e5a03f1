"""The signals that end the service, or make it read its files again."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self, final

import trio

_AT_LAST_S: Final = 9.5
"""When the process ends by all means after it was told to, in seconds."""

_BY_SIGNAL: Final = 128
"""What is added to the number of a signal for the exit status of a process that it has ended."""

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


@final
class Signals:
    """What the signals of the process mean, as a context manager in its main thread.

    Ctrl-C counts also where it was ignored at the start, as in a background job of a script.

    Attributes:
        ends: Set at the first SIGTERM or SIGINT. A second one ends the process at once.
        rereads: Gives something at each SIGHUP.
    """

    def __init__(self) -> None:
        self.ends = trio.Event()
        self._rereads, self.rereads = trio.open_memory_channel[None](1)
        self._token: trio.lowlevel.TrioToken | None = None
        self._before: dict[int, Any] = {}
        self._is_ending = False

    def __enter__(self) -> Self:
        for number in _ENDING:
            self._before[number] = signal.signal(number, self._end)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reread)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, _leave)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, before in self._before.items():
            signal.signal(number, before)

    def start(self) -> None:
        """Tell the tasks of this run of trio from now on."""
        self._token = trio.lowlevel.current_trio_token()
        if self._is_ending:
            self.ends.set()

    # ACCESS-15
    def _end(self, number: int, _frame: FrameType | None) -> None:
        if self._is_ending:
            # What was answered is on disk, whenever the process ends.
            os._exit(_BY_SIGNAL + number)
        self._is_ending = True
        signal.setitimer(signal.ITIMER_REAL, _AT_LAST_S)
        if self._token is not None:
            self._token.run_sync_soon(self.ends.set)

    def _reread(self, _number: int, _frame: FrameType | None) -> None:
        if self._token is not None:
            self._token.run_sync_soon(self._want)

    def _want(self) -> None:
        try:
            self._rereads.send_nowait(None)
        except trio.WouldBlock:
            pass  # The files will be read again, after this moment.
        except trio.BrokenResourceError:
            pass  # The service ends.


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)
