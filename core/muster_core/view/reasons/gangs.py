"""The reasons that follow from gangs and reservations.

What PreFilter refuses and what a waiting member waits for (GANG-21 to GANG-25, GANG-33, GANG-43);
why the cycle of a Strict group failed in the last round (GANG-25, GANG-28); what is reserved for
the party of a pending ask, and what it waits for (OUTLOOK-6); whose reservation an ask that fits
would delay (BACKFILL-28).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, final

from muster_core.owners.asks import Ask
from muster_core.values.affinity import terms_in_words
from muster_core.values.reasons import Code, Fact, PendingReason, Reserved
from muster_core.values.resources import Resources
from muster_core.view.gangs import CycleFailure, ViewGang, ViewGroup, topology_of
from muster_core.view.permits import Need, needs_of, short_of_max, short_of_nodes
from muster_core.view.reasons.shortfalls import (
    amounts,
    counted,
    listed,
    named,
    named_limit,
    seconds,
)
from muster_core.view.reservations.parties import Reservation, group_of
from muster_core.view.reservations.projection import Release, releases, releases_on
from muster_core.view.reservations.reservations import Reservations
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView


def refusal(gang: ViewGang, group: ViewGroup) -> PendingReason | None:
    """Return why PreFilter refuses the pending members of a gang, or None if it does not.

    A gang that has timed out has no pending members: they are parked.
    """
    if not gang.is_refused():
        return None
    if gang.definition is None:
        message = f"gang {gang.name} is not defined: nothing says how many members it needs"
        return PendingReason(Code.GANG_UNDEFINED, message, {"gang": gang.name})
    least, children = gang.definition.min_member, gang.children
    facts: dict[str, Fact] = {"gang": gang.name, "min_member": least, "members": children}
    if children < least:
        has = counted(children, "member", "members")
        message = f"gang {gang.name} has {has}, and needs {least}"
        return PendingReason(Code.GANG_TOO_FEW_MEMBERS, message, facts)
    held = counted(gang.held, "node", "nodes")
    message = f"gang {gang.name} holds {held} and needs {least}, but {_lacking(group)}"
    facts["held"], facts["lacking"] = gang.held, _lacks(group)
    return PendingReason(Code.GANG_SURPLUS, message, facts)


def waiting(
    gang: ViewGang, group: ViewGroup, first_end: tuple[int, ViewGang] | None, now_us: int
) -> tuple[PendingReason, ...]:
    """Return the reason why a waiting member waits.

    Args:
        gang: Its gang.
        group: The group of its gang.
        first_end: When the first of the group's gangs times out, in microseconds, and this gang;
            the whole group then releases its nodes. None if no wait has begun.
        now_us: The present instant, in microseconds.
    """
    definition = gang.definition
    least = 0 if definition is None else definition.min_member
    message = f"{gang.held} of {least} members hold nodes"
    facts: dict[str, Fact] = {
        "gang": gang.name,
        "held": gang.held,
        "min_member": least,
        "lacking": _lacks(group),
    }
    if first_end is not None:
        end_us, first = first_end
        facts["left_us"] = left_us = max(end_us - now_us, 0)
        message = f"{message}, {seconds(left_us)} left"
        if first is not gang:
            message = f"{message}, until {first.name} times out"
    return (PendingReason(Code.PERMIT_WAITING, f"{message}; {_lacking(group)}", facts),)


def timed_out(gang: str, retry_us: int | None, now_us: int) -> tuple[PendingReason, ...]:
    """Return why a member is parked.

    Args:
        gang: Its gang.
        retry_us: When the gang is tried again by itself, in microseconds, or None.
        now_us: The present instant, in microseconds.
    """
    when = "once it is removed and defined anew"
    # GANG-59
    if retry_us is not None:
        when = f"at {seconds(retry_us)}, {seconds(max(0, retry_us - now_us))} from now"
    message = f"gang {gang} has timed out; its members are tried again {when}"
    return (PendingReason(Code.GANG_TIMED_OUT, message, {"gang": gang}),)


def _lacks(group: ViewGroup) -> dict[str, int]:
    """Return how many more members of each gang must hold nodes; -1 for an undefined gang."""
    known = {gang.name: gang for gang in group.gangs}
    lacks: dict[str, int] = {}
    for name in group.names:
        gang = known.get(name)
        if gang is None or gang.definition is None:
            lacks[name] = -1
        elif not gang.complete():
            lacks[name] = gang.missing
    return lacks


def _lacking(group: ViewGroup) -> str:
    parts = [
        f"{name}, which is not defined" if missing < 0 else f"{missing} more of {name}"
        for name, missing in _lacks(group).items()
    ]
    return f"the group waits for {', '.join(parts)}"


_MOST_NAMED: Final = 4
"""How many names a sentence lists."""


# OUTLOOK-6
@final
class ReservedFor:
    """Finds reservations, between two batches; a new one is needed after each change."""

    def __init__(self, state: ViewState, reservations: Reservations) -> None:
        self._state = state
        self._reservations = reservations
        #: The results, by reservation: the members of a gang share them.
        self._found: dict[int, Reserved] = {}

    def ask(self, ask: Ask) -> Reserved | None:
        """Return the reservation for the party of a pending ask, or for its group; or None."""
        for one in self._in_force():
            if any(member.ask is ask for member, _ in one.places):
                return self._snapshot_of(one)
        group = group_of(self._state, ask)
        return None if group is None else self.group(group.names)

    def group(self, names: Sequence[str]) -> Reserved | None:
        """Return the reservation for the missing members of a group of gangs, or None."""
        found = (one for one in self._in_force() if one.party.group == names)
        one = next(found, None)
        return None if one is None else self._snapshot_of(one)

    def _in_force(self) -> list[Reservation]:
        """Return the reservations; of an ask in two parties, that of a snapshot comes first."""
        in_force = self._reservations.in_force.reservations
        return sorted(in_force, key=lambda one: one.scope.config.path, reverse=True)

    def _snapshot_of(self, one: Reservation) -> Reserved:
        found = self._found.get(id(one))
        if found is None:
            waits_for = [
                (named(release.app, release.allocation.ask), release.node.name)
                for release in self._ends(one)
            ]
            places = [(named(member.app, member.ask), node) for member, node in one.places]
            found = Reserved(one.scope.config.path, one.start_us, tuple(places), tuple(waits_for))
            self._found[id(one)] = found
        return found

    def _ends(self, one: Reservation) -> list[Release]:
        """Return the releases with which a reservation starts, in their order."""
        nodes, now_us = self._state.nodes.nodes, self._reservations.in_force.now_us
        names = dict.fromkeys(name for _, name in one.places)
        there = [
            release
            for name in names
            if name in nodes
            for release in releases_on(self._state, nodes[name], now_us)
        ]
        found = self._making(one, there)
        # Elsewhere an ask may give back a quota, a place in a topology, or nothing that matters.
        return found or self._making(one, releases(self._state, now_us))

    def _making(self, one: Reservation, some: Iterable[Release]) -> list[Release]:
        """Return those releases with which a reservation starts."""
        found = [
            release
            for release in some
            if (release.at == one.start or (release.at[0] and release.at < one.start))
            and release.allocation.ask.gang not in one.party.group
        ]
        return sorted(found, key=lambda release: (release.at, release.allocation.age))


def reserved_since(reserved: Reserved, written: Callable[[int], str] = seconds) -> str:
    """Return the start of a reservation and the asks for which it waits, as text.

    Args:
        reserved: The reservation.
        written: Writes an instant, given in microseconds since the origin.
    """
    asks = [f"{ask} on {node}" for ask, node in reserved.waits_for]
    one = len(asks) == 1
    if reserved.start_us is None:
        ends = "has ended, whose" if one else "have ended, whose"
        return f"once {abbreviated(asks, 'other', 'others')} {ends} end is not known"
    since = f"from {written(reserved.start_us)}"
    if not asks:
        return since
    are = "is" if one else "are"
    return f"{since}, when {abbreviated(asks, 'other', 'others')} {are} expected to end"


def abbreviated(names: Sequence[str], other: str, others: str) -> str:
    """List the first of some names, and count the others; there must be one."""
    if len(names) <= _MOST_NAMED:
        return listed(names)
    return listed([*names[: _MOST_NAMED - 1], counted(len(names) - _MOST_NAMED + 1, other, others)])


def held_back(
    state: ViewState, reservations: Reservations, leaf: LeafView, app: ViewApp, ask: Ask
) -> PendingReason | None:
    """Return which reservation a pending ask would delay where it fits, and until when; or None."""
    if not reservations.in_force.reservations or not (
        app.is_within_limits(ask) and leaf.has_room(ask)
    ):
        return None
    backfilling = reservations.backfilling
    node = backfilling.finder.find(leaf, app, ask, state.bit_of(ask))
    delayed = None if node is None else backfilling.delayed_by(leaf, app, ask, node)
    if node is None or delayed is None:
        return None
    may = backfilling.undelayed(leaf, app, ask)
    if backfilling.finder.find(leaf, app, ask, state.bit_of(ask), may) is not None:
        return None
    (first, reserved), *others = delayed.places
    whom = named(first.app, first.ask)
    more = f" and {counted(len(others), 'other member', 'other members')}" if others else ""
    start_us = delayed.start_us
    when = "with an end that is not known" if start_us is None else f"at {seconds(start_us)}"
    message = (
        f"it fits on {node.name} and is held back: it would delay the reservation of {whom}{more} "
        f"on {_nodes(delayed)}, which starts {when}"
    )
    facts = {"node": node.name, "delays": whom, "reserved": reserved, "start_us": start_us}
    return PendingReason(Code.HELD_BACK, message, facts)


def _nodes(reservation: Reservation) -> str:
    names = list(dict.fromkeys(node for _, node in reservation.places))
    more = f" and {counted(len(names) - 1, 'other node', 'other nodes')}" if len(names) > 1 else ""
    return names[0] + more


def why_rolled_back(
    state: ViewState,
    gang: ViewGang,
    group: ViewGroup,
    failure: CycleFailure | None,
    reserved: Reserved | None,
) -> PendingReason:
    """Return why the cycle of a gang is invalid.

    Args:
        state: The view.
        gang: The gang.
        group: Its group.
        failure: The member that fitted nowhere in the last round; None if none was tried, since
            the group was sure not to fit.
        reserved: The reservation for the group, or None.
    """
    facts: dict[str, Fact] = {"gang": gang.name}
    if failure is not None:
        facts["failed"], facts["held"] = named(failure.app, failure.ask), failure.held
        facts["queue"] = None if failure.full is None else failure.full.config.path
        why = _why_failed(state, failure)
    else:
        why = _why_hopeless(state, group, facts)
    message = f"the Strict group of gang {gang.name} gave up: {why}"
    if reserved is not None:
        message = f"{message}; {_reserved_nodes(reserved, facts)}"
    return PendingReason(Code.GANG_CYCLE_INVALID, message, facts)


def _reserved_nodes(reserved: Reserved, facts: dict[str, Fact]) -> str:
    """Say which nodes are reserved for a group, and from when on."""
    nodes = list(dict.fromkeys(node for _, node in reserved.places))
    facts["reserved"], facts["start_us"] = tuple(nodes), reserved.start_us
    facts["waits_for"] = tuple(ask for ask, _ in reserved.waits_for)
    are = "is" if len(nodes) == 1 else "are"
    which = abbreviated(nodes, "other node", "other nodes")
    return f"{which} {are} reserved for it {reserved_since(reserved)}"


def _why_failed(state: ViewState, failure: CycleFailure) -> str:
    app, ask = failure.app, failure.ask
    member, path = f"{named(app, ask)} ({amounts(ask.resources)})", app.identity.path
    held = ""
    if failure.held:
        held = f" while {counted(failure.held, 'member', 'members')} held nodes"
    if failure.limit is not None:
        return f"{member} was over {named_limit(failure.limit)}{held}"
    if failure.blocked:
        return f"an ask before {named(app, ask)} in {path} was not placed"
    if failure.full is not None:
        return f"{member} was over the max of {failure.full.config.path}{held}"
    # BACKFILL-28
    if failure.held_back:
        return f"{member} was held back{held}"
    # TOPOLOGY-15
    gang = None if ask.gang is None or not failure.misplaced else state.gangs[ask.gang]
    topology = None if gang is None else topology_of(gang)
    if topology is not None:
        nodes_text = f"no node that the topology {topology} lets it take"
        return f"{nodes_text} had room for {member}{held}"
    return f"no node had room for {member}{held}"


def _why_hopeless(state: ViewState, group: ViewGroup, facts: dict[str, Fact]) -> str:
    """Return why the missing members of a group cannot all have room."""
    gangs = [gang for gang in group.gangs if gang.missing and gang.admits()]
    needs = [need for gang in gangs for need in _in_order(state, needs_of(state, gang))]
    failed = _first_to_fail(state, gangs, needs)
    beside = "" if failed is None else f": {named(*failed)} is the first that fits nowhere"
    if failed is not None:
        facts["failed"] = named(*failed)
    for shape, wanted, room in short_of_nodes(state, needs):
        facts["needed"], facts["room"] = wanted, room
        return (
            f"{counted(wanted, 'member', 'members')} of {amounts(shape.resources)} are needed "
            f"and nodes have room for {room}{beside}"
        )
    for path, lacks in short_of_max(state, needs):
        facts["queue"], facts["lacks"] = path, lacks
        return f"all that it needs is {amounts(lacks)} over the max of {path}{beside}"
    return "not all of its members that are needed fit"


# CHECKPOINT-6
def _in_order(state: ViewState, needs: Iterable[Need]) -> list[Need]:
    """Return needs in an order that does not depend on what was tried: larger shapes first."""

    def shape_of(need: Need) -> tuple[object, ...]:
        shape = state.shapes.shapes[need[1]]
        chosen = [str(one) for one in shape.tolerations], terms_in_words(shape.affinity or ())
        return tuple(shape.resources.items()), shape.selector, shape.node or "", chosen

    in_order = sorted(needs, key=shape_of, reverse=True)
    return sorted(in_order, key=lambda need: 0 if need[0] is None else need[0].key)


def _first_to_fail(
    state: ViewState, gangs: list[ViewGang], needs: list[Need]
) -> tuple[ViewApp, Ask] | None:
    """Return the member that would fail first, if all are equal and in one application."""
    if len(gangs) != 1 or len(gangs[0].slots) != 1 or len(needs) != 1:
        return None
    if topology_of(gangs[0]) is not None:  # It may be that an earlier one fails.
        return None
    (slot,), ((_, bit, _),) = gangs[0].slots.values(), needs
    shape = state.shapes.shapes[bit]
    on_nodes = state.nodes.room_for(bit, len(slot.app.pending))
    room = min(on_nodes, *_rooms_in_queues(state, slot.app, shape.resources))
    members = sorted((ask for ask, _ in slot.members.values()), key=slot.order_of)
    return (slot.app, members[room]) if room < len(members) else None


def _rooms_in_queues(state: ViewState, app: ViewApp, resources: Resources) -> Iterator[int]:
    """Return for each ``max`` on the path how many asks it leaves room for."""
    yield len(app.pending)
    for queue in state.leaf_of(app).upward():
        for name, most in queue.config.max.amounts:
            if resources[name]:
                yield max((most - queue.used(name)) // resources[name], 0)
    for limit in app.limits:
        for name, most in limit.entry.max.amounts:
            if resources[name]:
                yield max((most - limit.used.get(name, 0)) // resources[name], 0)
