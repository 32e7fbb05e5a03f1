"""Who may take something from others, and in which order."""

from __future__ import annotations

import attrs
import pytest

from muster_core.config.model import Configuration
from muster_core.events import AddPriorityClass, Configure, Event, FailBind, RemoveAsk, UpdateNode
from muster_core.view.eviction.actions import EvictionAction, Preemption, Reclaim, exempt_gangs
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import Queue, configuration, wish
from tests.core.view.eviction.contest import Contest, contest, contest_with, share, share_of, urgent

HOUR_US = 3600 * 1_000_000
MUCH = {"vcore": 9}
STRICT_ORDER = {"application_sort_blocking": "enabled"}


def asks_looked_at(tree: Contest, action: EvictionAction, now_us: int = HOUR_US) -> list[str]:
    """Return the asks that are looked at, if none can take anything."""
    found: list[str] = []
    for preemptor in action.preemptors(now_us):
        if preemptor is None:
            continue
        app, ask = preemptor
        found.append(f"{app.identity.name}/{ask.name}")
        gang = None if ask.gang is None else tree.state.gangs[ask.gang]
        if gang is not None and not gang.satisfied:
            action.note_group_without_plan(tree.state.gang_index.group_of(gang))
        else:
            action.note_without_plan(app, ask, tree.state.shapes.find(ask.shape) or 0)
    return found


def reclaiming(tree: Contest, now_us: int = HOUR_US) -> list[str]:
    return asks_looked_at(tree, Reclaim(tree.state), now_us)


def preempting(tree: Contest, now_us: int = HOUR_US) -> list[str]:
    return asks_looked_at(tree, Preemption(tree.state), now_us)


def guaranteed_leaf(
    name: str, delay: str = "1h", *, blocking: bool = False, **properties: str
) -> Queue:
    """Return a leaf that is guaranteed much."""
    settings = {"preemption_delay": delay, **properties}
    return share_of(name, settings | (STRICT_ORDER if blocking else {}), guaranteed=MUCH)


# Who


def test_nobody_where_nothing_is_pending() -> None:
    tree = contest(guaranteed_leaf("a"), n=1)
    tree.tell(urgent("a"))

    assert (reclaiming(tree), preempting(tree)) == ([], [])


def test_who_reclaims_has_a_queue_that_is_owed_something() -> None:
    tree = contest(
        guaranteed_leaf("a"), share("b"), share("p", share("c"), guaranteed={"vcore": 2})
    )
    tree.tell(*(wish(app, f"x{vcore}", vcore=vcore) for app in "abc" for vcore in (1, 3)))
    tree.tell(wish("a", "big", vcore=10), wish("a", "other", memory=1))

    assert reclaiming(tree) == ["a/x1", "a/x3", "c/x1"]


def test_who_preempts_has_a_class_that_says_so() -> None:
    tree = contest(share("a"))
    tree.tell(AddPriorityClass("meek", 20), AddPriorityClass("mild", 5, preempts=True))
    for number, name in enumerate(("meek", "mild", "high")):
        event = wish("a", name, vcore=number + 1)
        tree.tell(attrs.evolve(event, priority_class=name))
    tree.tell(wish("a", "number", 30))

    assert preempting(tree) == ["a/high", "a/mild"]


@pytest.mark.parametrize("policy", ["fence", "disabled"])
def test_a_leaf_that_may_not_take_anything(policy: str) -> None:
    tree = contest(guaranteed_leaf("a", preemption_policy=policy))
    tree.tell(urgent("a"))

    assert reclaiming(tree) == preempting(tree) == (["a/x"] if policy == "fence" else [])


def test_a_partition_without_preemption() -> None:
    tree = contest_with([guaranteed_leaf("a")], {}, enabled=False)
    tree.tell(urgent("a"))

    assert (reclaiming(tree), preempting(tree)) == ([], [])


