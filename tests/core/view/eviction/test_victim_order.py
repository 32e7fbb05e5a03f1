"""The rules of reclaim and of preemption: what asks are worth, and the order of victims."""

from __future__ import annotations

import pytest

from muster_core.view.eviction.eligibility import Eligibility, Key, Losses
from tests.core.building import Queue, wish
from tests.core.view.eviction.contest import SIX, Contest, contest, share, tree_of, urgent


def in_order(made: Contest, eligibility: Eligibility, names: str, *, lost: str = "") -> list[str]:
    """Give asks in the order of victims, once others were taken."""
    losses = Losses()
    for victim in made.victims(lost):
        losses.take(victim, made.state.leaf_of(victim.app).upward())
    keyed: list[tuple[Key, str]] = []
    for name in names.split():
        victim = made.victim(name)
        side = eligibility.side(victim.app.identity.leaf)
        assert side is not None
        keyed.append((eligibility.key(side, victim, losses), name))
    return [name for _, name in sorted(keyed)]


def rank(made: Contest, eligibility: Eligibility, name: str) -> tuple[int, ...]:
    victim = made.victim(name)
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
    made = tree_of(properties)
    side = made.preempt("a/x").side(made.leaf("c").key)

    assert side is not None
    assert (side.worth(10), side.effective(3)) == (worth, of_victim)


def test_offsets_of_queues_above_both_do_not_count() -> None:
    made = tree_of({"p": {"priority_offset": "5"}, "q": {"priority_policy": "fence"}})
    side = made.preempt("a/x").side(made.leaf("q.p.b").key)

    assert side is not None
    assert (side.worth(10), side.effective(3)) == (10, 3)


def test_in_the_same_leaf_neither_offset_nor_fence_counts() -> None:
    made = tree_of({"a": {"priority_policy": "fence", "priority_offset": "-90"}})
    side = made.preempt("a/x").side(made.leaf("q.p.a").key)

    assert side is not None
    assert (side.worth(10), side.effective(3), side.guards) == (10, 3, ())


def test_it_is_not_clamped() -> None:
    made = tree_of({"a": {"priority_offset": "2147483647"}, "p": {"priority_offset": "2147483647"}})
    side = made.preempt("a/x").side(made.leaf("c").key)

    assert side is not None
    assert side.worth(10) == 10 + 2 * 2147483647


@pytest.mark.parametrize(("priority", "taken"), [(9, True), (10, False), (11, False)])
def test_only_what_is_worth_strictly_less_is_preempted(priority: int, taken: bool) -> None:
    made = contest(share("a", guaranteed=SIX), share("b"), n=1)
    made.tell(wish("b", "y", priority))
    made.tell(urgent("a"))

    assert made.preempt("a/x").may_take(made.victims("b/y"), Losses()) is taken
    assert made.reclaim("a/x").may_take(made.victims("b/y"), Losses())


# The order of victims


