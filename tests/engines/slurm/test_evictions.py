"""Work whose allocation ends is ended, and nothing of it is left."""

from __future__ import annotations

import muster
from muster.slurm import Command
from tests.engines.slurm.cluster import Cluster
from tests.engines.slurm.programs import ONE, lines_in, opened, processes_of

SOFT = """
trap 'echo asked; sleep 0.5; echo ended; exit 0' TERM
echo began; sleep 1000 & wait
"""

# Neither it nor its grandchild listens to SIGTERM.
DEAF = """
trap '' TERM
(sleep 1001; sleep 1002) &
echo began; sleep 1003; sleep 1004
"""

# The shell is gone at once, but its child takes its time to end.
CAREFUL = """
(trap 'sleep 1; echo saved; exit 0' TERM; echo began; sleep 1005 & wait) &
wait
"""


async def test_soft_eviction_leaves_time_to_end(cluster: Cluster) -> None:
    out = cluster.folder / "work" / "soft"
    async with opened(lambda _: Command(SOFT, stdout=out), grace_period=60) as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        await (await app.add_ask("x", ONE)).bound()
        await lines_in(out, 1)
        await app.remove()
        assert await lines_in(out, 3) == ["began", "asked", "ended"]
    assert processes_of("a/x/1") == []
    assert cluster.jobs() == []


async def test_child_has_time_to_end_although_its_shell_has_gone(cluster: Cluster) -> None:
    out = cluster.folder / "work" / "careful"
    async with opened(lambda _: Command(CAREFUL, stdout=out), grace_period=60) as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        await (await app.add_ask("x", ONE)).bound()
        await lines_in(out, 1)
    assert await lines_in(out, 2) == ["began", "saved"]
    assert processes_of("a/x/1") == []


async def test_deaf_work_and_its_children_are_killed(cluster: Cluster) -> None:
    out = cluster.folder / "work" / "deaf"
    async with opened(lambda _: Command(DEAF, stdout=out), grace_period=1) as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        ask = await app.add_ask("x", ONE)
        allocation = await ask.bound()
        await lines_in(out, 1)
        assert len(processes_of("a/x/1")) >= 3
        await scheduler.remove_node(allocation.node)
        await ask.bound()  # the same ask does not run before its earlier run has gone
        assert processes_of("a/x/1") == []
    assert processes_of("a/x/2") == []
    assert cluster.jobs() == []


async def test_what_a_command_leaves_behind_is_ended(cluster: Cluster) -> None:
    out = cluster.folder / "work" / "left"
    line = "(trap 'echo asked; exit' TERM; echo began; sleep 1006 & wait) & sleep 0.5; exit 0"
    async with opened(lambda _: Command(line, stdout=out)) as (scheduler, _):
        ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE)
        assert await (await ask.bound()).ended() is muster.Reason.COMPLETED
        assert processes_of("a/x/1") == []
    assert await lines_in(out, 2) == ["began", "asked"]
    assert cluster.jobs() == []


async def test_preempted_ask_makes_room_and_runs_again(cluster: Cluster) -> None:
    out = cluster.folder / "work" / "preempted"
    four: dict[str, int | float | str] = {"vcore": 4, "memory": "100Mi"}

    def work(held: muster.Allocation) -> Command:
        length = 0.2 if held.app == "urgent" else 1000
        return Command(f"echo $MUSTER_RUN $MUSTER_NODE; exec sleep {length}", stdout=out)

    async with opened(work, grace_period=5) as (scheduler, _):
        await scheduler.add_priority_class("urgent", 100, preemption_policy="PreemptLowerPriority")
        low = await scheduler.add_app("low", "root.q")
        asks = await low.add_asks("x", four, 3)
        for ask in asks:
            await ask.bound()
        await lines_in(out, 3)
        urgent = await (await scheduler.add_app("urgent", "root.q")).add_ask(
            "u", four, priority_class="urgent"
        )
        allocation = await urgent.bound()
        assert await allocation.ended() is muster.Reason.COMPLETED
        ran = await lines_in(out, 5)
        assert ran[3].split() == [f"urgent/u/{allocation.number}", allocation.node]
        assert ran[4].split()[1] == allocation.node
    assert cluster.jobs() == []
