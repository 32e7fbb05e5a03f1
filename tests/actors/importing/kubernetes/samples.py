"""Small dumps of a cluster, to be mutated, and imports of a few objects."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Final, final

import attrs
import yaml

from muster.feeds import parse_date
from muster.importing import Cause, ImportAccount, Workload, default_queues, read_queues
from muster.importing.kubernetes import FIELDS, QUEUES, read_kubernetes
from tests.actors.importing.mutated import Kind

Object = dict[str, Any]

DAY: Final = "2026-03-02T12:"


def pod(
    name: str = "a",
    *,
    namespace: str = "default",
    created: str = "00:00",
    bound: str | None = "00:10",
    ended: str | None = "01:10",
    requests: Object | None = None,
    labels: Object | None = None,
    annotations: Object | None = None,
    owner: tuple[str, str] | None = None,
    spec: Object | None = None,
    **metadata: str,
) -> Object:
    """Return a pod; times are minutes and seconds after noon."""
    base: Object = {"creationTimestamp": f"{DAY}{created}Z", "name": name, "namespace": namespace}
    if labels is not None:
        base["labels"] = labels
    if annotations is not None:
        base["annotations"] = annotations
    if owner is not None:
        base["ownerReferences"] = [{"controller": True, "kind": owner[0], "name": owner[1]}]
    needs = {"cpu": "1", "memory": "1Gi"} if requests is None else requests
    base_spec: Object = {"containers": [{"name": "main", "resources": {"requests": needs}}]}
    status: Object = {"phase": "Pending"}
    if bound is not None:
        base_spec["nodeName"] = "n1"
        since = {"lastTransitionTime": f"{DAY}{bound}Z", "status": "True", "type": "PodScheduled"}
        status = {"conditions": [since], "phase": "Running"}
        state: Object = {"running": {"startedAt": f"{DAY}{bound}Z"}}
        if ended is not None:
            state = {"terminated": {"finishedAt": f"{DAY}{ended}Z", "reason": "Completed"}}
            status["phase"] = "Succeeded"
        status["containerStatuses"] = [{"name": "main", "state": state}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": base | metadata,
        "spec": base_spec | (spec or {}),
        "status": status,
    }


def node(name: str = "n1", labels: Object | None = None, **spec: object) -> Object:
    """Return a node."""
    size = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "creationTimestamp": "2026-01-02T12:00:00Z",
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "name": name,
        },
        "spec": spec,
        "status": {"allocatable": size},
    }


def object_of(kind: str, name: str, spec: Object | None = None, **more: object) -> Object:
    """Return any other object."""
    metadata = {"name": name}
    if kind == "PodGroup":
        metadata["namespace"] = "default"
    return {"kind": kind, "metadata": metadata, **({"spec": spec} if spec else {}), **more}


def as_yaml(*objects: Object) -> str:
    """Return a List as kubectl prints it with ``-o yaml``."""
    items = [json.loads(json.dumps(one)) for one in objects]
    whole = {
        "apiVersion": "v1",
        "items": items,
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }
    return yaml.safe_dump(whole, width=1000)


def as_json(*objects: Object) -> str:
    """Return a List as kubectl prints it with ``-o json``."""
    whole = {"apiVersion": "v1", "items": objects, "kind": "List"}
    return json.dumps(whole, indent=4)


_TASKS: Final = json.dumps([{"name": "w", "minMember": 2}])
_OBJECTS: Final = (
    pod(
        "a",
        labels={"applicationId": "app", "queue": "root.x.y"},
        annotations={"yunikorn.apache.org/user.info": '{"user":"sue","groups":["g"]}'},
        uid="1",
    ),
    pod(
        "b",
        created="00:05",
        ended=None,
        annotations={
            "yunikorn.apache.org/task-groups": _TASKS,
            "yunikorn.apache.org/task-group-name": "w",
        },
        owner=("Job", "j"),
    ),
    pod(
        "c",
        bound=None,
        labels={"volcano.sh/queue-name": "q"},
        spec={"tolerations": [{"operator": "Exists"}]},
    ),
    pod(
        "d",
        labels={"pod-group.scheduling.sigs.k8s.io": "g"},
        spec={"priority": 5, "priorityClassName": "high", "nodeSelector": {"disk": "ssd"}},
    ),
    pod("e", labels={"pod-group.scheduling.sigs.k8s.io": "g"}, created="00:03"),
    node("n1", {"disk": "ssd"}),
    node("n2", taints=[{"key": "only", "effect": "NoSchedule"}]),
    object_of("PodGroup", "g", {"minMember": 2}),
    object_of("Queue", "q", {"parent": "p", "capability": {"cpu": 4}, "deserved": {"cpu": 1}}),
    object_of("PriorityClass", "high", value=5),
)


def _read(sample: str, dump: bytes, workload: Workload) -> None:
    queues = default_queues(QUEUES, FIELDS)
    read_kubernetes(["dump"], workload, queues, opener=lambda _: io.BytesIO(dump), nodes_join=True)


KIND: Final = Kind(
    {"yaml": as_yaml(*_OBJECTS).encode(), "json": as_json(*_OBJECTS).encode()},
    _read,
    words=(b'"1e30"', b"{}", b"- a", b"Failed", b"'5m'", b"2026-01-01T00:00:00Z", b'"\\ud800"'),
)


Event = dict[str, Any]


@final
@attrs.frozen
class ImportedFeed:
    """A feed of some objects.

    Attributes:
        events: Its events.
        account: What became of the objects.
        settings: What a made configuration says of queues.
    """

    events: list[Event]
    account: ImportAccount
    settings: dict[str, Any]

    def events_of(self, op: str) -> list[Event]:
        """Return the events of an operation, without its name."""
        return [
            {name: value for name, value in event.items() if name not in ("op", "at")}
            for event in self.events
            if event["op"] == op
        ]

    @property
    def ask(self) -> Event:
        """The only ask."""
        (ask,) = self.events_of("add_ask")
        return ask

    @property
    def queues(self) -> list[str]:
        """The queue of each application."""
        return [app["queue"] for app in self.events_of("add_app")]

    @property
    def left_out(self) -> list[str]:
        """Why objects are left out."""
        return _texts(self.account.left_out)

    @property
    def notes(self) -> list[str]:
        """What was noted."""
        return _texts(self.account.notes)

    @property
    def changes(self) -> list[str]:
        """What is in the feed in another form."""
        return _texts(self.account.changes)


def _texts(causes: tuple[Cause, ...]) -> list[str]:
    return [f"{cause.count} {cause.what}: {cause.text}" for cause in causes]


def feed_of(
    *objects: Object, since: str | None = None, queues: Path | None = None, nodes_join: bool = False
) -> ImportedFeed:
    """Import objects."""
    dump, feed = as_json(*objects).encode(), io.BytesIO()
    rules = default_queues(QUEUES, FIELDS) if queues is None else read_queues(str(queues), FIELDS)
    with Workload() as workload:
        workload.since_us = None if since is None else parse_date(since)
        read_kubernetes(
            ["dump"], workload, rules, opener=lambda _: io.BytesIO(dump), nodes_join=nodes_join
        )
        workload.write(feed, {"config": {}})
    assert not workload.account.missing
    events = [json.loads(line) for line in feed.getvalue().splitlines()]
    return ImportedFeed(events, workload.account, dict(workload.settings))
