"""The rules of reclaim and of preemption.

Who can be a victim, what asks are worth, in which order victims go, and which members of gangs
go together.
"""

from __future__ import annotations

import pytest

from muster_core.events import AddNode, Configure, Event, Release, RemoveGang
from muster_core.resources import Resources
from muster_core.view.eviction.actions import claimant_of
from muster_core.view.eviction.eligibility import Eligibility, Key, Losses
from muster_core.view.eviction.victims import UnitTracker
from tests.core.admission.objects import LOOSE, full_gang_name, gang, members
from tests.core.building import Queue, configuration, wish
from tests.core.view.eviction.contest import (
    SIX,
    Amounts,
    Contest,
    contest,
    names,
    share,
    tree_of,
    urgent,
)


def reachable(tree: Contest, eligibility: Eligibility) -> set[str]:
    """Return the leaves of which asks can be victims, by name."""
    leaves = tree.state.leaves_below(tree.state.root)
    return {leaf.config.name for leaf in leaves if eligibility.side(leaf.key) is not None}


def may_take(tree: Contest, eligibility: Eligibility, unit: str, *, lost: str = "") -> bool:
    """Return whether asks may be taken together, once others were."""
    losses = Losses()
    for victim in tree.victims(lost):
        losses.take(victim, tree.state.leaf_of(victim.app).upward())
    return eligibility.may_take(tree.victims(unit), losses)


# The claimant


@pytest.mark.parametrize(
    ("guaranteed", "claims"),
    [
        ({"vcore": 3}, True),
        ({"vcore": 2}, False),
        ({"memory": 9}, False),
        ({}, False),
        ({"vcore": 3, "memory": 1}, True),
        ({"vcore": 2, "memory": 9}, False),
    ],
)
def test_what_a_queue_may_reclaim(guaranteed: dict[str, int], claims: bool) -> None:
    tree = contest(share("a", guaranteed=guaranteed), n=2)
    tree.tell(wish("a", "held", vcore=2))
    tree.tell(wish("a", "x", vcore=1))

    assert (claimant_of(tree.leaf("a"), tree.ask("a/x")[1]) is not None) is claims


def test_a_type_of_the_ask_beyond_its_guarantee_forbids_it() -> None:
    tree = contest(share("a", guaranteed={"vcore": 9, "memory": 1}))
    tree.tell(wish("a", "x", vcore=1, memory=2), wish("a", "y", vcore=1, gpu=7))
    tree.tell(wish("a", "z", vcore=10, memory=1))

    leaf = tree.leaf("a")
    assert claimant_of(leaf, tree.ask("a/x")[1]) is None
    assert claimant_of(leaf, tree.ask("a/y")[1]) is leaf
    assert claimant_of(leaf, tree.ask("a/z")[1]) is None


def test_the_nearest_queue_that_may_reclaim_does() -> None:
    tree = contest(share("p", share("a", guaranteed={"vcore": 2}), guaranteed=SIX))
    tree.tell(wish("a", "x", vcore=2), wish("a", "y", vcore=3), wish("a", "z", vcore=7))
    leaf = tree.leaf("p.a")

    assert claimant_of(leaf, tree.ask("a/x")[1]) is leaf
    assert claimant_of(leaf, tree.ask("a/y")[1]) is leaf.parent
    assert claimant_of(leaf, tree.ask("a/z")[1]) is None


# Who is in scope


FENCE, DISABLED = {"preemption_policy": "fence"}, {"preemption_policy": "disabled"}


@pytest.mark.parametrize(
    ("properties", "reclaims", "preempts"),
    [
        ({}, "bcd", "abcd"),
        ({"a": FENCE}, "", "a"),
        ({"p": FENCE}, "b", "ab"),
        ({"q": FENCE}, "bd", "abd"),
        ({"p": FENCE, "q": FENCE}, "b", "ab"),
        ({"b": FENCE, "c": FENCE}, "bcd", "abcd"),
        ({"b": DISABLED}, "cd", "acd"),
        ({"p": DISABLED}, "cd", "cd"),
        ({"b": {"queue_reclaimable": "false"}}, "cd", "abcd"),
        ({"q": {"queue_reclaimable": "false"}}, "c", "abcd"),
    ],
)
def test_whose_asks_can_be_victims(
    properties: dict[str, dict[str, str]], reclaims: str, preempts: str
) -> None:
    tree = tree_of(properties)

    assert reachable(tree, tree.reclaim("a/x")) == set(reclaims)
    assert reachable(tree, tree.preempt("a/x")) == set(preempts)


