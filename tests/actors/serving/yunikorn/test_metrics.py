"""Metrics with YuniKorn's names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

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
