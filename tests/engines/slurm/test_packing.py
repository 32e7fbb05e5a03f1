"""Slurm fills up nodes, and so does the replay of a feed that was imported from it. IMPORT-18."""

from __future__ import annotations

import json
from pathlib import Path

from tests.actors.cli.helpers import run, written
from tests.actors.importing.slurm.helpers import dump_of, row
from tests.engines.slurm.cluster import Cluster, wait_until

_CPUS = (2, 3, 1, 1, 1, 2)
"""What jobs ask for, one after another, on nodes of four CPUs."""


def test_jobs_go_to_the_nodes_to_which_slurm_sends_them(cluster: Cluster, tmp_path: Path) -> None:
    chosen = [_started(cluster, cpus) for cpus in _CPUS]
    assert _replayed(cluster, tmp_path) == chosen
    assert len(set(chosen[:5])) == 2  # the third node is empty until it is needed


def _started(cluster: Cluster, cpus: int) -> str:
    """Start a job of Slurm, and return its node."""
    words = ("sbatch", "--parsable", "--output=/dev/null", "--mem=10", "-n1", f"-c{cpus}")
    job = cluster.run(*words, "--wrap", "exec sleep 1000").strip()

    def node() -> str:
        return cluster.run("squeue", "-h", "-t", "RUNNING", "-j", job, "-o", "%N").strip()

    wait_until(lambda: bool(node()), f"job {job} runs")
    return node()


def _replayed(cluster: Cluster, folder: Path) -> list[str]:
    """Return the nodes of the same jobs in a replay."""
    rows = [
        row(
            number,
            Submit=f"2026-01-31T10:00:0{number}",
            Eligible=f"2026-01-31T10:00:0{number}",
            ReqTRES=f"cpu={cpus},mem=10M,node=1",
            Partition="muster",
        )
        for number, cpus in enumerate(_CPUS)
    ]
    dump = written(folder / "sacct.txt", dump_of(*rows))
    nodes = written(folder / "nodes.txt", cluster.run("scontrol", "show", "node"))
    said = cluster.run("scontrol", "show", "config") + cluster.run("scontrol", "show", "partition")
    conf = written(folder / "conf.txt", said)
    feed, log = folder / "feed.jsonl", folder / "log.jsonl"
    for words in (
        ("import", "slurm", dump, "--nodes", nodes, "--slurm-conf", conf, "-o", feed),
        ("replay", feed, "--decisions", log),
    ):
        result = run(*words)
        assert result.exit_code == 0, result.output
    decisions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    bound = {one["app"]: one["node"] for one in decisions if one["kind"] == "bound"}
    return [bound[str(number)] for number in range(len(_CPUS))]