def ranked(*leaves: Queue, priorities: str = "0000") -> Contest:
    """Give an ask ``a/x`` and leaves with two asks each, of these priorities."""
    made = contest(share("a", guaranteed=SIX), *leaves, n=9)
    for number, priority in enumerate(priorities):
        app = leaves[number // 2]["name"]
        made.tell(wish(f"{app}", "xy"[number % 2], int(priority)))
    made.tell(urgent("a", vcore=6))
    return made


def test_the_lowest_queue_priority_first() -> None:
    made = ranked(share("b", queue_priority="2"), share("c", queue_priority="1"))
    eligibility = made.reclaim("a/x")

    assert in_order(made, eligibility, "b/x b/y c/x c/y") == ["c/y", "c/x", "b/y", "b/x"]
    assert (rank(made, eligibility, "b/x"), rank(made, eligibility, "c/y")) == ((2,), (1,))


def test_queue_priorities_are_compared_level_by_level() -> None:
    deep = share("q", share("d", queue_priority="9"), share("e"), queue_priority="1")
    made = contest(
        share("a", guaranteed=SIX),
        deep,
        share("b", queue_priority="1"),
        share("c", queue_priority="2"),
        n=9,
    )
    made.tell(*(wish(leaf, "x") for leaf in "bcde"))
    made.tell(urgent("a", vcore=6))
    eligibility = made.reclaim("a/x")

    assert [rank(made, eligibility, f"{leaf}/x") for leaf in "bcde"] == [(1,), (2,), (1, 9), (1,)]
    assert in_order(made, eligibility, "b/x c/x d/x e/x")[2:] == ["d/x", "c/x"]


def test_levels_begin_where_the_paths_part() -> None:
    made = tree_of(
        {"p": {"queue_priority": "7"}, "b": {"queue_priority": "3"}, "q": {"queue_priority": "8"}}
    )
    side = made.reclaim("a/x").side(made.leaf("q.p.b").key)

    assert side is not None
    assert side.queue_rank == (3,)


def test_then_the_leaf_with_the_largest_fair_share() -> None:
    made = ranked(share("b", guaranteed={"vcore": 3}), share("c", guaranteed={"vcore": 2}))
    eligibility = made.reclaim("a/x")

    assert in_order(made, eligibility, "b/x c/x") == ["c/x", "b/x"]
    assert in_order(made, eligibility, "b/x c/x", lost="c/y") == ["b/x", "c/x"]


def test_then_the_lowest_priority_then_the_newest() -> None:
    made = ranked(share("b"), share("c"), priorities="1001")

    assert in_order(made, made.reclaim("a/x"), "b/x b/y c/x c/y") == ["c/x", "b/y", "c/y", "b/x"]


def test_preemption_goes_by_effective_priority_then_the_newest() -> None:
    made = ranked(share("b"), share("c", priority_offset="1"), priorities="2110")
    eligibility = made.preempt("a/x")

    assert in_order(made, eligibility, "b/x b/y c/x c/y") == ["c/y", "b/y", "c/x", "b/x"]
    assert [rank(made, eligibility, name) for name in ("b/x", "b/y", "c/y")] == [(2,), (1,), (1,)]


def test_behind_a_fence_only_age_counts() -> None:
    made = ranked(share("b", priority_policy="fence"), share("c"), priorities="0500")
    eligibility = made.preempt("a/x")
    fenced, other = (eligibility.side(made.leaf(name).key) for name in "bc")

    assert fenced is not None
    assert other is not None
    assert (eligibility.sorts_by_priority(fenced), eligibility.sorts_by_priority(other)) == (
        False,
        True,
    )
    assert in_order(made, eligibility, "b/x b/y") == ["b/y", "b/x"]


@pytest.mark.parametrize("kind", ["reclaim", "preempt"])
def test_no_victim_is_below_the_floor(kind: str) -> None:
    made = ranked(
        share("b", queue_priority="2", priority_offset="3"), share("c"), priorities="2143"
    )
    eligibility: Eligibility = made.reclaim("a/x") if kind == "reclaim" else made.preempt("a/x")
    victim_index = made.victim_index()
    for leaf in "bc":
        side, lowest = (
            eligibility.side(made.leaf(leaf).key),
            victim_index.lowest_of(made.leaf(leaf).key),
        )
        assert side is not None
        assert lowest is not None
        floor = min(rank(made, eligibility, f"{leaf}/{name}") for name in "xy")
        assert eligibility.floor(side, lowest) == floor


# What is said


def test_why_victims_are_taken() -> None:
    made = contest(share("a", guaranteed=SIX, priority_offset="5"), share("b"), n=1)
    made.tell(wish("b", "y", 3))
    made.tell(urgent("a"))
    victim = made.victim("b/y")

    assert made.reclaim("a/x").why(victim) == "for a/x: root.a is below its guaranteed"
    assert made.preempt("a/x").why(victim) == "for a/x: its effective priority 15 is above 3"
