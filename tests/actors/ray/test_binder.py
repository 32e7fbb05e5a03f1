"""Asks whose work is run by an agent that does what the test says, gangs included."""

from __future__ import annotations

import pickle
import threading
from math import nan
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

import muster
from muster import Reason
from muster.ray import Call, Command, RayBinder, RayLostError, Result, RunFailedError, WorkError
from tests.actors.ray.puppets import (
    ONE,
    Puppet,
    add_ask,
    connected,
    followed,
    node,
    running,
    scheduled,
)

pytestmark = pytest.mark.usefixtures("watchdog")


async def test_a_command_is_run_on_the_node_of_its_ask(tmp_path: Path) -> None:
    done: list[Result] = []
    command = Command(["true", "x"], cwd="/", env={"MORE": "more"}, stdout=tmp_path / "log")
    async with scheduled(
        tmp_path, command, done=lambda _, result: done.append(result), grace_period=3
    ) as (scheduler, agent, _):
        ask = await add_ask(scheduler)
        run = await agent.expect("run")
        await agent.started(run)
        allocation = await ask.bound()
        await agent.ended(run, 5)

        assert await allocation.ended() is Reason.COMPLETED
    assert done == [Result(status=5)]
    assert run == {
        "do": "run",
        "id": 1,
        "name": f"a/k/{allocation.number}",
        "node": "a1",
        "cpus": 1.0,
        "gpus": 0.0,
        "memory": 0,
        "resources": {},
        "work": {
            "kind": "command",
            "run": ["true", "x"],
            "cwd": "/",
            "env": {
                "MORE": "more",
                "MUSTER_APP": "a",
                "MUSTER_ASK": "k",
                "MUSTER_NODE": "a1",
                "MUSTER_QUEUE": "root.q",
                "MUSTER_RUN": f"a/k/{allocation.number}",
            },
            "stdin": None,
            "stdout": str(tmp_path / "log"),
            "stderr": None,
        },
        "grace_s": 3,
        "gate": None,
        "detached": False,
    }


async def test_a_callable_is_called_and_its_value_comes_back(tmp_path: Path) -> None:
    done: list[Result] = []
    call = Call("math:pow", (2,), {"y": 3}, {"env_vars": {"A": "b"}}, {"max_calls": 1})
    async with scheduled(tmp_path, call, done=lambda _, result: done.append(result)) as (
        scheduler,
        agent,
        _,
    ):
        ask = await add_ask(scheduler)
        run = await agent.begin()
        allocation = await ask.bound()
        value = pickle.dumps({"x": [1, 2]})
        await agent.say("ended", id=run["id"], status=None, value=value)

        assert await allocation.ended() is Reason.COMPLETED
    assert done == [Result(value={"x": [1, 2]})]
    work = run["work"]
    assert (work["kind"], work["function"]) == ("call", "math:pow")
    assert pickle.loads(work["arguments"]) == ((2,), {"y": 3})
    assert work["runtime_env"] == {"env_vars": {"A": "b"}}
    assert work["options"] == {"max_calls": 1}
    assert work["env"]["MUSTER_ASK"] == "k"


async def test_a_function_is_sent_to_the_worker(tmp_path: Path) -> None:
    factor = 3

    def times(number: int) -> int:
        return factor * number

    async with scheduled(tmp_path, Call(times, (5,))) as (scheduler, agent, _):
        await add_ask(scheduler)
        work = (await agent.expect("run"))["work"]

        assert pickle.loads(work["function"])(7) == 21


async def test_work_that_is_preempted_is_cancelled_and_waited_for(tmp_path: Path) -> None:
    async with scheduled(tmp_path, grace_period=4) as (scheduler, agent, _):
        await agent.order(cancels=False)
        ask = await add_ask(scheduler)
        run = await agent.begin()
        await ask.bound()
        await scheduler.remove_app("a")

        assert await agent.expect("cancel") == {"do": "cancel", "id": run["id"], "grace_s": 4}
        # The next run of the same ask waits for the end of the first.
        await add_ask(scheduler)
        await scheduler.settle()
        await agent.cancelled(run)
        second = await agent.expect("run")
        assert second["id"] != run["id"]
        assert second["name"].startswith("a/k/")
        await agent.started(second)
        await agent.ended(second)


