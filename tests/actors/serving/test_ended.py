"""Asks that have ended and users, as a real service lists them, and after it has started again."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from muster.service.ledger.records import KEPT
from tests.actors.cli.helpers import run
from tests.actors.serving.served import (
    Served,
    ServiceThread,
    decisions_until,
    job,
    node,
    running_commands,
    submit,
    until as patiently,
)

Item = dict[str, Any]


def ended(client: httpx.Client, **wanted: str | int) -> list[Item]:
    found: list[Item] = []
    parameters: dict[str, str | int] = {"state": "ended", "limit": 2, **wanted}
    while True:
        answer = client.get("/api/v1/asks", params=parameters)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["items"]
        if page["next"] is None:
            return found
        parameters["after"] = page["next"]


def users(client: httpx.Client, **wanted: str | int) -> dict[str, Item]:
    answer = client.get("/api/v1/users", params=wanted)
    assert answer.status_code == 200, answer.text
    return {item["user"]: item for item in answer.json()["items"]}


def _app(name: str, user: str) -> dict[str, object]:
    return {"op": "add_app", "app": name, "queue": "root.jobs", "user": user}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


def _served(folder: Path) -> Served:
    options = ("--state", str(folder / "state"), "--no-node", "--grace", "0.5s")
    return running_commands(folder, *options)


@pytest.fixture(scope="module")
def before(folder: Path) -> tuple[list[Item], dict[str, Item]]:
    """Return the lists of a service in which asks have ended in every way, before it ended itself."""
    with _served(folder) as served:
        client = served.client
        other = {**job("gone", "true"), "app": "b", "resources": {"vcore": 99}}
        submit(client, node(4), _app("a", "sue"), _app("b", "bob"), other)
        submit(
            client,
            job("fine", "python3 -c 'sum(range(10**7))'"),
            job("bad", "exit 3"),
            job("killed", "kill -KILL $$"),
            {**job("long", "sleep 1000"), "app": "b"},
        )
        for ask in ("fine", "bad", "killed"):
            decisions_until(client, ask=ask, kind="released")
        for name, reason in (("b/long", "not needed"), ("b/gone", "nor this")):
            result = run("cancel", name, "--message", reason, "--server", served.urls[0])
            assert (result.exit_code, result.stdout) == (0, f"{name}: cancelled\n")
        submit(client, job("fine", "true"))
        patiently(lambda: len(ended(client)) == 6)
        return ended(client), users(client)


# LISTS-15, LISTS-17
def test_what_has_ended(before: tuple[list[Item], dict[str, Item]]) -> None:
    items, _ = before
    assert [item["seq"] for item in items] == sorted((i["seq"] for i in items), reverse=True)
    assert items[0]["ask"] == "fine"
    lives = {f"{i['app']}/{i['ask']}": i for i in reversed(items[1:])}
    ends = {
        name: (i["outcome"], i["exit_status"], i["signal"], i["message"])
        for name, i in lives.items()
    }
    assert ends == {
        "a/fine": ("completed", 0, None, None),
        "a/bad": ("failed", 3, None, "exit status 3"),
        "a/killed": ("failed", None, "SIGKILL", "killed by signal SIGKILL"),
        "b/long": ("cancelled", None, None, "not needed"),
        "b/gone": ("cancelled", None, None, None),
    }
    fine = lives["a/fine"]
    assert fine["cpu_time"] > 0
    assert fine["max_memory"] > 1_000_000
    assert (fine["user"], fine["queue"], fine["node"]) == ("sue", "root.jobs", "here")
    assert fine["run_time"] == pytest.approx(fine["ended"] - fine["started"])
    assert fine["used"] == {"vcore": int(1000 * fine["run_time"])}
    gone = lives["b/gone"]
    assert (gone["started"], gone["run_time"], gone["used"]) == (None, 0, {"vcore": 0})
    assert gone["wait"] == pytest.approx(gone["ended"] - gone["submitted"])


# LISTS-21, LISTS-22
def test_users_have_used_what_their_asks_held(before: tuple[list[Item], dict[str, Item]]) -> None:
    items, known = before
    assert known.keys() == {"sue", "bob"}
    for user, item in known.items():
        lives = [life for life in items if life["user"] == user]
        held = sum(life["used"]["vcore"] for life in lives)
        assert held <= item["used"]["vcore"] <= held + len(lives)
        counts = {one: item[one] for one in ("completed", "failed", "cancelled")}
        assert counts == {one: sum(i["outcome"] == one for i in lives) for one in counts}
        assert (item["pending"], item["waiting"], item["bound"]) == (0, 0, 0)
    assert known["sue"]["completed"] == 2
    shares = [item["share"] for item in known.values()]
    assert shares == sorted(shares, reverse=True)


# LISTS-16, LISTS-18
def test_it_is_the_same_after_a_start(
    before: tuple[list[Item], dict[str, Item]], folder: Path
) -> None:
    items, known = before
    with _served(folder) as served:
        client = served.client
        assert ended(client) == items
        assert ended(client, user="sue", since="1d") == [i for i in items if i["user"] == "sue"]
        assert ended(client, queue="root.jobs", app="b") == [i for i in items if i["app"] == "b"]
        again = users(client)
        for user, item in again.items():
            for name in ("used", "completed", "failed", "cancelled", "allocated"):
                assert item[name] == known[user][name]
        one = client.get("/api/v1/asks/a/bad").json()["item"]
        assert one == next(item for item in items if item["ask"] == "bad")
        assert client.get("/api/v1/asks/a/bad/why").json()["item"] == one
        assert client.get("/api/v1/asks/a/fine").json()["item"] == items[0]
        assert client.get("/api/v1/asks/a/none").status_code == 404


def test_those_that_are_not_in_memory_come_from_the_store(tmp_path: Path) -> None:
    with ServiceThread(tmp_path / "state") as service:
        client = service.client
        submit(client, _app("early", "sue"), {**job("x", "true"), "app": "early"})
        submit(client, {"op": "remove_ask", "app": "early", "ask": "x"})
        more = {"op": "add_ask", "ask": "k", "resources": {"vcore": 1}, "count": KEPT}
        submit(client, _app("many", "bob"), {**more, "app": "many"})
        submit(client, {"op": "remove_app", "app": "many"})
        assert len(ended(client, limit=1000)) == KEPT + 1
        (found,) = ended(client, user="sue")
        assert (found["app"], found["ask"], found["outcome"]) == ("early", "x", "cancelled")
        assert client.get("/api/v1/asks/early/x").json()["item"] == found
        assert ended(client, since="2100-01-01") == []


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"state": "ended,bound"}, "'ended' stands alone"),
        ({"state": "ended", "reason": "NoNodeFits"}, "reason: is not known"),
        ({"state": "ended", "gang": "g"}, "gang: is not known"),
        ({"since": "1d"}, "add state=ended"),
        ({"state": "ended", "since": "soon"}, "must be a duration"),
        ({"state": "ended", "after": "nonsense"}, "no cursor"),
        ({"state": "over"}, "ended"),
    ],
)
def test_what_cannot_be_asked(parameters: dict[str, str], problem: str) -> None:
    with ServiceThread() as service:
        answer = service.client.get("/api/v1/asks", params=parameters)
        assert answer.status_code == 400
        assert problem in answer.json()["detail"]


def test_a_cursor_of_the_other_list_is_refused() -> None:
    with ServiceThread() as service:
        client = service.client
        many = {"op": "add_ask", "app": "a", "ask": "k", "resources": {"vcore": 1}, "count": 4}
        submit(client, {"op": "add_app", "app": "a", "queue": "root.q"}, many)
        for number in (0, 1):
            submit(client, {"op": "remove_ask", "app": "a", "ask": f"k-{number}"})
        there = client.get("/api/v1/asks", params={"limit": 1}).json()["next"]
        gone = client.get("/api/v1/asks", params={"state": "ended", "limit": 1}).json()["next"]
        for parameters in ({"state": "ended", "after": there}, {"after": gone}):
            answer = client.get("/api/v1/asks", params=parameters)
            assert answer.status_code == 400
            assert "is no cursor of this list" in answer.json()["detail"]


# LISTS-23, LISTS-24
def test_the_page_and_the_metrics_have_the_same_users() -> None:
    with ServiceThread() as service:
        client = service.client
        apps = [
            {"op": "add_app", "app": f"a{number}", "queue": "root.q", "user": f"user-{number:03}"}
            for number in range(120)
        ]
        submit(client, node(1000), *apps)
        asks = [
            {"op": "add_ask", "app": f"a{number}", "ask": "k", "resources": {"vcore": 2}}
            for number in range(120)
        ]
        submit(client, *asks)
        submit(client, {"op": "add_app", "app": "o", "queue": "root.q", "user": "other"})
        submit(client, {"op": "add_ask", "app": "o", "ask": "k", "resources": {"vcore": 3}})
        submit(client, {"op": "release", "app": "a0", "ask": "k"})
        text = client.get("/metrics").text
        held = [one for one in text.splitlines() if one.startswith("muster_user_allocated{")]
        assert len(held) == 100  # the first has released what it held
        (rest,) = [one for one in held if 'user="other"' in one]
        assert rest.endswith(f" {20 * 2000 + 3000:.0f}.0")
        page = client.get("/users").text
        assert "121 users in all." in page
        assert page.count('<tr role="row">') == 101
        assert 'href="/asks?user=user-001"' in page
        assert client.get("/users", params={"days": "2"}).status_code == 400
        assert len(users(client, limit=1000)) == 121


# CLIENT-3
def test_the_command_lists_what_has_ended_and_users() -> None:
    with ServiceThread() as service:
        client = service.client
        submit(client, node(4), _app("a", "sue"))
        submit(client, {"op": "add_ask", "app": "a", "ask": "k", "resources": {"vcore": 1}})
        more = {"exit_status": 3, "cpu_time": 7200, "max_memory": 2**30}
        submit(client, {"op": "release", "app": "a", "ask": "k", "outcome": "failed", **more})
        server = ("--server", str(client.base_url))
        table = run("get", "asks", "--state", "ended", "--since", "1h", "--user", "sue", *server)
        assert table.exit_code == 0, table.output
        assert re.search(r"a/k +sue +failed +3 +20", table.stdout)
        wide = run("get", "asks", "--state", "ended", "-o", "wide", *server).stdout
        assert "02:00:00" in wide
        assert "1Gi" in wide
        one = run("get", "ask", "a/k", *server).stdout
        assert "outcome      failed" in one
        used = run("get", "users", "--since", "1d", *server)
        assert re.search(r"sue +1 +0 +0 +0", used.stdout)
        assert run("get", "users", "sue", *server).exit_code == 2
        assert run("get", "nodes", "--since", "1d", *server).exit_code == 2
        assert "a/k is over: failed at" in run("why", "a/k", *server).stdout


# STORE-5, LISTS-16
@pytest.mark.parametrize("change", ["DELETE FROM companion", "UPDATE companion SET state = x'00'"])
def test_they_are_made_again_after_a_checkpoint_without_them(tmp_path: Path, change: str) -> None:
    """The process was killed in between, or another version has written them."""
    state = tmp_path / "state"
    with ServiceThread(state) as service:
        service.post(
            _app("a", "sue"), {"op": "add_ask", "app": "a", "ask": "k", "resources": {"vcore": 1}}
        )
        service.post({"op": "remove_ask", "app": "a", "ask": "k"})
        items = service.all("/api/v1/asks", state="ended")
    with closing(sqlite3.connect(state / "muster.db", isolation_level=None)) as database:
        database.execute(change)

    assert len(items) == 1
    for _ in range(2):
        with ServiceThread(state) as service:
            assert service.all("/api/v1/asks", state="ended") == items
