"""Queues on the page, without a browser: the tree, folds, searches, and a queue of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster_core.config.properties import PROPERTIES
from tests.actors.serving.served import Served

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: prod
            resources: {guaranteed: {vcore: 4}, max: {vcore: 8, memory: 16Gi}}
            properties: {application.sort.policy: fair}
            limits: [{users: ["*"], maxresources: {vcore: 5}, maxapplications: 2}]
            queues:
              - {name: web, resources: {guaranteed: {vcore: 2}}, properties: {priority.offset: "7"}}
              - {name: jobs, resources: {max: {vcore: 3}}, properties: {priority.policy: fence}}
          - {name: dev, maxapplications: 1}
"""

EVENTS: Final = [
    {"op": "add_node", "node": "n1", "capacity": {"vcore": 16, "memory": "32Gi"}},
    {"op": "add_app", "app": "shop", "queue": "root.prod.web", "user": "ada"},
    {"op": "add_app", "app": "etl", "queue": "root.prod.jobs", "user": "bob"},
    {"op": "add_ask", "app": "shop", "ask": "a", "resources": {"vcore": 2}, "priority": 5},
    {"op": "add_ask", "app": "etl", "ask": "b", "count": 5, "resources": {"vcore": 1}},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), config=CONFIG) as served:
        served.client.post("/api/v1/events", json=EVENTS)
        yield served


def text_of(served: Served, path: str) -> str:
    """Return the text of a page as on a wide screen, with a line for each row of its tables."""
    response = served.client.get(path, headers={"HX-Request": "true"})
    assert response.status_code == 200, response.text
    rows = re.sub(r"(?=<tr>|<tr )|(?<=</tr>)", "\n", " ".join(response.text.split()))
    rows = re.sub(r'</?(?:bdi|wbr)>|<span class="narrow".*?</span>', "", rows)
    plain = re.sub(r"<[^>]+>", " ", rows)
    return "\n".join(" ".join(unescape(line).split()) for line in plain.splitlines())


def row_of(served: Served, path: str, begin: str) -> str:
    found = [line for line in text_of(served, path).splitlines() if line.startswith(begin)]
    assert len(found) == 1, found
    return found[0]


# PAGE-20
def test_the_tree_says_what_is_known_of_each_queue(served: Served) -> None:
    assert row_of(served, "/queues", "prod ") == (
        "prod vcore 5 of 8 cores, guaranteed 4 memory 0 of 16 GiB 2 asks 2 cores 0 \N{EN DASH}"
    )
    assert "no max, guaranteed 2" in row_of(served, "/queues", "web ")
    assert "offset +7" in row_of(served, "/queues", "web ")
    jobs = row_of(served, "/queues", "jobs ")
    assert jobs.endswith("0 fence fair overused hits max of vcore")


# PAGE-20
def test_one_type_can_be_chosen(served: Served) -> None:
    row = row_of(served, "/queues?type=memory", "prod ")
    assert "memory 0 of 16 GiB" in row
    assert "guaranteed 4" not in row


# PAGE-20
def test_a_bar_is_as_long_as_the_nearest_max(served: Served) -> None:
    page = served.client.get("/queues").text
    web, jobs = (
        page[page.index(f'title="root.prod.{name}"') :].split("</tr>")[0]
        for name in ("web", "jobs")
    )
    # 2 of the 8 cores of the queue above it, 3 of the 3 of its own.
    assert re.findall(r'class="used" width="([^"]+)"', web)[0] == "25.0"
    assert re.findall(r'class="mark" x="([^"]+)"', web)[0] == "25.0"
    assert re.findall(r'class="used" width="([^"]+)"', jobs)[0] == "100.0"


# PAGE-21
def test_a_cookie_keeps_what_is_folded(served: Served) -> None:
    page = served.client.get("/queues").text
    found = re.search(r'data-fold="([^"]+)" aria-expanded="true" aria-label="[^"]+root.prod"', page)
    assert found is not None
    for cookie, is_folded in ((f"~{found[1]}", True), (f"{found[1]}~", False), ("~~broken", False)):
        headers = {"Cookie": f"muster-queues={cookie}"}
        shown = served.client.get("/queues", headers=headers).text
        assert ('title="root.prod.web"' not in shown) is is_folded


# PAGE-21
def test_many_queues_are_folded_at_first(tmp_path: Path) -> None:
    queues = "".join(
        f"          - {{name: q{at}, queues: [{{name: a}}, {{name: b}}, {{name: c}}]}}\n"
        for at in range(70)
    )
    config = CONFIG.split("          - name: prod")[0] + queues
    with Served(tmp_path, config=config) as served:
        assert row_of(served, "/queues", "q69 ")
        assert "root.q69.a" not in served.client.get("/queues").text
        shown = text_of(served, "/queues?name=ROOT")
        assert "81 more queues would stand here" in shown


# PAGE-22
def test_queues_are_found(served: Served) -> None:
    shown = text_of(served, "/queues?name=WEB")
    assert re.findall(r"^(\w+) vcore", shown, re.MULTILINE) == ["root", "prod", "web"]
    assert "1 queue of 5" in shown
    busy = text_of(served, "/queues?busy=1")
    assert re.findall(r"^(\w+) vcore", busy, re.MULTILINE) == ["root", "prod", "jobs"]
    assert "No queue with nothing in its path" in text_of(served, "/queues?name=nothing")


