"""The scheduler as a program sees it while all goes well, and the time of a simulation.

The rest is in test_shutdown.
"""

from __future__ import annotations

import pytest
import trio

import muster
from muster._runtime.entry import BOUND as ENTRY_BOUND
from muster.testing import Interleaving, Recording, check
from muster_core.config import default_configuration
from muster_core.decisions import Kind, Reason
from muster_core.errors import RefusedError
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    BindFailed,
    Configure,
    Delete,
    Event,
    FailBind,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    PodObject,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace, Statistics
from muster_core.values.application_states import AppState
from tests.actors.program import APP, NODE, ONE, S, ask, bound, refusals, settled, watchdog

# Events


async def test_what_is_submitted_is_decided_when_the_batch_ends(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask(count=2))
        await settled()
        assert log.decisions == []

        await scheduler.settle()

        assert bound(log.decisions) == ["a/k-0", "a/k-1"]
        assert [one.seq for one in log.decisions] == list(range(1, len(log.decisions) + 1))


async def test_a_scheduler_without_a_journal() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask())
        assert (await scheduler.snapshot()).nodes["n"].used == {"vcore": 1}


async def test_every_event(log: Recording) -> None:
    events: list[Event] = [
        NODE,
        AddNode("m", Resources({"vcore": 1}), schedulable=False),
        UpdateNode("m", schedulable=True),
        APP,
        AddPriorityClass("high", 9),
        AddAsk("a", "k", ONE, priority_class="high", count=3),
        AddAsk("a", "big", Resources({"vcore": 99})),
        FailBind("a", "k-0"),
        Configure(default_configuration()),
        AddGang("default/g", GangFields(2)),
        AddAsk("a", "alone", ONE, gang="default/g"),
        Apply((Manifest(PodObject("b", "pod", "root.b", AddAsk("b", "pod", ONE), "n")),)),
        Apply((Manifest(NodeObject("o", ONE)),)),
    ]
    more: list[Event] = [
        BindFailed("a", "k-1"),
        Release("a", "k-0"),
        RemoveAsk("a", "big"),
        RemoveGang("default/g"),
        Delete((Manifest(ObjectName(ObjectKind.POD, "pod", "b")),)),
        Delete((Manifest(ObjectName(ObjectKind.NODE, "o")),)),
        RemoveNode("m"),
        RemoveApp("a"),
    ]
    async with muster.open_simulation(journal=log) as scheduler:
        for event in events:
            await scheduler.request(event)
        await scheduler.settle()
        for event in more:
            await scheduler.request(event)
            await check(scheduler)

    assert refusals(log.decisions) == []
    reasons = [one.decision.reason for one in log.decisions if one.decision.reason is not None]
    assert set(reasons) >= {Reason.BIND_FAILED, Reason.COMPLETED, Reason.REMOVED}


