"""The alarm, which ends runs that never block."""

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
"""How long a run may take, in seconds of real time."""

AGAIN_S: Final = 5.0
"""How long to wait before the next, harder attempt to end a run, in seconds."""

MOST_RINGS: Final = 25
"""How many attempts there are before the process exits. Each raises an exception in at most one
task, and a program may have a dozen tasks that shield themselves from cancellation."""

UNSTOPPABLE: Final = 70
"""The exit status of a process that could not end a run (EX_SOFTWARE in sysexits.h)."""


class EndlessError(BaseException):
    """A run did not end in time. A BaseException, so that no binder catches it by mistake."""


@contextlib.contextmanager
def alarm(cancel: Callable[[], None], about: Callable[[], str]) -> Generator[None, None, None]:
    """End a run that takes too long, on systems with signals.

    The first attempt cancels the run. The next ones raise an exception in the code that is
    running. If it catches this several times, the process exits.

    Args:
        cancel: Cancels the run; called from a signal handler.
        about: Returns a description of the run.
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
    """Return the message for a run that takes too long."""
    return f"not over after {LONGEST_S:g} s of real time"