def test_only_asks_whose_delay_is_over() -> None:
    tree = contest(guaranteed_leaf("a"), guaranteed_leaf("b", "2h"))
    tree.tell(urgent("a", "early"), urgent("b"))
    tree.pass_time(5)
    tree.tell(urgent("a", "late"))

    for asks in (reclaiming, preempting):
        assert asks(tree, HOUR_US - 1) == []
        assert asks(tree, HOUR_US) == ["a/early"]
        assert asks(tree, 2 * HOUR_US) == ["a/early", "b/x"]


def test_an_ask_behind_one_whose_delay_runs_is_found() -> None:
    tree = contest(guaranteed_leaf("a"))
    tree.tell(urgent("a", "old"))
    tree.pass_time(5)
    tree.tell(attrs.evolve(urgent("a", "new", vcore=2), priority=10))
    tree.tell(wish("a", "newer", 99))

    assert reclaiming(tree, HOUR_US) == ["a/old"]


def test_of_asks_that_are_alike_one_speaks_for_all() -> None:
    tree = contest(guaranteed_leaf("a"))
    tree.tell(wish("a", "x", count=5), wish("a", "y", vcore=2), wish("a", "z", 7))

    assert reclaiming(tree) == ["a/z", "a/y"]


def test_asks_of_different_priorities_preempt_differently() -> None:
    tree = contest(share("a"))
    tree.tell(AddPriorityClass("mild", 5, preempts=True), urgent("a", "x"), urgent("a", "y"))
    tree.tell(attrs.evolve(wish("a", "z"), priority_class="mild"))

    assert preempting(tree) == ["a/x", "a/z"]


# In which order


def test_queues_applications_and_asks_are_in_the_order_of_the_rounds() -> None:
    tree = contest(
        guaranteed_leaf("a"),
        guaranteed_leaf("b", queue_priority="1"),
        guaranteed_leaf("c", priority_offset="50"),
    )
    tree.add_app("b2", "root.b")
    tree.tell(wish("b", "x", 1), wish("b2", "y", 2, vcore=2), wish("b2", "z", 3, vcore=3))
    tree.tell(wish("a", "x"), wish("c", "x", vcore=2), wish("c", "y"))

    assert reclaiming(tree) == ["b2/z", "b2/y", "b/x", "c/x", "c/y", "a/x"]


def test_overused_queues_are_included() -> None:
    tree = contest(
        share("p", guaranteed_leaf("a"), most={"vcore": 10}), share("b", most={"vcore": 0}), n=20
    )
    tree.tell(urgent("b"))

    assert preempting(tree) == ["b/x"]


def test_of_a_blocking_leaf_only_the_first() -> None:
    tree = contest(guaranteed_leaf("a", blocking=True), guaranteed_leaf("b"))
    tree.add_app("a2", "root.a")
    tree.tell(wish("a", "x"), wish("a", "y", 1, vcore=2), wish("a2", "z", vcore=3), wish("b"))

    assert reclaiming(tree) == ["a/y", "b/x"]


def test_the_first_of_a_blocking_leaf_though_it_may_take_nothing() -> None:
    tree = contest(guaranteed_leaf("a", blocking=True))
    tree.tell(wish("a", "x"), wish("a", "big", 1, vcore=99))

    assert reclaiming(tree) == []


@pytest.mark.parametrize("defined", [False, True])
def test_a_member_that_is_refused_does_not_block(defined: bool) -> None:
    tree = contest(guaranteed_leaf("a", blocking=True))
    if defined:
        tree.tell(gang("g", 2))
    tree.tell(members("g", "m", app="a", priority=5), wish("a", "x"))

    assert reclaiming(tree) == ["a/x"]


def test_applications_that_do_not_compete_are_left_out() -> None:
    tree = contest(guaranteed_leaf("a", application_sort_policy="stateaware"))
    tree.add_app("a2", "root.a")
    tree.tell(wish("a2", "x", 5), wish("a", "y", vcore=2))

    assert reclaiming(tree) == ["a2/x"]


