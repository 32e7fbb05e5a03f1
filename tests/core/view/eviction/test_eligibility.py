"""The rules of reclaim and of preemption: who can be a victim at all."""

from __future__ import annotations

import pytest

from muster_core.events import AddNode, Configure
from muster_core.resources import Resources
from muster_core.view.eviction.actions import claimant_of
from muster_core.view.eviction.eligibility import Eligibility, Losses
from tests.core.admission.objects import gang, members
from tests.core.building import configuration, wish
from tests.core.view.eviction.contest import SIX, Amounts, Contest, contest, share, tree_of, urgent


def reachable(made: Contest, eligibility: Eligibility) -> set[str]:
    """Give the leaves of which asks can be victims, by name."""
    leaves = made.state.leaves_below(made.state.root)
    return {leaf.config.name for leaf in leaves if eligibility.side(leaf.key) is not None}


def may_take(made: Contest, eligibility: Eligibility, unit: str, *, lost: str = "") -> bool:
    """Say whether asks may be taken together, once others were."""
    losses = Losses()
    for victim in made.victims(lost):
        losses.take(victim, made.state.leaf_of(victim.app).upward())
    return eligibility.may_take(made.victims(unit), losses)


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
    made = contest(share("a", guaranteed=guaranteed), n=2)
    made.tell(wish("a", "held", vcore=2))
    made.tell(wish("a", "x", vcore=1))

    assert (claimant_of(made.leaf("a"), made.ask("a/x")[1]) is not None) is claims


def test_a_type_of_the_ask_beyond_its_guarantee_forbids_it() -> None:
    made = contest(share("a", guaranteed={"vcore": 9, "memory": 1}))
    made.tell(wish("a", "x", vcore=1, memory=2), wish("a", "y", vcore=1, gpu=7))
    made.tell(wish("a", "z", vcore=10, memory=1))

    leaf = made.leaf("a")
    assert claimant_of(leaf, made.ask("a/x")[1]) is None
    assert claimant_of(leaf, made.ask("a/y")[1]) is leaf
    assert claimant_of(leaf, made.ask("a/z")[1]) is None


def test_the_nearest_queue_that_may_reclaim_does() -> None:
    made = contest(share("p", share("a", guaranteed={"vcore": 2}), guaranteed=SIX))
    made.tell(wish("a", "x", vcore=2), wish("a", "y", vcore=3), wish("a", "z", vcore=7))
    leaf = made.leaf("p.a")

    assert claimant_of(leaf, made.ask("a/x")[1]) is leaf
    assert claimant_of(leaf, made.ask("a/y")[1]) is leaf.parent
    assert claimant_of(leaf, made.ask("a/z")[1]) is None


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
    made = tree_of(properties)

    assert reachable(made, made.reclaim("a/x")) == set(reclaims)
    assert reachable(made, made.preempt("a/x")) == set(preempts)


def test_whoever_is_inside_the_claimant_is_no_victim() -> None:
    made = tree_of(p=SIX)

    assert reachable(made, made.reclaim("a/x")) == {"c", "d"}


def test_a_fence_below_the_claimant_is_none() -> None:
    made = tree_of({"a": FENCE}, p=SIX)

    assert reachable(made, made.reclaim("a/x")) == {"c", "d"}


def test_members_of_the_asking_group_are_no_victims() -> None:
    made = contest(share("a", guaranteed=SIX), share("b"), n=2)
    made.tell(gang("g", 1), gang("h", 1), members("g", "m", app="b"), members("h", "m2", app="b"))
    made.tell(urgent("a", "x"))
    exempt = frozenset({"default/g"})

    for eligibility in (made.reclaim("a/x", exempt), made.preempt("a/x", exempt)):
        assert not may_take(made, eligibility, "b/m")
        assert may_take(made, eligibility, "b/m2")
        assert not may_take(made, eligibility, "b/m2 b/m")


# Guarantees


def contenders(**guaranteed: Amounts) -> Contest:
    """Give ``a`` that wants something, and ``b`` below ``p`` with ``b/x`` of 1 and ``b/y`` of 2."""
    b, c = share("b", guaranteed=guaranteed.get("b")), share("c")
    p = share("p", b, c, guaranteed=guaranteed.get("p"))
    made = contest(share("a", guaranteed=SIX), p, n=4)
    made.tell(wish("b", "x"), wish("b", "y", vcore=2))
    made.tell(urgent("a", "x", vcore=2))
    return made


