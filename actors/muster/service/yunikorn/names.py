"""Names in paths and queries: how they are decoded, and which can never be one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, unquote_plus

from muster.service.yunikorn.wrong import Wrong
from muster_core.config.names import ROOT, canonical_path
from muster_core.values.configuration.user_limits import EVERY_NAME, GROUP_NAME, USER_NAME

if TYPE_CHECKING:
    from muster.service.yunikorn.objects.forms import Seen
    from muster_core.admission.queue_tree import QueueEntry

_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")


# REST-2
def of_path(segment: str) -> str:
    """Return a name in a path as the router gives it: decoded once."""
    return unquote(segment)


# REST-2
def twice(name: str) -> str:
    """Return a name that was decoded once, decoded once more.

    Raises:
        Wrong: 400 if there is a percent sign without two digits.
    """
    if _ESCAPE.search(name):
        msg = f"invalid URL escape in {name[:100]!r}"
        raise Wrong(400, msg)
    return unquote_plus(name)


def check_partition(seen: Seen, name: str) -> None:
    """Check the name of the partition.

    Raises:
        Wrong: 404 if it is another one.
    """
    if name != seen.partition:
        raise Wrong(404, "Partition not found")


def path_of_queue(written: str) -> str:
    """Return the path of a queue, in lower case, from a name that was decoded once.

    Raises:
        Wrong: 400 if no queue can have it; 404 if it does not begin with the root.
    """
    name = twice(written)
    try:
        path = canonical_path(name)
    except ValueError as error:
        raise Wrong(400, str(error)) from None
    if name.partition(".")[0].lower() != ROOT:
        raise Wrong(404, "Queue not found")
    return path


def queue_of(seen: Seen, written: str) -> QueueEntry:
    """Return a queue.

    Raises:
        Wrong: As :func:`path_of_queue`, and 404 if it is unknown.
    """
    entry = seen.machine.registry.queues.get(path_of_queue(written))
    if entry is None:
        raise Wrong(404, "Queue not found")
    return entry


# REST-2
def check_user(name: str) -> None:
    """Check the name of a user whom nobody knows.

    Raises:
        Wrong: 400 if no user can have it.
    """
    if USER_NAME.fullmatch(name) is None:
        raise Wrong(400, "Invalid user name")


# REST-2
def check_group(name: str) -> None:
    """Check the name of a group that nobody knows; ``*`` is the one of all others.

    Raises:
        Wrong: 400 if no group can have it.
    """
    if name != EVERY_NAME and GROUP_NAME.fullmatch(name) is None:
        raise Wrong(400, "Invalid group name")
