"""Priorities of qualities of service: what ``sacctmgr show qos`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.feeds import FeedError
from muster.importing.slurm.cluster.tables import rows_of, text_of

_RIGHT: Final = "sacctmgr --parsable2 show qos"
_LARGEST: Final = 2**31 - 1


def read_qos(file: str) -> Mapping[str, int]:
    """Return the priority of each quality of service, by its name.

    Raises:
        FeedError: If the file cannot be used.
    """
    found: dict[str, int] = {}
    for number, row in rows_of(text_of(file), file, ("name", "priority"), _RIGHT):
        written = row["priority"].strip()
        if not (written.isdecimal() and written.isascii() and len(written) < 20):
            msg = f"Priority: {written!r} is not a whole number"
            raise FeedError(file, msg, number)
        found[row["name"].strip()] = min(int(written), _LARGEST)
    return found
