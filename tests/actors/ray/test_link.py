"""The link to the agent: how it is started, lost and started again, how it ends, and what a
service needs of it.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

import msgpack
import pytest
import trio
from trio.testing import MockClock
from typing_extensions import override

import muster
from muster import Reason
from muster.ray import Cluster, RayBinder, RayLostError, RayUnreachableError, Survivor, connect
from muster_core.errors import EventError
from tests.actors.processes import is_running
from tests.actors.ray.puppets import add_ask, agents, begun, connected, node, running, scheduled
from tests.actors.ray.test_detached import survivor

pytestmark = pytest.mark.usefixtures("watchdog")

FAST = 20
"""How many virtual seconds are one second, where a test waits for the end of a limit."""


# The first connection


@pytest.mark.parametrize(
    ("reason", "error", "match"),
    [
        ("import", ImportError, r"pip install 'muster-scheduler\[ray\]'"),
        ("connect", RayUnreachableError, "there is no Ray at the address '.*socket': some text"),
        ("python", RayUnreachableError, "some text"),
    ],
)
async def test_an_agent_that_cannot_be_connected(
    tmp_path: Path, reason: str, error: type[Exception], match: str
) -> None:
    async with agents(tmp_path) as them, trio.open_nursery() as nursery:

        async def refuse() -> None:
            agent = await them.next()
            await agent.expect("connect")
            await agent.say("refused", reason=reason, text="some text")

        nursery.start_soon(refuse)
        with pytest.raises(error, match=match):
            async with connect(them.address, python=them.python):
                pytest.fail("there is nothing")


async def test_an_agent_that_ends_before_it_is_connected(tmp_path: Path) -> None:
    async with agents(tmp_path) as them, trio.open_nursery() as nursery:

        async def end() -> None:
            agent = await them.next()
            await agent.order(print="this is why\n")
            await agent.order(exit=7)

        nursery.start_soon(end)
        with pytest.raises(RayUnreachableError, match="has ended, with status 7"):
            async with connect(them.address, python=them.python):
                pytest.fail("there is nothing")


async def test_an_agent_that_is_never_connected(tmp_path: Path, mock_clock: MockClock) -> None:
    async with agents(tmp_path) as them, trio.open_nursery() as nursery:

        async def wait() -> None:
            agent = await them.next()
            await agent.expect("connect")
            mock_clock.jump(120)

        nursery.start_soon(wait)
        with pytest.raises(RayUnreachableError, match="not connected for 120 s"):
            async with connect(them.address, python=them.python):
                pytest.fail("there is nothing")


async def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RayUnreachableError, match="nowhere/python"):
        async with connect(python=str(tmp_path / "nowhere" / "python")):
            pytest.fail("there is nothing")


async def test_an_interpreter_without_the_packages_of_ray(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(RayUnreachableError, match="has no msgpack, so it has no ray"):
        async with connect(python=str(bare)):
            pytest.fail("there is nothing")


async def test_connecting_can_be_cancelled(tmp_path: Path) -> None:
    async with agents(tmp_path) as them, trio.open_nursery() as nursery:

        async def connect_there() -> None:
            async with connect(them.address, python=them.python):
                pytest.fail("there is nothing")

        nursery.start_soon(connect_there)
        agent = await them.next()
        await agent.expect("connect")
        nursery.cancel_scope.cancel()
    assert not is_running(agent.pid)


_LABELS = "must be a map of labels and their values, such as {'muster': 'yes'}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warm": -1}, "warm: -1: must be a whole number"),
        ({"warm": 1.5}, "warm: 1.5: must be a whole number"),
        ({"resources": {"CPU": "x", "GPU": "x"}}, "resources: {"),
        ({"select": "a=b"}, f"select: 'a=b': {_LABELS}"),
        ({"select": {"a": 1}}, f"select: 'a': 1: {_LABELS}"),
        ({"node_name": ""}, "node_name: '': must be a text that is not empty"),
        ({"namespace": None}, "namespace: None: must be a text that is not empty"),
        ({"address": 6379}, "address: 6379: must be a text that is not empty"),
    ],
)
async def test_arguments_are_checked(options: dict[str, Any], message: str) -> None:
    keywords: dict[str, Any] = {"address": "nowhere"} | options
    with pytest.raises(muster.EventError) as raised:
        async with connect(**keywords):
            pytest.fail("there is nothing")
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("is_logged", [True, False])
async def test_the_agent_knows_whether_output_is_logged(tmp_path: Path, is_logged: bool) -> None:
    async with agents(tmp_path) as them, trio.open_nursery() as nursery:

        async def greet() -> None:
            agent = await them.next()
            connecting = await agent.expect("connect")
            assert connecting["log_to_driver"] is is_logged
            await agent.say("connected", ray="2.0", python="3.11")

        nursery.start_soon(greet)
        async with connect(them.address, python=them.python, log_to_driver=is_logged):
            pass


async def test_the_error_of_the_block_is_raised_as_it_is(tmp_path: Path) -> None:
    async with agents(tmp_path) as them, trio.open_nursery() as nursery:

        async def greet() -> None:
            await (await them.next()).greet()
            greeted.set()

        greeted = trio.Event()
        nursery.start_soon(greet)
        with pytest.raises(KeyError, match="mine"):
            async with connect(them.address, python=them.python):
                await greeted.wait()
                raise KeyError("mine")


# The end


async def test_the_agent_ends_with_the_block(tmp_path: Path) -> None:
    async with connected(tmp_path) as stage:
        # Signals from a terminal are for the program, which ends its work before the agent.
        assert os.getsid(stage.agent.pid) == stage.agent.pid
    assert not is_running(stage.agent.pid)


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_an_agent_that_does_not_end_is_killed(
    tmp_path: Path, mock_clock: MockClock, is_stopped: bool
) -> None:
    async with connected(tmp_path) as stage:
        await stage.agent.order(stays=True)
        if is_stopped:
            stage.agent.kill(signal.SIGSTOP)
        mock_clock.rate = FAST
    assert not is_running(stage.agent.pid)


async def test_leaving_does_not_wait_for_an_agent_that_reads_nothing(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path, "x" * 5_000_000) as (scheduler, agent, _):
        await agent.order(listens=False)
        await agent.order(stays=True)
        await add_ask(scheduler)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.rate = FAST
    assert not is_running(agent.pid)


# Warnings and errors


async def test_two_long_messages_do_not_meet(tmp_path: Path) -> None:
    def work(allocation: muster.Allocation) -> str:
        return allocation.ask * 1_000_000

    async with scheduled(tmp_path, work) as (scheduler, agent, _):
        await agent.order(listens=False)
        await add_ask(scheduler, "x")
        await add_ask(scheduler, "y")
        await trio.testing.wait_all_tasks_blocked()
        await agent.order(listens=True)

        runs = [await agent.expect("run"), await agent.expect("run")]
        assert {run["work"]["run"][:1] * 1_000_000 for run in runs} == {
            run["work"]["run"] for run in runs
        }
        assert {run["name"][2] for run in runs} == {"x", "y"}
        for run in runs:
            await agent.started(run)
            await agent.ended(run)


async def test_a_message_that_has_begun_is_written_to_its_end(tmp_path: Path) -> None:
    async with scheduled(tmp_path, "x" * 1_000_000) as (scheduler, agent, _):
        await agent.order(listens=False)
        ask = await add_ask(scheduler)
        await trio.testing.wait_all_tasks_blocked()
        await scheduler.remove_app("a")
        await agent.order(listens=True)

        run = await agent.expect("run")
        assert (await agent.expect("cancel"))["id"] == run["id"]
        with pytest.raises(muster.AskRemovedError):
            await ask.bound()


async def test_work_that_is_too_large_is_refused(tmp_path: Path) -> None:
    text = "x" * (300 * 1024 * 1024)
    async with scheduled(tmp_path, text, scheduler={"bind_attempts": 1}) as (scheduler, _, _):
        with pytest.raises(muster.BindFailedError) as raised:
            await (await add_ask(scheduler)).bound()
    assert "the most are" in str(raised.value.__cause__)


# Messages of the agent


class Lines(logging.Handler):
    """Takes down what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.is_last = trio.Event()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if self.lines[-1] == "agent: last":
            self.is_last.set()


