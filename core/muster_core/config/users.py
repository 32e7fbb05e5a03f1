"""Users and groups in a configuration: access control lists and ``limits``.

QUEUE-1 to QUEUE-6: an access control list names the users who may submit applications to a queue.
It is ``"user1,user2 group1,group2"``; a ``*`` in either part admits all users. Both the
``submitacl`` and the ``adminacl`` of a queue admit, as in YuniKorn: users who may administer a
queue may submit to it.

LIMIT-1 to LIMIT-4, after YuniKorn's design of user and group limits: a limit may not give more to a
name than the queue has itself, nor than the queues above give to that name.
The limits are read, and checked along the tree of queues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

import attrs

from muster_core.config.document import Field
from muster_core.values.configuration import (
    EVERY_NAME,
    GROUP_NAME,
    USER_NAME,
    Acl,
    Configuration,
    LimitEntry,
    Limits,
    QueueConfig,
)
from muster_core.values.resources import shown

_EVERYBODY: Final = "*"
_ACL_NAME: Final = re.compile(r"[^\s,*]+")


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
    users, groups = (_split_names(part, text) for part in (*parts, "")[:2])
    everybody = _EVERYBODY in users or _EVERYBODY in groups
    return Acl(everybody, users - {_EVERYBODY}, groups - {_EVERYBODY})


# QUEUE-1
def _split_names(part: str, text: str) -> frozenset[str]:
    """Parse the users or the groups of an ACL.

    Raises:
        ValueError: If one of the names is invalid.
    """
    if part in ("", _EVERYBODY):
        return frozenset({part} - {""})
    names = part.split(",")
    for name in names:
        if not _ACL_NAME.fullmatch(name):
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
    return _lists_user(
        [acl for queue in path for acl in (queue.submit_acl, queue.admin_acl)], user, groups
    )


def administers(path: Iterable[QueueConfig], user: str | None, groups: Sequence[str]) -> bool:
    """Return whether a user may change the applications of others in a queue.

    Args:
        path: The leaf and its ancestors.
        user: The user, or None.
        groups: The groups of the user; without a user they do not count.
    """
    return _lists_user([queue.admin_acl for queue in path], user, groups)


def _lists_user(found: Iterable[Acl | None], user: str | None, groups: Sequence[str]) -> bool:
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


# LIMIT-1
LIMIT_FIELDS: Final = ("limit", "users", "groups", "maxresources", "maxapplications")

_USERS: Final = "user"
_GROUPS: Final = "group"


@final
@attrs.frozen
class WrittenLimit:
    """An entry of ``limits`` as it was written, with its fields.

    Attributes:
        amounts: The field of each amount of ``maxresources``.
        applications_field: The field of ``maxapplications``, or of the entry if it has none.
    """

    entry: LimitEntry
    field: Field
    amounts: Mapping[str, Field]
    applications_field: Field


@final
class _NamesSoFar:
    """The users, or the groups, that the entries of one queue have named so far."""

    def __init__(self, kind: str, pattern: re.Pattern[str]) -> None:
        self._kind = kind
        self._pattern = pattern
        self._seen: dict[str, Field] = {}

    # LIMIT-2
    def read(self, items: Iterable[Field]) -> tuple[str, ...]:
        """Read one list of names; a name that is refused is left out."""
        names: list[str] = []
        for item in items:
            name = item.text()
            if name is None:
                continue
            problem = self._problem(name)
            if problem is None:
                names.append(name)
                self._seen[name] = item
            else:
                item.refuse(problem)
        return tuple(names)

    def _problem(self, name: str) -> str | None:
        kind, seen = self._kind, self._seen
        if name != EVERY_NAME and not self._pattern.fullmatch(name):
            return (
                f"{shown(name)} is not the name of a {kind}:"
                f" write {EVERY_NAME!r} or {self._pattern.pattern}"
            )
        if name in seen:
            return f"the {kind} {shown(name)} is limited twice here, first in {seen[name].path}"
        if EVERY_NAME in seen:
            return (
                f"the {kind} {shown(name)} comes after the {kind} {EVERY_NAME!r}:"
                " name it in an entry before that one"
            )
        if name == EVERY_NAME and kind == _GROUPS and not seen:
            return f"the group {EVERY_NAME!r} comes first: name a group in an entry before this one"
        return None


# LIMIT-1, LIMIT-2
def read_limits(field: Field | None) -> tuple[WrittenLimit, ...]:
    """Read the ``limits`` of a queue or of a partition."""
    users, groups = _NamesSoFar(_USERS, USER_NAME), _NamesSoFar(_GROUPS, GROUP_NAME)
    return tuple(_read_limit(item, users, groups) for item in (field.items() if field else ()))


def _read_limit(item: Field, users: _NamesSoFar, groups: _NamesSoFar) -> WrittenLimit:
    fields = item.fields(LIMIT_FIELDS)
    if "limit" in fields:
        fields["limit"].text()
    items = {name: fields[name].items() for name in ("users", "groups") if name in fields}
    named_users = users.read(items.get("users", ()))
    named_groups = groups.read(items.get("groups", ()))
    is_entry = item.is_map or item.is_null
    are_lists = all(fields[name].is_list for name in items)
    if is_entry and are_lists and not any(items.values()):
        item.refuse("it names neither users nor groups: whom does it limit?")
    most = fields.get("maxresources")
    amounts, places = most.amounts() if most is not None else ({}, {})
    if most is not None and places and len(amounts) == len(places) and not any(amounts.values()):
        most.refuse("it has no type above 0")
    applications = fields.get("maxapplications")
    count = 0 if applications is None else applications.applications()
    if not count and not places and fields:
        item.refuse("it limits nothing: it has neither maxresources nor maxapplications above 0")
    return WrittenLimit(
        entry=LimitEntry(named_users, named_groups, Limits.of(amounts), count),
        field=item,
        amounts=places,
        applications_field=item if applications is None else applications,
    )


# LIMIT-1
def limits_of_root(
    field: Field | None, of_partition: tuple[WrittenLimit, ...], of_root: tuple[WrittenLimit, ...]
) -> tuple[WrittenLimit, ...]:
    """Return the limits of the root queue, which may be written at the partition or at the root.

    Args:
        field: The ``limits`` of the partition, or None.
        of_partition: Their entries.
        of_root: The entries of those of the root.
    """
    if not of_root or not of_partition:
        return of_root or of_partition
    if field is not None and _entries(of_partition) != _entries(of_root):
        field.refuse(
            "the limits of the partition are those of root, and these two differ: write one of them"
        )
    return of_root


def _entries(limits: Iterable[WrittenLimit]) -> list[LimitEntry]:
    return [limit.entry for limit in limits]