# PAGE-23
def test_a_queue_opens(served: Served) -> None:
    shown = text_of(served, "/queues/root.prod.jobs")
    assert "root.prod.jobs vcore: 0 cores no limit" in shown
    assert "root.prod memory: 16 GiB , vcore: 3 cores no limit" in shown
    assert "On the whole way memory: 16 GiB , vcore: 0 cores" in shown
    assert re.search(r"^etl bob Running 2 3 3 cores", shown, re.MULTILINE)
    page = served.client.get("/queues/root.prod.jobs").text
    for link in ("/asks?queue=root.prod.jobs", "/gangs?queue=root.prod.jobs", "/config"):
        assert f'href="{link}"' in page


# PAGE-23
def test_a_parent_shows_its_children_and_its_limits(served: Served) -> None:
    shown = text_of(served, "/queues/prod")
    assert "2 queues directly below it" in shown
    assert "each other user vcore: 5 2" in shown
    assert "user bob 3 cores 1 of 2" in shown


# PAGE-23
def test_its_applications_come_in_pages(tmp_path: Path) -> None:
    apps = [{"op": "add_app", "app": f"app-{at}", "queue": "root.dev"} for at in range(60)]
    with Served(tmp_path) as served:
        served.client.post("/api/v1/events", json=apps)
        first = served.client.get("/queues/root.dev").text
        found = re.search(r'href="(/queues/root.dev\?after=[^"#]+)', first)
        assert found is not None
        second = served.client.get(unescape(found[1])).text
    assert (">app-49<" in first, ">app-50<" in first) == (True, False)
    assert (">app-49<" in second, ">app-59<" in second) == (False, True)


# PAGE-24
def test_all_settings_stand_there_with_their_origin(served: Served) -> None:
    path = "/queues/root.prod.web"
    assert row_of(served, path, "application.sort.policy ").startswith(
        "application.sort.policy fair root.prod applications with the smallest"
    )
    assert row_of(served, path, "priority.offset ").startswith("priority.offset 7 own ")
    assert row_of(served, path, "preemption.delay ").startswith("preemption.delay 30s default ")
    assert row_of(served, path, "resources.guaranteed ").startswith(
        "resources.guaranteed vcore: 2 own "
    )


ORDERED: Final = """
partitions:
  - name: default
    queues:
      - name: root
        properties: {gang.wait.time: 90s, priority.offset: "5"}
        queues:
          - name: lab
            properties: {scheduling.order: Backfill, backfill.depth: "7", preemption.policy: fence}
            queues:
              - name: gpu
                properties:
                  scheduling.order: strict
                  estimate.default: 1h30m
                  gang.wait.time: 5s
                  queue.colour: red
"""


# PAGE-24
def test_every_property_stands_on_the_page_of_every_queue(tmp_path: Path) -> None:
    with Served(tmp_path, config=ORDERED) as served:
        for queue in ("root", "root.lab", "root.lab.gpu"):
            lines = text_of(served, f"/queues/{queue}").splitlines()
            shown = [line.partition(" ")[0] for line in lines]
            assert [name for name in PROPERTIES if shown.count(name) != 1] == []


# PAGE-24
@pytest.mark.parametrize(
    ("queue", "row"),
    [
        ("root", "gang.wait.time 1m30s own how long"),
        ("root", "scheduling.order greedy default an ask that fits starts"),
        ("root", "priority.offset 0 default .*; 5, which stands here, has no effect"),
        ("root", "estimate.default unknown default how long"),
        ("root.lab", "scheduling.order backfill own an ask may overtake"),
        ("root.lab", "backfill.depth 7 own how many"),
        (
            "root.lab.gpu",
            "scheduling.order backfill root.lab .*; strict, which stands here, has no",
        ),
        ("root.lab.gpu", "backfill.depth 7 root.lab how many"),
        ("root.lab.gpu", "estimate.default 1h30m own how long"),
        ("root.lab.gpu", "gang.wait.time 1m30s root .*; 5s, which stands here, has no effect"),
        ("root.lab.gpu", "preemption.policy default default its asks"),
        ("root.lab.gpu", "queue.colour red own Muster does not know it"),
    ],
)
def test_a_property_says_what_counts_and_where_it_is_from(
    tmp_path: Path, queue: str, row: str
) -> None:
    with Served(tmp_path, config=ORDERED) as served:
        assert re.match(row, row_of(served, f"/queues/{queue}", row.split(maxsplit=1)[0] + " "))


def test_an_unknown_queue_is_named(served: Served) -> None:
    response = served.client.get("/queues/root.prod.wep")
    assert response.status_code == 404
    assert "did you mean" in response.text
    assert served.client.get("/queues/root.dev?after=x").status_code == 400


# QUOTA-3, PAGE-20, LISTS-5
def test_a_queue_that_is_over_its_max_says_since_when(tmp_path: Path) -> None:
    config = """
partitions:
  - name: default
    preemption: {quotapreemptionenabled: true}
    queues:
      - {name: a, resources: {max: {vcore: %s}}, properties: {quota.preemption.delay: 1h}}
"""
    with Served(tmp_path, config=config % 4) as served:
        events = [
            EVENTS[0],
            {"op": "add_app", "app": "x", "queue": "root.a"},
            {"op": "add_ask", "app": "x", "ask": "k", "count": 4, "resources": {"vcore": 1}},
        ]
        served.client.post("/api/v1/events", json=events)
        assert _queue(served)["over_since"] is None
        change = {"op": "configure", "config": yaml.safe_load(config % 3)}
        served.client.post("/api/v1/events", json=[change])
        found = _queue(served)
        assert 0 <= found["over_since"] < 60
        assert row_of(served, "/queues", "a ").endswith("over its max")


def _queue(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = served.client.get("/api/v1/queues/root.a").json()["item"]
    return found
