"""Allocations that end before their work, on a real cluster of Ray."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import trio

import muster
from muster.ray import Call
from tests.engines.cluster import Cluster
from tests.engines.scheduled.rig import Rig, lines, scheduling, working


async def wait_until_begun(rig: Rig, file: Path) -> None:
    """Wait until work has written to its file."""
    await rig.until(lambda: bool(lines(file)))


async def test_callable_is_interrupted(cluster: Cluster, tmp_path: Path) -> None:
    def listen(file: str) -> None:
        def note(what: str) -> None:
            with open(file, "a", encoding="utf-8") as out:
                out.write(f"{what}\n")

        try:
            note("begun")
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            note("interrupted")

    file = tmp_path / "file"
    call = Call(listen, (str(file),))
    async with scheduling(cluster, lambda _: call, grace_period=60.0) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        ask = await app.add_ask("it", {"vcore": 1})
        await ask.bound()
        await wait_until_begun(rig, file)
        await app.remove()
        await rig.until(lambda: lines(file) == ["begun", "interrupted"])
        await rig.at_rest()
        assert rig.results == []


async def test_callable_that_is_deaf_is_killed_after_the_grace_period(
    cluster: Cluster, tmp_path: Path
) -> None:
    def sleep(file: str) -> None:
        with open(file, "a", encoding="utf-8") as out:
            out.write("begun\n")
        while True:
            with suppress(KeyboardInterrupt):
                time.sleep(3600)

    file = tmp_path / "file"
    call = Call(sleep, (str(file),))
    async with scheduling(cluster, lambda _: call, grace_period=0.5) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        await app.add_ask("it", {"vcore": 1})
        await wait_until_begun(rig, file)
        await app.remove()
        await rig.at_rest()
        assert rig.results == []


async def test_command_is_ended_with_all_that_it_has_started(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    script = f"""
    trap '' TERM
    (trap '' TERM; sleep 3601 & sleep 3602) &
    sh -c 'sleep 3603' &
    echo begun >{file}
    wait; sleep 3604
    """
    async with scheduling(cluster, lambda _: script, grace_period=0.5) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        await app.add_ask("it", {"vcore": 1})
        await wait_until_begun(rig, file)
        await rig.until(lambda: sum("sleep 360" in line for line in working(cluster).values()) > 2)
        await app.remove()
        await rig.at_rest()
        assert rig.results == []


async def test_command_may_clean_up_within_the_grace_period(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    script = (
        f"trap 'sleep 0.5; echo clean >>{file}; exit' TERM; echo begun >{file}; sleep 3600 & wait"
    )
    async with scheduling(cluster, lambda _: script, grace_period=60.0) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        await app.add_ask("it", {"vcore": 1})
        await wait_until_begun(rig, file)
        await app.remove()
        await rig.at_rest()
        assert lines(file) == ["begun", "clean"]


async def test_processes_that_a_command_leaves_behind_are_ended(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with scheduling(cluster, lambda _: "sleep 3600 & exit 4", grace_period=1.0) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        await rig.completed(await app.add_ask("it", {"vcore": 1}))
        assert [result.status for _, result in rig.results] == [4]
        await rig.at_rest()


PREEMPTING = """
partitions:
  - name: default
    queues:
      - {name: root, queues: [{name: batch}, {name: web, properties: {preemption.delay: 0s}}]}
"""


async def test_victim_has_ended_before_another_one_begins_and_runs_again_later(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "file"

    def work(held: muster.Allocation) -> str:
        if held.ask == "urgent":
            return f"echo urgent >>{file}; sleep 0.3"
        # It takes its time to make room, and then there is more time the second time.
        return f"""
        if grep -q victim {file}; then echo again >>{file}; exit; fi
        trap 'sleep 1; echo gone >>{file}; exit' TERM
        echo victim >>{file}
        sleep 3600 & wait
        """

    async with scheduling(cluster, work, config=PREEMPTING, grace_period=20.0) as rig:
        batch = await rig.scheduler.add_app("batch", "root.batch")
        web = await rig.scheduler.add_app("web", "root.web")
        await rig.scheduler.add_priority_class(
            "urgent", 1000, preemption_policy="PreemptLowerPriority"
        )
        victim = await batch.add_ask("victim", {"vcore": 2}, node="a")
        await wait_until_begun(rig, file)
        urgent = await web.add_ask("urgent", {"vcore": 2}, node="a", priority_class="urgent")
        await rig.completed(urgent, victim)
        assert lines(file) == ["victim", "gone", "urgent", "again"]
        assert [name for name, _ in rig.results] == ["urgent", "victim"]
        await rig.at_rest()


async def test_closing_the_scheduler_ends_all_work(cluster: Cluster, tmp_path: Path) -> None:
    def work(held: muster.Allocation) -> Call | str:
        return f"echo >{tmp_path / held.ask}; sleep 3600" if held.app == "shell" else call

    def sleep(folder: str) -> None:
        Path(folder, "call").write_text("begun\n", encoding="utf-8")
        while True:
            time.sleep(0.01)

    call = Call(sleep, (str(tmp_path),))
    async with scheduling(cluster, work) as rig:
        for name, count in (("shell", 2), ("python", 1)):
            app = await rig.scheduler.add_app(name, "root.q")
            await app.add_asks(name, {"vcore": 1}, count)
        await rig.until(lambda: len(list(tmp_path.iterdir())) == 3)
        assert working(cluster)
    assert working(cluster) == {}
    with trio.fail_after(60):
        await rig.at_rest()
    assert rig.results == []


async def test_work_ends_when_its_time_is_over(cluster: Cluster, tmp_path: Path) -> None:
    async with scheduling(cluster, lambda _: "sleep 3600") as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        ask = await app.add_ask("it", {"vcore": 1}, run_for="3s")
        assert await (await ask.bound()).ended() is muster.Reason.COMPLETED
        await rig.at_rest()
        assert rig.results == []
