"""What a scheduler with a store has when it is opened again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import trio

import muster
from muster.store import StateReader
from muster.testing import Recording, check
from muster_core.decisions import Announced, Kind
from tests.actors.program import S, bound
from tests.actors.runtime.storing.clock import START, SetClock

CONFIG = (
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: q}]}]}]"
)
OTHER = CONFIG.replace("{name: q}", "{name: q}, {name: r}")


def kept(folder: Path) -> list[Announced]:
    """Give all decisions in a state directory."""
    with StateReader(folder) as reader:
        return [one for batch in reader.batches() for one in batch.decisions]


async def begin(folder: Path, clock: SetClock) -> None:
    """Leave two bound asks, one of them for 60 s, and one that is pending."""
    async with muster.open_scheduler(CONFIG, store=folder, clock=clock) as scheduler:
        await scheduler.add_node("n", {"vcore": 2})
        await scheduler.add_app("a", "root.q")
        await scheduler.add_ask("a", "long", {"vcore": 1})
        await scheduler.add_ask("a", "short", {"vcore": 1}, run_for=60)
        await scheduler.add_ask("a", "later", {"vcore": 1})


async def test_everything_is_there_again(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        assert [ask.name for ask in await scheduler.asks()] == ["long", "short", "later"]
        assert [ask.name for ask in await scheduler.asks(state="bound")] == ["long", "short"]
        assert [ask.name for ask in await scheduler.asks(state="pending", app="a")] == ["later"]
        assert await scheduler.asks(queue="root.q", state="waiting") == ()
        assert await scheduler.asks(queue="elsewhere") == await scheduler.asks(app="b") == ()

        allocation = await scheduler.ask("a", "long").bound()
        assert allocation.node == "n"
        assert await allocation.release()
        assert (await scheduler.ask("a", "later").bound()).node == "n"
        await check(scheduler)


async def test_a_state_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        with pytest.raises(muster.EventError, match="state: 'running': must be one of pending"):
            await scheduler.asks(state="running")


async def test_numbers_and_instants_go_on(tmp_path: Path) -> None:
    clock, journal = SetClock(), Recording()
    await begin(tmp_path, clock)
    before = kept(tmp_path)
    clock.move(30)
    async with muster.open_scheduler(store=tmp_path, clock=clock, journal=journal) as scheduler:
        await scheduler.add_app("b", "root.q")

    assert kept(tmp_path) == [*before, *journal.decisions]
    assert [one.seq for one in kept(tmp_path)] == list(range(1, len(kept(tmp_path)) + 1))
    assert {one.at_us for one in journal.decisions} == {30 * S}
    with StateReader(tmp_path) as reader:
        assert reader.meta.origin_us == START


async def test_timers_that_came_due_meanwhile_go_off_first_at_their_own_instants(
    tmp_path: Path,
) -> None:
    clock, journal = SetClock(), Recording()
    await begin(tmp_path, clock)
    clock.move(3600)
    async with muster.open_scheduler(store=tmp_path, clock=clock, journal=journal) as scheduler:
        await scheduler.add_app("b", "root.q")

    assert [one.at_us for one in journal.decisions if one.decision.ask == "short"] == [60 * S]
    assert bound(journal.decisions) == ["a/later"]
    assert journal.decisions[-1].at_us == 3600 * S


async def test_timers_go_on(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    clock.move(30)
    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        later = scheduler.ask("a", "later")
        assert [ask.name for ask in await scheduler.asks(state="bound")] == ["long", "short"]
        clock.move(30)
        with trio.fail_after(120):
            await later.bound()


async def test_a_configuration_that_differs_comes_in(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    async with muster.open_scheduler(OTHER, store=tmp_path, clock=clock) as scheduler:
        await scheduler.add_app("b", "root.r")
    before = len(kept(tmp_path))
    async with muster.open_scheduler(OTHER, store=tmp_path, clock=clock):
        pass

    kinds = [one.decision.kind for one in kept(tmp_path)]
    assert kinds.count(Kind.CONFIG) == 2
    assert len(kept(tmp_path)) == before  # It is in force already.


async def test_a_configuration_that_is_refused_leaves_everything(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    parent = CONFIG.replace("{name: q}", "{name: q, parent: true}")
    with pytest.raises(muster.RefusedError, match=r"root\.q"):
        async with muster.open_scheduler(parent, store=tmp_path, clock=clock):
            pytest.fail("the block was entered")
    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        assert len(await scheduler.asks()) == 3


async def test_the_directory_of_another_partition_is_refused(tmp_path: Path) -> None:
    # STORE-20
    clock, gpu = SetClock(), CONFIG.replace("name: default", "name: gpu")
    await begin(tmp_path, clock)
    with pytest.raises(muster.StoreError, match=r"has the state of partition 'default', .* 'gpu'"):
        async with muster.open_scheduler(gpu, store=tmp_path, clock=clock):
            pytest.fail("the block was entered")
    async with muster.open_scheduler(CONFIG, store=tmp_path, clock=clock) as scheduler:
        await scheduler.configure(gpu)
    for config in (gpu, None):
        async with muster.open_scheduler(config, store=tmp_path, clock=clock) as scheduler:
            assert len(await scheduler.asks()) == 3
    with StateReader(tmp_path) as reader:
        assert reader.meta.partition == "gpu"
    with pytest.raises(muster.StoreError, match=r"has the state of partition 'gpu', .* 'default'"):
        async with muster.open_scheduler(CONFIG, store=tmp_path, clock=clock):
            pytest.fail("the block was entered")


async def test_a_new_directory_has_the_partition_of_its_configuration(tmp_path: Path) -> None:
    # STORE-20
    gpu = CONFIG.replace("name: default", "name: gpu")
    async with muster.open_scheduler(gpu, store=tmp_path):
        with StateReader(tmp_path) as reader:
            assert reader.meta.partition == "gpu"


async def test_time_stands_still_while_the_clock_is_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, journal = SetClock(), Recording()
    await begin(tmp_path, clock)
    clock.move(10)
    async with muster.open_scheduler(store=tmp_path, clock=clock, journal=journal) as scheduler:
        await scheduler.add_app("b", "root.q")
        clock.move(-7)
        with caplog.at_level(logging.WARNING, "muster.store"):
            await scheduler.add_app("c", "root.q")
            await scheduler.add_app("d", "root.q")
        clock.move(9)
        await scheduler.add_app("e", "root.q")

    states = [one for one in journal.decisions if one.decision.kind is Kind.APP_STATE]
    assert [one.at_us for one in states] == [10 * S, 10 * S, 10 * S, 12 * S]
    (record,) = caplog.records
    assert "set back: time stands still for 7.000 s" in record.getMessage()


async def test_the_second_of_two_is_refused(tmp_path: Path) -> None:
    async with muster.open_scheduler(CONFIG, store=tmp_path):
        with pytest.raises(muster.StoreError, match=r"another|holds|process"):
            async with muster.open_scheduler(CONFIG, store=tmp_path):
                pytest.fail("the block was entered")
    async with muster.open_scheduler(CONFIG, store=tmp_path):
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"durability": "none"}, "durability: 'none': must be one of full, process"),
        ({"checkpoint_every": 0}, "checkpoint_every: 0 events: must be a whole number, 1 or more"),
        ({"checkpoint_every": "many"}, "checkpoint_every: 'many' events: must be a whole number"),
        ({"checkpoint_every": True}, "checkpoint_every: True events: must be a whole number"),
        ({"store": "a\0b"}, r"store: 'a\x00b': the name of a folder has no character 0"),
        ({"store": b"state"}, "store: b'state': must be the name of a folder"),
        ({"store": 7}, "store: 7: must be the name of a folder"),
        ({"keep": "a week"}, "keep: 'a week' is not a duration"),
        ({"keep": 0}, "keep: 0: must be above 0"),
        ({"keep": "0d"}, "keep: '0d': must be above 0"),
    ],
)
async def test_a_bad_option_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(muster.EventError) as caught:
        given: dict[str, Any] = {"store": tmp_path / "s"} | options
        async with muster.open_scheduler(**given):
            pytest.fail("the block was entered")
    assert message in str(caught.value)
    assert not (tmp_path / "s").exists()


async def test_why_work_could_not_be_started(tmp_path: Path) -> None:
    # FEED-36, CHECKPOINT-4
    clock, told = SetClock(), {"op": "bind_failed", "app": "a", "ask": "long", "message": "no disk"}
    await begin(tmp_path, clock)
    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        await scheduler.update_node("n", schedulable=False)
        await scheduler.submit(told)
        before = await scheduler.ask("a", "long").why()
    (failed,) = [one for one in kept(tmp_path) if one.decision.reason is muster.Reason.BIND_FAILED]
    assert failed.decision.message == "no disk"

    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        after = await scheduler.ask("a", "long").why()
    assert before == after
    assert before is not None
    assert "its last bind, on n, failed: no disk;" in str(before)
