"""The rounds: what is placed, in which order, where, and what the owners are told."""

from __future__ import annotations

import pytest

from muster_core.config.model import Configuration
from muster_core.decisions import Decision, Kind, Reason
from muster_core.events import (
    AddNode,
    Configure,
    FailBind,
    Release,
    RemoveApp,
    RemoveNode,
    UpdateNode,
)
from muster_core.resources import Resources
from muster_core.shapes import KEPT_IDLE
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree


def props(**properties: str) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in properties.items()}


BLOCKING = props(application_sort_blocking="enabled")


def tree(*nodes: str, config: Configuration | None = None, **capacity: int) -> Tree:
    made = Tree(config or configuration(queue("a"), queue("b")))
    made.add_nodes(*nodes, **(capacity or {"vcore": 10}))
    return made


def told(decisions: list[Decision]) -> list[str]:
    """Give decisions in short: ``bound p/x n``, ``p Starting``, ``root.a 5``."""
    lines: list[str] = []
    for one in decisions:
        if one.kind is Kind.APP_STATE:
            lines.append(f"{one.app} {one.state}")
        elif one.kind is Kind.QUEUE_PRIORITY:
            lines.append(f"{one.queue} {one.priority}")
        else:
            lines.append(" ".join(filter(None, (one.kind, f"{one.app}/{one.ask}", one.node))))
    return lines


def test_the_best_ask_takes_the_best_node() -> None:
    here = tree("n", "m")
    here.add_app("p")
    here.settle(wish("p", "low", 1), wish("p", "high", 2))
    here.check()

    assert here.bound() == ["p/high m", "p/low n"]


