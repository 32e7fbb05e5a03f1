"""A node, the controller or the program goes away, and comes back."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import trio

import muster
from muster.slurm import Command, SilentError, SlurmError, connect
from tests.engines.slurm import cluster as clusters, service
from tests.engines.slurm.cluster import PATIENCE_S, Cluster, wait_until
from tests.engines.slurm.programs import ONE, lines_in, opened, processes_of, until


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Generator[Cluster]:
    """A Slurm of its own, in which a test may kill anything."""
    reason = clusters.why_not()
    if reason is not None:
        pytest.skip(reason)
    with clusters.cluster(min_job_age=5) as running:
        monkeypatch.setenv("SLURM_CONF", str(running.conf))
        monkeypatch.chdir(running.folder / "work")
        yield running


async def in_thread(call: object, *arguments: object) -> None:
    """Call something that blocks."""
    assert callable(call)
    await trio.to_thread.run_sync(lambda: call(*arguments))


async def node_is(scheduler: muster.Scheduler, name: str, *, schedulable: bool) -> None:
    """Wait until a scheduler has a node, open or closed."""
    with trio.fail_after(PATIENCE_S):
        while True:
            node = (await scheduler.snapshot()).nodes.get(name)
            if node is not None and node.schedulable is schedulable:
                return
            await trio.sleep(0.1)


async def test_lost_node_takes_its_work_elsewhere_and_comes_back(own: Cluster) -> None:
    out = own.folder / "work" / "lost"
    line = Command("echo $MUSTER_NODE; exec sleep 1000", stdout=out)
    async with opened(lambda _: line) as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        ask = await app.add_ask("x", {"vcore": 3, "memory": "50Mi"})
        held = await ask.bound()
        await lines_in(out, 1)
        await in_thread(own.kill_node, held.node)
        reason = await held.ended()
        again = await ask.bound()
        assert again.node != held.node
        assert reason in (muster.Reason.NODE_LOST, muster.Reason.BIND_FAILED)
        assert held.node not in (await scheduler.snapshot()).nodes
        # The work runs on there: only its end makes the node free.
        for pid in processes_of(f"a/x/{held.number}"):
            assert "sleep" in pid or "slurm" in pid
        await in_thread(own.start_node, held.node)
        await node_is(scheduler, held.node, schedulable=True)
    assert processes_of(f"a/x/{again.number}") == []


async def test_drained_node_takes_no_more_work(own: Cluster) -> None:
    async with opened(lambda _: "exec sleep 1000") as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        held = await (await app.add_ask("x", ONE, node="n1")).bound()
        own.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
        await node_is(scheduler, "n1", schedulable=False)
        assert held.ending is None
        own.run("scontrol", "update", "NodeName=n1", "State=RESUME")
        await node_is(scheduler, "n1", schedulable=True)


async def test_nothing_is_released_while_the_controller_is_away(own: Cluster) -> None:
    out = own.folder / "work" / "away"
    go = own.folder / "work" / "go"

    def work(held: muster.Allocation) -> Command:
        pause = {"long": "sleep 1000", "short": f"until [ -e {go} ]; do sleep 0.1; done"}
        return Command(f"echo begin $MUSTER_RUN; {pause.get(held.ask, 'true')}", stdout=out)

    async with opened(work) as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        long = await (await app.add_ask("long", ONE)).bound()
        short = await (await app.add_ask("short", ONE)).bound()
        await lines_in(out, 2)
        # A controller that is killed forgets what it has not written down yet.
        saved = own.folder / "state" / "job_state"
        await until(lambda: saved.exists() and b"muster:a/short/2" in saved.read_bytes())
        await in_thread(own.kill_controller)
        fresh = await app.add_ask("fresh", ONE)
        await scheduler.settle()
        go.touch()
        await until(lambda: len(processes_of("a/short/2")) == 0)
        assert (long.ending, short.ending) == (None, None)
        assert len((await scheduler.snapshot()).nodes) == 3
        await in_thread(own.start_controller)
        assert await short.ended() is muster.Reason.COMPLETED
        held = await fresh.bound()
        assert await held.ended() is muster.Reason.COMPLETED
        assert long.ending is None
        assert sorted(out.read_text("utf-8").splitlines()) == [
            "begin a/fresh/3",
            "begin a/long/1",
            "begin a/short/2",
        ]


async def test_connect_says_why_it_cannot(own: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SlurmError, match="partition: 'none': there are muster, other"):
        async with connect(partition="none"):
            pass
    await in_thread(own.kill_controller)
    with pytest.raises(SilentError, match=r"(?i)contact slurm controller"):
        async with connect():
            pass
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SlurmError, match=r"sbatch.*not in PATH"):
        async with connect():
            pass


def run_service(folder: Path, seconds: int | str, *asks: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, service.__file__, str(folder), str(seconds), *asks])


def log_of(folder: Path) -> list[str]:
    file = folder / "log"
    return file.read_text("utf-8").splitlines() if file.exists() else []


@pytest.mark.parametrize("pause", ["none", "ends", "forgotten"])
def test_killed_program_finds_its_jobs_again(own: Cluster, pause: str) -> None:
    folder = own.folder / "work"
    asks = ["x0", "g0", "g1"]
    with run_service(folder, 8 if pause == "none" else 3, *asks) as first:
        wait_until(lambda: "bound" in log_of(folder), "the asks are bound")
        first.send_signal(signal.SIGKILL)
    if pause != "none":
        wait_until(lambda: own.jobs() == [], "the jobs have ended")
    if pause == "forgotten":
        wait_until(lambda: own.run("squeue", "-h", "-t", "all") == "", "they are forgotten")
    with run_service(folder, 0) as second:
        assert second.wait(PATIENCE_S) == 0
    assert sorted(log_of(folder)) == [
        "bound",
        "bound",
        "done g0 5",
        "done g1 5",
        "done x0 5",
        "over",
    ]
    ran = (folder / "ran").read_text("utf-8").splitlines()
    assert len(ran) == 6, "each has run once"
    assert own.jobs() == []


def test_jobs_are_left_alone_by_a_program_that_closes_if_it_says_so(own: Cluster) -> None:
    folder = own.folder / "work"
    with run_service(folder, "gate", "x0", "--detached", "--leave") as first:
        assert first.wait(PATIENCE_S) == 0
    assert len(own.jobs()) == 1
    with run_service(folder, 0) as second:
        wait_until(lambda: log_of(folder).count("bound") == 2, "the next program has it")
        (folder / "go").touch()
        assert second.wait(PATIENCE_S) == 0
    assert log_of(folder) == ["bound", "bound", "done x0 5", "over"]
    assert len((folder / "ran").read_text("utf-8").splitlines()) == 2


def test_jobs_that_nobody_takes_over_are_ended(own: Cluster) -> None:
    folder = own.folder / "work"
    with run_service(folder, 1000, "x0", "g0", "g1", "--detached", "--leave") as first:
        assert first.wait(PATIENCE_S) == 0
    assert len(own.jobs()) == 2
    other = own.folder / "other"
    other.mkdir()
    with run_service(other, 1000, "y0") as second:
        wait_until(lambda: len(own.jobs()) == 1, "they are ended")
        second.kill()
