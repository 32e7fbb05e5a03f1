"""Rounds: the plain algorithm, which looks at everything anew before every single ask.

Deadlocks, parties and reservations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from enum import Enum

import attrs

from muster_core.config.model import DeadlockPolicy
from muster_core.decisions import Decision, Kind, Reason
from muster_core.snapshots import AskPlace
from tests.naive import gangs, node_choice, order, order as user_limits, state as scopes
from tests.naive.gangs import (
    Group,
    age,
    all_groups,
    group_of,
    holding,
    let_go,
    members,
    release,
    waiting,
)
from tests.naive.node_choice import first_node, fits_on, fitting, fullest
from tests.naive.picture import Picture, learn, present_priority, share, taken_anyway
from tests.naive.state import (
    ROOT,
    Ask,
    Gang,
    Instant,
    Node,
    Reservation,
    Searches,
    World,
    awake,
    backfill_scope,
    backs_off,
    estimate_us,
    instants,
    is_after_now,
    lineage,
    released_by,
)


def resolve(world: World, now_us: int) -> bool:
    """Help the first group that can be helped, or only say so; return whether anything changed."""
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
    """Return the unsatisfied groups with waiting members, the first to be helped first."""

    def key(group: Group) -> tuple[object, ...]:
        # The members of a satisfied gang are plain asks: nobody asks for help for them.
        needy = [gang for gang in group.gangs if not gang.satisfied]
        asks = [ask for gang in needy for ask in members(world, gang)]
        unbound = [ask for ask in asks if ask.place is not AskPlace.BOUND]
        return (-max(present_priority(world, ask) for ask in unbound), age(group.gangs[0]))

    groups = [group for group in all_groups(world) if not group.satisfied]
    return sorted((group for group in groups if waiting(world, *group.gangs)), key=key)


def may_be_helped(world: World, group: Group) -> bool:
    """Return whether a group could be complete now: no gang of it lacks anything but nodes."""
    if len(group.gangs) < len(group.names):
        return False
    return not any(_is_hopeless(world, gang) for gang in group.gangs)


def lets_members_through(world: World, group: Group) -> bool:
    """Return whether PreFilter refuses no gang of a group: undefined, short of children, timed out.

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
    """Return the next missing member, in the present order of asks."""
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
        gangs.hold(world, ask, node)
    return node is not None


def _help(world: World, group: Group, now_us: int) -> None:
    """Place the missing members of a group, all of which fit, and bind it."""
    while (ask := next_missing(world, group)) is not None:
        _place(world, ask)
        if not gangs.permitted(world, group):
            world.log.append(ask.say(Kind.WAITING, ask.node))
    gangs.satisfy(world, group, now_us)


@attrs.frozen
class Party:
    """An ask by itself, or what a group lacks.

    Attributes:
        asks: Who is to be placed.
        group: The names of the gangs of the group; none of an ask by itself.
    """

    asks: frozenset[Ask]
    group: frozenset[str] = frozenset()

    def is_that_of(self, reservation: Reservation) -> bool:
        """Return whether a reservation is for this group, whatever it lacked, or an ask of it."""
        if self.group and self.group == reservation.group:
            return True
        return bool(self.asks & reservation.asks)


def party_of(world: World, ask: Ask) -> Party | None:
    """Return the party of an ask; None if PreFilter refuses a gang of its group."""
    gang = gangs.constrained(world, ask)
    if gang is None:
        return Party(frozenset({ask}))
    group = group_of(world, gang.name)
    return (
        Party(_lacking(world, group), group.names) if lets_members_through(world, group) else None
    )


def _lacking(world: World, group: Group) -> frozenset[Ask]:
    """Return the members that a group lacks: of each gang the first in the present order."""
    picture, found = Picture(world), set[Ask]()
    for gang in group.gangs:
        definition = gang.definition
        if gang.satisfied or definition is None:
            continue
        number = definition.min_member - holding(world, gang)
        pending = [ask for ask in members(world, gang) if ask.place is AskPlace.PENDING]
        left = set(awake(world, pending))
        for _ in range(number):
            best = order.best_of(picture, left)
            if best is not None:
                found.add(best)
                left.remove(best)
    return frozenset(found)


def is_own(world: World, reservation: Reservation, ask: Ask) -> bool:
    """Return whether a reservation is that of the group which an ask waits for."""
    gang = gangs.constrained(world, ask)
    return gang is not None and gang.name in reservation.group


