"""Commands of asks run as jobs of Slurm, members of a gang as one, and jobs end with their
allocations.
"""

from __future__ import annotations

from typing import Literal

import pytest
import trio

import muster
from muster.slurm import Command, JobResult, SlurmError
from tests.engines.slurm.cluster import PATIENCE_S, Cluster
from tests.engines.slurm.programs import ONE, lines_in, opened, processes_of, until


async def test_command_runs_and_its_status_is_reported(cluster: Cluster) -> None:
    statuses: list[tuple[str, int]] = []

    def done(held: muster.Allocation, result: JobResult) -> None:
        statuses.append((held.ask, result.status))

    out = cluster.folder / "work" / "out"

    def work(held: muster.Allocation) -> Command:
        how = {"zero": "exit 0", "seven": "exit 7", "killed": "kill -9 $$"}[held.ask]
        line = f'echo "$MUSTER_RUN on $MUSTER_NODE, $SLURMD_NODENAME, $MUSTER_QUEUE"; {how}'
        return Command(line, stdout=out)

    async with opened(work, done=done) as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        for name in ("zero", "seven", "killed"):
            allocation = await (await app.add_ask(name, ONE)).bound()
            assert await allocation.ended() is muster.Reason.COMPLETED
    assert statuses == [("zero", 0), ("seven", 7), ("killed", -9)]
    assert out.read_text(encoding="utf-8").splitlines() == [
        f"a/{name}/{number} on n1, n1, root.q"
        for number, name in enumerate(("zero", "seven", "killed"), 1)
    ]


async def test_fields_of_a_command(cluster: Cluster) -> None:
    folder = cluster.folder / "work" / "a folder"
    folder.mkdir(exist_ok=True)
    (folder / "in").write_text("given\n", encoding="utf-8")

    def work(_: muster.Allocation) -> Command:
        return Command(
            ["sh", "-c", 'cat; pwd; echo "$SOME-$1" >&2', "name", "it's *"],
            cwd=folder,
            env={"SOME": "a 'b' $c"},
            stdin=folder / "in",
            stdout=folder / "out",
            stderr=folder / "err",
        )

    async with opened(work) as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        for name in ("x%1", "ü-*"):
            allocation = await (await app.add_ask(name, ONE)).bound()
            assert await allocation.ended() is muster.Reason.COMPLETED
    assert (folder / "out").read_text(encoding="utf-8") == f"given\n{folder}\n" * 2
    assert (folder / "err").read_text(encoding="utf-8") == "a 'b' $c-it's *\n" * 2


async def test_work_that_failed_is_tried_again(cluster: Cluster) -> None:
    del cluster
    numbers: list[int] = []

    def done(held: muster.Allocation, result: JobResult) -> None:
        numbers.append(held.number)
        if len(numbers) == 1:
            raise muster.WorkFailedError(f"exit status {result.status}")

    async with opened(lambda _: "exit 3", done=done) as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        ask = await app.add_ask("x", ONE, retries=1)
        while await (await ask.bound()).ended() is not muster.Reason.COMPLETED:
            pass
    assert numbers == [1, 2]


@pytest.mark.parametrize(
    "command",
    [
        Command(["no-such-program"]),
        Command("true", cwd="/no/such/folder"),
        Command("true", stdin="/no/such/file"),
        Command("true", stdout="/no/such/folder/file"),
    ],
    ids=["program", "folder", "input", "output"],
)
async def test_what_cannot_be_started_is_no_completed_work(
    cluster: Cluster, command: Command
) -> None:
    del cluster
    async with opened(lambda _: command) as (scheduler, _):
        ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE)
        with pytest.raises(muster.BindFailedError) as failed:
            # It runs for a moment, as its script does.
            while True:
                assert await (await ask.bound()).ended() is muster.Reason.BIND_FAILED
    assert isinstance(failed.value.__cause__, SlurmError)
    assert "is not there on the node" in str(failed.value.__cause__)


async def test_amounts_that_slurm_cannot_count_are_refused(cluster: Cluster) -> None:
    async with opened(lambda _: "true") as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        for name, amounts in (("half", {"vcore": 0.5, "memory": 2**20}), ("all", {"vcore": 1})):
            ask = await app.add_ask(name, dict[str, int | float | str](amounts))
            with pytest.raises(muster.BindFailedError) as failed:
                await ask.bound()
            assert ("vcore" if name == "half" else "memory") in str(failed.value.__cause__)
    assert cluster.jobs() == []


async def test_nodes_are_those_of_slurm(cluster: Cluster) -> None:
    del cluster
    async with opened(lambda _: "sleep 60", grace_period=0) as (scheduler, _):
        nodes = (await scheduler.snapshot()).nodes
        assert {name: dict(node.attributes) for name, node in nodes.items()} == {
            "n1": {"slurm/partition": "muster", "feature.slurm/fast": "yes"},
            "n2": {"slurm/partition": "muster"},
            "n3": {"slurm/partition": "muster"},
        }
        assert dict(nodes["n2"].capacity) == {"vcore": 4000, "memory": 2000 * 2**20}
        assert nodes["n3"].capacity["nvidia.com/gpu"] == 2

        app = await scheduler.add_app("a", "root.q")
        ask = await app.add_ask("x", ONE | {"nvidia.com/gpu": 2})
        assert (await ask.bound()).node == "n3"


