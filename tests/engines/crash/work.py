"""The work of a run: it writes when it began, that it lives, and when it ended.

As a command it needs nothing but the standard library: ``python -I -S work.py FOLDER NAME SECONDS``.
The file has the time of a clock that all processes of the machine share. A run that is killed
writes no end, but the last beat says until when it lived. With ``deaf`` as a fourth argument it lives
on when it is asked to end, until it is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time

BEAT_S = 0.02


def work(folder: str, name: str, seconds: float) -> None:
    """Live for some time, and write it down.

    Args:
        folder: The folder for the files of all runs.
        name: The name of the run; each process that does it has a file of its own.
        seconds: How long.
    """
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
    file = os.open(f"{folder}/{name} {os.getpid()}", flags, 0o644)
    try:
        began_at = now = time.monotonic()
        while now < began_at + seconds:
            os.write(file, b"%.4f\n" % now)
            time.sleep(BEAT_S)
            now = time.monotonic()
        os.write(file, b"%.4f end\n" % now)
    finally:
        os.close(file)


def be_deaf(folder: str, name: str, seconds: float) -> None:
    """Work on after SIGTERM, for an hour, until it is killed."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: work(folder, name, 3600.0))
    work(folder, name, seconds)


if __name__ == "__main__":
    (be_deaf if "deaf" in sys.argv[4:] else work)(sys.argv[1], sys.argv[2], float(sys.argv[3]))
