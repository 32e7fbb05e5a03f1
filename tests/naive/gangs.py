"""Gangs of the naive model: members, groups, definitions, waits, and the steps of a member up to
the bind of its group.
"""

from __future__ import annotations

import attrs

from muster_core.decisions import Decision, Kind, Reason
from muster_core.errors import RefusedError
from muster_core.gangs import NO_FIELDS, GangFields, GangMode
from muster_core.snapshots import AskPlace
from tests.naive import directory, state
from tests.naive.picture import Picture, taken_by
from tests.naive.state import ROOT, Ask, Gang, Node, World

_FIELDS = ("min_member", "total", "mode", "wait_us", "groups")


@attrs.frozen
class Group:
    """What is connected through the lists of gangs that are defined.

    Attributes:
        names: All names, those of gangs that do not exist too.
        gangs: The gangs that exist, in order of creation, then by name; undefined ones last.
    """

    names: frozenset[str]
    gangs: tuple[Gang, ...]

    @property
    def strict(self) -> bool:
        """One of its gangs is."""
        found = [gang.definition for gang in self.gangs]
        return any(one is not None and one.mode is GangMode.STRICT for one in found)

    @property
    def satisfied(self) -> bool:
        """All of its gangs are."""
        return len(self.gangs) == len(self.names) and all(gang.satisfied for gang in self.gangs)


def age(gang: Gang) -> tuple[bool, int, str]:
    """Return what gangs are sorted by: creation, then name; undefined ones last."""
    return (gang.creation is None, gang.creation or 0, gang.name)


def group_of(world: World, name: str) -> Group:
    """Return the group of a gang."""
    links: set[frozenset[str]] = set()
    for gang in world.gangs.values():
        definition = gang.definition
        if definition is not None:
            links |= {frozenset({gang.name, other}) for other in definition.groups}
    names = {name}
    while more := {other for link in links if link & names for other in link} - names:
        names |= more
    found = [gang for gang in world.gangs.values() if gang.name in names]
    return Group(frozenset(names), tuple(sorted(found, key=age)))


def all_groups(world: World) -> list[Group]:
    """Return every group, in the order of the creation of its oldest gang."""
    groups = {group.names: group for group in (group_of(world, name) for name in world.gangs)}
    return sorted(groups.values(), key=lambda group: age(group.gangs[0]))


def members(world: World, gang: Gang) -> list[Ask]:
    """Return the members of a gang: its asks that exist."""
    return [ask for ask in world.asks() if ask.gang == gang.name]


def holding(world: World, gang: Gang) -> int:
    """Return how many members of a gang have a node."""
    return sum(ask.held for ask in members(world, gang))


def waiting(world: World, *gangs: Gang) -> list[Ask]:
    """Return the waiting members of some gangs, in the order in which they began to wait."""
    names = {gang.name for gang in gangs}
    return [ask for ask in world.waiting() if ask.gang in names]


def let_go(world: World, ask: Ask) -> None:
    """Take an ask from its node; it is pending again, or parked if its gang has timed out."""
    gang = None if ask.gang is None else world.gangs[ask.gang]
    parked = gang is not None and gang.timed_out
    ask.place = AskPlace.PARKED if parked else AskPlace.PENDING
    ask.node = None
    ask.devices = None
    ask.ends_at = None


def release(world: World, asks: list[Ask], reason: Reason, message: str | None = None) -> None:
    """Release asks that hold a node and stay, and say so."""
    for ask in asks:
        decision = ask.say(Kind.RELEASED, ask.node, reason)
        world.log.append(decision._replace(message=message))
        let_go(world, ask)


def mark(world: World, gang: Gang) -> None:
    """Mark a gang as timed out, unless it is already; its members are parked."""
    if not gang.timed_out:
        gang.timed_out = True
        world.log.append(Decision(Kind.GANG_TIMED_OUT, gang=gang.name))
    for ask in members(world, gang):
        if not ask.held:
            ask.place = AskPlace.PARKED


def unmark(world: World, gang: Gang) -> None:
    """Take the mark from a gang; its parked members are pending again."""
    gang.timed_out, gang.timeout = False, None
    for ask in members(world, gang):
        if ask.place is AskPlace.PARKED:
            ask.place = AskPlace.PENDING


def unsatisfy_if_lost(world: World, gang: Gang) -> None:
    """Make a gang unsatisfied again, after a step that took nodes or binds from its members.

    It is, if none of its members is bound, and those that it has are enough to begin anew.
    """
    definition = gang.definition
    there = members(world, gang)
    if not gang.satisfied or definition is None or len(there) < definition.min_member:
        return
    if all(ask.place is not AskPlace.BOUND for ask in there):
        gang.satisfied, gang.since_us = False, None


