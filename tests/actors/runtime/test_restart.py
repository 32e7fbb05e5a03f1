"""What a scheduler with a store has when it is opened again.

Checkpoints, the work that was bound, and stores that stop the start.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

import muster
from muster._version import __version__
from muster.store import StateReader
from muster.store._msgpack import decode_decisions, encode_decisions
from muster.store._rows import BatchRow, batch_digest
from muster.testing import Recording, check
from muster_core.decisions import Announced, Kind
from muster_core.values.names import MOST_GUESSES
from tests.actors.program import START, S, SetClock, ask, bound, releases
from tests.actors.store.test_format import put_facts

CONFIG = (
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: q}]}]}]"
)
OTHER = CONFIG.replace("{name: q}", "{name: q}, {name: r}")


def decisions_in(folder: Path) -> list[Announced]:
    """Return all decisions in a state directory."""
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
    before = decisions_in(tmp_path)
    clock.move(30)
    async with muster.open_scheduler(store=tmp_path, clock=clock, journal=journal) as scheduler:
        await scheduler.add_app("b", "root.q")

    assert decisions_in(tmp_path) == [*before, *journal.decisions]
    assert [one.seq for one in decisions_in(tmp_path)] == list(
        range(1, len(decisions_in(tmp_path)) + 1)
    )
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
    before = len(decisions_in(tmp_path))
    async with muster.open_scheduler(OTHER, store=tmp_path, clock=clock):
        pass

    kinds = [one.decision.kind for one in decisions_in(tmp_path)]
    assert kinds.count(Kind.CONFIG) == 2
    assert len(decisions_in(tmp_path)) == before  # It is in force already.


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
        keywords: dict[str, Any] = {"store": tmp_path / "s"} | options
        async with muster.open_scheduler(**keywords):
            pytest.fail("the block was entered")
    assert message in str(caught.value)
    assert not (tmp_path / "s").exists()


async def test_why_work_could_not_be_started(tmp_path: Path) -> None:
    # FEED-36, CHECKPOINT-4
    clock, event = (
        SetClock(),
        {"op": "bind_failed", "app": "a", "ask": "long", "message": "no disk"},
    )
    await begin(tmp_path, clock)
    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        await scheduler.update_node("n", schedulable=False)
        await scheduler.submit(event)
        before = await scheduler.ask("a", "long").why()
    (failed,) = [
        one for one in decisions_in(tmp_path) if one.decision.reason is muster.Reason.BIND_FAILED
    ]
    assert failed.decision.message == "no disk"

    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        after = await scheduler.ask("a", "long").why()
    assert before == after
    assert before is not None
    assert "its last bind, on n, failed: no disk;" in str(before)


class Worker:
    """A binder that begins work again."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.resumed: list[str] = []

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        self.runs.append(allocation.ask)
        started()
        await trio.sleep_forever()


class ResumingBinder(Worker):
    """A binder that finds the work of ``long`` again."""

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        await trio.lowlevel.checkpoint()
        self.resumed.append(f"{allocation.ask} on {allocation.node}")
        if allocation.ask != "long":
            raise LookupError(allocation.ask)
        started()
        await trio.sleep_forever()


async def test_without_resume_the_work_begins_again(tmp_path: Path) -> None:
    clock, worker, journal = SetClock(), Worker(), Recording()
    await begin(tmp_path, clock)
    async with muster.open_scheduler(
        store=tmp_path, clock=clock, binder=worker, journal=journal
    ) as scheduler:
        await scheduler.ask("a", "long").bound()
        await scheduler.ask("a", "short").bound()

    failed = [("long", muster.Reason.BIND_FAILED), ("short", muster.Reason.BIND_FAILED)]
    assert releases(journal.decisions) == failed
    messages = {one.decision.message for one in journal.decisions if one.decision.reason}
    assert messages == {"the program has started again, and its binder does not resume work"}
    assert sorted(worker.runs) == ["long", "short"]


