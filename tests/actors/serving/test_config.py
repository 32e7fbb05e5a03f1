"""``GET`` and ``PUT /api/v1/config``: shown, tried, compared, replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag

import pytest
import yaml

from muster.config_files import parse_configuration
from muster.service.input.dry_runs import DAY, ClientGoneError, compare_history
from tests.actors.serving.served import CONFIG, Served

PATH = "/api/v1/config"
NEW = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: prod
            resources: {guaranteed: {vcore: 4}, max: {vcore: 5}}
          - {name: test, properties: {priority.policy: fence}}
"""
DIFFERENCE: dict[str, object] = {
    "partition": [],
    "queues": [
        {
            "queue": "root.prod",
            "change": "changed",
            "fields": [{"field": "resources.max.vcore", "before": 8, "after": 5}],
        },
        {
            "queue": "root.test",
            "change": "added",
            "fields": [{"field": "properties.priority.policy", "before": None, "after": "fence"}],
        },
        {"queue": "root.dev", "change": "removed", "fields": []},
    ],
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, "--state", str(tmp_path / "state")) as running:
        yield running


def put(served: Served, text: str, **parameters: str) -> dict[str, object]:
    answer = served.client.put(PATH, content=text, params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def test_it_is_shown_as_it_would_be_written(served: Served) -> None:
    # INPUT-12
    as_json = served.client.get(PATH)
    as_yaml = served.client.get(PATH, headers={"Accept": "application/yaml"})

    assert as_yaml.headers["content-type"].startswith("application/yaml")
    assert parse_configuration(as_yaml.text) == parse_configuration(CONFIG)
    found = as_json.json()
    assert {"partitions": found["partitions"]} == yaml.safe_load(as_yaml.text)
    assert found["warnings"] == []
    assert as_json.headers["etag"] == as_yaml.headers["etag"] == f'"{found["checksum"]}"'
    known = served.client.get(PATH, headers={"If-None-Match": as_json.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
def test_what_is_shown_can_be_sent_back(served: Served, media: str) -> None:
    # INPUT-12
    shown = served.client.get(PATH, headers={"Accept": media})

    answer = served.client.put(PATH, content=shown.content, headers={"Content-Type": media})

    assert answer.status_code == 200, answer.text
    assert answer.json()["difference"] == {"partition": [], "queues": []}
    assert answer.headers["etag"] == shown.headers["etag"]


def test_a_new_one_comes_into_force(served: Served) -> None:
    # INPUT-13
    found = put(served, NEW)

    assert found["applied"] is True
    assert isinstance(found["batch"], int)
    assert found["difference"] == DIFFERENCE
    assert served.client.get(PATH).json()["checksum"] == found["checksum"]


def test_a_config_map_is_taken(served: Served) -> None:
    # INPUT-12
    wrapped = {"kind": "ConfigMap", "apiVersion": "v1", "data": {"queues.yaml": NEW}}

    assert put(served, json.dumps(wrapped))["difference"] == DIFFERENCE


def test_a_wrong_one_is_refused_with_lines_and_paths(served: Served) -> None:
    # INPUT-12
    before = served.client.get(PATH).json()

    answer = served.client.put(PATH, content=NEW.replace("vcore: 5", "vcore: much"))

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    (problem,) = answer.json()["problems"]
    assert problem["line"] == 9
    assert problem["path"] == "partitions[0].queues[0].queues[0].resources.max.vcore"
    assert "'much'" in problem["message"]
    assert served.client.get(PATH).json() == before


def test_it_replaces_only_what_the_client_has_seen(served: Served) -> None:
    # INPUT-14
    seen = served.client.get(PATH).headers["etag"]

    first, second = (
        served.client.put(PATH, content=text, headers={"If-Match": seen}) for text in (NEW, CONFIG)
    )

    assert first.status_code == 200
    assert second.status_code == 412
    assert served.client.get(PATH).headers["etag"] == first.headers["etag"]


def test_a_dry_run_changes_nothing_and_says_what_would_follow(served: Served) -> None:
    # INPUT-13, INPUT-15
    before = served.client.get(PATH).json()

    found = put(served, NEW, dry_run="true", since="0")

    assert found["applied"] is False
    assert found["difference"] == DIFFERENCE
    assert found["compared"] is None
    decisions = found["decisions"]
    assert isinstance(decisions, list)
    assert decisions[0]["kind"] == "config"
    assert served.client.get(PATH).json() == before


def test_a_dry_run_says_what_it_would_have_changed(served: Served) -> None:
    # INPUT-15
    events = [
        {"op": "add_node", "node": "n", "capacity": {"vcore": 100}},
        {"op": "add_app", "app": "a", "queue": "root.prod"},
        {"op": "add_ask", "app": "a", "ask": "x", "resources": {"vcore": 1}, "count": 8},
    ]
    assert served.client.post("/api/v1/events", json=events).status_code == 200

    found = put(served, NEW, dry_run="true")

    compared = found["compared"]
    assert isinstance(compared, dict)
    assert compared["same"] is False
    assert compared["all"]["a"]["asks_bound"] == 8
    assert compared["all"]["b"]["asks_bound"] == 5
    again = put(served, NEW, dry_run="true", since="2026-01-01T00:00:00Z")["compared"]
    assert isinstance(again, dict)
    assert again["since"] == compared["since"] < compared["until"] < again["until"]
    assert again["first"] == compared["first"]


def test_a_comparison_ends_at_the_present(served: Served) -> None:
    # INPUT-15
    events = [
        {"op": "add_node", "node": "n", "capacity": {"vcore": 8}},
        {"op": "add_app", "app": "a", "queue": "root.prod"},
        {"op": "add_ask", "app": "a", "ask": "x", "resources": {"vcore": 4}, "run_for": "1h"},
    ]
    assert served.client.post("/api/v1/events", json=events).status_code == 200

    found = put(served, NEW, dry_run="true")["compared"]

    assert isinstance(found, dict)
    # It runs for an hour, and what it holds counts until now, though nothing was decided since.
    assert found["all"]["a"]["utilisation"]["vcore"] == pytest.approx(0.5, abs=0.01)


def test_a_look_back_needs_a_store(tmp_path: Path) -> None:
    # INPUT-15
    with Served(tmp_path) as served:
        answer = served.client.put(PATH, content=NEW, params={"dry_run": "true", "since": "1d"})
        assert answer.status_code == 409
        assert "without --state" in answer.json()["detail"]
        assert put(served, NEW, dry_run="true")["compared"] is None


def test_since_is_only_for_a_dry_run(served: Served) -> None:
    # INPUT-15
    answer = served.client.put(PATH, content=NEW, params={"since": "1d"})

    assert answer.status_code == 400
    wrong = served.client.put(PATH, content=NEW, params={"dry_run": "true", "since": "2026-99"})
    assert wrong.status_code == 400


def test_a_comparison_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    # INPUT-15
    state = tmp_path / "state"
    with Served(tmp_path, "--state", str(state)):
        pass
    gone, new = Flag(), parse_configuration(NEW)
    now_us = 4_000_000_000_000_000
    assert compare_history(state, DAY, now_us, new, gone)["same"] is False

    gone.set()

    with pytest.raises(ClientGoneError):
        compare_history(state, DAY, now_us, new, gone)
