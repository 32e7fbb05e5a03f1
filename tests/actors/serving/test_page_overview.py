"""The overview without a browser, and needs of asks and gangs that no node can meet."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Final

import pytest

from tests.actors.serving.served import Served, ServiceThread, until
from tests.actors.serving.test_page_asks import page_text

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


def text_at(served: Served, path: str = "/") -> str:
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
    assert "There are no nodes yet" in text_at(served)
    served.client.post("/api/v1/events", json=EVENTS)
    text = text_at(served)

    for words in (
        "75.0 % of vcore used 6 of 8 cores",
        "2 asks pending",
        "0 asks waiting",
        "2 asks running",
        "1 application in 3 queues",
        "1 node all schedulable",
    ):
        assert words in text, words


# PAGE-13, PAGE-14
def test_reasons_and_waits_are_counted(served: Served) -> None:
    assert "No ask was bound in the last hour" in text_at(served)
    assert "There are no asks." in text_at(served)
    served.client.post("/api/v1/events", json=EVENTS)
    text = text_at(served)

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
    text = text_at(served, "/reasons")
    assert text.startswith("Reason Asks")
    assert "80,002 asks as of 20" in text
    assert "asks pending" not in text


# PAGE-15
def test_decisions_lead_to_what_they_are_about(served: Served) -> None:
    served.client.post("/api/v1/events", json=EVENTS)
    text = text_at(served)

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
        before = text_at(served)
    with Served(tmp_path, "--state", str(state)) as served:
        after = text_at(served)

    for words in ("remove_node node: 'ghost' is unknown", "2 asks bound.", "is bound to n 1"):
        assert words in before
        assert words in after
    assert f"Kept in {state}" in after


# PAGE-10
def test_problems_of_files_read_again_are_shown(served: Served, tmp_path: Path) -> None:
    assert "The scheduler is ready" in text_at(served)
    (tmp_path / "queues.yaml").write_text("partitions: 7\n", encoding="utf-8")
    served.process.send_signal(signal.SIGHUP)
    until(lambda: "configuration:" in text_at(served))


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
        present, past = text_at(served), text_at(served, f"/?at={at}")

    for words in ("4 asks pending", "0 asks running", "'other' is unknown", "application later"):
        assert words in present, words
        assert words not in past, words
    for words in (
        "75.0 % of vcore used",
        "2 asks pending",
        "2 asks running",
        "NeverFits 1",
        "QueueMax 1",
        "2 asks bound.",
        "is bound to n 1",
        "'ghost' is unknown",
    ):
        assert words in past, words
    assert "The scheduler is ready" not in past


Event = dict[str, object]

#: Each gang has a resource type of its own, so that it takes nothing from the others.
KINDS: Final = ("whole", "half", "split", "big", "pair", "drained", "mixed", "absent")


def gang(
    name: str, count: int, amount: int, *, kind: str = "", groups: Sequence[str] = ()
) -> list[Event]:
    """Return the events that add a gang and as many equal members as it needs."""
    member: Event = {"op": "add_ask", "app": "a", "count": count, "ask": name, "gang": f"ns/{name}"}
    return [
        {"op": "add_gang", "gang": f"ns/{name}", "min_member": count, "groups": [*groups]},
        {**member, "resources": {kind or name: amount}},
    ]


def ask(name: str, resources: dict[str, object], **more: object) -> Event:
    return {"op": "add_ask", "app": "a", "ask": name, "resources": resources, **more}


def node(name: str) -> Event:
    capacity = {"vcore": 1, **dict.fromkeys(KINDS[:-1], 4)}
    return {"op": "add_node", "node": name, "capacity": capacity}


PAIR: Final = ("ns/pair", "ns/other")

SHORTAGE_EVENTS: Final[list[Event]] = [
    node("n1"),
    node("n2"),
    {"op": "add_node", "node": "n3", "capacity": {"drained": 4}, "schedulable": False},
    {"op": "update_node", "node": "n1", "attributes": {"zone": "a"}},
    {"op": "add_app", "app": "a", "queue": "root.x"},
    *gang("whole", 6, 2),
    *gang("half", 4, 2),
    *gang("split", 2, 6),
    *gang("big", 1, 5),
    *gang("pair", 2, 4, groups=PAIR),
    *gang("other", 2, 3, kind="pair", groups=PAIR),
    *gang("drained", 3, 3),
    *gang("absent", 2, 1),
    {"op": "add_gang", "gang": "ns/mixed", "min_member": 3, "total": 5},
    ask("small", {"mixed": 4}, count=2, gang="ns/mixed"),
    ask("large", {"mixed": 8}, count=3, gang="ns/mixed"),
    ask("too-large", {"vcore": 2}),
    ask("both", {"vcore": 2, "big": 8}),
    ask("picky", {"big": 5}, selector={"zone": "a"}),
    ask("closed", {"drained": 6}),
    ask("later", {"half": 4}),
]


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceThread]:
    with ServiceThread() as running:
        running.post(*SHORTAGE_EVENTS)
        yield running


# PAGE-49
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("whole", "The gang needs 12 whole in all; all nodes together have 8."),
        ("split", "The gang needs 12 split in all; all nodes together have 8."),
        (
            "big",
            "The gang needs room for 1 member; no schedulable node has room for one of them, even an empty node.",
        ),
        ("pair", "The group of the gang needs 14 pair in all; all nodes together have 8."),
        ("drained", "The gang needs 9 drained in all; all schedulable nodes together have 8."),
        ("absent", "The gang needs 2 absent in all; all nodes together have none."),
        # Three of its members need no less.
        ("mixed", "The gang needs at least 16 mixed in all; all nodes together have 8."),
    ],
)
def test_a_gang_that_needs_more_than_there_is_says_so_first(
    service: ServiceThread, name: str, reason: str
) -> None:
    assert f"Why it does not start {reason}" in page_text(service.client, f"/gangs/ns/{name}")


# PAGE-49
def test_a_gang_that_could_have_room_has_no_such_reason(service: ServiceThread) -> None:
    page = page_text(service.client, "/gangs/ns/half")

    assert "together have" not in page
    assert "No node has" not in page


# PAGE-42
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("too-large", "It asks for 2 vcore, and the most on any of 3 nodes is 1 vcore."),
        (
            "both",
            "It asks for 8 big and 2 vcore, and the most on any of 3 nodes is 4 big and 1 vcore.",
        ),
        ("picky", "It asks for 5 big, and the most on the only node with zone=a is 4 big."),
        ("closed", "It asks for 6 drained, and the most on any of 3 nodes is 4 drained."),
        ("whole-0", "The gang needs 12 whole in all; all nodes together have 8."),
    ],
)
def test_an_ask_that_no_node_could_hold_says_so_first(
    service: ServiceThread, name: str, reason: str
) -> None:
    assert f"Why it is not running {reason}" in page_text(service.client, f"/asks/a/{name}")


# PAGE-42
def test_an_ask_that_has_to_wait_for_room_has_no_such_reason(service: ServiceThread) -> None:
    page = page_text(service.client, "/asks/a/later")

    assert "Why it is not running" in page
    assert "No node has" not in page


# The `max` of queues

QUEUES: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: team
            resources: {max: {vcore: 10, memory: 8Gi}}
            queues:
              - {name: small, resources: {max: {vcore: 4}}}
              - {name: none, resources: {max: {gpu: 0}}}
              - {name: other}
"""