async def test_what_is_found_again_goes_on(tmp_path: Path) -> None:
    clock, worker, journal = SetClock(), ResumingBinder(), Recording()
    await begin(tmp_path, clock)
    async with muster.open_scheduler(
        store=tmp_path, clock=clock, binder=worker, journal=journal
    ) as scheduler:
        with trio.fail_after(120):
            allocation = await scheduler.ask("a", "long").bound()
            await scheduler.ask("a", "short").bound()
        assert allocation.node == "n"
        assert await allocation.release()
        with trio.fail_after(120):
            await scheduler.ask("a", "later").bound()

    assert sorted(worker.resumed) == ["long on n", "short on n"]
    assert releases(journal.decisions)[0] == ("short", muster.Reason.BIND_FAILED)
    failed = [one.decision for one in journal.decisions if one.decision.ask == "short"]
    assert failed[0].message == "LookupError: short"
    assert sorted(worker.runs) == ["later", "short"]
    assert bound(journal.decisions)[0] == "a/short"


async def test_what_a_timer_ended_meanwhile_is_not_resumed(tmp_path: Path) -> None:
    clock, worker = SetClock(), ResumingBinder()
    await begin(tmp_path, clock)
    clock.move(3600)
    async with muster.open_scheduler(store=tmp_path, clock=clock, binder=worker) as scheduler:
        with trio.fail_after(120):
            await scheduler.ask("a", "later").bound()
            await scheduler.ask("a", "long").bound()

    assert worker.resumed == ["long on n"]
    assert worker.runs == ["later"]


