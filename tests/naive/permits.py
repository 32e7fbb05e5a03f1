"""The steps of a member of a gang: PreFilter, holding a node, and what binds a whole group."""

from __future__ import annotations

import attrs

from muster_core.decisions import Decision, Kind, Reason
from muster_core.snapshots import AskPlace
from tests.naive import back_off, lifecycle
from tests.naive.devices.rooms import taken_by
from tests.naive.gangs import Group, group_of, holding, let_go, members, unsatisfy_if_lost, waiting
from tests.naive.picture import Picture
from tests.naive.state import Ask, Gang, Node, World


def constrained(world: World, ask: Ask) -> Gang | None:
    """Give the gang that constrains an ask: its own, unless that is satisfied."""
    gang = None if ask.gang is None else world.gangs[ask.gang]
    return None if gang is None or gang.satisfied else gang


def refused(world: World, gang: Gang) -> bool:
    """Say whether PreFilter refuses a member of an unsatisfied gang now."""
    definition = gang.definition
    if definition is None or gang.timed_out:
        return True
    least = definition.min_member
    if len(members(world, gang)) < least or holding(world, gang) >= least:
        return True
    return group_of(world, gang.name).strict and not gang.cycle_valid


def permitted(world: World, group: Group) -> bool:
    """Say whether every gang of a group has what it needs."""
    return len(group.gangs) == len(group.names) and all(
        has_enough(world, gang) for gang in group.gangs
    )


def has_enough(world: World, gang: Gang) -> bool:
    """Say whether a gang has what it needs."""
    definition = gang.definition
    if definition is None or gang.timed_out:
        return False
    return gang.satisfied or holding(world, gang) >= definition.min_member


def hold(world: World, ask: Ask, node: Node) -> None:
    """Let an ask hold a node; nothing is bound yet, and whether it waits is still open."""
    world.moves += 1
    ask.devices = taken_by(Picture(world), node, ask)
    ask.place, ask.node, ask.held_order = AskPlace.WAITING, node.name, world.moves
    said = ask.say(Kind.ASSIGNED, node.name)
    world.log.append(attrs.evolve(said, devices=ask.devices))


def satisfy(world: World, group: Group, now_us: int) -> list[Ask]:
    """Satisfy a group and bind what waits of it; give those whose bind failed."""
    said: dict[str, Decision] = {}
    for gang in group.gangs:
        if not gang.satisfied:
            gang.satisfied = True
            said[gang.name] = Decision(Kind.GANG_SATISFIED, gang=gang.name)
            world.log.append(said[gang.name])
    failed = bind_all(world, waiting(world, *group.gangs), now_us)
    for gang in group.gangs:
        if not gang.satisfied:  # All its binds have failed: that it was satisfied is not said.
            world.log[:] = [one for one in world.log if one is not said.get(gang.name)]
    return failed


def bind_all(world: World, asks: list[Ask], now_us: int) -> list[Ask]:
    """Bind asks that hold a node, in this order and one step; give those whose bind failed."""
    failed = [ask for ask in asks if not _bind(world, ask, now_us)]
    for gang in world.gangs.values():
        if gang.name in {ask.gang for ask in failed}:
            unsatisfy_if_lost(world, gang)
    return failed


def bind(world: World, ask: Ask, now_us: int) -> bool:
    """Bind an ask by itself to the node that it holds; say whether that went well."""
    return not bind_all(world, [ask], now_us)


def _bind(world: World, ask: Ask, now_us: int) -> bool:
    if ask.failures:
        ask.failures -= 1
        world.log.append(ask.say(Kind.RELEASED, ask.node, Reason.BIND_FAILED))
        let_go(world, ask)
        ask.keeps = False
        back_off.failed(ask, now_us)
        return False
    world.moves += 1
    ask.place, ask.bound_order, ask.keeps = AskPlace.BOUND, world.moves, False
    ask.ends_at = None if ask.run_for_us is None else now_us + ask.run_for_us
    world.log.append(ask.say(Kind.BOUND, ask.node))
    world.rounds.bound.append(ask)
    lifecycle.ask_bound(world, ask.app, now_us)
    return True
