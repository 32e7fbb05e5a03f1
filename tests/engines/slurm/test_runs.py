"""Commands of asks run as jobs of Slurm, and their ends are told."""

from __future__ import annotations

import pytest
import trio

import muster
from muster.slurm import Command, JobResult, SlurmError
from tests.engines.slurm.cluster import PATIENCE_S, Cluster
from tests.engines.slurm.programs import ONE, lines_in, opened, processes_of, until


async def test_command_runs_and_its_status_is_told(cluster: Cluster) -> None:
    told: list[tuple[str, int]] = []

    def done(held: muster.Allocation, result: JobResult) -> None:
        told.append((held.ask, result.status))

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
    assert told == [("zero", 0), ("seven", 7), ("killed", -9)]
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
    told: list[int] = []

    def done(held: muster.Allocation, result: JobResult) -> None:
        told.append(held.number)
        if len(told) == 1:
            raise muster.WorkFailedError(f"exit status {result.status}")

    async with opened(lambda _: "exit 3", done=done) as (scheduler, _):
        app = await scheduler.add_app("a", "root.q")
        ask = await app.add_ask("x", ONE, retries=1)
        while await (await ask.bound()).ended() is not muster.Reason.COMPLETED:
            pass
    assert told == [1, 2]


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
