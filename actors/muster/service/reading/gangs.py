"""Gangs: what a list and a single one say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.endpoints import schemas
from muster.service.endpoints.columns import Column, Table
from muster.service.reading.looking import Looking, in_seconds
from muster_core.gangs.definition import GangMode
from muster_core.gangs.states import GangState
from muster_core.gangs.topology import TopologyRule
from muster_core.snapshots import AskPlace

if TYPE_CHECKING:
    from muster_core.view.gangs.gang import ViewGang

_TIMED_OUT: Final = GangState.TIMED_OUT
_PLACES: Final = tuple(place.value for place in AskPlace)
_PENDING, _PARKED, _WAITING, _BOUND = _PLACES


@final
@attrs.frozen(eq=False)
class GangRow:
    """A gang, and what is known of it.

    Attributes:
        looking: The state.
        gang: The gang.
    """

    looking: Looking
    gang: ViewGang

    def definition(self) -> dict[str, object] | None:
        """Return its definition with defaults filled in, or None."""
        definition = self.gang.definition
        if definition is None:
            return None
        topology = definition.topology
        return {
            "min_member": definition.min_member,
            "total": definition.total,
            "mode": definition.mode.value,
            "wait_time": in_seconds(definition.wait_us),
            "groups": [*definition.groups],
            "topology": None if topology is None else topology.written(),
        }

    # GANG-53
    def user(self) -> str | None:
        """Return whose it is, or None if it is nobody's."""
        owner = self.looking.machine.admission.owner_of_gang(self.gang.name)
        return None if owner is None or owner.gang != self.gang.name else owner.user

    def end_us(self) -> int | None:
        """Return when its present wait is over, or None."""
        return next(self.looking.view.timers.ends(self.gang), None)

    def left_us(self) -> int | None:
        """Return how long its present wait may still last, or None."""
        end_us = self.end_us()
        return None if end_us is None else max(end_us - self.looking.now_us, 0)

    def counts(self) -> Mapping[str, int]:
        """Return how many members it has in each place."""
        gang = self.gang
        return {
            _PENDING: gang.pending + len(gang.backing_off),
            _PARKED: len(gang.parked),
            _WAITING: len(gang.waiting),
            _BOUND: len(gang.bound),
        }

    def members(self) -> Mapping[str, list[str]]:
        """Return its members by place, as ``app/ask``."""
        gang = self.gang
        pending = [(key, name) for key, slot in gang.slots.items() for name in slot.members]
        return {
            _PENDING: sorted(self._named([*pending, *gang.backing_off])),
            _PARKED: sorted(self._named(gang.parked)),
            _WAITING: self._named(gang.waiting),
            _BOUND: sorted(self._named(gang.bound)),
        }

    def _named(self, members: Iterable[tuple[int, str]]) -> list[str]:
        apps = self.looking.view.apps
        return [f"{apps[key].identity.name}/{name}" for key, name in members]


_DEFINITION: Final = {
    "type": "object",
    "properties": {
        "min_member": schemas.NUMBER,
        "total": schemas.NUMBER,
        "mode": schemas.word(GangMode),
        "wait_time": schemas.maybe(schemas.SECONDS),
        "groups": schemas.TEXTS,
        "topology": schemas.maybe(
            {
                "type": "object",
                "properties": {
                    **{rule.value: schemas.TEXT for rule in TopologyRule},
                    "max": schemas.NUMBER,
                },
            }
        ),
    },
}

# LISTS-8
GANGS: Final = Table[GangRow](
    (
        Column("gang", schemas.TEXT, "its full name", lambda row: row.gang.name),
        Column(
            "definition",
            schemas.maybe(_DEFINITION),
            "its definition with defaults filled in, `wait_time` in seconds and `topology` as in "
            "a feed; null if it has none",
            lambda row: row.definition(),
        ),
        Column(
            "user",
            schemas.maybe(schemas.TEXT),
            "whose it is: the `user` of its object, else that of the application of its first "
            "member; null if it is nobody's",
            lambda row: row.user(),
        ),
        Column(
            "satisfied", schemas.BOOLEAN, "whether it is satisfied", lambda row: row.gang.satisfied
        ),
        Column(
            "timed_out",
            schemas.BOOLEAN,
            "whether it has timed out",
            lambda row: row.gang.state is _TIMED_OUT,
        ),
        Column(
            "cycle_valid",
            schemas.BOOLEAN,
            "whether its schedule cycle is valid",
            lambda row: row.looking.view.is_cycle_valid(row.gang),
        ),
        Column(
            "since",
            schemas.maybe(schemas.SECONDS),
            "when its present wait began, in seconds",
            lambda row: in_seconds(row.gang.since_us),
        ),
        Column(
            "until",
            schemas.maybe(schemas.SECONDS),
            "when its present wait is over, in seconds",
            lambda row: in_seconds(row.end_us()),
        ),
        Column(
            "left",
            schemas.maybe(schemas.SECONDS),
            "how long its present wait may still last, in seconds",
            lambda row: in_seconds(row.left_us()),
        ),
        Column(
            "missing",
            schemas.NUMBER,
            "how many more members must hold a node; 0 if it needs none or is not defined",
            lambda row: row.gang.missing,
        ),
        Column(
            "members",
            {"type": "object", "properties": dict.fromkeys(_PLACES, schemas.NUMBER)},
            "how many members it has in each place",
            lambda row: row.counts(),
        ),
        Column(
            "asks",
            {"type": "object", "properties": dict.fromkeys(_PLACES, schemas.TEXTS)},
            "its members by place, as `app/ask`; waiting ones in the order of their waits",
            lambda row: row.members(),
            single=True,
        ),
    )
)
"""The fields of gangs."""