def staying(world: World, group: frozenset[str]) -> set[Ask]:
    """Return the asks of a group that hold nodes: they stay, as the group needs them."""
    return {ask for ask in world.asks() if ask.held and ask.gang in group}


Nodes = tuple[tuple[Ask, str], ...]
"""Who gets which node, one after another."""


def begin_round(world: World) -> None:
    """Begin a round, in which nothing is reserved yet."""
    world.reserved_before, world.reserved = world.reserved, []
    world.searches.append(Searches(world.moves))


def undelayed(world: World, ask: Ask) -> Callable[[Node], bool]:
    """Return what says of a node on which an ask fits whether it delays no reservation there."""
    return lambda node: first_delayed(world, ask, node) is None


def first_delayed(world: World, ask: Ask, node: Node) -> Reservation | None:
    """Return the first reservation that an ask would delay on a node on which it fits."""
    scope = backfill_scope(world, ask)
    others = [] if scope is None else in_force(world, scope.path)
    return next((one for one in others if _delays(world, one, ask, node)), None)


def in_force(world: World, scope: str) -> list[Reservation]:
    """Return the reservations of a scope that are in force now."""
    return [one for one in world.reserved if one.scope == scope]


def seek(world: World, ask: Ask) -> list[tuple[Ask, Node]]:
    """Seek a reservation for the party of an ask that did not fit, or was held back.

    Returns:
        Where a gang's party is assigned now, as its nodes were reserved and are free; nothing
        is reserved then.
    """
    scope = backfill_scope(world, ask)
    party = None if scope is None else party_of(world, ask)
    if scope is None or party is None:
        return []
    others = in_force(world, scope.path)
    known = any(party.is_that_of(one) for one in others)
    if known or len(others) >= scope.settings.backfill_depth:
        return []
    world.searches[-1].sought.setdefault(party.asks, world.moves)
    before = _before(world, party)
    if before is not None and party.group:
        now = _as_things_are(world, party, before)
        if now is not None:
            world.reached["bound from a reservation"] += 1
            return now
    found = first_start(world, party, others)
    made = _made(world, scope.path, party, found)
    if before is not None and _is_kept(world, party, before, found, others):
        world.reached["kept"] += 1
        made = Reservation(scope.path, party.group, before.start, before.nodes)
    if made is None:
        world.reached["found none"] += 1
    else:
        world.reached["reserved"] += 1
        world.reached["reserved for a gang"] += bool(party.group)
        world.reached["a start unknown"] += made.start.is_unknown
        world.reached["more than one in force"] += bool(others)
        world.reserved.append(made)
    return []


def first_start(
    world: World, party: Party, others: list[Reservation]
) -> tuple[Instant, Nodes] | None:
    """Return the first instant at which a party can be placed beside others, and where."""
    stay, there = staying(world, party.group), pending_nodes(others)
    for instant in instants(world):
        gone = released_by(world, instant, stay)
        with on_nodes(world, there, gone):
            nodes = _placed(world, gone, party)
        if nodes is not None:
            return (instant, nodes)
    return None


def is_placed(world: World, party: Party) -> bool:
    """Return whether a party can be placed now, without reservations of others."""
    return _placed(world, set(), party) is not None


def pending_nodes(reservations: Iterable[Reservation]) -> Nodes:
    """Return the nodes that are reserved for those who hold none."""
    return tuple(
        (ask, node)
        for one in reservations
        for ask, node in one.nodes
        if ask.place is AskPlace.PENDING
    )


def _made(
    world: World, scope: str, party: Party, found: tuple[Instant, Nodes] | None
) -> Reservation | None:
    return None if found is None else Reservation(scope, party.group, *found)


def _before(world: World, party: Party) -> Reservation | None:
    """Return the reservation that the round before left for the very same asks."""
    for one in world.reserved_before:
        if one.asks == party.asks:
            return one
    return None


def _is_kept(
    world: World,
    party: Party,
    before: Reservation,
    found: tuple[Instant, Nodes] | None,
    others: list[Reservation],
) -> bool:
    """Return whether the start and the nodes of the round before are kept."""
    if not is_after_now(world, before.start):
        return False
    if found is not None and found[0] < before.start:
        world.reached["an earlier start"] += 1
        return False
    gone = released_by(world, before.start, staying(world, party.group))
    with on_nodes(world, pending_nodes(others), gone):
        return _fit_on(world, gone, before.nodes)


