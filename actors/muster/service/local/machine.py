"""This machine as a node."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
"""The file with the memory that a container may use; it has a number only in a container."""

_MIB: Final = 1024 * 1024


def node_name() -> str:
    """Return the name of this machine."""
    return socket.gethostname() or "localhost"


# LOCAL-11
def capacity() -> dict[str, int]:
    """Return what this machine has: cores that this process may use, and memory in bytes."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        limit = ""
    if limit.isdecimal():
        memory = min(memory, int(limit))
    return {"vcore": cores, "memory": memory // _MIB * _MIB}