@pytest.mark.parametrize(
    ("how", "error"),
    [("work", RunFailedError), ("lost", RunFailedError), ("not_started", RunFailedError)],
)
async def test_what_is_not_started_counts(tmp_path: Path, how: str, error: type[Exception]) -> None:
    async with scheduled(tmp_path, scheduler={"bind_attempts": 1}) as (scheduler, agent, _):
        ask = await add_ask(scheduler)
        await agent.failed(await agent.expect("run"), how)

        with pytest.raises(muster.BindFailedError) as raised:
            await ask.bound()
    assert isinstance(raised.value.__cause__, error)
    assert str(raised.value.__cause__) == "SomeError: the text"


async def test_an_error_without_details_is_reported_once(tmp_path: Path) -> None:
    async with scheduled(tmp_path, scheduler={"bind_attempts": 1}) as (scheduler, agent, _):
        ask = await add_ask(scheduler)
        run = await agent.expect("run")
        await agent.say(
            "failed", id=run["id"], how="work", error="no such file", text="no such file"
        )

        with pytest.raises(muster.BindFailedError) as raised:
            await ask.bound()
    assert str(raised.value.__cause__) == "no such file"


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        ("nowhere", (), "function: 'nowhere' must be 'package.module:name'"),
        (":name", (), "function: ':name' must be 'package.module:name'"),
        (7, (), "function: 7 must be a function, or its name"),
        (abs, 7, "args: 7 must be a list or tuple of the arguments"),
        (abs, "text", "args: 'text' must be a list or tuple of the arguments"),
    ],
)
def test_a_call_is_checked(function: Any, args: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises((TypeError, ValueError)) as raised:
        Call(function, args)
    assert str(raised.value) == message


async def test_a_member_whose_gang_was_not_started_is_not_to_blame(tmp_path: Path) -> None:
    async with scheduled(tmp_path, scheduler={"bind_attempts": 1}) as (scheduler, agent, _):
        ask = await add_ask(scheduler)
        await agent.failed(await agent.expect("run"), "gate")
        second = await agent.begin()
        allocation = await ask.bound()
        await agent.ended(second)

        assert await allocation.ended() is Reason.COMPLETED


async def test_a_gang_has_a_gate(tmp_path: Path) -> None:
    async with scheduled(tmp_path, reserve="group") as (scheduler, agent, _):
        await scheduler.add_gang("g", 2)
        await scheduler.add_app("a", "root.q")
        await scheduler.add_ask("a", "x", ONE, gang="g")
        await scheduler.add_ask("a", "y", ONE, gang="g")
        first, second = await agent.expect("run"), await agent.expect("run")

        step = min(int(run["name"].rpartition("/")[2]) for run in (first, second))
        gate = {"name": f"default/g/{step}", "peers": 2, "reserve": True}
        assert (first["gate"], second["gate"]) == (gate, gate)
        for run in (first, second):
            await agent.started(run)
            await agent.ended(run)


async def test_a_member_that_cannot_be_sent_lets_the_others_not_wait(tmp_path: Path) -> None:
    def work(allocation: muster.Allocation) -> str:
        if allocation.ask == "x":
            raise ValueError("no work")
        return "true"

    async with scheduled(tmp_path, work) as (scheduler, agent, _):
        await scheduler.add_gang("g", 2)
        await scheduler.add_app("a", "root.q")
        await scheduler.add_ask("a", "x", ONE, gang="g")
        await scheduler.add_ask("a", "y", ONE, gang="g")
        orders = dict[str, Any]()
        while not orders.keys() >= {"miss", "run"}:
            message = (await agent.next())["received"]
            orders[message["do"]] = message
        assert orders["miss"]["gate"] == orders["run"]["gate"]
        assert orders["miss"]["text"] == "a/x cannot be started: ValueError"
        await agent.failed(orders["run"], "gate")


async def test_work_that_done_judges_as_failed_has_failed(tmp_path: Path) -> None:
    def done(_: muster.Allocation, result: Result) -> None:
        raise muster.WorkFailedError(f"exit status {result.status}")

    async with scheduled(tmp_path, done=done) as (scheduler, agent, _):
        ask = await add_ask(scheduler)
        run = await agent.begin()
        allocation = await ask.bound()
        await agent.ended(run, 9)

        assert await allocation.ended() is Reason.FAILED
        with pytest.raises(muster.AskFailedError, match="exit status 9"):
            await ask.bound()


async def test_when_the_agent_dies_all_begins_again(tmp_path: Path, mock_clock: MockClock) -> None:
    lost: list[str] = []
    async with scheduled(tmp_path, grace_period=0, scheduler={"bind_attempts": 1}) as (
        scheduler,
        agent,
        stage,
    ):
        ask = await add_ask(scheduler)
        await agent.begin()
        allocation = await ask.bound()
        agent.kill()
        mock_clock.rate = 20
        lost.append(await allocation.ended())

        again = await stage.agents.next()
        await again.greet(node("a1"))
        run = await again.begin()
        allocation = await ask.bound()
        await again.ended(run)
        assert await allocation.ended() is Reason.COMPLETED
    assert lost[0] in {Reason.BIND_FAILED, Reason.NODE_LOST}


async def test_a_run_without_a_binder(tmp_path: Path) -> None:
    begun: list[str] = []
    async with (
        connected(tmp_path, node("a1")) as stage,
        muster.open_scheduler() as scheduler,
        trio.open_nursery() as nursery,
    ):

        async def answer() -> None:
            await stage.agent.ended(await stage.agent.begin(), 3)

        await nursery.start(stage.ray.follow, scheduler)
        await stage.agent.expect("follow")
        allocation = await (await add_ask(scheduler)).bound()
        nursery.start_soon(answer)
        async with allocation.running():
            result = await stage.ray.run(
                allocation, "exit 3", started=lambda: begun.append("begun")
            )
        nursery.cancel_scope.cancel()
    assert (result, begun) == (Result(status=3), ["begun"])


@pytest.mark.parametrize(
    "options", [{"grace_period": -1}, {"grace_period": nan}, {"reserve": "x"}, {"adopt_within": -1}]
)
async def test_arguments_are_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    async with connected(tmp_path) as stage:
        with pytest.raises(muster.EventError, match=next(iter(options))):
            RayBinder(stage.ray, lambda _: "true", **options)


async def test_a_run_whose_end_is_never_reported_does_not_hold_the_program(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with scheduled(tmp_path, grace_period=5) as (scheduler, agent, stage):
        await agent.order(cancels=False)
        allocation = await running(scheduler, agent)
        await scheduler.remove_app("a")
        await agent.expect("cancel")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(36):
            mock_clock.jump(1)
            await stage.ray.survivors()
        assert await allocation.ended() is Reason.REMOVED
        assert "does not say that it has ended" in caplog.text


async def test_a_run_whose_node_is_gone_waits_for_the_scheduler_to_hear_of_it(
    tmp_path: Path,
) -> None:
    async with scheduled(tmp_path, nodes=2, scheduler={"bind_attempts": 1}) as (
        scheduler,
        agent,
        stage,
    ):
        ask = await add_ask(scheduler)
        run = await agent.begin()
        allocation = await ask.bound()
        await agent.failed(run, "node_lost")
        await stage.ray.survivors()
        assert allocation.ending is None
        (other,) = {"a1", "a2"} - {allocation.node}
        await agent.say("nodes", nodes=[node(other)])

        assert await allocation.ended() is Reason.NODE_LOST
        again = await agent.begin()
        assert again["node"] == other
        allocation = await ask.bound()
        await agent.ended(again)
        assert await allocation.ended() is Reason.COMPLETED


async def test_a_run_whose_node_only_ray_has_lost_fails_after_a_while(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path, scheduler={"bind_attempts": 1}) as (scheduler, agent, stage):
        ask = await add_ask(scheduler)
        run = await agent.begin()
        allocation = await ask.bound()
        await agent.failed(run, "node_lost")
        await stage.ray.survivors()
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(21):
            mock_clock.jump(1)
            await stage.ray.survivors()
        assert await allocation.ended() is Reason.BIND_FAILED


async def test_a_node_that_ray_does_not_know_is_refused(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=0, scheduler={"bind_attempts": 1}) as (scheduler, _, _):
        await scheduler.add_node("nowhere", ONE)
        with pytest.raises(muster.BindFailedError) as raised:
            await (await add_ask(scheduler)).bound()
    assert str(raised.value.__cause__) == "nowhere is not a node of Ray"


async def test_an_amount_that_ray_cannot_count_is_refused(tmp_path: Path) -> None:
    async with scheduled(tmp_path, scheduler={"bind_attempts": 1}) as (scheduler, _, _):
        await scheduler.add_node("large", {"licence": 10**18})
        await scheduler.add_app("a", "root.q")
        ask = await scheduler.add_ask("a", "k", {"licence": 10**17})
        with pytest.raises(muster.BindFailedError) as raised:
            await ask.bound()
    assert isinstance(raised.value.__cause__, muster.EventError)
    assert "licence: 100000000000000000: Ray counts to" in str(raised.value.__cause__)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (Call(lambda: None, (open,)), None),
        (Call(print, (threading.Lock(),)), "the arguments cannot be pickled"),
        (Call(print, options={"num_cpus": 3}), "options: num_cpus: Muster decides that"),
        (Call(print, options={"x": object()}), "the work cannot be sent"),
        (["a", "b"], "not a Call, Command or str"),
    ],
)
async def test_work_that_cannot_be_sent_is_refused(
    tmp_path: Path, work: object, message: str | None
) -> None:
    call = cast("Call", work)
    async with scheduled(tmp_path, call, scheduler={"bind_attempts": 1}) as (scheduler, agent, _):
        ask = await add_ask(scheduler)
        if message is None:
            await agent.ended(await agent.begin())
            return
        with pytest.raises(muster.BindFailedError, match="work") as raised:
            await ask.bound()
    assert message in str(raised.value.__cause__)


