"""The coordinator's machine, with the owners' machines below it and no tasks.

Batches, timers, instants.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from typing_extensions import override

from muster_core.config import default_configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler, pass_time
from muster_core.coordinator.reports import ReportRequests
from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.events import (
    AddApp,
    AddNode,
    AddPriorityClass,
    BindFailed,
    Configure,
    Event,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveNode,
    UpdateNode,
)
from muster_core.owners.app_messages import Close
from muster_core.owners.queue import CommitQueue, Expect, QueueMachine
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import all_at_once
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree, settled_tree
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step, compare
from tests.naive.strategies import scenarios

SECOND_US = 1_000_000
ONE = Resources({"vcore": 1})


def kinds(decisions: list[Decision]) -> list[str]:
    return [decision.kind.value for decision in decisions]


def queues(decisions: list[Decision]) -> list[tuple[str | None, int | None]]:
    return [(one.queue, one.priority) for one in decisions if one.kind is Kind.QUEUE_PRIORITY]


# Batches


def test_decisions_are_numbered_without_gaps_and_timed_by_their_batch() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle(wish("p", run_for_us=5 * SECOND_US))
    tree.pass_time(None)

    assert [one.seq for one in tree.log] == list(range(1, len(tree.log) + 1))
    assert {one.at_us for one in tree.log} == {0, 5 * SECOND_US, 35 * SECOND_US}
    assert tree.log[-1].decision.state == "Completed"


def test_a_batch_says_timers_then_events_then_rounds_then_priorities() -> None:
    tree = settled_tree("n", vcore=1)
    tree.add_app("p")
    tree.settle(wish("p", "first", run_for_us=5), wish("p", "second"), wish("p", "third"))
    tree.pass_time(5)
    tree.enter("something unusable")
    decisions = tree.settle(RemoveAsk("p", "third"))

    assert [(one.kind.value, one.ask) for one in decisions] == [
        ("released", "first"),
        ("rejected", None),
        ("released", "third"),
        ("assigned", "second"),
        ("bound", "second"),
        ("app_state", None),
        ("queue_priority", None),
        ("queue_priority", None),
    ]


def test_decisions_of_events_are_in_the_order_of_the_events() -> None:
    tree = settled_tree("n")
    for app in ("q", "p"):
        tree.add_app(app)
    tree.settle(wish("q", "x"), wish("p", "x"))
    decisions = tree.settle(Release("p", "x"), FailBind("z", "x"), Release("q", "x"))

    assert [one.app for one in decisions] == ["p", "p", None, "q", "q"]


def test_priorities_are_announced_in_path_order_when_they_change() -> None:
    tree = Tree(configuration(queue("b", queue("c")), queue("a")))
    tree.settle()
    for app, path in (("p", "b.c"), ("q", "a")):
        tree.add_app(app, path)
    tree.enter(wish("p", "x", 3))

    assert queues(tree.settle(wish("q", "x", 1))) == [
        *(("root", 3), ("root.a", 1), ("root.b", 3), ("root.b.c", 3)),
    ]
    assert queues(tree.settle(wish("q", "y", 1))) == []
    assert queues(tree.settle(RemoveAsk("p", "x"))) == [
        *(("root", 1), ("root.b", None), ("root.b.c", None)),
    ]


def test_a_priority_that_came_and_went_within_a_batch_is_not_announced() -> None:
    tree = settled_tree("n")
    tree.add_app("p")

    assert queues(tree.settle(wish("p", "x", 9))) == []


def test_an_empty_batch_says_nothing() -> None:
    assert settled_tree().settle() == []


def test_a_lost_node_releases_in_bind_order_across_applications() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.add_app("q")
    tree.settle(wish("p", "x", 1), wish("q", "x", 2), wish("p", "y", 3))
    lost = [one for one in tree.settle(RemoveNode("n")) if one.reason is Reason.NODE_LOST]

    assert [(one.app, one.ask, one.node) for one in lost] == [
        *(("p", "y", "n"), ("q", "x", "n"), ("p", "x", "n")),
    ]


def test_an_application_removed_in_the_batch_in_which_its_node_is_lost() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle(wish("p"))
    first = tree.settle(RemoveApp("p"), RemoveNode("n"))
    tree.check()
    assert [one.reason for one in first if one.ask] == [Reason.REMOVED]

    tree.add_nodes("n", vcore=1)
    tree.add_app("p")
    tree.settle(wish("p"))
    second = tree.settle(RemoveNode("n"), RemoveApp("p"))
    tree.check()
    assert [one.reason for one in second if one.ask] == [Reason.NODE_LOST, Reason.REMOVED]


def test_an_application_that_came_and_went_within_a_batch() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    decisions = tree.settle(wish("p"), RemoveApp("p"))
    tree.check()

    assert kinds(decisions) == ["app_state", "app_state", "released"]
    assert tree.snapshot().apps == {}


def test_a_name_that_is_used_again_within_a_batch() -> None:
    tree = settled_tree("n")
    tree.add_app("p", "a")
    tree.settle(wish("p"))
    tree.enter(RemoveApp("p"))
    tree.add_app("p", "b")
    tree.settle(wish("p", "y"))
    tree.check()

    assert tree.snapshot().apps["p"].queue == "root.b"
    assert [ask.name for ask in tree.snapshot().apps["p"].asks] == ["y"]


# Refusals


def tree_with_everything() -> Tree:
    """Return a tree in which there is one of everything."""
    tree = settled_tree("n", "full")
    tree.add_app("p")
    tree.settle(wish("p", "bound"), wish("p", "pending", vcore=99), AddPriorityClass("high", 5))
    return tree


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (AddNode("n", ONE), "node: 'n' is already a node"),
        (UpdateNode("N", ONE), "node: 'N' is unknown"),
        (RemoveNode("z"), "node: 'z' is unknown"),
        (AddApp("p", "root.b"), "app: 'p' is already"),
        (AddApp("q", "root"), "queue: 'root' is a parent"),
        (RemoveApp("q"), "app: 'q' is unknown"),
        (wish("q"), "app: 'q' is unknown"),
        (wish("p", "bound"), "ask: 'bound' is already"),
        (RemoveAsk("p", "bound"), "ask: 'bound' of application 'p' is not pending"),
        (Release("p", "pending"), "ask: 'pending' of application 'p' is not bound"),
        (BindFailed("p", "pending"), "ask: 'pending' of application 'p' is not bound"),
        (BindFailed("p", "z"), "ask: 'z' is no ask"),
        (BindFailed("q", "x"), "app: 'q' is unknown"),
        (FailBind("p", "z"), "ask: 'z' is no ask"),
        (AddPriorityClass("high", 5), "name: 'high' is already"),
        (Configure(configuration(queue("a", queue("c")))), "config: 'root.a' has applications"),
        ("unusable", "unusable"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_refused_event_is_one_decision_and_changes_nothing(
    event: Event | str, message: str
) -> None:
    tree = tree_with_everything()
    before = tree.snapshot()
    tree.enter(event, index=7)
    (decision,) = tree.settle()
    tree.check()

    assert decision.kind is Kind.REJECTED
    assert (decision.message or "").startswith(message)
    assert decision.index == 7
    assert tree.snapshot() == before


def test_the_line_of_a_refused_event() -> None:
    scheduler = PlainScheduler()
    scheduler.submit(RemoveNode("z"), index=3, line=9)
    scheduler.submit("unusable", index=4, line=10)
    scheduler.settle()

    (first, second) = [one.decision for one in scheduler.announced if one.decision.line]
    assert (first.index, first.line) == (3, 9)
    assert (second.index, second.line) == (4, 10)


def test_why_the_last_event_was_refused_is_known_in_the_middle_of_a_batch() -> None:
    tree = settled_tree()
    tree.add_app("p")
    tree.enter(Release("p", "x"))
    assert tree.report_owners() == "ask: 'x' is no ask of application 'p'"

    tree.enter(wish("p"))
    assert tree.report_owners() is None
    tree.enter(RemoveNode("z"))
    assert tree.report_owners() == "node: 'z' is unknown"


def test_hearing_the_owners_often_changes_no_decision() -> None:
    events: list[Event] = [
        wish("p", "x", 1),
        FailBind("p", "x"),
        Release("p", "x"),
        wish("p", "y", 2),
    ]
    logs: list[list[Announced]] = []
    for often in (False, True):
        tree = settled_tree("n", vcore=1)
        tree.add_app("p")
        for event in events:
            tree.enter(event)
            if often:
                tree.report_owners()
        tree.settle()
        tree.check()
        logs.append(tree.log)

    assert logs[0] == logs[1]


# Configurations


def test_a_configuration_says_so_and_then_warns() -> None:
    tree = settled_tree()
    config = configuration(queue("a", properties={"priority.offset": "x", "unheard": "of"}))
    decisions = tree.settle(Configure(config))

    assert kinds(decisions) == ["config", "warning", "warning"]
    assert [one.message for one in decisions[1:]] == list(config.warnings)


def test_the_order_of_the_nodes_comes_with_the_configuration() -> None:
    tree = settled_tree("n", "m")
    tree.add_app("p")
    tree.settle(wish("p", "x"), wish("p", "y"))
    binpacking = configuration(queue("a"), nodesortpolicy={"type": "binpacking"})
    tree.settle(Configure(binpacking), wish("p", "z", vcore=2), wish("p", "z2"))
    tree.check()

    assert tree.bound() == ["p/x m", "p/y n", "p/z m", "p/z2 m"]


# What goes to and comes from the owners


def test_only_those_concerned_are_to_report() -> None:
    tree = Tree(configuration(queue("a", queue("b")), queue("c")))
    tree.add_app("p", "a.b")
    tree.settle()
    all_at_once(tree.machine.begin(0))
    tree.machine.enter(wish("p"))
    steps = tree.machine.close()
    assert steps is not None
    closing = all_at_once(steps)

    assert (closing.epoch, closing.credits) == (2, 1)
    assert list(closing.apps.values()) == [Close(2, direct=True)]
    assert closing.queues == {}
    assert tree.machine.close() is None


def test_all_queues_on_the_path_report_if_one_of_them_gets_a_message() -> None:
    tree = Tree(configuration(queue("a", queue("b")), queue("c")))
    tree.add_app("p", "a.b")
    tree.settle()
    all_at_once(tree.machine.begin(0))
    tree.machine.enter(wish("p"))
    changed = queue("c", properties={"priority.offset": "1"})
    tree.machine.enter(Configure(configuration(queue("a", queue("b")), changed)))
    steps = tree.machine.close()
    assert steps is not None
    closing = all_at_once(steps)

    assert list(closing.apps.values()) == [Close(2)]
    keys = {path: entry.key for path, entry in tree.machine.registry.queues.items()}
    assert closing.queues == {
        keys["root"]: Expect(2, 2),
        **{keys[path]: Expect(2, 1) for path in ("root.a", "root.a.b")},
        keys["root.c"]: Expect(2, 0),
    }


def test_queues_hear_of_an_earlier_epoch_before_they_report() -> None:
    """A new configuration comes in one batch with applications that reported without queues."""
    tree = Tree(configuration(queue("a"), queue("b")))
    tree.add_app("p", "a")
    tree.settle()
    tree.enter(wish("p", count=3))
    tree.add_app("q", "b")
    tree.report_owners()
    tree.enter(
        Configure(configuration(queue("a"), queue("b", properties={"priority.offset": "1"})))
    )
    tree.settle()
    tree.check()

    shown = tree.snapshot().queues
    assert shown["root"].pending == {"vcore": 3}
    assert [shown[path].children for path in ("root.a", "root.b")] == [1, 1]


def test_queues_hear_of_an_application_that_is_gone_since_an_earlier_epoch() -> None:
    tree = Tree(configuration(queue("a"), queue("b")))
    tree.add_app("p", "a")
    tree.settle(wish("p"))
    tree.enter(RemoveApp("p"))
    tree.report_owners()
    tree.enter(
        Configure(configuration(queue("a"), queue("b", properties={"priority.offset": "1"})))
    )
    tree.settle()
    tree.check()

    assert tree.snapshot().queues["root"].pending == {}
    assert tree.snapshot().queues["root.a"].children == 0


def test_a_report_of_another_epoch_is_a_bug() -> None:
    root = QueueMachine(1, None, default_configuration().root)
    report = root.handle(Expect(9, 0))
    with pytest.raises(AssertionError, match="another epoch"):
        all_at_once(ReportRequests(8, {}, {}, 0, {}).collect(report, ()))


def test_commits_go_to_all_owners_on_the_path_and_to_no_others() -> None:
    tree = settled_tree("n")
    tree.add_app("p", "a")
    tree.add_app("q", "b")
    tree.settle()
    tree.enter(wish("p"))
    tree.report_owners()
    outcome = all_at_once(tree.machine.decide())

    keys = {path: entry.key for path, entry in tree.machine.registry.queues.items()}
    assert set(outcome.apps) == {tree.machine.registry.locate("p")}
    assert set(outcome.queues) == {keys["root"], keys["root.a"]}
    assert all(isinstance(commit, CommitQueue) for commit in outcome.queues.values())


# Reading


def test_the_snapshot_shows_everything() -> None:
    tree = settled_tree("n", "m", vcore=4)
    tree.add_app("p")
    tree.settle(wish("p", vcore=3, count=3))
    shown = tree.snapshot()

    assert list(shown.nodes) == ["m", "n"]
    assert shown.nodes["n"].used == {"vcore": 3}
    assert list(shown.queues) == ["root", "root.a", "root.b"]
    assert shown.shares == {"root": 0.75, "root.a": 0.75, "root.b": 0.0}
    assert [ask.place for ask in shown.apps["p"].asks] == [
        *(AskPlace.PENDING, AskPlace.BOUND, AskPlace.BOUND),
    ]


def test_the_statistics() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle(wish("p"), RemoveNode("z"))
    known = tree.machine.statistics()

    assert (known.requests, known.batches, known.bound, known.refused) == (4, 1, 1, 1)
    assert (known.steps, known.decisions) == (1, len(tree.log))


# Costs


def test_a_burst_below_one_parent_costs_every_queue_one_recomputation() -> None:
    tree = Tree(configuration(queue("a", queue("b"), queue("c")), queue("d")))
    tree.settle()
    before = {path: tree.recomputations(path) for path in ("root", "root.a", "root.a.b", "root.d")}
    for number in range(20):
        tree.add_app(f"p{number}", ("a.b", "a.c")[number % 2])
        tree.enter(*(wish(f"p{number}", f"x{burst}", burst, count=10) for burst in range(10)))
    tree.settle()
    after = {path: tree.recomputations(path) for path in before}

    assert {path: after[path] - before[path] for path in before} == {
        **dict.fromkeys(("root", "root.a", "root.a.b"), 1),
        "root.d": 0,
    }


# Any scenario


class CheckedTree(Tree):
    """A tree that checks itself after every batch."""

    @override
    def _end(self) -> None:
        was_open = self._open
        super()._end()
        if was_open:
            self.check()


@settings(max_examples=20)
@given(scenarios() | gang_scenarios(), st.integers(0, 2**16))
def test_machines_and_view_agree_after_every_batch_in_any_order(
    scenario: list[Step], seed: int
) -> None:
    compare(scenario, lambda steps: CheckedTree(pick=Random(seed).randrange).run(steps))


def test_without_timers_there_is_no_deadline() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle()

    assert tree.machine.next_deadline_us() is None


def test_a_released_allocation_does_not_end_again() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle(wish("p", run_for_us=5), wish("p", "y"))
    tree.settle(Release("p", "x"))
    tree.pass_time(10)

    assert [one.at_us for one in tree.log if one.decision.ask == "x"] == [0, 0, 0]
    tree.check()


def test_run_for_starts_afresh_after_a_node_is_lost() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle(wish("p", run_for_us=10))
    tree.pass_time(6)
    tree.settle(RemoveNode("n"), AddNode("m", ONE))

    assert tree.machine.next_deadline_us() == 16


def test_run_for_starts_afresh_after_a_bind_has_failed() -> None:
    tree = settled_tree("n", vcore=1)
    tree.add_app("p")
    tree.settle(wish("p", run_for_us=10))
    tree.pass_time(6)
    # Another one has the room, so that there is nothing to end.
    tree.settle(BindFailed("p", "x"), wish("p", "y", 1))
    tree.check()
    assert tree.machine.next_deadline_us() is None

    tree.pass_time(20)
    tree.settle(Release("p", "y"))
    tree.check()
    assert tree.machine.next_deadline_us() == 30


def test_what_completes_at_that_instant_cannot_fail_to_start() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle(wish("p", run_for_us=10))
    tree.pass_time(10)
    decisions = tree.settle(BindFailed("p", "x"))
    tree.check()

    assert [(one.kind, one.reason) for one in decisions if one.state is None] == [
        (Kind.RELEASED, Reason.COMPLETED),
        (Kind.REJECTED, None),
    ]


def test_a_bind_that_failed_on_a_node_that_is_lost_in_the_same_batch() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle(wish("p", "x"), wish("p", "y"))
    decisions = tree.settle(BindFailed("p", "y"), RemoveNode("n"), AddNode("n", ONE))
    tree.check()

    lost = [f"{one.ask} {one.reason}" for one in decisions if one.kind is Kind.RELEASED]
    assert lost == ["y bind_failed", "x node_lost"]
    assert tree.bound()[-1] == "p/x n"
    assert tree.snapshot().nodes["n"].used == {"vcore": 1}


def test_an_ask_in_time_keeps_an_application_from_completing() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle(wish("p", run_for_us=SECOND_US))
    tree.pass_time(31 * SECOND_US)
    tree.settle(wish("p", "y"))  # At the very instant the timer comes first.
    assert tree.snapshot().completed == {"p"}

    tree.add_app("p")
    tree.settle(wish("p"), RemoveAsk("p", "x"))
    tree.pass_time(61 * SECOND_US - 1)
    tree.settle(wish("p", "y"))
    assert tree.snapshot().apps["p"].state == "Running"
    tree.check()


def test_a_completion_at_the_end_of_starting_comes_first() -> None:
    tree = settled_tree("n")
    tree.add_app("p")
    tree.settle(wish("p", run_for_us=300 * SECOND_US))
    tree.pass_time(None)
    tree.check()

    states = [one.decision.state for one in tree.log if one.decision.kind is Kind.APP_STATE]
    assert states == ["New", "Accepted", "Starting", "Completing", "Completed"]


def test_the_last_application_of_a_user_that_completes_leaves_no_limit_to_compute() -> None:
    tree = Tree(configuration(queue("a", limits=[{"users": ["*"], "maxapplications": 2}])))
    tree.add_nodes("n", vcore=10)
    tree.enter(AddApp("p", "root.a", user="u"))
    tree.settle(wish("p", run_for_us=SECOND_US))
    tree.pass_time(None)

    tree.check()
    assert tree.log[-1].decision.state == "Completed"


ENDS = {"x": 2, "y": 5, "z": 5}


def running() -> PlainScheduler:
    """Return a scheduler of which three asks run, until they end."""
    scheduler = PlainScheduler()
    scheduler.submit(AddNode("n", Resources({"vcore": 1_000})))
    scheduler.submit(AddApp("p", "root.q"))
    for name, end_us in ENDS.items():
        scheduler.submit(wish("p", name, 1, run_for_us=end_us))
    scheduler.settle()
    return scheduler


@pytest.mark.parametrize(
    ("until_us", "instants", "then_us"),
    [(1, [], 1), (2, [2], 2), (4, [2], 4), (5, [2, 5], 5), (9, [2, 5], 9), (0, [], 0)],
)
def test_it_stops_at_each_timer_up_to_an_instant(
    until_us: int, instants: list[int], then_us: int
) -> None:
    scheduler = running()
    stops: list[int] = []
    for at_us in pass_time(scheduler.machine, until_us):
        assert scheduler.machine.now_us == at_us
        stops.append(at_us)
        scheduler.settle()

    assert stops == instants
    assert scheduler.machine.now_us == then_us


def test_without_an_end_it_goes_on_as_long_as_a_timer_is_left() -> None:
    scheduler = running()
    stops: list[int] = []
    for at_us in pass_time(scheduler.machine, None):
        stops.append(at_us)
        scheduler.settle()

    assert stops[:2] == [2, 5]
    assert scheduler.machine.next_deadline_us() is None
    assert scheduler.machine.now_us == stops[-1]


def test_time_does_not_go_back() -> None:
    scheduler = running()
    scheduler.pass_until(9)

    assert list(pass_time(scheduler.machine, 3)) == []
    assert scheduler.machine.now_us == 9