def test_an_ask_inside_the_claimant_is_no_victim() -> None:
    tree = tree_of(p=SIX)

    assert reachable(tree, tree.reclaim("a/x")) == {"c", "d"}


def test_a_fence_below_the_claimant_is_none() -> None:
    tree = tree_of({"a": FENCE}, p=SIX)

    assert reachable(tree, tree.reclaim("a/x")) == {"c", "d"}


def test_members_of_the_asking_group_are_no_victims() -> None:
    tree = contest(share("a", guaranteed=SIX), share("b"), n=2)
    tree.tell(gang("g", 1), gang("h", 1), members("g", "m", app="b"), members("h", "m2", app="b"))
    tree.tell(urgent("a", "x"))
    exempt = frozenset({"default/g"})

    for eligibility in (tree.reclaim("a/x", exempt), tree.preempt("a/x", exempt)):
        assert not may_take(tree, eligibility, "b/m")
        assert may_take(tree, eligibility, "b/m2")
        assert not may_take(tree, eligibility, "b/m2 b/m")


# Guarantees


def contenders(**guaranteed: Amounts) -> Contest:
    """Return a claimant ``a``, and ``b`` below ``p`` with ``b/x`` of 1 and ``b/y`` of 2."""
    b, c = share("b", guaranteed=guaranteed.get("b")), share("c")
    p = share("p", b, c, guaranteed=guaranteed.get("p"))
    tree = contest(share("a", guaranteed=SIX), p, n=4)
    tree.tell(wish("b", "x"), wish("b", "y", vcore=2))
    tree.tell(urgent("a", "x", vcore=2))
    return tree


@pytest.mark.parametrize(
    ("guaranteed", "x", "y", "both"),
    [({}, True, True, True), ({"vcore": 1}, True, True, False), ({"vcore": 2}, True, False, False)],
)
@pytest.mark.parametrize("queue", ["b", "p"])
def test_queues_keep_what_they_are_guaranteed(
    queue: str, guaranteed: dict[str, int], x: bool, y: bool, both: bool
) -> None:
    tree = contenders(**{queue: guaranteed})

    for eligibility in (tree.reclaim("a/x"), tree.preempt("a/x")):
        assert [may_take(tree, eligibility, unit) for unit in ("b/x", "b/y", "b/x b/y")] == [
            x,
            y,
            both,
        ]
        assert may_take(tree, eligibility, "b/y", lost="b/x") is both


def test_a_guarantee_of_types_that_a_victim_has_not_does_not_matter() -> None:
    tree = contenders(b={"memory": 5})

    assert may_take(tree, tree.reclaim("a/x"), "b/x b/y")


def test_the_leaf_of_a_victim_of_reclaim_is_above_its_guarantee_in_some_type() -> None:
    tree = contest(share("a", guaranteed=SIX), share("b", guaranteed={"vcore": 4}), n=4)
    tree.tell(wish("b", "x", vcore=1), wish("b", "y", vcore=3))
    tree.tell(urgent("a", "x"))

    assert not may_take(tree, tree.reclaim("a/x"), "b/x")
    assert not may_take(tree, tree.preempt("a/x"), "b/x")


def test_inside_the_same_leaf_nothing_is_guaranteed() -> None:
    tree = contest(share("p", share("a", guaranteed={"vcore": 2}), guaranteed=SIX), n=2)
    tree.tell(wish("a", "low", vcore=2))
    tree.tell(urgent("a"))

    assert may_take(tree, tree.preempt("a/x"), "a/low")


def test_the_common_queue_may_lose() -> None:
    tree = contest(share("p", share("a"), share("b"), guaranteed=SIX), n=2)
    tree.tell(wish("b", "low", vcore=2))
    tree.tell(urgent("a"))

    assert may_take(tree, tree.preempt("a/x"), "b/low")