async def test_what_work_raises_is_the_cause(tmp_path: Path) -> None:
    def work(_: muster.Allocation) -> str:
        raise KeyError("nothing to do")

    async with scheduled(tmp_path, work, scheduler={"bind_attempts": 1}) as (scheduler, _, _):
        with pytest.raises(muster.BindFailedError) as raised:
            await (await add_ask(scheduler)).bound()
    assert isinstance(raised.value.__cause__, KeyError)


async def test_a_value_that_cannot_be_unpickled_is_an_error_of_the_work(tmp_path: Path) -> None:
    async with scheduled(tmp_path, Call(print)) as (scheduler, agent, _):
        ask = await add_ask(scheduler)
        run = await agent.expect("run")
        await agent.started(run)
        await agent.say("ended", id=run["id"], status=None, value=b"garbage")
        with pytest.raises(muster.AskFailedError, match="cannot be unpickled here") as raised:
            await gone(ask)
    assert isinstance(raised.value.__cause__, WorkError)


async def test_a_callable_that_raises_has_failed(tmp_path: Path) -> None:
    # One start for the ask and one for its retry, however few attempts a start has.
    async with scheduled(tmp_path, scheduler={"bind_attempts": 1}) as (scheduler, agent, _):
        app = await scheduler.add_app("a", "root.q")
        ask = await app.add_ask("k", ONE, retries=1)
        for _start in range(2):
            run = await agent.begin()
            await agent.failed(run, "work")
        with pytest.raises(muster.AskFailedError) as raised:
            await gone(ask)
    assert raised.value.reported == "SomeError"
    assert isinstance(raised.value.__cause__, WorkError)
    assert str(raised.value.__cause__) == "SomeError: the text"


