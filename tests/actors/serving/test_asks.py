"""Pages of asks while asks come and go, filters together, fields, and what is refused.

LISTS-1, LISTS-2, LISTS-3, LISTS-4, LISTS-5, LISTS-6, LISTS-7, LISTS-8, LISTS-9, LISTS-12.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.actors.serving.here import Here

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: prod
            queues:
              - {name: web, resources: {max: {vcore: 4}}}
              - {name: jobs}
          - {name: dev, properties: {bind.retry.delay: 1h}}
"""
LISTS = ("queues", "apps", "asks", "gangs", "nodes")


def ask(app: str, name: str, vcore: float = 1, **more: object) -> dict[str, object]:
    return {"op": "add_ask", "app": app, "ask": name, "resources": {"vcore": vcore}, **more}


RING: dict[str, object] = {"spread": "zone", "max": 2}
EVENTS: tuple[dict[str, object], ...] = (
    {"op": "add_node", "node": "n1", "capacity": {"vcore": 8}, "attributes": {"disk": "ssd"}},
    {"op": "add_node", "node": "n2", "capacity": {"vcore": 8}},
    {"op": "add_app", "app": "shop", "queue": "root.prod.web", "user": "ann", "groups": ["g"]},
    {"op": "add_app", "app": "job", "queue": "root.prod.jobs", "user": "bob"},
    {"op": "add_app", "app": "test", "queue": "root.dev", "user": "ann", "tags": {"k": "v"}},
    ask("shop", "web", count=6),
    ask("job", "big", 100),
    ask("job", "small", 2, run_for="10h", command=["sleep", "1"], env={"A": "b"}, workdir="/x"),
    ask("test", "choosy", 9, selector={"disk": "ssd"}),
    ask("test", "member", 1, gang="ring"),
    {"op": "add_gang", "gang": "ring", "min_member": 2, "wait_time": "2h", "topology": RING},
    ask("test", "flaky", 1, retries=3),
    {"op": "bind_failed", "app": "test", "ask": "flaky"},
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("asks")
    config = folder / "queues.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    with Here(config=config) as running:
        # One request each, as a bind can only fail in a later batch.
        for event in EVENTS:
            running.post(event)
        yield running


def names(items: list[dict[str, Any]]) -> list[str]:
    return [f"{item['app']}/{item['ask']}" for item in items]


def test_the_answer_names_the_batch(here: Here) -> None:
    for one in LISTS:
        page = here.get(f"/api/v1/{one}")

        assert list(page) == ["batch", "at", "time", "items", "next"]
        assert page["batch"] == 1 + len(EVENTS)
        then = datetime.fromisoformat(page["time"])
        origin = then.timestamp() - page["at"]
        assert 0 <= page["at"] < 600
        assert abs(origin - datetime.now(UTC).timestamp()) < 600
        assert page["time"].endswith("Z")


def test_asks_have_what_is_known_of_them(here: Here) -> None:
    item = here.get("/api/v1/asks/job/small")["item"]

    assert item["command"] == ["sleep", "1"]
    assert item["env"] == {"A": "b"}
    assert item["workdir"] == "/x"
    assert item["run_for"] == 36_000
    assert item["place"] == "bound"
    assert item["came"] <= item["taken"] <= item["bound"]
    assert item["since"] is item["reason"] is item["message"] is None
    flaky = here.get("/api/v1/asks/test/flaky")["item"]
    assert flaky["place"] == "pending"
    assert flaky["reason"] == "BackingOff"
    assert "it is not tried before" in flaky["message"]
    assert flaky["failed_binds"] == 1
    assert flaky["backs_off_until"] == pytest.approx(flaky["last_failed"] + 3600)
    assert flaky["node"] is flaky["taken"] is flaky["bound"] is None
    choosy = here.get("/api/v1/asks/test/choosy")["item"]
    assert choosy["selector"] == {"disk": "ssd"}


def test_applications_have_what_is_known_of_them(here: Here) -> None:
    item = here.get("/api/v1/apps/test")["item"]

    assert item["tags"] == {"k": "v"}
    assert item["came"] is not None
    assert [one["state"] for one in item["states"]][:2] == ["New", "Accepted"]
    assert here.get("/api/v1/apps/shop")["item"]["groups"] == ["g"]


# LISTS-5


def test_queues_say_which_limit_they_hit(here: Here) -> None:
    queues = {one["queue"]: one for one in here.all("/api/v1/queues")}

    assert queues["root.prod.web"]["hits"] == ["vcore"]
    assert queues["root.prod.web"]["overused"]
    assert queues["root.prod"]["hits"] == []
    assert not queues["root.prod"]["overused"]
    assert queues["root.prod"]["apps"] == 2
    assert not queues["root.prod"]["leaf"]
    assert queues["root.prod.jobs"]["parent"] == "root.prod"
    assert queues["root.dev"]["properties"] == {"bind.retry.delay": "1h"}
    assert here.get("/api/v1/queues/PROD")["item"]["below"] == ["root.prod.jobs", "root.prod.web"]


# LISTS-8


def test_gangs_say_how_long_they_wait(here: Here) -> None:
    (gang,) = here.all("/api/v1/gangs")

    assert gang["gang"] == "default/ring"
    assert gang["definition"]["wait_time"] == 7200
    assert gang["definition"]["topology"] == RING
    assert gang["members"] == {"pending": 1, "parked": 0, "waiting": 0, "bound": 0}
    assert gang["missing"] == 2
    assert here.get("/api/v1/gangs/ring")["item"]["asks"]["pending"] == ["test/member"]


# LISTS-9


def test_nodes_say_what_stands_on_them(here: Here) -> None:
    nodes = here.all("/api/v1/nodes")

    assert [node["node"] for node in nodes] == ["n1", "n2"]
    assert sum(node["count"] for node in nodes) == 5
    assert nodes[0]["attributes"] == {"disk": "ssd"}
    for node in nodes:
        assert node["available"] == {"vcore": 8000 - node["used"].get("vcore", 0)}
        assert node["utilisation"] == pytest.approx(node["used"].get("vcore", 0) / 8000)
        found = here.get(f"/api/v1/nodes/{node['node']}")["item"]["asks"]
        assert len(found) == node["count"]
        assert all(one["bound"] is not None for one in found)


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"state": "bound"}, ["shop/web-0", "shop/web-1", "shop/web-2", "shop/web-3", "job/small"]),
        ({"state": "pending", "queue": "root.prod"}, ["shop/web-4", "shop/web-5", "job/big"]),
        ({"state": "pending,bound", "app": "job"}, ["job/big", "job/small"]),
        ({"state": "waiting"}, []),
        (
            {"user": "ann", "state": "pending", "queue": "dev"},
            ["test/choosy", "test/member", "test/flaky"],
        ),
        ({"queue": "ROOT.Prod.Web", "reason": "QueueMax"}, ["shop/web-4", "shop/web-5"]),
        ({"reason": "QueueMax", "app": "job"}, []),
        ({"reason": "NeverFits,BackingOff"}, ["job/big", "test/choosy", "test/flaky"]),
        ({"reason": "GangTooFewMembers", "gang": "default/ring"}, ["test/member"]),
        ({"reason": "GangTooFewMembers", "state": "bound"}, []),
        ({"reason": "PermitWaiting,GangTimedOut"}, []),
        ({"gang": "ring"}, ["test/member"]),
        ({"gang": "ring", "user": "bob"}, []),
        ({"app": "none"}, []),
        ({"queue": "root.none"}, []),
        ({"queue": "root.pro"}, []),
        ({"user": "nobody"}, []),
        ({"gang": "none"}, []),
        ({"gang": "No Gang!"}, []),
    ],
)
def test_filters_together(here: Here, filters: dict[str, str], wanted: list[str]) -> None:
    assert names(here.all("/api/v1/asks", **filters)) == wanted
    assert names(here.all("/api/v1/asks", 1, **filters)) == wanted


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"queue": "root.prod"}, ["shop", "job"]),
        ({"queue": "root.prod", "user": "bob"}, ["job"]),
        ({"state": "Running"}, ["shop"]),
        ({"state": "Running,Starting", "user": "ann"}, ["shop"]),
        ({"queue": "none"}, []),
    ],
)
def test_filters_of_applications(here: Here, filters: dict[str, str], wanted: list[str]) -> None:
    found = here.all("/api/v1/apps", 1, **filters)

    assert [one["app"] for one in found if one["app"] != "test"] == wanted