async def test_what_the_agent_prints_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "muster.ray")
    log = Lines()
    logging.getLogger("muster.ray").addHandler(log)
    async with connected(tmp_path, node("a1")) as stage:
        await stage.agent.order(print="one line\nanoth")
        await stage.agent.order(print=f"er\n{'x' * 10_000}\nlast\n")
        await stage.agent.say("warning", text="SIGINT is ignored", node="a1")
        await stage.agent.say("warning", text="something else")
        await stage.ray.survivors()
        await log.is_last.wait()
    logging.getLogger("muster.ray").removeHandler(log)
    lines = log.lines
    assert "agent: one line" in lines
    assert "agent: another" in lines
    assert max(map(len, lines)) < 3000
    assert "node a1: SIGINT is ignored" in lines
    assert "something else" in lines


async def test_what_is_said_twice_or_of_others_is_dropped(tmp_path: Path) -> None:
    ends: list[int | None] = []
    async with scheduled(tmp_path, done=lambda _, result: ends.append(result.status)) as (
        scheduler,
        agent,
        _,
    ):
        ask = await add_ask(scheduler)
        run = await agent.expect("run")
        for _ in range(5):
            await agent.started({"id": 99})
            await agent.ended({"id": 99}, 1)
            await agent.started(run)
        await ask.bound()
        for status in (3, 4, 5):
            await agent.ended(run, status)
        await agent.failed(run, "lost")
        await agent.cancelled(run)
        # It still lives, and listens.
        second = await add_ask(scheduler, "second")
        run = await agent.begin()
        allocation = await second.bound()
        await agent.ended(run, 6)
        await allocation.ended()
    assert ends == [3, 6]


