"""The garbage collector in the processes of the command ``muster``.

A scheduler creates almost no objects that only a collector can free, and each collection stops every
task for a time that grows with the objects it looks at. So collections are rare, and short in a
service. The library leaves the collector to the program.
"""

from __future__ import annotations

import gc
from typing import Final

_SELDOM: Final = (100_000, 50, 100)
"""After how many new objects, young collections and middle ones the next generation is collected."""

_YOUNG: Final = 10_000
"""From how many new objects on a service collects them each second; some milliseconds suffice."""


def collect_seldom() -> None:
    """Let collections be rare.

    A burst of asks is not garbage, and frequent scans of it take a quarter of the time of a large
    replay.
    """
    gc.set_threshold(*_SELDOM)


def keep_loaded() -> None:
    """Leave out of all later collections what there is now.

    It is for what was loaded at the start. What comes and goes must not be left out: what a
    connection leaves behind only the collector can free.
    """
    gc.freeze()


def collect_new() -> None:
    """Collect new objects, if there are some: soon, so that there are few of them at a time."""
    young, middle, _ = gc.get_count()
    if young >= _YOUNG:
        gc.collect(int(middle > _SELDOM[1]))
