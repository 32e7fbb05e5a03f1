"""How the real process of an ask is ended. Nothing here sleeps: jobs say in a FIFO what they do."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest
import trio
from trio.testing import MockClock

import muster
from muster import Reason
from muster.subprocesses import SubprocessBinder
from tests.actors.processes import CONFIG, Fifo, always, ask_for, gone, state_of
from tests.actors.program import settled

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc"),
    pytest.mark.usefixtures("watchdog"),
]

SHELL_OF_SHELLS = "sh -c 'sleep 1000 & wait' & echo $$ > {marks}; wait"


async def test_what_is_preempted_is_killed_with_all_that_it_has_started(
    marks: Fifo, go: Fifo
) -> None:
    told: list[str] = []

    def command(allocation: muster.Allocation) -> str:
        if allocation.app == "urgent":
            return f"echo urgent > {marks}; read line < {go}"
        return SHELL_OF_SHELLS.format(marks=marks)

    binder = SubprocessBinder(command, exited=lambda one, _: told.append(one.app))
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await scheduler.add_priority_class("high", 10, preemption_policy="PreemptLowerPriority")
        ask = await ask_for(scheduler)
        allocation = await ask.bound()
        first = int(await marks.line())
        assert not gone(first)

        await ask_for(scheduler, "urgent", priority_class="high")
        assert await allocation.ended() is Reason.PREEMPTED
        assert await marks.line() == "urgent"
        await go.stream.send_all(b"\n")

        again = await ask.bound()
        second = int(await marks.line())
        assert gone(first)  # An ask is not run again before the old command has ended.
        assert not gone(second)
        assert again.node == "n"
    assert gone(second)
    assert told == ["urgent"]


async def remove_app(scheduler: muster.Scheduler) -> None:
    await scheduler.remove_app("a")


async def remove_node(scheduler: muster.Scheduler) -> None:
    await scheduler.remove_node("n")


async def leave(_: muster.Scheduler) -> None:
    pass


async def fail(_: muster.Scheduler) -> None:
    raise OSError("something else")


@pytest.mark.parametrize("end", [remove_app, remove_node, leave, fail])
async def test_whatever_ends_an_allocation_ends_the_command(
    end: Callable[[muster.Scheduler], Awaitable[None]], marks: Fifo
) -> None:
    group = 0
    binder = SubprocessBinder(always(SHELL_OF_SHELLS.format(marks=marks)))
    with suppress(OSError):
        async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
            await (await ask_for(scheduler)).bound()
            group = int(await marks.line())
            await end(scheduler)

    assert gone(group)


STUBBORN = """
import os, signal, sys
signals = {signal.SIGTERM, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
def say(*what):
    with open(sys.argv[1], "w") as marks:
        print(*what, file=marks)
say(os.getpid(), os.getppid())
while True:
    say(signal.Signals(signal.sigwait(signals)).name)
    if sys.argv[2:]:
        with open(sys.argv[2]) as go:
            go.readline()
        sys.exit(say("saved"))
"""
"""It says its number and its parent's, then what signal it gets, and ends if it is let go."""


async def test_what_ignores_being_told_is_killed_after_the_grace_period(
    marks: Fifo, mock_clock: MockClock
) -> None:
    binder = SubprocessBinder(always([sys.executable, "-c", STUBBORN, marks.path]), grace_period=5)
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await (await ask_for(scheduler)).bound()
        group, _ = map(int, (await marks.line()).split())
        await scheduler.remove_app("a")
        assert await marks.line() == "SIGTERM"

        mock_clock.jump(4.9)
        await settled()
        os.kill(group, signal.SIGUSR1)
        assert await marks.line() == "SIGUSR1"

        mock_clock.jump(0.2)
    assert gone(group)


async def test_the_grace_period_is_for_all_even_when_the_first_has_gone(
    marks: Fifo, go: Fifo, mock_clock: MockClock
) -> None:
    inner = shlex.join([sys.executable, "-c", STUBBORN, marks.path, go.path])
    binder = SubprocessBinder(always(f"{inner} & wait"))
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await (await ask_for(scheduler)).bound()
        _, leader = map(int, (await marks.line()).split())
        await scheduler.remove_app("a")
        assert await marks.line() == "SIGTERM"
        while state_of(leader) != "X":  # until it is reaped, too
            await trio.lowlevel.checkpoint()
        await settled()

        await go.stream.send_all(b"\n")

        assert await marks.line() == "saved"
    assert gone(leader)
    assert mock_clock.current_time() == 0  # nobody has waited for its end


async def test_what_is_stopped_is_ended_too(marks: Fifo, mock_clock: MockClock) -> None:
    binder = SubprocessBinder(always(f"echo $$ > {marks}; kill -STOP $$"))
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await (await ask_for(scheduler)).bound()
        group = int(await marks.line())
        while state_of(group) != "T":
            await trio.lowlevel.checkpoint()

    assert gone(group)
    assert mock_clock.current_time() == 0  # nobody has waited for the grace period


async def test_without_a_grace_period_it_is_killed_at_once(
    marks: Fifo, mock_clock: MockClock
) -> None:
    line = f"trap '' TERM; echo $$ > {marks}; while :; do sleep 1000; done"
    binder = SubprocessBinder(always(line), grace_period=0)
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await (await ask_for(scheduler)).bound()
        group = int(await marks.line())

    assert gone(group)
    assert mock_clock.current_time() == 0


def refuse_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> NoReturn:
        raise OSError("an old kernel")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)


def hide_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.subprocesses._PROC", "/nowhere")
    # What has ended counts as there until it is reaped, and that may take its time.
    monkeypatch.setattr("muster.subprocesses._KILLED_IS_GONE_S", 0.02)


@pytest.mark.parametrize("spoil", [refuse_pidfds, hide_processes])
async def test_it_works_where_nothing_tells_that_a_process_has_ended(
    spoil: Callable[[pytest.MonkeyPatch], None], marks: Fifo, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch)
    line = f"sh -c 'sleep 1000 & wait' & echo $$ > {marks}"
    binder = SubprocessBinder(always(line), grace_period=0.1)
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        allocation = await (await ask_for(scheduler)).bound()
        group = int(await marks.line())
        await allocation.ended()

        assert gone(group)


def still_run_for(app: str) -> list[str]:
    """Give the processes that run for an application."""
    found: list[str] = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if (
                name.isdecimal()
                and f"MUSTER_APP={app}\0".encode() in Path(f"/proc/{name}/environ").read_bytes()
            ):
                found.append(name)
    return found


@pytest.mark.parametrize("started", [False, True])
async def test_a_cancellation_at_any_point_leaves_nobody(started: bool) -> None:
    binder = SubprocessBinder(always("sleep 1000 & sleep 1000"))
    app = f"app-{os.getpid()}"
    for steps in range(50):
        with trio.CancelScope() as scope:
            async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
                ask = await ask_for(scheduler, app)
                if started:
                    await ask.bound()
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

    assert still_run_for(app) == []