def test_each_bind_says_what_it_is() -> None:
    here = tree("n")
    here.add_app("p")
    decisions = here.settle(wish("p", "x", 3), wish("p", "y", 3))

    assert told(decisions) == [
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
    here = tree("n", vcore=5)
    here.add_app("p")
    here.settle(wish("p", "big", 9, vcore=6), wish("p", "small", 1, vcore=5))
    here.check()

    assert here.bound() == ["p/small n"]


def test_a_stuck_ask_keeps_lifting_its_queue() -> None:
    here = tree("n", vcore=2)
    here.add_app("p", "a")
    here.add_app("q", "b")
    here.enter(wish("p", "stuck", 9, vcore=5), wish("q", "y", 5), wish("p", "z", 1))
    decisions = here.settle()

    assert here.bound() == ["p/z n", "q/y n"]
    assert told(decisions)[-2:] == ["root 9", "root.a 9"]


def test_the_order_is_made_anew_after_every_bind() -> None:
    here = tree("n", vcore=10)
    here.add_app("p", "a")
    here.add_app("q", "b")
    here.settle(wish("p", "x", count=3), wish("q", "y", count=2))
    here.check()

    assert here.bound() == ["p/x-0 n", "q/y-0 n", "p/x-1 n", "q/y-1 n", "p/x-2 n"]


def test_a_blocking_leaf_waits_for_its_first_ask() -> None:
    here = tree("n", config=configuration(queue("a", properties=BLOCKING), queue("b")), vcore=5)
    here.add_app("p", "a")
    here.add_app("q", "b")
    here.settle(wish("p", "big", 9, vcore=6), wish("p", "small"), wish("q", "y"))
    here.check()

    assert here.bound() == ["q/y n"]


def test_a_blocking_leaf_that_waits_for_its_quota() -> None:
    limited = queue("a", properties=BLOCKING, resources={"max": {"vcore": "3m"}})
    here = tree("n", config=configuration(limited))
    here.add_app("p", "a")
    here.settle(wish("p", "x", 3, vcore=2), wish("p", "y", 2, vcore=2), wish("p", "z"))
    here.check()

    assert here.bound() == ["p/x n"]


def test_a_failed_bind_does_not_block() -> None:
    here = tree("n", config=configuration(queue("a", properties=BLOCKING)))
    here.add_app("p", "a")
    here.settle(wish("p", "x", 9), wish("p", "y", 1), FailBind("p", "x"))
    here.check()

    assert here.bound() == ["p/y n", "p/x n"]


@pytest.mark.parametrize("most", ["50m", "1000m"])
def test_a_gate_that_closes_above_a_blocking_leaf(most: str) -> None:
    # At the turn of leaf b its first ask, p/big, fits no node and blocks it for this round,
    # although q/y then closes the gate on p, so that r/new is the first from there on.
    limit = {"maxapplications": "2"}
    leaf = queue("b", properties=BLOCKING, resources={"max": {"vcore": most}}, **limit)
    here = tree("n", config=configuration(queue("a", leaf, queue("c", **limit), **limit)))
    for app, path in (("r", "a.b"), ("p", "a.b"), ("q", "a.c")):
        here.add_app(app, path)
    here.settle(wish("r", "old"))
    here.enter(wish("r", "new", 1), wish("p", "big", 9, vcore=50))
    here.settle(wish("q", "y", 5), wish("q", "z", 0))
    here.check()

    assert here.bound() == ["r/old n", "q/y n", "q/z n", "r/new n"]


def test_one_of_those_that_a_limit_lets_in_starts() -> None:
    here = tree("n", config=configuration(queue("a", maxapplications="1")))
    here.add_app("p")
    here.add_app("q")
    here.settle(wish("p", "x", 1), wish("q", "y", 2), wish("q", "z", 2))
    here.check()
    assert here.bound() == ["q/y n", "q/z n"]

    here.settle(RemoveApp("q"))
    here.check()
    assert here.bound()[2:] == ["p/x n"]


def test_a_state_aware_leaf_lets_one_start_at_a_time() -> None:
    leaf = queue("a", properties=props(application_sort_policy="stateaware"))
    here = tree("n", config=configuration(leaf))
    for name in "pqr":
        here.add_app(name)
        here.enter(wish(name, count=2))
    here.settle()
    here.check()

    assert here.bound() == [f"{name}/x-{number} n" for name in "pqr" for number in (0, 1)]


def test_a_starting_application_without_asks_keeps_the_others_out_for_five_minutes() -> None:
    leaf = queue("a", properties=props(application_sort_policy="stateaware"))
    here = tree("n", config=configuration(leaf))
    here.add_app("p")
    here.add_app("q")
    here.settle(wish("p"), wish("q"))
    assert here.bound() == ["p/x n"]

    here.pass_time(299_000_000)
    assert here.bound() == ["p/x n"]
    here.pass_time(301_000_000)
    assert here.bound() == ["p/x n", "q/x n"]


def test_a_bind_that_fails_is_tried_in_the_next_round() -> None:
    here = tree("n")
    here.add_app("p")
    decisions = here.settle(wish("p", "x", 9), FailBind("p", "x", 2), wish("p", "y"))
    here.check()

    lines = [line for line in told(decisions) if not line.startswith("p ")]
    assert lines == [
        *("assigned p/x n", "released p/x n", "assigned p/y n", "bound p/y n"),
        *("assigned p/x n", "released p/x n", "assigned p/x n", "bound p/x n"),
    ]
    reasons = {one.reason for one in decisions if one.kind is Kind.RELEASED}
    assert reasons == {Reason.BIND_FAILED}


def test_room_that_comes_free_is_used_at_once() -> None:
    here = tree("n", vcore=1)
    here.add_app("p")
    here.settle(wish("p", count=2))
    assert here.bound() == ["p/x-0 n"]

    here.settle(Release("p", "x-0"))
    here.check()
    assert here.bound() == ["p/x-0 n", "p/x-1 n"]


def test_a_lost_node_and_another_of_its_name_in_one_batch() -> None:
    here = tree("n", vcore=2)
    here.add_app("p")
    here.settle(wish("p", count=2))
    new = AddNode("n", Resources({"vcore": 1}))
    decisions = here.settle(RemoveNode("n"), new)
    here.check()

    assert told(decisions) == [
        *("released p/x-0 n", "released p/x-1 n", "assigned p/x-0 n", "bound p/x-0 n"),
        *("root 0", "root.a 0"),
    ]


def test_capacity_that_shrinks_under_what_is_used_evicts_nobody() -> None:
    here = tree("n", vcore=4)
    here.add_app("p")
    here.settle(wish("p", vcore=4))
    here.settle(UpdateNode("n", Resources({"vcore": 2})), wish("p", "y"))
    here.check()
    assert here.bound() == ["p/x n"]

    here.settle(Release("p", "x"))
    assert here.bound() == ["p/x n", "p/y n"]


def test_a_max_that_is_lowered_under_what_is_allocated() -> None:
    def config(most: str) -> Configuration:
        return configuration(queue("a", resources={"max": {"vcore": most}}))

    here = tree("n", config=config("4m"), vcore=10, memory=10)
    here.add_app("p")
    here.settle(wish("p", vcore=4))
    here.settle(Configure(config("2m")), wish("p", "y", vcore=1), wish("p", "z", memory=1))
    here.check()

    assert here.bound() == ["p/x n", "p/z n"]


def test_a_policy_that_changes_with_the_applications() -> None:
    def config(policy: str) -> Configuration:
        return configuration(queue("a", properties=props(application_sort_policy=policy)))

    here = tree(config=config("fifo"))
    here.add_app("p")
    here.settle(wish("p"))
    here.enter(Configure(config("fair")))
    here.add_app("q")
    here.settle(wish("q"), wish("p", "y"))
    here.check()

    assert here.settle(AddNode("n", Resources({"vcore": 2})))
    assert here.bound() == ["p/x n", "q/x n"]


@pytest.mark.parametrize("back", [False, True])
def test_a_leaf_becomes_a_parent_in_the_batch_in_which_it_empties(back: bool) -> None:
    leaf, parent = configuration(queue("a")), configuration(queue("a", parent="true"))
    here = tree("n", config=parent if back else leaf)
    here.add_app("p", "a.x" if back else "a")
    here.settle(wish("p", vcore=99))
    here.enter(RemoveApp("p"), Configure(leaf if back else parent))
    here.add_app("p", "a" if back else "a.x")
    here.settle(wish("p"))
    here.check()

    assert here.bound() == ["p/x n"]


def test_a_queue_made_on_the_fly_twice_in_one_batch() -> None:
    here = tree("n", config=configuration())
    here.add_app("p", "made.up")
    here.settle(wish("p", "x", 5, vcore=99))
    here.enter(RemoveApp("p"))
    here.add_app("p", "made.up")
    here.enter(RemoveApp("p"))
    here.add_app("p", "made.up")
    here.settle(wish("p", "y", 6, vcore=99))
    here.check()

    assert here.snapshot().queues["root.made.up"].priority == 6


def test_fences_and_offsets_are_announced_when_they_change() -> None:
    fence = props(priority_policy="fence", priority_offset="7")
    here = tree(config=configuration(queue("a", properties=fence), queue("b")))
    assert told(here.settle()) == ["root.a 7"]

    here.add_app("p", "a")
    assert told(here.settle(wish("p", "x", 100)))[-1:] == ["root 7"]
    assert told(here.settle(wish("p", "y", 200))) == []
    assert told(here.settle(RemoveApp("p")))[-1:] == ["root None"]


def test_shapes_are_forgotten_and_their_bits_used_again() -> None:
    here = tree("n", vcore=10_000)
    here.add_app("p")
    for amount in range(1, 3 * KEPT_IDLE):
        here.settle(wish("p", f"x{amount}", vcore=amount), wish("p", f"y{amount}", gpu=amount))
        here.settle(Release("p", f"x{amount}"))
        if amount % 40 == 0:
            here.check()

    assert len(here.bound()) == 3 * KEPT_IDLE - 1
    here.settle(AddNode("g", Resources({"gpu": 1})))
    assert here.bound()[-1] == "p/y1 g"
    here.check()


def test_hundreds_of_nodes_fill_up() -> None:
    here = tree(*(f"n{number:03}" for number in range(200)), vcore=2)
    here.add_app("p")
    here.settle(wish("p", count=500))
    here.check()

    nodes = [f"n{number:03}" for number in range(200)]
    assert [line.split()[1] for line in here.bound()] == nodes * 2


def test_nothing_happens_without_a_change() -> None:
    here = tree("n", vcore=1)
    here.add_app("p")
    here.settle(wish("p", count=2))

    assert here.settle() == []
    here.check()
