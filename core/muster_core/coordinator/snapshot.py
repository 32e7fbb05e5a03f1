"""Building a snapshot from those of the owners, and from the nodes and shares of the view."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from muster_core.structures.steps import PART, in_order, in_pieces
from muster_core.values.snapshots import NodeSnapshot, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.structures.steps import Steps
    from muster_core.values.snapshots import (
        AppSnapshot,
        GangSnapshot,
        LimitSnapshot,
        QueueSnapshot,
    )
    from muster_core.view import DecisionView


def take_snapshot(
    view: DecisionView,
    at_us: int,
    completed: frozenset[str],
    apps: Iterable[AppSnapshot],
    queues: Iterable[QueueSnapshot],
    gangs: Iterable[GangSnapshot],
) -> Steps[Snapshot]:
    """Build a snapshot. Between two batches.

    Args:
        view: The decision view.
        at_us: The instant of the last batch, in microseconds.
        completed: The names of completed applications, as far as they are kept.
        apps: The snapshots of all applications.
        queues: The snapshots of all queues.
        gangs: The snapshots of all gangs.
    """
    queues = sorted(queues, key=attrgetter("path"))
    nodes: dict[str, NodeSnapshot] = {}
    for piece in in_pieces(view.nodes.in_order()):
        yield
        for node in piece:
            nodes[node.name] = NodeSnapshot(
                node.name,
                dict(node.capacity),
                dict(node.used),
                node.schedulable,
                dict(node.attributes),
            )
    shares: dict[str, float] = {}
    for queue in queues:
        yield
        shares[queue.path] = view.share_of(queue.key)
    by_name: dict[str, AppSnapshot] = {}
    for app in (yield from in_order(apps, attrgetter("name"))):
        by_name[app.name] = app
        if not len(by_name) % PART:
            yield
    return Snapshot(
        at_us=at_us,
        apps=by_name,
        completed=completed,
        queues={queue.path: queue for queue in queues},
        shares=shares,
        nodes=nodes,
        gangs={gang.name: gang for gang in sorted(gangs, key=attrgetter("name"))},
        reservations=view.reservations(),
        limits=tuple((yield from in_order(view.limits(), _place_of))),
    )


def _place_of(limit: LimitSnapshot) -> tuple[str, bool, str]:
    return limit.queue, limit.group is not None, limit.group or limit.user or ""
