"""Ctrl-C: the host gets it, however its loop is run, and nothing is left behind."""

from __future__ import annotations

import asyncio
import signal

import pytest

from muster.asyncio import Mode, open_scheduler
from tests.actors.asyncio.program import both_modes, outcome, run, small


async def interrupted(mode: Mode, log: list[str], *, signals: bool = True) -> None:
    try:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 9})
            if signals:
                asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
            await ask.bound()
    finally:
        log.append("left")


@both_modes
def test_asyncio_cancels_the_program(mode: Mode) -> None:
    log: list[str] = []

    with pytest.raises(KeyboardInterrupt):
        run(lambda: interrupted(mode, log))

    assert log == ["left"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_trio_takes_it_where_nobody_else_does() -> None:
    """It ends all schedulers that are guests of the loop."""
    log: list[str] = []
    others: list[object] = []

    async def main() -> None:
        async def other() -> None:
            others.append(await outcome(interrupted(Mode.GUEST, log, signals=False)))

        task = asyncio.create_task(other())
        try:
            await interrupted(Mode.GUEST, log)
        finally:
            await task

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(main())
    assert log == ["left", "left"]
    assert [type(one) for one in others] == [KeyboardInterrupt]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
