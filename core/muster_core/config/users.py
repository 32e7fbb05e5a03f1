"""Users and groups in a configuration: access control lists and ``limits``.

QUEUE-1 to QUEUE-6: an access control list names the users who may submit applications to a queue.
It is ``"user1,user2 group1,group2"``; a ``*`` in either part admits all users. Both the
``submitacl`` and the ``adminacl`` of a queue admit, as in YuniKorn: users who may administer a
queue may submit to it.

LIMIT-1 to LIMIT-4, after YuniKorn's design of user and group limits: what a limit gives to a name
may not be more than what the queue has itself, nor than what the queues above give to that name.
The limits are read, and checked along the tree of queues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, final

import attrs

from muster_core.config.document import Field, Listing, Table
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
from muster_core.values.resources import format_quantity, shown

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
    """Return whether a user may change what others have submitted to a queue.

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


class LimitAmounts(Protocol):
    """A map of quantities."""

    @property
    def amounts(self) -> Mapping[str, int]:
        """The amounts in base units."""
        ...


class QueueWithLimits(Protocol):
    """A queue with its quotas, its limits and its children."""

    @property
    def path(self) -> str:
        """Its path."""
        ...

    @property
    def max(self) -> LimitAmounts:
        """Its ``max``."""
        ...

    @property
    def max_applications(self) -> int:
        """Its ``maxapplications``; 0 means no limit."""
        ...

    @property
    def limits(self) -> Sequence[WrittenLimit]:
        """Its ``limits``."""
        ...

    @property
    def children(self) -> Sequence[QueueWithLimits]:
        """Its children."""
        ...


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
    """Read the ``limits`` of a queue or of a partition.

    Args:
        field: The list, or None if it is missing.
    """
    users, groups = _NamesSoFar(_USERS, USER_NAME), _NamesSoFar(_GROUPS, GROUP_NAME)
    return tuple(_read_limit(item, users, groups) for item in (field.items() if field else ()))


def _read_limit(item: Field, users: _NamesSoFar, groups: _NamesSoFar) -> WrittenLimit:
    fields = item.fields(LIMIT_FIELDS)
    if "limit" in fields:
        fields["limit"].text()
    items = {name: fields[name].items() for name in ("users", "groups") if name in fields}
    named_users = users.read(items.get("users", ()))
    named_groups = groups.read(items.get("groups", ()))
    is_entry = isinstance(item.node, Table) or item.is_null
    are_lists = all(isinstance(fields[name].node, Listing) for name in items)
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
        of_partition: What they say.
        of_root: What those of the root say.
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


# LIMIT-4
@final
@attrs.frozen
class _LowestAbove:
    """The least that the queues above give to a name.

    Attributes:
        amounts: The least of each type, with the path of the queue that gives it.
        applications: The least number of applications, with the path; None without a limit.
    """

    amounts: Mapping[str, tuple[int, str]]
    applications: tuple[int, str] | None

    def lowered(self, entry: LimitEntry, path: str) -> _LowestAbove:
        """Return what is left where a queue limits the same name."""
        amounts = dict(self.amounts)
        for kind, amount in entry.max.amounts:
            amounts[kind] = min(amounts.get(kind, (amount, path)), (amount, path))
        count, applications = entry.max_applications, self.applications
        if count and (applications is None or count < applications[0]):
            applications = count, path
        return _LowestAbove(amounts, applications)


_NO_LIMITS: Final = _LowestAbove({}, None)
_LimitsAbove = Mapping[str, _LowestAbove]


def check_limits(root: QueueWithLimits) -> None:
    """Report the limits that are over those of their own queue, or of the queues above it."""
    _check_amounts(root, {}, {})


def _check_amounts(queue: QueueWithLimits, users: _LimitsAbove, groups: _LimitsAbove) -> None:
    for limit in queue.limits:
        _check_queue(limit, queue)
        for name in limit.entry.users:
            _check_above(limit, _USERS, name, users)
        for name in limit.entry.groups:
            _check_above(limit, _GROUPS, name, groups)
    if queue.limits:
        entries = _entries(queue.limits)
        users = _lowered(users, ((entry.users, entry) for entry in entries), queue.path)
        groups = _lowered(groups, ((entry.groups, entry) for entry in entries), queue.path)
    for child in queue.children:
        _check_amounts(child, users, groups)


def _lowered(
    above: _LimitsAbove, named: Iterable[tuple[Sequence[str], LimitEntry]], path: str
) -> dict[str, _LowestAbove]:
    below = dict(above)
    for names, entry in named:
        for name in names:
            below[name] = above.get(name, _NO_LIMITS).lowered(entry, path)
    return below


# LIMIT-3
def _check_queue(limit: WrittenLimit, queue: QueueWithLimits) -> None:
    """Report what a limit gives over the ``max`` and ``maxapplications`` of its own queue."""
    entry = limit.entry
    for kind, amount in entry.max.amounts:
        most = queue.max.amounts.get(kind)
        if most is not None and amount > most:
            limit.amounts[kind].refuse(
                f"{format_quantity(kind, amount)} of {kind} is over the max of {queue.path},"
                f" {format_quantity(kind, most)}"
            )
    if queue.max_applications and entry.max_applications > queue.max_applications:
        limit.applications_field.refuse(
            f"maxapplications {entry.max_applications} is over that of {queue.path},"
            f" {queue.max_applications}"
        )


# LIMIT-4
def _check_above(limit: WrittenLimit, kind: str, name: str, above: _LimitsAbove) -> None:
    """Report what a limit gives to a name over what the queues above give to it."""
    least = above.get(name) or above.get(EVERY_NAME)
    if least is None:
        return
    whom = f"every {kind}" if name not in above else f"the {kind} {shown(name)}"
    entry = limit.entry
    for resource, amount in entry.max.amounts:
        most, path = least.amounts.get(resource, (amount, ""))
        if amount > most:
            limit.amounts[resource].refuse(
                f"{format_quantity(resource, amount)} of {resource} is over the"
                f" {format_quantity(resource, most)} that {path} gives to {whom}"
            )
    if least.applications is None:
        return
    count, path = least.applications
    own = entry.max_applications
    if not own or own > count:
        what = f"maxapplications {own} is" if own else "maxapplications is not limited, which is"
        limit.applications_field.refuse(f"{what} over the {count} that {path} gives to {whom}")