def check_joining(world: World, name: str, says: GangFields) -> None:
    """Check that a member that says this may come.

    Raises:
        RefusedError: If it disagrees with a member that is there, or with the object.
    """
    gang = world.gangs.get(name, Gang(name))
    for field in _FIELDS:
        new = getattr(says, field)
        values = {getattr(ask.says, field) for ask in members(world, gang)} - {None}
        if new is not None and values - {new}:
            msg = f"annotations: {field} {new!r} disagrees with {values}"
            raise RefusedError(msg)
    _merged(world, gang, gang.manifest, says)


def join(world: World, asks: list[Ask]) -> None:
    """Let the members of one event join their gang, all of which say the same."""
    name = asks[0].gang
    if name is None:
        return
    gang = world.gangs.setdefault(name, Gang(name))
    _define(world, gang, gang.manifest, asks[0].says)
    if gang.timed_out:
        for ask in asks:
            ask.place = AskPlace.PARKED


def give_object(world: World, name: str, says: GangFields) -> None:
    """Give a gang its object, or another one.

    Raises:
        RefusedError: If that does not go with what annotations say.
    """
    gang = world.gangs.get(name, Gang(name))
    _define(world, gang, says, NO_FIELDS)
    world.gangs[name] = gang


def _merged(
    world: World, gang: Gang, manifest: GangFields | None, says: GangFields
) -> tuple[GangFields, GangFields]:
    """Return what annotations say with ``says``, and what they and the object say together."""
    noted = says.over(gang.noted)
    fields = noted.over(manifest or NO_FIELDS)
    if gang.forgotten and fields.min_member is not None:
        for ask in members(world, gang):
            noted = noted.over(ask.says)
        fields = noted.over(manifest or NO_FIELDS)
    if None not in {fields.min_member, fields.total} and fields.total < fields.min_member:  # type: ignore[operator]
        msg = f"total: {fields.total} is less than {fields.min_member}"
        raise RefusedError(msg)
    return noted, fields


def _define(world: World, gang: Gang, manifest: GangFields | None, says: GangFields) -> None:
    noted, fields = _merged(world, gang, manifest, says)
    gang.noted, gang.manifest = noted, manifest
    if fields.min_member is not None:
        gang.forgotten = False
        gang.creation = world.positions if gang.creation is None else gang.creation


def undefine(world: World, gang: Gang) -> None:
    """Forget the definition of a gang; its members stay in a placeholder."""
    release(world, waiting(world, gang), Reason.GANG_ROLLBACK)
    gang.manifest, gang.noted, gang.forgotten, gang.creation = None, NO_FIELDS, True, None
    gang.satisfied, gang.since_us, gang.timeouts = False, None, 0
    unmark(world, gang)
    tidy(world)


def tidy(world: World) -> None:
    """Make gangs without members as new; without an object they are gone."""
    there = {ask.gang for ask in world.asks()}
    for gang in list(world.gangs.values()):
        if gang.name in there:
            continue
        if gang.manifest is None:
            del world.gangs[gang.name]
        else:
            world.gangs[gang.name] = Gang(
                gang.name, gang.manifest, creation=gang.creation, cycle_valid=gang.cycle_valid
            )


def is_empty(world: World, name: str | None) -> bool:
    """Return whether there is a gang of a name, and none of its members."""
    return name is not None and not members(world, world.gangs[name])


def deadline(world: World, gang: Gang) -> int | None:
    """Return the instant at which the present wait of a gang has lasted too long."""
    definition = gang.definition
    if gang.since_us is None or definition is None:
        return None
    return gang.since_us + (definition.wait_us or world.queues[ROOT].settings.gang_wait_us)


def keep_clocks(world: World, now_us: int) -> None:
    """Begin or end the waits of all gangs, at the end of a batch."""
    for gang in world.gangs.values():
        if not waiting(world, gang):
            gang.since_us = None
        elif gang.since_us is None:
            gang.since_us = now_us


def timers(world: World, now_us: int) -> None:
    """Time out the groups of the gangs that have waited too long, in order of creation."""
    for gang in sorted(world.gangs.values(), key=age):
        due = deadline(world, gang)
        if due is None or due > now_us:
            continue
        group = group_of(world, gang.name)
        release(world, waiting(world, *group.gangs), Reason.GANG_TIMEOUT)
        marked: list[Gang] = []
        for one in group.gangs:
            one.since_us = None
            there = members(world, one)  # A gang without members is as new: not timed out.
            if one.definition is not None and not one.satisfied and there:
                marked += [] if one.timed_out else [one]
                mark(world, one)
        for one in marked:
            one.timeouts += 1
        for one in marked:
            one.timeout = (now_us, max(other.timeouts for other in marked))


