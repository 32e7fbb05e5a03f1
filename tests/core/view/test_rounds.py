"""The rounds: what is placed, in which order, where, by which keys asks are compared, and what is
announced at the end of a batch.
"""

from __future__ import annotations

import pytest

from muster_core.config.model import QueueConfig, Settings, SortPolicy
from muster_core.decisions import Kind, Reason
from muster_core.events import AddAsk, AddGang, FailBind, RemoveApp
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from muster_core.structures.amounts import Types
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import (
    ASK_PARTS,
    KeyPart,
    KeyValue,
    app_key,
    app_parts,
    queue_key,
    queue_parts,
)
from tests.core.building import ask, configuration, identity, queue, wish
from tests.core.tree import BLOCKING, Tree, lines_of, make_tree, props


def test_the_best_ask_takes_the_best_node() -> None:
    tree = make_tree("n", "m")
    tree.add_app("p")
    tree.settle(wish("p", "low", 1), wish("p", "high", 2))
    tree.check()

    assert tree.bound() == ["p/high m", "p/low n"]


def test_each_bind_says_what_it_is() -> None:
    tree = make_tree("n")
    tree.add_app("p")
    decisions = tree.settle(wish("p", "x", 3), wish("p", "y", 3))

    assert lines_of(decisions) == [
        "p New",
        "p Accepted",
        "assigned p/x n",
        "bound p/x n",
        "p Starting",
        "assigned p/y n",
        "bound p/y n",
        "p Running",
    ]


def test_an_ask_that_fits_nowhere_does_not_block_those_behind_it() -> None:
    tree = make_tree("n", vcore=5)
    tree.add_app("p")
    tree.settle(wish("p", "big", 9, vcore=6), wish("p", "small", 1, vcore=5))
    tree.check()

    assert tree.bound() == ["p/small n"]


def test_the_order_is_made_anew_after_every_bind() -> None:
    tree = make_tree("n", vcore=10)
    tree.add_app("p", "a")
    tree.add_app("q", "b")
    tree.settle(wish("p", "x", count=3), wish("q", "y", count=2))
    tree.check()

    assert tree.bound() == ["p/x-0 n", "q/y-0 n", "p/x-1 n", "q/y-1 n", "p/x-2 n"]


def test_a_blocking_leaf_waits_for_its_first_ask() -> None:
    tree = make_tree(
        "n", config=configuration(queue("a", properties=BLOCKING), queue("b")), vcore=5
    )
    tree.add_app("p", "a")
    tree.add_app("q", "b")
    tree.settle(wish("p", "big", 9, vcore=6), wish("p", "small"), wish("q", "y"))
    tree.check()

    assert tree.bound() == ["q/y n"]


def test_a_blocking_leaf_that_waits_for_its_quota() -> None:
    limited = queue("a", properties=BLOCKING, resources={"max": {"vcore": "3m"}})
    tree = make_tree("n", config=configuration(limited))
    tree.add_app("p", "a")
    tree.settle(wish("p", "x", 3, vcore=2), wish("p", "y", 2, vcore=2), wish("p", "z"))
    tree.check()

    assert tree.bound() == ["p/x n"]


def test_a_failed_bind_does_not_block() -> None:
    tree = make_tree("n", config=configuration(queue("a", properties=BLOCKING)))
    tree.add_app("p", "a")
    tree.settle(wish("p", "x", 9), wish("p", "y", 1), FailBind("p", "x"))
    tree.check()

    assert tree.bound() == ["p/y n", "p/x n"]


