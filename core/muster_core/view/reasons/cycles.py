"""Why the cycle of a Strict group failed in the last round (GANG-25, GANG-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.structures.totals import add_to
from muster_core.values.reasons import Code, PendingReason
from muster_core.view.gangs.standing import topology_of
from muster_core.view.permits.fitting import needs_of
from muster_core.view.reasons.order.reserved import few, reserved_since
from muster_core.view.reasons.user_limits import named_limit
from muster_core.view.reasons.words import amounts, counted, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.shapes import Shape
    from muster_core.values.reasons import Fact, Reserved
    from muster_core.values.resources import Resources
    from muster_core.view.gangs.gang import CycleFailure, ViewGang, ViewGroup
    from muster_core.view.permits.fitting import Need
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_GANG_CYCLE_INVALID: Final = Code.GANG_CYCLE_INVALID


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
        reserved: What is reserved for the group, or None.
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
        message = f"{message}; {_reserved(reserved, facts)}"
    return PendingReason(_GANG_CYCLE_INVALID, message, facts)


def _reserved(reserved: Reserved, facts: dict[str, Fact]) -> str:
    """Say which nodes are reserved for a group, and from when on."""
    nodes = list(dict.fromkeys(node for _, node in reserved.places))
    facts["reserved"], facts["start_us"] = tuple(nodes), reserved.start_us
    facts["waits_for"] = tuple(ask for ask, _ in reserved.waits_for)
    are = "is" if len(nodes) == 1 else "are"
    which = few(nodes, "other node", "other nodes")
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
        where = f"no node that the topology {topology} lets it take"
        return f"{where} had room for {member}{held}"
    return f"no node had room for {member}{held}"


def _why_hopeless(state: ViewState, group: ViewGroup, facts: dict[str, Fact]) -> str:
    """Return why the missing members of a group cannot all have room."""
    gangs = [gang for gang in group.gangs if gang.missing and gang.admits()]
    needs = [need for gang in gangs for need in _in_order(state, needs_of(state, gang))]
    failed = _first_to_fail(state, gangs, needs)
    beside = "" if failed is None else f": {named(*failed)} is the first that fits nowhere"
    if failed is not None:
        facts["failed"] = named(*failed)
    for shape, wanted, room in _short_of_nodes(state, needs):
        facts["needed"], facts["room"] = wanted, room
        return (
            f"{counted(wanted, 'member', 'members')} of {amounts(shape.resources)} are needed "
            f"and nodes have room for {room}{beside}"
        )
    for path, lacks in _short_of_max(state, needs):
        facts["queue"], facts["lacks"] = path, lacks
        return f"all that it needs is {amounts(lacks)} over the max of {path}{beside}"
    return "not all of its members that are needed fit"


# CHECKPOINT-6
def _in_order(state: ViewState, needs: Iterable[Need]) -> list[Need]:
    """Return needs in an order that does not depend on what was tried: larger shapes first."""

    def shape_of(need: Need) -> tuple[object, ...]:
        shape = state.shapes.shapes[need[1]]
        return tuple(shape.resources.items()), shape.selector, shape.node or ""

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
    room = min(_room_on_nodes(state, shape), *_rooms_in_queues(state, slot.app, shape.resources))
    members = sorted((ask for ask, _ in slot.members.values()), key=slot.order_of)
    return (slot.app, members[room]) if room < len(members) else None


def _room_on_nodes(state: ViewState, shape: Shape) -> int:
    """Count how many asks of a shape the nodes have room for together."""
    return sum(
        node.how_many(shape)
        for node in state.nodes.nodes.values()
        if node.schedulable and not node.kept and node.may_take(shape)
    )


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


def _short_of_nodes(state: ViewState, needs: list[Need]) -> Iterator[tuple[Shape, int, int]]:
    """Return each shape that nodes have too little room for, with the need and the room."""
    counts: dict[int, int] = {}
    for _, bit, count in needs:
        counts[bit] = counts.get(bit, 0) + count
    for bit, count in counts.items():
        shape = state.shapes.shapes[bit]
        room = _room_on_nodes(state, shape)
        if room < count:
            yield shape, count, room


def _short_of_max(state: ViewState, needs: list[Need]) -> Iterator[tuple[str, dict[str, int]]]:
    """Return each queue whose ``max`` leaves too little for all, and what it lacks."""
    wanted: dict[int, dict[str, int]] = {}
    for leaf, bit, count in needs:
        each = state.shapes.shapes[bit].resources.items()
        for queue in () if leaf is None else leaf.upward():
            every = {name: amount * count for name, amount in each}
            add_to(wanted.setdefault(queue.key, {}), every)
    for key, needed in wanted.items():
        queue = state.queues[key]
        lacks = {
            name: needed[name] + queue.used(name) - most
            for name, most in queue.config.max.amounts
            if needed.get(name) and needed[name] + queue.used(name) > most
        }
        if lacks:
            yield queue.config.path, lacks
