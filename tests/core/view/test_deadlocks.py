"""Deadlocks: groups of gangs that starve one another."""

from __future__ import annotations

import pytest

from muster_core.events import AddGang, AddNode, Event, FailBind, RemoveAsk, RemoveGang
from muster_core.resources import Resources
from tests.core.admission.objects import LOOSE, applied, full_gang_name, gang, members, story
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree, make_tree

REPORT = {"gang.deadlock.policy": "report"}


def starved_gangs(*needs: int, report: bool = False, priorities: tuple[int, ...] = ()) -> Tree:
    """Return a tree whose gangs ``g0``, ``g1``, … hold a node each, which is all there is.

    What they need is said in a batch that is open still: until then each has to wait for a
    gang that is not there, and one member is enough. Gang ``g0`` has its members in the
    application ``g0`` of the leaf ``q0``, and so on.
    """
    leaves = [queue(f"q{number}") for number in range(len(needs))]
    tree = make_tree(config=configuration(*leaves, props=REPORT if report else {}))
    for number, need in enumerate(needs):
        name = f"g{number}"
        priority = priorities[number] if priorities else None
        tree.add_app(name, f"root.q{number}")
        tree.enter(AddNode(f"n{number}", Resources({"vcore": 1})), gang(name, 1, "lock"))
        tree.settle(members(name, "x", need, app=name, priority=priority))
    tree.enter(*(applied(define(number, need)) for number, need in enumerate(needs)))
    return tree


def define(number: int, need: int, *groups: str) -> AddGang:
    return gang(f"g{number}", need, *groups, mode=LOOSE)


def tell(tree: Tree, *events: Event) -> list[str]:
    lines = story(tree.settle(*events))
    tree.check()
    return lines


def lines_of_kinds(lines: list[str], *kinds: str) -> list[str]:
    return [line for line in lines if line.split()[0] in kinds]


def nodes_held(tree: Tree) -> dict[str, int]:
    """Return how many nodes each gang holds, waiting or bound."""
    gangs = tree.snapshot().gangs.values()
    return {one.name.partition("/")[2]: len(one.waiting) + len(one.bound) for one in gangs}


def satisfied(tree: Tree) -> list[str]:
    gangs = tree.snapshot().gangs.values()
    return [one.name.partition("/")[2] for one in gangs if one.satisfied]


# Who is helped


def test_the_older_gang_gets_what_the_younger_one_holds() -> None:
    first, *lines = tell(starved_gangs(2, 2))

    assert first.startswith("warning deadlock of gangs: default/g0 ")
    assert "default/g1" in first
    assert lines == [
        "released g1/x-0 n1 deadlock",
        "assigned g0/x-1 n1",
        "gang_satisfied default/g0",
        "bound g0/x-0 n0",
        "bound g0/x-1 n1",
    ]


def test_several_members_are_placed_at_once() -> None:
    lines = tell(starved_gangs(3, 2, 2))

    assert lines[1:] == [
        "released g2/x-0 n2 deadlock",
        "released g1/x-0 n1 deadlock",
        "assigned g0/x-1 n1",
        "waiting g0/x-1 n1",
        "assigned g0/x-2 n2",
        "gang_satisfied default/g0",
        "bound g0/x-0 n0",
        "bound g0/x-1 n1",
        "bound g0/x-2 n2",
    ]


def test_a_higher_priority_comes_before_age() -> None:
    tree = starved_gangs(2, 2, priorities=(0, 1))
    tell(tree)

    assert satisfied(tree) == ["g1"]


def test_the_priority_of_a_pending_member_counts() -> None:
    tree = starved_gangs(2, 2)
    tell(tree, members("g1", "y", app="g1", priority=5))

    assert satisfied(tree) == ["g1"]


def test_the_priority_of_a_waiting_member_counts() -> None:
    tree = starved_gangs(2, 2, priorities=(0, 5))
    tell(tree, RemoveAsk("g1", "x-1"), members("g1", "y", app="g1", priority=-5))

    assert satisfied(tree) == ["g1"]


def test_only_as_much_is_released_as_it_takes_the_last_group_first() -> None:
    tree = starved_gangs(2, 2, 2)

    assert lines_of_kinds(tell(tree), "released") == ["released g2/x-0 n2 deadlock"]
    assert satisfied(tree) == ["g0"]
    assert nodes_held(tree) == {"g0": 2, "g1": 1, "g2": 0}


def test_the_next_group_is_looked_at_when_the_first_cannot_be_helped() -> None:
    tree = starved_gangs(9, 2, 2)

    assert lines_of_kinds(tell(tree), "released") == ["released g2/x-0 n2 deadlock"]
    assert satisfied(tree) == ["g1"]
    assert nodes_held(tree) == {"g0": 1, "g1": 2, "g2": 0}