# Headroom and losses


def test_where_headroom_is_lacking() -> None:
    tree = contest(share("p", share("a", most={"vcore": 3}), share("b"), most={"vcore": 4}), n=9)
    tree.tell(wish("b", "y", vcore=3))
    tree.tell(urgent("a", vcore=2))
    eligibility, losses = tree.preempt("a/x"), Losses()
    parent = tree.leaf("p.a").parent
    assert parent is not None
    assert eligibility.lacking(losses) == {parent.key: {"vcore"}}

    losses.take(tree.victim("b/y"), tree.leaf("p.b").upward())
    assert eligibility.lacking(losses) == {}
    losses.spare(tree.victim("b/y"), tree.leaf("p.b").upward())
    assert eligibility.lacking(losses) == {parent.key: {"vcore"}}


def test_a_type_that_the_ask_has_none_of_lacks_nowhere() -> None:
    tree = contest(share("a", most={"memory": 2}))
    tree.tell(AddNode("n", Resources({"vcore": 1, "memory": 2})), wish("a", "y", memory=2))
    tree.tell(Configure(configuration(share("a", most={"memory": 1}))), urgent("a", vcore=2))

    assert tree.preempt("a/x").lacking(Losses()) == {}


def test_what_is_lost_counts_on_the_whole_path() -> None:
    tree = contenders()
    losses, leaf = Losses(), tree.leaf("p.b")
    losses.take(tree.victim("b/y"), leaf.upward())

    assert [losses.left(queue, "vcore") for queue in leaf.upward()] == [1, 1, 1]
    assert losses.left(tree.leaf("p.c"), "vcore") == 0


def test_the_fair_share_with_losses() -> None:
    tree = contest(share("b", guaranteed={"vcore": 4}), n=4)
    tree.settle(AddNode("m", Resources({"memory": 8})))
    tree.tell(wish("b", "x", vcore=3), wish("b", "y", memory=4))
    losses, leaf, total = Losses(), tree.leaf("b"), tree.state.total
    assert losses.share(leaf, total) == 0.75
    losses.take(tree.victim("b/x"), leaf.upward())
    assert losses.share(leaf, total) == 0.5
    losses.spare(tree.victim("b/x"), leaf.upward())

    assert losses.share(leaf, total) == 0.75


def test_how_much_a_leaf_can_give_at_most() -> None:
    tree = contenders(b={"vcore": 2}, p={"vcore": 2, "memory": 1})
    side = tree.reclaim("a/x").side(tree.leaf("p.b").key)

    assert side is not None
    assert (side.surplus("vcore"), side.surplus("memory")) == (1, -1)


def test_a_leaf_can_give_itself_everything() -> None:
    tree = contenders()
    side = tree.preempt("a/x").side(tree.leaf("a").key)

    assert side is not None
    assert side.surplus("vcore") is None


def in_order(tree: Contest, eligibility: Eligibility, names: str, *, lost: str = "") -> list[str]:
    """Return asks in the order of victims, once others were taken."""
    losses = Losses()
    for victim in tree.victims(lost):
        losses.take(victim, tree.state.leaf_of(victim.app).upward())
    keyed: list[tuple[Key, str]] = []
    for name in names.split():
        victim = tree.victim(name)
        side = eligibility.side(victim.app.identity.leaf)
        assert side is not None
        keyed.append((eligibility.key(side, victim, losses), name))
    return [name for _, name in sorted(keyed)]


def rank(tree: Contest, eligibility: Eligibility, name: str) -> tuple[int, ...]:
    victim = tree.victim(name)
    side = eligibility.side(victim.app.identity.leaf)
    assert side is not None
    return eligibility.rank(side, victim)


# Effective priority


