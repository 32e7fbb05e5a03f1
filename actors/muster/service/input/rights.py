"""What a submitter may do: applications and asks, as the user of the token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never, final

import attrs

from muster.service.access.who import Role
from muster_core.config.acl import administers
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    BindFailed,
    Configure,
    Delete,
    Event,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)

if TYPE_CHECKING:
    from muster.service.access.who import Who
    from muster_core.coordinator.coordinator import CoordinatorMachine

_NEEDS_ADMIN: Final = (
    "op: this needs the role admin; a submitter may add and remove applications and asks, "
    "and report the end of their work"
)


def user_of(who: Who) -> str:
    """Return the user as whom somebody acts."""
    return who.user or who.name


# INPUT-10
def as_user(event: Event | str, who: Who) -> Event | str:
    """Return an event as a user may send it, or the reason why not.

    Applications of submitters belong to the user of the token, in the groups of the token.
    """
    if who.role >= Role.ADMIN or not isinstance(event, AddApp):
        return event
    user, foreign = user_of(who), [name for name in event.groups if name not in who.groups]
    if event.user not in {None, user}:
        return f"user: {event.user!r}: this token adds applications as {user!r}"
    if foreign:
        return f"groups: {foreign[0]!r}: {user!r} is not in this group"
    return attrs.evolve(event, user=user, groups=event.groups or who.groups)


def guard_of(who: Who) -> SubmitterGuard | None:
    """Return who judges the events of somebody as they are let in; None if all may."""
    if who.role >= Role.ADMIN:
        return None
    return SubmitterGuard(user_of(who), who.groups)


@final
class SubmitterGuard:
    """Lets in what concerns applications that a user owns or administers.

    It is for the events of one request.

    Args:
        user: The user.
        groups: The groups of the user.
    """

    def __init__(self, user: str, groups: tuple[str, ...]) -> None:
        self._user = user
        self._groups = groups
        #: The names of applications that earlier events of the request add.
        self._new: set[str] = set()

    def must_hear_first(self, event: Event, machine: CoordinatorMachine, /) -> bool:
        """Return whether it is an application of which only its owner knows the user yet."""
        name = _app_of(event)
        key = None if name is None else machine.registry.locate(name)
        return key is not None and key not in machine.view.apps and name not in self._new

    # INPUT-11
    def refusal(self, event: Event, machine: CoordinatorMachine, /) -> str | None:
        """Return why an event is not let in, or None."""
        registry = machine.registry
        if isinstance(event, AddApp):
            if not registry.has_app(event.app):
                self._new.add(event.app)
            return None  # the scheduler looks at the ACLs
        name = _app_of(event)
        if name is None:
            return _NEEDS_ADMIN
        key = registry.locate(name)
        if key is None or key not in machine.view.apps:
            return None  # it is unknown, or it is new and belongs to this user
        owner, _ = machine.view.apps[key].identity.user
        path = [entry.config for entry in registry.leaf_of(key).upward()]
        if owner == self._user or administers(path, self._user, self._groups):
            return None
        whose = "nobody" if owner is None else repr(owner)
        return (
            f"app: {name!r} belongs to {whose}, and no adminacl on the path of its queue names "
            f"{self._user!r}"
        )


def _app_of(event: Event) -> str | None:
    """Return the application that an event of a submitter concerns; None for other events."""
    match event:
        case RemoveApp() | AddAsk() | RemoveAsk() | Release() | BindFailed():
            return event.app
        case (
            AddApp()
            | Configure()
            | AddNode()
            | UpdateNode()
            | RemoveNode()
            | AddGang()
            | RemoveGang()
            | AddPriorityClass()
            | Apply()
            | Delete()
            | FailBind()
        ):
            return None
        case _:
            assert_never(event)
