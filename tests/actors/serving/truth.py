"""The expected items of lists, from the snapshot of a scheduler that got the same events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isinf
from pathlib import Path
from time import time
from typing import Any, Final, final

import attrs

from muster.feeds import Expect, Refused, Settle, read_feed
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import seconds
from muster_core.events import Event
from muster_core.snapshots import AppSnapshot, AskSnapshot, GangSnapshot, Snapshot
from tests.actors.state_directories import Keeper

PLACES: Final = ("pending", "parked", "waiting", "bound")
DAY_US: Final = 86_400_000_000

Item = dict[str, Any]


def fill(directory: Path, feed: Path) -> Keeper:
    """Store the events of a feed; the clock of a service that goes on from there stands still."""
    keeper = Keeper(directory, origin_us=int(time()) * 1_000_000 + DAY_US)
    at_us, events = 0, list[Event]()
    for item in read_feed(feed):
        if item.at_us != at_us or isinstance(item.content, Settle | Expect):
            keeper.run(at_us, events)
            at_us, events = item.at_us, []
        if not isinstance(item.content, Settle | Expect | Refused):
            events.append(item.content)
    keeper.run(at_us, events)
    keeper.pass_until(at_us)
    keeper.close()
    return keeper


def _at(at_us: int | None) -> float | None:
    return None if at_us is None else seconds(at_us)


@final
@attrs.frozen
class Truth:
    """The state that lists are compared with."""

    scheduler: PlainScheduler
    snapshot: Snapshot

    @classmethod
    def of(cls, scheduler: PlainScheduler) -> Truth:
        return cls(scheduler, scheduler.snapshot())

    def queues(self) -> list[Item]:
        return [
            {
                "queue": one.path,
                "draining": one.draining,
                "priority": one.priority,
                "allocated": dict(one.allocated),
                "pending": dict(one.pending),
                "children": one.children,
                "share": _share(self.snapshot.shares[one.path]),
            }
            for _, one in sorted(self.snapshot.queues.items())
        ]

    def apps(self) -> list[Item]:
        """The applications in the order in which they came."""
        return [
            {
                "app": one.name,
                "queue": one.queue,
                "state": one.state.value,
                "priority": one.priority,
                "user": one.user,
                "group": one.group,
                "asks": _counts(one),
                "allocated": _sums(one, "waiting", "bound"),
                "pending": _sums(one, "pending"),
            }
            for one in self._in_order()
        ]

    def _in_order(self) -> list[AppSnapshot]:
        keys = self.scheduler.machine.registry.apps()
        return sorted(self.snapshot.apps.values(), key=lambda app: keys[app.name])

    def asks(self) -> list[Item]:
        """The asks in the order in which they were added."""
        found = [
            (self._added(app.name, ask.name), self._ask(app, ask))
            for app in self.snapshot.apps.values()
            for ask in app.asks
        ]
        return [item for _, item in sorted(found, key=lambda one: one[0])]

    def _added(self, app: str, ask: str) -> tuple[int, int]:
        machine = self.scheduler.machine
        found = machine.view.apps[machine.registry.app_key(app)].find(ask)
        assert found is not None
        return found.seq, found.number

    def _ask(self, app: AppSnapshot, ask: AskSnapshot) -> Item:
        explanation = self.scheduler.explain(app.name, ask.name)
        return {
            "app": app.name,
            "ask": ask.name,
            "queue": app.queue,
            "user": app.user,
            "place": ask.place.value,
            "priority": ask.priority,
            "aged": ask.aged,
            "resources": dict(ask.resources),
            "devices": {kind: [*numbers] for kind, numbers in ask.devices.items()},
            "node": ask.node,
            "gang": ask.gang,
            "retries": ask.retries,
            "failed_binds": ask.failed_binds,
            "last_failed": _at(ask.last_failed_us),
            "reason": None if explanation is None else explanation.dominant.code.value,
            "since": None if explanation is None else _at(explanation.since_us),
            "reservation": self._reservation(f"{app.name}/{ask.name}"),
        }

    def _reservation(self, ask: str) -> Item | None:
        found = self.snapshot.reservations.get(ask)
        if found is None:
            return None
        return {"node": found.node, "start": _at(found.start_us), "scope": found.scope}

    def gangs(self) -> list[Item]:
        return [self._gang(one) for _, one in sorted(self.snapshot.gangs.items())]

    def _gang(self, gang: GangSnapshot) -> Item:
        definition = gang.definition
        return {
            "gang": gang.name,
            "definition": None
            if definition is None
            else {
                "min_member": definition.min_member,
                "total": definition.total,
                "mode": definition.mode.value,
                "wait_time": _at(definition.wait_us),
                "groups": [*definition.groups],
                "topology": None if definition.topology is None else definition.topology.written(),
            },
            "satisfied": gang.satisfied,
            "timed_out": gang.timed_out,
            "cycle_valid": gang.cycle_valid,
            "since": _at(gang.since_us),
            "members": {place: len(getattr(gang, place)) for place in PLACES},
        }

    def members(self) -> Mapping[str, Mapping[str, list[str]]]:
        """The members of each gang by place; waiting ones in the order of their waits."""
        return {
            gang.name: {
                "waiting": [f"{app}/{ask}" for app, ask in gang.waiting],
                **{
                    place: sorted(f"{app}/{ask}" for app, ask in getattr(gang, place))
                    for place in ("pending", "parked", "bound")
                },
            }
            for gang in self.snapshot.gangs.values()
        }

    def nodes(self) -> list[Item]:
        holding = [ask for ask in self.asks() if ask["node"] is not None]
        return [
            {
                "node": one.name,
                "capacity": dict(one.capacity),
                "used": dict(one.used),
                "devices": {
                    kind: {"model": there.model, "free": [*there.free]}
                    for kind, there in one.devices.items()
                },
                "schedulable": one.schedulable,
                "count": sum(ask["node"] == one.name for ask in holding),
            }
            for _, one in sorted(self.snapshot.nodes.items())
        ]

    def reserved(self, node: str) -> list[Item]:
        """The reservations on a node, in their order."""
        found: list[Item] = []
        for name, one in self.snapshot.reservations.items():
            app, _, ask = name.partition("/")
            item = {"app": app, "ask": ask, "start": _at(one.start_us), "scope": one.scope}
            found += [item] if one.node == node else []
        return found


def _share(share: float) -> float | str:
    return "inf" if isinf(share) else share


def _counts(app: AppSnapshot) -> dict[str, int]:
    return {place: sum(ask.place == place for ask in app.asks) for place in PLACES}


def _sums(app: AppSnapshot, *places: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for ask in app.asks:
        if ask.place in places:
            for kind, amount in ask.resources.items():
                total[kind] = total.get(kind, 0) + amount
    return total


def compare_items(found: list[Item], wanted: list[Item]) -> Iterator[str]:
    """Yield how items differ from the wanted ones, in the fields of the latter."""
    if len(found) != len(wanted):
        yield f"{len(found)} items instead of {len(wanted)}"
    for one, other in zip(found, wanted, strict=False):
        shown = {name: one.get(name) for name in other}
        if shown != other:
            yield f"{shown} instead of {other}"
