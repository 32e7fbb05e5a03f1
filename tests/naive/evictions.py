"""Reclaim and preemption in the naive model.

Who may take from whom, what one ask would take where, and what is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs
from typing_extensions import override

from muster_core.config.model import PreemptionPolicy, Settings
from muster_core.decisions import Kind, Reason
from muster_core.snapshots import AskPlace
from tests.naive import directory, gangs, node_choice, order, order as user_limits, state
from tests.naive.gangs import Group, group_of, holding, let_go, members, unsatisfy_if_lost, waiting
from tests.naive.node_choice import (
    fitting,
    fitting_in_claims,
    is_open,
    is_service,
    lacks,
    matches,
    nodes_of_plans,
)
from tests.naive.picture import Picture
from tests.naive.rounds import may_be_helped, next_missing
from tests.naive.state import ROOT, Ask, Gang, Node, Trial, World, alike, evicted, lineage


@attrs.frozen
class Claim(ABC):
    """What one ask may take in the present state.

    Attributes:
        world: What there is.
        ask: The ask.
        top: The queue inside which victims are looked for.
    """

    world: World
    ask: Ask
    top: str

    @property
    @abstractmethod
    def reason(self) -> Reason:
        """Why victims are released."""

    @abstractmethod
    def in_scope(self, victim: Ask) -> bool:
        """Return whether an ask with a node can be a victim at all."""

    @abstractmethod
    def may_lose(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        """Return whether a victim may go now, and all of its unit with it."""

    @abstractmethod
    def order(self, picture: Picture, victim: Ask) -> tuple[object, ...]:
        """Return the key that sorts victims now."""

    @abstractmethod
    def rank(self, victim: Ask) -> tuple[int, ...]:
        """Return the key that orders nodes by their victims: the lowest loses its victims first."""

    @abstractmethod
    def message(self, victim: Ask) -> str:
        """Return the message about a victim, for people."""

    def _inside(self, victim: Ask) -> bool:
        """Return whether a victim is below the top, no partner of the ask and no node service."""
        if is_service(self.world, victim):
            return False
        if self.ask.gang is not None and victim.gang is not None:
            group = group_of(self.world, self.ask.gang)
            if victim.gang in group.names:
                return False
        return victim.held and self.top in lineage(victim.app.queue)

    def _keeps_guarantees(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        """Return whether the loss of a unit leaves the queues of one of it what is guaranteed."""
        paths = branch(victim.app.queue, self.ask.app.queue)
        return keeps_guarantees(picture, paths, victim, unit)


def keeps_guarantees(
    picture: Picture, paths: Sequence[str], victim: Ask, unit: Sequence[Ask]
) -> bool:
    """Return whether the loss of a unit leaves some queues of one of it what is guaranteed."""
    for path in paths:
        least = deserved_by(picture.world, path)
        inside = [one for one in unit if path in lineage(one.app.queue)]
        for name in victim.wants:
            loss = sum(one.wants.get(name, 0) for one in inside)
            if picture.allocated[path].get(name, 0) - loss < least.get(name, 0):
                return False
    return True


def protection_ends(world: World, ask: Ask) -> int:
    """Return the instant from which on a bound ask may be taken, as its leaf has it."""
    return ask.bound_at_us + world.queues[ask.app.queue].settings.min_runtime_us


def is_protected(world: World, ask: Ask) -> bool:
    """Return whether an ask has not been bound for long enough to be taken."""
    protected = ask.place is AskPlace.BOUND and world.now_us < protection_ends(world, ask)
    world.reached["protected"] += protected
    return protected


@attrs.frozen
class Reclaim(Claim):
    """A queue takes back what it is guaranteed.

    Attributes:
        claimant: That queue.
    """

    claimant: str

    @property
    @override
    def reason(self) -> Reason:
        return Reason.RECLAIMED

    @override
    def in_scope(self, victim: Ask) -> bool:
        leaf = victim.app.queue
        if self.claimant in lineage(leaf) or not self._inside(victim):
            return False
        settings = self.world.queues[leaf].settings
        return (
            settings.reclaimable and takes_part(settings) and not is_protected(self.world, victim)
        )

    @override
    def may_lose(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        leaf = victim.app.queue
        used, least = picture.allocated[leaf], deserved_by(self.world, leaf)
        above = any(used.get(name, 0) > least.get(name, 0) for name in victim.wants)
        return above and self._keeps_guarantees(picture, victim, unit)

    @override
    def order(self, picture: Picture, victim: Ask) -> tuple[object, ...]:
        share = picture.fair_share(victim.app.queue)
        return (self.rank(victim), -share, victim.priority, -victim.held_order)

    @override
    def rank(self, victim: Ask) -> tuple[int, ...]:
        down = reversed(branch(victim.app.queue, self.ask.app.queue))
        levels = [self.world.queues[path].settings.queue_priority for path in down]
        depth = max(len(lineage(path)) for path in self.world.queues)
        return tuple(levels + [0] * (depth - len(levels)))

    @override
    def message(self, victim: Ask) -> str:
        by_weight = self.claimant in self.world.deserved
        self.world.reached["reclaimed by weight"] += by_weight
        least = "what it deserves" if by_weight else "its guaranteed"
        return f"for {full_name(self.ask)}: {self.claimant} is below {least}"


@attrs.frozen
class Preemption(Claim):
    """An ask takes from asks of lower effective priority."""

    @property
    @override
    def reason(self) -> Reason:
        return Reason.PREEMPTED

    @override
    def in_scope(self, victim: Ask) -> bool:
        if not self._inside(victim) or not takes_part(self.world.queues[victim.app.queue].settings):
            return False
        return self._victim_priority(victim) < self._ask_priority(victim) and not is_protected(
            self.world, victim
        )

    @override
    def may_lose(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        return self._keeps_guarantees(picture, victim, unit)

    @override
    def order(self, picture: Picture, victim: Ask) -> tuple[object, ...]:
        return (self._victim_priority(victim), -victim.held_order)

    @override
    def rank(self, victim: Ask) -> tuple[int, ...]:
        return (self._victim_priority(victim),)

    @override
    def message(self, victim: Ask) -> str:
        own, other = self._ask_priority(victim), self._victim_priority(victim)
        return f"for {full_name(self.ask)}: its effective priority {own} is above {other}"

    def _victim_priority(self, victim: Ask) -> int:
        """Return the effective priority of a victim, beside the ask."""
        return effective_priority(self.world, victim, self.ask.app.queue)

    def _ask_priority(self, victim: Ask) -> int:
        """Return the effective priority of the ask, beside a victim."""
        return effective_priority(self.world, self.ask, victim.app.queue)


@attrs.frozen
class Service(Claim):
    """A node service takes room on its node, wherever the victims' queues are."""

    @property
    @override
    def reason(self) -> Reason:
        return Reason.PREEMPTED

    @override
    def in_scope(self, victim: Ask) -> bool:
        return self._inside(victim) and victim.priority <= self.ask.priority

    @override
    def may_lose(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        return True

    @override
    def order(self, picture: Picture, victim: Ask) -> tuple[object, ...]:
        return (victim.priority, -victim.held_order)

    @override
    def rank(self, victim: Ask) -> tuple[int, ...]:
        return (victim.priority,)

    @override
    def message(self, victim: Ask) -> str:
        return f"for {full_name(self.ask)}: it is a node service and requires {self.ask.required}"


def effective_priority(world: World, ask: Ask, other_leaf: str) -> int:
    """Return the priority of an ask as seen from where its path meets that of another leaf."""
    value = ask.priority
    for path in branch(ask.app.queue, other_leaf):
        settings = world.queues[path].settings
        value = settings.offset if settings.fence else value + settings.offset
    return value


def branch(path: str, other: str) -> list[str]:
    """Return a queue and those above it, up to below where its path meets that of another one."""
    return [prefix for prefix in lineage(path) if prefix not in lineage(other)]


def reclaim(picture: Picture, ask: Ask, now_us: int) -> Claim | None:
    """Return what an ask may reclaim; None if nothing at all."""
    world, claimant = picture.world, _claimant(picture, ask)
    if claimant is None or not _may_ask(world, ask, now_us):
        return None
    return Reclaim(world, ask, _fence(world, claimant), claimant)


def service(picture: Picture, ask: Ask, _: int) -> Claim:
    """Return what a node service may take that lacks only room: always something, and at once."""
    return Service(picture.world, ask, ROOT)


def preemption(picture: Picture, ask: Ask, now_us: int) -> Claim | None:
    """Return what an ask may preempt; None if nothing at all."""
    world = picture.world
    if not ask.preempts or not _may_ask(world, ask, now_us):
        return None
    return Preemption(world, ask, _fence(world, ask.app.queue))


def may_come_true(world: World, ask: Ask) -> bool:
    """Return whether an ask could ever claim anything once its delay is over."""
    settings = world.queues[ask.app.queue].settings
    if not world.config.preemption_enabled or not takes_part(settings):
        return False
    above = [path for path in lineage(ask.app.queue) if path != ROOT]
    return ask.preempts or any(_types_with_a_right(world, path, ask) for path in above)


def delay_ends(world: World, ask: Ask) -> int:
    """Return the instant from which on an ask may claim something."""
    return ask.since_us + world.queues[ask.app.queue].settings.preemption_delay_us


def _may_ask(world: World, ask: Ask, now_us: int) -> bool:
    settings = world.queues[ask.app.queue].settings
    ready = now_us >= delay_ends(world, ask)
    return world.config.preemption_enabled and takes_part(settings) and ready


def takes_part(settings: Settings) -> bool:
    """Return whether the asks of a leaf may take, and may be taken."""
    return settings.preemption_policy is not PreemptionPolicy.DISABLED


def _claimant(picture: Picture, ask: Ask) -> str | None:
    """Return the nearest queue that may reclaim for an ask."""
    for path in lineage(ask.app.queue):
        least, named = (
            deserved_by(picture.world, path),
            _types_with_a_right(picture.world, path, ask),
        )
        used = picture.allocated[path]
        within = all(used.get(t, 0) + ask.wants[t] <= least.get(t, 0) for t in named)
        if path != ROOT and named and within:
            return path
    return None


def deserved_by(world: World, path: str) -> Mapping[str, int]:
    """Return what a queue keeps and may take back: by weight, or else what it is guaranteed."""
    return world.deserved.get(path, world.queues[path].guaranteed)


def _types_with_a_right(world: World, path: str, ask: Ask) -> list[str]:
    """Return the types of an ask that a queue has a right to; by weight that is each."""
    if path in world.deserved:
        return list(ask.wants)
    return [name for name in ask.wants if world.queues[path].guaranteed[name]]


def _fence(world: World, path: str) -> str:
    """Return the nearest queue from here upward with a fence, or the root."""
    for prefix in lineage(path):
        if world.queues[prefix].settings.preemption_policy is PreemptionPolicy.FENCE:
            return prefix
    return ROOT


def full_name(ask: Ask) -> str:
    return f"{ask.app.name}/{ask.name}"


Unit = tuple[Ask, ...]
"""What goes together, in the order of victims."""


@attrs.frozen
class Plan:
    """The victims that make room for an ask.

    Attributes:
        claim: What it may take.
        node: Where it is to be placed.
        victims: What goes, in the order in which it was taken.
    """

    claim: Claim
    node: Node
    victims: tuple[Ask, ...]


def plan_for(claim: Claim) -> Plan | None:
    """Return the best plan for an ask that fits nowhere, or None if no node works."""
    plans: list[tuple[tuple[object, ...], Plan]] = []
    for place, node in enumerate(nodes_of_plans(Picture(claim.world), claim.ask)):
        may = matches(node, claim.ask) and is_open(claim.world, node, claim.ask)
        lost = (alike(claim.ask), node.name) in claim.world.lost
        units = _taken_on(claim, node) if may and not lost else None
        if units is None:
            continue
        victims = tuple(ask for unit in _spared(claim, node, units) for ask in unit)
        claim.world.reached["victims by devices"] += any(
            set(one.devices or ()) & set(claim.ask.needs) for one in victims
        )
        highest = max(claim.rank(victim) for victim in victims)
        plans.append(((highest, len(victims), place), Plan(claim, node, victims)))
    return min(plans, key=lambda one: one[0])[1] if plans else None


def fits(picture: Picture, node: Node, ask: Ask) -> bool:
    """Return whether an ask has room on a node and in the quotas above it."""
    return not lacks(picture, node, ask) and picture.fits_headroom(ask)


def gone_of(units: Sequence[Unit]) -> set[Ask]:
    """Return all asks of some units."""
    return {ask for unit in units for ask in unit}


def _taken_on(claim: Claim, node: Node) -> list[Unit] | None:
    """Take the first useful unit again and again, until the ask fits; None if it never does."""
    taken: list[Unit] = []
    while not fits(Picture(claim.world, gone_of(taken)), node, claim.ask):
        unit = _first_unit(claim, node, gone_of(taken))
        if unit is None:
            return None
        taken.append(unit)
    return taken


def _first_unit(claim: Claim, node: Node, gone: set[Ask]) -> Unit | None:
    """Return the first unit in order that is useful and may be taken, once others are gone."""
    picture = Picture(claim.world, gone)
    held = [ask for ask in claim.world.asks() if ask.held and ask not in gone]
    scope = [ask for ask in held if claim.in_scope(ask)]
    scope.sort(key=lambda ask: claim.order(picture, ask))
    for first in scope:
        unit = unit_of(claim.world, first, gone)
        if not unit <= set(scope):
            continue
        useful = any(_is_useful(picture, node, claim.ask, ask) for ask in unit)
        if useful and all(claim.may_lose(picture, ask, list(unit)) for ask in unit):
            return tuple(ask for ask in scope if ask in unit)
    return None


def _is_useful(picture: Picture, node: Node, ask: Ask, victim: Ask) -> bool:
    """Return whether a victim has something of what an ask lacks."""
    if victim.node == node.name and lacks(picture, node, ask) & set(victim.wants):
        return True
    for path in lineage(ask.app.queue):
        used, limits = picture.allocated[path], picture.world.queues[path].limits
        if path not in lineage(victim.app.queue):
            continue
        for name, value in ask.wants.items():
            limit = limits.get(name)
            if limit is not None and used.get(name, 0) + value > limit and name in victim.wants:
                return True
    return False


def unit_of(world: World, ask: Ask, gone: set[Ask]) -> set[Ask]:
    """Return what goes with an ask, itself included, once others are gone."""
    gang = None if ask.gang is None else world.gangs[ask.gang]
    if gang is None:
        return {ask}
    if ask.place is AskPlace.WAITING:
        return set(waiting(world, *group_of(world, gang.name).gangs)) - gone
    bound = _bound(world, gang) - gone
    definition = gang.definition
    if not gang.satisfied or definition is None or len(bound) > definition.min_member:
        return {ask}
    return bound


def _bound(world: World, gang: Gang) -> set[Ask]:
    return {ask for ask in members(world, gang) if ask.place is AskPlace.BOUND}


def _spared(claim: Claim, node: Node, taken: Sequence[Unit]) -> list[Unit]:
    """Leave out, from the last to the first, what need not go."""
    kept = list(taken)
    for unit in reversed(taken):
        rest = [other for other in kept if other is not unit]
        still_fits = fits(Picture(claim.world, gone_of(rest)), node, claim.ask)
        if still_fits and not halves_a_gang(claim.world, gone_of(rest)):
            kept = rest
    return kept


def halves_a_gang(world: World, gone: set[Ask]) -> bool:
    """Return whether some of a gang go, but neither all of it nor what it can spare."""
    for gang in world.gangs.values():
        bound, definition = _bound(world, gang), gang.definition
        if definition is None or not gang.satisfied or not bound & gone:
            continue
        if 0 < len(bound - gone) < definition.min_member:
            return True
    return False


MakeClaim = Callable[[Picture, Ask, int], Claim | None]


def serve(world: World, now_us: int) -> bool:
    """Let the first node service that can take its node; those before it keep theirs."""
    picture = Picture(world)
    for ask in candidates(picture):
        if not node_choice.is_service(world, ask) or not node_choice.lacks_only_room(picture, ask):
            continue
        if world.config.preemption_enabled and _help_ask(picture, ask, now_us, service):
            return True
        ask.keeps |= fitting(picture, ask) is None
    return False


def help_first_claimant(world: World, now_us: int, claim_of: MakeClaim) -> bool:
    """Help the first ask or group that can claim something; return whether there was one."""
    picture = Picture(world)
    tried: set[frozenset[str]] = set()
    for ask in candidates(picture):
        gang = gangs.constrained(world, ask)
        if gang is None:
            if _help_ask(picture, ask, now_us, claim_of):
                return True
            continue
        group = group_of(world, gang.name)
        if group.names not in tried and _help_group(world, group, now_us, claim_of):
            return True
        tried.add(group.names)
    return False


def candidates(picture: Picture) -> list[Ask]:
    """Return the asks that are looked at, in the order of rounds; overused queues included.

    Of a blocking leaf, and of a strict scope, that is the first only.
    """
    found, shut = list[Ask](), set[str]()
    for ask in _in_order(picture, ROOT):
        if shut.isdisjoint(lineage(ask.app.queue)):
            found.append(ask)
            if not user_limits.over(picture, ask):
                shut |= state.blocked_by(picture.world, ask)
    return found


def _in_order(picture: Picture, path: str) -> Iterator[Ask]:
    """Yield the asks that PreFilter lets through, in the order of rounds."""
    for child in order.sorted_queues(picture, path, picture.with_pending(path)):
        yield from _in_order(picture, child.path)
    for app in order.applications(picture, path):
        for ask in state.awake(picture.world, order.asks(picture, app)):
            gang = gangs.constrained(picture.world, ask)
            if gang is None or not _is_passed_over(picture.world, gang):
                yield ask


def _is_passed_over(world: World, gang: Gang) -> bool:
    """Return whether PreFilter refuses the members of a gang, whatever its cycle."""
    definition = gang.definition
    if definition is None or gang.timed_out:
        return True
    least = definition.min_member
    return len(members(world, gang)) < least or holding(world, gang) >= least


def _help_ask(picture: Picture, ask: Ask, now_us: int, claim_of: MakeClaim) -> bool:
    world, plan = picture.world, None
    if fitting(picture, ask) is None:
        plan = _plan(picture, ask, now_us, claim_of)
    if plan is None:
        return False
    _carry_out(world, plan, now_us)
    if gangs.bind(world, ask, now_us):
        world.taken[ask] = (alike(ask), plan.node.name)
    return True


def _plan(picture: Picture, ask: Ask, now_us: int, claim_of: MakeClaim) -> Plan | None:
    if user_limits.over(picture, ask):
        return None
    claim = claim_of(picture, ask, now_us)
    return None if claim is None else plan_for(claim)


def _help_group(world: World, group: Group, now_us: int, claim_of: MakeClaim) -> bool:
    """Place all missing members of a group and bind it, or do nothing."""
    if not may_be_helped(world, group) or group.names in world.lost:
        return False
    trial = Trial(world)
    placed: list[Ask] = []
    victims = 0
    while (ask := next_missing(world, group)) is not None:
        picture = Picture(world)
        node = fitting_in_claims(picture, ask)
        plan = None if node is not None else _plan(picture, ask, now_us, claim_of)
        placed.append(ask)
        if node is not None:
            gangs.hold(world, ask, node)
        elif plan is not None:
            victims += len(plan.victims)
            _carry_out(world, plan, now_us)
        else:
            trial.undo()
            return False
        if not gangs.permitted(world, group):
            world.log.append(ask.say(Kind.WAITING, ask.node))
    if not victims:
        trial.undo()
        return False
    world.taken |= dict.fromkeys(placed, group.names)
    gangs.satisfy(world, group, now_us)
    return True


def _carry_out(world: World, plan: Plan, now_us: int) -> None:
    """Let the victims go and the ask hold its node; nothing is bound yet."""
    for victim in plan.victims:
        evict(world, victim, plan.claim.reason, plan.claim.message(victim), now_us)
    gangs.hold(world, plan.claim.ask, plan.node)


def evict(
    world: World,
    ask: Ask,
    reason: Reason,
    message: str,
    now_us: int,
    *,
    over_max: str | None = None,
) -> None:
    """Take an ask from its node; announce that once in a batch, unless the ask is gone then."""
    was_bound = ask.place is AskPlace.BOUND
    is_gone = was_bound and ask.once
    if ask in world.rounds.evicted and not is_gone:
        _retract_return(world, ask)
    else:
        world.reached["once, evicted again"] += ask in world.rounds.evicted
        world.rounds.evicted.append(ask)
        decision = ask.say(Kind.RELEASED, ask.node, reason)
        world.log.append(decision._replace(message=message, over_max=over_max))
    evicted(world, ask)
    if is_gone:
        world.reached["once, evicted"] += 1
        del ask.app.asks[ask.name]
    else:
        let_go(world, ask)
    if not was_bound:
        return
    if ask in world.rounds.bound:
        world.rounds.bound.remove(ask)
        directory.undo_bound(world, ask.app, now_us)
    else:
        state.lost(ask, now_us)
    if ask.gang is not None:
        unsatisfy_if_lost(world, world.gangs[ask.gang])
    if is_gone:
        world.reached["once, the last of its gang"] += gangs.is_empty(world, ask.gang)
        gangs.tidy(world)
        directory.ask_gone(world, ask.app, now_us)
        world.reached["once, the last of its application"] += not ask.app.asks


def _retract_return(world: World, ask: Ask) -> None:
    """Take out of the log that an ask, released last in this batch, got a node again."""
    for index in reversed(range(len(world.log))):
        decision = world.log[index]
        if (decision.app, decision.ask) != (ask.app.name, ask.name):
            continue
        if decision.kind is Kind.RELEASED:
            return
        del world.log[index]
