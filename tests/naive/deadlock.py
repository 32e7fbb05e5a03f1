"""Groups that starve one another, in the naive model: found, and helped one after the other."""

from __future__ import annotations

from muster_core.config.model import DeadlockPolicy
from muster_core.decisions import Decision, Kind, Reason
from muster_core.snapshots import AskPlace
from tests.naive import order, permits
from tests.naive.back_off import awake, backs_off
from tests.naive.gangs import Group, age, all_groups, holding, let_go, members, release, waiting
from tests.naive.node_choice import fitting
from tests.naive.picture import Picture
from tests.naive.state import ROOT, Ask, Gang, World


def resolve(world: World, now_us: int) -> bool:
    """Help the first group that can be helped, or only say so; say whether anything changed."""
    groups = _starving(world)
    for place, group in enumerate(groups):
        later = groups[place + 1 :]
        if len(groups) < 2 or not may_be_helped(world, group):
            continue
        if not _would_fit(world, group, later):
            continue
        released: list[Group] = []
        while not _would_fit(world, group, released):
            released.append(later[-1 - len(released)])
        others = [other for other in groups if other is not group]
        world.log.append(Decision(Kind.WARNING, message=message(group, others)))
        if world.queues[ROOT].settings.deadlock_policy is DeadlockPolicy.REPORT:
            return False
        for other in released:
            release(world, waiting(world, *other.gangs), Reason.DEADLOCK)
        _help(world, group, now_us)
        return True
    return False


def message(helped: Group, others: list[Group]) -> str:
    """Word the warning: all names of the groups that hold nodes."""
    names = [", ".join(gang.name for gang in group.gangs) for group in (helped, *others)]
    return f"deadlock of gangs: {'; '.join(names)}"


def _starving(world: World) -> list[Group]:
    """Give the unsatisfied groups with waiting members, the first to be helped first."""

    def key(group: Group) -> tuple[object, ...]:
        # The members of a satisfied gang are plain asks: nobody asks for help for them.
        needy = [gang for gang in group.gangs if not gang.satisfied]
        asks = [ask for gang in needy for ask in members(world, gang)]
        unbound = [ask.priority for ask in asks if ask.place is not AskPlace.BOUND]
        return (-max(unbound), age(group.gangs[0]))

    groups = [group for group in all_groups(world) if not group.satisfied]
    return sorted((group for group in groups if waiting(world, *group.gangs)), key=key)


def may_be_helped(world: World, group: Group) -> bool:
    """Say whether a group could be complete now: no gang of it lacks anything but nodes."""
    if len(group.gangs) < len(group.names):
        return False
    return not any(_is_hopeless(world, gang) for gang in group.gangs)


def lets_members_through(world: World, group: Group) -> bool:
    """Say whether PreFilter refuses no gang of a group as undefined, short of children or timed out.

    It looks at gangs alone that are not satisfied, so that such a group may still lack a definition
    that it needs to be bound.
    """
    if len(group.gangs) < len(group.names):
        return False
    return not any(_is_hopeless(world, gang) for gang in group.gangs if not gang.satisfied)


def _is_hopeless(world: World, gang: Gang) -> bool:
    definition = gang.definition
    if definition is None or gang.timed_out:
        return True
    ready = [ask for ask in members(world, gang) if ask.held or not backs_off(world, ask)]
    return not gang.satisfied and len(ready) < definition.min_member


def _would_fit(world: World, group: Group, released: list[Group]) -> bool:
    """Try without effect whether a group's missing members fit once others are released."""
    log, moves = list(world.log), world.moves
    before = [(ask, ask.place, ask.node, ask.held_order, ask.devices) for ask in world.asks()]
    for other in released:
        for ask in waiting(world, *other.gangs):
            let_go(world, ask)
    fits = all(_place(world, ask) for ask in iter(lambda: next_missing(world, group), None))
    for ask, place, node, held_order, devices in before:
        ask.place, ask.node, ask.held_order, ask.devices = place, node, held_order, devices
    world.log, world.moves = log, moves
    return fits


def next_missing(world: World, group: Group) -> Ask | None:
    """Give the next missing member, in the order of asks as it is by now."""
    missing: set[Ask] = set()
    for gang in group.gangs:
        definition = gang.definition
        if gang.satisfied or definition is None or holding(world, gang) >= definition.min_member:
            continue
        pending = [one for one in members(world, gang) if one.place is AskPlace.PENDING]
        missing |= set(awake(world, pending))
    return order.best_of(Picture(world), missing) if missing else None


def _place(world: World, ask: Ask) -> bool:
    picture = Picture(world)
    node = fitting(picture, ask)
    if node is not None:
        permits.hold(world, ask, node)
    return node is not None


def _help(world: World, group: Group, now_us: int) -> None:
    """Place the missing members of a group, all of which fit, and bind it."""
    while (ask := next_missing(world, group)) is not None:
        _place(world, ask)
        if not permits.permitted(world, group):
            world.log.append(ask.say(Kind.WAITING, ask.node))
    permits.satisfy(world, group, now_us)