@pytest.mark.parametrize("most", ["50m", "1000m"])
def test_a_gate_that_closes_above_a_blocking_leaf(most: str) -> None:
    # At the turn of leaf b its first ask, p/big, fits no node and blocks it for this round,
    # although q/y then closes the gate on p, so that r/new is the first from there on.
    limit = {"maxapplications": "2"}
    leaf = queue("b", properties=BLOCKING, resources={"max": {"vcore": most}}, **limit)
    tree = make_tree("n", config=configuration(queue("a", leaf, queue("c", **limit), **limit)))
    for app, path in (("r", "a.b"), ("p", "a.b"), ("q", "a.c")):
        tree.add_app(app, path)
    tree.settle(wish("r", "old"))
    tree.enter(wish("r", "new", 1), wish("p", "big", 9, vcore=50))
    tree.settle(wish("q", "y", 5), wish("q", "z", 0))
    tree.check()

    assert tree.bound() == ["r/old n", "q/y n", "q/z n", "r/new n"]


def test_a_state_aware_leaf_lets_one_start_at_a_time() -> None:
    leaf = queue("a", properties=props(application_sort_policy="stateaware"))
    tree = make_tree("n", config=configuration(leaf))
    for name in "pqr":
        tree.add_app(name)
        tree.enter(wish(name, count=2))
    tree.settle()
    tree.check()

    assert tree.bound() == [f"{name}/x-{number} n" for name in "pqr" for number in (0, 1)]


def test_a_starting_application_without_asks_keeps_the_others_out_for_five_minutes() -> None:
    leaf = queue("a", properties=props(application_sort_policy="stateaware"))
    tree = make_tree("n", config=configuration(leaf))
    tree.add_app("p")
    tree.add_app("q")
    tree.settle(wish("p"), wish("q"))
    assert tree.bound() == ["p/x n"]

    tree.pass_time(299_000_000)
    assert tree.bound() == ["p/x n"]
    tree.pass_time(301_000_000)
    assert tree.bound() == ["p/x n", "q/x n"]


def test_a_bind_that_fails_is_tried_in_the_next_round() -> None:
    tree = make_tree("n")
    tree.add_app("p")
    decisions = tree.settle(wish("p", "x", 9), FailBind("p", "x", 2), wish("p", "y"))
    tree.check()

    lines = [line for line in lines_of(decisions) if not line.startswith("p ")]
    assert lines == [
        *("assigned p/x n", "released p/x n", "assigned p/y n", "bound p/y n"),
        *("assigned p/x n", "released p/x n", "assigned p/x n", "bound p/x n"),
    ]
    reasons = {one.reason for one in decisions if one.kind is Kind.RELEASED}
    assert reasons == {Reason.BIND_FAILED}


def test_hundreds_of_nodes_fill_up() -> None:
    tree = make_tree(*(f"n{number:03}" for number in range(200)), vcore=2)
    tree.add_app("p")
    tree.settle(wish("p", count=500))
    tree.check()

    nodes = [f"n{number:03}" for number in range(200)]
    assert [line.split()[1] for line in tree.bound()] == nodes * 2


def by_part(parts: tuple[KeyPart, ...], key: tuple[KeyValue, ...]) -> dict[str, KeyValue]:
    """Return the values of a key by the names of its parts."""
    return {part.name: part.value(found) for part, found in zip(parts, key, strict=True)}


def test_the_parts_of_a_queue_s_key() -> None:
    parent, own = (
        Settings(),
        QueueConfig("a", "root.a", is_parent=False, settings=Settings(queue_priority=7)),
    )

    assert by_part(queue_parts(parent), queue_key(parent, own, 3, 0.25, 0.5)) == {
        "queue.priority": 7,
        "currentPriority": 3,
        "share": 0.25,
        "pending": 0.5,
        "path": "root.a",
    }


def test_the_parts_of_a_queue_s_key_without_priorities() -> None:
    parent, own = Settings(sort_by_priority=False), QueueConfig("a", "root.a", is_parent=False)

    assert by_part(queue_parts(parent), queue_key(parent, own, None, 0.25, 0.5)) == {
        "share": 0.25,
        "pending": 0.5,
        "path": "root.a",
    }


