"""The past use of queues and users, in lists, in commands and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.actors.cli.helpers import run
from tests.actors.serving.served import Served
from tests.actors.serving.test_page_queues import row_of, text_of

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {usage.half.life: 168h}
        queues:
          - name: a
            properties: {queue.weight: "3", usage.users: enabled, application.sort.policy: fair}
          - {name: b, properties: {usage.half.life: "0"}}
          - {name: idle}
"""
DAY: Final = 86_400
EVENTS: Final = [
    {"op": "add_node", "node": "n1", "capacity": {"vcore": 10}},
    {"op": "set_usage", "queue": "root.a", "usage": {"vcore": DAY}},
    {"op": "set_usage", "queue": "root.b", "usage": {"vcore": DAY}},
    {"op": "set_usage", "queue": "root.a", "user": "ada", "usage": {"vcore": 3 * DAY}},
    {"op": "set_usage", "queue": "root.a", "user": "bob", "usage": {"vcore": DAY}},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), config=CONFIG) as served:
        assert served.client.post("/api/v1/events", json=EVENTS).status_code == 200
        yield served


# LISTS-25
def test_lists_say_what_queues_and_users_had_and_what_is_due(served: Served) -> None:
    items = served.client.get("/api/v1/queues").json()["items"]
    queues = {item["queue"]: item for item in items}
    fields = ("weight", "used", "had", "due")

    assert [queues["root"][name] for name in fields] == [1, None, None, None]
    assert [queues["root.a"][name] for name in fields] == [3, {"vcore": 1000 * DAY}, 0.5, 0.6]
    assert [queues["root.b"][name] for name in fields] == [1, {"vcore": 1000 * DAY}, 0.5, 0.2]
    assert [queues["root.idle"][name] for name in fields] == [1, {}, 0.0, 0.2]
    assert queues["root.b"]["past_share"] == pytest.approx(3 * queues["root.a"]["past_share"])
    single = served.client.get("/api/v1/queues/root.a").json()["item"]
    assert [(user["user"], user["had"], user["due"]) for user in single["users"]] == [
        ("ada", 0.75, 0.5),
        ("bob", 0.25, 0.5),
    ]
    assert served.client.get("/api/v1/queues/root.b").json()["item"]["users"] == []


def test_get_says_it(served: Served) -> None:
    wide = run("get", "queues", "-o", "wide", "--server", served.urls[0]).stdout
    # The title may be folded.
    assert {"past", "share"} <= set(wide.split())
    assert "60.0 %" in wide
    one = run("get", "queue", "root.a", "--server", served.urls[0]).stdout
    assert "user ada" in one


# PAGE-20, PAGE-23
def test_the_page_says_it(served: Served) -> None:
    assert "had 50.0 %, due 60.0 %" in row_of(served, "/queues", "a ")
    text = text_of(served, "/queues/root.a")
    assert "had 50.0 %, due 60.0 % by its weight 3" in text
    assert "ada" in text
    assert row_of(served, "/queues/root.a", "bob ").endswith("25.0 % 50.0 %")
    assert "due" not in row_of(served, "/queues", "root ")