FULL: Final = ("ns/left", "ns/right")


def members(name: str, queue: str, amounts: dict[str, object], count: int) -> list[Event]:
    """Return the events that add an application with members of the gang of its name."""
    app = f"{name}-{queue}"
    return [
        {"op": "add_app", "app": app, "queue": f"root.team.{queue}"},
        ask("m", amounts, count=count, gang=f"ns/{name}") | {"app": app},
    ]


def define(name: str, least: int, **more: object) -> Event:
    return {"op": "add_gang", "gang": f"ns/{name}", "min_member": least, **more}


LIMITED: Final[list[Event]] = [
    {"op": "add_node", "node": "n1", "capacity": {"vcore": 64, "memory": "64Gi", "gpu": 8}},
    define("over", 3),
    *members("over", "small", {"vcore": 2}, 3),
    define("above", 6),
    *members("above", "other", {"vcore": 2, "memory": "2Gi"}, 6),
    define("none", 2),
    *members("none", "none", {"gpu": 1}, 2),
    define("mixed", 2, total=3),
    *members("mixed", "small", {"vcore": 3}, 2),
    ask("big", {"vcore": 4}, gang="ns/mixed") | {"app": "mixed-small"},
    # Two members run elsewhere, so that one in the small queue is enough.
    define("spread", 3),
    *members("spread", "small", {"vcore": 3}, 2),
    *members("spread", "other", {"vcore": 1}, 2),
    define("left", 2, groups=[*FULL]),
    *members("left", "other", {"vcore": 3}, 2),
    define("right", 2, groups=[*FULL]),
    *members("right", "other", {"vcore": 3}, 2),
    define("huge", 2),
    *members("huge", "small", {"vcore": 33}, 2),
]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceThread]:
    config = tmp_path_factory.mktemp("limited") / "queues.yaml"
    config.write_text(QUEUES, encoding="utf-8")
    with ServiceThread(config=config) as running:
        running.post(*LIMITED)
        yield running


# PAGE-49
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("over", "The gang needs 6 vcore in all; its queue root.team.small may have 4."),
        (
            "above",
            (
                "The gang needs 12Gi memory and 12 vcore in all; "
                "the queue root.team may have 8Gi memory and 10 vcore."
            ),
        ),
        ("none", "The gang needs 2 gpu in all; its queue root.team.none may have none."),
        (
            "mixed",
            "The gang needs at least 6 vcore in all; its queue root.team.small may have 4.",
        ),
        (
            "left",
            "The group of the gang needs 12 vcore in all; the queue root.team may have 10.",
        ),
        (
            "huge",
            (
                "The gang needs 66 vcore in all; all nodes together have 64. "
                "The gang needs 66 vcore in all; its queue root.team.small may have 4."
            ),
        ),
    ],
)
def test_a_gang_that_needs_more_than_its_queue_may_have_says_so_first(
    limited: ServiceThread, name: str, reason: str
) -> None:
    page = page_text(limited.client, f"/gangs/ns/{name}")

    assert f"Why it does not start {reason} Open this queue" in page
    assert 'href="/queues/root.team' in limited.client.get(f"/gangs/ns/{name}").text


# PAGE-49
def test_a_gang_whose_members_may_run_in_other_queues_has_no_such_reason(
    limited: ServiceThread,
) -> None:
    assert "may have" not in page_text(limited.client, "/gangs/ns/spread")


# PAGE-42
def test_a_member_says_what_keeps_its_gang_from_starting(limited: ServiceThread) -> None:
    page = page_text(limited.client, "/asks/over-small/m-0")

    assert (
        "Why it is not running The gang needs 6 vcore in all; "
        "its queue root.team.small may have 4. Open this queue"
    ) in page
