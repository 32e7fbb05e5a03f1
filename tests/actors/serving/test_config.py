"""``GET`` and ``PUT /api/v1/config``: shown, tried, compared, replaced; leases of nodes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event as Flag
from typing import Final

import pytest
import yaml
from httpx import Response

from muster.config_files import parse_configuration
from muster.service.input.dry_runs import DAY, ClientGoneError, compare_history
from muster.store import StateReader
from muster_core.events import RemoveNode
from tests.actors.serving.served import CONFIG, PATIENCE_S, Served, until

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


LEASES_S: Final = (1.5, 10.0, 60.0)
"""Leases to try: the first one is long enough, unless the machine is very slow."""


def add(served: Served, node: str, lease: str | None) -> None:
    event = {"op": "add_node", "node": node, "capacity": {"vcore": 1}}
    more = {} if lease is None else {"lease": lease}
    (answer,) = served.client.post("/api/v1/events", json=[event | more]).json()
    assert answer["ok"], answer


def renew(served: Served, node: str) -> Response:
    return served.client.put(f"/api/v1/nodes/{node}/lease")


def is_there(served: Served, node: str) -> bool:
    return served.client.get(f"/api/v1/nodes/{node}").status_code == 200


def wait_until_gone(served: Served, node: str) -> None:
    """Wait until a node is gone."""
    until(lambda: not is_there(served, node))


def test_a_node_goes_when_its_lease_runs_out(served: Served, tmp_path: Path) -> None:
    # INPUT-16
    add(served, "leased", "500ms")
    add(served, "lasting", None)

    wait_until_gone(served, "leased")
    assert is_there(served, "lasting")
    served.line("node leased is removed: its lease ran out")
    assert was_removed(tmp_path / "state", "leased")


def keep_renewing(served: Served, node: str, lease_s: float) -> Response | None:
    """Renew a lease for twice as long as it is; return None if that was not often enough."""
    last = began = time.monotonic()
    answer = None
    while last < began + 2 * lease_s:
        answer, now = renew(served, node), time.monotonic()
        if now > last + lease_s / 2:
            return None
        last = now
    return answer


def test_a_renewal_keeps_it(served: Served) -> None:
    # INPUT-17
    for lease_s in LEASES_S:
        add(served, "n/1", f"{lease_s}s")
        answer = keep_renewing(served, "n/1", lease_s)
        if answer is not None:
            assert answer.status_code == 200, answer.text
            left = datetime.fromisoformat(answer.json()["until"]) - datetime.now(UTC)
            assert 0 < left.total_seconds() <= lease_s
            assert (answer.json()["node"], answer.json()["lease"]) == ("n/1", lease_s)
            wait_until_gone(served, "n/1")
            return
        wait_until_gone(served, "n/1")
    pytest.fail("this machine is too slow")


def test_a_renewal_needs_a_node_with_a_lease(served: Served) -> None:
    # INPUT-17
    add(served, "lasting", None)

    unknown, without = renew(served, "lastin"), renew(served, "lasting")

    assert unknown.status_code == 404
    assert unknown.json()["detail"] == "node: 'lastin' is unknown; did you mean lasting?"
    assert without.status_code == 409


def test_a_renewal_while_the_node_is_added_never_says_that_it_has_no_lease(
    served: Served,
) -> None:
    # INPUT-17
    def come(node: str) -> None:
        nodes = [
            {"op": "add_node", "node": f"{node}-{n}", "capacity": {"vcore": 1}, "lease": "30s"}
            for n in range(300)
        ]
        with Served.client_of(served.urls[0]) as client:
            client.post("/api/v1/events", json=nodes)

    for number in range(5):
        coming = threading.Thread(target=come, args=(f"n{number}",))
        coming.start()
        status = 404
        began = time.monotonic()
        while status == 404:
            assert time.monotonic() - began < PATIENCE_S, "the node has never come"
            status = renew(served, f"n{number}-0").status_code
        coming.join(PATIENCE_S)

        assert status == 200


def test_what_is_added_again_has_only_its_own_lease(served: Served) -> None:
    # INPUT-16
    add(served, "n", "1s")
    served.client.post("/api/v1/events", json=[{"op": "remove_node", "node": "n"}])
    add(served, "n", None)
    add(served, "other", "1500ms")

    wait_until_gone(served, "other")

    assert is_there(served, "n")
    assert renew(served, "n").status_code == 409


@pytest.mark.parametrize("killed", [False, True])
def test_after_a_start_the_whole_lease_begins_again(tmp_path: Path, killed: bool) -> None:
    # INPUT-18
    for lease_s in LEASES_S:
        state = tmp_path / f"state-{lease_s}"
        with Served(tmp_path, "--state", str(state)) as served:
            add(served, "long", "1h")
            add(served, "short", f"{lease_s}s")
            over = time.monotonic() + lease_s
            if killed:
                served.kill()
        if was_removed(state, "short"):
            continue  # The machine was too slow to end the service in time.
        while time.monotonic() < over:
            pass  # nobody runs, and the lease would have run out
        began = time.monotonic()
        with Served(tmp_path, "--state", str(state)) as served:
            status = renew(served, "short").status_code
            if status == 404 and time.monotonic() - began > lease_s:
                continue  # It was too slow to renew it in time.
            assert status == 200
            assert renew(served, "long").json()["lease"] == 3600
            wait_until_gone(served, "short")
            assert is_there(served, "long")
        return
    pytest.fail("this machine is too slow")


def was_removed(state: Path, node: str) -> bool:
    """Return whether a node was removed."""
    with StateReader(state) as reader:
        return any(RemoveNode(node) in batch.events for batch in reader.batches())
