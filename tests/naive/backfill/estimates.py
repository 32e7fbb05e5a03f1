"""How long asks will run, and what is released when: estimates, releases, instants."""

from __future__ import annotations

from collections.abc import Collection

from muster_core.snapshots import AskPlace
from tests.naive.state import Ask, Instant, World


def estimate_us(world: World, ask: Ask) -> int | None:
    """Give how long an ask will run once it is bound, in microseconds; None if unknown."""
    if ask.estimate_us is not None:
        return ask.estimate_us
    if ask.run_for_us is not None:
        return ask.run_for_us
    return world.queues[ask.app.queue].settings.estimate_us


def expected_end_us(world: World, ask: Ask) -> int | None:
    """Give when an ask is expected to end, always later than now; None if unknown."""
    length_us = estimate_us(world, ask)
    if ask.place is not AskPlace.BOUND or length_us is None:
        return None
    while ask.bound_at_us + length_us <= world.now_us:
        world.reached["exceeded"] += 1
        length_us *= 2
    return ask.bound_at_us + length_us


def release_of(world: World, ask: Ask) -> Instant:
    """Give when an ask is released that holds a node."""
    end_us = expected_end_us(world, ask)
    return Instant(True, ask.held_order) if end_us is None else Instant(False, end_us)


def instants(world: World) -> list[Instant]:
    """Give every instant at which something is released, the first first."""
    return sorted({release_of(world, ask) for ask in world.asks() if ask.held})


def released_by(world: World, instant: Instant, staying: Collection[Ask]) -> set[Ask]:
    """Give what is released up to an instant; some asks stay whatever is expected of them."""
    held = {ask for ask in world.asks() if ask.held} - set(staying)
    return {ask for ask in held if release_of(world, ask) <= instant}


def is_after_now(world: World, instant: Instant) -> bool:
    """Say whether an instant, found some time ago, is still to come."""
    if instant.is_unknown:
        return instant in instants(world)
    return instant.place > world.now_us