async def test_pinned_job_waits_for_others_of_the_partition(cluster: Cluster) -> None:
    strange = cluster.run(
        "sbatch", "--parsable", "--nodelist=n2", "--mem=1000M", "--ntasks=4", "--wrap=sleep 1000"
    ).strip()
    out = cluster.folder / "work" / "waits"

    async with opened(lambda _: Command("echo ran", stdout=out)) as (scheduler, _):
        ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE, node="n2")
        with trio.move_on_after(2):
            await ask.bound()
            pytest.fail("it runs, although its node is taken")
        assert await ask.why() is None, "the ask is bound, and its job waits"
        cluster.run("scancel", strange)
        allocation = await ask.bound()
        assert await allocation.ended() is muster.Reason.COMPLETED
    assert out.read_text("utf-8") == "ran\n"


async def test_job_that_does_not_start_in_time_is_gone(cluster: Cluster) -> None:
    strange = cluster.run(
        "sbatch", "--parsable", "--nodelist=n2", "--mem=1000M", "--ntasks=4", "--wrap=sleep 1000"
    ).strip()
    async with opened(lambda _: "sleep 1000", bind_timeout=2) as (scheduler, _):
        ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE, node="n2")
        with pytest.raises(muster.BindFailedError):
            await ask.bound()
    assert cluster.run("squeue", "-h", "-o", "%i").split() == [strange]


async def test_cancelled_by_another(cluster: Cluster) -> None:
    out = cluster.folder / "work" / "cancelled"

    def work(_: muster.Allocation) -> Command:
        return Command("echo $MUSTER_RUN; exec sleep 1000", stdout=out)

    async with opened(work) as (scheduler, _):
        ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE)
        allocation = await ask.bound()
        await lines_in(out, 1)
        cluster.run("scancel", "--user=root")
        with trio.fail_after(PATIENCE_S):
            assert await allocation.ended() is muster.Reason.BIND_FAILED
        await ask.bound()
        await lines_in(out, 2)
        assert processes_of("a/x/1") == []
    assert cluster.jobs() == []
    assert processes_of("a/x/2") == []


async def test_jobs_of_other_users_are_theirs(cluster: Cluster) -> None:
    number = cluster.run(
        "sbatch",
        "--parsable",
        "--uid=nobody",
        "--chdir=/",
        "--output=/dev/null",
        "--mem=50M",
        "--comment=muster:a/x/1",
        "--wrap=sleep 1000",
    ).strip()
    try:
        async with opened(lambda _: "true", adopt_within=0) as (scheduler, _):
            app = await scheduler.add_app("a", "root.q")
            for name in ("x", "y"):
                held = await (await app.add_ask(name, ONE)).bound()
                assert await held.ended() is muster.Reason.COMPLETED
        assert cluster.jobs() == ["muster:a/x/1"]
    finally:
        cluster.run("scancel", number)
        await until(lambda: cluster.jobs() == [])


Amounts = dict[str, int | float | str]


def steps(cluster: Cluster) -> list[str]:
    """Return the nodes of the job steps of members that run."""
    printed = cluster.run("squeue", "--steps", "-h", "-o", "%j %N").splitlines()
    return sorted(line.split()[1] for line in printed if line.startswith("muster-"))


async def gang(
    scheduler: muster.Scheduler, amounts: list[Amounts], nodes: list[str] | None = None
) -> list[muster.Ask]:
    """Ask for the members of a gang: ``m0``, ``m1``, …."""
    await scheduler.add_gang("ring", len(amounts))
    app = await scheduler.add_app("a", "root.q")
    asks: list[muster.Ask] = []
    for place, amount in enumerate(amounts):
        node = None if nodes is None else nodes[place]
        asks.append(await app.add_ask(f"m{place}", amount, gang="ring", node=node))
    return asks


