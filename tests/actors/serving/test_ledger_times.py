"""The instants that the ledger keeps, its entries of removed things, and the samples of use
(PAGE-16).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from muster.service.ledger.ledger import Ledger
from muster.service.ledger.records import StartFailure
from muster.service.ledger.state import KEPT_COMPLETED, KEPT_FAILURES, LedgerState
from muster.service.ledger.usage import (
    HOURLY_US,
    KEPT as KEPT_POINTS,
    KEPT_HOURS,
    KEPT_MINUTES,
    MINUTE_US,
    WAITS_US,
    Sample,
)
from muster.store._msgpack import pack
from muster_core.decisions import Announced
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    BindFailed,
    Event,
    FailBind,
    Outcome,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveNode,
    UpdateNode,
)
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from tests.actors.serving.histories import LedgerScheduler

S = 1_000_000
ONE = Resources({"vcore": 1000})


def _with_events(*events: Event) -> LedgerScheduler:
    scheduler = LedgerScheduler()
    scheduler.batch(0, [AddApp("a", "root.q", "olga", ("data",), {"k": "v"}), *events])
    return scheduler


def test_an_application_has_its_states_with_their_times() -> None:
    scheduler = _with_events()
    scheduler.batch(S, [AddAsk("a", "x", ONE)])
    scheduler.batch(3 * S, [AddNode("n", ONE)])
    app = scheduler.ledger.app("a")
    assert app is not None
    assert app.event == AddApp("a", "root.q", "olga", ("data",), {"k": "v"})
    assert (app.came_us, app.queue, app.ran_us) == (0, "root.q", 3 * S)
    assert app.states == [(0, "New"), (S, "Accepted"), (3 * S, "Starting")]


def test_an_ask_has_its_times() -> None:
    scheduler = _with_events()
    scheduler.batch(S, [AddAsk("a", "x", ONE)])
    scheduler.batch(3 * S, [AddNode("n", ONE)])
    ask = scheduler.ledger.ask("a", "x")
    assert ask is not None
    assert (ask.came_us, ask.node, ask.taken_us, ask.bound_us) == (S, "n", 3 * S, 3 * S)
    scheduler.batch(4 * S, [RemoveNode("n")])
    assert (ask.came_us, ask.since_us) == (S, 4 * S)
    assert (ask.node, ask.taken_us, ask.bound_us) == (None, None, None)


def test_a_member_that_waits_has_taken_its_node_and_is_not_bound() -> None:
    scheduler = _with_events(
        AddGang("default/g", GangFields(min_member=2)),
        AddAsk("a", "x", ONE, gang="default/g"),
        AddNode("n", ONE),
    )
    scheduler.batch(2 * S, [AddAsk("a", "y", ONE, gang="default/g")])
    first, second = scheduler.ledger.ask("a", "x"), scheduler.ledger.ask("a", "y")
    assert first is not None
    assert second is not None
    assert (second.taken_us, second.bound_us) == (None, None)
    assert first.bound_us is None
    scheduler.batch(5 * S, [AddNode("m", ONE)])
    assert first.bound_us == second.bound_us == 5 * S


def test_the_highest_use_is_kept_type_by_type() -> None:
    scheduler = _with_events(
        AddNode("n", Resources({"vcore": 4000, "memory": 10})),
        AddAsk("a", "x", Resources({"vcore": 3000})),
    )
    scheduler.batch(S, [Release("a", "x"), AddAsk("a", "y", Resources({"vcore": 1, "memory": 9}))])
    app = scheduler.ledger.app("a")
    assert app is not None
    assert app.used == {"vcore": 1, "memory": 9}
    assert app.most == {"vcore": 3000, "memory": 9}


def test_a_name_that_is_used_again_in_the_same_batch_is_a_new_thing() -> None:
    scheduler = _with_events(AddNode("n", ONE), AddAsk("a", "x", ONE))
    again = AddAsk("a", "x", ONE, priority=7)
    scheduler.batch(S, [Release("a", "x"), again])
    ask = scheduler.ledger.ask("a", "x")
    assert ask is not None
    assert ask.event is again
    assert (ask.came_us, ask.bound_us) == (S, S)
    scheduler.batch(2 * S, [RemoveApp("a"), AddApp("a", "root.r"), AddAsk("a", "x", ONE)])
    app = scheduler.ledger.app("a")
    assert app is not None
    assert app.queue == "root.r"
    assert [at for at, _ in app.states] == [2 * S] * len(app.states)
    assert app.used == {"vcore": 1000}


def test_a_refused_event_changes_nothing() -> None:
    scheduler = _with_events(AddAsk("a", "x", ONE), RemoveAsk("a", "x"), RemoveAsk("a", "x"))
    scheduler.batch(S, [AddApp("a", "root.r"), AddAsk("b", "x", ONE), RemoveNode("n")])
    app = scheduler.ledger.app("a")
    assert app is not None
    assert (app.queue, app.came_us) == ("root.q", 0)
    assert not scheduler.ledger.book.is_stale
    assert (scheduler.ledger.counts.refused_apps, scheduler.ledger.counts.refused_asks) == (1, 1)


def test_a_retry_is_used_up_by_work_that_fails() -> None:
    scheduler = _with_events(AddNode("n", ONE), AddAsk("a", "x", ONE, retries=1))
    scheduler.batch(S, [Release("a", "x", Outcome.FAILED)])
    ask = scheduler.ledger.ask("a", "x")
    assert ask is not None
    assert ask.retries == 0
    scheduler.batch(2 * S, [Release("a", "x", Outcome.FAILED)])
    assert scheduler.ledger.ask("a", "x") is None


def test_failed_binds_are_counted() -> None:
    scheduler = _with_events(AddAsk("a", "x", ONE), FailBind("a", "x", 2))
    scheduler.batch(S, [AddNode("n", ONE)])
    assert scheduler.ledger.counts.failed_binds == 2
    assert scheduler.ledger.counts.allocated == 1


def test_why_work_could_not_be_started_is_kept() -> None:
    scheduler = _with_events(AddNode("n", ONE), AddAsk("a", "x", ONE))
    scheduler.batch(S, [BindFailed("a", "x", "no disk"), RemoveAsk("a", "x")])
    again = Ledger()
    all_at_once(again.load(all_at_once(scheduler.ledger.save())))
    for ledger in (scheduler.ledger, again):
        failure = ledger.failure("a", "x")
        assert failure is not None
        assert failure.text() == "its last start, on the node n, failed: no disk"

    scheduler.batch(2 * S, [AddAsk("a", "x", ONE)])
    assert scheduler.ledger.failure("a", "x") is None
    scheduler.batch(3 * S, [BindFailed("a", "x", "no disk")])
    scheduler.batch(4 * S, [Release("a", "x")])
    assert scheduler.ledger.failure("a", "x") is None


def test_why_work_could_not_be_started_is_kept_of_the_latest() -> None:
    book = LedgerState()
    for number in range(KEPT_FAILURES + 1):
        book.note_failure("a", f"x-{number}", StartFailure("n", "no disk"))

    assert ("a", "x-0") not in book.failures
    assert len(book.failures) == KEPT_FAILURES


def test_a_completed_application_is_kept_as_it_was() -> None:
    scheduler = _with_events(AddNode("n", ONE), AddAsk("a", "x", ONE, run_for_us=S))
    scheduler.finish()
    assert scheduler.ledger.app("a") is None
    app = scheduler.ledger.completed["a"]
    assert (app.state, app.ended_us, app.most) == ("Completed", 31 * S, {"vcore": 1000})
    scheduler.batch(60 * S, [RemoveApp("a")])
    assert "a" not in scheduler.ledger.completed


def test_only_the_latest_completed_applications_are_kept() -> None:
    scheduler = LedgerScheduler()
    names = [f"a{number}" for number in range(KEPT_COMPLETED + 2)]
    for name in names:
        events: list[Event] = [AddApp(name, "root.q"), AddAsk(name, "x", ONE), RemoveAsk(name, "x")]
        scheduler.batch(0, events)
    scheduler.finish()
    assert list(scheduler.ledger.completed) == names[2:]


def test_a_node_is_as_it_was_changed() -> None:
    scheduler = _with_events(AddNode("n", ONE, {"zone": "x"}))
    scheduler.batch(S, [UpdateNode("n", attributes={"zone": "y"}, schedulable=False)])
    node = scheduler.ledger.node("n")
    assert node is not None
    assert node.event == AddNode("n", ONE, {"zone": "y"}, schedulable=False)
    assert node.came_us == 0


def test_history_has_a_point_for_each_minute() -> None:
    scheduler = _with_events(AddNode("n", ONE), AddAsk("a", "x", ONE))
    assert not list(scheduler.ledger.history(59 * S))
    scheduler.batch(90 * S, [Release("a", "x")])
    points = list(scheduler.ledger.history(181 * S))
    assert points == [(60 * S, 1, 1), (120 * S, 0, 0), (180 * S, 0, 0)]


def test_history_is_that_of_a_day() -> None:
    scheduler = _with_events()
    points = list(scheduler.ledger.history((10 * KEPT_POINTS + 1) * 60 * S))
    assert len(points) == KEPT_POINTS
    assert points[-1].at_us == (10 * KEPT_POINTS + 1) * 60 * S


@pytest.mark.parametrize("parts", [[pack([pack([99])])], [b"\xc1"], [pack(1)], [pack([])] * 2])
def test_what_another_version_wrote_is_not_taken_up(parts: Sequence[bytes]) -> None:
    if parts == [pack([])] * 2:
        all_at_once(Ledger().load(parts))  # Nothing is in it.
        return
    with pytest.raises(ValueError, match=r"version|msgpack|list"):
        all_at_once(Ledger().load(parts))


def test_what_is_saved_comes_in_parts() -> None:
    scheduler = _with_events(AddAsk("a", "x", ONE, count=20_000))
    parts = all_at_once(scheduler.ledger.save())
    assert max(map(len, parts)) < 300_000
    ledger = Ledger()
    all_at_once(ledger.load(parts))
    assert ledger.book.apps["a"].asks.keys() == scheduler.ledger.book.apps["a"].asks.keys()


def test_it_knows_how_far_it_has_heard() -> None:
    scheduler = _with_events(AddAsk("a", "x", ONE))
    last: Announced = scheduler.plain.announced[-1]
    assert (scheduler.ledger.batch, scheduler.ledger.at_us, scheduler.ledger.seq) == (
        1,
        0,
        last.seq,
    )


SECOND_US: Final = 1_000_000
ONE_VCORE: Final = Resources({"vcore": 1000})


def _with_app(*events: Event) -> LedgerScheduler:
    scheduler = LedgerScheduler()
    scheduler.batch(0, [AddApp("a", "root.q"), *events])
    return scheduler


def _minutes(ledger: Ledger, now_us: int) -> list[Sample]:
    return ledger.samples(now_us, -1, hourly=False)


def test_a_sample_is_of_the_end_of_a_minute() -> None:
    # PAGE-16
    scheduler = _with_app(
        AddNode("n", ONE_VCORE), AddAsk("a", "x", ONE_VCORE), AddAsk("a", "y", ONE_VCORE)
    )
    scheduler.batch(90 * SECOND_US, [Release("a", "x")])
    scheduler.batch(
        100 * SECOND_US, [Release("a", "y"), UpdateNode("n", capacity=Resources({"vcore": 2000}))]
    )
    first, second, now = _minutes(scheduler.ledger, 130 * SECOND_US)

    assert first[:6] == (60 * SECOND_US, {"vcore": 1000}, {"vcore": 1000}, 1, 0, 1)
    assert second[:6] == (120 * SECOND_US, {"vcore": 0}, {"vcore": 2000}, 0, 0, 0)
    assert now == (130 * SECOND_US, *second[1:6], {})
    scheduler.batch(140 * SECOND_US, [RemoveNode("n")])
    assert _minutes(scheduler.ledger, 140 * SECOND_US)[-1].capacity == {}


def test_a_wait_is_counted_when_an_ask_is_bound() -> None:
    # PAGE-16
    scheduler = _with_app(AddAsk("a", "x", ONE_VCORE), AddAsk("a", "y", ONE_VCORE))
    scheduler.batch(7 * SECOND_US, [AddNode("n", ONE_VCORE)])
    scheduler.batch(3 * HOURLY_US, [AddNode("m", ONE_VCORE)])
    scheduler.batch(3 * HOURLY_US + SECOND_US, [RemoveNode("n")])
    scheduler.batch(3 * HOURLY_US + SECOND_US, [AddNode("n", ONE_VCORE)])
    first, *_, now = _minutes(scheduler.ledger, 3 * HOURLY_US + 2 * SECOND_US)

    assert first.waits == {WAITS_US.index(10 * SECOND_US): 1}
    assert now.waits == {WAITS_US.index(6 * HOURLY_US): 1, 0: 1}


def test_an_hour_is_the_mean_of_its_minutes() -> None:
    # PAGE-16
    scheduler = _with_app(AddNode("n", ONE_VCORE), AddAsk("a", "x", ONE_VCORE))
    scheduler.batch(HOURLY_US // 2, [Release("a", "x")])
    hour, now = scheduler.ledger.samples(HOURLY_US, -1, hourly=True)

    assert hour == (HOURLY_US, {"vcore": 500}, {"vcore": 1000}, 0, 0, 0, {0: 1})
    assert now.used == {"vcore": 0}


def test_only_the_latest_samples_are_kept() -> None:
    # PAGE-16
    scheduler = _with_app(AddNode("n", ONE_VCORE))
    far_us = (KEPT_HOURS + 100) * HOURLY_US
    minutes = _minutes(scheduler.ledger, far_us)
    hours = scheduler.ledger.samples(far_us, -1, hourly=True)

    assert (len(minutes), len(hours)) == (KEPT_MINUTES + 1, KEPT_HOURS + 1)
    assert [one.at_us for one in minutes[-3:]] == [far_us - MINUTE_US, far_us, far_us]
    assert [one.at_us for one in hours[:2]] == [101 * HOURLY_US, 102 * HOURLY_US]
    assert {one.capacity["vcore"] for one in hours} == {1000}


def test_samples_of_one_moment_are_the_same_when_later_ones_are_known() -> None:
    # PAGE-16
    scheduler = _with_app(AddNode("n", ONE_VCORE))
    before = _minutes(scheduler.ledger, 200 * SECOND_US)
    _minutes(scheduler.ledger, 400 * SECOND_US)
    assert _minutes(scheduler.ledger, 200 * SECOND_US) == before


def test_samples_are_saved() -> None:
    # PAGE-16
    scheduler = _with_app(
        AddNode("n", ONE_VCORE), AddAsk("a", "x", ONE_VCORE), Release("a", "none")
    )
    scheduler.batch(2 * HOURLY_US + 5 * SECOND_US, [AddAsk("a", "y", ONE_VCORE), Release("a", "x")])
    ledger = Ledger()
    all_at_once(ledger.load(all_at_once(scheduler.ledger.save())))

    for hourly in (False, True):
        now_us = 2 * HOURLY_US + 90 * SECOND_US
        expected = scheduler.ledger.samples(now_us, -1, hourly=hourly)
        assert ledger.samples(now_us, -1, hourly=hourly) == expected
    assert [(one.op, one.seq) for one in ledger.book.refused] == [("release", 3)]
