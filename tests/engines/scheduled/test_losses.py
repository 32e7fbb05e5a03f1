"""Asks after a kill of a node, the agent, the program or the head."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

import muster
from tests.engines import cluster as clusters
from tests.engines.cluster import Cluster, wait_until
from tests.engines.daemons import state_of
from tests.engines.scheduled.rig import is_whole, lines, scheduling, working

PROJECT = Path(__file__).parents[3]


def waiting(file: Path, go: Path) -> str:
    """Return a command that writes to a file when it begins, and ends when there is another one."""
    return f"echo $$ >>{file}; until [ -e {go} ]; do sleep 0.1; done"


def has_ended(pid: str) -> bool:
    """Return whether a process has ended."""
    return state_of(int(pid)) == "Z"


async def test_work_of_a_killed_raylet_runs_elsewhere_and_the_node_comes_back(
    needs_ray: None, tmp_path: Path
) -> None:
    file, go = tmp_path / "file", tmp_path / "go"
    with clusters.cluster("a", "b") as running:
        async with scheduling(
            running, lambda held: waiting(file, go) if held.ask == "it" else "true"
        ) as rig:
            app = await rig.scheduler.add_app("app", "root.q")
            ask = await app.add_ask("it", {"vcore": 1})
            first = await ask.bound()
            await rig.until(lambda: len(lines(file)) == 1)
            await trio.to_thread.run_sync(running.kill, first.node)

            assert await first.ended() is muster.Reason.NODE_LOST
            second = await ask.bound()
            assert second.node != first.node
            await rig.until(lambda: len(lines(file)) == 2)
            assert has_ended(lines(file)[0])
            go.touch()
            await rig.completed(ask)
            assert len(rig.results) == 1

            later = await app.add_ask("again", {"vcore": 1}, node=first.node)
            newer = await app.add_ask("new", {"vcore": 1}, selector={"kind": "fast"})
            await trio.to_thread.run_sync(running.add, first.node)
            await rig.completed(later)
            await trio.to_thread.run_sync(lambda: running.add("c", labels={"kind": "fast"}))
            await rig.completed(newer)
            await rig.nodes("a", "b", "c")
            await rig.at_rest()


async def test_gang_begins_as_a_whole_when_a_node_dies_at_its_gate(
    needs_ray: None, tmp_path: Path
) -> None:
    with clusters.cluster("a", "b", "c") as running:
        async with scheduling(
            running, lambda held: f"echo {held.step} >>{tmp_path / 'file'}", nodes=("a", "b", "c")
        ) as rig:
            await rig.scheduler.add_gang("gang", 4)
            app = await rig.scheduler.add_app("gang", "root.q")
            members = await app.add_asks("member", {"vcore": 1}, 4, gang="gang")
            await trio.to_thread.run_sync(running.kill, "a")
            await rig.completed(*members)
            assert len(lines(tmp_path / "file")) == 4
            assert len(set(lines(tmp_path / "file"))) == 1  # in one step, so at the same time
            await rig.nodes("b", "c")


async def test_work_begins_again_when_the_agent_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    file, go = tmp_path / "file", tmp_path / "go"
    async with scheduling(cluster, lambda _: waiting(file, go)) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        ask = await app.add_ask("it", {"vcore": 1})
        first = await ask.bound()
        await rig.until(lambda: len(lines(file)) == 1)
        (agent,) = agents(cluster)
        os.kill(agent, signal.SIGKILL)

        assert await first.ended() in {muster.Reason.NODE_LOST, muster.Reason.BIND_FAILED}
        await rig.until(lambda: len(lines(file)) == 2)
        assert has_ended(lines(file)[0])
        go.touch()
        await rig.completed(ask)
        assert len(rig.results) == 1
        await rig.at_rest()


def agents(cluster: Cluster) -> list[int]:
    """Return the agents that are connected to a cluster."""
    return [pid for pid, line in cluster.processes().items() if "muster/ray/agent.py" in line]


@contextmanager
def program(cluster: Cluster, folder: Path, kind: str) -> Generator[subprocess.Popen[bytes]]:
    """Run the program that is killed."""
    arguments = [cluster.address, cluster.python, str(folder), kind]
    command = [sys.executable, "-m", "tests.engines.scheduled.program", *arguments]
    with subprocess.Popen(command, cwd=PROJECT) as running:
        try:
            yield running
        finally:
            running.kill()


ASKS = ("call", "command-0", "command-1")


def work_lines(folder: Path) -> list[list[str]]:
    """Return the lines that the work of each ask has written."""
    return [lines(folder / name) for name in ASKS]


def test_nothing_is_left_when_the_program_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    with program(cluster, tmp_path, "attached") as running:
        wait_until(lambda: work_lines(tmp_path) == [["begun"]] * 3, "all work has begun")
        assert len(working(cluster)) >= 3
        running.kill()
        wait_until(lambda: not cluster.processes(), "nothing runs there")
    wait_until(lambda: is_whole(cluster), "everything is free in Ray")
    assert lines(tmp_path / "results") == []


def test_detached_work_goes_on_when_the_program_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    with program(cluster, tmp_path, "detached") as running:
        wait_until(lambda: work_lines(tmp_path) == [["begun"]] * 3, "all work has begun")
        before = working(cluster)
        running.kill()
        running.wait()
        wait_until(lambda: not agents(cluster), "the agent has noticed")
    with program(cluster, tmp_path, "detached") as running:
        wait_until(lambda: bool(agents(cluster)), "there is another agent")
        (tmp_path / "go").touch()
        assert running.wait(clusters.PATIENCE_S) == 0
    assert before
    assert work_lines(tmp_path) == [["begun"]] * 3
    results = sorted(lines(tmp_path / "results"))
    assert results == ["call None call", "command-0 5 None", "command-1 5 None"]
    wait_until(lambda: not cluster.processes(), "nothing runs there")
    wait_until(lambda: is_whole(cluster) and cluster.actors() == 0, "everything is free in Ray")


def test_result_waits_for_a_program_that_was_killed(cluster: Cluster, tmp_path: Path) -> None:
    with program(cluster, tmp_path, "detached") as running:
        wait_until(lambda: work_lines(tmp_path) == [["begun"]] * 3, "all work has begun")
        running.kill()
    (tmp_path / "go").touch()
    wait_until(lambda: not any("sleep" in one for one in working(cluster).values()), "it has ended")
    with program(cluster, tmp_path, "detached") as running:
        assert running.wait(clusters.PATIENCE_S) == 0
    assert work_lines(tmp_path) == [["begun"]] * 3
    results = sorted(lines(tmp_path / "results"))
    assert results == ["call None call", "command-0 5 None", "command-1 5 None"]
    wait_until(lambda: is_whole(cluster) and cluster.actors() == 0, "everything is free in Ray")


@pytest.mark.takes_minutes
async def test_scheduler_answers_while_the_head_is_away_and_work_begins_again(
    needs_ray: None, tmp_path: Path
) -> None:
    file, go = tmp_path / "file", tmp_path / "go"
    with clusters.cluster("a") as running:
        async with scheduling(running, lambda _: waiting(file, go), nodes=("a",)) as rig:
            app = await rig.scheduler.add_app("app", "root.q")
            ask = await app.add_ask("it", {"vcore": 1})
            first = await ask.bound()
            await rig.until(lambda: len(lines(file)) == 1)
            await trio.to_thread.run_sync(running.kill_head)

            slowest_s = 0.0
            while first.ending is None:
                began_at = time.perf_counter()
                await rig.scheduler.snapshot()
                slowest_s = max(slowest_s, time.perf_counter() - began_at)
                await trio.sleep(0.01)
            assert first.ending in {muster.Reason.NODE_LOST, muster.Reason.BIND_FAILED}
            assert slowest_s < 2  # the machine may be busy; the benchmark looks closer
            await rig.nodes()

            await trio.to_thread.run_sync(running.start_head)
            await trio.to_thread.run_sync(running.add, "a")
            await rig.nodes("a")
            await rig.until(lambda: len(lines(file)) == 2)
            assert has_ended(lines(file)[0])
            go.touch()
            await rig.completed(ask)
            await rig.at_rest()


async def test_command_that_is_deaf_has_ended_before_its_ask_begins_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    script = f"trap '' TERM; while echo $MUSTER_RUN >>{file}; do sleep 0.1; done"
    async with scheduling(cluster, lambda _: script, grace_period=8) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        await app.add_ask("it", {"vcore": 1})
        await rig.until(lambda: len(lines(file)) > 3)
        (agent,) = agents(cluster)
        os.kill(agent, signal.SIGKILL)

        await rig.until(lambda: len(set(lines(file))) > 1)
        await rig.until(lambda: lines(file).count(max(lines(file), key=lines(file).index)) > 10)
        ran = lines(file)
        assert ran == sorted(ran, key=ran.index), "the two have overlapped"
        assert ran.count(ran[0]) > 40, "it had its grace period"
        await app.remove()
