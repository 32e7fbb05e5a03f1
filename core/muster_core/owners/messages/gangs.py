"""Messages between the owners of gangs and the coordinator; see :mod:`muster_core.owners.messages`.

A gang is told of its members by the coordinator alone, which hears of them from their
applications: so they come in one order, whoever reports first.
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
    """Which ask is a member.

    Attributes:
        key: The number of its application.
        app: The name of its application.
        ask: Its name.
    """

    key: int
    app: str = attrs.field(eq=False)
    ask: str


@final
@record
class DefineGang:
    """The gang is defined, or its definition changes.

    Attributes:
        definition: What it is from now on.
        creation: The position of the event that defined it.
    """

    definition: GangDefinition
    creation: int


@final
@record
class UndefineGang:
    """The gang is defined no longer."""


@final
@record
class JoinGang:
    """Members come.

    Attributes:
        members: The members.
        place: Where they are: pending, parked or bound.
        order: Where it is said, among all of the batch, that they satisfy the gang.
    """

    members: tuple[MemberKey, ...]
    place: AskPlace
    order: tuple[int, int, int]


@final
@record
class MoveMember:
    """A member is in another place now; see :class:`Moved`."""

    member: MemberKey
    place: AskPlace | None
    lost: bool = False


@final
@record
class MarkGang:
    """The gang has timed out; ``order`` is where that is said among all of the batch."""

    order: tuple[int, int, int]


@final
@record
class CommitGang:
    """What the rounds decided about the gang, as it stands in the end.

    Attributes:
        moves: The members that are in another place now, those that wait in the order in
            which they began to.
        lost: All of its bound members were taken from it, before its group was bound again.
        satisfied: Its group was bound.
        cycle_valid: Its schedule cycle is valid.
        since_us: When the present wait began, in microseconds, or None.
    """

    moves: tuple[tuple[MemberKey, AskPlace], ...]
    satisfied: bool
    cycle_valid: bool
    since_us: int | None
    lost: bool = False


ToGang = DefineGang | UndefineGang | JoinGang | MoveMember | MarkGang | CommitGang | Close
"""Everything that a gang is told."""


@final
@record
class GangReport:
    """What an epoch made of a gang.

    Attributes:
        key: Which gang.
        name: Its full name.
        epoch: The epoch.
        said: Decisions for the log.
        definition: What defines it, or None.
        creation: The position of the event that defined it, or None.
        state: Its state.
        cycle_valid: Its schedule cycle is valid, as far as it was told.
        since_us: When the present wait began, in microseconds, or None.
        gone: It has ceased to exist.
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
