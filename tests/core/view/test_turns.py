"""Who is tried before an ask, by which keys, and the place of an ask if all that are pending were
taken in order.
"""

from __future__ import annotations

import pytest

from muster_core.events import FailBind, RemoveAsk
from muster_core.reasons import Code, Level
from muster_core.structures.steps import all_at_once
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import Queue, configuration, queue, wish
from tests.core.tree import BLOCKING, Tree, codes, explain, facts, message_of, props

UNSORTED = props(application_sort_priority="disabled")


def tree(*queues: Queue, vcore: int = 10, **apps: str) -> Tree:
    """Give a tree of one node, on which something has everything that is left."""
    made = Tree(configuration(*queues))
    made.add_nodes("n", vcore=vcore)
    for name, path in apps.items():
        made.add_app(name, f"root.{path}")
    return made


def fill(made: Tree, path: str, vcore: int = 10) -> None:
    """Let an application take the node."""
    made.add_app("full", f"root.{path}")
    made.settle(wish("full", "all", vcore=vcore))


def keys(level: Level) -> list[tuple[str, str, str, bool]]:
    return [(key.name, key.own, key.other, key.decides) for key in level.keys]


def test_the_first_of_all_has_nobody_before_it() -> None:
    made = tree(queue("a"), p="a")
    fill(made, "a")
    made.settle(wish("p"), wish("p", "y"))

    assert explain(made).first == "p/x"
    assert explain(made).levels == ()
    assert codes(made) == [Code.NO_NODE_FITS]
    assert codes(made, "p/y") == [Code.NO_NODE_FITS, Code.NOT_YOUR_TURN]


# Queues


def test_every_level_down_to_where_the_ways_part() -> None:
    low = queue("low")
    high = queue("high", properties=props(priority_offset="7"))
    made = tree(queue("c"), queue("q", low, high), p="q.low", r="q.high", vcore=20)
    fill(made, "c", vcore=20)
    made.settle(wish("p", priority=3, vcore=5), wish("r", priority=1, vcore=5))

    explanation = explain(made)
    assert explanation.first == "r/x"
    root, q = explanation.levels
    assert (root.at, root.own, root.other) == ("root", "root.q", "root.q")
    assert keys(root) == [
        ("queue.priority", "0", "0", False),
        ("currentPriority", "8", "8", False),
        ("share", "0", "0", False),
        ("pending", "0.5", "0.5", False),
        ("path", "root.q", "root.q", False),
    ]
    assert (q.at, q.own, q.other) == ("root.q", "root.q.low", "root.q.high")
    assert keys(q) == [
        ("queue.priority", "0", "0", False),
        ("currentPriority", "3", "8", True),
        ("share", "0", "0", False),
        ("pending", "0.25", "0.25", False),
        ("path", "root.q.low", "root.q.high", False),
    ]
    assert message_of(made, Code.NOT_YOUR_TURN) == (
        "r/x is tried before it: root.q.high in root.q, as its currentPriority 8 is higher than 3"
    )
    assert facts(made, Code.NOT_YOUR_TURN) == {
        "first": "r/x",
        "at": "root.q",
        "key": "currentPriority",
        "own": "3",
        "other": "8",
    }


@pytest.mark.parametrize(
    ("own", "other", "said_so"),
    [
        ({}, {"queue_priority": "2"}, "its queue.priority 2 is higher than 0"),
        ({}, {"priority_offset": "2"}, "its currentPriority 2 is higher than 0"),
        (
            {"priority_policy": "fence", "priority_offset": "-1"},
            {},
            "its currentPriority 0 is higher than -1",
        ),
    ],
)
def test_queues_by_their_priorities(
    own: dict[str, str], other: dict[str, str], said_so: str
) -> None:
    queues = queue("a", properties=props(**own)), queue("b", properties=props(**other))
    made = tree(*queues, queue("c"), p="a", r="b")
    fill(made, "c")
    made.settle(wish("p"), wish("r"))

    assert (
        message_of(made, Code.NOT_YOUR_TURN)
        == f"r/x is tried before it: root.b in root, as {said_so}"
    )


