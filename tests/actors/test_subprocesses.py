"""Asks whose work is a real process, and how it is ended.

Nothing here sleeps: jobs say in a FIFO what they do.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from math import nan
from pathlib import Path
from typing import NoReturn

import pytest
import trio
from trio.testing import MockClock

import muster
from muster import Reason
from muster.subprocesses import Command, SubprocessBinder
from muster_core.events import Outcome, Release
from tests.actors.processes import (
    CONFIG,
    ONE,
    Fifo,
    ask_for,
    group_has_ended,
    is_running,
    same_command,
    state_of,
)
from tests.actors.program import settled
from tests.actors.service import Notes

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc"),
    pytest.mark.usefixtures("watchdog"),
]

# What runs


async def test_a_command_runs_and_its_node_is_free_again(marks: Fifo) -> None:
    binder = SubprocessBinder(same_command(f"echo hi > {marks}"))
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        allocation = await (await ask_for(scheduler)).bound()

        assert await marks.line() == "hi"
        assert await allocation.ended() is Reason.COMPLETED
        assert (await scheduler.snapshot()).nodes["n"].used == {}


async def test_an_ask_is_bound_while_its_command_runs(marks: Fifo, go: Fifo) -> None:
    binder = SubprocessBinder(
        same_command(f"echo hi > {marks}; read line < {go}; echo $line > {marks}")
    )
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        allocation = await (await ask_for(scheduler)).bound()
        assert await marks.line() == "hi"
        assert (await scheduler.snapshot()).nodes["n"].used == {"vcore": 1000}

        await go.stream.send_all(b"on\n")

        assert await marks.line() == "on"
        assert await allocation.ended() is Reason.COMPLETED


async def test_a_command_knows_what_it_is_run_for(marks: Fifo) -> None:
    line = f'echo "$MUSTER_APP $MUSTER_ASK $MUSTER_NODE $MUSTER_QUEUE $HOME $MORE" > {marks}'
    command = Command(line, env={"MORE": "more", "HOME": "elsewhere", "MUSTER_APP": "another"})
    async with muster.open_scheduler(
        CONFIG, binder=SubprocessBinder(same_command(command))
    ) as scheduler:
        await ask_for(scheduler)

        assert await marks.line() == "a k n root.q elsewhere more"


async def test_arguments_are_given_as_they_are(marks: Fifo) -> None:
    program = "import sys; print(sys.argv[2], file=open(sys.argv[1], 'w'))"
    binder = SubprocessBinder(lambda _: [sys.executable, "-c", program, marks.path, "$HOME 'a"])
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await ask_for(scheduler)

        assert await marks.line() == "$HOME 'a"


async def test_a_command_has_its_folder_and_its_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("read\n", encoding="utf-8")
    (tmp_path / "log").write_text("before\n", encoding="utf-8")
    command = Command(
        "cat; pwd; echo wrong >&2; echo right",
        cwd=tmp_path,
        stdin=tmp_path / "in",
        stdout=tmp_path / "log",
        stderr=str(tmp_path / "log"),
    )
    async with muster.open_scheduler(
        CONFIG, binder=SubprocessBinder(same_command(command))
    ) as scheduler:
        await (await (await ask_for(scheduler)).bound()).ended()

    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert text == f"before\nread\n{tmp_path}\nwrong\nright\n"


async def test_there_is_nothing_to_read_unless_it_is_said(marks: Fifo, go: Fifo) -> None:
    await go.stream.send_all(b"something\n")
    binder = SubprocessBinder(same_command(f'read line; echo "<$line>" > {marks}'))
    with as_stdin(go):
        async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
            await ask_for(scheduler)

            assert await marks.line() == "<>"


@contextmanager
def as_stdin(fifo: Fifo) -> Generator[None]:
    """Let this program read from a FIFO."""
    before = os.dup(0)
    os.dup2(fifo.stream.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


async def test_no_file_is_left_open(tmp_path: Path) -> None:
    command = Command(
        "sleep 1000 &", stdin="/dev/null", stdout=tmp_path / "log", stderr="/dev/null"
    )
    async with muster.open_scheduler(
        CONFIG, binder=SubprocessBinder(same_command(command))
    ) as scheduler:
        before = len(os.listdir("/proc/self/fd"))
        await (await (await ask_for(scheduler)).bound()).ended()

        assert len(os.listdir("/proc/self/fd")) == before


# How it ends by itself


@pytest.mark.parametrize(("line", "status"), [("true", 0), ("exit 3", 3), ("kill -9 $$", -9)])
async def test_how_a_command_ended_is_reported_before_its_ask_is_over(
    line: str, status: int
) -> None:
    exits: list[tuple[str, int]] = []

    def exited(allocation: muster.Allocation, status: int) -> None:
        exits.append((allocation.app, status))

    binder = SubprocessBinder(same_command(line), exited=exited)
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        allocation = await (await ask_for(scheduler)).bound()

        assert await allocation.ended() is Reason.COMPLETED
        assert exits == [("a", status)]


async def test_an_exit_that_is_not_accepted_is_a_failed_bind() -> None:
    def exited(_: muster.Allocation, status: int) -> None:
        assert status == 0, "not well"

    statuses = iter((1, 0))
    binder = SubprocessBinder(lambda _: f"exit {next(statuses)}", exited=exited)
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        releases = scheduler.decisions(kinds={muster.Kind.RELEASED})
        await ask_for(scheduler)
        ends = [(await anext(releases)).decision.reason for _ in range(2)]

    assert ends == [Reason.BIND_FAILED, Reason.COMPLETED]


async def test_an_exit_that_is_a_failure_is_reported_as_one() -> None:
    def exited(_: muster.Allocation, status: int) -> None:
        if status:
            raise muster.WorkFailedError(f"exit status {status}")

    notes = Notes()
    binder = SubprocessBinder(same_command("exit 3"), exited=exited)
    async with muster.open_scheduler(CONFIG, binder=binder, record=notes) as scheduler:
        ask = await ask_for(scheduler)
        with suppress(muster.AskFailedError):
            await (await ask.bound()).ended()

    assert notes.events[-1] == Release("a", "k", Outcome.FAILED, "exit status 3")


async def test_a_command_that_fails_is_run_again_while_it_has_retries() -> None:
    def exited(_: muster.Allocation, status: int) -> None:
        if status:
            raise muster.WorkFailedError(f"exit status {status}")

    statuses = iter((3, 4, 5))
    binder = SubprocessBinder(lambda _: f"exit {next(statuses)}", exited=exited)
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await scheduler.add_node("n", ONE)
        await scheduler.add_app("a", "q")
        ask = await scheduler.add_ask("a", "k", ONE, retries=1)
        with pytest.raises(muster.AskFailedError, match="exit status 4"):
            while True:
                await (await ask.bound()).ended()

    assert next(statuses) == 5


async def test_what_a_command_leaves_behind_ends_with_it(marks: Fifo) -> None:
    binder = SubprocessBinder(same_command(f"sleep 1000 & echo $! $$ > {marks}"))
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        allocation = await (await ask_for(scheduler)).bound()
        left, group = map(int, (await marks.line()).split())

        assert await allocation.ended() is Reason.COMPLETED
        assert not is_running(left)
        assert group_has_ended(group)


# What cannot be started


def raising(_: muster.Allocation) -> NoReturn:
    raise LookupError("no idea")


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (same_command(["/nowhere/nothing"]), FileNotFoundError),
        (same_command([__file__]), PermissionError),
        (same_command(Command("true", cwd="/nowhere")), FileNotFoundError),
        (same_command(Command("true", stdin="/nowhere/nothing")), FileNotFoundError),
        (raising, LookupError),
    ],
    ids=["no program", "not executable", "no folder", "no file", "no command"],
)
async def test_what_cannot_be_started_is_a_failed_bind(
    command: Callable[[muster.Allocation], Command], error: type[Exception]
) -> None:
    tried: list[str] = []

    def counted(allocation: muster.Allocation) -> Command:
        tried.append(allocation.ask)
        return command(allocation)

    async with muster.open_scheduler(CONFIG, binder=SubprocessBinder(counted)) as scheduler:
        ask = await ask_for(scheduler)
        with pytest.raises(muster.BindFailedError) as caught:
            await ask.bound()

    assert caught.value.attempts == 3
    assert isinstance(caught.value.__cause__, error)
    assert tried == ["k", "k", "k"]


@pytest.mark.parametrize("grace_period", [-1, nan])
def test_a_grace_period_is_a_number_of_seconds(grace_period: float) -> None:
    with pytest.raises(ValueError, match="grace_period"):
        SubprocessBinder(same_command("true"), grace_period=grace_period)


# Many


async def test_the_members_of_a_gang_meet(tmp_path: Path) -> None:
    for name in ("in", "out-1", "out-2"):
        os.mkfifo(tmp_path / name)
    # The first waits for the others, and they for the first: one by one none of them would end.
    first = "read a; read b; echo $a; for n in 1 2; do echo go > out-$n; done"
    other = "echo here > in; read line < out-${MUSTER_ASK#part-}"
    line = f"if [ $MUSTER_ASK = part-0 ]; then exec 0<>in; {first}; else {other}; fi"
    statuses: list[int] = []
    binder = SubprocessBinder(
        same_command(Command(line, cwd=tmp_path, stdout=os.devnull)),
        exited=lambda _, status: statuses.append(status),
    )
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await scheduler.add_node("left", {"vcore": 2})
        app = await scheduler.add_app("a", "q")
        await scheduler.add_gang("g", 3)
        asks = await app.add_asks("part", ONE, 3, gang="g")
        await scheduler.add_node("right", ONE)
        ends = [await (await ask.bound()).ended() for ask in asks]

    assert ends == [Reason.COMPLETED] * 3
    assert statuses == [0, 0, 0]


async def test_commands_of_a_queue_are_never_more_than_its_max(marks: Fifo, go: Fifo) -> None:
    count, most = 30, 3
    binder = SubprocessBinder(same_command(f"echo + > {marks}; read line < {go}; echo - > {marks}"))
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        app = await scheduler.add_app("a", "narrow")
        await app.add_asks("part", ONE, count)
        await scheduler.add_node("n", {"vcore": count})
        started = ended = seen = 0
        while ended < count:
            if started - ended == min(most, count - ended):  # nobody else should start
                await go.stream.send_all(b"\n")
            if await marks.line() == "+":
                started += 1
            else:
                ended += 1
            seen = max(seen, started - ended)

    assert seen == most


SHELL_OF_SHELLS = "sh -c 'sleep 1000 & wait' & echo $$ > {marks}; wait"


async def test_what_is_preempted_is_killed_with_all_that_it_has_started(
    marks: Fifo, go: Fifo
) -> None:
    apps: list[str] = []

    def command(allocation: muster.Allocation) -> str:
        if allocation.app == "urgent":
            return f"echo urgent > {marks}; read line < {go}"
        return SHELL_OF_SHELLS.format(marks=marks)

    binder = SubprocessBinder(command, exited=lambda one, _: apps.append(one.app))
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await scheduler.add_priority_class("high", 10, preemption_policy="PreemptLowerPriority")
        ask = await ask_for(scheduler)
        allocation = await ask.bound()
        first = int(await marks.line())
        assert not group_has_ended(first)

        await ask_for(scheduler, "urgent", priority_class="high")
        assert await allocation.ended() is Reason.PREEMPTED
        assert await marks.line() == "urgent"
        await go.stream.send_all(b"\n")

        again = await ask.bound()
        second = int(await marks.line())
        assert group_has_ended(first)  # An ask is not run again before the old command has ended.
        assert not group_has_ended(second)
        assert again.node == "n"
    assert group_has_ended(second)
    assert apps == ["urgent"]


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
    binder = SubprocessBinder(same_command(SHELL_OF_SHELLS.format(marks=marks)))
    with suppress(OSError):
        async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
            await (await ask_for(scheduler)).bound()
            group = int(await marks.line())
            await end(scheduler)

    assert group_has_ended(group)


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


async def test_a_process_that_ignores_the_signal_is_killed_after_the_grace_period(
    marks: Fifo, mock_clock: MockClock
) -> None:
    binder = SubprocessBinder(
        same_command([sys.executable, "-c", STUBBORN, marks.path]), grace_period=5
    )
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
    assert group_has_ended(group)


async def test_the_grace_period_is_for_all_even_when_the_first_has_gone(
    marks: Fifo, go: Fifo, mock_clock: MockClock
) -> None:
    inner = shlex.join([sys.executable, "-c", STUBBORN, marks.path, go.path])
    binder = SubprocessBinder(same_command(f"{inner} & wait"))
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
    assert group_has_ended(leader)
    assert mock_clock.current_time() == 0  # nobody has waited for its end


async def test_what_is_stopped_is_ended_too(marks: Fifo, mock_clock: MockClock) -> None:
    binder = SubprocessBinder(same_command(f"echo $$ > {marks}; kill -STOP $$"))
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await (await ask_for(scheduler)).bound()
        group = int(await marks.line())
        while state_of(group) != "T":
            await trio.lowlevel.checkpoint()

    assert group_has_ended(group)
    assert mock_clock.current_time() == 0  # nobody has waited for the grace period


async def test_without_a_grace_period_it_is_killed_at_once(
    marks: Fifo, mock_clock: MockClock
) -> None:
    line = f"trap '' TERM; echo $$ > {marks}; while :; do sleep 1000; done"
    binder = SubprocessBinder(same_command(line), grace_period=0)
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        await (await ask_for(scheduler)).bound()
        group = int(await marks.line())

    assert group_has_ended(group)
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
    binder = SubprocessBinder(same_command(line), grace_period=0.1)
    async with muster.open_scheduler(CONFIG, binder=binder) as scheduler:
        allocation = await (await ask_for(scheduler)).bound()
        group = int(await marks.line())
        await allocation.ended()

        assert group_has_ended(group)


def still_run_for(app: str) -> list[str]:
    """Return the processes that run for an application."""
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
    binder = SubprocessBinder(same_command("sleep 1000 & sleep 1000"))
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
