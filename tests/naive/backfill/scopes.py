"""Scopes: the asks below the topmost queue of a path whose order is not greedy."""

from __future__ import annotations

from muster_core.config.model import SchedulingOrder
from tests.naive.state import Ask, Queue, World, lineage


def scope_of(world: World, leaf: str) -> Queue | None:
    """Give the queue below which a leaf is in one scope with others; None if there is none."""
    for path in reversed(lineage(leaf)):
        queue = world.queues[path]
        if queue.settings.scheduling_order is not SchedulingOrder.GREEDY:
            return queue
    return None


def backfill_scope(world: World, ask: Ask) -> Queue | None:
    """Give the queue of the backfill scope in which an ask is."""
    found = scope_of(world, ask.app.queue)
    if found is None or found.settings.scheduling_order is not SchedulingOrder.BACKFILL:
        return None
    return found


def blocked_by(world: World, ask: Ask) -> set[str]:
    """Give the paths of what an ask that did not fit shuts: its leaf, or a strict scope."""
    leaf = world.queues[ask.app.queue]
    blocked = {leaf.path} if leaf.settings.blocking else set[str]()
    scope = scope_of(world, leaf.path)
    if scope is not None and scope.settings.scheduling_order is SchedulingOrder.STRICT:
        world.reached["strict stop"] += 1
        blocked.add(scope.path)
    return blocked