LIES: Sequence[bytes] = [
    b"Connected to Ray.\n",
    b"\xc1",
    msgpack.packb([1, 2]),
    msgpack.packb({"say": "something"}),
    msgpack.packb({"say": 1}),
    msgpack.packb({"no": "say"}),
    msgpack.packb({"say": "started", "id": "1", "pid": 1}),
    msgpack.packb({"say": "started", "id": True, "pid": 1}),
    msgpack.packb({"say": "started", "pid": 1}),
    msgpack.packb({"say": "ended", "id": 1, "status": 1.5, "value": None}),
    msgpack.packb({"say": "failed", "id": 1, "how": "so", "error": "", "text": ""}),
    msgpack.packb({"say": "nodes", "nodes": [{"id": "a"}]}),
    msgpack.packb({"say": "nodes", "nodes": [node("a", resources={"CPU": float("nan")})]}),
    msgpack.packb({"say": "nodes", "nodes": [node("a", resources={"CPU": -1.0})]}),
    msgpack.packb({"say": "nodes", "nodes": [node("a", labels={"a": 1})]}),
    msgpack.packb({"say": "warning", "text": "x", "node": 1}),
]


@pytest.mark.parametrize("lie", LIES, ids=range(len(LIES)))
async def test_an_agent_that_lies_counts_as_lost(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, lie: bytes
) -> None:
    async with scheduled(tmp_path) as (scheduler, agent, stage):
        allocation = await running(scheduler, agent)
        await agent.order(write=lie)

        assert await allocation.ended() in {Reason.BIND_FAILED, Reason.NODE_LOST}
        mock_clock.rate = FAST
        again = await stage.agents.next()
        await again.greet(node("a1"))
        run = await begun(stage, mock_clock, again)
        await again.ended(run)
    assert "makes no sense" in caplog.text


# Losses


@pytest.mark.parametrize("how", ["exit", "closed", "killed", "stopped", "silent"])
async def test_a_lost_agent_is_started_again(
    tmp_path: Path, mock_clock: MockClock, how: str
) -> None:
    async with scheduled(tmp_path) as (scheduler, agent, stage):
        allocation = await running(scheduler, agent)
        match how:
            case "exit":
                await agent.order(exit=1)
            case "closed":
                await agent.order(close=1)
            case "killed":
                agent.kill()
            case "stopped":
                agent.kill(signal.SIGSTOP)
            case _:
                await agent.order(beats=False)
        mock_clock.rate = FAST

        assert await allocation.ended() in {Reason.BIND_FAILED, Reason.NODE_LOST}
        again = await stage.agents.next()
        assert not is_running(agent.pid)
        assert (await scheduler.snapshot()).nodes == {}
        await again.greet(node("a2"))
        run = await begun(stage, mock_clock, again)
        assert run["node"] == "a2"
        await again.ended(run)


async def test_silence_of_ten_seconds_is_a_loss(tmp_path: Path, mock_clock: MockClock) -> None:
    async with scheduled(tmp_path) as (scheduler, agent, stage):
        allocation = await running(scheduler, agent)
        await agent.order(beats=False)
        await stage.ray.survivors()
        mock_clock.jump(9.9)
        await trio.testing.wait_all_tasks_blocked()
        assert allocation.ending is None
        mock_clock.jump(10)
        assert await allocation.ended() in {Reason.BIND_FAILED, Reason.NODE_LOST}
        mock_clock.rate = FAST


async def test_a_part_of_a_long_message_breaks_the_silence(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path) as (scheduler, agent, stage):
        ask = await add_ask(scheduler)
        run = await agent.begin()
        allocation = await ask.bound()
        await agent.order(beats=False)
        await stage.ray.survivors()
        end = {"say": "ended", "id": run["id"], "status": 0, "value": None}
        for byte in msgpack.packb(end):
            with agent.written(bytes([byte])):  # it is in the pipe before trio sees the time
                mock_clock.jump(9)
            assert (await agent.next()).get("synced")
            await trio.testing.wait_all_tasks_blocked(0.02)
        assert await allocation.ended() is Reason.COMPLETED
        mock_clock.rate = FAST


