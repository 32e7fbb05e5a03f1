"""``?atomic=true``: all events of a request are let in, or none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from muster.store import StateReader
from tests.actors.serving.served import Served
from tests.actors.serving.test_dry_run import CONFIG, batch_of, event

PATH = "/api/v1/events"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served") / "state"


@pytest.fixture(scope="module")
def served(state: Path) -> Iterator[Served]:
    with Served(state.parent, "--state", str(state), config=CONFIG) as running:
        yield running


def app(name: str, queue: str = "root.dev") -> dict[str, object]:
    return {"op": "add_app", "app": name, "queue": queue}


def ask(name: str, ask: str = "k", **more: object) -> dict[str, object]:
    return {"op": "add_ask", "app": name, "ask": ask, "resources": {"vcore": 1}, **more}


def post(served: Served, *events: object, key: str | None = None, **more: str) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    parameters = {"atomic": "true", **more}
    return served.client.post(PATH, json=events, params=parameters, headers=headers)


def events_in(state: Path) -> int:
    with StateReader(state) as reader:
        return reader.event_count(0)


def apps(served: Served) -> list[str]:
    return [one["app"] for one in served.client.get("/api/v1/apps").json()["items"]]


def errors(response: httpx.Response) -> list[str | None]:
    results: list[dict[str, Any]] = response.json()["results"]
    assert [one["ok"] for one in results] == [False] * len(results)
    assert [one["asks"] for one in results] == [[]] * len(results)
    return [one["error"] for one in results]


def test_all_are_let_in(served: Served) -> None:
    # INPUT-30
    answer = post(served, app("whole"), ask("whole", count=2))

    assert answer.status_code == 200
    assert [one["ok"] for one in answer.json()] == [True, True]
    assert answer.json()[1]["asks"] == ["k-0", "k-1"]
    assert int(answer.headers["Muster-Batch"]) > 0


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (ask("a"), "ask: 'k' is already an ask of application 'a'"),
        (ask("nobody"), "app: 'nobody' is unknown"),
        ({"op": "nonsense"}, "op: 'nonsense' is no operation"),
        ({"op": "remove_gang", "gang": "g"}, "gang: 'default/g' is no gang that is defined"),
    ],
    ids=["by the application", "by the registry", "by itself", "by gangs"],
)
def test_one_that_is_refused_keeps_all_others_out(
    served: Served, state: Path, last: dict[str, object], error: str
) -> None:
    # INPUT-30, INPUT-31
    before, events = batch_of(served), events_in(state)

    answer = post(served, app("a"), ask("a"), last)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "1 of 3 events would be refused, so none was let in"
    refusals = errors(answer)
    assert refusals[:2] == [None, None]
    assert (refusals[2] or "").startswith(error), refusals
    assert "Muster-Batch" not in answer.headers
    assert "a" not in apps(served)
    assert batch_of(served) == before
    assert events_in(state) == events
    assert post(served, app("a"), ask("a")).status_code == 200
    assert post(served, {"op": "remove_app", "app": "a"}).status_code == 200


def test_it_says_all_that_is_wrong(served: Served) -> None:
    # INPUT-31
    answer = post(served, {"op": "settle"}, app("a", "root.nowhere"), app("b"))

    first, second, third = errors(answer)
    assert (first or "").startswith("op: settle and expect")
    assert (second or "").startswith("queue: 'root.nowhere'")
    assert third is None


@pytest.mark.parametrize("seed", range(3))
def test_it_is_refused_if_and_only_if_one_of_them_would_be(
    served: Served, state: Path, seed: int
) -> None:
    # INPUT-30, INPUT-32
    chance, let_in, before = random.Random(seed), 0, events_in(state)
    for _ in range(60):
        events = [event(chance) for _ in range(chance.randint(1, 3))]
        tried = served.client.post(PATH, json=events, params={"dry_run": "true"}).json()
        wanted = [one["error"] for one in tried["results"]]

        both = post(served, *events, dry_run="true")
        answer = post(served, *events)

        assert both.status_code == 200
        if any(wanted):
            assert (answer.status_code, errors(answer)) == (422, wanted), events
            assert both.json() == {"results": answer.json()["results"], "decisions": []}
        else:
            assert (answer.status_code, answer.json()) == (200, tried["results"]), events
            assert both.json()["results"] == answer.json()
            let_in += len(events)
    assert let_in > 5
    assert events_in(state) == before + let_in


def test_of_requests_that_exclude_each_other_one_is_let_in(served: Served) -> None:
    # INPUT-30
    def send(number: int) -> list[int]:
        # All want the shared names; each has some of its own before and behind.
        return [
            post(served, app(f"r{turn}-{number}"), app(f"r{turn}"), ask(f"r{turn}")).status_code
            for turn in range(20)
        ]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(send, range(8)))

    assert [sorted(codes) for codes in zip(*found, strict=True)] == [[200, *[422] * 7]] * 20
    names = apps(served)
    for number, codes in enumerate(found):
        for turn, code in enumerate(codes):
            assert (f"r{turn}-{number}" in names) == (code == 200)


def test_a_repeat_gets_the_same_answer(served: Served) -> None:
    # INPUT-33
    first = post(served, app("good"), ask("good"), key="good")
    again = post(served, app("good"), ask("good"), key="good")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == first.json()

    bad = post(served, app("bad"), ask("no"), key="bad")
    again = post(served, app("bad"), ask("no"), key="bad")
    assert (bad.status_code, again.status_code) == (422, 422)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == bad.json()

    other = served.client.post(
        PATH, json=[app("bad"), ask("no")], headers={"Idempotency-Key": "bad"}
    )
    assert other.status_code == 422
    assert "it was used for a request with other content" in other.json()["detail"]