def _as_things_are(
    world: World, party: Party, before: Reservation
) -> list[tuple[Ask, Node]] | None:
    """Return where a gang's party can be assigned now, each on the node reserved for it.

    A member may be of another scope than the reservation: those of its own scope hold it back.
    """
    reserved, left = dict(before.nodes), set(party.asks)
    found: list[tuple[Ask, Node]] = []
    while left:
        with on_nodes(world, ((ask, node.name) for ask, node in found)):
            picture = Picture(world)
            ask = order.best_of(picture, left)
            node = None if ask is None else world.nodes.get(reserved[ask])
            if ask is None or node is None or not fits_on(picture, node, ask):
                return None
            if first_delayed(world, ask, node) is not None:
                world.reached["held back from its own node"] += 1
                return None
        found.append((ask, node))
        left.remove(ask)
    return found


def _delays(world: World, reservation: Reservation, ask: Ask, node: Node) -> bool:
    """Return whether an ask would delay a reservation if it took a node on which it fits now."""
    if is_own(world, reservation, ask):
        return False
    if _ends_by(world, ask, reservation.start):
        world.reached["ends by the start"] += 1
        return False
    no_later = [one for one in in_force(world, reservation.scope) if one.start <= reservation.start]
    there = [(other, name) for other, name in pending_nodes(no_later) if other is not ask]
    gone = released_by(world, reservation.start, staying(world, reservation.group))
    with on_nodes(world, there, gone):
        fits = fits_on(Picture(world, gone), node, ask)
    world.reached["fits beside the party"] += fits
    return not fits


def _ends_by(world: World, ask: Ask, start: Instant) -> bool:
    """Return whether an ask that is bound now is expected to end by the start of a reservation."""
    length_us = estimate_us(world, ask)
    gang = gangs.constrained(world, ask)
    if gang is not None:
        group = group_of(world, gang.name)
        if not group.strict or not may_be_helped(world, group):
            return False
    return length_us is not None and Instant(False, world.now_us + length_us) <= start


def _placed(world: World, gone: set[Ask], party: Party) -> Nodes | None:
    """Try without effect to place a party once some are gone, one member after another."""
    left, found = set(party.asks), list[tuple[Ask, str]]()
    while left:
        with on_nodes(world, found, gone):
            picture = Picture(world, gone)
            ask = order.best_of(picture, left)
            node = None if ask is None else fitting(picture, ask)
        if ask is None or node is None:
            return None
        found.append((ask, node.name))
        left.remove(ask)
    return tuple(found)


def _fit_on(world: World, gone: set[Ask], nodes: Nodes) -> bool:
    """Return whether asks fit their nodes once some are gone, one after another."""
    for place, (ask, name) in enumerate(nodes):
        with on_nodes(world, nodes[:place], gone):
            node = world.nodes.get(name)
            if node is None or not fits_on(Picture(world, gone), node, ask):
                return False
    return True


@contextmanager
def on_nodes(
    world: World, nodes: Iterable[tuple[Ask, str]], gone: Collection[Ask] = ()
) -> Generator[None]:
    """Let pending asks hold nodes for a while, without effect; no node was chosen later.

    Args:
        world: What there is.
        nodes: Who gets which node, one after another.
        gone: Who holds nothing meanwhile, so that its devices are free.
    """
    before: list[tuple[Ask, AskPlace, str | None, int, dict[str, tuple[int, ...]] | None]] = []
    for ask, name in nodes:
        before.append((ask, ask.place, ask.node, ask.held_order, ask.devices))
        if ask.needs:
            ask.devices = taken_anyway(Picture(world, gone), world.nodes[name], ask)
        ask.place, ask.node, ask.held_order = AskPlace.WAITING, name, world.moves + 1
    try:
        yield
    finally:
        for ask, place, node, held_order, devices in reversed(before):
            ask.place, ask.node, ask.held_order, ask.devices = place, node, held_order, devices


def packed(world: World, group: Group, shut: set[str]) -> list[tuple[Ask, Node]] | None:
    """Return where all that a Strict group lacks is placed in its second try, if all of it is.

    Args:
        world: What there is.
        group: The group, which holds nothing any more.
        shut: The leaves and scopes that were shut before its member failed.
    """
    if not world.queues[ROOT].settings.second_try or not may_be_helped(world, group):
        return None
    found: list[tuple[Ask, Node]] = []
    for ask in _hardest_first(world, group):
        if not shut.isdisjoint(lineage(ask.app.queue)):
            return None
        with on_nodes(world, ((one, node.name) for one, node in found)):
            node = fullest(Picture(world), ask, undelayed(world, ask))
        if node is None:
            return None
        found.append((ask, node))
    return found


