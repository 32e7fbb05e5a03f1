"""What asks and gangs need and no nodes have, in a sentence on their page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from tests.actors.serving.here import Here
from tests.actors.serving.test_page_asks import found

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

EVENTS: Final[list[Event]] = [
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
def here() -> Iterator[Here]:
    with Here() as running:
        running.post(*EVENTS)
        yield running


# PAGE-49
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("whole", "The gang needs 12 whole in all; all nodes together have 8."),
        ("split", "The gang needs 12 split in all; all nodes together have 8."),
        ("big", "No node has more than 4 big; a member asks for 5."),
        ("pair", "The group of the gang needs 14 pair in all; all nodes together have 8."),
        ("drained", "The gang needs 9 drained in all; all schedulable nodes together have 8."),
        ("absent", "The gang needs 2 absent in all; all nodes together have none."),
        # Three of its members need no less.
        ("mixed", "The gang needs at least 16 mixed in all; all nodes together have 8."),
    ],
)
def test_a_gang_that_needs_more_than_there_is_says_so_first(
    here: Here, name: str, told: str
) -> None:
    assert f"Why it does not start {told}" in found(here.client, f"/gangs/ns/{name}")


# PAGE-49
def test_a_gang_that_could_have_room_is_not_told_so(here: Here) -> None:
    page = found(here.client, "/gangs/ns/half")

    assert "together have" not in page
    assert "No node has" not in page


# PAGE-42
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("too-large", "No node has more than 1 core; it asks for 2 cores."),
        ("both", "No node has more than 4 big or more than 1 core; it asks for 8 big and 2 cores."),
        ("picky", "No node that it may use has more than 4 big; it asks for 5."),
        ("closed", "No node has more than 4 drained; it asks for 6."),
        ("whole-0", "The gang needs 12 whole in all; all nodes together have 8."),
    ],
)
def test_an_ask_that_no_node_could_hold_says_so_first(here: Here, name: str, told: str) -> None:
    assert f"Why it is not running {told}" in found(here.client, f"/asks/a/{name}")


# PAGE-42
def test_an_ask_that_has_to_wait_for_room_is_not_told_so(here: Here) -> None:
    page = found(here.client, "/asks/a/later")

    assert "Why it is not running" in page
    assert "No node has" not in page
