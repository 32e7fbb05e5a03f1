"""Remedies that concern the gang of an ask and the other gangs of its group.

Also the parts of combined remedies that do not concern room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, final

import attrs

from muster.explain._remedies.case import Case, NumberRange, Remedy, RemedyKind, smallest
from muster.explain._remedies.trials import QueueChange, add_gang, redefined
from muster.feeds._kinds import EventFields
from muster.feeds._operations import write
from muster_core.events import AddAsk
from muster_core.gangs import NO_FIELDS, GangDefinition, GangState
from muster_core.resources import Resources
from muster_core.structures.amounts import add_to
from muster_core.values.devices import without_devices
from muster_core.view.gangs import ViewGang


@final
@attrs.frozen
class RemedyPart:
    """A change that can be combined with others.

    Attributes:
        text: The change in words.
        events: The events that make it, without ``configure``.
        changes: The settings of queues that it changes, by path.
        more: The resources that it needs in addition, in base units.
    """

    text: str = ""
    events: tuple[EventFields, ...] = ()
    changes: Mapping[str, QueueChange] = attrs.field(factory=dict[str, QueueChange])
    more: Mapping[str, int] = attrs.field(factory=dict[str, int])


_ENOUGH: Final = 10_000
"""The most members that a remedy adds."""


def gang_remedies(case: Case) -> Iterator[Remedy]:
    """Try changes of the gangs of its group."""
    yield from _renew(case)
    for gang in case.group:
        if gang.definition is None:
            yield from _define(case, gang)
        elif gang.state is not GangState.TIMED_OUT and not gang.satisfied:
            yield from _add_members(case, gang, gang.definition)
            yield from _need_fewer(case, gang, gang.definition)


def _define(case: Case, gang: ViewGang) -> Iterator[Remedy]:
    """Define a placeholder with as many members as it has, or with fewer if necessary."""

    def events(fewer: tuple[int, ...]) -> list[EventFields]:
        definition = GangDefinition(gang.children - fewer[0], gang.children - fewer[0])
        return [add_gang(gang.name, definition)]

    if not gang.children:
        return
    knob = NumberRange(gang.children - 1, 0)
    found = smallest(lambda fewer: case.trials.bind(events(fewer)), [knob])
    yield from case.found(
        RemedyKind.DEFINE_GANG,
        ["fewer"],
        found,
        lambda fewer: f"gang {gang.name} defined, with min_member {gang.children - fewer[0]}",
        events,
    )


def _add_members(case: Case, gang: ViewGang, definition: GangDefinition) -> Iterator[Remedy]:
    """Add the missing members of a gang, each like an existing one."""
    lack = definition.min_member - gang.children
    example = _example(case, gang)
    if not 0 < lack <= _ENOUGH:
        return

    def events(count: tuple[int, ...]) -> list[EventFields]:
        return [_members(case, example, count[0])] if count[0] else []

    found = smallest(lambda count: case.trials.bind(events(count)), [NumberRange(lack, lack)])
    yield from case.found(
        RemedyKind.MORE_MEMBERS,
        ["count"],
        found,
        lambda count: _more(gang, example, count[0]),
        events,
    )


def _more(gang: ViewGang, example: AddAsk, count: int) -> str:
    return f"{count:,} more like {example.app}/{example.ask} in gang {gang.name}"


def _members(case: Case, example: AddAsk, count: int) -> EventFields:
    """Return the event that adds members under unused names."""
    name, number = f"{example.ask}-more", 1
    taken = case.names_in(example.app)
    while any(one == name or one.startswith(f"{name}-") for one in taken):
        number += 1
        name = f"{example.ask}-more-{number}"
    return write(attrs.evolve(example, ask=name, count=count))


def _example(case: Case, gang: ViewGang) -> AddAsk:
    """Return an event that adds a member like an existing one, or like the ask if it has none."""
    if gang is case.gang:
        return case.event
    seen = case.snapshot.gangs[gang.name]
    for app, name in (*seen.pending, *seen.parked, *seen.waiting, *seen.bound):
        machine = case.machine
        ask = machine.view.apps[machine.registry.app_key(app)].find(name)
        if ask is not None:
            return AddAsk(
                app,
                name,
                Resources(without_devices(ask.resources)),
                priority=ask.priority,
                gang=gang.name,
                devices=dict(ask.shape.devices),
            )
    return attrs.evolve(case.event, gang=gang.name, says=NO_FIELDS)


def _need_fewer(case: Case, gang: ViewGang, definition: GangDefinition) -> Iterator[Remedy]:
    """Lower ``min_member`` of a gang, as little as possible."""
    if definition.min_member < 2:
        return

    def needs(fewer: int) -> int:
        return definition.min_member - fewer

    def events(fewer: tuple[int, ...]) -> list[EventFields]:
        if not fewer[0]:
            return []
        return redefined(gang.name, attrs.evolve(definition, min_member=needs(fewer[0])))

    held_back = min(max(definition.min_member - gang.children, 1), needs(1))
    found = smallest(
        lambda fewer: case.trials.bind(events(fewer)), [NumberRange(needs(1), held_back)]
    )
    yield from case.found(
        RemedyKind.MIN_MEMBER,
        ["fewer"],
        found,
        lambda fewer: (
            f"min_member {needs(fewer[0]):,} instead of {needs(0):,} for gang {gang.name}"
        ),
        events,
    )


def _renew(case: Case) -> Iterator[Remedy]:
    """Clear the timeouts of the gangs of its group."""
    part = _renewed(case)
    if part is not None:
        remedy = case.remedy(RemedyKind.RENEW_GANG, part.text, part.events)
        if remedy is not None:
            yield remedy


def _renewed(case: Case) -> RemedyPart | None:
    """Return the part that removes the gangs that have timed out, and defines them again."""
    marked = [gang for gang in case.group if gang.state is GangState.TIMED_OUT]
    known = [(gang.name, gang.definition) for gang in marked if gang.definition is not None]
    if not known:
        return None
    removed: list[EventFields] = [{"op": "remove_gang", "gang": name} for name, _ in known]
    events = (*removed, *(add_gang(name, definition) for name, definition in known))
    names = " and ".join(name for name, _ in known)
    text = f"gang {names} removed and defined again, which clears the timeout"
    return RemedyPart(text, events)


def gang_parts(case: Case) -> Iterator[RemedyPart]:
    """Yield one part with all changes that the gangs of its group need, except for room."""
    renewed = _renewed(case)
    parts = [] if renewed is None else [renewed]
    for gang in case.group:
        if gang.definition is None and gang.children:
            definition = GangDefinition(gang.children, gang.children)
            text = f"gang {gang.name} defined, with min_member {gang.children}"
            parts.append(RemedyPart(text, (add_gang(gang.name, definition),)))
        elif gang.definition is not None and not gang.satisfied:
            parts += _completed(case, gang, gang.definition)
    parts += _made_up(case)
    if parts:
        more: dict[str, int] = {}
        for part in parts:
            add_to(more, part.more)
        events = tuple(event for part in parts for event in part.events)
        yield RemedyPart(", and ".join(part.text for part in parts), events, more=more)


def _made_up(case: Case) -> Iterator[RemedyPart]:
    """Yield parts that add the missing gangs of its group, each with one member like the ask."""
    known = {gang.name for gang in case.group}
    named = {
        name
        for gang in case.group
        if gang.definition is not None
        for name in gang.definition.groups
    }
    for name in sorted(named - known):
        member = attrs.evolve(case.event, gang=name, says=NO_FIELDS)
        added = _members(case, member, 1)
        text = f"gang {name} defined, with one member like {member.app}/{member.ask}"
        events = (add_gang(name, GangDefinition(1, 1)), added)
        yield RemedyPart(text, events, more=dict(member.wanted))


def _completed(case: Case, gang: ViewGang, definition: GangDefinition) -> Iterator[RemedyPart]:
    lack, example = definition.min_member - gang.children, _example(case, gang)
    if 0 < lack <= _ENOUGH:
        more: dict[str, int] = {}
        add_to(more, example.wanted, lack)
        yield RemedyPart(_more(gang, example, lack), (_members(case, example, lack),), more=more)
