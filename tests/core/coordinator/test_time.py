"""Time in the machines together: timers, and what ends at one instant."""

from __future__ import annotations

from muster_core.decisions import Kind, Reason
from muster_core.events import AddNode, BindFailed, Release, RemoveAsk, RemoveNode
from muster_core.resources import Resources
from tests.core.building import wish
from tests.core.tree import tree

SECOND_US = 1_000_000
ONE = Resources({"vcore": 1})


def test_without_timers_there_is_no_deadline() -> None:
    here = tree("n")
    here.add_app("p")
    here.settle()

    assert here.machine.next_deadline_us() is None


def test_a_released_allocation_does_not_end_again() -> None:
    here = tree("n")
    here.add_app("p")
    here.settle(wish("p", run_for_us=5), wish("p", "y"))
    here.settle(Release("p", "x"))
    here.pass_time(10)

    assert [one.at_us for one in here.log if one.decision.ask == "x"] == [0, 0, 0]
    here.check()


def test_run_for_starts_afresh_after_a_node_is_lost() -> None:
    here = tree("n")
    here.add_app("p")
    here.settle(wish("p", run_for_us=10))
    here.pass_time(6)
    here.settle(RemoveNode("n"), AddNode("m", ONE))

    assert here.machine.next_deadline_us() == 16


def test_run_for_starts_afresh_after_a_bind_has_failed() -> None:
    here = tree("n", vcore=1)
    here.add_app("p")
    here.settle(wish("p", run_for_us=10))
    here.pass_time(6)
    # Another one has the room, so that there is nothing to end.
    here.settle(BindFailed("p", "x"), wish("p", "y", 1))
    here.check()
    assert here.machine.next_deadline_us() is None

    here.pass_time(20)
    here.settle(Release("p", "y"))
    here.check()
    assert here.machine.next_deadline_us() == 30


def test_what_completes_at_that_instant_cannot_fail_to_start() -> None:
    here = tree("n")
    here.add_app("p")
    here.settle(wish("p", run_for_us=10))
    here.pass_time(10)
    decisions = here.settle(BindFailed("p", "x"))
    here.check()

    assert [(one.kind, one.reason) for one in decisions if one.state is None] == [
        (Kind.RELEASED, Reason.COMPLETED),
        (Kind.REJECTED, None),
    ]


def test_a_bind_that_failed_on_a_node_that_is_lost_in_the_same_batch() -> None:
    here = tree("n")
    here.add_app("p")
    here.settle(wish("p", "x"), wish("p", "y"))
    decisions = here.settle(BindFailed("p", "y"), RemoveNode("n"), AddNode("n", ONE))
    here.check()

    lost = [f"{one.ask} {one.reason}" for one in decisions if one.kind is Kind.RELEASED]
    assert lost == ["y bind_failed", "x node_lost"]
    assert here.bound()[-1] == "p/x n"
    assert here.snapshot().nodes["n"].used == {"vcore": 1}


def test_an_ask_in_time_keeps_an_application_from_completing() -> None:
    here = tree("n")
    here.add_app("p")
    here.settle(wish("p", run_for_us=SECOND_US))
    here.pass_time(31 * SECOND_US)
    here.settle(wish("p", "y"))  # At the very instant the timer comes first.
    assert here.snapshot().completed == {"p"}

    here.add_app("p")
    here.settle(wish("p"), RemoveAsk("p", "x"))
    here.pass_time(61 * SECOND_US - 1)
    here.settle(wish("p", "y"))
    assert here.snapshot().apps["p"].state == "Running"
    here.check()


def test_a_completion_at_the_end_of_starting_comes_first() -> None:
    here = tree("n")
    here.add_app("p")
    here.settle(wish("p", run_for_us=300 * SECOND_US))
    here.pass_time(None)
    here.check()

    states = [one.decision.state for one in here.log if one.decision.kind is Kind.APP_STATE]
    assert states == ["New", "Accepted", "Starting", "Completing", "Completed"]
