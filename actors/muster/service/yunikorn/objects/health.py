"""Whether the state agrees with itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from muster.service.yunikorn.objects.forms import Made, Seen
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from muster_core.nodes.node import Node
    from muster_core.structures.steps import Steps


# REST-19
def health(seen: Seen) -> Steps[Made]:
    """Return the checks, and whether all have succeeded."""
    nodes = seen.view.nodes
    wrong_sums: list[str] = []
    orphans: list[str] = []
    total: Counter[str] = Counter()
    for piece in in_pieces(nodes.nodes.values()):
        yield
        for node in piece:
            total.update(node.capacity)
            if _standing(seen, node, orphans) != {k: v for k, v in node.used.items() if v}:
                wrong_sums.append(node.name)
    lost = yield from _without_node(seen)
    differs = [kind for kind in total | Counter(nodes.total) if total[kind] != nodes.total[kind]]
    checks = [
        _check(
            "Scheduling errors",
            "The scheduler must answer, and go on with its batches",
            "",
            f"batch {seen.machine.batches} has ended",
        ),
        _check(
            "Consistency of data",
            "What is available of a node and what stands on it must be its capacity",
            _named(wrong_sums),
            f"{len(nodes.nodes)} nodes",
        ),
        _check(
            "Consistency of data",
            "The capacity of the partition must be that of its nodes",
            _named(differs),
            f"{len(nodes.total)} types",
        ),
        _check(
            "Orphan allocation on node check",
            "Every allocation of a node must be one of its application",
            _named(orphans),
            "none",
        ),
        _check(
            "Orphan allocation on app check",
            "Every allocation of an application must be on its node",
            _named(lost),
            "none",
        ),
    ]
    return {"Healthy": all(check["Succeeded"] for check in checks), "HealthChecks": checks}


def _check(name: str, about: str, wrong: str, right: str) -> Made:
    return {
        "Name": name,
        "Succeeded": not wrong,
        "Description": about,
        "DiagnosisMessage": wrong or right,
    }


def _named(wrong: list[str]) -> str:
    """Return a few of the names of what is wrong; an empty text if nothing is."""
    more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""
    return ", ".join(wrong[:10]) + more


def _standing(seen: Seen, node: Node, orphans: list[str]) -> dict[str, int]:
    """Return what the asks on a node use; note those that their application does not know."""
    used: Counter[str] = Counter()
    for key, name in node.held:
        app = seen.view.apps.get(key)
        held = None if app is None else app.bound.get(name) or app.waiting.get(name)
        if held is None or held[1] is not node:
            orphans.append(f"{name} on {node.name}")
        else:
            used.update(held[0].ask.resources.amounts)
    return dict(used)


def _without_node(seen: Seen) -> Steps[list[str]]:
    """Return the allocations that their nodes do not know."""
    lost: list[str] = []
    for app in seen.view.apps.values():
        for held in (app.bound, app.waiting):
            for piece in in_pieces(held.items()):
                yield
                lost.extend(
                    f"{app.identity.name}/{name}"
                    for name, (_, node) in piece
                    if (app.identity.key, name) not in node.held
                )
    return lost
