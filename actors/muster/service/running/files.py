"""How many files and sockets the process may have open."""

from __future__ import annotations

import resource
from typing import Final

_OTHERS: Final = 200
"""How many files the service has open besides its connections, at most."""


def make_room(connections: int) -> str | None:
    """Allow as many open files as connections need, as far as the system lets us.

    Args:
        connections: The most open connections.

    Returns:
        What to warn of if there is no room for all of them, or None.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHERS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        allowed = soft
    if allowed >= needed:
        return None
    return (
        f"the process may open {allowed} files, too few for {connections} connections: "
        f"raise the limit (ulimit -n, LimitNOFILE) to {needed}"
    )