async def test_without_a_binder_allocations_stay(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        held = [await ask.bound() for ask in await scheduler.asks(state="bound")]
        assert [(one.ask, one.node) for one in held] == [("long", "n"), ("short", "n")]


def checkpoints(folder: Path) -> list[int]:
    """Return the batches of the checkpoints in a state directory."""
    with StateReader(folder) as reader:
        return [one.batch for one in reader.checkpoints() if one.complete]


def last_batch(folder: Path) -> int:
    """Return the number of the last batch."""
    with StateReader(folder) as reader:
        return reader.last().batch


async def test_one_is_taken_at_the_end_unless_nothing_came(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    assert checkpoints(tmp_path) == [last_batch(tmp_path)]
    async with muster.open_scheduler(store=tmp_path, clock=clock):
        pass
    assert checkpoints(tmp_path) == [last_batch(tmp_path)]


async def test_none_is_taken_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with muster.open_scheduler(CONFIG, store=tmp_path) as scheduler:
            await scheduler.add_app("a", "root.q")
            raise ValueError("mine")
    assert checkpoints(tmp_path) == []
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        assert list((await scheduler.snapshot()).apps) == ["a"]


async def test_they_are_taken_after_a_number_of_events(tmp_path: Path) -> None:
    async with muster.open_scheduler(CONFIG, store=tmp_path, checkpoint_every=10) as scheduler:
        for number in range(25):
            await scheduler.add_app(f"a{number}", "root.q")
            await scheduler.settle()
        with trio.fail_after(120):
            while len(checkpoints(tmp_path)) < 2:
                await scheduler.settle()
    assert len(checkpoints(tmp_path)) == 3


async def test_each_comes_after_as_many_events_as_the_last_one_holds_objects(
    tmp_path: Path,
) -> None:
    # STORE-23
    let_in, taken = 2, [0]
    with pytest.raises(ValueError, match="mine"):
        async with muster.open_scheduler(CONFIG, store=tmp_path, checkpoint_every=10) as scheduler:
            await scheduler.add_app("a", "root.q")
            for _ in range(200):
                names = [f"x{number}" for number in range(let_in, let_in + 5)]
                await scheduler.submit_many([ask(name) for name in names])
                let_in += 5
                # Of the events the first two made two queues and an application, the others asks.
                if let_in >= taken[-1] + max(10, taken[-1] + 1):
                    before = checkpoints(tmp_path)
                    with trio.fail_after(120):
                        while checkpoints(tmp_path) == before:
                            await scheduler.settle()
                    taken.append(let_in)
                with StateReader(tmp_path) as reader:
                    (newest,) = checkpoints(tmp_path)[-1:] or [0]
                    assert reader.event_count(newest) == let_in - taken[-1]
            raise ValueError("mine")
    assert len(taken) - 1 == 7
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        assert len(await scheduler.asks()) == let_in - 2


async def test_the_newest_three_stay_and_those_that_are_a_tenth_of_history_apart(
    tmp_path: Path,
) -> None:
    # STORE-19
    clock = SetClock()
    async with muster.open_scheduler(CONFIG, store=tmp_path, clock=clock) as scheduler:
        for number in range(60):
            clock.move(0.5)
            await scheduler.add_app(f"a{number}", "root.q")
            await scheduler.checkpoint()
        found = checkpoints(tmp_path)
        assert found[-3:] == [
            last_batch(tmp_path) - 2,
            last_batch(tmp_path) - 1,
            last_batch(tmp_path),
        ]
        assert len(found) <= 10 + 3 + 1
        # There is a batch and a checkpoint each half second. Of two that come to be too near to each
        # other the later one goes.
        gaps = [later - earlier for earlier, later in pairwise(found)]
        assert max(gaps) <= 2 * (60 // 10) + 1
        assert found[0] <= 3


async def test_old_batches_go_though_old_checkpoints_do(tmp_path: Path) -> None:
    # STORE-16, STORE-19
    clock = SetClock()
    async with muster.open_scheduler(CONFIG, store=tmp_path, clock=clock, keep=10) as scheduler:
        for number in range(40):
            await scheduler.add_app(f"a{number}", "root.q")
            await scheduler.checkpoint()
            clock.move(0.5)
    with StateReader(tmp_path) as reader:
        batches = list(reader.batches())
    assert 10 <= (batches[-1].at_us - batches[0].at_us) / S <= 12
    assert len(checkpoints(tmp_path)) <= 10 + 3 + 1


async def test_one_is_taken_on_demand(tmp_path: Path) -> None:
    async with muster.open_scheduler(CONFIG, store=tmp_path) as scheduler:
        await scheduler.add_app("a", "root.q")
        before = last_batch(tmp_path)
        await scheduler.checkpoint()
        assert checkpoints(tmp_path) == [before]


async def test_without_a_store_there_is_none() -> None:
    async with muster.open_scheduler(CONFIG) as scheduler:
        with pytest.raises(muster.RefusedError, match="there is no store"):
            await scheduler.checkpoint()


async def test_history_goes_also_if_nothing_new_came(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    clock.move(30 * 86400)
    async with muster.open_scheduler(store=tmp_path, clock=clock):
        await trio.lowlevel.checkpoint()
    clock.move(8 * 86400)
    async with muster.open_scheduler(store=tmp_path, clock=clock, keep="7d"):
        await trio.lowlevel.checkpoint()
    with StateReader(tmp_path) as reader:
        assert reader.meta.anchor.batch == reader.last().batch


async def test_history_goes_when_a_checkpoint_covers_it(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    covered = last_batch(tmp_path)
    clock.move(7200)
    async with muster.open_scheduler(store=tmp_path, clock=clock, keep="1h") as scheduler:
        await scheduler.add_app("b", "root.q")
    decisions = decisions_in(tmp_path)
    assert decisions
    with StateReader(tmp_path) as reader:
        assert reader.meta.anchor.batch == covered
        assert [one.batch for one in reader.checkpoints()] == [covered, reader.last().batch]
    async with muster.open_scheduler(store=tmp_path, clock=clock, keep="1h") as scheduler:
        assert sorted((await scheduler.snapshot()).apps) == ["a", "b"]
        assert len(await scheduler.asks()) == 2


def change(folder: Path, statement: str, *values: object) -> None:
    """Change a state directory behind Muster's back."""
    connection = sqlite3.connect(folder / "muster.db")
    with connection:
        connection.execute(statement, values)
    connection.close()


async def opening_error(folder: Path) -> str:
    """Return the error with which a state directory is not opened."""
    with pytest.raises(muster.StoreError) as caught:
        async with muster.open_scheduler(store=folder, clock=SetClock()):
            pytest.fail("the block was entered")
    return str(caught.value)


async def without_checkpoints(folder: Path) -> None:
    await begin(folder, SetClock())
    change(folder, "DELETE FROM checkpoint")


async def test_a_changed_batch_is_named(tmp_path: Path) -> None:
    await without_checkpoints(tmp_path)
    change(tmp_path, "UPDATE batch SET at_us = at_us + 1 WHERE number = 3")
    message = await opening_error(tmp_path)
    assert str(tmp_path) in message
    assert "batch 3" in message


async def test_other_decisions_are_named_with_the_versions(tmp_path: Path) -> None:
    """A batch whose digests hold, but which another Muster has decided."""
    await without_checkpoints(tmp_path)
    connection = sqlite3.connect(tmp_path / "muster.db")
    rows = connection.execute("SELECT * FROM batch ORDER BY number").fetchall()
    (digest,) = connection.execute("SELECT value FROM meta WHERE key = 'anchor_digest'").fetchone()
    found = 0
    for number, at_us, events, decisions, first, end, _ in rows:
        made = list(decode_decisions(decisions, first, at_us))
        if not found and any(one.decision.node for one in made):
            found = number
            made.reverse()
            made = [type(one)(seq, at_us, one.decision) for seq, one in enumerate(made, first)]
        packed = encode_decisions(made)
        digest = batch_digest(digest, BatchRow(number, at_us, events, packed, first, end))
        connection.execute(
            "UPDATE batch SET decisions = ?, digest = ? WHERE number = ?", (packed, digest, number)
        )
    connection.commit()
    connection.close()

    message = await opening_error(tmp_path)
    assert f"batch {found} decides otherwise today, from decision " in message
    assert f"Muster {__version__} wrote it, and this is Muster {__version__}" in message


async def test_a_damaged_checkpoint_is_not_used(tmp_path: Path) -> None:
    await begin(tmp_path, SetClock())
    change(tmp_path, "UPDATE checkpoint SET state = x'c0'")
    async with muster.open_scheduler(store=tmp_path, clock=SetClock()) as scheduler:
        assert len(await scheduler.asks()) == 3


async def test_a_checkpoint_that_nothing_can_replace_stops_the_start(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    clock.move(7200)
    async with muster.open_scheduler(store=tmp_path, clock=clock, keep=1) as scheduler:
        await scheduler.add_app("b", "root.q")
    change(tmp_path, "UPDATE checkpoint SET state = x'c0'")
    assert "checkpoint" in await opening_error(tmp_path)


async def test_something_else_is_no_state_directory(tmp_path: Path) -> None:
    (tmp_path / "muster.db").write_text("something else, of some length" * 100)
    assert "muster.db" in await opening_error(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    assert "file" in await opening_error(file)


async def test_the_error_of_the_system_about_a_folder_is_reported(tmp_path: Path) -> None:
    assert "too long" in await opening_error(tmp_path / ("x" * 1000))


async def test_a_format_that_is_too_old_gets_no_hint_to_open_it(tmp_path: Path) -> None:
    await begin(tmp_path, SetClock())
    put_facts(tmp_path, format=0)
    assert "cannot bring it to format" in await opening_error(tmp_path)


async def test_what_is_read_changes_no_later_decision(tmp_path: Path) -> None:
    """Handles of unknown applications use up none of the guesses that refusals have."""
    clock = SetClock()
    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        await scheduler.add_app("nightly-1", "root.default")
        for number in range(MOST_GUESSES):
            with pytest.raises(muster.RefusedError, match="did you mean nightly-1"):
                await scheduler.ask(f"nightly-{number + 2}", "x").bound()
        with pytest.raises(muster.RefusedError, match="did you mean nightly-1"):
            await scheduler.remove_app("nightly-2")
    change(tmp_path, "DELETE FROM checkpoint")

    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        assert "nightly-1" in (await scheduler.snapshot()).apps
