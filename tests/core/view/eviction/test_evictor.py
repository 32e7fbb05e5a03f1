"""Reclaim and preemption: one step at a time, between the rounds and the deadlocks."""

from __future__ import annotations

import attrs
import pytest

from muster_core.coordinator.coordinator import BatchResult
from muster_core.decisions import Kind
from muster_core.events import AddAsk, AddNode, AddPriorityClass, Configure, FailBind, RemoveNode
from muster_core.resources import Resources
from muster_core.structures.steps import Steps
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import Queue, configuration, wish
from tests.core.view.eviction.contest import at_once, contest, contest_with, share, urgent


def guaranteed_leaf(name: str = "a", *, delay: str = "0s") -> Queue:
    """Return a leaf that is guaranteed nine."""
    return share(name, guaranteed={"vcore": 9}, preemption_delay=delay)


def urgent_members(name: str, count: int | None = None, app: str = "a") -> AddAsk:
    event = members("g", name, count, app=app)
    return attrs.evolve(event, priority_class="high")


# One step


def test_a_step_of_reclaim() -> None:
    tree = at_once(guaranteed_leaf(), share("b"), n=2)
    tree.tell(wish("b", "x"), wish("b", "y"))

    assert tree.tell(wish("a", vcore=2)) == [
        "released b/y n reclaimed",
        "released b/x n reclaimed",
        "assigned a/x n",
        "bound a/x n",
    ]


def test_a_step_of_preemption() -> None:
    tree = at_once(share("a"), share("b"), n=1)
    tree.tell(wish("b"))

    assert tree.tell(urgent("a")) == [
        "released b/x n preempted",
        "assigned a/x n",
        "bound a/x n",
    ]


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        (guaranteed_leaf(), "for a/x: root.a is below its guaranteed"),
        (share("a"), "for a/x: its effective priority 10 is above 0"),
    ],
)
def test_the_message_of_a_victim_names_the_ask_it_made_room_for(leaf: Queue, message: str) -> None:
    tree = at_once(leaf, share("b"), n=1)
    tree.tell(wish("b"))
    released = [one for one in tree.settle(urgent("a")) if one.kind is Kind.RELEASED]

    assert [one.message for one in released] == [message]


def test_what_fits_as_things_are_takes_nothing() -> None:
    tree = at_once(guaranteed_leaf(), share("b"), m=1, n=1)
    tree.tell(wish("b"))

    assert tree.tell(urgent("a")) == ["assigned a/x n", "bound a/x n"]


def test_what_was_taken_is_for_the_one_for_whom_it_was() -> None:
    tree = at_once(guaranteed_leaf(), share("b", queue_priority="9"), n=2)
    tree.tell(wish("b", vcore=2))

    assert tree.tell(wish("a", vcore=1), wish("b", "next", 99)) == [
        "released b/x n reclaimed",
        "assigned a/x n",
        "bound a/x n",
        # What is left over is for the rounds.
        "assigned b/next n",
        "bound b/next n",
    ]


def test_each_has_its_step_while_there_is_anything_to_take() -> None:
    tree = at_once(guaranteed_leaf(), share("b"), n=3)
    tree.tell(wish("b", count=3))
    lines = tree.tell(wish("a", count=4))

    assert [line for line in lines if line.startswith("released")] == [
        *(f"released b/x-{number} n reclaimed" for number in (2, 1, 0))
    ]
    assert len(tree.app("a").bound) == 3


def test_reclaim_for_all_comes_before_preemption() -> None:
    tree = at_once(share("a", queue_priority="9"), guaranteed_leaf("c"), share("b"), n=1)
    tree.tell(wish("b"))
    lines = tree.tell(urgent("a"), wish("c"))

    assert lines == ["released b/x n reclaimed", "assigned c/x n", "bound c/x n"]


def test_reclaim_is_tried_again_after_each_preemption() -> None:
    tree = at_once(share("a"), guaranteed_leaf("c"), share("b"), n=2)
    tree.tell(wish("b", vcore=2))
    lines = tree.tell(urgent("a"), wish("c", vcore=2))

    assert [line for line in lines if "released" in line] == ["released b/x n reclaimed"]
    assert set(tree.app("c").bound) == {"x"}


