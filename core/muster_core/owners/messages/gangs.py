"""Messages between the owners of gangs and the coordinator; see :mod:`muster_core.owners.messages`.

A gang learns of its members only from the coordinator, which learns of them from their
applications. So the order of these messages does not depend on which application reports first.
"""

from __future__ import annotations

from typing import final

import attrs

from muster_core.gangs.definition import GangDefinition
from muster_core.gangs.states import GangState
from muster_core.owners.messages.from_applications import Say
from muster_core.owners.messages.to_applications import Close
from muster_core.values.records import record
from muster_core.values.snapshots import AskPlace


@final
@record
class MemberKey:
    """The key of a member of a gang.

    Attributes:
        key: The key of its application.
        app: The name of its application.
        ask: The name of the ask.
    """

    key: int
    app: str = attrs.field(eq=False)
    ask: str


@final
@record
class DefineGang:
    """Define the gang, or change its definition.

    Attributes:
        definition: The new definition.
        creation: The position of the event that defined it.
    """

    definition: GangDefinition
    creation: int


@final
@record
class UndefineGang:
    """Remove the definition of the gang."""


@final
@record
class JoinGang:
    """Add members to the gang.

    Attributes:
        members: The members.
        place: Their place: pending, parked or bound.
        order: The place in the log of the decision that they satisfy the gang.
    """

    members: tuple[MemberKey, ...]
    place: AskPlace
    order: tuple[int, int, int]


@final
@record
class MoveMember:
    """Change the place of a member; see :class:`Moved`."""

    member: MemberKey
    place: AskPlace | None
    lost: bool = False


@final
@record
class MarkGang:
    """Mark the gang as timed out; ``order`` is the place of this decision in the log."""

    order: tuple[int, int, int]


@final
@record
class CommitGang:
    """The result of the rounds for the gang.

    Attributes:
        moves: The members with a new place; waiting ones in the order in which they began to
            wait.
        lost: Whether it was unsatisfied again, or all binds of its members failed, before its
            group was bound again.
        satisfied: Whether its group was bound.
        cycle_valid: Whether its cycle is valid.
        since_us: When its present wait began, in microseconds, or None.
    """

    moves: tuple[tuple[MemberKey, AskPlace], ...]
    satisfied: bool
    cycle_valid: bool
    since_us: int | None
    lost: bool = False


@final
@record
class GangFacts:
    """What a gang owns and cannot compute, between two batches.

    Attributes:
        key: Its key.
        name: Its full name.
        state: Its state.
        definition: Its definition, or None.
        creation: The position of the event that defined it, or None.
        members: Its members with their places; waiting ones in the order of their waits.
        cycle_valid: Whether its cycle is valid, according to the last commit.
        since_us: When its present wait began, in microseconds, or None.
    """

    key: int
    name: str
    state: GangState
    definition: GangDefinition | None
    creation: int | None
    members: tuple[tuple[MemberKey, AskPlace], ...]
    cycle_valid: bool
    since_us: int | None


@final
@record
class LoadGang:
    """Be as these facts say; the first message to a gang that is loaded."""

    facts: GangFacts


ToGang = (
    DefineGang | UndefineGang | JoinGang | MoveMember | MarkGang | LoadGang | CommitGang | Close
)
"""All messages to a gang."""


@final
@record
class GangReport:
    """The state of a gang after an epoch.

    Attributes:
        key: Its key.
        name: Its full name.
        epoch: The epoch.
        said: The decisions for the log.
        definition: Its definition, or None.
        creation: The position of the event that defined it, or None.
        state: Its state.
        cycle_valid: Whether its cycle is valid, according to the last commit.
        since_us: When its present wait began, in microseconds, or None.
        gone: Whether the gang no longer exists.
    """

    key: int
    name: str
    epoch: int
    said: tuple[Say, ...]
    definition: GangDefinition | None
    creation: int | None
    state: GangState
    cycle_valid: bool
    since_us: int | None
    gone: bool
