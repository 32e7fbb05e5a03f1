"""The reasons why asks are not running, and remedies, from a service.

LISTS-10, LISTS-11.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, cast

import pytest

from muster.explain import explain
from muster.explain._output import explanation_map, passed_map, reason_map, remedy_map
from muster.feeds import read_feed
from tests.actors.samples import LATER, reserved
from tests.actors.serving.served import PATIENCE_S, ServiceThread
from tests.actors.serving.truth import Truth, fill

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: web, resources: {max: {vcore: 4}}}
          - {name: jobs}
"""
FEEDS = Path(__file__).parents[2] / "feeds" / "reasons"


def ask(name: str, vcore: float, app: str = "shop", **more: object) -> dict[str, object]:
    return {"op": "add_ask", "app": app, "ask": name, "resources": {"vcore": vcore}, **more}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceThread]:
    config = tmp_path / "queues.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    with ServiceThread(config=config) as running:
        running.post(
            {"op": "add_node", "node": "n", "capacity": {"vcore": 16}},
            {"op": "add_app", "app": "shop", "queue": "root.web"},
            ask("web", 3),
            ask("more", 2, priority=3),
        )
        running.post({"op": "add_app", "app": "job", "queue": "root.jobs"})
        running.post(ask("big", 15, "job"), ask("later", 15, "job"))
        yield running


def why(
    service: ServiceThread, name: str, app: str = "shop", /, **parameters: object
) -> dict[str, Any]:
    found: dict[str, Any] = service.get(f"/api/v1/asks/{app}/{name}/why", **parameters)["item"]
    return found


def test_all_reasons_are_shown(service: ServiceThread) -> None:
    item = why(service, "web")

    assert item["reasons"][0]["code"] == "QueueMax"
    assert item["reasons"][0]["rules"] == ["ORDER-2", "ORDER-4"]
    assert item["reasons"][0]["facts"] == {"left": {"root.web vcore": 2000}}
    assert item["place"] == "pending"
    assert item["queue"] == "root.web"
    assert item["remedies"] is item["trials"] is item["exhausted"] is None
    later = why(service, "later", "job")
    assert later["first"] == "job/big"
    assert [level["at"] for level in later["levels"]] == ["root", "root.jobs", "job"]
    assert [key["name"] for key in later["levels"][-1]["keys"] if key["decides"]] == ["creation"]


# LISTS-13, OUTLOOK-1, OUTLOOK-2, OUTLOOK-3
def test_when_it_starts(service: ServiceThread) -> None:
    item = why(service, "web")

    assert item["position"] == 3
    assert item["fits_at"] is item["starts_at"] is item["stopped_at"] is item["foretold"] is None
    item = why(service, "web", forecast="true")
    assert (item["position"], item["fits_at"], item["starts_at"]) == (3, "unknown", None)
    assert item["foretold"] <= service.get("/api/v1/nodes")["batch"]

    service.post(
        {"op": "add_node", "node": "n2", "capacity": {"vcore": 1}},
        ask("a", 1, "job", run_for=600, estimate=900, node="n2"),
        ask("b", 1, "job", node="n2"),
    )
    found = service.get("/api/v1/asks/job/b/why", forecast="true")
    # The estimate counts, and not the timer.
    assert found["item"]["fits_at"] == found["item"]["starts_at"]
    assert 890 < found["item"]["starts_at"] - found["at"] < 900


def test_an_ask_that_runs_has_no_reason(service: ServiceThread) -> None:
    item = why(service, "more", remedies="true")

    assert item["place"] == "bound"
    assert item["node"] == "n"
    assert item["reasons"] == item["levels"] == []
    assert item["position"] is None
    assert item["first"] is item["since"] is item["remedies"] is None


def runs(service: ServiceThread, name: str, app: str = "new") -> tuple[object, ...]:
    item = why(service, name, app)
    return item["bound"], item["ends_at"], item["passed"]


# LISTS-10, OUTLOOK-8, OUTLOOK-9
def test_when_an_ask_that_runs_ends_and_whom_it_passed(tmp_path: Path) -> None:
    state, feed = tmp_path / "state", reserved(tmp_path)
    fill(state, feed)
    answer = explain(read_feed(feed), "new", "small", search=False)
    passed = [passed_map(one) for one in answer.whereabouts.passed]
    assert [one["ask"] for one in passed] == ["new/wide", "new/next"]
    brief = (10, 35, [{**one, "ends": 35} for one in passed])

    # It is found out when the batches are run again, and while the service runs.
    with ServiceThread(state) as service:
        assert runs(service, "small") == (10, 40, passed)
        service.post(ask("brief", 1, "new", node="n1", run_for=25))
        assert runs(service, "brief") == brief
        assert runs(service, "long", "old") == (0, 100, [])
        assert runs(service, "open", "old") == (0, None, [])
        assert runs(service, "wide") == (None, None, [])
    # From here on it is kept.
    with ServiceThread(state) as service:
        assert runs(service, "brief") == brief