async def test_a_bad_event_is_refused_with_its_place(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(APP)
        await scheduler.submit(ask(app="nobody"), index=7, line=70)  # the directory refuses
        await scheduler.submit(Release("a", "k"), index=8, line=80)  # the application refuses
        await scheduler.submit(RemoveNode("n"), index=9, line=90)  # the coordinator refuses

    refused = [one.decision for one in log.decisions if one.decision.kind is Kind.REJECTED]
    assert [(one.index, one.line) for one in refused] == [(7, 70), (8, 80), (9, 90)]
    assert [(one.message or "").split()[1] for one in refused] == ["'nobody'", "'k'", "'n'"]


async def test_refuse(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.refuse("op: 'jump' is unknown", at_us=2 * S, index=3, line=4)

    (announced,) = log.decisions
    assert announced.as_map() == {
        "seq": 1,
        "at": 2,
        "kind": "rejected",
        "message": "op: 'jump' is unknown",
        "index": 3,
        "line": 4,
    }


# Requests


async def test_a_request_is_answered_while_the_batch_is_open(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.request(APP)
        await scheduler.request(ask())

        assert log.decisions == []


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (RemoveNode("m"), "node: 'm' is unknown"),
        (ask(app="b"), "app: 'b' is unknown"),
        (ask("there"), "ask: 'there' is already an ask of application 'a'"),
        (Release("a", "there"), "ask: 'there' of application 'a' is not bound; use remove_ask"),
    ],
)
async def test_a_request_that_is_refused(
    log: Recording, event: AddAsk | Release | RemoveNode, message: str
) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(APP)
        await scheduler.submit(ask("there"))

        with pytest.raises(RefusedError) as caught:
            await scheduler.request(event, index=5)

        assert str(caught.value) == message
        await scheduler.request(ask("next"))
    assert refusals(log.decisions) == [message]


async def test_a_refusal_is_the_answer_to_its_own_request_only() -> None:
    answers: dict[str, str | None] = {}
    async with muster.open_simulation(interleave=Interleaving(3)) as scheduler:

        async def ask_for(name: str, app: str) -> None:
            try:
                await scheduler.request(ask(name, app=app))
            except RefusedError as refusal:
                answers[name] = str(refusal)
            else:
                answers[name] = None

        await scheduler.submit(APP)
        await scheduler.submit(ask("old"))
        await scheduler.submit(ask("old"))  # Refused too, but no caller waits for the answer.
        async with trio.open_nursery() as nursery:
            for number in range(30):
                app = "a" if number % 3 else f"no-{number}"
                nursery.start_soon(ask_for, f"k{number}", app)
            nursery.start_soon(ask_for, "old", "a")

    assert answers.pop("old") == "ask: 'old' is already an ask of application 'a'"
    assert answers == {
        f"k{number}": None if number % 3 else f"app: 'no-{number}' is unknown"
        for number in range(30)
    }


async def test_a_caller_that_gives_up_loses_its_answer_and_nothing_else(log: Recording) -> None:
    async with muster.open_simulation(journal=log, interleave=Interleaving(1)) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scheduler.request, ask())
            nursery.start_soon(scheduler.request, ask("nobody", app="nobody"))
            nursery.start_soon(scheduler.settle)
            await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

        await check(scheduler)

    assert bound(log.decisions) in ([], ["a/k"])  # It entered or it did not.
    assert len(refusals(log.decisions)) <= 1


# Reading


async def test_a_snapshot_is_of_all_that_came_before_it() -> None:
    async with muster.open_simulation(interleave=Interleaving(5)) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask(count=5), at_us=S)
        snapshot = await scheduler.snapshot()

    assert snapshot.at_us == S
    app = snapshot.apps["a"]
    places = {one.name: (one.place, one.node) for one in app.asks}
    assert places == {f"k-{n}": (AskPlace.BOUND, "n") for n in range(4)} | {
        "k-4": (AskPlace.PENDING, None)
    }
    assert (app.state, app.priority, app.queue) == (AppState.RUNNING, 0, "root.q")
    assert snapshot.queues["root"].allocated == snapshot.nodes["n"].used == {"vcore": 4}
    assert snapshot.queues["root.q"].pending == {"vcore": 1}
    assert snapshot.shares == {"root": 1.0, "root.q": 1.0}


async def test_many_callers_at_once_each_get_their_answer() -> None:
    async with muster.open_simulation(interleave=Interleaving(2)) as scheduler:
        used: list[int] = []

        async def look(number: int) -> None:
            await scheduler.submit(ask(f"k{number}"))
            used.append((await scheduler.snapshot()).nodes["n"].used["vcore"])
            assert await scheduler.why_pending("a", f"k{number}") is None
            await scheduler.settle()

        await scheduler.submit(AddNode("n", Resources({"vcore": 99})))
        await scheduler.submit(APP)
        with watchdog():
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(look, number)
        await check(scheduler)

    assert len(used) == 20
    assert max(used) == 20


