"""``muster submit``: a feed, sent to a real server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.cli._clients.patience import Patience
from tests.actors.cli.helpers import run, run_json
from tests.actors.serving.served import Served


def asks(app: str, count: int) -> str:
    return "".join(
        f"- {{op: add_ask, app: {app}, ask: a{number}, resources: {{vcore: 1}}}}\n"
        for number in range(count)
    )


def names(served: Served, app: str) -> list[str]:
    """Give the asks of an application, as the server lists them."""
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


def test_it_goes_on_if_it_is_told_to(tmp_path: Path, served: Served) -> None:
    # CLIENT-4
    feed = tmp_path / "feed.yaml"
    app = "- {op: add_app, app: all, queue: root.dev}\n"
    feed.write_text(f"{app}- {{op: add_app}}\n{asks('all', 2)}- {{op: remove_node, node: x}}\n")

    status, told = run_json("submit", feed, "--keep-going", "--batch", "1")

    assert status == 1
    assert (told["sent"], told["refused"], told["position"]) == (3, 2, 5)
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
    result = run("submit", "-", given="- {op: add_app, app: piped, queue: root.dev}\n")

    assert (result.exit_code, result.stdout) == (0, "standard input: 1 event let in\n")
    assert served.client.get("/api/v1/apps/piped").json()["item"]["queue"] == "root.dev"


def test_a_feed_that_cannot_be_read() -> None:
    result = run("submit", "no-such-feed.yaml")

    assert result.exit_code == 2
    assert "no-such-feed.yaml: No such file or directory" in result.stderr


def test_a_server_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # CLIENT-2
    monkeypatch.setattr("muster.cli._clients.feeds.SUBMITTING", Patience(0.3, 0.1))
    feed = tmp_path / "feed.yaml"
    feed.write_text("- {op: add_app, app: away, queue: root.dev}\n")

    result = run("submit", feed, "--server", "http://127.0.0.1:9")

    assert result.exit_code == 2
    assert "http://127.0.0.1:9: cannot be reached" in result.stderr
    assert "It is tried again until " in result.stderr
    assert "0 events of" in result.stderr
