"""Metrics with YuniKorn's names, as Prometheus reads them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, final

from muster.service.yunikorn.objects.forms import Seen, bound, percentages
from muster.service.yunikorn.objects.nodes import allocated, bucket_of
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from muster.service.ledger.history import Counts
    from muster_core.structures.steps import Steps

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
            said = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            self._lines.append(f"{name}{{{said}}} {value}")

    def text(self) -> str:
        """Return the text."""
        return "\n".join([*self._lines, ""])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def name_in_metric(name: str) -> str:
    """Return a name as a part of the name of a metric."""
    return _NOT_IN_A_NAME.sub("_", name)


# REST-24
def metrics(seen: Seen) -> Steps[str]:
    """Return the text of all metrics."""
    page = _Page()
    _scheduler(page, seen.ledger.counts)
    yield from _applications(page, seen)
    yield from _nodes(page, seen)
    yield from _queues(page, seen)
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


def _applications(page: _Page, seen: Seen) -> Steps[None]:
    states: Counter[str] = Counter()
    in_queue: Counter[tuple[str, str]] = Counter()
    for piece in in_pieces(seen.view.apps.values()):
        yield
        for app in piece:
            state = app.state.value.lower()
            states[state] += 1
            in_queue[app.identity.path, state] += 1
    states["completed"] = seen.ledger.counts.completed_apps
    page.add(
        "yunikorn_scheduler_application_total",
        "gauge",
        "How many applications are in a state.",
        [({"state": state}, states[state]) for state in _LIVE],
    )
    page.add(
        "yunikorn_queue_app",
        "gauge",
        "How many applications of a queue are in a state.",
        [
            ({"queue": queue, "state": state}, count)
            for (queue, state), count in sorted(in_queue.items())
        ],
    )


def _nodes(page: _Page, seen: Seen) -> Steps[None]:
    nodes = seen.view.nodes.nodes
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


def _queues(page: _Page, seen: Seen) -> Steps[None]:
    amounts: list[tuple[_Labels, int]] = []
    apps: list[tuple[_Labels, int]] = []
    counts = seen.ledger.counts.queues
    queues = sorted(seen.machine.registry.queues.items())
    for piece in in_pieces(queues):
        yield
        for path, entry in piece:
            amounts += _amounts(seen, path, entry.key)
            one = counts.get(path)
            for state, value in (
                ("completed", 0 if one is None else one.completed),
                ("failed", 0),
                ("rejected", 0),
            ):
                apps.append(({"queue": path, "state": state}, value))
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


def _amounts(seen: Seen, path: str, key: int) -> Iterator[tuple[_Labels, int]]:
    view = seen.view.queues.get(key)
    if view is None:
        return
    config = view.config
    most = dict(config.max.amounts) if view.parent is not None else seen.view.nodes.total
    for state, amounts in (
        ("guaranteed", config.guaranteed),
        ("max", most),
        ("allocated", view.usage()),
        ("pending", view.types.amounts(view.pending)),
    ):
        for kind, amount in sorted(amounts.items()):
            yield {"queue": path, "state": state, "resource": kind}, bound(amount)
    if config.max_applications:
        labels = {"queue": path, "state": "maxRunningApps", "resource": "apps"}
        yield labels, config.max_applications