# Groups


def test_a_group_has_its_turn_with_its_first_member() -> None:
    tree = contest(guaranteed_leaf("a"), guaranteed_leaf("b"))
    tree.enter(gang("g", 2, "h"), members("g", "m", app="a"), members("g", "n", app="a"))
    tree.tell(gang("h", 1), members("h", "o", app="b", priority=3), wish("a", "x", 1, vcore=2))

    assert reclaiming(tree) == ["b/o", "a/x"]


def test_a_group_has_its_turn_though_its_first_member_may_take_nothing() -> None:
    tree = contest(guaranteed_leaf("a"), share("b"))
    tree.tell(gang("g", 2), members("g", "m", app="b", priority=3), members("g", "n", app="a"))

    assert reclaiming(tree) == ["b/m"]


def test_a_group_that_cannot_be_complete_has_none() -> None:
    tree = contest(guaranteed_leaf("a"))
    tree.enter(gang("few", 3), members("few", "l", 2, app="a"))
    tree.enter(gang("lonely", 1, "nobody"), members("lonely", "m", app="a"))
    tree.tell(gang("late", 1), members("late", "n", app="a", timed_out=True))

    assert reclaiming(tree) == []


def test_surplus_members_have_none() -> None:
    tree = contest(guaranteed_leaf("a"), n=1)
    tree.enter(gang("g", 1, "h", mode=LOOSE), members("g", "m", 2, app="a"))
    tree.tell(gang("h", 1, mode=LOOSE), members("h", "o", app="a", priority=-1, vcore=5))
    assert list(tree.app("a").waiting) == ["m-0"]

    assert reclaiming(tree) == ["a/o"]


def test_a_member_of_a_satisfied_gang_stands_for_itself() -> None:
    tree = contest(guaranteed_leaf("a"), n=1)
    tree.tell(gang("g", 1), members("g", "m", 3, app="a"))

    assert reclaiming(tree) == ["a/m-1"]


# In vain


def test_what_was_found_in_vain_is_not_looked_at_again() -> None:
    tree = contest(guaranteed_leaf("a"))
    tree.tell(urgent("a"), gang("g", 1), members("g", "m", app="a"))
    reclaim, preempt = Reclaim(tree.state), Preemption(tree.state)

    assert sorted(asks_looked_at(tree, reclaim)) == ["a/m", "a/x"]
    assert asks_looked_at(tree, reclaim) == []
    assert "a/x" in asks_looked_at(tree, preempt)
    assert asks_looked_at(tree, preempt) == []


def limited() -> Configuration:
    leaf = share("a", guaranteed=MUCH, most={"vcore": 50})
    return configuration(leaf, props={"preemption.delay": "1h"})


@pytest.mark.parametrize(
    "change",
    [UpdateNode("n", schedulable=False), gang("other", 1), Configure(limited())],
    ids=lambda event: type(event).__name__,
)
def test_until_anything_has_changed(change: Event) -> None:
    tree = contest(guaranteed_leaf("a"), n=0)
    tree.tell(wish("a"))
    reclaim = Reclaim(tree.state)
    assert asks_looked_at(tree, reclaim) == ["a/x"]
    tree.tell(change)

    assert asks_looked_at(tree, reclaim) == ["a/x"]


def test_another_ask_that_is_alike_changes_nothing() -> None:
    tree = contest(guaranteed_leaf("a"))
    tree.tell(wish("a"))
    reclaim = Reclaim(tree.state)
    asks_looked_at(tree, reclaim)
    tree.tell(wish("a", "y", 9), FailBind("a", "y"), RemoveAsk("a", "x"), wish("a", "z", vcore=2))

    assert asks_looked_at(tree, reclaim) == ["a/z"]


