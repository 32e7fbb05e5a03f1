"""The releases: when the asks that hold nodes are expected to end, in order."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, final

import attrs

from muster_core.view.tree.estimates import estimate_us

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Allocation
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView

Instant = tuple[bool, int]
"""A point in the order of releases: whether the end is unknown, and the end in microseconds, or else
the place of the allocation in the order in which nodes were chosen."""


@final
@attrs.frozen(eq=False)
class Release:
    """An ask that holds a node, and when it gives it back.

    Attributes:
        at: When.
        app: Its application.
        allocation: Its allocation.
        node: Its node.
    """

    at: Instant
    app: ViewApp
    allocation: Allocation
    node: Node


# BACKFILL-12
def expected_end_us(leaf: LeafView, allocation: Allocation, now_us: int) -> int | None:
    """Return when a bound ask of a leaf is expected to end, in microseconds, or None.

    Args:
        leaf: The leaf.
        allocation: The allocation of the bound ask.
        now_us: The present instant, in microseconds; the end is after it.
    """
    estimate = estimate_us(leaf.config.settings, allocation.ask)
    if estimate is None:
        return None
    taken = now_us - allocation.bound_us
    while estimate <= taken:
        estimate *= 2
    return allocation.bound_us + estimate


# BACKFILL-13, BACKFILL-14
def release_of(
    state: ViewState, app: ViewApp, allocation: Allocation, now_us: int, *, bound: bool
) -> Instant:
    """Return when an ask that holds a node gives it back."""
    end_us = expected_end_us(state.leaf_of(app), allocation, now_us) if bound else None
    return (True, allocation.age) if end_us is None else (False, end_us)


# BACKFILL-14
def releases(state: ViewState, now_us: int) -> list[Release]:
    """Return all asks that hold nodes, in the order in which they give them back."""
    return sorted(releases_of(state, state.apps.values(), now_us), key=attrgetter("at"))


# BACKFILL-14
def releases_on(state: ViewState, node: Node, now_us: int) -> list[Release]:
    """Return the asks that hold a node, in the order in which they give it back."""
    found: list[Release] = []
    for key, name in node.held:
        app = state.apps[key]
        bound = name in app.bound
        allocation, _ = app.bound[name] if bound else app.waiting[name]
        at = release_of(state, app, allocation, now_us, bound=bound)
        found.append(Release(at, app, allocation, node))
    found.sort(key=attrgetter("at"))
    return found


# BACKFILL-14
def releases_of(state: ViewState, apps: Iterable[ViewApp], now_us: int) -> Iterator[Release]:
    """Yield the asks of applications that hold nodes, in no order."""
    for app in apps:
        if not app.bound and not app.waiting:
            continue  # as most of a backlog
        for places, bound in ((app.bound, True), (app.waiting, False)):
            for allocation, node in places.values():
                at = release_of(state, app, allocation, now_us, bound=bound)
                yield Release(at, app, allocation, node)