@pytest.mark.parametrize(
    ("guaranteed", "x", "y", "both"),
    [({}, True, True, True), ({"vcore": 1}, True, True, False), ({"vcore": 2}, True, False, False)],
)
@pytest.mark.parametrize("queue", ["b", "p"])
def test_queues_keep_what_they_are_guaranteed(
    queue: str, guaranteed: dict[str, int], x: bool, y: bool, both: bool
) -> None:
    made = contenders(**{queue: guaranteed})

    for eligibility in (made.reclaim("a/x"), made.preempt("a/x")):
        assert [may_take(made, eligibility, unit) for unit in ("b/x", "b/y", "b/x b/y")] == [
            x,
            y,
            both,
        ]
        assert may_take(made, eligibility, "b/y", lost="b/x") is both


def test_a_guarantee_of_types_that_a_victim_has_not_does_not_matter() -> None:
    made = contenders(b={"memory": 5})

    assert may_take(made, made.reclaim("a/x"), "b/x b/y")


def test_the_leaf_of_a_victim_of_reclaim_is_above_its_guarantee_in_some_type() -> None:
    made = contest(share("a", guaranteed=SIX), share("b", guaranteed={"vcore": 4}), n=4)
    made.tell(wish("b", "x", vcore=1), wish("b", "y", vcore=3))
    made.tell(urgent("a", "x"))

    assert not may_take(made, made.reclaim("a/x"), "b/x")
    assert not may_take(made, made.preempt("a/x"), "b/x")


def test_inside_the_same_leaf_nothing_is_guaranteed() -> None:
    made = contest(share("p", share("a", guaranteed={"vcore": 2}), guaranteed=SIX), n=2)
    made.tell(wish("a", "low", vcore=2))
    made.tell(urgent("a"))

    assert may_take(made, made.preempt("a/x"), "a/low")


def test_the_common_queue_may_lose() -> None:
    made = contest(share("p", share("a"), share("b"), guaranteed=SIX), n=2)
    made.tell(wish("b", "low", vcore=2))
    made.tell(urgent("a"))

    assert may_take(made, made.preempt("a/x"), "b/low")


# Headroom and losses


def test_where_headroom_is_lacking() -> None:
    made = contest(share("p", share("a", most={"vcore": 3}), share("b"), most={"vcore": 4}), n=9)
    made.tell(wish("b", "y", vcore=3))
    made.tell(urgent("a", vcore=2))
    eligibility, losses = made.preempt("a/x"), Losses()
    parent = made.leaf("p.a").parent
    assert parent is not None
    assert eligibility.lacking(losses) == {parent.key: {"vcore"}}

    losses.take(made.victim("b/y"), made.leaf("p.b").upward())
    assert eligibility.lacking(losses) == {}
    losses.spare(made.victim("b/y"), made.leaf("p.b").upward())
    assert eligibility.lacking(losses) == {parent.key: {"vcore"}}


def test_a_type_that_the_ask_has_none_of_lacks_nowhere() -> None:
    made = contest(share("a", most={"memory": 2}))
    made.tell(AddNode("n", Resources({"vcore": 1, "memory": 2})), wish("a", "y", memory=2))
    made.tell(Configure(configuration(share("a", most={"memory": 1}))), urgent("a", vcore=2))

    assert made.preempt("a/x").lacking(Losses()) == {}


def test_what_is_lost_counts_on_the_whole_path() -> None:
    made = contenders()
    losses, leaf = Losses(), made.leaf("p.b")
    losses.take(made.victim("b/y"), leaf.upward())

    assert [losses.left(queue, "vcore") for queue in leaf.upward()] == [1, 1, 1]
    assert losses.left(made.leaf("p.c"), "vcore") == 0


def test_the_fair_share_with_losses() -> None:
    made = contest(share("b", guaranteed={"vcore": 4}), n=4)
    made.settle(AddNode("m", Resources({"memory": 8})))
    made.tell(wish("b", "x", vcore=3), wish("b", "y", memory=4))
    losses, leaf, total = Losses(), made.leaf("b"), made.state.total
    assert losses.share(leaf, total) == 0.75
    losses.take(made.victim("b/x"), leaf.upward())
    assert losses.share(leaf, total) == 0.5
    losses.spare(made.victim("b/x"), leaf.upward())

    assert losses.share(leaf, total) == 0.75


def test_how_much_a_leaf_can_give_at_most() -> None:
    made = contenders(b={"vcore": 2}, p={"vcore": 2, "memory": 1})
    side = made.reclaim("a/x").side(made.leaf("p.b").key)

    assert side is not None
    assert (side.surplus("vcore"), side.surplus("memory")) == (1, -1)


def test_a_leaf_can_give_itself_everything() -> None:
    made = contenders()
    side = made.preempt("a/x").side(made.leaf("a").key)

    assert side is not None
    assert side.surplus("vcore") is None
