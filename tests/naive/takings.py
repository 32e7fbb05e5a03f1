"""Who took what from which nodes, so that nobody takes it twice in the naive model."""

from __future__ import annotations

from collections import Counter

from muster_core.snapshots import AskPlace
from tests.naive.state import Ask, World

Alike = tuple[object, ...]
Standing = frozenset[tuple[tuple[Alike, AskPlace], int]]
Scene = frozenset[tuple[str, Standing]]


def alike(ask: Ask) -> Alike:
    """Give what asks have in common that differ in their names alone."""
    wants, selector = tuple(sorted(ask.wants.items())), tuple(sorted(ask.selector.items()))
    return (ask.app.name, wants, selector, ask.required, ask.priority, ask.preempts, ask.gang)


def standing(world: World, node: str) -> Standing:
    """Say how many asks that are alike are bound or wait on a node."""
    asks = [ask for ask in world.asks() if ask.node == node]
    return frozenset(Counter((alike(ask), ask.place) for ask in asks).items())


def scene(world: World, nodes: set[str]) -> Scene:
    """Say that of some nodes."""
    return frozenset((name, standing(world, name)) for name in nodes)