async def test_a_program_that_stood_still_believes_what_came_meanwhile(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path) as (scheduler, agent, stage):
        allocation = await running(scheduler, agent)
        for _ in range(3):
            with agent.beaten():  # it is in the pipe before trio sees that time has passed
                mock_clock.jump(60)
            assert (await agent.next()).get("synced")
            await stage.ray.survivors()
        assert allocation.ending is None


async def test_the_pauses_grow_to_half_a_minute(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(tmp_path) as stage:
        python = trio.Path(stage.agents.python)
        await python.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
        stage.agent.kill()
        mock_clock.rate = 200
        while len(pauses(caplog)) < 8:  # noqa: ASYNC110 - a log has no event to wait for
            await trio.sleep(1)
    assert pauses(caplog)[:8] == ["1", "2", "4", "8", "16", "30", "30", "30"]


def pauses(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the pauses of which the log speaks, in seconds."""
    return re.findall(r"it is tried again in (\w+) s", caplog.text)


async def skip_pause(clock: MockClock, caplog: pytest.LogCaptureFixture, number: int) -> None:
    """Skip the pause before the agent is started again, the one of this number.

    The clock stands still from then on: how long an agent takes to start is not for the test.
    """
    while len(pauses(caplog)) < number:
        await trio.testing.wait_all_tasks_blocked(0.005)
    clock.rate = 0
    await trio.testing.wait_all_tasks_blocked()
    clock.jump(float(pauses(caplog)[-1]))


async def test_the_pauses_begin_again_when_the_agent_has_lived_long(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(tmp_path) as stage:
        agent = stage.agent
        for number, lived_s in enumerate((0, 0, 31, 0), 1):
            for _ in range(lived_s):
                mock_clock.jump(1)
                await stage.ray.survivors()
            agent.kill()
            await skip_pause(mock_clock, caplog, number)
            agent = await stage.agents.next()
            await agent.greet()
    assert pauses(caplog) == ["1", "2", "1", "2"]


def standing(ray: Cluster) -> tuple[bool, int, bool]:
    """Return whether it is connected, how often that was lost, and whether there is trouble."""
    return ray.is_connected, ray.restarts, ray.trouble is not None


async def test_how_the_connection_stands(tmp_path: Path) -> None:
    async with connected(tmp_path) as stage:
        ray = stage.ray
        assert standing(ray) == (True, 0, False)
        stage.agent.kill()
        again = await stage.agents.next()
        assert standing(ray) == (False, 1, True)
        await again.greet()
        await ray.survivors()
        assert standing(ray) == (True, 1, False)


async def test_a_survivor_is_ended_and_waited_for(tmp_path: Path) -> None:
    async with connected(tmp_path, node("a1")) as stage:
        await stage.agent.leave(survivor("a/k/77"), survivor("a/l/78"))
        first, second = await stage.ray.survivors()
        ended = trio.Event()

        async def end() -> None:
            await stage.ray.end(first, 3)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            assert await stage.agent.expect("end") == {"do": "end", "name": "a/k/77", "grace_s": 3}
            await stage.ray.survivors()  # it is still there
            assert not ended.is_set()
            await stage.agent.leave(survivor("a/l/78"))
            await ended.wait()
        assert await stage.ray.survivors() == (second,)


async def test_a_survivor_cannot_be_ended_without_an_agent(tmp_path: Path) -> None:
    async with connected(tmp_path, node("a1")) as stage:
        await stage.agent.leave(survivor("a/k/77"))
        (found,) = await stage.ray.survivors()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_raises_lost, stage.ray, found)
            await stage.agent.expect("end")
            stage.agent.kill()


async def _raises_lost(ray: Cluster, found: Survivor) -> None:
    with pytest.raises(RayLostError):
        await ray.end(found, 3)


@pytest.mark.parametrize(("closing", "wanted"), [(3.0, 3.0), (20.0, 10.0), (None, 10.0)])
async def test_work_may_take_less_time_to_end_when_the_scheduler_closes(
    tmp_path: Path, closing: float | None, wanted: float
) -> None:
    async with scheduled(tmp_path, closing_grace=closing) as (scheduler, agent, _):
        await running(scheduler, agent)
    orders = [message["received"] for message in agent.rest if "received" in message]
    assert [(one["do"], one["grace_s"]) for one in orders] == [("cancel", wanted)]


@pytest.mark.parametrize("closing", [-1.0, nan])
async def test_a_time_that_is_none(tmp_path: Path, closing: float) -> None:
    async with connected(tmp_path) as stage:
        with pytest.raises(EventError, match="closing_grace"):
            RayBinder(stage.ray, lambda _: "true", closing_grace=closing)
