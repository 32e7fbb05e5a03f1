"""The machine that owns a queue."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.coordinator.reports import ReportRequests
from muster_core.owners.app_messages import NO_VALUES, AddAsks, AppReport, Close, Values
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.asks import Origin
from muster_core.owners.queue import (
    CommitQueue,
    Expect,
    QueueMachine,
    QueueReport,
    QueueSummary,
    Retire,
    SetQueue,
    ToQueue,
)
from muster_core.snapshots import QueueSnapshot
from muster_core.structures.steps import all_at_once
from muster_core.values.priority import MAX_PRIORITY, MIN_PRIORITY
from tests.core.building import identity, queue_config, wish


def app_report(key: int, values: Values, *, epoch: int = 1, gone: bool = False) -> AppReport:
    return AppReport(identity(key, f"app{key}"), epoch, 1, (), values, gone)


def queue_report(
    key: int,
    values: Values,
    *,
    epoch: int = 1,
    gone: bool = False,
    apps: tuple[AppReport, ...] = (),
) -> QueueReport:
    summary = QueueSummary(
        key=key,
        parent=2,
        config=queue_config(f"root.a.q{key}"),
        draining=False,
        values=values,
        priority=values.priority,
        gone=gone,
    )
    return QueueReport(epoch, summary, apps, ())


def pending(priority: int, vcore: int = 1) -> Values:
    return Values(priority, {"vcore": vcore}, {})


def machine(*, is_parent: bool = False, fence: bool = False, offset: int = 0) -> QueueMachine:
    config = queue_config(is_parent=is_parent, fence=fence, offset=offset)
    return QueueMachine(2, 1, config)


def pass_reports(
    queue: QueueMachine, *reports: AppReport | QueueReport, epoch: int = 1
) -> QueueReport:
    """Pass the reports of an epoch to a queue; return its own."""
    for report in reports:
        assert queue.handle(report) is None
    answer = queue.handle(Expect(epoch, len(reports)))
    assert answer is not None
    queue.check()
    return answer


def test_a_new_queue_has_nothing_and_no_priority() -> None:
    queue = machine()
    report = pass_reports(queue)

    assert queue.path == "root.a"
    assert report == QueueReport(1, queue.summary(), (), ())
    assert (report.summary.values, report.summary.priority) == (NO_VALUES, None)


def test_children_are_added_up() -> None:
    queue = machine(offset=10)
    report = pass_reports(
        queue,
        app_report(5, Values(3, {"vcore": 1}, {"vcore": 2, "memory": 1})),
        app_report(6, Values(7, {"vcore": 4, "gpu": 1}, {})),
    )

    values = Values(17, {"vcore": 5, "gpu": 1}, {"vcore": 2, "memory": 1})
    assert report.summary.values == values
    assert sum(app.credits for app in report.apps) == 2


def test_a_child_that_reports_again_counts_once() -> None:
    queue = machine()
    pass_reports(queue, app_report(5, pending(3, 4)))
    pass_reports(queue, app_report(5, pending(1, 2)), epoch=2)

    assert queue.values() == pending(1, 2)


def test_only_children_with_something_pending_count() -> None:
    queue = machine()
    pass_reports(queue, app_report(5, Values(None, {}, {"vcore": 9})), app_report(6, pending(-4)))

    assert queue.current_priority() == -4


@pytest.mark.parametrize(
    ("offset", "priority", "expected"),
    [
        (MAX_PRIORITY, MAX_PRIORITY, MAX_PRIORITY),
        (MIN_PRIORITY, MIN_PRIORITY, MIN_PRIORITY),
        (MIN_PRIORITY, MAX_PRIORITY, -1),
        (-5, 3, -2),
    ],
)
def test_the_priority_is_clamped(offset: int, priority: int, expected: int) -> None:
    queue = machine(offset=offset)
    pass_reports(queue, app_report(5, pending(priority)))

    assert queue.current_priority() == expected


def test_a_fenced_queue_has_its_offset_but_counts_only_with_something_pending() -> None:
    queue = machine(fence=True, offset=7)
    assert (queue.current_priority(), queue.values().priority) == (7, None)

    pass_reports(queue, app_report(5, pending(100)))
    assert (queue.current_priority(), queue.values().priority) == (7, 7)


def test_at_the_root_fence_and_offset_do_nothing() -> None:
    queue = QueueMachine(1, None, queue_config("root", is_parent=True, fence=True, offset=7))
    assert queue.current_priority() is None

    pass_reports(queue, queue_report(5, pending(100)))
    assert queue.current_priority() == 100


def test_a_report_waits_for_every_child() -> None:
    queue = machine()
    assert queue.handle(app_report(6, pending(1))) is None
    assert queue.handle(Expect(1, 2)) is None
    report = queue.handle(app_report(5, pending(2)))

    assert report is not None
    assert [app.identity.key for app in report.apps] == [6, 5]


def test_the_announcement_may_come_last() -> None:
    queue = machine()
    queue.handle(app_report(5, pending(2)))
    queue.handle(app_report(6, pending(1)))

    assert queue.handle(Expect(1, 2)) is not None


def test_a_report_is_in_canonical_order_whatever_came_first() -> None:
    one = queue_report(7, pending(1), apps=(app_report(12, pending(1)),))
    two = queue_report(8, pending(2), apps=(app_report(11, pending(2)),))

    requests = ReportRequests(1, {}, {}, 2, {})
    report = pass_reports(machine(is_parent=True), two, one)
    collected = all_at_once(requests.collect(report, ()))
    report = pass_reports(machine(is_parent=True), one, two)
    assert collected == all_at_once(requests.collect(report, ()))
    assert [summary.key for summary in collected.queues] == [2, 7, 8]
    assert [app.identity.key for app in collected.apps] == [11, 12]


def test_an_epoch_leaves_nothing_for_the_next() -> None:
    queue = machine()
    pass_reports(queue, app_report(5, pending(2)))

    assert pass_reports(queue, epoch=2) == QueueReport(2, queue.summary(), (), ())


def test_a_child_that_is_gone_counts_no_more() -> None:
    queue = machine()
    pass_reports(queue, app_report(5, pending(9)), app_report(6, pending(1)))
    pass_reports(queue, app_report(5, NO_VALUES, epoch=2, gone=True), epoch=2)

    assert queue.values() == pending(1)
    assert queue.snapshot().children == 1


def test_a_child_that_came_and_went_within_an_epoch() -> None:
    queue = machine(is_parent=True)
    pass_reports(queue, queue_report(9, NO_VALUES, gone=True))

    assert (queue.snapshot().children, queue.values()) == (0, NO_VALUES)


def test_a_commit_changes_the_children_it_names() -> None:
    queue = machine()
    pass_reports(queue, app_report(5, pending(9)), app_report(6, pending(1)))
    assert queue.handle(CommitQueue({5: Values(None, {}, {"vcore": 1})})) is None

    assert queue.values() == Values(1, {"vcore": 1}, {"vcore": 1})
    queue.check()


def test_new_settings_count_at_once() -> None:
    queue = machine()
    pass_reports(queue, app_report(5, pending(3)))
    assert queue.handle(SetQueue(queue_config(offset=5), draining=True)) is None

    assert queue.current_priority() == 8
    assert queue.summary().draining
    queue.check()


def test_a_queue_that_is_to_go_says_so() -> None:
    queue = machine()
    assert queue.handle(Retire()) is None

    assert pass_reports(queue).gone


def test_the_snapshot() -> None:
    queue = machine(offset=1)
    pass_reports(queue, app_report(5, Values(3, {"vcore": 1}, {"gpu": 2})))

    assert queue.snapshot() == QueueSnapshot(
        key=2,
        path="root.a",
        draining=False,
        priority=4,
        allocated={"gpu": 2},
        pending={"vcore": 1},
        recomputations=1,
        children=1,
    )


def test_a_priority_that_does_not_change_below_is_not_computed_again() -> None:
    queue = machine()
    pass_reports(queue, app_report(5, pending(3)))
    before = queue.snapshot().recomputations
    pass_reports(queue, app_report(5, pending(3, 99)), epoch=2)

    assert queue.snapshot().recomputations == before


def burst(leaf: int, app: int) -> AppReport:
    """Return the report of an application that was given 2,000 asks at once."""
    machine = ApplicationMachine(identity(100 * leaf + app, "app"))
    for number in range(20):
        machine.handle(AddAsks(Origin(number), wish(name=f"x{number}", count=100), number % 7))
    report = machine.handle(Close(1))
    assert report is not None
    return report


def test_a_burst_of_100_000_asks_below_one_parent_costs_it_one_recomputation() -> None:
    """Snapshots of a running scheduler show the same of its tasks."""
    parent = QueueMachine(1, None, queue_config("root", is_parent=True))
    leaves = [QueueMachine(key, 1, queue_config(f"root.q{key}")) for key in range(2, 7)]
    before = parent.snapshot().recomputations
    reports = [pass_reports(leaf, *(burst(leaf.key, app) for app in range(10))) for leaf in leaves]
    report = pass_reports(parent, *reports)

    assert report.summary.values == Values(6, {"vcore": 100_000}, {})
    requests = ReportRequests(1, {}, {}, 1000, {})
    assert len(all_at_once(requests.collect(report, ())).apps) == 50
    assert parent.snapshot().recomputations == before + 1
    assert [leaf.snapshot().recomputations for leaf in leaves] == [1] * 5


class Queues(RuleBasedStateMachine):
    """A queue beside a plain dictionary of its children's values."""

    def __init__(self) -> None:
        super().__init__()
        self.config = queue_config()
        self.queue = QueueMachine(2, 1, self.config)
        self.plain: dict[int, Values] = {}
        self.epoch = 0
        self.steps = 0

    def tell(self, message: ToQueue) -> None:
        assert self.queue.handle(message) is None

    @rule(
        changes=st.dictionaries(
            st.integers(3, 8), st.tuples(st.integers(-2, 2), st.integers(0, 3), st.booleans())
        ),
        first=st.integers(0, 6),
    )
    def epoch_passes(self, changes: dict[int, tuple[int, int, bool]], first: int) -> None:
        self.epoch += 1
        messages: list[ToQueue] = []
        for key, (priority, vcore, gone) in changes.items():
            values = Values(priority if vcore else None, {"vcore": vcore} if vcore else {}, {})
            messages.append(app_report(key, values, epoch=self.epoch, gone=gone))
            self.plain[key] = values
            if gone:
                del self.plain[key]
        messages.insert(min(first, len(messages)), Expect(self.epoch, len(changes)))
        answers = [self.queue.handle(message) for message in messages]

        assert answers[:-1] == [None] * len(changes)
        assert answers[-1] is not None
        assert sorted(app.identity.key for app in answers[-1].apps) == sorted(changes)
        assert answers[-1].summary == self.queue.summary()

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.plain)))
        values = Values(None, {}, {"vcore": 1})
        self.tell(CommitQueue({key: values}))
        self.plain[key] = values

    @rule(fence=st.booleans(), offset=st.integers(-3, 3))
    def configure(self, fence: bool, offset: int) -> None:
        self.config = attrs.evolve(
            self.config, settings=attrs.evolve(self.config.settings, fence=fence, offset=offset)
        )
        self.tell(SetQueue(self.config, draining=False))

    @invariant()
    def agrees(self) -> None:
        self.queue.check()
        self.steps += 1
        settings = self.config.settings
        counted = [child.priority for child in self.plain.values() if child.priority is not None]
        unfenced = max(counted) + settings.offset if counted else None
        expected = settings.offset if settings.fence else unfenced
        assert self.queue.current_priority() == expected
        assert self.queue.values().priority == (expected if counted else None)
        assert self.queue.snapshot().recomputations <= self.steps


TestQueues = Queues.TestCase
