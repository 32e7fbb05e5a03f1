"""What admission owns and cannot compute: configuration, names, classes, annotations of gangs."""

from __future__ import annotations

from typing import final

from muster_core.gangs.definition import GangFields
from muster_core.owners.messages.gangs import MemberKey
from muster_core.values.configuration.partition import Configuration
from muster_core.values.priority import PriorityClass
from muster_core.values.records import record


@final
@record
class GangEntryFacts:
    """What gives a gang its definition; the rest is owned by the gang.

    Attributes:
        key: Its key.
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
    """What admission owns.

    Attributes:
        configuration: The configuration in force.
        last_queue: The key of the queue that was made last.
        last_gang: The key of the gang that was made last.
        dynamic: The keys of the dynamic queues.
        applied: The keys of the queues that come from applied objects.
        completed: The names of completed applications: the latest, and those before.
        classes: The priority classes of users, in the order in which they are listed.
        gangs: The gangs that are defined or have members.
        guesses: What is left of guesses.
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