def retry_at_us(world: World, gang: Gang) -> int | None:
    """Return the instant at which a gang loses the mark of a timeout, if it ever does."""
    settings = world.queues[ROOT].settings
    if gang.timeout is None or not settings.gang_retry_us:
        return None
    at_us, number = gang.timeout
    if number > settings.gang_retry_limit:
        return None
    most = min(number - 1, 6)
    return at_us + (settings.gang_retry_us << most)


def retries(world: World, now_us: int) -> None:
    """Try gangs again that have backed off for long enough, in order of creation."""
    for gang in sorted(world.gangs.values(), key=age):
        at_us = retry_at_us(world, gang)
        if at_us is not None and at_us <= now_us:
            unmark(world, gang)
            world.log.append(Decision(Kind.GANG_RETRY, gang=gang.name))
            world.reached["retry of a gang"] += 1


def constrained(world: World, ask: Ask) -> Gang | None:
    """Return the gang that constrains an ask: its own, unless that is satisfied."""
    gang = None if ask.gang is None else world.gangs[ask.gang]
    return None if gang is None or gang.satisfied else gang


def is_refused(world: World, gang: Gang) -> bool:
    """Return whether PreFilter refuses a member of an unsatisfied gang now."""
    definition = gang.definition
    if definition is None or gang.timed_out:
        return True
    least = definition.min_member
    if len(members(world, gang)) < least or holding(world, gang) >= least:
        return True
    return group_of(world, gang.name).strict and not gang.cycle_valid


def permitted(world: World, group: Group) -> bool:
    """Return whether every gang of a group has what it needs."""
    return len(group.gangs) == len(group.names) and all(
        has_enough(world, gang) for gang in group.gangs
    )


def has_enough(world: World, gang: Gang) -> bool:
    """Return whether a gang has what it needs."""
    definition = gang.definition
    if definition is None or gang.timed_out:
        return False
    return gang.satisfied or holding(world, gang) >= definition.min_member


def hold(world: World, ask: Ask, node: Node) -> None:
    """Let an ask hold a node; nothing is bound yet, and whether it waits is still open."""
    world.moves += 1
    ask.devices = taken_by(Picture(world), node, ask)
    ask.place, ask.node, ask.held_order = AskPlace.WAITING, node.name, world.moves
    decision = ask.say(Kind.ASSIGNED, node.name)
    world.log.append(decision._replace(devices=ask.devices))


def satisfy(world: World, group: Group, now_us: int) -> list[Ask]:
    """Satisfy a group and bind what waits of it; return those whose bind failed."""
    decisions: dict[str, Decision] = {}
    for gang in group.gangs:
        if not gang.satisfied:
            gang.satisfied = True
            decisions[gang.name] = Decision(Kind.GANG_SATISFIED, gang=gang.name)
            world.log.append(decisions[gang.name])
    failed = bind_all(world, waiting(world, *group.gangs), now_us)
    for gang in group.gangs:
        if not gang.satisfied:  # All its binds have failed: it is not announced as satisfied.
            world.log[:] = [one for one in world.log if one is not decisions.get(gang.name)]
    return failed


def bind_all(world: World, asks: list[Ask], now_us: int) -> list[Ask]:
    """Bind asks that hold a node, in this order and one step; return those whose bind failed."""
    failed = [ask for ask in asks if not _bind(world, ask, now_us)]
    for gang in world.gangs.values():
        if gang.name in {ask.gang for ask in failed}:
            unsatisfy_if_lost(world, gang)
    return failed


def bind(world: World, ask: Ask, now_us: int) -> bool:
    """Bind an ask by itself to the node that it holds; return whether that went well."""
    return not bind_all(world, [ask], now_us)


def _bind(world: World, ask: Ask, now_us: int) -> bool:
    if ask.failures:
        ask.failures -= 1
        world.log.append(ask.say(Kind.RELEASED, ask.node, Reason.BIND_FAILED))
        let_go(world, ask)
        ask.keeps = False
        state.failed(ask, now_us)
        return False
    world.moves += 1
    ask.place, ask.bound_order, ask.keeps = AskPlace.BOUND, world.moves, False
    ask.bound_at_us = now_us
    ask.ends_at = None if ask.run_for_us is None else now_us + ask.run_for_us
    ask.limit_us = state.run_limit_us(world, ask)
    world.log.append(ask.say(Kind.BOUND, ask.node))
    world.rounds.bound.append(ask)
    directory.ask_bound(world, ask.app, now_us)
    return True
