"""Run a module where the time, and what else is drawn, is always the same::

    python -m tests.same.fixed CLOCK … -m muster serve --listen unix:socket

``CLOCK`` is a file of eight bytes: the nanoseconds since 1970 that the clock of the machine shows. Only
a process that writes another number there sets the clock. The module runs in its folder. Words before
``-m`` are left out, so that all this can precede the command of another Python. Only the standard
library is changed, before anything else is imported.
"""

from __future__ import annotations

import mmap
import os
import runpy
import secrets
import sys
import time
import uuid
from pathlib import Path
from struct import Struct
from typing import Final

NANOSECONDS: Final = Struct("<q")
START_NS: Final = 1_700_000_000 * 10**9
"""Where fixed clocks begin, in nanoseconds since 1970."""

END_NS: Final = START_NS + 5 * 3_600 * 10**9
"""When the state of services is looked at, in nanoseconds since 1970."""

UUID: Final = uuid.UUID("00000000-0000-4000-8000-000000000000")


def fix(clock: Path) -> None:
    """Replace the clock of the machine by that of a file, and what is drawn by something fixed."""
    with clock.open("rb") as file:
        memory = mmap.mmap(file.fileno(), NANOSECONDS.size, access=mmap.ACCESS_READ)

    def time_ns() -> int:
        (now_ns,) = NANOSECONDS.unpack_from(memory)
        return int(now_ns)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9
    uuid.uuid4 = lambda: UUID
    secrets.token_urlsafe = lambda nbytes=None: "x" * (nbytes or 32)


if __name__ == "__main__":
    CLOCK = Path(sys.argv[1]).resolve()
    fix(CLOCK)
    os.chdir(CLOCK.parent)
    sys.argv = sys.argv[sys.argv.index("-m") + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
