"""The gangs of a dump: who defines them, and how many members they have in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import attrs

from muster.feeds._written.amounts import duration
from muster_core.decisions import MICROSECONDS
from muster_core.gangs.definition import GangFields, GangMode

WINDOW_US: Final = 600 * MICROSECONDS
"""Members that come in so long a time after the first one are those that it waits for."""

NO_WAIT: Final = "24h"
"""How long gangs wait that do not say it, in a configuration that is made."""


@final
@attrs.define
class _Members:
    first_us: int
    created_us: list[int] = attrs.field(factory=list[int])
    started_us: int | None = None

    def at_start(self) -> int:
        """Return how many members there were when the first of them started."""
        until = max(self.first_us + WINDOW_US, self.started_us or 0)
        if self.started_us is None:
            return len(self.created_us)
        return sum(created <= until for created in self.created_us)


@final
@attrs.frozen
class Gang:
    """A gang as a feed has it.

    Attributes:
        name: Its full name.
        at_us: When its first member comes, in microseconds since 1970.
        fields: What is said of it.
        wanted: How many members it needs, as it was said; the feed may have fewer.
    """

    name: str
    at_us: int
    fields: GangFields
    wanted: int

    def event(self) -> dict[str, object]:
        """Return the event that defines it."""
        event: dict[str, object] = {
            "op": "add_gang",
            "gang": self.name,
            "min_member": self.fields.min_member,
        }
        if self.fields.mode is GangMode.NON_STRICT:
            event["mode"] = str(self.fields.mode)
        if self.fields.wait_us is not None:
            event["wait_time"] = duration(self.fields.wait_us)
        if self.fields.groups:
            event["groups"] = list(self.fields.groups)
        return event


@final
class Gangs:
    """What is known of gangs, and their members in the feed."""

    def __init__(self) -> None:
        self._objects: dict[str, GangFields] = {}
        self._said: dict[str, GangFields] = {}
        self._members: dict[str, _Members] = {}

    def add_object(self, gang: str, fields: GangFields) -> None:
        """Take note of a PodGroup."""
        self._objects[gang] = fields

    def say(self, gang: str, fields: GangFields) -> None:
        """Take note of what a pod says of a gang; the first to say something is right."""
        known = self._said.get(gang)
        self._said[gang] = fields if known is None else known.over(fields)

    # KUBERNETES-11
    def fields(self, gang: str) -> GangFields:
        """Return what is said of a gang; annotations override the PodGroup."""
        none = GangFields()
        return self._said.get(gang, none).over(self._objects.get(gang, none))

    def least(self, gang: str) -> int:
        """Return how many members a gang needs; 0 if nobody says it."""
        return self.fields(gang).min_member or 0

    def add_member(self, gang: str, at_us: int, created_us: int, started_us: int | None) -> None:
        """Take note of a member, in the order in which members come.

        Args:
            gang: The gang.
            at_us: When the member comes in the feed, in microseconds since 1970.
            created_us: When it was created.
            started_us: When it was bound, or None.
        """
        members = self._members.setdefault(gang, _Members(at_us))
        members.created_us.append(created_us)
        if started_us is not None:
            known = members.started_us
            members.started_us = started_us if known is None else min(known, started_us)

    def has_members(self, gang: str) -> bool:
        """Return whether somebody belongs to a gang."""
        return gang in self._members

    # KUBERNETES-13
    def defined(self) -> Iterator[Gang]:
        """Yield the gangs of the feed; none needs more members than there were to start it."""
        for name, members in self._members.items():
            fields = self.fields(name)
            wanted = fields.min_member or 1
            groups = tuple(one for one in fields.groups or () if one in self._members)
            least = min(wanted, members.at_start())
            kept = attrs.evolve(fields, min_member=least, groups=groups)
            yield Gang(name, members.first_us, kept, wanted)
