"""Diagnostics: checks of the state, metrics with YuniKorn's names, dumps of state and threads."""

from __future__ import annotations

import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, final

from muster.service.yunikorn.objects.applications import (
    allocated,
    application,
    bucket_of,
    completed,
    nodes,
)
from muster.service.yunikorn.objects.partitions import clusters, history, partitions, rules, tree
from muster.service.yunikorn.objects.values import JsonObject, YuniKornState, bound, percentages
from muster_core.nodes.node import Node
from muster_core.structures.steps import Steps, in_pieces

if TYPE_CHECKING:
    from muster.service.ledger.usage import Counts


# REST-19
def health(state: YuniKornState) -> Steps[JsonObject]:
    """Return the checks, and whether all have succeeded."""
    nodes = state.view.nodes
    wrong_sums: list[str] = []
    orphans: list[str] = []
    total: Counter[str] = Counter()
    for piece in in_pieces(nodes.nodes.values()):
        yield
        for node in piece:
            total.update(node.capacity)
            if _standing(state, node, orphans) != {k: v for k, v in node.used.items() if v}:
                wrong_sums.append(node.name)
    lost = yield from _without_node(state)
    differs = [kind for kind in total | Counter(nodes.total) if total[kind] != nodes.total[kind]]
    checks = [
        _check(
            "Scheduling errors",
            "The scheduler must answer, and go on with its batches",
            "",
            f"batch {state.machine.batches} has ended",
        ),
        _check(
            "Consistency of data",
            "What is available of a node and what stands on it must be its capacity",
            _names_text(wrong_sums),
            f"{len(nodes.nodes)} nodes",
        ),
        _check(
            "Consistency of data",
            "The capacity of the partition must be that of its nodes",
            _names_text(differs),
            f"{len(nodes.total)} types",
        ),
        _check(
            "Orphan allocation on node check",
            "Every allocation of a node must be one of its application",
            _names_text(orphans),
            "none",
        ),
        _check(
            "Orphan allocation on app check",
            "Every allocation of an application must be on its node",
            _names_text(lost),
            "none",
        ),
    ]
    return {"Healthy": all(check["Succeeded"] for check in checks), "HealthChecks": checks}


def _check(name: str, about: str, wrong: str, right: str) -> JsonObject:
    return {
        "Name": name,
        "Succeeded": not wrong,
        "Description": about,
        "DiagnosisMessage": wrong or right,
    }


def _names_text(wrong: list[str]) -> str:
    """Return a few of the names of what is wrong; an empty text if nothing is."""
    more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""
    return ", ".join(wrong[:10]) + more


def _standing(state: YuniKornState, node: Node, orphans: list[str]) -> dict[str, int]:
    """Return what the asks on a node use; note those that their application does not know."""
    used: Counter[str] = Counter()
    for key, name in node.held:
        app = state.view.apps.get(key)
        held = None if app is None else app.bound.get(name) or app.waiting.get(name)
        if held is None or held[1] is not node:
            orphans.append(f"{name} on {node.name}")
        else:
            used.update(held[0].ask.resources.amounts)
    return dict(used)


def _without_node(state: YuniKornState) -> Steps[list[str]]:
    """Return the allocations that their nodes do not know."""
    lost: list[str] = []
    for app in state.view.apps.values():
        for held in (app.bound, app.waiting):
            for piece in in_pieces(held.items()):
                yield
                lost.extend(
                    f"{app.identity.name}/{name}"
                    for name, (_, node) in piece
                    if (app.identity.key, name) not in node.held
                )
    return lost


RANGES: Final = ("[0,10%]", *(f"({low}%,{low + 10}%]" for low in range(10, 100, 10)))

_LIVE: Final = ("running", "resuming", "failing", "completing", "completed", "failed")
_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")

_Labels = Mapping[str, str]