def test_fields(here: Here) -> None:
    page = here.get("/api/v1/asks", fields="ask,app", limit=1)

    assert page["items"] == [{"app": "shop", "ask": "web-0"}]
    single = here.get("/api/v1/asks/shop/web-0", fields="command,place")
    assert single["item"] == {"place": "bound", "command": None}


@pytest.mark.parametrize("one", LISTS)
def test_unknown_fields_are_refused(here: Here, one: str) -> None:
    told = here.get(f"/api/v1/{one}", 400, fields="none")["detail"]

    assert told.startswith("fields: 'none': must be names out of ")
    # What only single items have is no field of a list.
    assert here.get("/api/v1/asks", 400, fields="command")["parameter"] == "fields"


@pytest.mark.parametrize(
    ("path", "parameter", "value"),
    [
        ("asks", "limit", "0"),
        ("asks", "limit", "1001"),
        ("asks", "state", "running"),
        ("asks", "reason", "Because"),
        ("asks", "after", "%"),
        ("asks", "after", "e30"),
        ("asks", "after", "WzFd"),
        ("asks", "after", "x" * 5000),
        ("asks", "app", ""),
        ("apps", "state", "pending"),
        ("queues", "state", "x"),
    ],
)
def test_wrong_parameters_are_refused(here: Here, path: str, parameter: str, value: str) -> None:
    told = here.get(f"/api/v1/{path}", 400, **{parameter: value})

    assert told["parameter"] == parameter
    assert told["detail"].startswith(parameter)


def test_a_cursor_of_another_list_is_refused(here: Here) -> None:
    after = here.get("/api/v1/nodes", limit=1)["next"]

    assert here.get("/api/v1/nodes", after=after)["next"] is None
    for other in ("asks", "queues", "gangs", "apps"):
        assert here.get(f"/api/v1/{other}", 400, after=after)["parameter"] == "after"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("queues/root.prod.wep", "did you mean root.prod.web"),
        ("apps/shob", "did you mean shop?"),
        ("asks/shop/wep-0", "did you mean shop/web-0"),
        ("asks/shob/web-0", "app 'shob' is unknown; did you mean shop?"),
        ("asks/shob/web-0/why", "app 'shob' is unknown; did you mean shop?"),
        ("gangs/rind", "did you mean default/ring?"),
        ("nodes/n11", "did you mean n1?"),
        ("nodes/a/b/c", "'a/b/c' is unknown"),
    ],
)
def test_unknown_names(here: Here, path: str, meant: str) -> None:
    told = here.get(f"/api/v1/{path}", 404)

    assert told["title"] == "Not Found"
    assert meant in told["detail"]
