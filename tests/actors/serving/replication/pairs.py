"""Pairs of real servers, of which one follows the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from muster.store import StateReader
from tests.actors.serving.served import Served, until

NODE: Final[dict[str, object]] = {"op": "add_node", "node": "n", "capacity": {"vcore": 4}}
APP: Final[dict[str, object]] = {"op": "add_app", "app": "a", "queue": "root.dev"}


def asks(name: str, count: int) -> dict[str, object]:
    """Return the event that adds asks of one vcore."""
    return {"op": "add_ask", "app": "a", "ask": name, "resources": {"vcore": 1}, "count": count}


def leader(
    folder: Path,
    *arguments: str,
    listen: Sequence[str] = ("127.0.0.1:0",),
    until_ready: bool = True,
) -> Served:
    """Start a server with a store, which leads."""
    state = ("--state", str(folder / "leader"))
    return Served(folder, *state, *arguments, listen=listen, until_ready=until_ready)


def follower(folder: Path, of: Served, *arguments: str, until_ready: bool = True) -> Served:
    """Start a server that follows another one."""
    state = ("--state", str(folder / "follower"))
    return Served(folder, *state, "--follow", of.urls[0], *arguments, until_ready=until_ready)


def post(served: Served, *events: dict[str, object], key: str | None = None) -> httpx.Response:
    """Send events; return the answer."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return served.client.post("/api/v1/events", json=[*events], headers=headers)


def enter(served: Served, *events: dict[str, object], key: str | None = None) -> None:
    """Send events, all of which are accepted."""
    response = post(served, *events, key=key)
    assert response.status_code == 200, response.text
    assert all(one["ok"] for one in response.json()), response.text


def get(served: Served, path: str) -> dict[str, Any]:
    """GET a path; return the decoded JSON."""
    response = served.client.get(path)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def role(served: Served) -> dict[str, Any]:
    """Return the role of a server as ``/healthz`` reports it."""
    found: dict[str, Any] = get(served, "/healthz")["replica"]
    return found


def level(one: Served, other: Served) -> None:
    """Wait until a follower has all batches of its leader on disk."""
    last = get(one, "/api/v1/replica")["batch"]
    until(lambda: get(other, "/api/v1/replica")["batch"] >= last)


def decisions(served: Served) -> Sequence[str]:
    """Return the lines of all decisions."""
    return served.client.get("/api/v1/decisions").text.splitlines()


def digest(folder: Path) -> tuple[int, bytes]:
    """Return the number and the digest of the last batch of a store."""
    with StateReader(folder) as reader:
        last = reader.last()
    return last.batch, last.digest


def term(folder: Path) -> int:
    """Return the term of a store."""
    with StateReader(folder) as reader:
        return reader.meta.term