def test_a_bind_that_fails_leaves_the_victims_without_a_node() -> None:
    tree = at_once(guaranteed_leaf(), share("b"), n=1)
    tree.tell(wish("b"))

    assert tree.tell(wish("a"), FailBind("a", "x")) == [
        "released b/x n reclaimed",
        "assigned a/x n",
        "released a/x n bind_failed",
        "assigned a/x n",
        "bound a/x n",
    ]


def test_without_preemption_nothing_is_taken() -> None:
    tree = contest_with([guaranteed_leaf(), share("b")], {"n": 1}, delay="0s", enabled=False)
    tree.tell(wish("b"))

    assert tree.tell(urgent("a")) == []


def test_preemption_that_is_switched_on() -> None:
    tree = contest_with([guaranteed_leaf(), share("b")], {"n": 1}, delay="0s", enabled=False)
    tree.tell(wish("b"))
    tree.tell(urgent("a"))
    config = configuration(guaranteed_leaf(), share("b"), props={"preemption.delay": "0s"})

    assert "bound a/x n" in tree.tell(Configure(config))


# When


def test_the_end_of_the_delay_is_a_timer() -> None:
    tree = contest(guaranteed_leaf(delay="10s"), share("b"), n=1)
    tree.tell(wish("b"))
    tree.tell(wish("a"))
    assert tree.wait(9.999999) == []

    assert tree.wait(10) == ["released b/x n reclaimed", "assigned a/x n", "bound a/x n"]


def test_the_delay_of_a_victim_begins_anew() -> None:
    tree = contest(guaranteed_leaf(), share("b", preemption_delay="5s"), share("c"), m=1, n=1)
    tree.tell(wish("c", node="m"))
    tree.tell(urgent("b"))
    tree.pass_time(10_000_000)
    tree.tell(wish("a", node="n"))
    assert list(tree.app("b").pending) == ["x"]
    assert tree.wait(14.9) == []

    assert tree.wait(15) == ["released c/x m preempted", "assigned b/x m", "bound b/x m"]


def test_that_of_an_ask_whose_node_was_lost_does_too() -> None:
    tree = contest(share("b", preemption_delay="5s"), share("c"), m=1, n=1)
    tree.tell(wish("c", node="m"))
    tree.tell(urgent("b"))
    tree.pass_time(10_000_000)
    tree.tell(RemoveNode("n"))
    assert tree.wait(14.9) == []

    assert tree.wait(15) == ["released c/x m preempted", "assigned b/x m", "bound b/x m"]


def test_it_is_looked_again_only_after_something_has_changed() -> None:
    tree = at_once(guaranteed_leaf(), share("b", preemption_policy="disabled"), n=1)
    tree.tell(wish("b"))
    assert tree.tell(wish("a")) == []
    assert tree.tell(wish("b", "other", vcore=50)) == []
    tree.tell(AddNode("m", Resources({"vcore": 1})))

    assert tree.bound() == ["b/x n", "a/x m"]


# Groups


def test_a_group_takes_for_all_that_it_lacks() -> None:
    tree = at_once(share("a"), share("b"), n=3)
    tree.tell(wish("b", count=3))

    assert tree.tell(gang("g", 2), urgent_members("m", 2)) == [
        "released b/x-2 n preempted",
        "assigned a/m-0 n",
        "waiting a/m-0 n",
        "released b/x-1 n preempted",
        "assigned a/m-1 n",
        "gang_satisfied default/g",
        "bound a/m-0 n",
        "bound a/m-1 n",
    ]


def test_a_member_that_fits_takes_nothing() -> None:
    tree = at_once(share("a"), share("b"), m=1, n=1)
    tree.tell(wish("b"))
    lines = tree.tell(gang("g", 2), urgent_members("m", 2))

    assert lines[:4] == [
        "assigned a/m-0 n",
        "waiting a/m-0 n",
        "released b/x m preempted",
        "assigned a/m-1 m",
    ]


