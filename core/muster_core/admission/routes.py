"""The values that admission passes on: messages to owners, their unreported effects, and facts.

A route is the message to an owner, or the start of one, to which the admission of an event leads.

When several objects are admitted as a whole, the steps that undo them are kept here, too.

The facts are those that admission owns and cannot compute: the configuration, names, priority
classes and annotations of gangs.
"""

from __future__ import annotations

from typing import final

from muster_core.gangs import GangFields
from muster_core.owners.app_messages import (
    AppRequest,
    EnterState,
    LoadApp,
)
from muster_core.owners.asks import AppIdentity
from muster_core.owners.gang import MemberKey, ToGang
from muster_core.owners.queue import LoadQueue, Retire, SetQueue
from muster_core.values.configuration import Configuration, QueueConfig
from muster_core.values.priority import PriorityClass
from muster_core.values.records import record


@final
@record
class GangEntryFacts:
    """The facts that define a gang; the gang owns the rest.

    Attributes:
        given: The fields of its object, or None if it has no object.
        annotated: The fields from all annotations since it last had no members.
        members: Its members, each with the fields in its annotations, in the order in which they
            came.
        forgotten: Whether its definition was removed, so that earlier annotations do not count.
    """

    key: int
    given: GangFields | None
    annotated: GangFields
    members: tuple[tuple[MemberKey, GangFields], ...]
    forgotten: bool


@final
@record
class GuessesFacts:
    """For how many more refusals of each kind there are guesses of what was meant."""

    apps: int
    queues: int
    classes: int
    gangs: int
    nodes: int


@final
@record
class AdmissionFacts:
    """The facts that admission owns.

    Attributes:
        last_queue: The key of the queue that was made last.
        last_gang: The key of the gang that was made last.
        dynamic: The keys of the dynamic queues.
        applied: The keys of the queues that come from applied objects.
        completed: The names of completed applications: the latest, and those before.
        classes: The priority classes of users, in the order in which they are listed.
        gangs: The gangs that are defined or have members.
        guesses: How many guesses are left.
    """

    configuration: Configuration
    last_queue: int
    last_gang: int
    dynamic: tuple[int, ...]
    applied: tuple[int, ...]
    completed: tuple[tuple[str, ...], tuple[str, ...]]
    classes: tuple[PriorityClass, ...]
    gangs: tuple[GangEntryFacts, ...]
    guesses: GuessesFacts


@final
@record
class StartQueue:
    """Start a queue."""

    key: int
    parent: int | None
    config: QueueConfig


@final
@record
class TellQueue:
    """Send a message to a queue."""

    key: int
    message: SetQueue | Retire | LoadQueue


@final
@record
class StartApp:
    """Start an application."""

    identity: AppIdentity


@final
@record
class TellApp:
    """Send a message to an application."""

    key: int
    message: AppRequest | LoadApp


Route = StartQueue | TellQueue | StartApp | TellApp | EnterState
"""A message to a queue or an application, or the start of one."""


@final
@record
class StartGang:
    """Start a gang."""

    key: int
    name: str


@final
@record
class TellGang:
    """Send a message to a gang."""

    key: int
    message: ToGang


GangRoute = StartGang | TellGang

AnyRoute = Route | GangRoute
"""A message to any owner, or the start of one."""