@pytest.mark.parametrize("needs", [(9, 9), (2,), (9, 2), (9, 9, 3)])
@pytest.mark.parametrize("report", [False, True])
def test_where_no_group_can_be_helped_nothing_is_logged_or_done(
    needs: tuple[int, ...], *, report: bool
) -> None:
    tree = starved_gangs(*needs, report=report)

    assert tell(tree) == []
    assert set(nodes_held(tree).values()) == {1}


def test_members_of_one_group_do_not_starve_one_another() -> None:
    tree = starved_gangs(2, 2)

    assert tell(tree, applied(define(0, 2, "g1"))) == []
    assert nodes_held(tree) == {"g0": 1, "g1": 1}


def test_a_group_that_lacks_a_gang_gives() -> None:
    tree = starved_gangs(2, 2)
    tell(tree, applied(define(1, 2, "nobody")))

    assert satisfied(tree) == ["g0"]
    assert nodes_held(tree) == {"g0": 2, "g1": 0}


def test_a_group_that_lacks_children_gives() -> None:
    tree = starved_gangs(2, 2)
    tell(tree, RemoveAsk("g1", "x-1"))

    assert satisfied(tree) == ["g0"]


@pytest.mark.parametrize("lack", [applied(define(0, 2, "nobody")), RemoveAsk("g0", "x-1")])
def test_a_group_that_lacks_something_is_not_helped(lack: Event) -> None:
    tree = starved_gangs(2, 2)

    assert lines_of_kinds(tell(tree, lack), "warning", "bound") == []
    assert nodes_held(tree) == {"g0": 1, "g1": 1}


# What follows


def test_one_deadlock_after_the_other_is_resolved_in_one_batch() -> None:
    tree = starved_gangs(2, 2, 9, 9)

    lines = tell(tree)
    assert len(lines_of_kinds(lines, "warning")) == 2
    assert lines_of_kinds(lines, "released") == [
        "released g3/x-0 n3 deadlock",
        "released g2/x-0 n2 deadlock",
    ]
    assert satisfied(tree) == ["g0", "g1"]


def test_what_is_left_over_is_for_the_rounds() -> None:
    tree = starved_gangs(2, 2)
    tell(tree)
    tree.settle(applied(gang("big", 1, "lock")), AddNode("m", Resources({"vcore": 3})))
    tell(tree)
    assert satisfied(tree) == ["g0", "g1"]


def test_the_helped_are_bound_before_any_other_ask() -> None:
    tree = starved_gangs(2, 2)
    lines = tell(tree, wish("g1", "plain", 99))

    bound = lines_of_kinds(lines, "bound")
    assert bound == ["bound g0/x-0 n0", "bound g0/x-1 n1"]


def test_only_the_members_that_are_missing_are_placed() -> None:
    tree = starved_gangs(2, 2, 2)
    lines = tell(tree, members("g0", "more", app="g0", priority=-1))

    assert lines_of_kinds(lines, "bound") == ["bound g0/x-0 n0", "bound g0/x-1 n2"]
    assert nodes_held(tree) == {"g0": 2, "g1": 1, "g2": 0}


def test_a_bind_that_fails_sends_one_member_back_alone() -> None:
    tree = starved_gangs(2, 2)

    lines = tell(tree, FailBind("g0", "x-1"))
    assert lines[lines.index("gang_satisfied default/g0") :] == [
        "gang_satisfied default/g0",
        "bound g0/x-0 n0",
        "released g0/x-1 n1 bind_failed",
        # The node is free again, and g1 has less than g0 by now.
        "assigned g1/x-0 n1",
        "waiting g1/x-0 n1",
    ]
    assert satisfied(tree) == ["g0"]


# Messages


def test_a_reported_deadlock_changes_nothing_and_is_logged_once_a_batch() -> None:
    tree = starved_gangs(2, 2, 2, report=True)

    for _ in range(2):
        (line,) = tell(tree, gang("another", 1))
        assert line.startswith("warning deadlock of gangs: default/g0 ")
        tree.settle(RemoveGang(full_gang_name("another")))
        assert nodes_held(tree) == {"g0": 1, "g1": 1, "g2": 1}


def test_the_warning_names_every_gang_of_every_group() -> None:
    tree = starved_gangs(2, 2)
    other = (gang("other", 1, mode=LOOSE), members("other", "y", app="g1"))
    (warning,) = lines_of_kinds(tell(tree, *other, applied(define(1, 2, "other"))), "warning")

    assert all(full_gang_name(name) in warning for name in ("g0", "g1", "other"))
