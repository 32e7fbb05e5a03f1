"""What queues and users have had: every tick, one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator

from muster_core.config.model import SortPolicy
from muster_core.errors import RefusedError
from muster_core.events import SetUsage
from muster_core.snapshots import UsageSnapshot
from tests.naive import directory
from tests.naive.picture import Picture
from tests.naive.state import ROOT, App, PastUsage, World, add, parent_path, total_of

Holder = tuple[str, str | None]
"""The path of a queue, and the name of a user of it; None for the queue itself."""


def half_life_us(world: World, holder: Holder) -> int:
    """Return the half-life of a usage; 0 if none counts."""
    path, user = holder
    if path not in world.queues:
        return 0
    if user is None:
        above = parent_path(path)
        return 0 if above is None else world.queues[above].settings.half_life_us
    leaf = world.queues[path]
    counts = leaf.settings.usage_of_users and not leaf.is_parent
    return leaf.settings.half_life_us if counts else 0


def user_of(app: App) -> str:
    """Return the name of an application's user; the nameless one has none."""
    return app.user or ""


def holders(world: World) -> Iterator[Holder]:
    """Return all whose usage counts."""
    tidy(world)
    found: dict[Holder, None] = dict.fromkeys((path, None) for path in world.queues)
    found |= dict.fromkeys((app.queue, user_of(app)) for app in world.in_queues())
    found |= dict.fromkeys(world.usage)
    return (holder for holder in found if half_life_us(world, holder))


def allocated(picture: Picture, holder: Holder) -> dict[str, int]:
    """Return the present allocation of a user or queue."""
    path, user = holder
    if user is None:
        return picture.allocated[path]
    return total_of(
        ask for ask in picture.held if ask.app.queue == path and user_of(ask.app) == user
    )


def pass_to(world: World, now_us: int) -> None:
    """Let time pass since the last batch, in which nothing was allocated or freed."""
    picture = Picture(world)
    for holder in list(holders(world)):
        past = world.usage.setdefault(holder, PastUsage())
        tick_us = half_life_us(world, holder) // 256
        _pass(past, allocated(picture, holder), tick_us, world.now_us, now_us)
        world.reached["usage"] += any(past.used.values())


def _pass(past: PastUsage, held: dict[str, int], tick_us: int, since_us: int, now_us: int) -> None:
    while True:
        end_us = (since_us // tick_us + 1) * tick_us
        until_us = min(end_us, now_us)
        add(past.recent, {name: amount * (until_us - since_us) for name, amount in held.items()})
        if end_us > now_us:
            return
        for name in {*past.used, *past.recent}:
            kept = past.used.get(name, 0) * 4283353945 // 2**32
            past.used[name] = kept + past.recent.pop(name, 0)
        since_us = end_us


def tidy(world: World) -> None:
    """Forget what does not count any more, and users of whom nothing is left."""
    there = {(app.queue, user_of(app)) for app in world.in_queues()}
    for holder, past in list(world.usage.items()):
        left = any(past.used.values()) or any(past.recent.values())
        gone = holder[1] is not None and not left and holder not in there
        if gone or not half_life_us(world, holder):
            del world.usage[holder]


def share(picture: Picture, holder: Holder) -> float:
    """Return the past share of a user or queue."""
    world, (path, user) = picture.world, holder
    past, now = world.usage.get(holder, PastUsage()), allocated(picture, holder)
    tick_us = half_life_us(world, holder) // 256
    weight = world.queues[path].settings.weight if user is None else 1
    return max(
        (
            (past.used.get(name, 0) + now.get(name, 0) * tick_us) / (there * tick_us * weight)
            for name, there in picture.total.items()
            if there > 0
        ),
        default=0.0,
    )


def share_of_user(picture: Picture, app: App) -> float | None:
    """Return the past share of an application's user, None if the order does not count it."""
    holder = app.queue, user_of(app)
    is_fair = picture.world.queues[app.queue].settings.sort_policy is SortPolicy.FAIR
    return share(picture, holder) if is_fair and half_life_us(picture.world, holder) else None


def set_usage(world: World, event: SetUsage) -> None:
    """Replace the usage of a user or queue.

    Raises:
        RefusedError: If it does not count.
    """
    holder = directory.canonical(event.queue), event.user
    if holder[0] not in world.queues:
        msg = f"queue: {event.queue!r} is unknown"
        raise RefusedError(msg)
    if holder == (ROOT, None) or not half_life_us(world, holder):
        msg = f"queue: the usage of {holder} does not count"
        raise RefusedError(msg)
    past = world.usage.setdefault(holder, PastUsage())
    past.used.update((name, amount * 1_000_000) for name, amount in event.usage.items())


def snapshots(world: World) -> tuple[UsageSnapshot, ...]:
    """Return what can be seen of the usage of all."""
    picture = Picture(world)
    found: list[UsageSnapshot] = []
    for path, user in sorted(
        holders(world), key=lambda one: (one[0], one[1] is not None, one[1] or "")
    ):
        holder = path, user
        past = world.usage.get(holder, PastUsage())
        weight = world.queues[path].settings.weight if user is None else 1
        siblings = [other for other in holders(world) if _are_siblings(holder, other)]
        weights = [world.queues[one].settings.weight if by is None else 1 for one, by in siblings]
        parts = [
            share(picture, one) * weight for one, weight in zip(siblings, weights, strict=True)
        ]
        own, whole = share(picture, holder), math.fsum(parts)
        used = {name: amount for name, amount in past.used.items() if amount}
        found.append(
            UsageSnapshot(
                path,
                user,
                used,
                own,
                weight,
                half_life_us(world, holder),
                own * weight / whole if whole else 0.0,
                weight / sum(weights),
            )
        )
    return tuple(found)


def _are_siblings(one: Holder, other: Holder) -> bool:
    if one[1] is None or other[1] is None:
        return one[1] is other[1] and parent_path(one[0]) == parent_path(other[0])
    return one[0] == other[0]
