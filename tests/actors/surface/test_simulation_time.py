"""The time of a simulation: instants, timers, and running to the end."""

from __future__ import annotations

import pytest

import muster
from muster.testing import Recording, check
from muster_core.decisions import Kind
from muster_core.errors import RefusedError
from muster_core.events import AddApp, AddAsk, Release
from muster_core.values.application_states import AppState
from tests.actors.program import APP, NODE, ONE, S, ask, bound, refusals, watchdog


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
