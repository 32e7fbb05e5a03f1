"""``/api/v1/decisions``: pages of lines, and streams."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from muster.store import StateReader
from tests.actors.serving.served import PATIENCE_S, EventReader, Served, decisions_in

PATH = "/api/v1/decisions"
_NUMBERS = count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with Served(folder, "--state", str(folder / "state")) as running:
        yield running


def submit(served: Served, *events: dict[str, object]) -> int:
    """Submit events, and return the number of the last decision about them."""
    answer = served.client.post("/api/v1/events", json=events)
    assert answer.status_code == 200, answer.text
    assert all(one["ok"] for one in answer.json()), answer.text
    return int(answer.headers["muster-last-seq"])


def app_with_asks(asks: int, queue: str = "root.dev") -> tuple[str, list[dict[str, object]]]:
    """Return an application with asks, and its name."""
    name = f"app-{next(_NUMBERS)}"
    add = {"op": "add_app", "app": name, "queue": queue}
    ask: dict[str, object] = {"op": "add_ask", "app": name, "ask": "a", "resources": {"vcore": 1}}
    return name, [{**add}, {**ask, "count": asks}]


def node() -> dict[str, object]:
    name = f"n-{next(_NUMBERS)}"
    return {"op": "add_node", "node": name, "capacity": {"vcore": 1000, "memory": "1Ti"}}


def stored_decisions(folder: Path) -> list[dict[str, object]]:
    """Return all decisions in the store."""
    with StateReader(folder / "state") as reader:
        return [one.as_map() for batch in reader.batches() for one in batch.decisions]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def pages(served: Served, target: str) -> list[list[dict[str, Any]]]:
    """Return all pages from one on."""
    found: list[list[dict[str, Any]]] = []
    following: str | None = target
    while following is not None:
        answer = served.client.get(following)
        assert answer.status_code == 200, answer.text
        found.append(lines(answer.text))
        following = answer.links["next"]["url"] if "next" in answer.links else None
    return found


# STREAM-1


def test_lines_are_those_of_the_store(served: Served, folder: Path) -> None:
    submit(served, node(), *app_with_asks(30)[1])

    answer = served.client.get(PATH)

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert lines(answer.text) == stored_decisions(folder)
    assert answer.headers["muster-last-seq"] == str(len(stored_decisions(folder)))


def test_pages_follow_one_another(served: Served, folder: Path) -> None:
    submit(served, node(), *app_with_asks(30)[1])

    found = pages(served, f"{PATH}?limit=7&after=3")

    assert {len(page) for page in found[:-1]} == {7}
    assert [one for page in found for one in page] == stored_decisions(folder)[3:]


def test_lines_end_with_a_decision_that_is_named(served: Served, folder: Path) -> None:
    submit(served, node(), *app_with_asks(30)[1])

    found = pages(served, f"{PATH}?after=5&until=20&limit=10")

    assert [one["seq"] for page in found for one in page] == list(range(6, 21))
    assert pages(served, f"{PATH}?after=20&until=5") == [[]]


def test_filters_are_those_of_observers(served: Served, folder: Path) -> None:
    name, events = app_with_asks(5, "root.prod")
    submit(served, node(), *events)
    everything = stored_decisions(folder)

    def found(query: str) -> list[dict[str, Any]]:
        return [one for page in pages(served, f"{PATH}?limit=3&{query}") for one in page]

    assert found("kinds=bound,released") == [one for one in everything if one["kind"] == "bound"]
    assert found(f"app={name}") == [one for one in everything if one.get("app") == name]
    assert found("queue=PROD") == [one for one in everything if one.get("queue") == "root.prod"]
    assert found("gang=g") == []


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_a_decision_of_the_future_is_refused(served: Served, accept: str) -> None:
    answer = served.client.get(f"{PATH}?after=1000000", headers={"accept": accept})

    assert answer.status_code == 409
    assert "decision 1000000 is not announced yet" in answer.json()["detail"]
    assert answer.json()["last"] == int(served.client.get(PATH).headers["muster-last-seq"])


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("after=-1", "after: '-1': must be a whole number from 0"),
        ("after=x", "after: 'x': must be a whole number"),
        ("limit=0", "limit: '0': must be a whole number from 1 to 100000"),
        ("kinds=bound,b", "kinds: 'bound,b': must be names out of assigned, "),
        ("gang=A", "gang: 'A': must be the name of a gang"),
        ("queue=", "queue: '': must not be empty"),
    ],
)
def test_wrong_parameters_are_refused(served: Served, query: str, problem: str) -> None:
    answer = served.client.get(f"{PATH}?{query}")

    assert answer.status_code == 400
    assert problem in answer.json()["detail"]


# STREAM-3


def test_a_stream_begins_after_a_decision_and_goes_on(served: Served, folder: Path) -> None:
    first = submit(served, node(), *app_with_asks(10)[1])
    found: list[int] = []
    joined = threading.Event()

    def follow() -> None:
        headers = {"accept": "text/event-stream"}
        reader = EventReader()
        with served.client.stream("GET", f"{PATH}?after={first - 5}", headers=headers) as answer:
            for part in answer.iter_bytes():
                for sent in reader.feed(part):
                    assert sent.last_id == str(sent.value["seq"])
                    assert sent.kind == "decision"
                    assert sent.value == stored_decisions(folder)[sent.value["seq"] - 1]
                    found.append(sent.value["seq"])
                if found and found[-1] >= first:
                    joined.set()
                if found and found[-1] >= first + 20:
                    assert reader.retry == 2000
                    return

    thread = threading.Thread(target=follow)
    thread.start()
    assert joined.wait(PATIENCE_S)
    last = submit(served, *app_with_asks(20)[1])
    thread.join(PATIENCE_S)

    assert found == list(range(first - 4, found[-1] + 1))
    assert found[-1] <= last


def test_a_stream_goes_on_after_the_last_id(served: Served) -> None:
    last = submit(served, node(), *app_with_asks(10)[1])

    found = decisions_in(served.client, f"{PATH}?after=1&until={last}", last_id=str(last - 3))

    assert [one.last_id for one in found] == [str(last - 2), str(last - 1), str(last)]


def test_a_stream_begins_with_what_follows(served: Served) -> None:
    before = submit(served, node(), *app_with_asks(10)[1])
    found: list[int] = []
    joined = threading.Event()

    def follow() -> None:
        with served.client.stream(
            "GET", f"{PATH}?limit=3", headers={"accept": "text/event-stream"}
        ) as answer:
            reader = EventReader()
            for part in answer.iter_bytes():
                found.extend(one.value["seq"] for one in reader.feed(part))
                joined.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert joined.wait(PATIENCE_S)
    submit(served, *app_with_asks(10)[1])
    thread.join(PATIENCE_S)

    assert found == [before + 1, before + 2, before + 3]


# STREAM-5


def test_a_stream_with_a_filter_says_how_far_it_is(served: Served) -> None:
    last = submit(served, node(), *app_with_asks(10)[1])
    headers = {"accept": "text/event-stream"}
    reader = EventReader()
    with served.client.stream(
        "GET", f"{PATH}?after=0&kinds=rejected&until={last}", headers=headers
    ) as answer:
        found = [one for part in answer.iter_bytes() for one in reader.feed(part)]

    assert found == []
    assert reader.last_id == str(last)


def test_the_head_of_a_stream_ends_at_once(served: Served) -> None:
    answer = served.client.head(PATH, headers={"accept": "text/event-stream"})

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")


# STREAM-8


def test_streams_end_with_the_service(tmp_path: Path) -> None:
    found: list[str] = []
    joined = threading.Event()
    with Served(tmp_path, "--state", str(tmp_path / "state")) as served:
        last = submit(served, node(), *app_with_asks(3)[1])

        def follow() -> None:
            headers = {"accept": "text/event-stream"}
            with served.client.stream("GET", f"{PATH}?after=0", headers=headers) as answer:
                reader = EventReader()
                for part in answer.iter_bytes():
                    found.extend(one.last_id for one in reader.feed(part))
                    if found:
                        joined.set()

        thread = threading.Thread(target=follow)
        thread.start()
        assert joined.wait(PATIENCE_S)
        served.process.terminate()
        thread.join(PATIENCE_S)
        assert served.process.wait(PATIENCE_S) == 0

    assert found == [str(seq) for seq in range(1, last + 1)]