def test_members_that_wait_are_not_placed_again() -> None:
    tree = at_once(share("a"), share("b"), m=1, n=1)
    tree.tell(wish("b"))
    tree.tell(gang("g", 2, mode=LOOSE), members("g", "low", 2, app="a"))
    assert len(tree.app("a").waiting) == 1
    lines = tree.tell(urgent_members("m"))

    assert lines[0] == "released b/x m preempted"
    assert "bound a/m m" in lines


@pytest.mark.parametrize("need", [2, 3])
def test_if_one_member_cannot_be_placed_nobody_goes(need: int) -> None:
    tree = at_once(share("a"), share("b"), m=1, n=2)
    tree.tell(wish("b", count=2, node="n"), wish("b", "high", 10, node="m"))
    before = tree.snapshot()
    lines = tree.tell(gang("g", need), urgent_members("m", need))

    assert (lines == []) is (need == 3)
    after = tree.snapshot()
    if need == 3:
        assert after.nodes == before.nodes
        assert after.apps["b"] == before.apps["b"]


def test_a_member_of_which_the_class_does_not_preempt_is_in_the_way() -> None:
    tree = at_once(share("a"), share("b"), n=2)
    tree.tell(wish("b", count=2))
    one = members("g", "low", app="a", priority=5)

    assert tree.tell(gang("g", 2), urgent_members("m"), one) == []


def test_it_is_not_if_it_fits() -> None:
    tree = at_once(share("a"), share("b"), m=1, n=1)
    tree.tell(wish("b", node="n"))
    one = attrs.evolve(members("g", "low", app="a", priority=5), node="m")
    other = attrs.evolve(urgent_members("m"), node="n")

    assert "bound a/low m" in tree.tell(gang("g", 2), other, one)


def test_the_delay_of_every_member_has_to_be_over() -> None:
    tree = contest(share("a", preemption_delay="10s"), share("b"), n=2)
    tree.tell(wish("b", count=2), gang("g", 2))
    tree.tell(urgent_members("m"))
    tree.pass_time(4_000_000)
    tree.tell(urgent_members("late"))

    assert tree.wait(10) == []
    assert "gang_satisfied default/g" in tree.wait(14)


@pytest.mark.parametrize("together", [False, True])
def test_no_member_of_the_group_is_a_victim(together: bool) -> None:
    tree = at_once(share("a"), n=1)
    groups = ("h",) if together else ()
    tree.tell(gang("g", 2, *groups, mode=LOOSE), members("g", "low", 2, app="a"))
    high = attrs.evolve(members("h", "high", app="a"), priority_class="high")
    lines = tree.tell(gang("h", 1, mode=LOOSE), high)

    assert ("released a/low-0 n preempted" in lines) is not together


def test_a_group_that_needs_no_victims_is_left_to_the_rounds() -> None:
    """One member stands in a leaf that another ask blocks, so that no round places them."""
    blocking = share("b", application_sort_blocking="enabled")
    tree = at_once(share("a"), blocking, n=2)
    tree.tell(wish("b", "big", 50, vcore=99))

    assert tree.tell(gang("g", 2), urgent_members("m"), urgent_members("o", app="b")) == []


def test_surplus_members_take_nothing() -> None:
    tree = at_once(share("a"), share("b"), n=3)
    tree.tell(wish("b", count=2))
    tree.enter(gang("g", 1, "h", mode=LOOSE), urgent_members("m", 2))
    tree.tell(gang("h", 1, mode=LOOSE))
    last = attrs.evolve(members("h", "last", app="a"), priority_class="high")

    assert tree.tell(last) == [
        *("released b/x-1 n preempted", "assigned a/last n"),
        *("gang_satisfied default/g", "gang_satisfied default/h"),
        *("bound a/m-0 n", "bound a/last n"),
        # Only now is the other one a plain ask.
        *("released b/x-0 n preempted", "assigned a/m-1 n", "bound a/m-1 n"),
    ]