@pytest.mark.parametrize(
    ("properties", "worth", "of_victim"),
    [
        ({}, 10, 3),
        ({"a": {"priority_offset": "5"}}, 15, 3),
        ({"a": {"priority_offset": "5"}, "p": {"priority_offset": "-2"}}, 13, 3),
        ({"c": {"priority_offset": "-7"}}, 10, -4),
        ({"a": {"priority_policy": "fence", "priority_offset": "5"}}, 5, 3),
        ({"p": {"priority_policy": "fence"}, "a": {"priority_offset": "5"}}, 0, 3),
        ({"a": {"priority_policy": "fence"}, "q": {"priority_offset": "4"}}, 4, 3),
        ({"c": {"priority_policy": "fence", "priority_offset": "2"}}, 10, 2),
    ],
)
def test_what_asks_are_worth_where_their_paths_meet(
    properties: dict[str, dict[str, str]], worth: int, of_victim: int
) -> None:
    tree = tree_of(properties)
    side = tree.preempt("a/x").side(tree.leaf("c").key)

    assert side is not None
    assert (side.worth(10), side.effective(3)) == (worth, of_victim)


def test_offsets_of_queues_above_both_do_not_count() -> None:
    tree = tree_of({"p": {"priority_offset": "5"}, "q": {"priority_policy": "fence"}})
    side = tree.preempt("a/x").side(tree.leaf("q.p.b").key)

    assert side is not None
    assert (side.worth(10), side.effective(3)) == (10, 3)


def test_in_the_same_leaf_neither_offset_nor_fence_counts() -> None:
    tree = tree_of({"a": {"priority_policy": "fence", "priority_offset": "-90"}})
    side = tree.preempt("a/x").side(tree.leaf("q.p.a").key)

    assert side is not None
    assert (side.worth(10), side.effective(3), side.guards) == (10, 3, ())


def test_it_is_not_clamped() -> None:
    tree = tree_of({"a": {"priority_offset": "2147483647"}, "p": {"priority_offset": "2147483647"}})
    side = tree.preempt("a/x").side(tree.leaf("c").key)

    assert side is not None
    assert side.worth(10) == 10 + 2 * 2147483647


@pytest.mark.parametrize(("priority", "taken"), [(9, True), (10, False), (11, False)])
def test_only_what_is_worth_strictly_less_is_preempted(priority: int, taken: bool) -> None:
    tree = contest(share("a", guaranteed=SIX), share("b"), n=1)
    tree.tell(wish("b", "y", priority))
    tree.tell(urgent("a"))

    assert tree.preempt("a/x").may_take(tree.victims("b/y"), Losses()) is taken
    assert tree.reclaim("a/x").may_take(tree.victims("b/y"), Losses())


# The order of victims


