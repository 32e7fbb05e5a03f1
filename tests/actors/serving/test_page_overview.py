"""The overview without a browser: figures, reasons, decisions, what was refused."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Final

import pytest

from tests.actors.serving.served import Served, until

EVENTS: Final[list[Mapping[str, object]]] = [
    {"op": "add_node", "node": "n 1", "capacity": {"vcore": 8}},
    {"op": "add_app", "app": "a b", "queue": "root.prod", "user": "olga"},
    {"op": "add_ask", "app": "a b", "ask": "x", "count": 3, "resources": {"vcore": 3}},
    {"op": "add_ask", "app": "a b", "ask": "huge", "resources": {"vcore": 99}},
    {"op": "remove_node", "node": "ghost"},
]

MANY: Final[list[Mapping[str, object]]] = [
    {"op": "add_app", "app": "many", "queue": "root.dev"},
    *(
        {
            "op": "add_ask",
            "app": "many",
            "ask": f"a{at}",
            "count": 200,
            "resources": {"vcore": 9 + at},
        }
        for at in range(400)
    ),
]
"""Asks of which nobody can count the reasons at once."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as served:
        yield served


def shown(served: Served, path: str = "/") -> str:
    """Return the text of a page, without its markup."""
    response = served.client.get(path)
    assert response.status_code == 200, response.text
    return text_of(response.text)


def text_of(page: str) -> str:
    """Return a page without its markup."""
    text = re.sub(r"<(script|style|title).*?</\1>", "", page, flags=re.DOTALL)
    text = re.sub(r"</?(?:bdi|wbr)>", "", text)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def links(served: Served) -> set[str]:
    """Return the addresses to which the overview leads."""
    return set(re.findall(r'href="([^"]+)"', served.client.get("/").text))


# PAGE-11
def test_figures_are_those_of_the_state(served: Served) -> None:
    assert "There are no nodes yet" in shown(served)
    served.client.post("/api/v1/events", json=EVENTS)
    text = shown(served)

    for told in (
        "75.0 % of vcore used 6 of 8 cores",
        "2 asks pending",
        "0 asks waiting",
        "2 asks running",
        "1 application in 3 queues",
        "1 node all schedulable",
    ):
        assert told in text, told


# PAGE-13, PAGE-14
def test_reasons_and_waits_are_counted(served: Served) -> None:
    assert "No ask was bound in the last hour" in shown(served)
    assert "There are no asks." in shown(served)
    served.client.post("/api/v1/events", json=EVENTS)
    text = shown(served)

    assert "NeverFits 1" in text
    assert "QueueMax 1" in text
    assert "2 asks bound. Half of them waited up to 1 s" in text
    assert {"/asks?reason=NeverFits", "/asks?reason=QueueMax"} <= links(served)


# PAGE-87
def test_reasons_that_do_not_add_up_are_counted_anew(served: Served) -> None:
    served.client.post("/api/v1/events", json=[*EVENTS, *MANY])
    page = served.client.get("/").text
    # Nobody can count so many at once.
    assert 'hx-get="/reasons"' in page
    assert "being counted" in text_of(page)

    def counted() -> bool:
        part = served.client.get("/reasons", headers={"HX-Request": "true"})
        assert part.status_code == 200
        return 'hx-get="/reasons"' not in part.text

    until(counted)
    text = shown(served, "/reasons")
    assert text.startswith("Reason Asks")
    assert "80,002 asks as of 20" in text
    assert "asks pending" not in text


# PAGE-15
def test_decisions_lead_to_what_they_are_about(served: Served) -> None:
    served.client.post("/api/v1/events", json=EVENTS)
    text = shown(served)

    assert re.search(r"bound a b/x-\d is bound to n 1", text)
    assert "application a b in root.prod is Starting" in text
    found = links(served)
    assert {"/apps/a%20b", "/queues/root.prod", "/nodes/n%201"} <= found
    assert any(one.startswith("/asks/a%20b/x-") for one in found)


# PAGE-15
def test_what_was_refused_outlasts_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Served(tmp_path, "--state", str(state)) as served:
        served.client.post("/api/v1/events", json=EVENTS)
        before = shown(served)
    with Served(tmp_path, "--state", str(state)) as served:
        after = shown(served)

    for told in ("remove_node node: 'ghost' is unknown", "2 asks bound.", "is bound to n 1"):
        assert told in before
        assert told in after
    assert f"Kept in {state}" in after


# PAGE-10
def test_problems_of_files_read_again_are_told(served: Served, tmp_path: Path) -> None:
    assert "The scheduler is ready" in shown(served)
    (tmp_path / "queues.yaml").write_text("partitions: 7\n", encoding="utf-8")
    served.process.send_signal(signal.SIGHUP)
    until(lambda: "configuration:" in shown(served))


# PAGE-12
def test_figures_over_time_end_now(served: Served) -> None:
    served.client.post("/api/v1/events", json=EVENTS)
    for period, step in (("1h", 60), ("6h", 60), ("24h", 240), ("7d", 3600), ("30d", 7200)):
        text = served.client.get(f"/?period={period}").text
        used, asks = (json.loads(unescape(one)) for one in re.findall(r'data-plot="([^"]+)"', text))
        assert (used["step"], used["unit"]) == (step, "cores")
        assert [row["values"][-1] for row in used["lines"] + used["areas"]] == [8, 6]
        assert [row["values"][-1] for row in asks["lines"]] == [2, 0, 2]
        assert 0 <= used["end"] - time.time() < step
        assert f'href="/?period={period}" aria-current="true"' in text


def test_a_period_that_there_is_not_is_refused(served: Served) -> None:
    response = served.client.get("/?period=2h")
    assert response.status_code == 400
    assert "must be one of 1h, 6h, 24h" in response.text


# PAGE-11, PAGE-14, PAGE-15, PAGE-16
def test_the_past_is_shown_as_it_was(tmp_path: Path) -> None:
    with Served(tmp_path, "--state", str(tmp_path / "state")) as served:
        served.client.post("/api/v1/events", json=EVENTS)
        at = served.client.get("/api/v1/nodes").json()["time"]
        more = [
            {"op": "remove_node", "node": "n 1"},
            {"op": "remove_node", "node": "other"},
            {"op": "add_app", "app": "later", "queue": "root.dev", "user": "olga"},
        ]
        served.client.post("/api/v1/events", json=more)
        present, past = shown(served), shown(served, f"/?at={at}")

    for told in ("4 asks pending", "0 asks running", "'other' is unknown", "application later"):
        assert told in present, told
        assert told not in past, told
    for told in (
        "75.0 % of vcore used",
        "2 asks pending",
        "2 asks running",
        "NeverFits 1",
        "QueueMax 1",
        "2 asks bound.",
        "is bound to n 1",
        "'ghost' is unknown",
    ):
        assert told in past, told
    assert "The scheduler is ready" not in past
