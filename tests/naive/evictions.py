"""Reclaim and preemption in the naive model: who is looked at, and what is done for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from muster_core.decisions import Kind, Reason
from muster_core.snapshots import AskPlace
from tests.naive import back_off, claims, lifecycle, order, permits, services, user_limits
from tests.naive.claims import Claim
from tests.naive.deadlock import may_be_helped, next_missing
from tests.naive.gangs import Group, group_of, holding, let_go, members, unsatisfy_if_lost
from tests.naive.node_choice import fitting, fitting_in_claims
from tests.naive.picture import Picture
from tests.naive.plans import Plan, plan_for
from tests.naive.state import ROOT, Ask, Gang, World
from tests.naive.takings import alike, evicted
from tests.naive.trial import Trial

MakeClaim = Callable[[Picture, Ask, int], Claim | None]


def deadlines(world: World, now_us: int) -> list[int]:
    """Give the instants, later than now, at which the delay of a pending ask ends."""
    asks = [ask for ask in world.pending() if claims.may_come_true(world, ask)]
    ends = [claims.delay_ends(world, ask) for ask in asks]
    return [end for end in ends if end > now_us]


def help_one(world: World, now_us: int) -> bool:
    """Help a node service, else reclaim for an ask, else preempt; say whether any was helped."""
    if _serve(world, now_us):
        return True
    if not world.config.preemption_enabled:
        return False
    return _look(world, now_us, claims.reclaim) or _look(world, now_us, claims.preemption)


def _serve(world: World, now_us: int) -> bool:
    """Let the first node service that can take its node; those before it keep theirs."""
    picture = Picture(world)
    for ask in list(_candidates(picture, ROOT)):
        if not services.is_service(world, ask) or not services.lacks_only_room(picture, ask):
            continue
        if world.config.preemption_enabled and _help_ask(picture, ask, now_us, claims.service):
            return True
        ask.keeps |= fitting(picture, ask) is None
    return False


def _look(world: World, now_us: int, claim_of: MakeClaim) -> bool:
    picture = Picture(world)
    tried: set[frozenset[str]] = set()
    for ask in list(_candidates(picture, ROOT)):
        gang = permits.constrained(world, ask)
        if gang is None:
            if _help_ask(picture, ask, now_us, claim_of):
                return True
            continue
        group = group_of(world, gang.name)
        if group.names not in tried and _help_group(world, group, now_us, claim_of):
            return True
        tried.add(group.names)
    return False


def _candidates(picture: Picture, path: str) -> Iterator[Ask]:
    """Give the asks that are looked at, in the order of rounds; overused queues included."""
    for child in order.sorted_queues(picture, path, picture.with_pending(path)):
        yield from _candidates(picture, child.path)
    for app in order.applications(picture, path):
        for ask in back_off.awake(picture.world, order.asks(picture, app)):
            gang = permits.constrained(picture.world, ask)
            if gang is not None and _is_passed_over(picture.world, gang):
                continue
            yield ask
            blocks = picture.world.queues[path].settings.blocking
            if blocks and not user_limits.over(picture, ask):
                return


def _is_passed_over(world: World, gang: Gang) -> bool:
    """Say whether PreFilter refuses the members of a gang, whatever its cycle."""
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
    if permits.bind(world, ask, now_us):
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
            permits.hold(world, ask, node)
        elif plan is not None:
            victims += len(plan.victims)
            _carry_out(world, plan, now_us)
        else:
            trial.undo()
            return False
        if not permits.permitted(world, group):
            world.log.append(ask.say(Kind.WAITING, ask.node))
    if not victims:
        trial.undo()
        return False
    world.taken |= dict.fromkeys(placed, group.names)
    permits.satisfy(world, group, now_us)
    return True


def _carry_out(world: World, plan: Plan, now_us: int) -> None:
    """Let the victims go and the ask hold its node; nothing is bound yet."""
    for victim in plan.victims:
        _evict(world, victim, plan.claim.reason, plan.claim.message(victim), now_us)
    permits.hold(world, plan.claim.ask, plan.node)


def _evict(world: World, ask: Ask, reason: Reason, message: str, now_us: int) -> None:
    """Take an ask from its node; that is said once in a batch."""
    if ask in world.rounds.evicted:
        _unsay_its_return(world, ask)
    else:
        world.rounds.evicted.append(ask)
        said = ask.say(Kind.RELEASED, ask.node, reason)
        world.log.append(attrs.evolve(said, message=message))
    evicted(world, ask)
    was_bound = ask.place is AskPlace.BOUND
    let_go(world, ask)
    if not was_bound:
        return
    if ask in world.rounds.bound:
        world.rounds.bound.remove(ask)
        lifecycle.undo_bound(world, ask.app, now_us)
    else:
        back_off.lost(ask, now_us)
    if ask.gang is not None:
        unsatisfy_if_lost(world, world.gangs[ask.gang])


def _unsay_its_return(world: World, ask: Ask) -> None:
    """Take out of the log that an ask, released last in this batch, got a node again."""
    for index in reversed(range(len(world.log))):
        decision = world.log[index]
        if (decision.app, decision.ask) != (ask.app.name, ask.name):
            continue
        if decision.kind is Kind.RELEASED:
            return
        del world.log[index]
