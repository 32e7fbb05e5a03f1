"""``POST /api/v1/events``: three encodings, limits, and an answer for each event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import pytest
from httpx import Response

from tests.actors.serving.served import Served

PATH = "/api/v1/events"
_NUMBERS = count()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with Served(folder, "--state", str(folder / "state")) as running:
        yield running


def post(served: Served, body: bytes | str, media: str = "application/json") -> Response:
    content = body.encode() if isinstance(body, str) else body
    return served.client.post(PATH, content=content, headers={"content-type": media})


def app() -> dict[str, object]:
    """Return the event that adds an application with a name of its own."""
    return {"op": "add_app", "app": f"app-{next(_NUMBERS)}", "queue": "root.dev"}


def ask(name: object, ask: str = "a", **more: object) -> dict[str, object]:
    return {"op": "add_ask", "app": name, "ask": ask, "resources": {"vcore": 1}, **more}


def results(response: Response) -> list[tuple[bool, object, list[str]]]:
    assert response.status_code == 200, response.text
    found = response.json()
    assert [one["index"] for one in found] == list(range(len(found)))
    return [(one["ok"], one["error"], one["asks"]) for one in found]


def test_events_are_answered_in_order(served: Served) -> None:
    new = app()
    asks = [ask(new["app"], "b", count=3), ask("nobody"), ask(new["app"])]

    answer = post(served, json.dumps([new, *asks]))

    assert results(answer) == [
        (True, None, []),
        (True, None, ["b-0", "b-1", "b-2"]),
        (False, "app: 'nobody' is unknown", []),
        (True, None, ["a"]),
    ]
    assert int(answer.headers["Muster-First-Seq"]) <= int(answer.headers["Muster-Last-Seq"])
