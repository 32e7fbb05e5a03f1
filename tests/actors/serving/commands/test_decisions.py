"""``muster decisions``: the decisions of a real server, with ``--follow`` too."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.actors.cli.helpers import LONGEST_S, run, started
from tests.actors.serving.served import Served


def send(*events: dict[str, object], served: Served) -> None:
    answers = served.client.post("/api/v1/events", json=list(events)).json()
    assert all(one["ok"] for one in answers), answers


def test_all_that_are_kept(served: Served) -> None:
    send({"op": "add_app", "app": "one", "queue": "root.dev"}, served=served)
    send({"op": "remove_app", "app": "one"}, served=served)

    result = run("decisions", "--app", "one", "--kinds", "rejected,app_state")

    assert result.exit_code == 0
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["kind"] for one in found] == ["app_state"] * len(found)
    assert [one["state"] for one in found] == ["New"]


def test_a_filter_that_is_wrong(served: Served) -> None:
    # CLIENT-2
    result = run("decisions", "--kinds", "nonsense")

    assert result.exit_code == 2
    assert "kinds: 'nonsense': must be names out of" in result.stderr


def test_those_that_follow(served: Served, tmp_path: Path) -> None:
    # CLIENT-5
    before = run("decisions").stdout.splitlines()
    last = json.loads(before[-1])["seq"] if before else 0
    with started("decisions", "--follow", "--after", str(last)) as running:
        send({"op": "add_app", "app": "next", "queue": "root.dev"}, served=served)
        send({"op": "remove_app", "app": "next"}, served=served)
        found = [json.loads(running.out.readline()) for _ in range(1)]
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(LONGEST_S) == 130

    assert found[0]["seq"] == last + 1
    assert found[0]["app"] == "next"
