"""Nodes on the page, without a browser: the heat map, its table, the list, and a single node."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from muster.service.access import Role
from tests.actors.serving.served import Served
from tests.actors.serving.test_access import SECRETS, line_of
from tests.actors.serving.test_page import log_in
from tests.actors.serving.test_page_queues import row_of, text_of

#: How many cores are used of each of these nodes, which have four.
USED: Final = {"a1": 0, "a2": 1, "b1": 2, "b2": 4}

EVENTS: Final = [
    *(
        {
            "op": "add_node",
            "node": node,
            "capacity": {"vcore": 4, "memory": "8Gi"},
            "attributes": {"zone": node[0]},
        }
        for node in USED
    ),
    {"op": "add_node", "node": "plain", "capacity": {"vcore": 4}, "lease": "1h"},
    {"op": "update_node", "node": "a1", "schedulable": False},
    {"op": "add_app", "app": "one", "queue": "root.prod"},
    {"op": "add_app", "app": "two", "queue": "root.dev"},
    *(
        {
            "op": "add_ask",
            "app": "two" if node == "b2" else "one",
            "ask": f"on-{node}",
            "node": node,
            "resources": {"vcore": used, "memory": "1Gi"},
        }
        for node, used in USED.items()
        if used
    ),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served")) as served:
        served.client.post("/api/v1/events", json=EVENTS)
        yield served


def cells(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    """Return the data that the script gets for each map."""
    found = re.findall(
        r'<script type="application/json"[^>]*>(.*?)</script>', client.get(path).text
    )
    return [json.loads(one) for one in found]


def names(node_map: dict[str, Any]) -> list[str]:
    made: list[str] = []
    for shared, rest in zip(node_map["shared"], node_map["names"], strict=True):
        made.append((made[-1] if made else "")[:shared] + rest)
    return made


# PAGE-30
def test_the_map_shows_how_full_nodes_are(served: Served) -> None:
    (node_map,) = cells(served.client, "/nodes")
    assert names(node_map) == ["a1", "a2", "b1", "b2", "plain"]
    assert node_map["shares"] == [0, 25, 50, 100, 0]
    assert node_map["counts"] == [0, 1, 1, 1, 0]
    assert node_map["bands"] == "01250"
    assert node_map["unschedulable"] == [0]
    assert row_of(served, "/nodes", "all ") == "all 2 1 1 0 0 1 0 1"
    (of_memory,) = cells(served.client, "/nodes?type=memory")
    assert of_memory["shares"] == [0, 12, 12, 12, 0]


# PAGE-30, PAGE-33
def test_neighbours_of_one_colour_are_one_stroke(served: Served) -> None:
    page = served.client.get("/nodes?name=l&attribute=").text
    assert re.findall(r'<path class="u(\d)" d="([^"]+)"', page) == [("0", "M0 0h1")]
    page = served.client.get("/nodes").text
    assert re.findall(r'<path class="u0" d="([^"]+)"', page) == ["M0 0h1M0 1h1"]
    assert re.findall(r'<path class="hatched" d="([^"]+)"', page) == ["M0 0h1v1h-1z"]


# PAGE-30
def test_nodes_are_found_and_in_groups(served: Served) -> None:
    for query, found in (
        ("name=B", ["b1", "b2"]),
        ("attribute=zone%3Da", ["a1", "a2"]),
        ("attribute=zone", ["a1", "a2", "b1", "b2"]),
    ):
        (node_map,) = cells(served.client, f"/nodes?{query}")
        assert names(node_map) == found
    maps = cells(served.client, "/nodes?group=zone")
    assert [names(one) for one in maps] == [["a1", "a2"], ["b1", "b2"], ["plain"]]
    assert row_of(served, "/nodes?group=zone", "zone=a ") == "zone=a 1 1 0 0 0 0 0 1"
    assert "None of the 5 nodes matches" in text_of(served, "/nodes?name=none")


# PAGE-32
def test_colours_tell_queues_apart(served: Served) -> None:
    (node_map,) = cells(served.client, "/nodes?color=queue")
    assert node_map["bands"] == "02210"
    assert "nothing used root.dev root.prod unschedulable" in text_of(served, "/nodes?color=queue")
    (below,) = cells(served.client, "/nodes?color=queue&below=root.prod")
    assert below["bands"] == "02210"
    shown = text_of(served, "/nodes?color=queue&below=root.prod")
    assert "nothing used queues elsewhere root.prod" in shown


# PAGE-32
def test_the_rarest_queues_share_a_colour(tmp_path: Path) -> None:
    queues = [f"q{at}" for at in range(9)]
    config = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [%s]}]}]"
    events = [
        event
        for at, queue in enumerate(queues)
        for event in (
            {"op": "add_node", "node": queue, "capacity": {"vcore": 4}},
            {"op": "add_app", "app": queue, "queue": queue},
            {
                "op": "add_ask",
                "app": queue,
                "ask": str(at),
                "node": queue,
                "resources": {"vcore": 1},
            },
        )
    ]
    listed = ", ".join(f"{{name: {queue}}}" for queue in queues)
    with Served(tmp_path, config=config % listed) as served:
        served.client.post("/api/v1/events", json=events)
        (node_map,) = cells(served.client, "/nodes?color=queue")
        assert node_map["bands"] == "123456788"
        assert row_of(served, "/nodes?color=queue", "all ") == "all 0 1 1 1 1 1 1 1 2 0"


# PAGE-33
def test_many_nodes_take_few_bytes(tmp_path: Path) -> None:
    nodes = [
        {"op": "add_node", "node": f"node-{at:05}", "capacity": {"vcore": 4}}
        for at in range(10_000)
    ]
    asks = [
        {"op": "add_ask", "app": "a", "ask": str(at), "resources": {"vcore": 1 + at % 4}}
        for at in range(9_000)
    ]
    with Served(tmp_path) as served:
        served.client.post("/api/v1/events", json=nodes)
        served.client.post("/api/v1/events", json=[{"op": "add_app", "app": "a", "queue": "dev"}])
        served.client.post("/api/v1/events", json=asks)
        page = served.client.get("/nodes")
        (node_map,) = cells(served.client, "/nodes")
    assert len(page.content) < 400_000
    assert names(node_map) == [f"node-{at:05}" for at in range(10_000)]
    assert sum(node_map["counts"]) == 9_000


# PAGE-34
def test_the_list_is_sorted_and_paged(tmp_path: Path) -> None:
    events = [
        {"op": "add_node", "node": f"n{at:02}", "capacity": {"vcore": 100}} for at in range(70)
    ]
    events += [{"op": "add_app", "app": "a", "queue": "root.dev"}]
    events += [
        {
            "op": "add_ask",
            "app": "a",
            "ask": f"on-{at}",
            "node": f"n{at:02}",
            "resources": {"vcore": 1 + at},
        }
        for at in range(70)
    ]
    with Served(tmp_path) as served:
        served.client.post("/api/v1/events", json=events)
        for sort, in_order in (("name", range(70)), ("use", range(69, -1, -1))):
            first = served.client.get(f"/nodes?sort={sort}").text
            found = re.search(r'href="(/nodes\?[^"#]*after=[^"#]+)', first)
            assert found is not None
            second = served.client.get(unescape(found[1])).text
            listed = re.findall(r'href="/nodes/(n\d\d)"', first + second)
            assert listed == [f"n{at:02}" for at in in_order]
        assert served.client.get("/nodes?after=x").status_code == 400
        assert served.client.get("/nodes?sort=x").status_code == 400


# PAGE-35
def test_a_node_opens(served: Served) -> None:
    shown = text_of(served, "/nodes/b1")
    assert "vcore 2 of 4 cores, 50.0 % memory 1 of 8 GiB, 12.5 %" in shown.replace("\n", " ")
    assert "7 GiB memory, 2 cores" in shown.replace(" ,", ",")
    assert re.search(r"^one/on-b1 root.prod 0 bound 1 GiB memory, 2 cores", shown, re.MULTILINE)
    page = served.client.get("/nodes/b1").text
    assert 'href="/asks/one/on-b1"' in page
    assert 'href="/nodes?attribute=zone%3Db"' in page
    assert "It has no lease" in shown
    assert "It has a lease of 1 h; without a renewal it is removed at" in text_of(
        served, "/nodes/plain"
    )
    assert served.client.get("/nodes/b3").status_code == 404


# PAGE-36
def test_only_admins_drain_a_node(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{line_of(role, secret)}\n" for role, secret in SECRETS.items()))
    with Served(tmp_path, "--tokens", str(tokens)) as served:
        admin = {"Authorization": f"Bearer {SECRETS[Role.ADMIN]}"}
        served.client.post("/api/v1/events", json=EVENTS[:1], headers=admin)
        wanted = {"op": "update_node", "node": "a1", "schedulable": False}
        for role in (Role.SUBMITTER, Role.ADMIN):
            log_in(served.client, role)
            page = unescape(served.client.get("/nodes/a1").text)
            assert json.dumps([wanted], indent=2) in page
            assert ("Apply" in page) is (role is Role.ADMIN)
            assert ("This needs the role admin" in page) is (role is Role.SUBMITTER)