def test_until_what_was_taken_and_lost_is_forgotten() -> None:
    tree = contest(guaranteed_leaf("a"), n=0)
    tree.tell(wish("a"))
    reclaim, eviction_history, found = (
        Reclaim(tree.state),
        tree.state.eviction_history,
        tree.app("a").pending["x"],
    )
    eviction_history.note(tree.app("a").identity.key, found, "n")
    eviction_history.evicted(tree.app("a").identity.key, found)
    assert asks_looked_at(tree, reclaim) == ["a/x"]
    assert asks_looked_at(tree, reclaim) == []
    eviction_history.forget()

    assert asks_looked_at(tree, reclaim) == ["a/x"]


def test_who_has_lost_what_it_had_taken_stands_for_nobody_else() -> None:
    tree = contest(guaranteed_leaf("a"), n=0)
    tree.tell(wish("a", "first", 5), wish("a", "second"))
    key, reclaim = tree.app("a").identity.key, Reclaim(tree.state)
    found = tree.app("a").pending["first"]
    tree.state.eviction_history.note(key, found, "n")
    tree.state.eviction_history.evicted(key, found)

    assert asks_looked_at(tree, reclaim) == ["a/first", "a/second"]
    assert asks_looked_at(tree, reclaim) == []


def test_groups_are_looked_at_again_in_the_next_batch() -> None:
    tree = contest(guaranteed_leaf("a"))
    tree.tell(gang("g", 2), members("g", "m", 2, app="a"))
    reclaim = Reclaim(tree.state)
    assert asks_looked_at(tree, reclaim) == ["a/m-0"]
    reclaim.start_batch()

    assert asks_looked_at(tree, reclaim) == ["a/m-0"]


# One ask


def test_the_members_of_the_whole_group_are_exempt() -> None:
    tree = contest(guaranteed_leaf("a"))
    tree.enter(gang("g", 1, "h"), gang("h", 1), gang("i", 1), wish("a", "x"))
    tree.tell(members("g", "m", app="a", vcore=50))

    assert exempt_gangs(tree.state, tree.ask("a/x")[1]) == frozenset()
    assert exempt_gangs(tree.state, tree.ask("a/m")[1]) == {"default/g", "default/h"}


def test_a_member_of_a_satisfied_gang_exempts_its_group() -> None:
    tree = contest(guaranteed_leaf("a"), n=1)
    tree.tell(gang("g", 1), members("g", "m", 2, app="a", vcore=1))

    assert exempt_gangs(tree.state, tree.ask("a/m-1")[1]) == {"default/g"}


def test_who_is_ready() -> None:
    tree = contest(guaranteed_leaf("a"), share("b"))
    tree.tell(wish("a"), urgent("b"), wish("b", "y"))
    reclaim, preempt = Reclaim(tree.state), Preemption(tree.state)

    ready = [
        [action.is_ready(*tree.ask(name), now_us) for name in ("a/x", "b/x", "b/y")]
        for action in (reclaim, preempt)
        for now_us in (HOUR_US - 1, HOUR_US)
    ]
    assert ready == [
        [False, False, False],
        [True, True, False],
        [False, False, False],
        [False, True, False],
    ]


def test_a_queue_that_is_owed_nothing_gives_no_scope() -> None:
    tree = contest(guaranteed_leaf("a"), share("b"))
    tree.tell(wish("a"), wish("b"))
    reclaim = Reclaim(tree.state)
    eligibility = reclaim.eligibility(*tree.ask("a/x"))

    assert reclaim.eligibility(*tree.ask("b/x")) is None
    assert eligibility is not None
    assert eligibility.ask is tree.ask("a/x")[1]


def test_waiting_members_of_a_loose_gang_have_no_turn() -> None:
    tree = contest(guaranteed_leaf("a"), n=1)
    tree.tell(gang("g", 2, mode=LOOSE), members("g", "m", 2, app="a"))
    assert list(tree.app("a").waiting) == ["m-0"]

    assert reclaiming(tree) == ["a/m-1"]