@final
class _Page:
    """The text of all metrics."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, about: str, samples: Iterable[tuple[_Labels, int]]) -> None:
        """Add a metric with its samples."""
        self._lines.append(f"# HELP {name} {about}")
        self._lines.append(f"# TYPE {name} {kind}")
        for labels, value in samples:
            pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            self._lines.append(f"{name}{{{pairs}}} {value}")

    def text(self) -> str:
        """Return the text."""
        return "\n".join([*self._lines, ""])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def name_in_metric(name: str) -> str:
    """Return a name as a part of the name of a metric."""
    return _NOT_IN_A_NAME.sub("_", name)


# REST-24
def metrics(state: YuniKornState) -> Steps[str]:
    """Return the text of all metrics."""
    page = _Page()
    _scheduler(page, state.ledger.counts)
    yield from _applications(page, state)
    yield from _nodes(page, state)
    yield from _queues(page, state)
    return page.text()


def _scheduler(page: _Page, counts: Counts) -> None:
    page.add(
        "yunikorn_scheduler_container_allocation_attempt_total",
        "counter",
        "How asks were placed and released.",
        _by_state(
            allocated=counts.allocated,
            rejected=counts.refused_asks,
            error=counts.failed_binds,
            released=counts.released,
        ),
    )
    page.add(
        "yunikorn_scheduler_application_submission_total",
        "counter",
        "How applications were submitted.",
        [
            ({"result": "new"}, counts.new_apps),
            ({"result": "accepted"}, counts.accepted_apps),
            ({"result": "rejected"}, counts.refused_apps),
        ],
    )


def _by_state(**values: int) -> list[tuple[_Labels, int]]:
    return [({"state": state}, value) for state, value in values.items()]


def _applications(page: _Page, state: YuniKornState) -> Steps[None]:
    states: Counter[str] = Counter()
    in_queue: Counter[tuple[str, str]] = Counter()
    for piece in in_pieces(state.view.apps.values()):
        yield
        for app in piece:
            app_state = app.state.value.lower()
            states[app_state] += 1
            in_queue[app.identity.path, app_state] += 1
    states["completed"] = state.ledger.counts.completed_apps
    page.add(
        "yunikorn_scheduler_application_total",
        "gauge",
        "How many applications are in a state.",
        [({"state": app_state}, states[app_state]) for app_state in _LIVE],
    )
    page.add(
        "yunikorn_queue_app",
        "gauge",
        "How many applications of a queue are in a state.",
        [
            ({"queue": queue, "state": app_state}, count)
            for (queue, app_state), count in sorted(in_queue.items())
        ],
    )


def _nodes(page: _Page, state: YuniKornState) -> Steps[None]:
    nodes = state.view.nodes.nodes
    ready = 0
    usage: dict[str, Counter[int]] = {}
    for piece in in_pieces(nodes.values()):
        yield
        for node in piece:
            ready += node.schedulable
            for kind, percent in percentages(allocated(node), node.capacity).items():
                usage.setdefault(kind, Counter())[bucket_of(percent)] += 1
    page.add(
        "yunikorn_scheduler_node",
        "gauge",
        "How many nodes are in a state.",
        _by_state(active=ready, draining=len(nodes) - ready, failed=0, decommissioned=0),
    )
    for kind, buckets in sorted(usage.items()):
        page.add(
            f"yunikorn_scheduler_{name_in_metric(kind)}_node_usage_total",
            "gauge",
            "How many nodes use how much of what they have.",
            [({"range": name}, buckets[place]) for place, name in enumerate(RANGES)],
        )


def _queues(page: _Page, state: YuniKornState) -> Steps[None]:
    amounts: list[tuple[_Labels, int]] = []
    apps: list[tuple[_Labels, int]] = []
    counts = state.ledger.counts.queues
    queues = sorted(state.machine.registry.queues.items())
    for piece in in_pieces(queues):
        yield
        for path, entry in piece:
            amounts += _amounts(state, path, entry.key)
            one = counts.get(path)
            for outcome, value in (
                ("completed", 0 if one is None else one.completed),
                ("failed", 0),
                ("rejected", 0),
            ):
                apps.append(({"queue": path, "state": outcome}, value))
    page.add("yunikorn_queue_app_total", "counter", "How applications of a queue ended.", apps)
    page.add("yunikorn_queue_resource", "gauge", "What a queue has, and may have.", amounts)
    for path, _ in queues:
        one = counts.get(path)
        page.add(
            f"yunikorn_{name_in_metric(path)}_queue_container",
            "counter",
            "How asks of a queue were placed and released.",
            _by_state(
                allocated=0 if one is None else one.allocated,
                released=0 if one is None else one.released,
            ),
        )
        yield


def _amounts(state: YuniKornState, path: str, key: int) -> Iterator[tuple[_Labels, int]]:
    view = state.view.queues.get(key)
    if view is None:
        return
    config = view.config
    most = dict(config.max.amounts) if view.parent is not None else state.view.nodes.total
    for category, amounts in (
        ("guaranteed", config.guaranteed),
        ("max", most),
        ("allocated", view.usage()),
        ("pending", view.types.amounts(view.pending)),
    ):
        for kind, amount in sorted(amounts.items()):
            yield {"queue": path, "state": category, "resource": kind}, bound(amount)
    if config.max_applications:
        labels = {"queue": path, "state": "maxRunningApps", "resource": "apps"}
        yield labels, config.max_applications


# REST-23
def everything(state: YuniKornState, now_us: int) -> Steps[JsonObject]:
    """Return the state dump, but for what is not in the state.

    Args:
        state: The state.
        now_us: The present instant, in microseconds since the origin.
    """
    partition = state.partition
    applications: list[JsonObject] = []
    for app in state.view.apps.values():
        made = yield from application(state, app)
        applications.append(made)
    applications += [completed(state, entry) for entry in state.ledger.completed.values()]
    return {
        "timestamp": state.ns(now_us),
        "partitions": (yield from partitions(state)),
        "applications": applications,
        "appHistory": history(state, now_us, containers=False),
        "nodes": [{"partitionName": partition, "nodesInfo": (yield from nodes(state))}],
        "clusterInfo": clusters(state),
        "containerHistory": history(state, now_us, containers=True),
        "queues": [(yield from tree(state))],
        "rmDiagnostics": {"empty": "Muster is no part of a cluster's control plane"},
        "placementRules": [{"partition": partition, "rules": rules(state.machine.configuration)}],
    }


# REST-23
def stacks() -> str:
    """Return what each thread of the process does now."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    lines: list[str] = []
    frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented
    for ident, frame in frames.items():
        lines.append(f"thread {names.get(ident, ident)}:\n")
        lines += traceback.format_stack(frame)
        lines.append("\n")
    return "".join(lines)
