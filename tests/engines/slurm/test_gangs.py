"""The members of a gang that are bound in one step are one job, and each of them ends alone."""

from __future__ import annotations

from typing import Literal

import pytest
import trio

import muster
from muster.slurm import Command, JobResult
from tests.engines.slurm.cluster import PATIENCE_S, Cluster
from tests.engines.slurm.programs import ONE, lines_in, opened, processes_of, until

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
    told: dict[str, int] = {}
    out = cluster.folder / "work" / f"gang-{big}-{gangs}"

    def done(held: muster.Allocation, result: JobResult) -> None:
        told[held.ask] = result.status

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
    assert told == {"m0": 0, "m1": 1, "m2": 2}
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
