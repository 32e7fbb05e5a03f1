"""Who took something from a node and lost it again, in the naive model."""

from __future__ import annotations

from tests.naive.state import Ask, World

Alike = tuple[object, ...]


def alike(ask: Ask) -> Alike:
    """Give what asks have in common that differ in their names alone."""
    wants, selector = tuple(sorted(ask.wants.items())), tuple(sorted(ask.selector.items()))
    needs = tuple(sorted(ask.needs.items()))
    return (
        ask.app.name,
        wants,
        needs,
        selector,
        ask.required,
        ask.priority,
        ask.preempts,
        ask.gang,
    )


def forget(world: World) -> None:
    """Forget what was taken: something new came in, or a bind failed."""
    world.taken.clear()
    world.lost.clear()


def evicted(world: World, ask: Ask) -> None:
    """Take note that an ask was evicted, which may have taken something before."""
    taking = world.taken.pop(ask, None)
    if taking is not None:
        world.lost.add(taking)