# LISTS-13, OUTLOOK-10
def test_an_ask_that_will_be_held_back_when_it_would_fit(tmp_path: Path) -> None:
    feed = tmp_path / "later.yaml"
    feed.write_text(LATER)
    fill(tmp_path / "state", feed)
    answer = explain(read_feed(feed), "a", "later", search=False)
    assert answer.held_back_later is not None
    with ServiceThread(tmp_path / "state") as service:
        assert why(service, "later", "a")["held_back_later"] is None
        item = why(service, "later", "a", forecast="true")
        assert item["held_back_later"] == reason_map(answer.held_back_later)
        assert why(service, "wide", "a", forecast="true")["held_back_later"] is None
        page = service.client.get("/asks/a/later/starts").text
        assert re.search(
            r"<li>It will not start then: it fits on n1 and is held back: it would delay the "
            r"reservation of a/wide on n1, which starts at 20\d\d-[^.]{15,40}\. With a shorter",
            page,
        )


# OUTLOOK-9
def test_an_ask_that_takes_too_long_ends_in_the_future(service: ServiceThread) -> None:
    service.post(
        {"op": "add_node", "node": "n2", "capacity": {"vcore": 1}},
        ask("slow", 1, "job", estimate=0.05, node="n2"),
    )
    bound, ends = 0.0, 0.0
    until = monotonic() + PATIENCE_S
    # No batch follows, and time goes on.
    while ends <= bound + 0.1:
        assert monotonic() < until
        item = why(service, "slow", "job")
        bound, ends = item["bound"], item["ends_at"]
    assert round((ends - bound) / 0.05, 3) in {4, 8, 16, 32, 64}


def test_a_remedy_does_what_it_says(service: ServiceThread) -> None:
    found = why(service, "web", remedies="true")
    by_kind = {one["kind"]: one for one in found["remedies"]}

    assert found["trials"] > 0
    assert found["exhausted"] is False
    assert found["searched"] == service.get("/api/v1/nodes")["batch"]
    assert by_kind["max"]["smallest"] == {"root.web/vcore": 5000}
    assert all(one["op"] != "settle" for each in found["remedies"] for one in each["events"])
    # The very events do it.
    service.post(*by_kind["max"]["events"])
    assert why(service, "web")["place"] == "bound"


def test_remedies_are_those_of_the_command(tmp_path: Path) -> None:
    """What a service finds is what ``muster explain`` finds in the same feed."""
    compared = 0
    for feed in sorted(FEEDS.glob("*.yaml"))[::6]:
        keeper = fill(tmp_path / feed.stem, feed)
        truth = Truth.of(keeper.scheduler)
        waiting = [one for one in truth.asks() if one["reason"] is not None][:1]
        if not waiting:
            continue
        (one,) = waiting
        answer = explain(read_feed(feed), one["app"], one["ask"])
        wanted = [remedy_map(remedy) for remedy in answer.remedies]
        for remedy in wanted:
            # OUTLOOK-33
            events = as_list(remedy["events"]) if remedy["applicable"] else []
            remedy["events"] = [each for each in events if each["op"] != "settle"]
        with ServiceThread(tmp_path / feed.stem) as service:
            path = f"/api/v1/asks/{one['app']}/{one['ask']}/why"
            found = service.get(path, remedies="true")["item"]

            assert found["reasons"][0]["code"] == one["reason"]
            assert len(explanation_map(answer.explanation)["levels"]) == len(found["levels"])  # type: ignore[arg-type]
            assert found["remedies"] == wanted, feed.stem
            compared += len(wanted)
    assert compared > 5


def as_list(value: object) -> list[dict[str, Any]]:
    assert isinstance(value, list)
    return cast("list[dict[str, Any]]", value)


def test_other_requests_go_on_during_a_search(service: ServiceThread) -> None:
    service.post({"op": "add_app", "app": "many", "queue": "root.jobs"})
    service.post(ask("x", 1, "many", count=20_000))
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.append(why(service, "web", remedies="true")))
    thread.start()
    waits: list[float] = []
    first = monotonic()
    while thread.is_alive() and monotonic() < first + PATIENCE_S:
        began = monotonic()
        service.get("/healthz")
        waits.append(monotonic() - began)
    thread.join(PATIENCE_S)
    took_s = monotonic() - first

    # A copy of this state takes longer than that, and the search makes many.
    assert len(waits) > 10
    assert sorted(waits)[len(waits) // 2] < max(0.5, took_s / 10)
    # A slow machine may find nothing in the time that a search has.
    assert found[0]["remedies"] or found[0]["exhausted"]


def test_searches_come_one_after_the_other(service: ServiceThread) -> None:
    found: list[dict[str, Any]] = []
    threads = [
        threading.Thread(target=lambda: found.append(why(service, "web", remedies="true")))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert [one["remedies"] for one in found] == [found[0]["remedies"]] * 3
