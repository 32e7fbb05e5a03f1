"""Deadlines in order, timers, and back-offs in the machines together."""

from __future__ import annotations

import pytest

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
from muster_core.gangs import GangDefinition, GangFields
from muster_core.nodes.node import Node
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from muster_core.values.application_states import AppState
from muster_core.values.configuration import Settings
from muster_core.view.gangs import ViewGang
from muster_core.view.state.delays import Delays
from muster_core.view.state.timers import (
    BackOffs,
    Completion,
    Deadlines,
    StateEnd,
    Timers,
    WaitEnd,
)
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from tests.core.building import allocation, ask, configuration, identity, queue, wish
from tests.core.tree import Tree

NODE = Node("n", {}, {}, schedulable=True)
SECOND_US = 1_000_000


class Clock:
    """Timers and the applications that they look at."""

    def __init__(self, apps: int = 1) -> None:
        self.apps = {key: ViewApp(identity(key)) for key in range(1, apps + 1)}
        gangs = ViewState().gang_index
        self.waiting = gangs.waiting
        delays, back_offs = Delays({}), BackOffs(self.apps, {})
        self.timers = Timers(self.apps, {}, gangs, delays, back_offs)
        self.binds = 0

    def bind(self, name: str, run_for_us: int | None, now_us: int = 0, app: int = 1) -> None:
        self.binds += 1
        held = allocation(ask(name, run_for_us=run_for_us), number=self.binds)
        self.apps[app].bound[name] = (held, NODE)
        self.timers.bound(self.apps[app], held, now_us)

    def wait(self, name: str, since_us: int | None, wait_us: int | None, creation: int) -> None:
        """Let members of a gang wait, or, with None, let a wait begin in the open batch."""
        definition = GangDefinition(1, 1, wait_us=wait_us)
        gang = ViewGang(name, 1, definition, creation, since_us=since_us)
        self.waiting[name] = gang

    def enter(self, state: AppState, now_us: int = 0, app: int = 1) -> None:
        self.apps[app].state = state
        self.timers.entered(self.apps[app], now_us)


def test_without_anything_there_is_no_deadline() -> None:
    clock = Clock()
    clock.bind("x", None)

    assert clock.timers.next_us() is None
    assert clock.timers.due(10**18) == []


def test_an_allocation_ends_this_long_after_it_was_bound() -> None:
    clock = Clock()
    clock.bind("x", 5, now_us=100)

    assert clock.timers.next_us() == 105
    assert clock.timers.due(104) == []
    assert clock.timers.due(105) == [Completion(1, "x")]
    assert clock.timers.next_us() is None


def test_completions_of_one_instant_go_in_bind_order() -> None:
    clock = Clock(apps=2)
    clock.bind("z", 10, app=2)
    clock.bind("a", 8, now_us=2)
    clock.bind("b", 5, now_us=5, app=2)

    assert clock.timers.due(10) == [Completion(2, "z"), Completion(1, "a"), Completion(2, "b")]


def test_an_allocation_that_is_gone_has_no_deadline() -> None:
    clock = Clock()
    clock.bind("x", 5)
    clock.bind("y", 7)
    del clock.apps[1].bound["x"]

    assert clock.timers.next_us() == 7
    assert clock.timers.due(7) == [Completion(1, "y")]


def test_an_ask_that_was_bound_anew_starts_afresh() -> None:
    clock = Clock()
    clock.bind("x", 5)
    clock.bind("x", 5, now_us=3)

    assert clock.timers.next_us() == 8
    assert clock.timers.due(8) == [Completion(1, "x")]


def test_an_application_that_is_gone_has_no_deadline() -> None:
    clock = Clock()
    clock.bind("x", 5)
    clock.enter(AppState.STARTING)
    del clock.apps[1]

    assert clock.timers.next_us() is None


@pytest.mark.parametrize(
    ("state", "limit_us"),
    [(AppState.STARTING, 300 * SECOND_US), (AppState.COMPLETING, 30 * SECOND_US)],
)
def test_states_that_end_by_themselves(state: AppState, limit_us: int) -> None:
    clock = Clock()
    clock.enter(state, now_us=7)

    assert clock.timers.next_us() == limit_us + 7
    assert clock.timers.due(limit_us + 6) == []
    assert clock.timers.due(limit_us + 7) == [StateEnd(1)]


@pytest.mark.parametrize("state", [AppState.ACCEPTED, AppState.RUNNING, AppState.NEW])
def test_states_that_do_not(state: AppState) -> None:
    clock = Clock()
    clock.enter(state)

    assert clock.timers.next_us() is None


def test_a_state_that_was_left_has_no_deadline() -> None:
    clock = Clock()
    clock.enter(AppState.STARTING)
    clock.enter(AppState.RUNNING, now_us=1)

    assert clock.timers.next_us() is None