def _hardest_first(world: World, group: Group) -> list[Ask]:
    """Return what a group lacks: who needs a node, then who selects nodes, then the largest."""
    picture, left, found = Picture(world), set(_lacking(world, group)), list[Ask]()
    while (best := order.best_of(picture, left)) is not None:
        found.append(best)
        left.remove(best)

    def hardness(ask: Ask) -> tuple[int, float]:
        shares = [share(some, picture.total.get(name, 0)) for name, some in ask.wants.items()]
        choice = 0 if ask.required is not None else 1 if ask.selector else 2
        return (choice, -max(shares, default=0.0))

    return sorted(found, key=hardness)


State = frozenset[tuple[object, ...]]


def run_rounds(world: World, now_us: int) -> None:
    """Do rounds until one changes nothing, never twice from one state."""
    seen: set[State] = set()
    while (before := comparable_state(world)) not in seen:
        seen.add(before)
        if _Round(world, now_us).run():
            seen.clear()


def comparable_state(world: World) -> State:
    """Return the bound, the waiting and the pending asks, to be compared."""
    asks = [ask for ask in world.asks() if ask.place is not AskPlace.PARKED]
    return frozenset(
        (ask.app.name, ask.name, ask.place, ask.node, *sorted((ask.devices or {}).items()))
        for ask in asks
    )


class _Outcome(Enum):
    """What became of a member that was tried."""

    REFUSED = "refused"
    WAITS = "waits"
    SATISFIED = "satisfied"
    RELEASED = "released"


@attrs.frozen
class _StateBefore:
    """The state before an attempt.

    Attributes:
        log_length: The length of the log; a failed attempt is cut off there.
        waiting: The members of the group that waited; they are announced as released.
    """

    log_length: int
    waiting: list[Ask]


