"""Access: who may submit an application to a queue (QUEUE-1 to QUEUE-6).

An ACL is ``"user1,user2 group1,group2"``; a ``*`` on either side admits everybody.
A queue's ``submitacl`` and ``adminacl`` both admit, as in YuniKorn: who may
administer a queue may submit to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from muster_core.values.configuration import Acl
from muster_core.values.quantities import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_core.values.configuration import Configuration, QueueConfig

_EVERYBODY: Final = "*"
_NAME: Final = re.compile(r"[^\s,*]+")


def parse_acl(text: str) -> Acl | None:
    """Read an ACL; None for an empty one, which counts as not given.

    Args:
        text: The users and the groups, each joined by commas. With a blank at its
            beginning it has groups alone.

    Raises:
        ValueError: If it has more than two parts, or an empty name, or a ``*`` that
            does not stand alone.
    """
    parts = text.split()
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


def _names(part: str, text: str) -> frozenset[str]:
    """Read the users or the groups of an ACL.

    Raises:
        ValueError: If a name among them is none.
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


def admits(
    path: Sequence[QueueConfig], user: str | None, groups: Sequence[str], *, any_acl: bool
) -> bool:
    """Say whether an application is admitted to a queue.

    Args:
        path: The queues from the root to the leaf; those that do not exist yet are left out.
        user: The user who submits it, or None.
        groups: The groups of the user; without a user they do not count.
        any_acl: Whether any queue of the configuration has an ACL, see :func:`has_acl`.
    """
    if not any_acl:
        return True
    acls = [acl for queue in path for acl in (queue.submit_acl, queue.admin_acl) if acl is not None]
    if any(acl.everybody for acl in acls):
        return True
    return bool(user) and any(
        user in acl.users or not acl.groups.isdisjoint(groups) for acl in acls
    )


def has_acl(configuration: Configuration) -> bool:
    """Say whether any queue of a configuration has an ACL; if none has, everybody is admitted."""
    queues = [configuration.root]
    for queue in queues:
        if queue.submit_acl is not None or queue.admin_acl is not None:
            return True
        queues.extend(queue.children)
    return False
