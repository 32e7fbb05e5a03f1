"""``muster cancel`` and ``muster drain`` against a real server.

Which server a command asks, and as whom.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.actors.cli.helpers import LONGEST_S, run, started
from tests.actors.serving.served import Served

NUMBERS: Final = count()


def send(served: Served, *events: dict[str, object]) -> None:
    answers = served.client.post("/api/v1/events", json=list(events)).json()
    assert all(one["ok"] for one in answers), answers


@pytest.fixture
def app(served: Served) -> str:
    """Return an application with a bound ask and a pending one, on a node of its own."""
    number = next(NUMBERS)
    name, node = f"app{number}", f"node{number}"
    ask = {"op": "add_ask", "app": name, "resources": {f"gpu{number}": 1}}
    send(
        served,
        {"op": "add_node", "node": node, "capacity": {f"gpu{number}": 1}},
        {"op": "add_app", "app": name, "queue": "root.dev"},
        {**ask, "ask": "first"},
        {**ask, "ask": "second"},
    )
    return name


def places(served: Served, app: str) -> dict[str, str]:
    found = served.client.get("/api/v1/asks", params={"app": app}).json()
    return {item["ask"]: item["place"] for item in found["items"]}


def test_a_bound_ask_is_cancelled(served: Served, app: str) -> None:
    # CLIENT-7
    assert places(served, app) == {"first": "bound", "second": "pending"}

    result = run("cancel", f"{app}/first", "--message", "not needed")

    assert (result.exit_code, result.stdout) == (0, f"{app}/first: cancelled\n")
    assert places(served, app) == {"second": "bound"}
    lines = served.client.get(f"/api/v1/decisions?app={app}&kinds=released").text.splitlines()
    (released,) = map(json.loads, lines)
    assert (released["reason"], released["message"]) == ("cancelled", "not needed")

    again = run("cancel", f"{app}/first")

    assert again.exit_code == 1
    message = f"refused: {app}/first is over: cancelled at 20"
    assert again.stderr.startswith(message)
    assert again.stderr.rstrip().endswith(": not needed")


def test_a_pending_ask_is_cancelled(served: Served, app: str) -> None:
    # CLIENT-7
    assert run("cancel", f"{app}/second").exit_code == 0
    assert places(served, app) == {"first": "bound"}


def test_an_application_is_cancelled(served: Served, app: str) -> None:
    # CLIENT-7
    assert run("cancel", app).exit_code == 0
    assert places(served, app) == {}
    assert "first is over: cancelled" in run("why", f"{app}/first").stdout
    assert run("cancel", app).exit_code == 1


@pytest.mark.parametrize("name", ["nobody", "nobody/x"])
def test_what_is_not_there_is_refused(name: str) -> None:
    # CLIENT-2
    result = run("cancel", name)

    assert result.exit_code == 1
    assert "'nobody' is unknown" in result.stderr


def test_a_node_is_drained(served: Served, app: str) -> None:
    # CLIENT-8
    node = app.replace("app", "node")

    result = run("drain", node)

    message = f"{node}: no more asks are placed on it; 1 ask still on it\n"
    assert (result.exit_code, result.stdout) == (0, message)
    assert run("cancel", f"{app}/first").exit_code == 0
    assert places(served, app) == {"second": "pending"}
    assert run("drain", node, "--wait").stdout == f"{node}: no more asks are placed on it\n"
    undone = run("drain", node, "--undo")
    assert undone.stdout == f"{node}: asks may be placed on it again\n"
    assert places(served, app) == {"second": "bound"}


def test_it_waits_until_nothing_is_on_it(served: Served, app: str) -> None:
    # CLIENT-8
    node = app.replace("app", "node")
    with started("drain", node, "--wait") as running:
        while served.client.get(f"/api/v1/nodes/{node}").json()["item"]["schedulable"]:
            pass
        assert run("cancel", f"{app}/first").exit_code == 0
        assert running.process.wait(LONGEST_S) == 0
    assert places(served, app) == {"second": "pending"}


def test_a_node_that_is_not_there() -> None:
    # CLIENT-2
    result = run("drain", "nowhere")

    assert result.exit_code == 1
    assert "'nowhere' is unknown" in result.stderr


def test_a_token_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # CLIENT-1
    tokens = tmp_path / "tokens"
    made = run("token", "new", "ann", "--role", "reader", "--tokens", tokens)
    assert made.exit_code == 0, made.output
    secret = tmp_path / "secret"
    secret.write_text(made.stdout.split()[-1] + "\n")
    with Served(tmp_path, "--tokens", str(tokens)) as served:
        ask = ("get", "queues", "--server", served.urls[0])
        refused = run(*ask)
        assert refused.exit_code == 2
        assert "put a token into MUSTER_TOKEN, or name a file with --token-file" in refused.stderr
        assert run(*ask, "--token-file", secret).exit_code == 0
        monkeypatch.setenv("MUSTER_TOKEN", secret.read_text().strip())
        assert run(*ask).exit_code == 0
        denied = run("cancel", "nobody", "--server", served.urls[0])
        assert denied.exit_code == 1
        assert "needs the role submitter" in denied.stderr


def test_a_socket_of_unix(tmp_path: Path) -> None:
    # CLIENT-1
    address = f"unix:{tmp_path}/socket"
    with Served(tmp_path, listen=[address]):
        assert run("get", "queues", "--server", address).exit_code == 0


@pytest.mark.parametrize("token", ["two words", "ünicode", "line\nfeed"])
def test_what_is_no_token(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    # CLIENT-1
    monkeypatch.setenv("MUSTER_TOKEN", token)

    result = run("get", "queues", "--server", "http://127.0.0.1:9")

    assert result.exit_code == 2
    assert "the token has characters that no token has" in result.stderr


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    # CLIENT-1
    missing = tmp_path / "missing.pem"

    result = run("get", "queues", "--server", "https://127.0.0.1:9", "--cacert", missing)

    assert result.exit_code == 2
    assert f"{missing}: cannot be used as certificates: No such file" in result.stderr
