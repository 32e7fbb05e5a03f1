"""``muster submit``: a feed, sent to a real server."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from muster.cli._server import RetryPolicy
from tests.actors.cli.helpers import run, run_json
from tests.actors.serving.served import Served


def asks(app: str, count: int) -> str:
    return "".join(
        f"- {{op: add_ask, app: {app}, ask: a{number}, resources: {{vcore: 1}}}}\n"
        for number in range(count)
    )


def names(served: Served, app: str) -> list[str]:
    """Return the asks of an application, as the server lists them."""
    found = served.client.get("/api/v1/asks", params={"app": app, "limit": 1000}).json()
    return [item["ask"] for item in found["items"]]


def test_a_feed_is_let_in(tmp_path: Path, served: Served) -> None:
    # CLIENT-4
    feed = tmp_path / "feed.yaml"
    app = "- {op: add_app, app: whole, queue: root.dev}\n"
    feed.write_text(f"{app}{asks('whole', 250)}- {{op: settle}}\n- {{op: expect, at: 9}}\n")

    result = run("submit", feed, "--batch", "40")

    assert (result.exit_code, result.stdout) == (0, f"{feed}: 251 events let in\n")
    assert names(served, "whole") == [f"a{number}" for number in range(250)]


def test_it_stops_at_a_refusal_and_says_how_to_go_on(tmp_path: Path, served: Served) -> None:
    # CLIENT-4
    feed = tmp_path / "feed.yaml"
    app = "- {op: add_app, app: half, queue: root.dev}\n"
    wrong = "- {op: remove_ask, app: half, ask: nobody}\n"
    feed.write_text(f"{app}{asks('half', 3)}{wrong}{asks('half', 5)}")

    result = run("submit", feed, "--batch", "5")

    assert result.exit_code == 1
    assert f"{feed}:5: refused: ask: 'nobody'" in result.stderr
    again = re.search(r"To go on after them: muster (.*)", result.stderr)
    assert again is not None
    assert names(served, "half") == ["a0", "a1", "a2"]

    feed.write_text(f"{app}{asks('half', 3)}{wrong}{asks('half', 5)[asks('half', 3).__len__() :]}")
    rest = run(*again[1].split())
    assert (rest.exit_code, rest.stdout) == (0, f"{feed}: 2 events let in\n")
    assert names(served, "half") == ["a0", "a1", "a2", "a3", "a4"]


def test_it_keeps_going_with_the_option(tmp_path: Path, served: Served) -> None:
    # CLIENT-4
    feed = tmp_path / "feed.yaml"
    app = "- {op: add_app, app: all, queue: root.dev}\n"
    feed.write_text(f"{app}- {{op: add_app}}\n{asks('all', 2)}- {{op: remove_node, node: x}}\n")

    status, summary = run_json("submit", feed, "--keep-going", "--batch", "1")

    assert status == 1
    assert (summary["sent"], summary["refused"], summary["position"]) == (3, 2, 5)
    assert names(served, "all") == ["a0", "a1"]


def test_what_was_sent_is_not_let_in_again(tmp_path: Path, served: Served) -> None:
    # CLIENT-4
    feed = tmp_path / "feed.yaml"
    feed.write_text(f"- {{op: add_app, app: twice, queue: root.dev}}\n{asks('twice', 3)}")

    first = run("submit", feed, "--run", "mine")
    second = run("submit", feed, "--run", "mine")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert names(served, "twice") == ["a0", "a1", "a2"]
    third = run("submit", feed, "--run", "other")
    assert third.exit_code == 1
    assert "'twice' is already an application" in third.stderr


def test_standard_input(served: Served) -> None:
    result = run("submit", "-", stdin="- {op: add_app, app: piped, queue: root.dev}\n")

    assert (result.exit_code, result.stdout) == (0, "standard input: 1 event let in\n")
    assert served.client.get("/api/v1/apps/piped").json()["item"]["queue"] == "root.dev"


def test_a_feed_that_cannot_be_read() -> None:
    result = run("submit", "no-such-feed.yaml")

    assert result.exit_code == 2
    assert "no-such-feed.yaml: No such file or directory" in result.stderr


def test_a_server_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # CLIENT-2
    monkeypatch.setattr("muster.cli._feed_submission.SUBMIT_RETRIES", RetryPolicy(0.3, 0.1))
    feed = tmp_path / "feed.yaml"
    feed.write_text("- {op: add_app, app: away, queue: root.dev}\n")

    result = run("submit", feed, "--server", "http://127.0.0.1:9")

    assert result.exit_code == 2
    assert "http://127.0.0.1:9: cannot be reached" in result.stderr
    assert "It is tried again until " in result.stderr
    assert "0 events of" in result.stderr


def test_all_or_none(tmp_path: Path, served: Served) -> None:
    # CLIENT-18, CLIENT-4
    feed = tmp_path / "feed.yaml"
    app = "- {op: add_app, app: atom, queue: root.dev}\n"
    wrong = "- {op: remove_ask, app: atom, ask: nobody}\n- {op: nonsense}\n"
    feed.write_text(f"{app}{asks('atom', 2)}{wrong}- {{op: settle}}\n")

    refused = run("submit", feed, "--atomic")

    assert (refused.exit_code, refused.stdout) == (1, f"{feed}: 0 events let in, 2 refused\n")
    assert f"{feed}:4: refused: ask: 'nobody'" in refused.stderr
    assert f"{feed}:5: refused: op: 'nonsense'" in refused.stderr
    assert served.client.get("/api/v1/apps/atom").status_code == 404

    half = run("submit", feed)
    assert half.exit_code == 1
    assert "3 events are let in, and would be refused a second time." in half.stderr
    assert "With --atomic none is let in" in half.stderr
    assert run("cancel", "atom").exit_code == 0

    feed.write_text(f"{app.replace('atom', 'atoms')}{asks('atoms', 2)}")
    status, summary = run_json("submit", feed, "--atomic")
    assert (status, summary) == (0, {"feed": str(feed), "sent": 3, "refused": 0})
    assert names(served, "atoms") == ["a0", "a1"]


def test_it_is_only_tried(tmp_path: Path, served: Served) -> None:
    # CLIENT-19
    feed = tmp_path / "feed.yaml"
    app = "- {op: add_app, app: tried, queue: root.dev}\n"
    feed.write_text(f"{app}{asks('tried', 1)}- {{op: remove_app, app: nobody}}\n")

    result = run("submit", feed, "--dry-run")

    assert result.exit_code == 1
    assert f"{feed}:3: refused: app: 'nobody' is unknown" in result.stderr
    assert f"{feed}: 2 events would be let in, 1 refused; nothing has changed" in result.stderr
    decisions = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["state"] for one in decisions if one["kind"] == "app_state"] == ["New", "Accepted"]

    status, summary = run_json("submit", feed, "--dry-run", "--atomic")
    assert (status, summary["sent"], summary["refused"], summary["decisions"]) == (1, 0, 1, [])
    feed.write_text(app)
    assert run("submit", feed, "--dry-run").exit_code == 0
    assert served.client.get("/api/v1/apps/tried").status_code == 404


def test_too_many_for_one_request(tmp_path: Path) -> None:
    # CLIENT-18
    feed = tmp_path / "feed.jsonl"
    feed.write_text('{"op": "remove_node", "node": "n"}\n' * 10_001)

    result = run("submit", feed, "--atomic")

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{feed}: has more than 10,000 events" in result.stderr


def test_a_server_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # CLIENT-16
    monkeypatch.setattr("muster.cli._feed_submission.SUBMIT_RETRIES", RetryPolicy(0.0, 0.0))
    monkeypatch.setattr("muster.client._ANSWER_S", 0.5)
    feed = tmp_path / "feed.yaml"
    feed.write_text("- {op: add_app, app: mute, queue: root.dev}\n")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"

        result = run("submit", feed, "--server", url)

    assert result.exit_code == 2
    assert f"{url}: there is no answer yet\nIt is tried again until " in result.stderr
    assert f"{url}: no answer in time" in result.stderr
