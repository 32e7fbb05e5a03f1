"""Ctrl-C during a replay: end it at once, but cleanly.

By default, trio raises KeyboardInterrupt at any place in the program, which may be in the
middle of writing a batch. Here the replay is cancelled instead, so every announced batch is
written completely. An exception interrupts only a read, which might wait for input for ever.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self, TypeVar, final

import trio

T = TypeVar("T")


@final
class Interrupt:
    """Watches for Ctrl-C, in a ``with`` statement around ``trio.run``.

    Attributes:
        hit: Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.hit = False
        self._reading = False
        self._scope: trio.CancelScope | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        # Only the main thread can handle signals. Where Ctrl-C is ignored, as in a job that a
        # script starts in the background, it is meant for others.
        is_main = threading.current_thread() is threading.main_thread()
        self._is_ours = is_main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN

    def scope(self) -> trio.CancelScope:
        """Return the scope that Ctrl-C cancels; enter it inside ``trio.run``."""
        self._token = trio.lowlevel.current_trio_token()
        self._scope = trio.CancelScope()
        if self.hit:
            self._scope.cancel()
        return self._scope

    def reads(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the same items; after Ctrl-C, raise KeyboardInterrupt instead of the next one."""
        iterator = iter(items)
        while True:
            self._reading = True
            try:
                # Pressed since the last read; the cancellation might take effect too late.
                if self.hit:
                    raise KeyboardInterrupt
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self._reading = False
            yield item

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        self.hit = True
        if self._reading:
            raise KeyboardInterrupt
        if self._scope is None or self._token is None:
            return  # `scope` looks at `hit`
        if self._scope.cancel_called:
            os._exit(128 + signal.SIGINT)  # pressed again: exit without cleaning up
        with suppress(trio.RunFinishedError):  # The replay has already ended.
            self._token.run_sync_soon(self._scope.cancel)

    def __enter__(self) -> Self:
        if self._is_ours:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._before)