def test_queues_by_their_fair_shares() -> None:
    made = tree(queue("a"), queue("b"), p="a", r="b", vcore=3000)
    made.settle(wish("p", "y", vcore=1001), wish("r", "y", vcore=1000))
    made.settle(wish("p", vcore=1000), wish("r", vcore=1000))

    (level,) = explain(made).levels
    assert [key for key in keys(level) if key[3]] == [("share", "0.334", "0.333", True)]
    assert message_of(made, Code.NOT_YOUR_TURN).endswith(
        "as its fair share 0.333 is less than 0.334"
    )


def test_different_shares_are_written_differently() -> None:
    made = tree(queue("a"), queue("b"), p="a", r="b", vcore=10**9)
    made.settle(wish("p", "y", vcore=300_000_001), wish("r", "y", vcore=300_000_000))
    made.settle(wish("p", vcore=5 * 10**8), wish("r", vcore=5 * 10**8))

    (level,) = explain(made).levels
    assert keys(level)[2] == ("share", "0.300000001", "0.3", True)


def test_queues_by_what_is_pending_and_by_their_paths() -> None:
    made = tree(queue("a"), queue("b"), queue("c"), queue("d"), p="a", r="b", s="c")
    fill(made, "d")
    made.settle(wish("p", vcore=2), wish("r", vcore=3), wish("s", vcore=3))

    assert message_of(made, Code.NOT_YOUR_TURN) == (
        "r/x is tried before it: root.b in root, as its pending share 0.3 is larger than 0.2"
    )
    assert message_of(made, Code.NOT_YOUR_TURN, "s/x").endswith(
        "as its path root.b comes before root.c"
    )


def test_a_parent_that_does_not_sort_by_priority() -> None:
    parent = queue("q", queue("a"), queue("b"), properties=UNSORTED)
    made = tree(parent, queue("c"), p="q.a", r="q.b")
    fill(made, "c")
    made.settle(wish("p", priority=9), wish("r", vcore=2))

    level = explain(made).levels[1]
    assert [key.name for key in level.keys] == ["share", "pending", "path"]
    assert facts(made, Code.NOT_YOUR_TURN)["key"] == "pending"


# Applications


def test_applications_by_priority_and_creation() -> None:
    made = tree(queue("a"), p="a", r="a", s="a")
    fill(made, "a")
    made.settle(wish("p"), wish("r", priority=1), wish("s", priority=1))

    assert message_of(made, Code.NOT_YOUR_TURN) == (
        "r/x is tried before it: r in root.a, as its priority 1 is higher than 0"
    )
    root, leaf = explain(made, "s/x").levels
    assert (root.at, root.own) == ("root", "root.a")
    assert (leaf.at, leaf.own, leaf.other) == ("root.a", "s", "r")
    assert keys(leaf) == [("priority", "1", "1", False), ("creation", "4", "3", True)]


def test_applications_by_their_usage() -> None:
    fair = queue("a", properties=props(application_sort_policy="fair"))
    made = tree(fair, p="a", r="a", s="a")
    made.settle(wish("p", "y", vcore=6), wish("r", "y", vcore=4))
    made.settle(wish("p"), wish("r"))

    assert message_of(made, Code.NOT_YOUR_TURN) == (
        "r/x is tried before it: r in root.a, as its usage 0.4 is less than 0.6"
    )
    made.settle(wish("s"))
    assert message_of(made, Code.NOT_YOUR_TURN, "r/x").endswith("as its usage 0 is less than 0.4")


def test_applications_of_a_leaf_that_does_not_sort_by_priority() -> None:
    made = tree(queue("a", properties=UNSORTED), p="a", r="a")
    fill(made, "a")
    made.settle(wish("p"), wish("r", priority=9))

    assert explain(made, "r/x").first == "p/x"
    assert [key.name for key in explain(made, "r/x").levels[-1].keys] == ["creation"]


# Asks


