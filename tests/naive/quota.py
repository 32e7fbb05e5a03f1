"""Quota preemption in the naive model, and the order of all that takes from asks.

Which queues are over their ``max`` and since when, what they lose, and the ends of delays.
"""

from __future__ import annotations

from muster_core.decisions import Reason
from tests.naive.evictions import (
    Unit,
    delay_ends,
    evict,
    gone_of,
    halves_a_gang,
    help_first_claimant,
    is_protected,
    keeps_guarantees,
    may_come_true,
    preemption,
    protection_ends,
    reclaim,
    serve,
    takes_part,
    unit_of,
)
from tests.naive.node_choice import is_service
from tests.naive.picture import Picture
from tests.naive.state import Ask, World, lineage


def deadlines(world: World, now_us: int) -> list[int]:
    """Return the instants, later than now, at which the delay of a pending ask ends."""
    asks = [ask for ask in world.pending() if may_come_true(world, ask)]
    ends = [delay_ends(world, ask) for ask in asks]
    ends += [_quota_end(world, path) for path in world.over_since]
    if world.config.preemption_enabled:
        bound = [ask for ask in world.bound() if takes_part(world.queues[ask.app.queue].settings)]
        ends += [protection_ends(world, ask) for ask in bound]
    return [end for end in ends if end > now_us]


def help_one(world: World, now_us: int) -> bool:
    """Help a node service, else bring a queue within its ``max``, else reclaim, else preempt.

    Returns:
        Whether anything was done.
    """
    if serve(world, now_us):
        return True
    if not world.config.preemption_enabled:
        return False
    if _keep_quotas(world, now_us):
        return True
    return help_first_claimant(world, now_us, reclaim) or help_first_claimant(
        world, now_us, preemption
    )


def _excess(picture: Picture, path: str) -> set[str]:
    """Return the types of which a queue has more than its own ``max``."""
    limits, used = picture.world.queues[path].limits, picture.allocated[path]
    return {name for name, most in limits.items() if used.get(name, 0) > most}


def _loses_excess(world: World, path: str) -> bool:
    """Return whether a queue can lose what it has too much."""
    queue, config = world.queues[path], world.config
    allowed = config.preemption_enabled and config.quota_preemption and not queue.dynamic
    return allowed and queue.settings.quota_preemption_us > 0


def _quota_end(world: World, path: str) -> int:
    return world.over_since[path] + world.queues[path].settings.quota_preemption_us


def note_over(world: World) -> None:
    """Note at the end of a batch which queues are over, and since when."""
    picture = Picture(world)
    over = [path for path in world.queues if _loses_excess(world, path) and _excess(picture, path)]
    world.reached["over"] += len(over)
    world.over_since = {path: world.over_since.get(path, world.now_us) for path in over}


def _keep_quotas(world: World, now_us: int) -> bool:
    """Let the first queue lose asks that has been over for its delay and can lose any."""
    for path in sorted(world.over_since):
        if path not in world.queues or not _loses_excess(world, path):
            continue
        if now_us < _quota_end(world, path):
            continue
        types = sorted(_excess(Picture(world), path))
        victims = [ask for unit in _excess_units(world, path) for ask in unit]
        world.reached["over for long"] += bool(types)
        for victim in victims:
            message = f"{path} has more than its max of {', '.join(types)}"
            evict(world, victim, Reason.PREEMPTED, message, now_us, over_max=path)
        if victims:
            world.reached["quota step"] += 1
            world.reached["quota step of several"] += len(victims) > 1
            return True
    return False


def _excess_units(world: World, path: str) -> list[Unit]:
    """Take one unit after the other until a queue is within its ``max``, and spare some."""
    taken: list[Unit] = []
    while (unit := _next_unit(world, path, gone_of(taken))) is not None:
        taken.append(unit)
    kept = list(taken)
    for unit in reversed(taken):
        rest = [other for other in kept if other is not unit]
        within_max = not _excess(Picture(world, gone_of(rest)), path)
        if within_max and not halves_a_gang(world, gone_of(rest)):
            world.reached["quota spared"] += 1
            kept = rest
    if _excess(Picture(world, gone_of(kept)), path):
        world.reached["quota does not suffice"] += 1
    return kept


def _next_unit(world: World, path: str, gone: set[Ask]) -> Unit | None:
    """Return the first unit of a queue that has of what it has too much, once others are gone."""
    picture = Picture(world, gone)
    excess = _excess(picture, path)
    held = [ask for ask in world.asks() if ask.held and ask not in gone]
    scope = [ask for ask in held if _may_go(world, path, ask)]
    scope.sort(key=lambda ask: _quota_order(picture, path, ask))
    for first in scope:
        unit = unit_of(world, first, gone)
        if not unit <= set(scope) or not any(excess & set(ask.wants) for ask in unit):
            continue
        if all(
            keeps_guarantees(picture, _queues_up_to(ask, path), ask, list(unit)) for ask in unit
        ):
            return tuple(ask for ask in scope if ask in unit)
    return None


def _may_go(world: World, path: str, ask: Ask) -> bool:
    leaf = ask.app.queue
    if path not in lineage(leaf) or not takes_part(world.queues[leaf].settings):
        return False
    return not is_service(world, ask) and not is_protected(world, ask)


def _queues_up_to(ask: Ask, path: str) -> list[str]:
    """Return the queues of an ask from its leaf up to one of them."""
    return [prefix for prefix in lineage(ask.app.queue) if path in lineage(prefix)]


def _quota_order(picture: Picture, path: str, ask: Ask) -> tuple[object, ...]:
    queues = picture.world.queues
    levels = [
        queues[prefix].settings.queue_priority for prefix in reversed(_queues_up_to(ask, path)[:-1])
    ]
    levels += [0] * (max(len(lineage(one)) for one in queues) - len(levels))
    return (levels, -picture.fair_share(ask.app.queue), ask.priority, -ask.held_order)