async def test_why_pending() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask(count=5))

        assert await scheduler.why_pending("a", "k-0") is None
        assert await scheduler.why_pending("a", "unknown") is None
        assert await scheduler.why_pending("unknown", "k-0") is None
        reason = await scheduler.why_pending("a", "k-4")
        assert reason is not None
        assert reason.outlook == muster.Outlook(position=1)
        reason = await scheduler.why_pending("a", "k-4", forecast=True)
        assert reason is not None
        assert reason.outlook == muster.Outlook(1, muster.Forecast("unknown", None))
    assert str(reason) == (
        "NoNodeFits: of 1 node 1 has too little vcore; n is the closest and lacks 1m vcore"
    )


async def test_statistics() -> None:
    async with muster.open_simulation() as scheduler:
        assert scheduler.statistics() == Statistics(0, 0, 0, 0, 0, 0)
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask(count=5))
        await scheduler.refuse("bad")
        await scheduler.submit(Release("a", "k-0"))
        await scheduler.settle()
        await scheduler.settle()
    assert scheduler.statistics() == Statistics(
        requests=5, batches=2, steps=4, bound=4, refused=2, decisions=16
    )


async def test_a_burst_below_one_parent_costs_it_one_computation() -> None:
    async with muster.open_simulation() as scheduler:
        for number in range(10):
            await scheduler.submit(AddApp(f"a{number}", f"root.parent.q{number % 3}"))
        before = (await scheduler.snapshot()).queues
        for number in range(100):
            app = f"a{number % 10}"
            event = AddAsk(app, f"k{number}", ONE, priority=number, count=1000)
            await scheduler.submit(event)
        after = (await scheduler.snapshot()).queues

    assert after["root.parent"].priority == 99
    assert after["root.parent"].pending == {"vcore": 100_000}
    for path in ("root", "root.parent", "root.parent.q0"):
        assert after[path].recomputations - before[path].recomputations == 1


# Back pressure


async def test_a_sender_waits_while_the_entry_is_full() -> None:
    sent = 0
    gate = trio.Event()  # While it is closed no owner answers, and the coordinator is busy.
    async with muster.open_simulation(interleave=gate.wait) as scheduler:

        async def send_many() -> None:
            nonlocal sent
            for number in range(3 * ENTRY_BOUND):
                await scheduler.submit(ask(f"k{number}"))
                sent += 1

        await scheduler.submit(APP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scheduler.settle)
            await settled()
            nursery.start_soon(send_many)
            await settled(4 * ENTRY_BOUND)
            assert sent == ENTRY_BOUND
            gate.set()
        assert sent == 3 * ENTRY_BOUND
        snapshot = await scheduler.snapshot()

    assert len(snapshot.apps["a"].asks) == 3 * ENTRY_BOUND


async def test_a_sender_that_gives_up_while_the_entry_is_full_has_let_nothing_in() -> None:
    gate = trio.Event()
    async with muster.open_simulation(interleave=gate.wait) as scheduler:
        await scheduler.submit(APP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scheduler.settle)
            await settled()
            for number in range(ENTRY_BOUND):
                await scheduler.submit(ask(f"k{number}"))
            with trio.CancelScope() as scope:
                nursery.start_soon(_cancel_when_settled, scope)
                await scheduler.submit(ask("late"))
            assert scope.cancelled_caught
            gate.set()
        snapshot = await scheduler.snapshot()

    assert len(snapshot.apps["a"].asks) == ENTRY_BOUND


async def _cancel_when_settled(scope: trio.CancelScope) -> None:
    await settled()
    scope.cancel()


async def test_other_tasks_run_while_a_long_round_works() -> None:
    ran = 0

    async def other() -> None:
        nonlocal ran
        while True:
            ran += 1
            await trio.lowlevel.checkpoint()

    async with muster.open_simulation() as scheduler, trio.open_nursery() as nursery:
        await scheduler.submit(AddNode("n", Resources({"vcore": 5000})))
        await scheduler.submit(APP)
        await scheduler.submit(ask(count=5000))
        settling = trio.Event()

        async def settle() -> None:
            settling.set()
            await scheduler.settle()
            nursery.cancel_scope.cancel()

        nursery.start_soon(settle)
        await settling.wait()
        nursery.start_soon(other)

    assert scheduler.statistics().bound == 5000
    assert ran > 10  # far more than the batch has messages