def test_asks_by_priority_submission_and_number() -> None:
    made = tree(queue("a"), p="a")
    fill(made, "a")
    made.settle(wish("p", "y", 1, count=2), wish("p", "z", 1), wish("p"))

    assert message_of(made, Code.NOT_YOUR_TURN) == (
        "p/y-0 is tried before it: y-0 in p, as its priority 1 is higher than 0"
    )
    assert message_of(made, Code.NOT_YOUR_TURN, "p/y-1").endswith("as its number 0 is before 1")
    assert message_of(made, Code.NOT_YOUR_TURN, "p/z").endswith(
        "as it was created first, 5 before 6"
    )
    level = explain(made, "p/z").levels[-1]
    assert (level.at, level.own, level.other) == ("p", "z", "y-0")
    assert [key.name for key in level.keys] == [
        "priority",
        "creation",
        "gang",
        "submission",
        "number",
    ]


def test_members_by_the_creation_of_their_gang() -> None:
    made = tree(queue("a"), p="a")
    fill(made, "a")
    made.settle(members("g", "x"), wish("p", "y"), gang("g", 1))

    assert explain(made).first == "p/y"
    assert message_of(made, Code.NOT_YOUR_TURN) == (
        "p/y is tried before it: y in p, as it was created first, 6 before 7"
    )


# Who has a turn


def test_who_does_not_compete_is_before_nobody() -> None:
    made = tree(queue("a", maxapplications="1"), p="a", r="a")
    fill(made, "a", vcore=9)
    made.settle(wish("p", priority=5, vcore=2), wish("full", vcore=2))

    assert codes(made) == [Code.QUEUE_MAX_APPS, Code.NO_NODE_FITS]
    assert explain(made).first == "full/x"
    assert explain(made).levels == ()


def test_a_queue_that_does_not_enter_has_no_turn() -> None:
    small = queue("a", resources={"max": {"vcore": "2m"}}, properties=props(queue_priority="9"))
    made = tree(small, queue("b"), p="a", r="b")
    made.settle(wish("p", "y", vcore=2))
    made.settle(wish("p"), wish("r", vcore=9), wish("r", "y"))

    assert codes(made) == [Code.QUEUE_MAX]
    assert explain(made).first == "r/x"
    # One that fits by itself lets the queue enter, and all in it have their turn.
    made.settle(wish("p", "z", gpu=1))
    assert codes(made, "p/z") == [Code.NEVER_FITS, Code.NO_NODE_FITS, Code.NOT_YOUR_TURN]
    assert explain(made, "p/z").first == explain(made, "r/x").first == "p/x"


def test_the_first_of_a_blocking_leaf_stands_for_it() -> None:
    made = tree(queue("a", properties=BLOCKING), queue("b"), p="a", r="b")
    fill(made, "b")
    made.settle(wish("p", "y", 1), wish("p"), wish("r"))

    assert explain(made, "r/x").first == "p/y"
    assert codes(made) == [Code.BLOCKED, Code.NO_NODE_FITS, Code.NOT_YOUR_TURN]


def test_a_refused_member_blocks_nobody() -> None:
    made = tree(queue("a", properties=BLOCKING), p="a")
    fill(made, "a")
    made.settle(gang("g", 2), members("g", "m", priority=5), wish("p"))

    assert codes(made, "p/m") == [Code.GANG_TOO_FEW_MEMBERS, Code.BLOCKED, Code.NO_NODE_FITS]
    assert message_of(made, Code.BLOCKED, "p/m").startswith(
        "root.a keeps strict order, and p/x is before it"
    )
    assert codes(made) == [Code.NO_NODE_FITS]


def test_nothing_is_first_if_nothing_has_a_turn() -> None:
    made = tree(queue("a"), p="a")
    made.settle(gang("g", 2), members("g", "x"))

    assert explain(made).first is None


# All that is pending


def test_everything_that_is_not_bound_is_listed_in_order() -> None:
    made = tree(queue("a"), queue("b"), vcore=2, p="b", r="a")
    made.settle(wish("r", "w", -2, count=2, vcore=9), wish("p", "y", 1, vcore=9))
    made.settle(gang("g", 3, mode=LOOSE, wait_us=5), members("g", "m", 3, app="r"))
    made.settle(wish("r", "v", 3, vcore=9), wish("r", "u", vcore=9))

    assert [place(made, *name) for name in made.machine.pending()] == [
        "p/y pending",
        "r/v pending",
        "r/m-0 waiting",
        "r/m-1 waiting",
        "r/m-2 pending",
        "r/u pending",
        "r/w-0 pending",
        "r/w-1 pending",
    ]
    made.settle(RemoveAsk("r", "v"))
    made.pass_time(6)
    assert [place(made, *name) for name in made.machine.pending()][1:4] == [
        "r/m-0 parked",
        "r/m-1 parked",
        "r/m-2 parked",
    ]


