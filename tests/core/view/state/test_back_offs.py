"""Back-offs in the machines together: their timers, gangs, and new settings."""

from __future__ import annotations

from muster_core.decisions import Kind, Reason
from muster_core.events import (
    AddGang,
    AddNode,
    BindFailed,
    Configure,
    FailBind,
    Outcome,
    Release,
    RemoveAsk,
)
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree

S = 1_000_000
ONE = Resources({"vcore": 1})


def configured(delay: str = "10s", **properties: str) -> Tree:
    made = Tree(configuration(a(delay, **properties)))
    made.add_nodes("n", vcore=2)
    made.add_app("p")
    return made


def a(delay: str, **properties: str) -> dict[str, object]:
    return queue("a", properties={"bind.retry.delay": delay, **properties})


def test_the_end_of_a_back_off_is_the_next_deadline() -> None:
    here = configured()
    here.settle(wish("p"), FailBind("p", "x"))
    here.check()
    assert here.machine.next_deadline_us() == 10 * S

    here.pass_time(10 * S)
    assert here.bound() == []
    here.pass_time(10 * S + 1)
    here.check()
    assert here.bound() == ["p/x n"]


def test_an_ask_that_goes_leaves_no_deadline() -> None:
    here = configured()
    here.settle(wish("p"), FailBind("p", "x"))
    here.settle(RemoveAsk("p", "x"), wish("p"))

    here.check()
    assert here.bound() == ["p/x n"]
    assert here.machine.next_deadline_us() is None


def test_an_ask_that_comes_and_goes_in_the_batch_in_which_it_backs_off() -> None:
    here = configured()
    here.settle(wish("p"))
    here.settle(BindFailed("p", "x"), RemoveAsk("p", "x"), wish("p"))

    here.check()
    assert here.bound() == ["p/x n", "p/x n"]


def test_what_failed_in_one_round_is_not_tried_in_the_next() -> None:
    here = configured()
    here.settle(wish("p", count=2), FailBind("p", "x-0", 5))
    here.check()

    failed = [one for one in here.log if one.decision.reason is Reason.BIND_FAILED]
    assert len(failed) == 1
    assert here.bound() == ["p/x-1 n"]


def test_new_settings_change_what_has_begun() -> None:
    here = configured()
    here.settle(wish("p", count=2), FailBind("p", "x-0"), FailBind("p", "x-1", 2))
    here.settle(Configure(configuration(a("30s"))))
    here.check()
    assert here.machine.next_deadline_us() == 30 * S

    here.settle(Configure(configuration(a("0"))))
    here.check()
    # The second one failed once more, without a delay, and was then bound.
    assert here.bound() == ["p/x-0 n", "p/x-1 n"]
    here.settle(BindFailed("p", "x-1"), Configure(configuration(a("2s"))))
    here.check()
    assert here.machine.next_deadline_us() == 8 * S


def test_members_of_a_gang_that_back_off_count_as_its_children() -> None:
    here = configured()
    here.settle(
        AddGang("default/g", GangFields(min_member=2)), wish("p", count=2, gang="default/g")
    )
    here.settle(BindFailed("p", "x-0"))
    here.pass_time(5 * S)
    here.settle(Release("p", "x-1", Outcome.FAILED), wish("p", "y", gang="default/g"))
    here.check()

    # A completed gang is satisfied still; so is one of which no member is left but new ones.
    gang = here.snapshot().gangs["default/g"]
    assert (gang.satisfied, len(gang.pending) + len(gang.bound)) == (True, 2)
    here.pass_time(None)
    here.check()
    assert here.bound()[-1] == "p/x-0 n"


def test_a_gang_of_which_all_members_back_off() -> None:
    here = configured()
    here.settle(
        AddGang("default/g", GangFields(min_member=2)),
        wish("p", count=2, gang="default/g", retries=1),
    )
    here.settle(*(Release("p", f"x-{number}", Outcome.FAILED) for number in range(2)))
    here.check()
    gang = here.snapshot().gangs["default/g"]
    assert (gang.satisfied, len(gang.pending), gang.cycle_valid) == (False, 2, True)

    # The first one to be tried again waits for the other.
    here.settle(AddNode("m", ONE))
    here.pass_time(10 * S + 1)
    here.check()
    satisfied = [one.at_us for one in here.log if one.decision.kind is Kind.GANG_SATISFIED]
    assert satisfied == [0, 10 * S]


def test_a_loss_in_the_batch_of_the_bind_does_not_end_the_row() -> None:
    here = configured()
    here.settle(wish("p"), FailBind("p", "x"))
    here.pass_time(10 * S + 1)
    here.settle(BindFailed("p", "x"))
    here.check()

    (shown,) = here.snapshot().apps["p"].asks
    assert (shown.failed_binds, shown.last_failed_us) == (2, 10 * S + 1)
