"""Asks that a remedy takes away: of a gang that needs each of its members, all of them.

Without one of them the others would only wait for it, and hold back others as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, final

import attrs

from muster.explain._remedies.case import Case
from muster.explain._writing import Written
from muster_core.snapshots import AskSnapshot, GangSnapshot
from muster_core.view.reasons.words import listed

_Key: TypeAlias = tuple[str, str]
"""An application, and the name of an ask."""

_MOST_NODES: Final = 3
"""How many nodes of a gang are named."""


@final
@attrs.frozen
class Leaving:
    """Asks that go together.

    Attributes:
        name: What they are called: an ask, or gangs.
        asks: The asks.
        events: The events that take them away.
        is_one: Whether the name is that of one ask or gang.
    """

    name: str
    asks: Sequence[_Key]
    events: Sequence[Written]
    is_one: bool = True


def removed(case: Case, app: str, ask: str) -> Leaving:
    """Return how an ask that is not bound is withdrawn.

    If its gang is not satisfied, all gangs of its group go that still wait, unless the ask of the
    case is in one of them.
    """
    name = next((one.gang for one in case.snapshot.apps[app].asks if one.name == ask), None)
    gangs = _waiting_with(case, name)
    members = [key for gang in gangs for key in (*gang.waiting, *gang.pending, *gang.parked)]
    if len(members) < 2 or (case.event.app, case.event.ask) in members:
        return Leaving(f"{app}/{ask}", [(app, ask)], [_remove_ask(app, ask)])
    names = [gang.name for gang in gangs]
    called = f"gang{'s' if len(names) > 1 else ''} {listed(names)}"
    events = [*_withdrawn(case, members)]
    return Leaving(called, members, events, is_one=len(names) == 1)


def ended(case: Case, app: str, ask: AskSnapshot) -> Leaving:
    """Return how a bound ask ends: with all of its gang if that has no member to spare."""
    gang = case.snapshot.gangs.get(ask.gang or "")
    definition = None if gang is None else gang.definition
    if (
        gang is None
        or definition is None
        or gang.name == case.event.gang
        or not 1 < len(gang.bound) <= definition.min_member
    ):
        return Leaving(f"{app}/{ask.name}", [(app, ask.name)], [_release(app, ask.name)])
    return Leaving(f"gang {gang.name}", gang.bound, [_release(*key) for key in gang.bound])


def nodes_of(case: Case, asks: Iterable[_Key]) -> str:
    """Return the nodes that asks hold, in words."""
    held = {
        one.node: None
        for app, name in asks
        for one in case.snapshot.apps[app].asks
        if one.name == name and one.node is not None
    }
    if len(held) > _MOST_NODES:
        return f"{len(held):,} nodes"
    return f"node{'s' if len(held) > 1 else ''} {listed(held)}"


def _waiting_with(case: Case, name: str | None) -> list[GangSnapshot]:
    """Return the gangs of the group of a gang; none if it is satisfied."""
    own = case.snapshot.gangs.get(name or "")
    if own is None or own.satisfied:
        return []
    group = case.machine.view.group_of(own.name)
    return [case.snapshot.gangs[gang.name] for gang in group]


def _withdrawn(case: Case, asks: Sequence[_Key]) -> Iterator[Written]:
    """Yield the events that withdraw asks: one for an application that has no others."""
    by_app: dict[str, list[str]] = {}
    for app, name in asks:
        by_app.setdefault(app, []).append(name)
    for app, names in by_app.items():
        if len(names) == len(case.snapshot.apps[app].asks):
            yield {"op": "remove_app", "app": app}
        else:
            yield from (_remove_ask(app, name) for name in names)


def _remove_ask(app: str, ask: str) -> Written:
    return {"op": "remove_ask", "app": app, "ask": ask}


def _release(app: str, ask: str) -> Written:
    return {"op": "release", "app": app, "ask": ask}
