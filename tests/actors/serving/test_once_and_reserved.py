"""Asks that are not repeated, and reserved resources of nodes, as a real service shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.actors.cli.helpers import run
from tests.actors.serving.served import Served

EVENTS: Final[tuple[dict[str, object], ...]] = (
    {"op": "add_node", "node": "n1", "capacity": {"vcore": 4}},
    {"op": "add_node", "node": "n2", "capacity": {"vcore": 4}},
    {"op": "update_node", "node": "n1", "reserved": {"vcore": 3, "nvidia.com/gpu": 1}},
    {"op": "add_app", "app": "a", "queue": "root.prod", "user": "sue"},
    {"op": "add_ask", "app": "a", "ask": "goes", "resources": {"vcore": 2}, "once": True},
    {"op": "add_ask", "app": "a", "ask": "stays", "resources": {"vcore": 2}},
    {"op": "add_ask", "app": "a", "ask": "waits", "resources": {"vcore": 3}},
    {"op": "remove_node", "node": "n2"},
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with Served(folder, "--state", str(folder / "state")) as served:
        for event in EVENTS:
            assert served.client.post("/api/v1/events", json=event).status_code == 200
        yield served


def items(served: Served, path: str) -> list[dict[str, Any]]:
    answer = served.client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


# ONCE-2
def test_what_was_lost_with_its_node_has_ended(served: Served) -> None:
    asks = {item["ask"]: (item["place"], item["once"]) for item in items(served, "asks")}
    assert asks == {"stays": ("pending", False), "waits": ("pending", False)}
    (ended,) = items(served, "asks?state=ended")
    assert (ended["ask"], ended["outcome"], ended["node"]) == ("goes", "lost", "n2")


# RESERVED-2, LISTS-9
def test_nodes_say_what_others_use_and_what_is_free(served: Served) -> None:
    (node,) = items(served, "nodes")
    assert node["used_by_others"] == {"vcore": 3000, "nvidia.com/gpu": 1}
    assert (node["available"], node["utilisation"]) == ({"vcore": 1000}, 0)
    table = run("get", "nodes", "--server", served.urls[0]).stdout
    assert "used by others" in table
    assert "vcore 3" in table
    page = served.client.get("/nodes/n1").text
    assert "3 cores reserved for others" in page


# REST-13
def test_yunikorn_shows_what_is_occupied(served: Served) -> None:
    answer = served.client.get("/ws/v1/partition/default/nodes").json()
    assert answer[0]["occupied"] == {"vcore": 3000, "nvidia.com/gpu": 1}
    assert answer[0]["available"] == {"vcore": 1000}


# REASON-12
def test_why_says_what_is_reserved(served: Served) -> None:
    output = run("why", "a/waits", "--server", served.urls[0]).stdout
    assert "1 node would have room if nothing were reserved there" in " ".join(output.split())
