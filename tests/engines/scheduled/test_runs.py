"""Work of asks on a real cluster of Ray, the results that their program gets, and gangs that begin
together or not at all.
"""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

import muster
from muster.ray import Call, Command, Result, WorkError, connect
from tests.engines.cluster import Cluster
from tests.engines.scheduled.rig import Rig, lines, scheduling, stranger


async def test_callables_run_where_they_are_bound_and_return_values(cluster: Cluster) -> None:
    def where(factor: int, *, text: str) -> tuple[str, str, str]:
        ray: Any = importlib.import_module("ray")
        return os.environ["MUSTER_NODE"], ray.get_runtime_context().get_node_id(), text * factor

    def work(held: muster.Allocation) -> Call:
        return Call(where, (2,), {"text": held.ask})

    async with scheduling(cluster, work) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        asks = await app.add_asks("part", {"vcore": 1, "memory": "100Mi"}, 4)
        nodes = [(await ask.bound()).node for ask in asks]
        await rig.completed(*asks)

        ids = (await rig.scheduler.snapshot()).nodes
        assert set(nodes) == {"a", "b"}
        for ask, node in zip(asks, nodes, strict=True):
            of_ray = ids[node].attributes["ray.io/node-id"]
            assert rig.value(ask.name) == (node, of_ray, ask.name * 2)
        await rig.at_rest()


async def test_callable_by_its_name_and_one_that_is_pickled(cluster: Cluster) -> None:
    calls = {"named": Call("os.path:join", ("a", "b")), "sent": Call(lambda: {"x": [1.5, None]})}
    async with scheduling(cluster, lambda held: calls[held.ask]) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        await rig.completed(*[await app.add_ask(name, {"vcore": 1}) for name in calls])

        assert dict(rig.results) == {
            "named": Result(None, "a/b"),
            "sent": Result(None, {"x": [1.5, None]}),
        }


