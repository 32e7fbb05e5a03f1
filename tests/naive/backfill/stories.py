"""Small stories about scopes, written out by hand: their trees, asks with estimates, what is reserved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from muster_core.config.model import QueueConfig, SchedulingOrder, Settings
from muster_core.decisions import Decision, Kind
from muster_core.events import AddAsk, Configure
from tests.naive.story import S, Story, asks
from tests.naive.test_reasons import tree

BACKFILL: Final = Settings(
    scheduling_order=SchedulingOrder.BACKFILL, preemption_delay_us=10_000 * S
)
STRICT: Final = attrs.evolve(BACKFILL, scheduling_order=SchedulingOrder.STRICT)
PLAIN: Final = Settings(preemption_delay_us=10_000 * S)


def leaf(path: str, settings: Settings = BACKFILL, most: int | None = None) -> QueueConfig:
    """Make a leaf, of so many cores at the most."""
    made = {} if most is None else {"vcore": most}
    return QueueConfig(
        name=path.rpartition(".")[2],
        path=f"root.{path}",
        is_parent=False,
        max=attrs.evolve(QueueConfig("", "", is_parent=False).max, amounts=tuple(made.items())),
        settings=settings,
    )


def scope(settings: Settings = BACKFILL, *more: QueueConfig, most: int | None = None) -> Configure:
    """Make a tree with the leaf ``root.q``, and others."""
    return tree(leaf("q", settings, most), *more)


def lasting(
    name: str,
    seconds: int | None,
    cores: int = 1,
    *,
    run: int | None = None,
    app: str = "a",
    of: str | None = None,
    count: int | None = None,
    on: str | None = None,
    priority: int | None = None,
) -> AddAsk:
    """Make asks that say how long they will run, and end after so many seconds, if at all."""
    made = asks(name, cores=cores, app=app, of=of, count=count, on=on, priority=priority)
    estimate_us = None if seconds is None else seconds * S
    return attrs.evolve(made, estimate_us=estimate_us, run_for_us=None if run is None else run * S)


def reserved(decisions: Iterable[Decision]) -> list[tuple[str | None, str | None, int | None]]:
    """Give what was said to be reserved: the ask, the node, and the start in seconds."""
    return [
        (one.ask, one.node, None if one.start_us is None else one.start_us // S)
        for one in decisions
        if one.kind is Kind.RESERVED
    ]


def in_force(story: Story) -> dict[str, tuple[str, int | None]]:
    """Give what the last round left: by the name of the ask, the node and the start in seconds."""
    return {
        ask.name: (node, None if one.start.start_us is None else one.start.start_us // S)
        for one in story.model.world.reserved
        for ask, node in one.nodes
    }


def bound(story: Story) -> set[str]:
    """Give the names of the asks that are bound."""
    return {name.partition("/")[2] for name, _ in story.model.bound}
