"""Everything that an order needs, computed anew from the asks: totals, priorities, shares.

A picture is of one moment. After every allocation a new one is made and the old
one thrown away, which is what makes this model slow and hard to get wrong. Within
one moment nothing changes, so what was computed of it once is remembered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import cache, cached_property

from muster_core.snapshots import AskPlace
from tests.naive.properties import INT32_MAX, INT32_MIN
from tests.naive.state import (
    ROOT,
    RUNNING_STATES,
    App,
    Ask,
    Queue,
    World,
    add,
    lineage,
    total,
    total_of,
)


def share(part: int, whole: int) -> float:
    """Divide, where nothing of nothing is 0 and something of nothing infinite."""
    if whole == 0:
        return math.inf if part else 0.0
    return part / whole


def clamp(value: int) -> int:
    """Bring a priority into the range of an int32."""
    return max(INT32_MIN, min(INT32_MAX, value))


class Picture:
    """One moment of the world, with everything computed that the orders ask for.

    Args:
        world: What there is.
        gone: Asks that are looked at as if they held nothing.
    """

    def __init__(self, world: World, gone: Collection[Ask] = ()) -> None:
        self.world = world
        self.total = total(node.capacity for node in world.nodes.values())
        self.asks: dict[str, list[Ask]] = {path: [] for path in world.queues}
        self.allocated: dict[str, dict[str, int]] = {path: {} for path in world.queues}
        self.used: dict[str, dict[str, int]] = {name: {} for name in world.nodes}
        for app in world.in_queues():
            pending, held = app.pending(), [ask for ask in app.held() if ask not in gone]
            for path in lineage(app.queue):
                self.asks[path] += pending
                for ask in held:
                    add(self.allocated[path], ask.wants)
            for ask in held:
                add(self.used[ask.node or ""], ask.wants)

    @cached_property
    def app_priority(self) -> Callable[[App], int | None]:
        """Give the highest priority of the pending asks, tried or not."""
        return cache(self._app_priority)

    @cached_property
    def queue_priority(self) -> Callable[[str], int | None]:
        """Give ``currentPriority``: None where it has none."""
        return cache(self._queue_priority)

    @cached_property
    def with_pending(self) -> Callable[[str], list[Queue]]:
        """Give the children of a queue with something pending."""
        return cache(self._with_pending)

    @cached_property
    def pending_share(self) -> Callable[[str], float]:
        """Give the dominant share of what is pending in the partition's total."""
        return cache(self._pending_share)

    @cached_property
    def fair_share(self) -> Callable[[str], float]:
        """Give the fair share of a queue."""
        return cache(self._fair_share)

    @cached_property
    def enters(self) -> Callable[[str], bool]:
        """Say whether a queue competes: it, or a leaf below, has a pending ask within quota."""
        return cache(self._enters)

    @cached_property
    def kept_out(self) -> Callable[[App], bool]:
        """Say whether ``maxapplications`` of a queue on its path keeps an application waiting."""
        return cache(self._kept_out)

    def _app_priority(self, app: App) -> int | None:
        return max((ask.priority for ask in app.pending()), default=None)

    def _queue_priority(self, path: str) -> int | None:
        settings = self.world.queues[path].settings
        if settings.fence and path != ROOT:
            return settings.offset
        if not self.asks[path]:
            return None
        inside = [self.queue_priority(child.path) for child in self.with_pending(path)]
        inside += [self.app_priority(app) for app in self.apps(path)]
        best = max(priority for priority in inside if priority is not None)
        return clamp(best + (0 if path == ROOT else settings.offset))

    def _with_pending(self, path: str) -> list[Queue]:
        return [child for child in self.world.children(path) if self.asks[child.path]]

    def apps(self, path: str) -> list[App]:
        """Give the applications of a leaf, the oldest first."""
        return [app for app in self.world.in_queues() if app.queue == path]

    def pending_amount(self, path: str) -> dict[str, int]:
        """Give what is pending below a queue."""
        return total_of(self.asks[path])

    def _pending_share(self, path: str) -> float:
        pending = self.pending_amount(path)
        return max((share(pending[t], self.total.get(t, 0)) for t in pending), default=0.0)

    def _fair_share(self, path: str) -> float:
        used = self.allocated[path]
        return max((share(used[t], self._deserved(path, t)) for t in used), default=0.0)

    def _deserved(self, path: str, name: str) -> int:
        guaranteed = self.world.queues[path].guaranteed[name]
        if guaranteed:
            return guaranteed
        whole = self.total.get(name, 0)
        limits = [self.world.queues[here].limits for here in lineage(path)]
        return min((limit[name] for limit in limits if name in limit), default=whole)

    def usage(self, app: App) -> list[float]:
        """Give an application's usage for ``fair``: its shares, the largest first."""
        used = total_of(app.held())
        guaranteed = self.world.queues[app.queue].guaranteed
        wholes = {name: guaranteed[name] or self.total.get(name, 0) for name in used}
        return sorted((share(used[name], wholes[name]) for name in used), reverse=True)

    def fits_headroom(self, ask: Ask) -> bool:
        """Say whether the quotas of the leaf and all above it leave room for an ask."""
        return all(
            within(ask.wants, self.allocated[path], self.world.queues[path].limits)
            for path in lineage(ask.app.queue)
        )

    def _enters(self, path: str) -> bool:
        return any(self.fits_headroom(ask) for ask in self.asks[path])

    def _kept_out(self, app: App) -> bool:
        return bool(self.full_above(app))

    def full_above(self, app: App) -> list[str]:
        """Give the queues on the path of an application in which as many others run as may."""
        full: list[str] = []
        for path in lineage(app.queue):
            limit = self.world.queues[path].max_applications
            running = [
                other for other in self.world.below(path) if other is not app and _runs(other)
            ]
            if limit and len(running) >= limit:
                full.append(path)
        return full


def _runs(app: App) -> bool:
    """Say whether an application counts against ``maxapplications``."""
    waits = any(ask.place is AskPlace.WAITING for ask in app.asks.values())
    return app.state in RUNNING_STATES or waits


def within(amount: Mapping[str, int], used: Mapping[str, int], limits: Mapping[str, int]) -> bool:
    """Say whether an amount fits beside what is used; types without a limit always fit."""
    return all(
        used.get(name, 0) + value <= limits[name]
        for name, value in amount.items()
        if name in limits
    )