def test_a_state_that_was_entered_again_starts_afresh() -> None:
    clock = Clock()
    clock.enter(AppState.COMPLETING)
    clock.enter(AppState.RUNNING, now_us=10)
    clock.enter(AppState.COMPLETING, now_us=20)

    assert clock.timers.next_us() == 30 * SECOND_US + 20
    assert clock.timers.due(30 * SECOND_US) == []


def test_a_state_that_was_left_and_entered_at_one_instant_ends_once() -> None:
    clock = Clock()
    for state in (AppState.COMPLETING, AppState.RUNNING, AppState.COMPLETING):
        clock.enter(state)

    assert clock.timers.due(30 * SECOND_US) == [StateEnd(1)]


def test_a_wait_is_over_this_long_after_it_began() -> None:
    clock = Clock()
    clock.wait("g", 100, 5, 1)

    assert clock.timers.next_us() == 105
    assert clock.timers.due(104) == []
    assert clock.timers.due(105) == [WaitEnd("g")]


def test_a_gang_that_does_not_say_waits_as_long_as_is_configured() -> None:
    clock = Clock()
    clock.wait("g", 100, None, 1)
    for wait_us in (7, 9):
        clock.timers.settings = Settings(gang_wait_us=wait_us)
        assert clock.timers.next_us() == 100 + wait_us


def test_a_wait_that_has_only_just_begun_has_no_deadline() -> None:
    clock = Clock()
    clock.wait("g", None, 5, 1)

    assert clock.timers.next_us() is None
    assert clock.timers.due(10**18) == []


def test_a_wait_that_is_over_has_no_deadline() -> None:
    clock = Clock()
    clock.wait("g", 100, 5, 1)
    del clock.waiting["g"]

    assert clock.timers.next_us() is None


def test_completions_then_gangs_then_applications_each_by_creation() -> None:
    clock = Clock(apps=3)
    clock.enter(AppState.COMPLETING, app=2)
    clock.enter(AppState.COMPLETING, app=1)
    for name, creation in (("a", 3), ("b", 1), ("c", 2)):
        clock.wait(name, 30 * SECOND_US - creation, creation, creation)
    clock.bind("x", 30 * SECOND_US, app=3)

    assert clock.timers.due(30 * SECOND_US) == [
        Completion(3, "x"),
        WaitEnd("b"),
        WaitEnd("c"),
        WaitEnd("a"),
        StateEnd(1),
        StateEnd(2),
    ]


@pytest.mark.parametrize(("asks", "ends"), [(1, False), (2, True)])
def test_a_completion_of_the_last_ask_comes_before_the_end_of_its_state(
    asks: int, ends: bool
) -> None:
    clock = Clock()
    clock.enter(AppState.STARTING)
    clock.bind("x", 300 * SECOND_US)
    for number in range(1, asks):
        clock.bind(f"y{number}", 900 * SECOND_US)

    assert (StateEnd(1) in clock.timers.due(300 * SECOND_US)) is ends


def test_completions_first_then_applications_by_creation() -> None:
    clock = Clock(apps=3)
    clock.enter(AppState.COMPLETING, app=3)
    clock.enter(AppState.COMPLETING, app=2)
    clock.bind("x", 30 * SECOND_US)

    assert clock.timers.due(30 * SECOND_US) == [
        Completion(1, "x"),
        StateEnd(2),
        StateEnd(3),
    ]


def test_all_deadlines_that_stand_are_kept() -> None:
    clock = Clock()
    for number in range(1_000):
        clock.bind(f"x{number}", 10**15, now_us=number)
        all_at_once(clock.timers.tidy())
        assert clock.timers.next_us() == 10**15

    assert len(clock.timers.due(2 * 10**15)) == 1_000


def test_far_off_deadlines_that_no_longer_stand_are_not_kept() -> None:
    standing: list[tuple[int]] = []
    deadlines: Deadlines[tuple[int]] = Deadlines(lambda deadline: deadline in standing)
    for number in range(1_000):
        standing[:] = [(10**15 - number,)]
        deadlines.add((10**15 - number,))
        assert deadlines.first_us() == 10**15 - number
        if len(deadlines.heap) > deadlines.limit:
            all_at_once(deadlines.tidy())
        assert len(deadlines.heap) < 100


def test_a_deadline_that_no_longer_stands_is_passed_over() -> None:
    standing = {(2,), (3,)}
    deadlines: Deadlines[tuple[int]] = Deadlines(lambda deadline: deadline in standing)
    for instant in (3, 1, 2):
        deadlines.add((instant,))

    assert deadlines.first_us() == 2
    assert deadlines.take_due(1) is None
    assert deadlines.take_due(5) == (2,)
    assert deadlines.first_us() == 3
    standing.clear()
    assert deadlines.take_due(5) is None
    assert deadlines.first_us() is None