@pytest.fixture
def log() -> Recording:
    return Recording()


async def test_an_event_with_a_later_instant_closes_the_batch(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask(), at_us=0)
        await scheduler.request(AddApp("b", "root.q"), at_us=1)

        assert bound(log.decisions) == ["a/k"]
        assert {one.at_us for one in log.decisions} == {0}


async def test_timers_in_between_go_off_at_their_own_instants(log: Recording) -> None:
    with watchdog():
        async with muster.open_simulation(journal=log) as scheduler:
            await scheduler.submit(NODE)
            await scheduler.submit(APP)
            await scheduler.submit(AddAsk("a", "k", ONE, run_for_us=5 * S))
            await scheduler.request(AddApp("b", "root.q"), at_us=3600 * S)

            states = [
                (one.at_us // S, one.decision.state)
                for one in log.decisions
                if one.decision.kind is Kind.APP_STATE
            ]
    assert states == [
        (0, AppState.NEW),
        (0, AppState.ACCEPTED),
        (0, AppState.STARTING),
        (5, AppState.COMPLETING),
        (35, AppState.COMPLETED),
    ]


async def test_a_timer_of_the_same_instant_comes_before_the_event(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(AddAsk("a", "k", ONE, run_for_us=5 * S))
        with pytest.raises(RefusedError):
            await scheduler.request(Release("a", "k"), at_us=5 * S)


async def test_an_earlier_instant_is_refused(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.settle(2 * S)
        await scheduler.submit(NODE, at_us=1_500_000, index=1)
        with pytest.raises(RefusedError, match=r"^at: 1 is earlier than the present instant, 2$"):
            await scheduler.request(NODE, at_us=S)
        with pytest.raises(RefusedError, match=r"^at: 0 is earlier"):
            await scheduler.settle(0)
        with pytest.raises(RefusedError, match=r"^at: -1 is earlier"):
            await scheduler.settle(-S)

        assert (await scheduler.snapshot()).nodes == {}
    assert refusals(log.decisions) == [
        "at: 1.5 is earlier than the present instant, 2",
        "at: 1 is earlier than the present instant, 2",
    ]


async def test_a_request_with_an_earlier_instant_waits_for_no_owner(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(APP, at_us=S)
        await scheduler.submit(ask("k"))
        await scheduler.submit(ask("k"))
        with pytest.raises(RefusedError, match="earlier"):
            await scheduler.request(ask("other"), at_us=0)
        snapshot = await scheduler.snapshot()

    assert [one.name for one in snapshot.apps["a"].asks] == ["k"]


async def test_finish_runs_until_no_timer_is_left(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(AddAsk("a", "k", ONE, count=9, run_for_us=3600 * S))
        await scheduler.finish()
        snapshot = await check(scheduler)

    assert snapshot.at_us == (3 * 3600 + 30) * S
    assert snapshot.completed == {"a"}
    assert len(bound(log.decisions)) == 9


async def test_finish_up_to_an_instant() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(AddAsk("a", "k", ONE, run_for_us=10 * S))

        await scheduler.finish(9 * S)
        assert (await scheduler.snapshot()).apps["a"].asks != ()
        await scheduler.finish(10 * S)
        assert (await scheduler.snapshot()).apps["a"].asks == ()
        await scheduler.finish(3 * S)  # Time does not go back.
        assert (await scheduler.snapshot()).at_us == 10 * S


async def test_finish_leaves_the_scheduler_open(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.finish()
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask())
        await scheduler.finish()

        assert bound(log.decisions) == ["a/k"]


async def test_two_batches_of_one_instant(log: Recording) -> None:
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask("first"))
        await scheduler.settle(0)
        await scheduler.submit(AddAsk("a", "second", ONE, priority=7), at_us=0)

    assert bound(log.decisions) == ["a/first", "a/second"]
