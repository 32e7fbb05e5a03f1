"""Gangs on a real cluster of Ray begin together or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import pytest
import trio

import muster
from muster.ray import Call
from tests.engines.cluster import Cluster
from tests.engines.scheduled.rig import Rig, lines, scheduling, stranger

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
