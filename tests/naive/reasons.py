"""Why an ask is not running, as the specification has it, looked up in the state anew.

At the end of a batch, for every ask that is not bound: the codes that hold, in the
order of dominance, and what would be tried first in a round that begins now. Every
sentence is asked of every ask, and nothing is remembered from one to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final, final

import attrs

from muster_core.config.model import SortPolicy
from muster_core.errors import RefusedError
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace
from tests.naive import affinity, evictions, gangs, node_choice, order, order as user_limits, rounds
from tests.naive.directory import check_admitted
from tests.naive.figures import (
    BACKING_OFF,
    Figures,
    Moment,
    could_hold,
    figures_of,
    gang_code,
    turn_of,
)
from tests.naive.gangs import group_of
from tests.naive.node_choice import first_node, has_headroom, takes
from tests.naive.order import Parting, parting
from tests.naive.state import RECOVERY, Ask, World, backs_off, lineage


@final
@attrs.frozen
class Account:
    """Why one ask is not running.

    Attributes:
        codes: The reasons that hold, the dominant one first.
        since_us: Since when it has been pending.
        first: What would be tried first in the next round, as ``app/ask``.
        parting: Where the way to it parts from the way to the first; None if it is the
            first itself, or does not compete.
        figures: The figures of each reason, by its code.
    """

    codes: tuple[str, ...]
    since_us: int
    first: str | None
    parting: Parting | None = None
    figures: Mapping[str, Figures] = attrs.field(factory=dict[str, Figures])


def agree(own: Account, found: Account) -> bool:
    """Return whether the real scheduler's account is the model's.

    Of a group that is sure not to fit no member need be tried, so that none has failed.
    """
    invalid = Code.GANG_CYCLE_INVALID.value
    figures = found.figures.get(invalid)
    if figures is not None and "failed" not in figures:
        failed = own.figures.get(invalid, {}).get("failed")
        figures = {**figures, "failed": failed}
        found = attrs.evolve(found, figures={**found.figures, invalid: figures})
    return own == found


def account_for(world: World, now_us: int) -> dict[str, Account]:
    """Return the account of every ask that is not bound, by ``app/ask``."""
    moment = Moment(world, now_us)
    unbound = [ask for ask in world.asks() if ask.place is not AskPlace.BOUND]
    return {ask.full: _account(moment, ask) for ask in unbound}


def _account(moment: Moment, ask: Ask) -> Account:
    first = moment.first
    codes = tuple(_codes(moment, ask))
    figures = {str(code): figures_of(moment, ask, code) for code in codes}
    ways = None
    if first is not None and Code.NOT_YOUR_TURN in codes:
        ways = parting(moment.picture, ask, first)
    name = None if first is None else first.full
    return Account(tuple(figures), ask.since_us, name, ways, figures)


def _codes(moment: Moment, ask: Ask) -> list[str]:
    if ask.place is AskPlace.WAITING:
        return [Code.PERMIT_WAITING]
    if ask.place is AskPlace.PARKED:
        return [Code.GANG_TIMED_OUT]
    return [code for code, holds in _REASONS if holds(moment, ask)]


def _is_refused_for(code: Code) -> Callable[[Moment, Ask], bool]:
    return lambda moment, ask: gang_code(moment.world, ask) is code


def _never_fits(moment: Moment, ask: Ask) -> bool:
    """It wants more than a ``max``, or than any node on which it may stand has in all."""
    for path in lineage(ask.app.queue):
        limits = moment.world.queues[path].limits
        if any(value > limits.get(name, value) for name, value in ask.wants.items()):
            return True
    return not any(could_hold(node, ask) for node in moment.matching(ask))


def _queue_max(moment: Moment, ask: Ask) -> bool:
    """A ``max`` that the ask alone does not exceed leaves no room for it."""
    for path in lineage(ask.app.queue):
        limits, used = moment.world.queues[path].limits, moment.picture.allocated[path]
        for name, value in ask.wants.items():
            limit = limits.get(name)
            if limit is not None and value <= limit < used.get(name, 0) + value:
                return True
    return False


def _queue_max_apps(moment: Moment, ask: Ask) -> bool:
    return moment.picture.kept_out(ask.app)


def _state_aware_turn(moment: Moment, ask: Ask) -> bool:
    leaf = ask.app.queue
    settings = moment.world.queues[leaf].settings
    if settings.sort_policy is not SortPolicy.STATE_AWARE:
        return False
    apps = moment.picture.apps(leaf)
    by_priority = settings.sort_by_priority
    kept = order.state_aware(moment.picture, apps, by_priority=by_priority)
    whose_turn = turn_of(apps, kept)
    return ask.app not in kept and whose_turn not in {None, ask.app}


def _blocked(moment: Moment, ask: Ask) -> bool:
    if backs_off(moment.world, ask):
        return False
    path = moment.blocked_with(ask)
    first = None if path is None else moment.first_that_blocks(path)
    if path is None or first is None or first is ask:
        return False
    ahead = itertools.takewhile(lambda other: other is not first, moment.tried_below(path))
    return ask not in ahead


def _gang_cycle_invalid(moment: Moment, ask: Ask) -> bool:
    gang = gangs.constrained(moment.world, ask)
    return gang is not None and not gang.cycle_valid and group_of(moment.world, gang.name).strict


def _backing_off(moment: Moment, ask: Ask) -> bool:
    return backs_off(moment.world, ask)


def _bind_failed(_: Moment, ask: Ask) -> bool:
    return ask.failed_on is not None


def _limited_by(code: Code) -> Callable[[Moment, Ask], bool]:
    return lambda moment, ask: bool(user_limits.against(moment.picture, ask, code))


def _node_kept(moment: Moment, ask: Ask) -> bool:
    """It fits nowhere, but would on a node that a node service keeps."""
    return _no_node_fits(moment, ask) and bool(moment.kept_from(ask))


def _held_back(moment: Moment, ask: Ask) -> bool:
    """It fits, but would delay a reservation on every node that it fits."""
    picture = moment.picture
    if not has_headroom(picture, ask) or first_node(picture, ask) is None:
        return False
    return first_node(picture, ask, rounds.undelayed(moment.world, ask)) is None


def _no_node_fits(moment: Moment, ask: Ask) -> bool:
    """No node has room for it, wherever its gang lets it be."""
    nodes = moment.world.nodes.values()
    return not any(takes(moment.picture, node, ask) for node in nodes)


def _nodes_tainted(moment: Moment, ask: Ask) -> bool:
    """No node has room, and taints keep it from some on which it could be otherwise."""
    return _no_node_fits(moment, ask) and bool(moment.tainted(ask))


def _affinity_mismatch(moment: Moment, ask: Ask) -> bool:
    """No node has room, and its affinity keeps it from some on which it could be otherwise."""
    averse = any(not affinity.wanted(node, ask) for node in moment.chosen(ask))
    return _no_node_fits(moment, ask) and averse


def _topology(moment: Moment, ask: Ask) -> bool:
    """Some node has room for it, but its gang lets it take none."""
    has_room = not _no_node_fits(moment, ask)
    return has_room and first_node(moment.picture, ask) is None


def _fragmented(moment: Moment, ask: Ask) -> bool:
    """No node has room, though all that it may stand on have enough together."""
    nodes = moment.open_to(ask)
    for name, value in ask.wants.items():
        if sum(moment.free(node, name) for node in nodes) < value:
            return False
    return _no_node_fits(moment, ask)


def _could_take(moment: Moment, ask: Ask) -> bool:
    """Return whether an ask may reclaim or preempt in the present state, once its delay is over."""
    if not moment.is_looked_at(ask):
        return False
    then_us = evictions.delay_ends(moment.world, ask)
    claim = evictions.reclaim(moment.picture, ask, then_us)
    return (claim or evictions.preemption(moment.picture, ask, then_us)) is not None


def _preemption_delay(moment: Moment, ask: Ask) -> bool:
    return moment.now_us < evictions.delay_ends(moment.world, ask) and _could_take(moment, ask)


def _reclaim_insufficient(moment: Moment, ask: Ask) -> bool:
    if _could_take(moment, ask):
        return moment.now_us >= evictions.delay_ends(moment.world, ask)
    return _could_serve(moment, ask)


def _could_serve(moment: Moment, ask: Ask) -> bool:
    """A node service for which room on its node would suffice, though others hold it."""
    looked_at = moment.world.config.preemption_enabled and moment.is_looked_at(ask)
    service = looked_at and node_choice.is_service(moment.world, ask)
    return service and node_choice.lacks_only_room(moment.picture, ask)


def _not_your_turn(moment: Moment, ask: Ask) -> bool:
    competes = moment.picture.enters(ask.app.queue) and moment.competes(ask)
    return competes and ask is not moment.first


def _draining(moment: Moment, ask: Ask) -> bool:
    return any(moment.world.queues[path].draining for path in lineage(ask.app.queue))


def _user_not_allowed(moment: Moment, ask: Ask) -> bool:
    """Its user would not be admitted; whom rules left without a queue, nobody has to."""
    if ask.app.queue == RECOVERY:
        return False
    try:
        check_admitted(moment.world, ask.app.queue, ask.app.user, ask.app.groups)
    except RefusedError:
        return True
    return False


_REASONS: Final[tuple[tuple[str, Callable[[Moment, Ask], bool]], ...]] = (
    (Code.GANG_UNDEFINED, _is_refused_for(Code.GANG_UNDEFINED)),
    (Code.GANG_TOO_FEW_MEMBERS, _is_refused_for(Code.GANG_TOO_FEW_MEMBERS)),
    (Code.GANG_SURPLUS, _is_refused_for(Code.GANG_SURPLUS)),
    (Code.NEVER_FITS, _never_fits),
    (Code.QUEUE_MAX, _queue_max),
    (Code.USER_LIMIT, _limited_by(Code.USER_LIMIT)),
    (Code.GROUP_LIMIT, _limited_by(Code.GROUP_LIMIT)),
    (Code.QUEUE_MAX_APPS, _queue_max_apps),
    (Code.STATE_AWARE_TURN, _state_aware_turn),
    (Code.BLOCKED, _blocked),
    (Code.GANG_CYCLE_INVALID, _gang_cycle_invalid),
    (BACKING_OFF, _backing_off),
    (Code.BIND_FAILED, _bind_failed),
    (Code.NODE_KEPT, _node_kept),
    (Code.HELD_BACK, _held_back),
    (Code.FRAGMENTED, _fragmented),
    (Code.NO_NODE_FITS, _no_node_fits),
    (Code.NODES_TAINTED, _nodes_tainted),
    (Code.AFFINITY_MISMATCH, _affinity_mismatch),
    (Code.TOPOLOGY, _topology),
    (Code.PREEMPTION_DELAY, _preemption_delay),
    (Code.RECLAIM_INSUFFICIENT, _reclaim_insufficient),
    (Code.NOT_YOUR_TURN, _not_your_turn),
    (Code.DRAINING, _draining),
    (Code.USER_NOT_ALLOWED, _user_not_allowed),
)
