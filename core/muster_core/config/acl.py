"""Access control lists: the users who may submit applications to a queue (QUEUE-1 to QUEUE-6).

An ACL is ``"user1,user2 group1,group2"``; a ``*`` in either part admits all users. Both the
``submitacl`` and the ``adminacl`` of a queue admit, as in YuniKorn: users who may administer a
queue may submit to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from muster_core.values.configuration.partition import Acl
from muster_core.values.quantities import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster_core.values.configuration.partition import Configuration, QueueConfig

_EVERYBODY: Final = "*"
_NAME: Final = re.compile(r"[^\s,*]+")


# QUEUE-1
def parse_acl(text: str) -> Acl | None:
    """Parse an ACL; return None for an empty one, which counts as missing.

    Args:
        text: The users, a blank and the groups; commas separate names. A text that begins
            with a blank has only groups.

    Raises:
        ValueError: If it has more than two parts, an empty name, or a ``*`` among other
            characters of a part.
    """
    parts = text.split()
    # QUEUE-2
    if not parts:
        return None
    if text[0].isspace():
        parts.insert(0, "")
    if len(parts) > 2:
        msg = f"{shown(text)} is not an ACL: write 'user1,user2 group1,group2' with one blank"
        raise ValueError(msg)
    users, groups = (_names(part, text) for part in (*parts, "")[:2])
    everybody = _EVERYBODY in users or _EVERYBODY in groups
    return Acl(everybody, users - {_EVERYBODY}, groups - {_EVERYBODY})


# QUEUE-1
def _names(part: str, text: str) -> frozenset[str]:
    """Parse the users or the groups of an ACL.

    Raises:
        ValueError: If one of the names is invalid.
    """
    if part in ("", _EVERYBODY):
        return frozenset({part} - {""})
    names = part.split(",")
    for name in names:
        if not _NAME.fullmatch(name):
            what = "an empty name" if not name else f"the name {shown(name)}"
            msg = f"{shown(text)} is not an ACL: it has {what} ('*' may only stand alone)"
            raise ValueError(msg)
    return frozenset(names)


# QUEUE-4
def admits(
    path: Sequence[QueueConfig], user: str | None, groups: Sequence[str], *, any_acl: bool
) -> bool:
    """Return whether a user may submit an application to a queue.

    Args:
        path: The leaf and its ancestors, without queues that do not exist yet.
        user: The user who submits it, or None.
        groups: The groups of the user; without a user they do not count.
        any_acl: Whether any queue of the configuration has an ACL, see :func:`has_acl`.
    """
    # QUEUE-3
    if not any_acl:
        return True
    return _names_one(
        [acl for queue in path for acl in (queue.submit_acl, queue.admin_acl)], user, groups
    )


def administers(path: Iterable[QueueConfig], user: str | None, groups: Sequence[str]) -> bool:
    """Return whether a user may change what others have submitted to a queue.

    Args:
        path: The leaf and its ancestors.
        user: The user, or None.
        groups: The groups of the user; without a user they do not count.
    """
    return _names_one([queue.admin_acl for queue in path], user, groups)


def _names_one(found: Iterable[Acl | None], user: str | None, groups: Sequence[str]) -> bool:
    """Return whether one of some ACLs names a user."""
    acls = [acl for acl in found if acl is not None]
    if any(acl.everybody for acl in acls):
        return True
    # QUEUE-5
    return bool(user) and any(
        user in acl.users or not acl.groups.isdisjoint(groups) for acl in acls
    )


# QUEUE-3
def has_acl(configuration: Configuration) -> bool:
    """Return whether any queue of a configuration has an ACL; without ACLs, all are admitted."""
    queues = [configuration.root]
    for queue in queues:
        if queue.submit_acl is not None or queue.admin_acl is not None:
            return True
        queues.extend(queue.children)
    return False
