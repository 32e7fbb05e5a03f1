"""How victims go, and how that is undone."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.decisions import Decision, Kind, Reason
from muster_core.events import AddAsk
from muster_core.gangs import GangState
from muster_core.values.application_states import AppState
from muster_core.view.eviction.evictor import Evictions, leave_out_detours
from muster_core.view.placements import Placements
from muster_core.view.tree.queue import ViewQueue
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import wish
from tests.core.view.eviction.contest import SIX, Contest, at_once, contest, share

NOW_US = 7_000_000


def holding() -> Contest:
    """Return ``b`` with a plain ask, a satisfied gang, a waiting member, and one that is to park.

    The last one is bound as one of a gang that has timed out since.
    """
    tree = contest(share("a", guaranteed=SIX), share("p", share("b")), n=9)
    tree.tell(wish("b", "plain", 4, vcore=2))
    tree.tell(gang("g", 2), members("g", "m", 2, app="b"))
    tree.tell(gang("h", 2, mode=LOOSE), members("h", "w", 2, app="b", vcore=3))
    return tree


def evictions(tree: Contest) -> tuple[Evictions, Placements]:
    placements = Placements(tree.state)
    return Evictions(tree.state, placements), placements


def view_of_b(tree: Contest) -> Mapping[str, object]:
    """Return all that the view says of ``b``, its queues and its node."""
    app, leaf, node = tree.app("b"), tree.leaf("p.b"), tree.state.nodes.nodes["n"]
    gangs = tree.state.gangs.values()
    return {
        "places": [set(app.pending), set(app.parked), set(app.waiting), set(app.bound)],
        "app": (dict(app.allocated), dict(app.pending_total), app.state),
        "queues": [one.values() for one in leaf.upward()],
        "node": (dict(node.used), set(node.held)),
        "gangs": [
            (set(one.waiting), set(one.bound), set(one.parked), one.pending, one.state)
            for one in gangs
        ],
        "since": dict(leaf.since),
    }


def pending(queue: ViewQueue) -> int:
    return queue.values().pending.get("vcore", 0)


VICTIMS = ("plain", "m-0", "w-0")


@pytest.mark.parametrize("name", VICTIMS)
def test_what_is_taken_is_pending_and_its_room_is_free(name: str) -> None:
    tree = holding()
    victim, app = tree.victim(f"b/{name}"), tree.app("b")
    amount = victim.allocation.ask.resources["vcore"]
    used = victim.node.used["vcore"]
    before = [pending(one) for one in tree.leaf("p.b").upward()]
    evictions(tree)[1].release(victim.hold())

    assert name in app.pending
    assert name not in {*app.bound, *app.waiting}
    assert victim.node.used["vcore"] == used - amount
    assert (app.identity.key, name) not in victim.node.held
    leaf = tree.leaf("p.b")
    assert [one.used("vcore") for one in leaf.upward()] == [used - amount] * 3
    assert [pending(one) for one in leaf.upward()] == [one + amount for one in before]


@pytest.mark.parametrize("names", [*((name,) for name in VICTIMS), ("m-0", "m-1"), VICTIMS])
def test_to_undo_it_leaves_no_trace(names: tuple[str, ...]) -> None:
    tree = holding()
    placements, before = evictions(tree)[1], view_of_b(tree)
    victims = [tree.victim(f"b/{name}") for name in names]
    for victim in victims:
        placements.release(victim.hold())
    assert view_of_b(tree) != before
    for victim in reversed(victims):
        placements.restore(victim.hold())
    placements.list_apps()
    tree.state.refresh()

    assert view_of_b(tree) == before
    tree.check()


def test_a_member_of_a_gang_that_has_timed_out_is_parked() -> None:
    tree = holding()
    victim = tree.victim("b/m-0")
    assert victim.gang is not None
    victim.gang.state = GangState.TIMED_OUT
    placements, before = evictions(tree)[1], view_of_b(tree)
    asked_for = [one.values().pending for one in tree.leaf("p.b").upward()]
    placements.release(victim.hold())
    assert set(tree.app("b").parked) == {"m-0"}
    assert list(victim.gang.parked) == [(tree.app("b").identity.key, "m-0")]
    assert [one.values().pending for one in tree.leaf("p.b").upward()] == asked_for
    placements.restore(victim.hold())

    assert view_of_b(tree) == before


# For good


def evicted(tree: Contest, *names: str, reason: Reason = Reason.RECLAIMED) -> list[Decision]:
    evicts, _ = evictions(tree)
    return [
        decision
        for name in names
        for decision in evicts.evict(tree.victim(name), reason, "why", NOW_US)
    ]


@pytest.mark.parametrize("reason", [Reason.RECLAIMED, Reason.PREEMPTED])
def test_what_is_said(reason: Reason) -> None:
    (said,) = evicted(holding(), "b/m-1", reason=reason)

    assert said == Decision(
        Kind.RELEASED,
        app="b",
        ask="m-1",
        node="n",
        queue="root.p.b",
        gang="default/g",
        reason=reason,
        message="why",
    )


def test_the_delay_of_a_bound_ask_begins_anew() -> None:
    tree = holding()
    evicted(tree, "b/plain", "b/w-0")

    assert tree.app("b").since_us == {"plain": NOW_US}


def gang_states(tree: Contest, *names: str) -> list[GangState]:
    return [tree.state.gangs[f"default/{name}"].state for name in names]


def test_the_loss_of_the_last_bound_member_ends_what_a_gang_had() -> None:
    tree = holding()
    evicted(tree, "b/m-0")
    assert gang_states(tree, "g") == [GangState.SATISFIED]
    evicted(tree, "b/m-1")

    assert gang_states(tree, "g") == [GangState.GATHERING]


def test_the_loss_of_all_waiting_members_is_none_of_bound_ones() -> None:
    tree = holding()
    evicted(tree, "b/w-0")

    assert gang_states(tree, "g", "h") == [GangState.SATISFIED, GangState.GATHERING]


def test_what_was_bound_before_this_batch_counts_for_the_state() -> None:
    tree = holding()
    assert tree.app("b").state is AppState.RUNNING
    evicted(tree, "b/plain", "b/m-0", "b/m-1")

    assert tree.app("b").state is AppState.RUNNING


# In one batch


def rivals(**nodes: int) -> Contest:
    """Return ``b``, whose asks come first, and ``a``, which reclaims from it at once."""
    leaf = share("b", queue_priority="1")
    return at_once(share("a", guaranteed={"vcore": 1}), leaf, **nodes)


def states(tree: Contest, *events: AddAsk) -> list[str]:
    """Return the states of ``b`` that a batch says."""
    return [one.state or "" for one in tree.settle(*events) if one.app == "b" and one.state]


def test_a_bind_that_is_taken_in_its_batch_counts_for_no_state() -> None:
    tree = rivals(n=1)

    assert states(tree, wish("b"), wish("a")) == ["Accepted"]
    assert tree.bound() == ["b/x n", "a/x n"]
    assert tree.app("b").state is AppState.ACCEPTED
    tree.check()


# ONCE-3
def test_a_bind_that_does_not_count_was_its_last_one() -> None:
    tree = rivals(n=1)

    assert states(tree, attrs.evolve(wish("b"), once=True), wish("a")) == ["Accepted", "Completing"]
    assert tree.bound() == ["b/x n", "a/x n"]
    assert tree.app("b").state is AppState.COMPLETING
    tree.check()


def test_one_bind_is_left_of_two_whichever_is_taken() -> None:
    for node in "mn":
        tree = rivals(m=1, n=1)
        both = wish("b", "x", 1, node="m"), wish("b", "y", node="n")

        assert states(tree, *both, wish("a", node=node)) == ["Accepted", "Starting"]
        tree.check()


def test_the_time_of_a_state_that_is_entered_again_goes_on() -> None:
    tree = rivals(m=1, n=1)
    tree.tell(wish("b", "x", node="m"))
    tree.pass_time(100_000_000)
    assert states(tree, wish("b", "y"), wish("a", node="n")) == []
    assert tree.app("b").state is AppState.STARTING
    tree.wait(299)
    assert tree.app("b").state is AppState.STARTING
    tree.wait(300)

    assert tree.app("b").state is AppState.RUNNING


def test_the_delay_of_what_was_bound_and_taken_in_one_batch_goes_on() -> None:
    tree = rivals(n=1)
    tree.settle(wish("b"), wish("a"))

    assert tree.app("b").since_us == {}


# ONCE-5
def test_the_log_says_that_an_ask_is_gone_that_was_evicted_before() -> None:
    tree = holding()
    evicts, placements = evictions(tree)
    victim = tree.victim("b/plain")
    (first,) = evicts.evict(victim, Reason.RECLAIMED, "first", NOW_US)
    placements.restore(victim.hold())
    ask = victim.allocation.ask._replace(once=True)
    victim.allocation = attrs.evolve(victim.allocation, ask=ask)
    second, *_ = evicts.evict(victim, Reason.RECLAIMED, "second", NOW_US)

    assert evicts.without_detours(deque([first, second])) == deque([first, second])


def test_an_ask_that_was_evicted_twice_is_reported_once() -> None:
    tree = holding()
    evicts, placements = evictions(tree)
    victim = tree.victim("b/w-0")
    (first,) = evicts.evict(victim, Reason.RECLAIMED, "first", NOW_US)
    assert evicts.without_detours(deque([first])) == deque([first])
    placements.restore(victim.hold())
    (second,) = evicts.evict(victim, Reason.RECLAIMED, "second", NOW_US)

    both = deque([first, second])
    assert evicts.without_detours(both) == deque([first])
    evicts.start_batch()
    assert evicts.without_detours(both) == both


# What need not be said


def line(text: str) -> Decision:
    """Return a decision: ``released b/x preempted``."""
    kind, ask, *reason = text.split()
    return Decision(
        Kind(kind), app=ask[0], ask=ask[2:], reason=Reason(reason[0]) if reason else None
    )


def test_one_eviction_of_each_is_left_as_it_is() -> None:
    lines = ["released b/x reclaimed", "assigned a/y", "bound a/y", "released b/z preempted"]
    decisions = [line(text) for text in lines]

    assert leave_out_detours(decisions) == decisions


def test_what_an_ask_had_before_it_was_first_evicted_is_said() -> None:
    decisions = [line(text) for text in ("assigned b/x", "bound b/x", "released b/x preempted")]

    assert leave_out_detours(decisions) == decisions


def test_a_second_eviction_goes_with_what_led_to_it() -> None:
    decisions = [
        line("released b/x preempted"),
        line("assigned a/y"),
        line("assigned b/x"),
        line("waiting b/x"),
        line("bound a/y"),
        line("released b/x reclaimed"),
        line("assigned b/x"),
        line("bound b/x"),
    ]

    assert leave_out_detours(decisions) == [decisions[position] for position in (0, 1, 4, 6, 7)]


def test_what_was_released_otherwise_is_said() -> None:
    decisions = [
        line("released b/x preempted"),
        line("assigned b/x"),
        line("released b/x bind_failed"),
        line("assigned b/x"),
        line("released b/x preempted"),
    ]

    assert leave_out_detours(decisions) == decisions[:3]


def test_the_same_name_in_another_application_is_another_ask() -> None:
    decisions = [line("released b/x preempted"), line("released c/x preempted")]

    assert leave_out_detours(decisions) == decisions


LINES = st.builds(
    "{} {}".format,
    st.sampled_from(["assigned", "waiting", "bound", "released-preempted", "released-deadlock"]),
    st.sampled_from(["a/x", "b/x", "b/y"]),
)


@given(st.lists(LINES))
def test_no_ask_is_reported_as_evicted_twice_and_all_else_stays(lines: list[str]) -> None:
    decisions = [
        line(f"{kind.partition('-')[0]} {ask} {kind.partition('-')[2]}")
        for kind, ask in (text.split() for text in lines)
    ]
    kept = leave_out_detours(decisions)

    for key in ("a/x", "b/x", "b/y"):
        before, after = (
            [one for one in found if f"{one.app}/{one.ask}" == key] for found in (decisions, kept)
        )
        evictions = [one for one in before if one.reason is Reason.PREEMPTED]
        assert [one for one in after if one.reason is Reason.PREEMPTED] == evictions[:1]
        # What is left out ends with an eviction.
        last = max((at for at, one in enumerate(before) if one.reason), default=-1)
        assert after[len(after) - len(before[last + 1 :]) :] == before[last + 1 :]
        assert [one for one in after if one.reason is Reason.DEADLOCK] == [
            one for one in before if one.reason is Reason.DEADLOCK
        ]