async def test_command_has_its_folder_files_and_environment(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("hello", encoding="utf-8")
    script = 'cat; pwd; echo "$MUSTER_APP $MUSTER_ASK $MUSTER_NODE $MUSTER_QUEUE $MINE"; exit 3'
    command = Command(
        script,
        cwd=tmp_path,
        env={"MINE": "my own"},
        stdin=tmp_path / "in",
        stdout=tmp_path / "out",
        stderr=tmp_path / "out",
    )
    async with scheduling(cluster, lambda _: command) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        ask = await app.add_ask("it", {"vcore": 1}, node="b")
        await rig.completed(ask)

        assert rig.results == [("it", Result(3))]
        assert lines(tmp_path / "out") == [f"hello{tmp_path}", "app it b root.q my own"]
        await rig.at_rest()


async def test_status_that_the_program_does_not_like_is_a_failure(cluster: Cluster) -> None:
    def done(held: muster.Allocation, result: Result) -> None:
        raise muster.WorkFailedError(f"{held.ask}: status {result.status}")

    async with scheduling(cluster, lambda _: "kill -9 $$", done=done) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        ask = await app.add_ask("it", {"vcore": 1})
        with pytest.raises(muster.AskFailedError, match="it: status -9"):
            assert await (await ask.bound()).ended() is muster.Reason.FAILED
            await ask.bound()


async def test_callable_that_raises_has_failed_with_its_traceback(
    cluster: Cluster, tmp_path: Path
) -> None:
    def trouble(file: str) -> None:
        with open(file, "a", encoding="utf-8") as out:
            out.write("tried\n")
        raise LookupError("no such star")

    call = Call(trouble, (str(tmp_path / "tries"),))
    async with scheduling(cluster, lambda _: call, options={"bind_attempts": 1}) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        ask = await app.add_ask("it", {"vcore": 1}, retries=1)
        with pytest.raises(
            muster.AskFailedError, match="it has failed: LookupError: no such star"
        ) as raised:
            while True:
                await (await ask.bound()).ended()

        cause = raised.value.__cause__
        assert isinstance(cause, WorkError)
        assert "no such star" in str(cause)
        assert "in trouble" in str(cause)
        assert lines(tmp_path / "tries") == ["tried", "tried"]
        await rig.at_rest()


async def test_command_that_cannot_be_started_is_given_up(cluster: Cluster) -> None:
    command = Command(["/no/such/program"])
    async with scheduling(cluster, lambda _: command, options={"bind_attempts": 1}) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        ask = await app.add_ask("it", {"vcore": 1})
        with pytest.raises(muster.BindFailedError) as raised:
            await ask.bound()
        assert "/no/such/program" in str(raised.value.__cause__)


async def test_asks_without_cores_run_beside_one_with_all_cores(
    cluster: Cluster, tmp_path: Path
) -> None:
    def meet(folder: str, count: int) -> int:
        Path(folder, str(os.getpid())).touch()
        while (found := len(os.listdir(folder))) < count:
            time.sleep(0.02)
        return found

    call = Call(meet, (str(tmp_path), 4))
    async with scheduling(cluster, lambda _: call) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        asks = [await app.add_ask("all", {"vcore": 2}, node="a")]
        asks += [await app.add_ask(f"n-{n}", {"memory": "10Mi"}, node="a") for n in range(3)]
        await rig.completed(*asks)
        assert [rig.value(ask.name) for ask in asks] == [4, 4, 4, 4]
        await rig.at_rest()


async def test_work_waits_for_a_node_that_somebody_else_keeps_busy(
    cluster: Cluster, tmp_path: Path
) -> None:
    with stranger(cluster, "a", 2) as end:
        async with scheduling(cluster, lambda _: Call("time:monotonic")) as rig:
            app = await rig.scheduler.add_app("app", "root.q")
            ask = await app.add_ask("it", {"vcore": 1}, node="a")
            other = await app.add_ask("other", {"vcore": 1}, node="b")
            await rig.completed(other)
            free_at = time.monotonic()
            end()
            await rig.completed(ask)
            assert rig.value("it") >= free_at


async def test_work_that_is_not_started_in_time_is_tried_again(cluster: Cluster) -> None:
    options = {"bind_timeout": 1.0, "bind_attempts": None}
    with stranger(cluster, "a", 2) as end:
        async with (
            scheduling(cluster, lambda _: Call("time:monotonic"), options=options) as rig,
            rig.scheduler.decisions(kinds={muster.Kind.RELEASED}) as released,
        ):
            app = await rig.scheduler.add_app("app", "root.q")
            ask = await app.add_ask("it", {"vcore": 1}, node="a")
            first = (await released.take())[0].decision
            assert first.reason is muster.Reason.BIND_FAILED
            end()
            await rig.completed(ask)
            assert len(rig.results) == 1
            await rig.at_rest()


async def test_run_without_a_binder(cluster: Cluster) -> None:
    async with connect(cluster.address, python=cluster.python) as ray:
        with trio.fail_after(60):
            async with muster.open_scheduler() as scheduler, trio.open_nursery() as nursery:
                await nursery.start(ray.follow, scheduler)
                app = await scheduler.add_app("app", "root.q")
                allocation = await (await app.add_ask("it", {"vcore": 1})).bound()
                async with allocation.running():
                    result = await ray.run(allocation, Call("operator:add", (1, 2)))
                assert result == Result(None, 3)
                assert await allocation.ended() is muster.Reason.COMPLETED
                nursery.cancel_scope.cancel()


RESERVES: tuple[Literal["none", "group"], ...] = ("none", "group")


async def gang(rig: Rig, name: str, size: int) -> tuple[muster.Ask, ...]:
    """Ask for a gang of members with one core each."""
    await rig.scheduler.add_gang(name, size)
    app = await rig.scheduler.add_app(name, "root.q")
    return await app.add_asks("member", {"vcore": 1}, size, gang=name)


@pytest.mark.parametrize("reserve", RESERVES)
async def test_no_member_begins_before_all_have_a_worker(
    cluster: Cluster, reserve: Literal["none", "group"]
) -> None:
    with stranger(cluster, "a", 1) as end:
        async with scheduling(
            cluster, lambda _: Call("time:monotonic"), reserve=reserve
        ) as rig:  # of four workers three can be placed
            members = await gang(rig, "gang", 4)
            await trio.sleep(1)
            free_at = time.monotonic()
            end()
            await rig.completed(*members)
            assert all(rig.value(one.name) >= free_at for one in members)
            assert len(rig.results) == 4
            await rig.at_rest()


@pytest.mark.parametrize("reserve", RESERVES)
async def test_nobody_begins_if_one_member_cannot(
    cluster: Cluster, tmp_path: Path, reserve: Literal["none", "group"]
) -> None:
    file = tmp_path / "file"
    options = {"bind_timeout": 3.0, "bind_attempts": None}
    with stranger(cluster, "a", 1) as end:
        async with (
            scheduling(
                cluster, lambda held: f"echo {held.step} >>{file}", options=options, reserve=reserve
            ) as rig,
            rig.scheduler.decisions(kinds={muster.Kind.RELEASED}) as released,
        ):
            members = await gang(rig, "gang", 4)
            failed = set[str | None]()
            while len(failed) < 4:
                for one in await released.take():
                    assert one.decision.reason is muster.Reason.BIND_FAILED
                    failed.add(one.decision.ask)
            assert lines(file) == []
            end()
            await rig.completed(*members)
            assert len(lines(file)) == 4
            assert len(set(lines(file))) == 1  # bound again in one step
            await rig.at_rest()


async def test_gang_that_could_not_start_gives_way_as_a_whole(
    cluster: Cluster, tmp_path: Path
) -> None:
    options = {"bind_timeout": 3.0, "bind_attempts": None}

    def work(held: muster.Allocation) -> str:
        return f"echo >>{tmp_path / held.app}; sleep 1"

    with stranger(cluster, "a", 1) as end:
        async with scheduling(cluster, work, options=options) as rig:
            members = await gang(rig, "gang", 4)
            other = await rig.scheduler.add_app("other", "root.q")
            urgent = await other.add_ask("it", {"vcore": 1}, priority=10, node="b")
            await rig.completed(urgent)
            assert lines(tmp_path / "gang") == []
            end()
            await rig.completed(*members)
            assert len(lines(tmp_path / "gang")) == 4


async def test_gang_whose_worker_dies_at_the_gate_begins_again_as_a_whole(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    with stranger(cluster, "b", 1) as end:
        async with scheduling(cluster, lambda held: f"echo {held.step} >>{file}") as rig:
            members = await gang(rig, "gang", 4)
            before = set(workers(cluster))
            await rig.until(lambda: len(set(workers(cluster)) - before) >= 2)
            victim = max(set(workers(cluster)) - before)
            os.kill(victim, 9)
            await trio.sleep(1)
            assert lines(file) == []
            end()
            await rig.completed(*members)
            assert len(lines(file)) == 4
            assert len(set(lines(file))) == 1
            await rig.at_rest()


def workers(cluster: Cluster) -> list[int]:
    """Return the workers of Ray that do something."""
    return [
        pid
        for pid, line in cluster.processes().items()
        if line.startswith("ray::") and "Holder" not in line
    ]


async def test_two_gangs_that_exclude_one_another_run_one_after_the_other(
    cluster: Cluster, tmp_path: Path
) -> None:
    def meet(folder: str, name: str, size: int) -> float:
        Path(folder, f"{name}.{os.getpid()}").touch()
        while len(list(Path(folder).glob(f"{name}.*"))) < size:
            time.sleep(0.01)
        return time.monotonic()

    def work(held: muster.Allocation) -> Call:
        return Call(meet, (str(tmp_path), held.app, 4))

    async with scheduling(cluster, work) as rig:
        both = await gang(rig, "red", 4) + await gang(rig, "blue", 4)
        await rig.completed(*both)
        assert len(rig.results) == 8
        await rig.at_rest()
