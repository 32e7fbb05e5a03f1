"""``?dry_run=true``: returns exactly the decisions that the events would cause, and changes nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.store import StateReader
from tests.actors.serving.served import Served

PATH = "/api/v1/events"
CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: prod, resources: {guaranteed: {vcore: 4}, max: {vcore: 8}}}
          - {name: dev, properties: {application.sort.policy: fair}}
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def served(tmp_path: Path, state: Path) -> Iterator[Served]:
    with Served(tmp_path, "--state", str(state), config=CONFIG) as running:
        yield running


def event(chance: random.Random) -> dict[str, object]:
    """Return an event about one of few names, so that many are refused."""
    app, ask = f"app-{chance.randrange(4)}", f"ask-{chance.randrange(4)}"
    node = f"node-{chance.randrange(3)}"
    vcore = chance.randint(1, 4)
    choices: list[dict[str, object]] = [
        {"op": "add_node", "node": node, "capacity": {"vcore": 6}},
        {"op": "update_node", "node": node, "schedulable": chance.random() < 0.7},
        {"op": "remove_node", "node": node},
        {"op": "add_app", "app": app, "queue": chance.choice(["root.prod", "root.dev", "no"])},
        {"op": "remove_app", "app": app},
        {"op": "add_ask", "app": app, "ask": ask, "resources": {"vcore": vcore}, "count": 2},
        {"op": "add_ask", "app": app, "ask": ask, "resources": {"vcore": vcore}, "gang": "g"},
        {"op": "add_ask", "app": app, "ask": ask, "resources": {"vcore": 1}, "priority": vcore},
        {"op": "remove_ask", "app": app, "ask": ask},
        {"op": "release", "app": app, "ask": f"{ask}-0"},
        {"op": "release", "app": app, "ask": ask, "outcome": "failed"},
        {"op": "add_gang", "gang": "g", "min_member": 2},
        {"op": "remove_gang", "gang": "g"},
        {"op": "nonsense"},
    ]
    return chance.choices(choices, [6, 1, 1, 5, 1, 5, 4, 4, 2, 4, 2, 2, 1, 1])[0]


def batch_of(served: Served) -> int:
    """Return the number of the last batch."""
    batch: int = served.client.get("/api/v1/nodes").json()["batch"]
    return batch


def without_time(decisions: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: one[name] for name in one if name != "at"} for one in decisions]


@pytest.mark.parametrize("seed", range(3))
def test_it_says_what_the_real_one_then_does(served: Served, state: Path, seed: int) -> None:
    # INPUT-8
    chance, decided = random.Random(seed), 0
    for _ in range(40):
        events = [event(chance) for _ in range(chance.randint(1, 6))]

        tried = served.client.post(PATH, json=events, params={"dry_run": "true"})
        done = served.client.post(PATH, json=events)

        assert tried.status_code == done.status_code == 200, tried.text
        answer = tried.json()
        assert answer["results"] == done.json(), events
        number = done.headers.get("Muster-Batch")
        found: list[dict[str, object]] = []
        if number is not None:
            with StateReader(state) as reader:
                (batch,) = reader.batches(int(number) - 1, int(number))
            found = [one.as_map() for one in batch.decisions]
        assert without_time(answer["decisions"]) == without_time(found), events
        decided += len(found)
    assert decided > 40


def test_it_changes_nothing(served: Served, state: Path) -> None:
    # INPUT-8
    events = [{"op": "add_app", "app": "a", "queue": "root.dev"}]
    before = batch_of(served)

    for _ in range(2):
        tried = served.client.post(
            PATH, json=events, params={"dry_run": "true"}, headers={"Idempotency-Key": "k"}
        )
        assert tried.json()["results"] == [{"index": 0, "ok": True, "error": None, "asks": []}]

    assert batch_of(served) == before
    with StateReader(state) as reader:
        assert reader.request("", "k") is None
    assert served.client.post(PATH, json=events, headers={"Idempotency-Key": "k"}).json()[0]["ok"]


def test_nothing_valid_leads_to_nothing(served: Served) -> None:
    # INPUT-8
    tried = served.client.post(
        PATH, content=json.dumps([{"op": "settle"}]), params={"dry_run": "true"}
    ).json()

    assert [one["ok"] for one in tried["results"]] == [False]
    assert tried["decisions"] == []
