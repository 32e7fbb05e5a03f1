"""What a binder says of work that was started and has failed."""

from __future__ import annotations

import logging
from typing import Final

import pytest
from trio.testing import wait_all_tasks_blocked

import muster
from muster import WorkFailedError
from muster_core.events import BindFailed, Event, Outcome, Release
from tests.actors.service import Notes, Worker, service

ONE: Final = {"vcore": 1}
LOST: Final = OSError("the machine has gone")
FAILED: Final = WorkFailedError("exit status 3")


async def said(worker: Worker, error: Exception | None, *, starts: bool = True) -> Event | str:
    """Give the event that is let in when a run ends in some way."""
    notes = Notes()
    async with service(binder=worker, record=notes) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        if starts:
            worker.last.start()
        before = len(notes.events)
        worker.last.finish(error)
        await wait_all_tasks_blocked()
        return notes.events[before]


@pytest.mark.parametrize("starts", [True, False])
async def test_it_is_a_release(worker: Worker, starts: bool) -> None:
    event = await said(worker, FAILED, starts=starts)

    assert event == Release("a", "k", Outcome.FAILED, "exit status 3")


async def test_an_error_of_ones_own(worker: Worker) -> None:
    class ExitedError(WorkFailedError):
        def __init__(self, status: int) -> None:
            super().__init__(f"exit status {status}")

    assert await said(worker, ExitedError(3)) == Release("a", "k", Outcome.FAILED, "exit status 3")


async def test_no_message(worker: Worker) -> None:
    assert await said(worker, WorkFailedError("")) == Release("a", "k", Outcome.FAILED)


@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("of a nursery", [FAILED]),
        ExceptionGroup("and cleaning up", [LOST, ExceptionGroup("inside", [FAILED])]),
        ExceptionGroup("the first counts", [FAILED, WorkFailedError("exit status 4")]),
    ],
    ids=lambda error: error.message,
)
async def test_in_a_group(worker: Worker, error: Exception) -> None:
    assert await said(worker, error) == Release("a", "k", Outcome.FAILED, "exit status 3")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LOST, "the machine has gone"),
        (ExceptionGroup("of a nursery", [LOST]), "the machine has gone"),
        (muster.MusterError, "MusterError"),
    ],
)
async def test_another_error_means_that_it_was_not_started(
    worker: Worker, error: Exception, message: str
) -> None:
    # FEED-36
    assert await said(worker, error) == BindFailed("a", "k", message)


async def test_returning_is_completing(worker: Worker) -> None:
    assert await said(worker, None) == Release("a", "k")


async def test_the_log_has_a_line_of_it(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "muster.binder")
    await said(worker, muster.MusterError("ValueError: boom\nTraceback (most recent call last):"))

    told, details = [one for one in caplog.records if "could not be started" in one.message]
    assert told.message == "the work of a/k could not be started: ValueError: boom"
    assert (told.levelno, told.exc_info) == (logging.WARNING, None)
    assert (details.levelno, details.exc_info is not None) == (logging.DEBUG, True)