def place(made: Tree, app: str, ask: str) -> str:
    return f"{app}/{ask} {explain(made, f'{app}/{ask}').place}"


def plain_tree(*queues: Queue, vcore: int = 10, **apps: str) -> Tree:
    """Give a tree of one node, and applications in queues."""
    made = Tree(configuration(*queues))
    made.add_nodes("n", vcore=vcore)
    for name, path in apps.items():
        made.add_app(name, f"root.{path}")
    return made


def position(here: Tree, ask: str) -> int | None:
    app, _, name = ask.partition("/")
    found = all_at_once(here.machine.outlook(app, name))
    return None if found is None else found.position


def in_order(here: Tree) -> list[str]:
    """Give all pending asks by their positions, each of which is there once."""
    placed = {position(here, f"{app}/{ask}"): f"{app}/{ask}" for app, ask in here.machine.pending()}
    assert sorted(filter(None, placed)) == list(range(1, len(placed) + 1))
    return [placed[number] for number in range(1, len(placed) + 1)]


# OUTLOOK-1
def test_queues_then_applications_then_asks_are_in_order() -> None:
    low, high = queue("low"), queue("high", properties=props(priority_offset="7"))
    made = plain_tree(queue("q", low, high), queue("z"), p="q.low", r="q.high", s="q.high", t="z")
    for app, priority in (("p", 5), ("r", 1), ("s", 2), ("t", 9)):
        made.enter(wish(app, "x", priority, vcore=20), wish(app, "y", 1, vcore=20))
    made.settle()

    assert in_order(made) == ["s/x", "s/y", "r/x", "r/y", "p/x", "p/y", "t/x", "t/y"]


# OUTLOOK-1
def test_nothing_is_skipped_that_has_no_turn_now() -> None:
    over = queue("over", resources={"max": {"vcore": 1}}, properties=BLOCKING)
    few = queue("few", maxapplications=1)
    aware = queue("turns", properties=props(application_sort_policy="stateaware"))
    made = plain_tree(
        *(over, few, aware), vcore=9, a="over", b="few", c="few", d="turns", e="turns"
    )
    made.enter(*(wish(app, "x", vcore=20000) for app in "abcde"))
    made.enter(wish("a", "late", vcore=1))
    made.settle()

    assert in_order(made) == ["b/x", "c/x", "d/x", "e/x", "a/x", "a/late"]


# OUTLOOK-1
def test_a_member_is_as_old_as_its_gang_and_one_that_timed_out_has_no_place() -> None:
    made = plain_tree(queue("q"), vcore=1, p="q")
    made.enter(gang("g", 2, mode=LOOSE, wait_us=1_000_000))
    made.enter(wish("p", "old", vcore=20), members("g", "m", 2))
    made.settle()
    assert position(made, "p/old") == 2
    made.pass_time(2_000_000)
    made.settle()

    assert position(made, "p/m-1") is None
    assert position(made, "p/old") == 1


# OUTLOOK-1
def test_one_that_is_bound_or_unknown_has_no_place() -> None:
    made = plain_tree(queue("q"), p="q")
    made.settle(wish("p", "held", vcore=1))

    assert position(made, "p/held") is None
    assert position(made, "p/nobody") is None
    assert all_at_once(made.machine.outlook("nobody", "x")) is None


# OUTLOOK-1
def test_one_that_backs_off_has_its_place() -> None:
    made = plain_tree(queue("q", properties=props(bind_retry_delay="10s")), p="q")
    made.enter(wish("p", "x", vcore=1), FailBind("p", "x"))
    made.settle(wish("p", "y", vcore=20))

    assert in_order(made) == ["p/x", "p/y"]