@pytest.mark.parametrize("by_priority", [False, True])
@pytest.mark.parametrize("policy", SortPolicy)
def test_the_parts_of_an_application_s_key(policy: SortPolicy, by_priority: bool) -> None:
    settings = Settings(sort_policy=policy, sort_by_priority=by_priority)
    config = QueueConfig("a", "root.a", is_parent=False, settings=settings)
    leaf = LeafView(1, None, config, Types())
    app = ViewApp(identity(4), allocated={"vcore": 2}, counted=-3)

    found = by_part(app_parts(settings), app_key(leaf, app, {"vcore": 8}))
    expected: dict[str, KeyValue] = {"priority": -3} if by_priority else {}
    if policy is SortPolicy.FAIR:
        expected["usage"] = (0.25,)
    assert found == {**expected, "creation": 4}
    assert list(found) == [*expected, "creation"]


def test_the_parts_of_an_ask_s_key() -> None:
    one = ask(priority=5)

    assert by_part(ASK_PARTS, one.order) == {
        "priority": 5,
        "creation": one.creation,
        "gang": one.group,
        "submission": one.seq,
        "number": one.number,
    }


def test_a_part_that_is_nothing_is_shown_without_a_sign() -> None:
    assert str(KeyPart("pending", highest_first=True).value(-0.0)) == "0.0"
    assert KeyPart("path").value("root.a") == "root.a"


def test_a_stuck_ask_keeps_lifting_its_queue() -> None:
    tree = make_tree("n", vcore=2)
    tree.add_app("p", "a")
    tree.add_app("q", "b")
    tree.enter(wish("p", "stuck", 9, vcore=5), wish("q", "y", 5), wish("p", "z", 1))
    decisions = tree.settle()

    assert tree.bound() == ["p/z n", "q/y n"]
    assert lines_of(decisions)[-2:] == ["root 9", "root.a 9"]


def test_fences_and_offsets_are_announced_when_they_change() -> None:
    fence = props(priority_policy="fence", priority_offset="7")
    tree = make_tree(config=configuration(queue("a", properties=fence), queue("b")))
    assert lines_of(tree.settle()) == ["root.a 7"]

    tree.add_app("p", "a")
    assert lines_of(tree.settle(wish("p", "x", 100)))[-1:] == ["root 7"]
    assert lines_of(tree.settle(wish("p", "y", 200))) == []
    assert lines_of(tree.settle(RemoveApp("p")))[-1:] == ["root None"]


def test_nothing_happens_without_a_change() -> None:
    tree = make_tree("n", vcore=1)
    tree.add_app("p")
    tree.settle(wish("p", count=2))

    assert tree.settle() == []
    tree.check()


def test_the_last_child_of_a_queue_stays_in_order_when_the_others_have_gone() -> None:
    tree = Tree()
    tree.add_app("p", "root.a")
    tree.add_app("q", "root.b")
    tree.add_nodes("n", vcore=1)
    # What competes is listed: a member that is visited, though there is room for nobody else.
    member = AddAsk("q", "m", Resources({"vcore": 1}), count=2, gang="default/g")
    tree.settle(AddGang("default/g", GangFields(min_member=2)), wish("p"), member)

    tree.settle(RemoveApp("p"))

    assert list(tree.snapshot().queues) == ["root", "root.b"]
    tree.machine.view.check()


def test_a_gang_over_a_limit_fails_though_the_nodes_have_room() -> None:
    limits = [{"users": ["*"], "maxresources": {"vcore": "1m"}}]
    tree = Tree(configuration(queue("a", limits=limits)))
    tree.add_nodes("n", vcore=9)
    tree.add_app("p")
    member = AddAsk("p", "m", Resources({"vcore": 1}), count=2, gang="default/g")

    tree.settle(AddGang("default/g", GangFields(min_member=2)), member)

    assert not tree.snapshot().gangs["default/g"].cycle_valid
    tree.machine.view.check()
