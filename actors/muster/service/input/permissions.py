"""Permissions of submitters: applications, asks and gangs, as the user of the token.

A feed has no roles, so the scheduler itself checks none of this. Permissions are
checked where the events of a request are let in, one after the other: each one meets the state
that those before it have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.access import Principal, Role
from muster_core import events
from muster_core.admission.placement import FORCE_TAG
from muster_core.config.users import administers
from muster_core.values.events import USER_INFO
from muster_core.values.priority import HIGHEST_USER_PRIORITY

if TYPE_CHECKING:
    from muster_core.admission.admission import Admission, GangOwner
    from muster_core.coordinator.coordinator import CoordinatorMachine


_NEEDS_ADMIN: Final = (
    "op: this needs the role admin; a submitter may add and remove applications, asks and gangs, "
    "and report the end of their work"
)

_NEEDS_ADMIN_FOR_OBJECTS: Final = (
    "this needs the role admin; a submitter may apply and delete PodGroups only"
)


def user_of(who: Principal) -> str:
    """Return the user as whom a principal acts."""
    return who.user or who.name


# INPUT-10, INPUT-20
def as_user(event: events.Event | str, who: Principal) -> events.Event | str:
    """Return an event as a user may send it, or the reason why not.

    Applications and gangs of submitters belong to the user of the token, applications in the groups
    of the token.
    """
    if who.role >= Role.ADMIN:
        return event
    match event:
        case events.AddApp():
            return _app_of_user(event, who)
        case events.AddGang():
            return _gang_of_user(event, who, "user")
        case events.Apply():
            made: list[events.Manifest[events.AppliedObject]] = []
            for one in event.objects:
                content: events.AppliedObject | str = one.content
                if isinstance(content, events.AddGang):
                    field = f"{one.field}.metadata.annotations.{USER_INFO}"
                    content = _gang_of_user(content, who, field)
                if isinstance(content, str):
                    return content
                made.append(events.Manifest(content, one.field))
            return events.Apply(tuple(made))
        case _:
            return event


def _app_of_user(event: events.AddApp, who: Principal) -> events.AddApp | str:
    user, foreign = user_of(who), [name for name in event.groups if name not in who.groups]
    if event.user not in {None, user}:
        return f"user: {event.user!r}: this token adds applications as {user!r}"
    if foreign:
        return f"groups: {foreign[0]!r}: {user!r} is not in this group"
    return attrs.evolve(event, user=user, groups=event.groups or who.groups)


def _gang_of_user(event: events.AddGang, who: Principal, field: str) -> events.AddGang | str:
    user = user_of(who)
    if event.says.user not in {None, user}:
        return f"{field}: {event.says.user!r}: this token adds gangs as {user!r}"
    return attrs.evolve(event, says=attrs.evolve(event.says, user=user))


def guard_of(who: Principal, users: frozenset[str]) -> SubmitterGuard | None:
    """Return the guard of a principal's events; None if all may be let in.

    Args:
        who: Who sends them.
        users: All users whom a token names.
    """
    if who.role >= Role.ADMIN:
        return None
    return SubmitterGuard(user_of(who), who.groups, users)


@final
class SubmitterGuard:
    """Lets in what concerns applications that a user owns or administers, and gangs of the user.

    Args:
        user: The user.
        groups: The groups of the user.
        users: All users whom a token names.
    """

    def __init__(self, user: str, groups: tuple[str, ...], users: frozenset[str]) -> None:
        self._user = user
        self._groups = groups
        self._users = users

    # INPUT-21
    def must_hear_first(self, event: events.Event, machine: CoordinatorMachine, /) -> bool:
        """Return whether a gang may only seem to be another user's.

        What has ended leaves its gang when its application reports.
        """
        is_about_gangs = isinstance(
            event, (events.AddGang, events.RemoveGang, events.Apply, events.Delete)
        ) or (isinstance(event, events.AddAsk) and event.gang is not None)
        return (
            is_about_gangs
            and machine.admission.unreported.uncertain
            and self.refusal(event, machine) is not None
        )

    # INPUT-11
    def refusal(self, event: events.Event, machine: CoordinatorMachine, /) -> str | None:
        """Return why an event is not let in, or None."""
        admission = machine.admission
        match event:
            case events.AddApp():
                return _refusal_of_app(event)
            case events.AddAsk():
                return self._refusal_of_ask(event, admission)
            case events.RemoveApp() | events.RemoveAsk() | events.Release() | events.BindFailed():
                return self._refusal_at(event.app, admission)
            case events.AddGang():
                return self._refusal_of_gang(event, admission, "gang", "groups")
            case events.RemoveGang(gang):
                return self._refusal_to_change(gang, admission, "gang")
            case events.Apply() | events.Delete():
                return next(self._refusals_of_objects(event, admission), None)
            case _:  # What is about the cluster, of whatever kind
                return _NEEDS_ADMIN

    # Applications

    def _refusal_at(self, app: str, admission: Admission) -> str | None:
        """Return why the user may not change an application."""
        registry = admission.registry
        key = registry.locate(app)
        if key is None:
            return None  # the scheduler says that it is unknown
        owner = registry.user_of(key)
        if owner == self._user or self._administers(key, admission):
            return None
        return (
            f"app: {app!r} {_belongs_to(owner)}, and no adminacl on the path of its queue names "
            f"{self._user!r}"
        )

    def _administers(self, key: int, admission: Admission) -> bool:
        path = (entry.config for entry in admission.registry.leaf_of(key).upward())
        return administers(path, self._user, self._groups)

    # Asks

    def _refusal_of_ask(self, event: events.AddAsk, admission: Admission) -> str | None:
        refusal = self._refusal_at(event.app, admission)
        key = admission.registry.locate(event.app)
        if key is None or refusal is not None:
            return refusal
        owner = admission.registry.user_of(key)
        # INPUT-26
        if event.work is not None and event.work.command is not None and owner != self._user:
            return (
                f"command: what application {event.app!r} runs may run as its user, and it "
                f"{_belongs_to(owner)}: this needs the role admin"
            )
        refusal = self._refusal_of_priority(event, key, admission)
        if event.gang is None or refusal is not None:
            return refusal
        # INPUT-21: its administrators add asks to an application as its user does.
        users = {self._user, owner}
        refusal = self._refusal_of_names("gang", (event.gang,), admission, users, key)
        return refusal or self._refusal_of_names(
            "annotations: groups", event.says.groups or (), admission, users, key
        )

    # INPUT-19
    def _refusal_of_priority(
        self, event: events.AddAsk, key: int, admission: Admission
    ) -> str | None:
        """Return why an ask may not have its priority."""
        name, number = event.priority_class, event.priority
        value = None if name is None else admission.registry.classes.value_of(name)
        priority = max((one for one in (number, value) if one is not None), default=0)
        queue = admission.registry.leaf_of(key).config
        limit = queue.settings.priority_limit
        highest = f"{HIGHEST_USER_PRIORITY}, the highest that a submitter may name"
        if limit is not None and priority > limit:
            highest = f"{limit}, the priority.limit"
        elif (
            limit is not None and (value is None or value <= HIGHEST_USER_PRIORITY)
        ) or priority <= HIGHEST_USER_PRIORITY:
            return None
        if self._administers(key, admission):
            return None
        subject = f"priority: {priority}" if number is not None else "priority: 0, the default,"
        if value is not None:
            subject = f"priority_class: {name!r} is {value}, which"
        return (
            f"{subject} is above {highest} in queue {queue.path!r}: this needs the role admin, or an "
            f"adminacl of {queue.path} that names {self._user!r}"
        )

    # Gangs

    # INPUT-22
    def _refusal_of_gang(
        self, event: events.AddGang, admission: Admission, name: str, groups: str
    ) -> str | None:
        """Return why the user may not define a gang.

        Args:
            event: The event.
            admission: Knows the gangs.
            name: The field that has its name, for messages.
            groups: The field that has its group, likewise.
        """
        return self._refusal_to_change(event.gang, admission, name) or self._refusal_of_names(
            groups, event.says.groups or (), admission, {self._user}
        )

    # INPUT-22
    def _refusal_to_change(self, gang: str, admission: Admission, field: str) -> str | None:
        """Return why the user may not define a gang, change its definition, or remove it."""
        refusal = self._refusal_of_names(field, (gang,), admission, {self._user})
        if refusal is not None or _namespace(gang) == self._user:
            return refusal
        owner, known = admission.owner_of_gang(gang), admission.gangs.gangs.get(gang)
        is_own = owner is not None and owner.gang == gang
        if is_own or known is None or known.definition is None:
            return None
        return f"{field}: {gang!r} is defined, and belongs to nobody: this needs the role admin"

    # INPUT-22
    def _refusals_of_objects(
        self, event: events.Apply | events.Delete, admission: Admission
    ) -> Iterator[str]:
        """Yield why the user may not apply or delete objects."""
        for one in event.objects:
            content, place = one.content, f"{one.field}.metadata"
            refusal: str | None
            if isinstance(content, events.AddGang):
                groups = f"{place}.annotations: groups"
                refusal = self._refusal_of_gang(content, admission, f"{place}.name", groups)
            elif (
                isinstance(content, events.ObjectName)
                and content.kind is events.ObjectKind.POD_GROUP
            ):
                refusal = self._refusal_to_change(content.name, admission, f"{place}.name")
            else:
                refusal = f"{one.field}.kind: {_NEEDS_ADMIN_FOR_OBJECTS}"
            if refusal is not None:
                yield refusal

    # INPUT-21, INPUT-23, INPUT-24
    def _refusal_of_names(
        self,
        field: str,
        gangs: Iterable[str],
        admission: Admission,
        users: Set[str | None],
        app: int | None = None,
    ) -> str | None:
        """Return why one of some gangs may not be named, or None.

        Args:
            field: The field that names them, for the message.
            gangs: Their full names.
            admission: Knows the gangs.
            users: The users whose gangs may be named.
            app: The key of an application whose gangs may be named, or None.
        """
        for gang in gangs:
            namespace = _namespace(gang)
            is_taken = namespace in self._users
            if is_taken and namespace not in users:
                return f"{field}: {gang!r} is in the namespace of the user {namespace!r}"
            owner = admission.owner_of_gang(gang)
            if owner is None or _is_one_of(owner, users, app):
                continue
            if owner.gang == gang:
                return f"{field}: {gang!r} {_belongs_to(owner.user)}"
            if not is_taken:
                tied = f"is in a group with {owner.gang!r}, which {_belongs_to(owner.user)}"
                return f"{field}: {gang!r} {tied}"
        return None


# INPUT-25
def _refusal_of_app(event: events.AddApp) -> str | None:
    """Return why an application may not be added; the scheduler itself looks at the ACLs."""
    if event.tags.get(FORCE_TAG) == "true":
        return f"tags.{FORCE_TAG}: 'true': this needs the role admin: it leads past the ACLs"
    return None


def _is_one_of(owner: GangOwner, users: Set[str | None], app: int | None) -> bool:
    """Return whether a gang is that of one of some users, or of an application."""
    if owner.user is not None:
        return owner.user in users
    return owner.app is not None and owner.app == app


def _namespace(gang: str) -> str:
    return gang.partition("/")[0]


def _belongs_to(user: str | None) -> str:
    return "belongs to nobody" if user is None else f"belongs to {user!r}"
