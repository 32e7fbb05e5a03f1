"""A store that is not what was written, or decides otherwise today, stops the start."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import muster
from muster._version import __version__
from muster.store._msgpack import decode_decisions, encode_decisions
from muster.store._rows import BatchRow, batch_digest
from muster_core.values.names import MOST_GUESSES
from tests.actors.runtime.storing.clock import SetClock
from tests.actors.runtime.storing.test_restart import begin
from tests.actors.store.test_format import put_facts


def change(folder: Path, statement: str, *values: object) -> None:
    """Change a state directory behind Muster's back."""
    connection = sqlite3.connect(folder / "muster.db")
    with connection:
        connection.execute(statement, values)
    connection.close()


async def refused(folder: Path) -> str:
    """Give the error with which a state directory is not opened."""
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
    message = await refused(tmp_path)
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

    message = await refused(tmp_path)
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
    assert "checkpoint" in await refused(tmp_path)


async def test_something_else_is_no_state_directory(tmp_path: Path) -> None:
    (tmp_path / "muster.db").write_text("something else, of some length" * 100)
    assert "muster.db" in await refused(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    assert "file" in await refused(file)


async def test_what_the_system_says_of_a_folder_is_told(tmp_path: Path) -> None:
    assert "too long" in await refused(tmp_path / ("x" * 1000))


async def test_a_format_that_is_too_old_is_not_said_to_need_an_opening(tmp_path: Path) -> None:
    await begin(tmp_path, SetClock())
    put_facts(tmp_path, format=0)
    assert "cannot bring it to format" in await refused(tmp_path)


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
