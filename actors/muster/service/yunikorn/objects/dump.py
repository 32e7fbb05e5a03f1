"""Everything at once, and what the threads of the process do."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING

from muster.service.yunikorn.objects.applications import application, completed
from muster.service.yunikorn.objects.forms import Made, Seen
from muster.service.yunikorn.objects.nodes import nodes
from muster.service.yunikorn.objects.partitions import clusters, history, partitions
from muster.service.yunikorn.objects.queues import tree
from muster.service.yunikorn.objects.rules import rules

if TYPE_CHECKING:
    from muster_core.structures.steps import Steps


# REST-23
def everything(seen: Seen, now_us: int) -> Steps[Made]:
    """Return the state dump, but for what is not in the state.

    Args:
        seen: The state.
        now_us: The present instant, in microseconds since the origin.
    """
    partition = seen.partition
    applications: list[Made] = []
    for app in seen.view.apps.values():
        made = yield from application(seen, app)
        applications.append(made)
    applications += [completed(seen, entry) for entry in seen.ledger.completed.values()]
    return {
        "timestamp": seen.ns(now_us),
        "partitions": (yield from partitions(seen)),
        "applications": applications,
        "appHistory": history(seen, now_us, containers=False),
        "nodes": [{"partitionName": partition, "nodesInfo": (yield from nodes(seen))}],
        "clusterInfo": clusters(seen),
        "containerHistory": history(seen, now_us, containers=True),
        "queues": [(yield from tree(seen))],
        "rmDiagnostics": {"empty": "Muster is no part of a cluster's control plane"},
        "placementRules": [{"partition": partition, "rules": rules(seen.machine.configuration)}],
    }


# REST-23
def stacks() -> str:
    """Return what each thread of the process does now."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    told: list[str] = []
    frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented
    for ident, frame in frames.items():
        told.append(f"thread {names.get(ident, ident)}:\n")
        told += traceback.format_stack(frame)
        told.append("\n")
    return "".join(told)