def ranked(*leaves: Queue, priorities: str = "0000") -> Contest:
    """Return an ask ``a/x`` and leaves with two asks each, of these priorities."""
    tree = contest(share("a", guaranteed=SIX), *leaves, n=9)
    for number, priority in enumerate(priorities):
        app = leaves[number // 2]["name"]
        tree.tell(wish(f"{app}", "xy"[number % 2], int(priority)))
    tree.tell(urgent("a", vcore=6))
    return tree


def test_the_lowest_queue_priority_first() -> None:
    tree = ranked(share("b", queue_priority="2"), share("c", queue_priority="1"))
    eligibility = tree.reclaim("a/x")

    assert in_order(tree, eligibility, "b/x b/y c/x c/y") == ["c/y", "c/x", "b/y", "b/x"]
    assert (rank(tree, eligibility, "b/x"), rank(tree, eligibility, "c/y")) == ((2,), (1,))


def test_queue_priorities_are_compared_level_by_level() -> None:
    deep = share("q", share("d", queue_priority="9"), share("e"), queue_priority="1")
    tree = contest(
        share("a", guaranteed=SIX),
        deep,
        share("b", queue_priority="1"),
        share("c", queue_priority="2"),
        n=9,
    )
    tree.tell(*(wish(leaf, "x") for leaf in "bcde"))
    tree.tell(urgent("a", vcore=6))
    eligibility = tree.reclaim("a/x")

    assert [rank(tree, eligibility, f"{leaf}/x") for leaf in "bcde"] == [(1,), (2,), (1, 9), (1,)]
    assert in_order(tree, eligibility, "b/x c/x d/x e/x")[2:] == ["d/x", "c/x"]


def test_levels_begin_where_the_paths_part() -> None:
    tree = tree_of(
        {"p": {"queue_priority": "7"}, "b": {"queue_priority": "3"}, "q": {"queue_priority": "8"}}
    )
    side = tree.reclaim("a/x").side(tree.leaf("q.p.b").key)

    assert side is not None
    assert side.queue_rank == (3,)


def test_then_the_leaf_with_the_largest_fair_share() -> None:
    tree = ranked(share("b", guaranteed={"vcore": 3}), share("c", guaranteed={"vcore": 2}))
    eligibility = tree.reclaim("a/x")

    assert in_order(tree, eligibility, "b/x c/x") == ["c/x", "b/x"]
    assert in_order(tree, eligibility, "b/x c/x", lost="c/y") == ["b/x", "c/x"]


def test_then_the_lowest_priority_then_the_newest() -> None:
    tree = ranked(share("b"), share("c"), priorities="1001")

    assert in_order(tree, tree.reclaim("a/x"), "b/x b/y c/x c/y") == ["c/x", "b/y", "c/y", "b/x"]


def test_preemption_goes_by_effective_priority_then_the_newest() -> None:
    tree = ranked(share("b"), share("c", priority_offset="1"), priorities="2110")
    eligibility = tree.preempt("a/x")

    assert in_order(tree, eligibility, "b/x b/y c/x c/y") == ["c/y", "b/y", "c/x", "b/x"]
    assert [rank(tree, eligibility, name) for name in ("b/x", "b/y", "c/y")] == [(2,), (1,), (1,)]


def test_behind_a_fence_only_age_counts() -> None:
    tree = ranked(share("b", priority_policy="fence"), share("c"), priorities="0500")
    eligibility = tree.preempt("a/x")
    fenced, other = (eligibility.side(tree.leaf(name).key) for name in "bc")

    assert fenced is not None
    assert other is not None
    assert (eligibility.sorts_by_priority(fenced), eligibility.sorts_by_priority(other)) == (
        False,
        True,
    )
    assert in_order(tree, eligibility, "b/x b/y") == ["b/y", "b/x"]


@pytest.mark.parametrize("kind", ["reclaim", "preempt"])
def test_no_victim_is_below_the_floor(kind: str) -> None:
    tree = ranked(
        share("b", queue_priority="2", priority_offset="3"), share("c"), priorities="2143"
    )
    eligibility: Eligibility = tree.reclaim("a/x") if kind == "reclaim" else tree.preempt("a/x")
    victim_index = tree.victim_index()
    for leaf in "bc":
        side, lowest = (
            eligibility.side(tree.leaf(leaf).key),
            victim_index.lowest_of(tree.leaf(leaf).key),
        )
        assert side is not None
        assert lowest is not None
        floor = min(rank(tree, eligibility, f"{leaf}/{name}") for name in "xy")
        assert eligibility.floor(side, lowest) == floor


# Messages


def test_why_victims_are_taken() -> None:
    tree = contest(share("a", guaranteed=SIX, priority_offset="5"), share("b"), n=1)
    tree.tell(wish("b", "y", 3))
    tree.tell(urgent("a"))
    victim = tree.victim("b/y")

    assert tree.reclaim("a/x").why(victim) == "for a/x: root.a is below its guaranteed"
    assert tree.preempt("a/x").why(victim) == "for a/x: its effective priority 15 is above 3"


def bound_gang(*events: Event, need: int, count: int) -> Contest:
    """Return a tree in which so many members ``b/x-0``, … of a gang ``g`` are bound."""
    tree = contest(share("a"), share("b"), n=9)
    tree.tell(gang("g", need, mode=LOOSE), members("g", "x", count, app="b"), *events)
    return tree


def unit(tree: Contest, of: str, *, taken: str = "") -> str:
    """Return who goes with a member, once others were taken."""
    gang_index = UnitTracker(tree.state)
    gang_index.take(tree.victims(taken))
    return names(gang_index.unit_of(tree.victim(of)))


def test_a_member_that_can_be_spared_goes_alone() -> None:
    tree = bound_gang(need=2, count=3)

    assert unit(tree, "b/x-1") == "b/x-1"


def test_all_go_if_one_more_would_be_too_few() -> None:
    tree = bound_gang(need=2, count=2)

    assert unit(tree, "b/x-1") == "b/x-0 b/x-1"


def test_those_that_were_taken_are_not_there_any_more() -> None:
    tree = bound_gang(need=2, count=4)

    assert unit(tree, "b/x-1", taken="b/x-0") == "b/x-1"
    assert unit(tree, "b/x-1", taken="b/x-0 b/x-3") == "b/x-1 b/x-2"


def test_a_member_that_was_spared_is_there_again() -> None:
    tree = bound_gang(need=2, count=3)
    gang_index = UnitTracker(tree.state)
    first = tree.victims("b/x-0")
    gang_index.take(first)
    assert gang_index.is_taken(first[0])
    gang_index.spare(first)

    assert not gang_index.is_taken(first[0])
    assert names(gang_index.unit_of(tree.victim("b/x-2"))) == "b/x-2"


def test_the_same_name_in_another_application_is_another_ask() -> None:
    tree = contest(share("a"), share("b"), n=9)
    tree.tell(wish("a", "x"), wish("b", "x"))
    gang_index = UnitTracker(tree.state)
    gang_index.take(tree.victims("a/x"))

    assert gang_index.is_taken(tree.victim("a/x"))
    assert not gang_index.is_taken(tree.victim("b/x"))


def test_members_in_several_applications_go_together() -> None:
    tree = bound_gang(members("g", "y", app="a"), need=3, count=2)

    assert set(unit(tree, "a/y").split()) == {"a/y", "b/x-0", "b/x-1"}


def test_a_waiting_member_takes_all_that_wait_of_its_group_and_no_others() -> None:
    tree = contest(share("a"), share("b"), share("c"), n=2)
    other = (gang("other", 9, mode=LOOSE), members("other", "z", 9, app="c"))
    tree.tell(*other)
    tree.add_nodes("m", vcore=3)
    tree.enter(gang("g", 3, "h", mode=LOOSE), members("g", "x", 3, app="b"))
    tree.tell(gang("h", 3, mode=LOOSE), members("h", "y", 3, app="a"))
    assert len(tree.app("c").waiting) == 2

    for of in ("b/x-0", "a/y-1"):
        assert sorted(unit(tree, of).split()) == ["a/y-0", "a/y-1", "b/x-0"]


@pytest.mark.parametrize("again", [False, True])
def test_a_member_of_a_gang_that_is_not_satisfied_goes_alone(again: bool) -> None:
    tree = bound_gang(need=3, count=3)
    tree.tell(RemoveGang(full_gang_name("g")))
    if again:
        tree.tell(gang("g", 9))

    assert unit(tree, "b/x-1") == "b/x-1"


# Sparing


def breaks(tree: Contest, spared: str, *, taken: str) -> bool:
    gang_index = UnitTracker(tree.state)
    gang_index.take(tree.victims(taken))
    return gang_index.would_break(tree.victims(spared))


def test_to_spare_a_part_of_a_gang_breaks_it() -> None:
    tree = bound_gang(need=2, count=3)
    members = "b/x-0 b/x-1 b/x-2"

    assert breaks(tree, "b/x-0", taken=members)
    assert not breaks(tree, "b/x-0 b/x-1", taken=members)
    assert not breaks(tree, members, taken=members)
    assert not breaks(tree, "b/x-0", taken="b/x-0 b/x-1")


def test_a_gang_of_which_some_have_finished_is_spared_as_it_is() -> None:
    tree = bound_gang(need=2, count=2)
    tree.tell(Release("b", "x-0"))

    assert not breaks(tree, "b/x-1", taken="b/x-1")


def test_a_plain_ask_breaks_nothing() -> None:
    tree = bound_gang(wish("b", "plain"), need=2, count=2)

    assert not breaks(tree, "b/plain", taken="b/plain b/x-0 b/x-1")


def test_a_gang_that_is_not_defined_cannot_be_broken() -> None:
    tree = bound_gang(need=2, count=2)
    tree.tell(RemoveGang(full_gang_name("g")))

    assert not breaks(tree, "b/x-0", taken="b/x-0 b/x-1")
