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


def make_tree(*queues: Queue, vcore: int = 10, **apps: str) -> Tree:
    """Return a tree of one node, on which something has everything that is left."""
    tree = Tree(configuration(*queues))
    tree.add_nodes("n", vcore=vcore)
    for name, path in apps.items():
        tree.add_app(name, f"root.{path}")
    return tree


def fill(tree: Tree, path: str, vcore: int = 10) -> None:
    """Let an application take the node."""
    tree.add_app("full", f"root.{path}")
    tree.settle(wish("full", "all", vcore=vcore))


def keys(level: Level) -> list[tuple[str, str, str, bool]]:
    return [(key.name, key.own, key.other, key.decides) for key in level.keys]


def test_the_first_of_all_has_nobody_before_it() -> None:
    tree = make_tree(queue("a"), p="a")
    fill(tree, "a")
    tree.settle(wish("p"), wish("p", "y"))

    assert explain(tree).first == "p/x"
    assert explain(tree).levels == ()
    assert codes(tree) == [Code.NO_NODE_FITS]
    assert codes(tree, "p/y") == [Code.NO_NODE_FITS, Code.NOT_YOUR_TURN]


# Queues


def test_every_level_down_to_where_the_ways_part() -> None:
    low = queue("low")
    high = queue("high", properties=props(priority_offset="7"))
    tree = make_tree(queue("c"), queue("q", low, high), p="q.low", r="q.high", vcore=20)
    fill(tree, "c", vcore=20)
    tree.settle(wish("p", priority=3, vcore=5), wish("r", priority=1, vcore=5))

    explanation = explain(tree)
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
    assert message_of(tree, Code.NOT_YOUR_TURN) == (
        "r/x is tried before it: root.q.high in root.q, as its currentPriority 8 is higher than 3"
    )
    assert facts(tree, Code.NOT_YOUR_TURN) == {
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
    tree = make_tree(*queues, queue("c"), p="a", r="b")
    fill(tree, "c")
    tree.settle(wish("p"), wish("r"))

    assert (
        message_of(tree, Code.NOT_YOUR_TURN)
        == f"r/x is tried before it: root.b in root, as {said_so}"
    )


def test_queues_by_their_fair_shares() -> None:
    tree = make_tree(queue("a"), queue("b"), p="a", r="b", vcore=3000)
    tree.settle(wish("p", "y", vcore=1001), wish("r", "y", vcore=1000))
    tree.settle(wish("p", vcore=1000), wish("r", vcore=1000))

    (level,) = explain(tree).levels
    assert [key for key in keys(level) if key[3]] == [("share", "0.334", "0.333", True)]
    assert message_of(tree, Code.NOT_YOUR_TURN).endswith(
        "as its fair share 0.333 is less than 0.334"
    )


def test_different_shares_are_written_differently() -> None:
    tree = make_tree(queue("a"), queue("b"), p="a", r="b", vcore=10**9)
    tree.settle(wish("p", "y", vcore=300_000_001), wish("r", "y", vcore=300_000_000))
    tree.settle(wish("p", vcore=5 * 10**8), wish("r", vcore=5 * 10**8))

    (level,) = explain(tree).levels
    assert keys(level)[2] == ("share", "0.300000001", "0.3", True)


def test_queues_by_what_is_pending_and_by_their_paths() -> None:
    tree = make_tree(queue("a"), queue("b"), queue("c"), queue("d"), p="a", r="b", s="c")
    fill(tree, "d")
    tree.settle(wish("p", vcore=2), wish("r", vcore=3), wish("s", vcore=3))

    assert message_of(tree, Code.NOT_YOUR_TURN) == (
        "r/x is tried before it: root.b in root, as its pending share 0.3 is larger than 0.2"
    )
    assert message_of(tree, Code.NOT_YOUR_TURN, "s/x").endswith(
        "as its path root.b comes before root.c"
    )


def test_a_parent_that_does_not_sort_by_priority() -> None:
    parent = queue("q", queue("a"), queue("b"), properties=UNSORTED)
    tree = make_tree(parent, queue("c"), p="q.a", r="q.b")
    fill(tree, "c")
    tree.settle(wish("p", priority=9), wish("r", vcore=2))

    level = explain(tree).levels[1]
    assert [key.name for key in level.keys] == ["share", "pending", "path"]
    assert facts(tree, Code.NOT_YOUR_TURN)["key"] == "pending"


# Applications


def test_applications_by_priority_and_creation() -> None:
    tree = make_tree(queue("a"), p="a", r="a", s="a")
    fill(tree, "a")
    tree.settle(wish("p"), wish("r", priority=1), wish("s", priority=1))

    assert message_of(tree, Code.NOT_YOUR_TURN) == (
        "r/x is tried before it: r in root.a, as its priority 1 is higher than 0"
    )
    root, leaf = explain(tree, "s/x").levels
    assert (root.at, root.own) == ("root", "root.a")
    assert (leaf.at, leaf.own, leaf.other) == ("root.a", "s", "r")
    assert keys(leaf) == [("priority", "1", "1", False), ("creation", "4", "3", True)]


def test_applications_by_their_usage() -> None:
    fair = queue("a", properties=props(application_sort_policy="fair"))
    tree = make_tree(fair, p="a", r="a", s="a")
    tree.settle(wish("p", "y", vcore=6), wish("r", "y", vcore=4))
    tree.settle(wish("p"), wish("r"))

    assert message_of(tree, Code.NOT_YOUR_TURN) == (
        "r/x is tried before it: r in root.a, as its usage 0.4 is less than 0.6"
    )
    tree.settle(wish("s"))
    assert message_of(tree, Code.NOT_YOUR_TURN, "r/x").endswith("as its usage 0 is less than 0.4")


def test_applications_of_a_leaf_that_does_not_sort_by_priority() -> None:
    tree = make_tree(queue("a", properties=UNSORTED), p="a", r="a")
    fill(tree, "a")
    tree.settle(wish("p"), wish("r", priority=9))

    assert explain(tree, "r/x").first == "p/x"
    assert [key.name for key in explain(tree, "r/x").levels[-1].keys] == ["creation"]


# Asks


def test_asks_by_priority_submission_and_number() -> None:
    tree = make_tree(queue("a"), p="a")
    fill(tree, "a")
    tree.settle(wish("p", "y", 1, count=2), wish("p", "z", 1), wish("p"))

    assert message_of(tree, Code.NOT_YOUR_TURN) == (
        "p/y-0 is tried before it: y-0 in p, as its priority 1 is higher than 0"
    )
    assert message_of(tree, Code.NOT_YOUR_TURN, "p/y-1").endswith("as its number 0 is before 1")
    assert message_of(tree, Code.NOT_YOUR_TURN, "p/z").endswith(
        "as it was created first, 5 before 6"
    )
    level = explain(tree, "p/z").levels[-1]
    assert (level.at, level.own, level.other) == ("p", "z", "y-0")
    assert [key.name for key in level.keys] == [
        "priority",
        "creation",
        "gang",
        "submission",
        "number",
    ]


def test_members_by_the_creation_of_their_gang() -> None:
    tree = make_tree(queue("a"), p="a")
    fill(tree, "a")
    tree.settle(members("g", "x"), wish("p", "y"), gang("g", 1))

    assert explain(tree).first == "p/y"
    assert message_of(tree, Code.NOT_YOUR_TURN) == (
        "p/y is tried before it: y in p, as it was created first, 6 before 7"
    )


# Who has a turn


def test_who_does_not_compete_is_before_nobody() -> None:
    tree = make_tree(queue("a", maxapplications="1"), p="a", r="a")
    fill(tree, "a", vcore=9)
    tree.settle(wish("p", priority=5, vcore=2), wish("full", vcore=2))

    assert codes(tree) == [Code.QUEUE_MAX_APPS, Code.NO_NODE_FITS]
    assert explain(tree).first == "full/x"
    assert explain(tree).levels == ()


def test_a_queue_that_does_not_enter_has_no_turn() -> None:
    small = queue("a", resources={"max": {"vcore": "2m"}}, properties=props(queue_priority="9"))
    tree = make_tree(small, queue("b"), p="a", r="b")
    tree.settle(wish("p", "y", vcore=2))
    tree.settle(wish("p"), wish("r", vcore=9), wish("r", "y"))

    assert codes(tree) == [Code.QUEUE_MAX]
    assert explain(tree).first == "r/x"
    # One that fits by itself lets the queue enter, and all in it have their turn.
    tree.settle(wish("p", "z", gpu=1))
    assert codes(tree, "p/z") == [Code.NEVER_FITS, Code.NO_NODE_FITS, Code.NOT_YOUR_TURN]
    assert explain(tree, "p/z").first == explain(tree, "r/x").first == "p/x"


def test_the_first_of_a_blocking_leaf_stands_for_it() -> None:
    tree = make_tree(queue("a", properties=BLOCKING), queue("b"), p="a", r="b")
    fill(tree, "b")
    tree.settle(wish("p", "y", 1), wish("p"), wish("r"))

    assert explain(tree, "r/x").first == "p/y"
    assert codes(tree) == [Code.BLOCKED, Code.NO_NODE_FITS, Code.NOT_YOUR_TURN]


def test_a_refused_member_blocks_nobody() -> None:
    tree = make_tree(queue("a", properties=BLOCKING), p="a")
    fill(tree, "a")
    tree.settle(gang("g", 2), members("g", "m", priority=5), wish("p"))

    assert codes(tree, "p/m") == [Code.GANG_TOO_FEW_MEMBERS, Code.BLOCKED, Code.NO_NODE_FITS]
    assert message_of(tree, Code.BLOCKED, "p/m").startswith(
        "root.a keeps strict order, and p/x is before it"
    )
    assert codes(tree) == [Code.NO_NODE_FITS]


def test_nothing_is_first_if_nothing_has_a_turn() -> None:
    tree = make_tree(queue("a"), p="a")
    tree.settle(gang("g", 2), members("g", "x"))

    assert explain(tree).first is None


# All that is pending


def test_everything_that_is_not_bound_is_listed_in_order() -> None:
    tree = make_tree(queue("a"), queue("b"), vcore=2, p="b", r="a")
    tree.settle(wish("r", "w", -2, count=2, vcore=9), wish("p", "y", 1, vcore=9))
    tree.settle(gang("g", 3, mode=LOOSE, wait_us=5), members("g", "m", 3, app="r"))
    tree.settle(wish("r", "v", 3, vcore=9), wish("r", "u", vcore=9))

    assert [place(tree, *name) for name in tree.machine.pending()] == [
        "p/y pending",
        "r/v pending",
        "r/m-0 waiting",
        "r/m-1 waiting",
        "r/m-2 pending",
        "r/u pending",
        "r/w-0 pending",
        "r/w-1 pending",
    ]
    tree.settle(RemoveAsk("r", "v"))
    tree.pass_time(6)
    assert [place(tree, *name) for name in tree.machine.pending()][1:4] == [
        "r/m-0 parked",
        "r/m-1 parked",
        "r/m-2 parked",
    ]


def place(tree: Tree, app: str, ask: str) -> str:
    return f"{app}/{ask} {explain(tree, f'{app}/{ask}').place}"


def plain_tree(*queues: Queue, vcore: int = 10, **apps: str) -> Tree:
    """Return a tree of one node, and applications in queues."""
    tree = Tree(configuration(*queues))
    tree.add_nodes("n", vcore=vcore)
    for name, path in apps.items():
        tree.add_app(name, f"root.{path}")
    return tree


def position(tree: Tree, ask: str) -> int | None:
    app, _, name = ask.partition("/")
    found = all_at_once(tree.machine.outlook(app, name))
    return None if found is None else found.position


def in_order(tree: Tree) -> list[str]:
    """Return all pending asks by their positions, each of which is there once."""
    placed = {position(tree, f"{app}/{ask}"): f"{app}/{ask}" for app, ask in tree.machine.pending()}
    assert sorted(filter(None, placed)) == list(range(1, len(placed) + 1))
    return [placed[number] for number in range(1, len(placed) + 1)]


# OUTLOOK-1
def test_queues_then_applications_then_asks_are_in_order() -> None:
    low, high = queue("low"), queue("high", properties=props(priority_offset="7"))
    tree = plain_tree(queue("q", low, high), queue("z"), p="q.low", r="q.high", s="q.high", t="z")
    for app, priority in (("p", 5), ("r", 1), ("s", 2), ("t", 9)):
        tree.enter(wish(app, "x", priority, vcore=20), wish(app, "y", 1, vcore=20))
    tree.settle()

    assert in_order(tree) == ["s/x", "s/y", "r/x", "r/y", "p/x", "p/y", "t/x", "t/y"]


# OUTLOOK-1
def test_nothing_is_skipped_that_has_no_turn_now() -> None:
    over = queue("over", resources={"max": {"vcore": 1}}, properties=BLOCKING)
    few = queue("few", maxapplications=1)
    aware = queue("turns", properties=props(application_sort_policy="stateaware"))
    tree = plain_tree(
        *(over, few, aware), vcore=9, a="over", b="few", c="few", d="turns", e="turns"
    )
    tree.enter(*(wish(app, "x", vcore=20000) for app in "abcde"))
    tree.enter(wish("a", "late", vcore=1))
    tree.settle()

    assert in_order(tree) == ["b/x", "c/x", "d/x", "e/x", "a/x", "a/late"]


# OUTLOOK-1
def test_a_member_is_as_old_as_its_gang_and_one_that_timed_out_has_no_place() -> None:
    tree = plain_tree(queue("q"), vcore=1, p="q")
    tree.enter(gang("g", 2, mode=LOOSE, wait_us=1_000_000))
    tree.enter(wish("p", "old", vcore=20), members("g", "m", 2))
    tree.settle()
    assert position(tree, "p/old") == 2
    tree.pass_time(2_000_000)
    tree.settle()

    assert position(tree, "p/m-1") is None
    assert position(tree, "p/old") == 1


# OUTLOOK-1
def test_one_that_is_bound_or_unknown_has_no_place() -> None:
    tree = plain_tree(queue("q"), p="q")
    tree.settle(wish("p", "held", vcore=1))

    assert position(tree, "p/held") is None
    assert position(tree, "p/nobody") is None
    assert all_at_once(tree.machine.outlook("nobody", "x")) is None


# OUTLOOK-1
def test_one_that_backs_off_has_its_place() -> None:
    tree = plain_tree(queue("q", properties=props(bind_retry_delay="10s")), p="q")
    tree.enter(wish("p", "x", vcore=1), FailBind("p", "x"))
    tree.settle(wish("p", "y", vcore=20))

    assert in_order(tree) == ["p/x", "p/y"]
