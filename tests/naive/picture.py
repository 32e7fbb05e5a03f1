"""Everything that an order needs, computed anew from the asks: totals, priorities, shares.

A picture is of one moment. After every allocation a new one is made and the old
one thrown away, which is what makes this model slow and hard to get wrong. Within
one moment nothing changes, so what was computed of it once is remembered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import cached_property, wraps
from typing import Any, TypeVar

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

Thing = TypeVar("Thing", bound=Hashable)
Answer = TypeVar("Answer")


def share(part: int, whole: int) -> float:
    """Divide, where nothing of nothing is 0 and something of nothing infinite."""
    if whole == 0:
        return math.inf if part else 0.0
    return part / whole


def clamp(value: int) -> int:
    """Bring a priority into the range of an int32."""
    return max(INT32_MIN, min(INT32_MAX, value))


def remembered(
    function: Callable[[Picture, Thing], Answer],
) -> Callable[[Picture, Thing], Answer]:
    """Let a question about one moment be answered once; nobody changes an answer."""

    @wraps(function)
    def answer(picture: Picture, thing: Thing) -> Answer:
        question = (function, thing)
        if question not in picture.known:
            picture.known[question] = function(picture, thing)
        found: Answer = picture.known[question]
        return found

    return answer


class Picture:
    """One moment of the world, with everything computed that the orders ask for.

    Args:
        world: What there is.
        gone: Asks that are looked at as if they held nothing.
    """

    def __init__(self, world: World, gone: Collection[Ask] = ()) -> None:
        self.world = world
        self.known: dict[tuple[object, object], Any] = {}
        self.present = world.in_queues()
        self.held = [ask for app in self.present for ask in app.held() if ask not in gone]

    @cached_property
    def total(self) -> dict[str, int]:
        """Give the total of the partition."""
        return total(node.capacity for node in self.world.nodes.values())

    @cached_property
    def asks(self) -> dict[str, list[Ask]]:
        """Give the pending asks of each queue, those below it included."""
        asks: dict[str, list[Ask]] = {path: [] for path in self.world.queues}
        for app in self.present:
            pending = app.pending()
            for path in lineage(app.queue):
                asks[path] += pending
        return asks

    @cached_property
    def allocated(self) -> dict[str, dict[str, int]]:
        """Give what the asks in each queue, and below it, hold."""
        allocated: dict[str, dict[str, int]] = {path: {} for path in self.world.queues}
        for ask in self.held:
            for path in lineage(ask.app.queue):
                add(allocated[path], ask.wants)
        return allocated

    @cached_property
    def used(self) -> dict[str, dict[str, int]]:
        """Give what the asks on each node hold."""
        used: dict[str, dict[str, int]] = {name: {} for name in self.world.nodes}
        for ask in self.held:
            add(used[ask.node or ""], ask.wants)
        return used

    @remembered
    def app_priority(self, app: App) -> int | None:
        """Give the highest priority of the pending asks, tried or not."""
        return max((ask.priority for ask in app.pending()), default=None)

    @remembered
    def queue_priority(self, path: str) -> int | None:
        """Give ``currentPriority``: None where it has none."""
        settings = self.world.queues[path].settings
        if settings.fence and path != ROOT:
            return settings.offset
        if not self.asks[path]:
            return None
        inside = [self.queue_priority(child.path) for child in self.with_pending(path)]
        inside += [self.app_priority(app) for app in self.apps(path)]
        best = max(priority for priority in inside if priority is not None)
        return clamp(best + (0 if path == ROOT else settings.offset))

    @remembered
    def with_pending(self, path: str) -> list[Queue]:
        """Give the children of a queue with something pending."""
        return [child for child in self.world.children(path) if self.asks[child.path]]

    @remembered
    def apps(self, path: str) -> list[App]:
        """Give the applications of a leaf, the oldest first."""
        return [app for app in self.present if app.queue == path]

    def pending_amount(self, path: str) -> dict[str, int]:
        """Give what is pending below a queue."""
        return total_of(self.asks[path])

    @remembered
    def pending_share(self, path: str) -> float:
        """Give the dominant share of what is pending in the partition's total."""
        pending = self.pending_amount(path)
        return max((share(pending[t], self.total.get(t, 0)) for t in pending), default=0.0)

    @remembered
    def fair_share(self, path: str) -> float:
        """Give the fair share of a queue."""
        used = self.allocated[path]
        return max((share(used[t], self._deserved(path, t)) for t in used), default=0.0)

    def _deserved(self, path: str, name: str) -> int:
        guaranteed = self.world.queues[path].guaranteed[name]
        if guaranteed:
            return guaranteed
        whole = self.total.get(name, 0)
        limits = [self.world.queues[here].limits for here in lineage(path)]
        return min((limit[name] for limit in limits if name in limit), default=whole)

    @remembered
    def usage(self, app: App) -> list[float]:
        """Give an application's usage for ``fair``: its shares, the largest first."""
        used = total_of(ask for ask in self.held if ask.app is app)
        guaranteed = self.world.queues[app.queue].guaranteed
        wholes = {name: guaranteed[name] or self.total.get(name, 0) for name in used}
        return sorted((share(used[name], wholes[name]) for name in used), reverse=True)

    def fits_headroom(self, ask: Ask) -> bool:
        """Say whether the quotas of the leaf and all above it leave room for an ask."""
        return all(
            within(ask.wants, self.allocated[path], self.world.queues[path].limits)
            for path in lineage(ask.app.queue)
        )

    @remembered
    def enters(self, path: str) -> bool:
        """Say whether a queue competes: it, or a leaf below, has a pending ask within quota."""
        return any(self.fits_headroom(ask) for ask in self.asks[path])

    @remembered
    def kept_out(self, app: App) -> bool:
        """Say whether ``maxapplications`` of a queue on its path keeps an application waiting."""
        return bool(self.full_above(app))

    def full_above(self, app: App) -> list[str]:
        """Give the queues above an application that does not run in which as many run as may."""
        full: list[str] = []
        for path in () if runs(app) else lineage(app.queue):
            limit = self.world.queues[path].max_applications
            running = [other for other in self.world.below(path) if runs(other)]
            if limit and len(running) >= limit:
                full.append(path)
        return full


def runs(app: App) -> bool:
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