S = 1_000_000
ONE = Resources({"vcore": 1})


def configured(delay: str = "10s", **properties: str) -> Tree:
    made = Tree(configuration(backing_off_queue(delay, **properties)))
    made.add_nodes("n", vcore=2)
    made.add_app("p")
    return made


def backing_off_queue(delay: str, **properties: str) -> dict[str, object]:
    return queue("a", properties={"bind.retry.delay": delay, **properties})


def test_the_end_of_a_back_off_is_the_next_deadline() -> None:
    tree = configured()
    tree.settle(wish("p"), FailBind("p", "x"))
    tree.check()
    assert tree.machine.next_deadline_us() == 10 * S

    tree.pass_time(10 * S)
    assert tree.bound() == []
    tree.pass_time(10 * S + 1)
    tree.check()
    assert tree.bound() == ["p/x n"]


def test_an_ask_that_goes_leaves_no_deadline() -> None:
    tree = configured()
    tree.settle(wish("p"), FailBind("p", "x"))
    tree.settle(RemoveAsk("p", "x"), wish("p"))

    tree.check()
    assert tree.bound() == ["p/x n"]
    assert tree.machine.next_deadline_us() is None


def test_an_ask_that_comes_and_goes_in_the_batch_in_which_it_backs_off() -> None:
    tree = configured()
    tree.settle(wish("p"))
    tree.settle(BindFailed("p", "x"), RemoveAsk("p", "x"), wish("p"))

    tree.check()
    assert tree.bound() == ["p/x n", "p/x n"]


def test_what_failed_in_one_round_is_not_tried_in_the_next() -> None:
    tree = configured()
    tree.settle(wish("p", count=2), FailBind("p", "x-0", 5))
    tree.check()

    failed = [one for one in tree.log if one.decision.reason is Reason.BIND_FAILED]
    assert len(failed) == 1
    assert tree.bound() == ["p/x-1 n"]


def test_new_settings_change_what_has_begun() -> None:
    tree = configured()
    tree.settle(wish("p", count=2), FailBind("p", "x-0"), FailBind("p", "x-1", 2))
    tree.settle(Configure(configuration(backing_off_queue("30s"))))
    tree.check()
    assert tree.machine.next_deadline_us() == 30 * S

    tree.settle(Configure(configuration(backing_off_queue("0"))))
    tree.check()
    # The second one failed once more, without a delay, and was then bound.
    assert tree.bound() == ["p/x-0 n", "p/x-1 n"]
    tree.settle(BindFailed("p", "x-1"), Configure(configuration(backing_off_queue("2s"))))
    tree.check()
    assert tree.machine.next_deadline_us() == 8 * S


def test_members_of_a_gang_that_back_off_count_as_its_children() -> None:
    tree = configured()
    tree.settle(
        AddGang("default/g", GangFields(min_member=2)), wish("p", count=2, gang="default/g")
    )
    tree.settle(BindFailed("p", "x-0"))
    tree.pass_time(5 * S)
    tree.settle(Release("p", "x-1", Outcome.FAILED), wish("p", "y", gang="default/g"))
    tree.check()

    # A completed gang is satisfied still; so is one of which no member is left but new ones.
    gang = tree.snapshot().gangs["default/g"]
    assert (gang.satisfied, len(gang.pending) + len(gang.bound)) == (True, 2)
    tree.pass_time(None)
    tree.check()
    assert tree.bound()[-1] == "p/x-0 n"


def test_a_gang_of_which_all_members_back_off() -> None:
    tree = configured()
    tree.settle(
        AddGang("default/g", GangFields(min_member=2)),
        wish("p", count=2, gang="default/g", retries=1),
    )
    tree.settle(*(Release("p", f"x-{number}", Outcome.FAILED) for number in range(2)))
    tree.check()
    gang = tree.snapshot().gangs["default/g"]
    assert (gang.satisfied, len(gang.pending), gang.cycle_valid) == (False, 2, True)

    # The first one to be tried again waits for the other.
    tree.settle(AddNode("m", ONE))
    tree.pass_time(10 * S + 1)
    tree.check()
    satisfied = [one.at_us for one in tree.log if one.decision.kind is Kind.GANG_SATISFIED]
    assert satisfied == [0, 10 * S]


def test_a_loss_in_the_batch_of_the_bind_does_not_end_the_row() -> None:
    tree = configured()
    tree.settle(wish("p"), FailBind("p", "x"))
    tree.pass_time(10 * S + 1)
    tree.settle(BindFailed("p", "x"))
    tree.check()

    (shown,) = tree.snapshot().apps["p"].asks
    assert (shown.failed_binds, shown.last_failed_us) == (2, 10 * S + 1)
