"""Ending runs that never block, and so are never seen to be stuck."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from typing import Final

LONGEST_S: Final = 10.0
"""How long a run may take by the real clock, in seconds."""

AGAIN_S: Final = 5.0
"""After how many seconds more it is tried again, each time in a harder way."""

MOST_RINGS: Final = 25
"""After how many times the whole process is given up: what is caught each time is no end. Each time
one task ends at the most, and a program may have a dozen that do not let themselves be cancelled."""

UNSTOPPABLE: Final = 70
"""The exit status of a process that is given up (EX_SOFTWARE, as in sysexits.h)."""


class EndlessError(BaseException):
    """A run did not end, by the real clock; no binder should catch this by mistake."""


@contextlib.contextmanager
def alarm(cancel: Callable[[], None], about: Callable[[], str]) -> Generator[None, None, None]:
    """End a run that never blocks, where signals can do that.

    First it is cancelled. What goes on all the same has an exception raised in it, wherever
    it is; and when that was caught several times, the process ends.

    Args:
        cancel: Cancels the run; called from a signal handler.
        about: Says which run it is.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return
    rings = 0

    def ring(*_: object) -> None:
        nonlocal rings
        rings += 1
        if rings == 1:
            cancel()
        elif rings < MOST_RINGS:
            raise EndlessError(too_long())
        else:
            sys.stderr.write(f"{too_long()}, and cannot be ended:\n{about()}\n")
            faulthandler.dump_traceback()
            os._exit(UNSTOPPABLE)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def too_long() -> str:
    """Say that a run takes too long."""
    return f"not over after {LONGEST_S:g} s of real time"