class _Round:
    """One round: which asks were tried in it, and which blocking leaves and scopes are shut."""

    def __init__(self, world: World, now_us: int) -> None:
        self._world = world
        self._now_us = now_us
        self._tried: set[Ask] = set()
        self._blocked: set[str] = set()
        self._a_bind_failed = False
        #: What is seen as long as nothing changes.
        self._seen: Picture | None = None

    def run(self) -> bool:
        """Try every ask once, best first; return whether a bind failed."""
        self._start()
        while (ask := self._best(self._look(), ROOT)) is not None:
            self._try(ask)
            node_choice.check(self._look(), *self._world.pending())
        return self._a_bind_failed

    def _look(self) -> Picture:
        """Return the picture of the present state; every change discards it."""
        if self._seen is None:
            self._seen = Picture(self._world)
        return self._seen

    def _start(self) -> None:
        """Begin new cycles, and bind what may be bound already."""
        world = self._world
        learn(world)
        begin_round(world)
        node_choice.check(Picture(world), *world.pending())
        for gang in world.gangs.values():
            gang.cycle_valid, gang.failed = True, None
        for group in all_groups(world):
            if gangs.permitted(world, group):
                self._failed(gangs.satisfy(world, group, self._now_us))
            else:
                satisfied = [gang for gang in group.gangs if gang.satisfied]
                ready = waiting(world, *satisfied)
                self._failed(gangs.bind_all(world, ready, self._now_us))

    def _failed(self, asks: list[Ask]) -> None:
        """Take note of binds that failed: the asks were tried in this round."""
        self._tried.update(asks)
        self._a_bind_failed |= bool(asks)

    def _best(self, picture: Picture, path: str) -> Ask | None:
        if path in self._blocked or not picture.enters(path):
            return None
        for child in order.children(picture, path):
            found = self._best(picture, child.path)
            if found is not None:
                return found
        for app in order.applications(picture, path):
            for ask in awake(self._world, order.asks(picture, app)):
                if ask not in self._tried:
                    return ask
        return None

    def _try(self, ask: Ask) -> None:
        gang = gangs.constrained(self._world, ask)
        if gang is not None:
            self._attempt(gang, ask)
            return
        self._tried.add(ask)
        limited = bool(user_limits.over(self._look(), ask))
        node = self._filter(ask)
        if node is None:
            if not limited:
                seek(self._world, ask)
            return
        self._seen = None
        gangs.hold(self._world, ask, node)
        self._failed(gangs.bind_all(self._world, [ask], self._now_us))

    def _filter(self, ask: Ask) -> Node | None:
        """Find a node for an ask; where there is none, a blocking leaf or scope is shut.

        Not so if a limit of its user or group stands against it, whatever else does.
        """
        world, picture = self._world, self._look()
        if user_limits.over(picture, ask):
            return None
        node = None
        if not self._is_blocked(ask) and picture.fits_headroom(ask):
            node = first_node(picture, ask, undelayed(world, ask))
            if node is None and first_node(picture, ask) is not None:
                world.reached["held back"] += 1
        if node is None:
            self._blocked |= scopes.blocked_by(world, ask)
        return node

    def _is_blocked(self, ask: Ask) -> bool:
        """Return whether the leaf of an ask, or the strict scope that it is in, is shut."""
        return not self._blocked.isdisjoint(lineage(ask.app.queue))

    def _attempt(self, gang: Gang, first: Ask) -> None:
        """Try a member of an unsatisfied gang and, once it holds a node, the others."""
        world = self._world
        before = _StateBefore(len(world.log), waiting(world, *group_of(world, gang.name).gangs))
        if self._member(first, before) is not _Outcome.WAITS:
            return
        while (ask := self._next(gang)) is not None:
            if self._member(ask, before) in {_Outcome.SATISFIED, _Outcome.RELEASED}:
                return

    def _member(self, ask: Ask, before: _StateBefore) -> _Outcome:
        world = self._world
        self._tried.add(ask)
        gang = world.gangs[ask.gang or ""]
        if gangs.is_refused(world, gang):
            return _Outcome.REFUSED
        group = group_of(world, gang.name)
        blocked = self._is_blocked(ask)
        limited = bool(user_limits.over(self._look(), ask))
        world.reached["blocked member"] += blocked
        shut = set(self._blocked)
        node = self._filter(ask)
        self._seen = None
        if node is None:
            outcome = self._fails(ask, group, before)
            if outcome is _Outcome.RELEASED and (places := packed(world, group, shut)) is not None:
                world.reached["second try"] += 1
                return self._bind_at(group, places)
            return outcome if blocked or limited else self._reserve(ask, group, outcome)
        gangs.hold(world, ask, node)
        if gangs.permitted(world, group):
            self._failed(gangs.satisfy(world, group, self._now_us))
            return _Outcome.SATISFIED
        world.log.append(ask.say(Kind.WAITING, node.name))
        return _Outcome.WAITS

    def _fails(self, ask: Ask, group: Group, before: _StateBefore) -> _Outcome:
        """A member fitted nowhere: of a Strict group nothing waits any longer."""
        world = self._world
        if not group.strict:
            return _Outcome.REFUSED
        del world.log[before.log_length :]
        for gang in group.gangs:
            gang.cycle_valid, gang.failed = False, ask.full
        release(world, before.waiting, Reason.GANG_ROLLBACK)
        for other in waiting(world, *group.gangs):
            let_go(world, other)
        return _Outcome.RELEASED

    def _reserve(self, ask: Ask, group: Group, outcome: _Outcome) -> _Outcome:
        """Seek nodes for what a group lacks; bind it there if they were kept, and are free now."""
        found = seek(self._world, ask)
        return self._bind_at(group, found) if found else outcome

    def _bind_at(self, group: Group, places: list[tuple[Ask, Node]]) -> _Outcome:
        """Place all that a group lacks, and bind it."""
        world = self._world
        for member, node in places:
            gangs.hold(world, member, node)
            if not gangs.permitted(world, group):
                world.log.append(member.say(Kind.WAITING, node.name))
        self._failed(gangs.satisfy(world, group, self._now_us))
        return _Outcome.SATISFIED

    def _next(self, gang: Gang) -> Ask | None:
        """Return the next member that is activated."""
        world = self._world
        group = group_of(world, gang.name)
        unsatisfied = [one for one in group.gangs if not one.satisfied]
        asks = {ask for one in unsatisfied for ask in members(world, one)}
        pending = [ask for ask in asks if ask.place is AskPlace.PENDING]
        untried = set(awake(world, pending)) - self._tried
        return order.best_of(self._look(), untried) if untried else None
