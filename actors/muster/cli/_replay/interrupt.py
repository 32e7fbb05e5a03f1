"""Ctrl-C during a replay: it ends at once, but in order.

trio's own way is to raise KeyboardInterrupt wherever the program happens to be, which may
be in the middle of writing a batch. Here the replay is cancelled instead, so what was
announced is whole. Only a read that waits for input, and would go on waiting, is
interrupted by an exception.
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
        hit: Whether it came.
    """

    def __init__(self) -> None:
        self.hit = False
        self._reading = False
        self._scope: trio.CancelScope | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_main = threading.current_thread() is threading.main_thread()

    def scope(self) -> trio.CancelScope:
        """Make the scope that Ctrl-C cancels; to be entered inside of ``trio.run``."""
        self._token = trio.lowlevel.current_trio_token()
        self._scope = trio.CancelScope()
        if self.hit:
            self._scope.cancel()
        return self._scope

    def reads(self, items: Iterable[T]) -> Iterator[T]:
        """Give the same items; after Ctrl-C there is KeyboardInterrupt instead of the next one."""
        iterator = iter(items)
        while True:
            self._reading = True
            try:
                # It came since the last read, and the scope might be looked at too late.
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
            os._exit(128 + signal.SIGINT)  # whoever presses it once more wants no order
        with suppress(trio.RunFinishedError):  # What is left to be done is done.
            self._token.run_sync_soon(self._scope.cancel)

    def __enter__(self) -> Self:
        if self._is_main:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_main:
            signal.signal(signal.SIGINT, self._before)
