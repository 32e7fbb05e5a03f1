"""A server that runs commands: what tests submit to it, and what they wait for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.actors.serving.served import PATIENCE_S, Served

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: jobs}]
"""

APP = {"op": "add_app", "app": "a", "queue": "root.jobs"}

Decision = dict[str, Any]


@cache
def as_user() -> tuple[str, ...]:
    """Give the program that lets a service run as somebody who is not root; skip if none can."""
    if os.geteuid() != 0:
        return ()
    prefix = (shutil.which("unshare") or "unshare", "--user")
    try:
        subprocess.run([*prefix, "true"], check=True, timeout=PATIENCE_S)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"root has no user namespace to leave its rights behind: {error}")
    return prefix


def running_commands(
    folder: Path,
    *arguments: str,
    config: str | None = QUEUES,
    environment: Mapping[str, str] | None = None,
    listen: Sequence[str] = ("127.0.0.1:0",),
    prefix: Sequence[str] = (),
) -> Served:
    """Start a service that runs commands as the user of the tests, who is not root there."""
    return Served(
        folder,
        *("--run", "local", "--trust-local", *arguments),
        config=config,
        environment=environment,
        listen=listen,
        prefix=(*prefix, *as_user()),
    )


def node(vcores: int = 8, name: str = "here") -> dict[str, object]:
    return {"op": "add_node", "node": name, "capacity": {"vcore": vcores}}


def job(ask: str, command: object, **more: object) -> dict[str, object]:
    """Give the event of an ask of one core with a command."""
    return {
        "op": "add_ask",
        "app": "a",
        "ask": ask,
        "resources": {"vcore": 1},
        "command": command,
        **more,
    }


def submit(client: httpx.Client, *events: object) -> None:
    """Let in events, none of which may be refused."""
    response = client.post("/api/v1/events", json=events)
    assert response.status_code == 200, response.text
    assert [one for one in response.json() if not one["ok"]] == []


def decisions(client: httpx.Client) -> list[Decision]:
    """Give all decisions so far."""
    response = client.get("/api/v1/decisions")
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def following(client: httpx.Client, after: int = 0) -> Iterator[Decision]:
    """Give all decisions after one, those of the future included."""
    limit = time.monotonic() + PATIENCE_S
    headers = {"Accept": "text/event-stream"}
    with client.stream("GET", f"/api/v1/decisions?after={after}", headers=headers) as response:
        for line in response.iter_lines():
            assert time.monotonic() < limit, "no such decision for too long"
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def until(client: httpx.Client, times: int = 1, **wanted: object) -> list[Decision]:
    """Wait until there are so many decisions with these fields; give all up to there."""
    seen: list[Decision] = []
    for decision in following(client):
        seen.append(decision)
        times -= wanted.items() <= decision.items()
        if times == 0:
            return seen
    raise AssertionError(f"the stream has ended: {seen}")


def ends_of(found: list[Decision], ask: str) -> list[tuple[str, str | None]]:
    """Give how the allocations of an ask ended: the reason and the message."""
    return [
        (one["reason"], one.get("message"))
        for one in found
        if one["kind"] == "released" and one.get("ask") == ask
    ]


def patiently(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that nobody tells of."""
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "waited for too long"
        time.sleep(0.01)


def output(client: httpx.Client, ask: str, **parameters: str | int) -> str:
    """Give the output of an ask of the application `a`."""
    response = client.get(f"/api/v1/asks/a/{ask}/logs", params=parameters)
    assert response.status_code == 200, response.text
    return response.text
