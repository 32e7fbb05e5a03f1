"""Binds that failed in a row, and how long an ask backs off after them, in the naive model."""

from __future__ import annotations

from tests.naive.state import Ask, World

_MOST = 64
"""A back-off is never longer than so many times the delay."""


def failed(ask: Ask, now_us: int) -> None:
    """The bind of an ask failed once more: at once, when it was to start, or in its work."""
    ask.failed_binds += 1
    ask.failed_at_us = now_us


def lost(ask: Ask, now_us: int) -> None:
    """An ask was released from being bound and is pending again, though no bind failed."""
    ask.since_us = now_us
    ask.failed_binds = 0


def ends(world: World, ask: Ask) -> int | None:
    """Give the instant from which on a pending ask is tried again; None if no bind failed.

    The delay is that of the leaf now, as it is of ``preemption.delay``.
    """
    delay_us = world.queues[ask.app.queue].settings.bind_retry_us
    if not ask.failed_binds or not delay_us:
        return None
    return ask.failed_at_us + delay_us * min(1 << (ask.failed_binds - 1), _MOST)


def backs_off(world: World, ask: Ask) -> bool:
    """Say whether an ask, if it is pending, is left out wherever asks are picked."""
    end_us = ends(world, ask)
    return end_us is not None and world.now_us < end_us


def awake(world: World, asks: list[Ask]) -> list[Ask]:
    """Leave of some pending asks those that may be picked."""
    return [ask for ask in asks if not backs_off(world, ask)]


def deadlines(world: World) -> list[int]:
    """Give the instants, later than now, at which pending asks may be picked again."""
    found = [ends(world, ask) for ask in world.pending() if backs_off(world, ask)]
    return [end_us for end_us in found if end_us is not None]