def test_a_gang_that_lost_all_takes_again_as_one() -> None:
    tree = at_once(guaranteed_leaf(), share("b"), share("c"), m=2, n=2)
    tree.tell(wish("c", count=2, node="m"))
    tree.tell(gang("g", 2), urgent_members("m", 2, app="b"))

    assert tree.tell(wish("a", node="n")) == [
        *("released b/m-1 n reclaimed", "released b/m-0 n reclaimed"),
        *("assigned a/x n", "bound a/x n"),
        *("assigned b/m-0 n", "waiting b/m-0 n"),
        *("released c/x-1 m preempted", "assigned b/m-1 m"),
        *("gang_satisfied default/g", "bound b/m-0 n", "bound b/m-1 m"),
    ]


# In one batch


def test_who_came_in_the_batch_may_be_taken_in_it() -> None:
    tree = at_once(share("a"), share("b", queue_priority="9"), n=1)

    assert tree.tell(wish("b"), urgent("a")) == [
        "assigned b/x n",
        "bound b/x n",
        "released b/x n preempted",
        "assigned a/x n",
        "bound a/x n",
    ]


def test_the_one_that_lost_may_take_from_others() -> None:
    tree = at_once(share("a"), share("b"), m=2, n=1)
    tree.tell(AddPriorityClass("mild", 5, preempts=True), wish("b", "low", vcore=2))
    tree.tell(attrs.evolve(wish("b", "mild"), priority_class="mild"))

    assert tree.tell(attrs.evolve(urgent("a"), node="n")) == [
        *("released b/mild n preempted", "assigned a/x n", "bound a/x n"),
        *("released b/low m preempted", "assigned b/mild m", "bound b/mild m"),
    ]


def test_nobody_takes_from_one_of_the_same_worth_in_turn() -> None:
    tree = at_once(share("a"), share("b"), n=1)
    tree.tell(urgent("a"))

    assert tree.tell(urgent("b")) == []


@pytest.mark.parametrize("in_gang", [False, True])
def test_three_that_take_from_one_another_in_a_circle_come_to_rest(in_gang: bool) -> None:
    """The high one takes from the mild one, that from the low one, and this is owed a core."""
    tree = at_once(share("a"), share("b", guaranteed={"vcore": 1}))
    tree.tell(AddNode("n", Resources({"vcore": 1, "memory": 1})))
    tree.tell(AddPriorityClass("mild", 5, preempts=True))
    tree.tell(wish("b", "low", vcore=1, memory=1))
    mild = attrs.evolve(wish("b", "mild", memory=1), priority_class="mild")
    assert "bound b/mild n" in tree.tell(mild)
    high = attrs.evolve(urgent("a", memory=1), gang="default/g" if in_gang else None)
    lines = tree.tell(gang("g", 1), high)

    released = [line for line in lines if line.startswith("released")]
    assert [line.split()[1] for line in released] == ["b/mild", "a/x", "b/low"]
    assert list(tree.app("b").bound) == ["mild"]


# Pauses


def test_a_bound_ask_counts_as_bound_while_it_is_tried_what_would_be_without_it() -> None:
    tree = at_once(guaranteed_leaf(), share("b"), share("c", guaranteed={"vcore": 1}), n=3)
    tree.tell(wish("b", "x"), wish("b", "y"), wish("c", "z"))
    view, decide = tree.machine.view, tree.machine.decide
    held = [tree.victim(name) for name in ("b/x", "b/y", "c/z")]
    seen: set[tuple[bool, ...]] = set()
    without: set[int] = set()

    def watched() -> Steps[BatchResult]:
        steps = decide()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: BatchResult = end.value
                return result
            without.add(len(tree.state.eviction_history.tried_without))
            seen.add(
                tuple(
                    view.is_bound(one.app.identity.key, one.allocation.ask.name, number)
                    for one in held
                    for number in (one.allocation.number, one.allocation.number + 1)
                )
            )
            yield

    vars(tree.machine)["decide"] = watched
    tree.tell(gang("g", 3), members("g", "m", 3, app="a"))

    assert without == {0, 1, 2}
    assert seen == {(True, False) * 3}
    assert all(one.allocation.ask.name in one.app.bound for one in held)
