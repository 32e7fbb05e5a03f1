"""The machine that owns an application."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.decisions import Decision, Kind, Reason
from muster_core.events import AddAsk
from muster_core.owners.app_messages import (
    AddAsks,
    AllocationEnded,
    AppReport,
    AsksPending,
    AskWithdrawn,
    Close,
    CommitApp,
    Complete,
    Dismiss,
    Enlist,
    EnterState,
    LoseNode,
    ReleaseAsk,
    StateEntered,
    ToApplication,
    Values,
    WithdrawAsk,
)
from muster_core.owners.asks import Allocation
from muster_core.resources import Resources
from muster_core.snapshots import AppSnapshot, AskPlace, AskSnapshot
from muster_core.structures.shapes import Shape
from muster_core.structures.steps import PART, SIZE
from muster_core.values.application_states import AppState
from muster_core.values.priority import MAX_PRIORITY
from tests.core.building import Application, decisions_of, summaries_of, wish


def test_an_application_begins_as_new() -> None:
    app = Application()
    report = app.tell(Enlist(app.origin()))

    assert app.state() is AppState.NEW
    assert decisions_of(report) == [
        Decision(Kind.APP_STATE, app="app", queue="root.a", state="New")
    ]
    assert report.values == Values(None, {}, {})
    assert not report.gone


def test_its_first_ask_makes_it_accepted() -> None:
    app = Application()
    report = app.add(wish(name="x", priority=7, vcore=5))

    (entered, _, pending) = report.actions
    assert isinstance(pending, AsksPending)
    assert [(ask.name, ask.priority) for ask in pending.asks] == [("x", 7)]
    assert entered == StateEntered(AppState.ACCEPTED)
    assert report.values == Values(7, {"vcore": 5}, {})


def test_its_second_ask_says_nothing() -> None:
    app = Application()
    app.add(wish(name="x"))
    report = app.add(wish(name="y"))

    assert [type(action) for action in report.actions] == [AsksPending]
    assert report.values.pending == {"vcore": 2}


def test_the_members_of_a_count() -> None:
    app = Application()
    report = app.add(wish(name="x", count=3, vcore=2))

    (pending,) = (action for action in report.actions if isinstance(action, AsksPending))
    asks = pending.asks
    assert [ask.name for ask in asks] == ["x-0", "x-1", "x-2"]
    assert [ask.order for ask in asks] == [
        (0, 10, "", 10, 0),
        (0, 10, "", 10, 1),
        (0, 10, "", 10, 2),
    ]
    assert report.values.pending == {"vcore": 6}


def test_a_count_of_one_is_numbered_too() -> None:
    app = Application()
    app.add(wish(name="x", count=1))

    assert list(app.asks) == ["x-0"]


def test_an_ask_carries_what_it_needs_of_a_node() -> None:
    app = Application()
    event = wish(name="x", node="n", selector={"z": "1", "a": "2"}, run_for_us=9, vcore=1)
    app.add(event)

    ask = app.asks["x"]
    assert ask.shape == Shape(Resources({"vcore": 1}), (("a", "2"), ("z", "1")), "n")
    assert ask.run_for_us == 9


def test_asks_are_ordered_by_priority_then_submission() -> None:
    app = Application()
    for name, priority in (("a", 1), ("b", 5), ("c", 1), ("d", MAX_PRIORITY)):
        app.add(wish(name=name, priority=priority))

    assert sorted(app.asks, key=lambda name: app.asks[name]) == ["d", "b", "a", "c"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_name_that_is_in_use_is_refused_with_all_of_its_count(number: int) -> None:
    app = Application()
    app.add(wish(name=f"x-{number}"))

    message = app.refused(AddAsks(app.origin(), wish(name="x", count=3), 0))
    assert message == f"ask: 'x-{number}' is already an ask of application 'app'"


def test_the_name_of_a_bound_ask_is_in_use() -> None:
    app = Application()
    app.add(wish(name="x"))
    app.commit("x")

    assert "'x' is already" in app.refused(AddAsks(app.origin(), wish(name="x"), 0))


def test_a_first_ask_that_is_refused_does_not_make_it_accepted() -> None:
    app = Application()
    app.add(wish(name="x-1"))
    app.withdraw("x-1")
    app.add(wish(name="x-1"))

    assert "ask:" in app.refused(AddAsks(app.origin(), wish(name="x", count=2), 9))


def test_commits_bind_and_change_the_state() -> None:
    app = Application()
    app.add(wish(count=3, vcore=2))
    assert app.state() is AppState.ACCEPTED
    app.commit("x-0")
    assert app.state() is AppState.STARTING
    app.commit("x-1", "x-2")

    assert app.state() is AppState.RUNNING
    assert app.close().values == Values(None, {}, {"vcore": 6})


def test_a_commit_is_not_answered() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")

    assert (app.close().actions, app.close().credits) == ((), 0)


def test_skipping_starting() -> None:
    app = Application(skip_starting=True)
    app.add(wish())
    app.commit("x")

    assert app.state() is AppState.RUNNING


def test_withdrawing_a_pending_ask() -> None:
    app = Application()
    app.add(wish(count=2))
    report = app.withdraw("x-0")

    assert summaries_of(report) == ["released x-0 removed"]
    assert isinstance(report.actions[0], AskWithdrawn)
    assert report.values.pending == {"vcore": 1}


def test_the_last_ask_that_goes_makes_it_completing() -> None:
    app = Application()
    app.add(wish())
    report = app.withdraw("x")

    assert summaries_of(report) == ["released x removed", "Completing"]
    assert app.state() is AppState.COMPLETING


def test_releasing_a_bound_ask() -> None:
    app = Application()
    app.add(wish(count=2))
    (held, _) = app.commit("x-0", "x-1")
    report = app.release("x-0")

    assert summaries_of(report) == ["released x-0 n completed"]
    assert report.actions[0] == AllocationEnded(held)
    assert report.values == Values(None, {}, {"vcore": 1})


def test_an_ask_that_comes_while_completing_makes_it_running() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")
    app.release("x")
    assert app.state() is AppState.COMPLETING
    app.add(wish())

    assert app.state() is AppState.RUNNING


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ("x-1", "ask: 'x-1' of application 'app' is not bound; use remove_ask"),
        ("y", "ask: 'y' is no ask of application 'app'"),
    ],
)
def test_only_a_bound_ask_can_be_released(ask: str, message: str) -> None:
    app = Application()
    app.add(wish(count=2))
    app.commit("x-0")

    assert app.refused(ReleaseAsk(app.origin(), ask)) == message


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ("x-0", "ask: 'x-0' of application 'app' is not pending; release it"),
        ("y", "ask: 'y' is no ask of application 'app'"),
    ],
)
def test_only_a_pending_ask_can_be_withdrawn(ask: str, message: str) -> None:
    app = Application()
    app.add(wish(count=2))
    app.commit("x-0")

    assert app.refused(WithdrawAsk(app.origin(), ask)) == message


def test_an_allocation_that_completes_by_itself() -> None:
    app = Application()
    app.add(wish(run_for_us=5))
    app.commit("x")

    assert summaries_of(app.tell(Complete(app.origin(), "x"))) == [
        "released x n completed",
        "Completing",
    ]


def test_a_lost_node_makes_its_asks_pending_again_in_bind_order() -> None:
    app = Application()
    app.add(wish(count=3, priority=4))
    app.commit("x-2", "x-0", node="lost")
    app.commit("x-1", node="other")
    report = app.tell(LoseNode(app.origin(), "lost"))

    assert summaries_of(report) == ["released x-2 lost node_lost", "released x-0 lost node_lost"]
    assert report.values == Values(4, {"vcore": 2}, {"vcore": 1})
    assert app.state() is AppState.RUNNING


def test_an_ask_that_lost_its_node_keeps_its_place_in_the_order() -> None:
    app = Application()
    app.add(wish())
    before = app.asks["x"]
    app.commit("x")
    app.tell(LoseNode(app.origin(), "n"))

    assert (app.asks["x"], app.was_bound["x"]) == (before, True)


MANY = 3 * PART


def in_steps(app: Application, message: ToApplication) -> int:
    """Let an application handle a message in steps; return how often it could be paused."""
    steps = app.machine.in_steps(message)
    assert steps is not None
    return sum(1 for _ in steps)


def ungrouped(report: AppReport) -> tuple[AppReport, list[object]]:
    """Return a report without actions, and its actions with each pending ask by itself."""
    parts: list[object] = []
    for action in report.actions:
        parts.extend(action.asks if isinstance(action, AsksPending) else [action])
    return attrs.evolve(report, actions=()), parts


def test_very_many_asks_come_in_steps_as_they_would_at_once() -> None:
    at_once, slowly = Application(), Application()
    report = at_once.tell(AddAsks(at_once.origin(), wish(count=MANY), 3))
    pauses = in_steps(slowly, AddAsks(slowly.origin(), wish(count=MANY), 3))

    assert pauses > MANY // SIZE
    assert ungrouped(slowly.close()) == ungrouped(report)
    assert slowly.machine.snapshot() == at_once.machine.snapshot()
    slowly.machine.check()


def test_very_many_asks_are_refused_with_all_of_their_count() -> None:
    app = Application()
    app.add(wish(name="x-2000"))
    before = app.machine.snapshot()
    in_steps(app, AddAsks(app.origin(), wish(name="x", count=MANY), 0))

    report = app.close()
    assert report.credits == 1
    assert [decision.message for decision in decisions_of(report)] == [
        "ask: 'x-2000' is already an ask of application 'app'"
    ]
    assert app.machine.snapshot() == before


def test_very_many_members_that_come_parked_come_in_steps() -> None:
    app = Application()
    event = AddAsk("app", "x", Resources({"vcore": 1}), count=MANY, gang="default/g")
    in_steps(app, AddAsks(app.origin(), event, 0, parked=True))

    assert {ask.place for ask in app.machine.snapshot().asks} == {AskPlace.PARKED}
    app.machine.check()


def test_very_many_asks_are_bound_in_steps_as_they_would_be_at_once() -> None:
    at_once, slowly = Application(), Application()
    for app in (at_once, slowly):
        app.add(wish(count=MANY))
    bound = tuple(
        Allocation(ask, "n", number) for number, ask in enumerate(at_once.asks.values(), 1)
    )
    commit = CommitApp(bound[:2000])
    at_once.machine.handle(commit)

    assert in_steps(slowly, commit) == 2
    assert slowly.machine.snapshot() == at_once.machine.snapshot()
    assert slowly.state() is AppState.RUNNING
    slowly.machine.check()


def test_very_many_asks_go_in_steps_as_they_would_at_once() -> None:
    at_once, slowly = Application(), Application()
    for app in (at_once, slowly):
        app.add(wish(count=MANY))
        app.commit("x-7", "x-3")
    report = at_once.tell(Dismiss(at_once.origin()))

    assert in_steps(slowly, Dismiss(slowly.origin())) > MANY // SIZE
    assert slowly.close() == report


def test_a_message_about_few_asks_has_no_steps() -> None:
    app = Application()
    app.add(wish(count=3))
    (first, *_) = app.asks.values()
    messages: list[ToApplication] = [
        AddAsks(app.origin(), wish(name="y"), 0),
        AddAsks(app.origin(), wish(name="z", count=PART), 0),
        CommitApp((Allocation(first, "n", 1),)),
        Dismiss(app.origin()),
        ReleaseAsk(app.origin(), "x-0"),
        Close(1),
    ]

    assert all(app.machine.in_steps(message) is None for message in messages)


def test_its_memory_is_freed_in_steps() -> None:
    app = Application()
    app.add(wish(count=MANY))
    app.commit("x-7", "x-3")

    assert sum(1 for _ in app.machine.free()) > MANY // SIZE
    assert not app.machine.snapshot().asks


def test_a_node_on_which_it_has_nothing() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")

    assert app.tell(LoseNode(app.origin(), "other")).actions == ()


def test_a_state_whose_time_is_up_needs_no_report() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")

    assert app.machine.handle(EnterState(1, AppState.RUNNING)) is None
    assert app.state() is AppState.RUNNING


def test_dismissal_releases_everything_in_order_of_submission() -> None:
    app = Application()
    app.add(wish(name="a", priority=1))
    app.add(wish(name="b", count=2, priority=9))
    app.add(wish(name="c", priority=5))
    app.commit("c", "b-1")
    report = app.tell(Dismiss(app.origin()))

    assert summaries_of(report) == [
        "released a removed",
        "released b-0 removed",
        "released b-1 n removed",
        "released c n removed",
    ]
    assert report.gone
    assert report.values == Values(None, {}, {})


def test_a_report_answers_every_request_once() -> None:
    app = Application()
    report = app.tell(
        Enlist(app.origin()),
        AddAsks(app.origin(), wish(name="x"), 0),
        AddAsks(app.origin(), wish(name="x"), 0),
        WithdrawAsk(app.origin(), "x"),
    )

    assert (report.credits, report.epoch) == (4, 1)
    assert summaries_of(report) == [
        "New",
        "Accepted",
        "rejected",
        "released x removed",
        "Completing",
    ]
    assert app.close() == attrs.evolve(report, epoch=2, credits=0, actions=())


def test_sums_may_be_more_than_one_quantity_can_be() -> None:
    app = Application()
    app.add(wish(count=3, memory=2**63 - 1))
    app.commit("x-0", "x-1")

    assert app.machine.values().allocated == {"memory": 2 * (2**63 - 1)}


def test_the_snapshot_shows_every_ask_in_its_place() -> None:
    app = Application()
    app.add(wish(count=2, priority=3))
    app.commit("x-0")
    one = Resources({"vcore": 1})

    assert app.machine.snapshot() == AppSnapshot(
        name="app",
        queue="root.a",
        state=AppState.STARTING,
        priority=3,
        asks=(
            AskSnapshot("x-1", AskPlace.PENDING, 3, one),
            AskSnapshot("x-0", AskPlace.BOUND, 3, one, "n"),
        ),
    )


@attrs.define
class PlainAsk:
    priority: int
    vcore: int
    node: str | None = None


class Applications(RuleBasedStateMachine):
    """An application beside a plain dictionary of its asks."""

    def __init__(self) -> None:
        super().__init__()
        self.app = Application()
        self.plain: dict[str, PlainAsk] = {}
        self.rejections = 0

    def names(self, *, bound: bool) -> list[str]:
        return [name for name, ask in self.plain.items() if (ask.node is not None) == bound]

    def check_refused(self, report: AppReport, *, refused: bool) -> None:
        assert (Kind.REJECTED in [decision.kind for decision in decisions_of(report)]) == refused

    @rule(
        name=st.sampled_from("abc"),
        members=st.none() | st.integers(1, 3),
        priority=st.integers(-1, 2),
        vcore=st.integers(1, 3),
    )
    def add(self, name: str, members: int | None, priority: int, vcore: int) -> None:
        names = [name] if members is None else [f"{name}-{number}" for number in range(members)]
        clash = any(one in self.plain for one in names)
        report = self.app.add(wish(name=name, count=members, priority=priority, vcore=vcore))
        self.check_refused(report, refused=clash)
        if not clash:
            self.plain |= {one: PlainAsk(priority, vcore) for one in names}

    @rule(data=st.data(), node=st.sampled_from(["n", "m"]))
    def bind(self, data: st.DataObject, node: str) -> None:
        names = self.names(bound=False)
        chosen = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        self.app.commit(*chosen, node=node)
        for name in chosen:
            self.plain[name].node = node

    @rule(name=st.sampled_from(["a", "b-0", "c-1"]))
    def withdraw(self, name: str) -> None:
        there = name in self.names(bound=False)
        self.check_refused(self.app.withdraw(name), refused=not there)
        if there:
            del self.plain[name]

    @precondition(lambda self: self.names(bound=True))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.names(bound=True)))
        self.check_refused(self.app.release(name), refused=False)
        del self.plain[name]

    @rule(name=st.sampled_from(["a", "b-0", "c-1"]))
    def undo(self, name: str) -> None:
        there = name in self.names(bound=True)
        self.check_refused(self.app.undo(name), refused=not there)
        if there:
            self.plain[name].node = None

    @rule(name=st.sampled_from(["a", "b-0", "c-1"]), times=st.integers(1, 2))
    def spoil(self, name: str, times: int) -> None:
        self.check_refused(self.app.spoil(name, times), refused=name not in self.plain)

    @rule(node=st.sampled_from(["n", "m"]))
    def lose_node(self, node: str) -> None:
        lost = [name for name, ask in self.plain.items() if ask.node == node]
        report = self.app.tell(LoseNode(self.app.origin(), node))
        assert sorted(decision.ask or "" for decision in decisions_of(report)) == sorted(lost)
        assert all(decision.reason is Reason.NODE_LOST for decision in decisions_of(report))
        for name in lost:
            self.plain[name].node = None

    @rule()
    def time_passes(self) -> None:
        if self.app.state() is AppState.STARTING:
            self.app.machine.handle(EnterState(1, AppState.RUNNING))

    @invariant()
    def agrees(self) -> None:
        self.app.machine.check()
        shown = self.app.machine.snapshot()
        assert {ask.name: ask.node for ask in shown.asks} == {
            name: ask.node for name, ask in self.plain.items()
        }
        pending = [self.plain[name] for name in self.names(bound=False)]
        assert shown.priority == max((ask.priority for ask in pending), default=None)
        values = self.app.machine.values()
        assert values.pending.get("vcore", 0) == sum(ask.vcore for ask in pending)

    @invariant()
    def completes_only_without_asks(self) -> None:
        without = (AppState.NEW, AppState.COMPLETING)
        assert (self.app.state() in without) == (not self.plain)


TestApplications = Applications.TestCase