async def gone(ask: muster.Ask) -> None:
    """Wait for the allocations of an ask until it is gone, which raises."""
    while True:
        await (await ask.bound()).ended()


async def test_a_run_without_a_binder_ends_with_its_node(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    mock_clock.rate = 20
    async with (
        connected(tmp_path, node("a1")) as stage,
        muster.open_scheduler() as scheduler,
        followed(stage.ray, scheduler),
    ):
        allocation = await (await add_ask(scheduler)).bound()
        with pytest.raises(muster.AllocationLostError, match="node_lost"):
            async with allocation.running(), trio.open_nursery() as nursery:
                nursery.start_soon(stage.ray.run, allocation, "true")
                await stage.agent.begin()
                stage.agent.kill()


async def test_without_a_follower_a_run_learns_that_the_agent_was_lost(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with connected(tmp_path, node("a1")) as stage, muster.open_scheduler() as scheduler:
        await scheduler.add_node("a1", ONE)
        allocation = await (await add_ask(scheduler)).bound()
        with pytest.raises(ExceptionGroup) as raised:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stage.ray.run, allocation, "true")
                await stage.agent.begin()
                stage.agent.kill()
                mock_clock.rate = 20
    assert raised.group_contains(RayLostError, match="has ended, with status -9")


async def gang(scheduler: muster.Scheduler, size: int, members: int = 0) -> tuple[muster.Ask, ...]:
    """Ask for a gang of members that take a node each."""
    await scheduler.add_gang("g", size)
    app = await scheduler.add_app("a", "root.q")
    return await app.add_asks("m", {"vcore": 2}, members or size, gang="g")


async def begun_together(agent: Puppet, count: int) -> dict[str, dict[str, Any]]:
    """Wait for the orders to begin members of one gate; return them by their nodes."""
    runs = [await agent.expect("run") for _ in range(count)]
    gates = {(run["gate"]["name"], run["gate"]["peers"]) for run in runs}
    assert len(gates) == 1
    assert gates.pop()[1] == count
    return {run["node"]: run for run in runs}


async def test_members_that_fail_one_after_the_other_come_again_as_a_whole(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=2, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        stage,
    ):
        asks = await gang(scheduler, 2)
        for _ in range(3):
            runs = await begun_together(agent, 2)
            await agent.failed(runs["a1"], "not_started")
            await stage.ray.survivors()  # it has read the message
            await agent.failed(runs["a2"], "gate")
        for run in (await begun_together(agent, 2)).values():
            await agent.started(run)
            await agent.ended(run)
        for ask in asks:
            assert await (await ask.bound()).ended() is Reason.COMPLETED


async def test_member_that_lost_its_node_does_not_begin_alone(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=3, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        _,
    ):
        await gang(scheduler, 2)
        runs = await begun_together(agent, 2)
        lost, other = sorted(runs)
        await agent.failed(runs[lost], "node_lost")
        await agent.failed(runs[other], "gate")
        await agent.say("nodes", nodes=[node(one) for one in ("a1", "a2", "a3") if one != lost])
        assert lost not in await begun_together(agent, 2)


async def test_member_that_is_cancelled_at_the_gate_comes_again_with_the_others(
    tmp_path: Path,
) -> None:
    async with scheduled(tmp_path, nodes=3, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        _,
    ):
        await gang(scheduler, 2)
        runs = await begun_together(agent, 2)
        lost, other = sorted(runs)
        await agent.say("nodes", nodes=[node(one) for one in ("a1", "a2", "a3") if one != lost])
        assert (await agent.expect("cancel"))["id"] == runs[lost]["id"]
        await agent.failed(runs[other], "gate")
        assert lost not in await begun_together(agent, 2)


async def test_member_of_a_gang_that_has_begun_comes_again_alone(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=2, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        _,
    ):
        asks = await gang(scheduler, 2)
        runs = await begun_together(agent, 2)
        for run in runs.values():
            await agent.started(run)
        for ask in asks:
            await ask.bound()
        await agent.failed(runs["a1"], "lost")
        again = await agent.begin()
        assert (again["node"], again["gate"]) == ("a1", None)


async def test_member_that_comes_later_waits_until_the_gang_has_begun(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=3, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        stage,
    ):
        await gang(scheduler, 2, members=3)
        runs = list((await begun_together(agent, 2)).values())
        await stage.ray.survivors()
        await agent.started(runs[0])
        later = await agent.expect("run")
        assert later["gate"] is None
        assert later["node"] not in {run["node"] for run in runs}


def group(size: int) -> dict[str, Any]:
    """Return the object of the gang."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": size},
    }


async def test_gang_that_has_become_smaller_begins(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=3, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        _,
    ):
        await gang(scheduler, 3)
        runs = await begun_together(agent, 3)
        await scheduler.apply(group(2))
        await agent.say("nodes", nodes=[node("a2"), node("a3")])
        assert (await agent.expect("cancel"))["id"] == runs["a1"]["id"]
        for name in ("a2", "a3"):
            await agent.failed(runs[name], "gate")
        assert set(await begun_together(agent, 2)) == {"a2", "a3"}
