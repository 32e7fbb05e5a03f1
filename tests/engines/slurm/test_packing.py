"""Slurm fills up nodes, and so does a replay (IMPORT-18); examples/slurm by one command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.cli.helpers import run, written
from tests.actors.importing.slurm.samples import dump_of, row
from tests.engines.slurm.cluster import PATIENCE_S, Cluster, wait_until

_CPUS = (2, 3, 1, 1, 1, 2)
"""What jobs ask for, one after another, on nodes of four CPUs."""


def test_jobs_go_to_the_nodes_to_which_slurm_sends_them(cluster: Cluster, tmp_path: Path) -> None:
    chosen = [_start_job(cluster, cpus) for cpus in _CPUS]
    assert _replay(cluster, tmp_path) == chosen
    assert len(set(chosen[:5])) == 2  # the third node is empty until it is needed


def _start_job(cluster: Cluster, cpus: int) -> str:
    """Start a job of Slurm, and return its node."""
    words = ("sbatch", "--parsable", "--output=/dev/null", "--mem=10", "-n1", f"-c{cpus}")
    job = cluster.run(*words, "--wrap", "exec sleep 1000").strip()

    def node() -> str:
        return cluster.run("squeue", "-h", "-t", "RUNNING", "-j", job, "-o", "%N").strip()

    wait_until(lambda: bool(node()), f"job {job} runs")
    return node()


def _replay(cluster: Cluster, folder: Path) -> list[str]:
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
    config = cluster.run("scontrol", "show", "config") + cluster.run(
        "scontrol", "show", "partition"
    )
    conf = written(folder / "conf.txt", config)
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


EVICT = Path(__file__).parents[3] / "examples" / "slurm" / "evict.py"


def run_example(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EVICT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_urgent_job_waits_with_plain_slurm_and_not_with_muster(cluster: Cluster) -> None:
    done = run_example()

    assert done.returncode == 0, done.stderr
    plain, with_muster, ending, begins = done.stdout.splitlines()
    assert waited_s(plain, "plain Slurm") > 8
    assert waited_s(with_muster, "with Muster") < waited_s(plain, "plain Slurm") / 2
    found = re.fullmatch(r"with Muster  (\S+) was asked to end at (\d+)", ending)
    assert found is not None, ending
    assert int(found[2]) > 0
    assert begins == f"with Muster  {found[1]} begins at {found[2]}"
    assert cluster.jobs() == []


def waited_s(line: str, half: str) -> float:
    found = re.fullmatch(rf"{half}  the urgent job has waited ([\d.]+) s", line)
    assert found is not None, line
    return float(found[1])


def test_without_slurm_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = run_example()
    assert done.returncode == 2
    assert done.stderr.startswith("needs a Slurm whose commands are here: ")
