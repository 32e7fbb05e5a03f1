"""Names of queues: valid names, and the canonical form of paths.

CONFIG-17, CONFIG-19: the case of queue names does not matter. Inside Muster they are in lower
case, and a path starts with ``root``.
"""

from __future__ import annotations

import re
from typing import Final

from muster_core.values.quantities import shown

ROOT: Final = "root"
"""The name and the path of the queue above all others."""

# CONFIG-22
DEEPEST: Final = 100
"""How many names a path may have; each one is a queue, which is a task."""

# CONFIG-17
_QUEUE_NAME: Final = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")


# CONFIG-19
def check_queue_name(name: str) -> str:
    """Return a queue's own name in lower case.

    Raises:
        ValueError: If the name is invalid.
    """
    if not _QUEUE_NAME.fullmatch(name):
        msg = f"{shown(name)} is not a name of a queue: 1 to 64 of a-z A-Z 0-9 _ : # / @ -"
        raise ValueError(msg)
    return name.lower()


# CONFIG-21
def canonical_path(path: str) -> str:
    """Return the path of a queue from ``root``, in lower case.

    A path that does not start with ``root`` is relative to the root.

    Args:
        path: The path as a user wrote it, such as ``Root.a.b`` or ``a.b``.

    Raises:
        ValueError: If a name on the path is invalid, or there are more than 100 names.
    """
    levels = path.count(".") + 1
    if levels > DEEPEST:
        msg = f"{shown(path)} has {levels} levels; at most {DEEPEST} are possible"
        raise ValueError(msg)
    names = [check_queue_name(name) for name in path.split(".")]
    return ".".join(names if names[0] == ROOT else [ROOT, *names])
