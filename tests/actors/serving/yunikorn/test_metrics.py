"""Metrics with YuniKorn's names, sums larger than its clients read, and how durations and
percentages are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.service.yunikorn.app import PATHS
from muster.service.yunikorn.objects.applications import bucket_of
from muster.service.yunikorn.objects.diagnostics import name_in_metric
from muster.service.yunikorn.objects.values import go_duration, percentages
from tests.actors.serving.served import Served

_EVENTS = [
    {"op": "add_node", "node": "n", "capacity": {"vcore": 4, "nvidia.com/gpu": 2}},
    {"op": "add_node", "node": "m", "capacity": {"vcore": 4}, "schedulable": False},
    {"op": "add_app", "app": "a", "queue": "root.prod"},
    {"op": "add_app", "app": "a", "queue": "root.prod"},
    {"op": "add_ask", "app": "a", "ask": "x", "resources": {"vcore": 3}},
    {"op": "add_ask", "app": "a", "ask": "y", "resources": {"vcore": 1}},
    {"op": "add_ask", "app": "b", "ask": "z", "resources": {"vcore": 1}},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("metrics")) as served:
        served.client.post("/api/v1/events", json=_EVENTS)
        served.client.post("/api/v1/events", json=[{"op": "release", "app": "a", "ask": "y"}])
        yield served


# REST-24
def test_the_samples(served: Served) -> None:
    answer = served.client.get("/ws/v1/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    attempts = "yunikorn_scheduler_container_allocation_attempt_total"
    assert found[attempts, ("state", "allocated")] == 2
    assert found[attempts, ("state", "released")] == 1
    assert found[attempts, ("state", "rejected")] == 1
    submissions = "yunikorn_scheduler_application_submission_total"
    assert found[submissions, ("result", "new")] == 1
    assert found[submissions, ("result", "rejected")] == 1
    assert found["yunikorn_scheduler_application_total", ("state", "running")] == 1
    assert found["yunikorn_scheduler_node", ("state", "active")] == 1
    assert found["yunikorn_scheduler_node", ("state", "draining")] == 1
    gpu = "yunikorn_scheduler_nvidia_com_gpu_node_usage_total"
    assert found[gpu, ("range", "[0,10%]")] == 1
    cores = "yunikorn_scheduler_vcore_node_usage_total"
    assert found[cores, ("range", "(70%,80%]")] == 1
    assert found["yunikorn_queue_app", ("queue", "root.prod"), ("state", "running")] == 1
    resource = "yunikorn_queue_resource"
    labels = (("queue", "root.prod"), ("resource", "vcore"))
    assert found[resource, *labels, ("state", "allocated")] == 3000
    assert found[resource, *labels, ("state", "max")] == 8000
    assert found[resource, *labels, ("state", "guaranteed")] == 4000
    container = 'yunikorn_root_prod_queue_container{state="allocated"} 2'
    assert container in answer.text.splitlines()
    assert found["yunikorn_queue_app_total", ("queue", "root.dev"), ("state", "completed")] == 0


_MOST = 2**63 - 1
_LARGE_EVENTS: list[dict[str, Any]] = [
    *({"op": "add_node", "node": name, "capacity": {"memory": _MOST}} for name in "nm"),
    {"op": "add_app", "app": "a", "queue": "root.dev", "user": "joe"},
    {"op": "add_ask", "app": "a", "ask": "k", "resources": {"memory": _MOST}, "count": 4},
]


_ROOT = {"name": "root", "queues": [{"name": "dev", "resources": {"max": {"memory": 1}}}]}
_NAMES = {"p": "default", "q": "root.dev", "a": "a", "n": "n", "u": "joe", "g": "x", "s": "active"}


def _is_json(answer: httpx.Response) -> bool:
    return answer.headers["content-type"].startswith("application/json")


def _largest_sample(text: str) -> int:
    """Return the largest value in a text of metrics."""
    values = [line.rpartition(" ")[2] for line in text.splitlines() if not line.startswith("#")]
    return max((abs(int(value)) for value in values if value.lstrip("-").isdigit()), default=0)


def _largest(text: str) -> int:
    """Return the largest integer in a text of JSON, whatever its sign."""
    found = [0]

    def note(written: str) -> int:
        found.append(abs(int(written)))
        return int(written)

    json.loads(text, parse_int=note)
    return max(found)


# REST-4
def test_no_sum_is_too_large(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        answer = served.client.post("/api/v1/events", json=_LARGE_EVENTS)
        assert all(one["ok"] for one in answer.json())
        config = {"partitions": [{"name": "default", "queues": [_ROOT]}]}
        served.client.post("/api/v1/events", json=[{"op": "configure", "config": config}])
        at_limit = 0
        for form, (method, _) in PATHS.items():
            path = re.sub(r"\{(\w)\w*\}", lambda found: _NAMES[found[1]], form)
            if method == "GET" and not form.endswith(("stream", "stack")):
                found = served.client.get(path, follow_redirects=True)
                assert found.status_code in {200, 404}, found.text
                largest = _largest(found.text) if _is_json(found) else _largest_sample(found.text)
                assert largest <= _MOST, path
                at_limit += largest == _MOST
    assert at_limit >= 15


S = 1_000_000


# REST-5
@pytest.mark.parametrize(
    ("us", "written"),
    [
        (0, "0s"),
        (1, "1µs"),
        (1_500, "1.5ms"),
        (500_000, "500ms"),
        (S, "1s"),
        (1_500_000, "1.5s"),
        (30 * S, "30s"),
        (90 * S, "1m30s"),
        (60 * S, "1m0s"),
        (3600 * S, "1h0m0s"),
        (3661 * S + 1, "1h1m1.000001s"),
        (100 * 3600 * S, "100h0m0s"),
    ],
)
def test_durations_are_as_go_writes_them(us: int, written: str) -> None:
    assert go_duration(us) == written


# REST-4
def test_percentages_are_cut_off() -> None:
    assert percentages({"vcore": 2}, {"vcore": 3}) == {"vcore": 66}
    assert percentages({"vcore": 29}, {"vcore": 100}) == {"vcore": 28}  # as doubles have it
    assert percentages({"vcore": 1}, {"vcore": 3, "gpu": 2}) == {"vcore": 33}
    assert percentages({"a": 1, "b": 0}, {"a": 0, "b": 0}) == {"a": 100, "b": 0}
    assert percentages({"a": 2**62}, {"a": 1}) == {"a": 2**31 - 1}


# REST-14
def test_a_node_is_in_the_bucket_of_its_percentage() -> None:
    places = [bucket_of(percent) for percent in (0, 1, 10, 11, 20, 21, 90, 91, 100, 250)]
    assert places == [0, 0, 0, 1, 1, 2, 8, 9, 9, 9]


# REST-24
def test_other_characters_are_no_part_of_the_name_of_a_metric() -> None:
    assert name_in_metric("nvidia.com/gpu") == "nvidia_com_gpu"
    assert name_in_metric("root.a-b") == "root_a_b"