@pytest.mark.parametrize("big", [1, 3], ids=["equal", "unequal"])
@pytest.mark.parametrize("gangs", ["job", "components"])
async def test_members_start_together_and_each_status_is_its_own(
    cluster: Cluster, big: int, gangs: Literal["job", "components"]
) -> None:
    statuses: dict[str, int] = {}
    out = cluster.folder / "work" / f"gang-{big}-{gangs}"

    def done(held: muster.Allocation, result: JobResult) -> None:
        statuses[held.ask] = result.status

    def work(held: muster.Allocation) -> Command:
        line = (
            f'echo "$MUSTER_ASK $MUSTER_NODE $SLURMD_NODENAME"; sleep {held.ask[1:]}; '
            f"exit {held.ask[1:]}"
        )
        return Command(line, stdout=out)

    async with opened(work, done=done, gangs=gangs) as (scheduler, _):
        amounts = [ONE, ONE, ONE | {"vcore": big}]
        asks = await gang(scheduler, amounts, ["n1", "n1", "n2"])
        held = [await ask.bound() for ask in asks]
        (comment,) = {text.rstrip() for text in cluster.jobs()}
        assert (
            comment.partition(" ")[0] == f"muster:default%2Fring/*/{held[0].step}-{held[2].number}"
        )
        assert await held[0].ended() is muster.Reason.COMPLETED
        assert await held[2].ended() is muster.Reason.COMPLETED
    assert statuses == {"m0": 0, "m1": 1, "m2": 2}
    assert sorted(out.read_text("utf-8").splitlines()) == ["m0 n1 n1", "m1 n1 n1", "m2 n2 n2"]
    await until(lambda: cluster.jobs() == [])


async def test_gang_waits_until_all_of_it_has_room(cluster: Cluster) -> None:
    out = cluster.folder / "work" / "all"
    strange = cluster.run(
        "sbatch", "--parsable", "--nodelist=n2", "--mem=1000M", "--ntasks=4", "--wrap=sleep 1000"
    ).strip()
    async with opened(lambda _: Command("date +%s.%N", stdout=out)) as (scheduler, _):
        asks = await gang(scheduler, [ONE, ONE], ["n1", "n2"])
        with trio.move_on_after(2):
            await asks[0].bound()
            pytest.fail("a half of the gang runs")
        assert not out.exists()
        cluster.run("scancel", strange)
        for ask in asks:
            assert await (await ask.bound()).ended() is muster.Reason.COMPLETED
        began = [float(line) for line in await lines_in(out, 2)]
    assert max(began) - min(began) < 5


async def test_gang_that_loses_a_member_before_it_starts_does_not_start(cluster: Cluster) -> None:
    out = cluster.folder / "work" / "none"
    strange = cluster.run(
        "sbatch", "--parsable", "--nodelist=n2", "--mem=1000M", "--ntasks=4", "--wrap=sleep 1000"
    ).strip()
    async with opened(lambda _: Command("echo $MUSTER_RUN; sleep 1000", stdout=out)) as (
        scheduler,
        _,
    ):
        await gang(scheduler, [ONE, ONE], ["n1", "n2"])
        await until(lambda: len(cluster.jobs()) == 2)
        await scheduler.remove_node("n2")  # Slurm still has it
        await until(lambda: cluster.run("squeue", "-h", "-o", "%i").split() == [strange])
        assert not out.exists()
        assert cluster.state("n1") == "idle"


@pytest.mark.parametrize("gangs", ["job", "components"])
async def test_evicted_member_ends_alone(
    cluster: Cluster, gangs: Literal["job", "components"]
) -> None:
    out = cluster.folder / "work" / f"alone-{gangs}"
    line = (
        "trap 'sleep 0.5; echo $MUSTER_ASK ended; exit' TERM; echo $MUSTER_ASK; sleep 1000 & wait"
    )

    async with opened(lambda _: Command(line, stdout=out), grace_period=60, gangs=gangs) as (
        scheduler,
        _,
    ):
        asks = await gang(scheduler, [ONE, ONE, ONE], ["n1", "n2", "n3"])
        held = [await ask.bound() for ask in asks]
        await lines_in(out, 3)
        assert steps(cluster) == ["n1", "n2", "n3"]
        await scheduler.remove_node("n2")
        assert (await lines_in(out, 4))[3] == "m1 ended"
        with trio.fail_after(PATIENCE_S):
            await until(lambda: steps(cluster) == ["n1", "n3"])
        if gangs == "components":  # its node is free at once
            await until(lambda: cluster.state("n2") == "idle")
        assert [one.ending for one in held] == [None, muster.Reason.NODE_LOST, None]
    assert [processes_of(f"a/{one.ask}/{one.number}") for one in held] == [[], [], []]
    assert cluster.jobs() == []


async def test_deaf_member_is_killed_alone(cluster: Cluster) -> None:
    out = cluster.folder / "work" / "deaf-gang"
    line = "trap '' TERM; (sleep 1011; sleep 1012) & echo $MUSTER_ASK; sleep 1013; sleep 1014"

    async with opened(lambda _: Command(line, stdout=out), grace_period=1) as (scheduler, _):
        asks = await gang(scheduler, [ONE, ONE | {"vcore": 2}], ["n1", "n2"])
        first, second = [f"a/{held.ask}/{held.number}" for held in [await a.bound() for a in asks]]
        await lines_in(out, 2)
        assert processes_of(second) != []
        await scheduler.remove_node("n2")
        await until(lambda: processes_of(second) == [])
        await until(lambda: cluster.state("n2") == "idle")
        assert processes_of(first) != []
    assert processes_of(first) == []
    assert cluster.jobs() == []


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
