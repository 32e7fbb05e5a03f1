"""examples/slurm: an eviction with plain Slurm and with Muster, by one command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.slurm.cluster import PATIENCE_S, Cluster

EVICT = Path(__file__).parents[3] / "examples" / "slurm" / "evict.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EVICT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_urgent_job_waits_with_plain_slurm_and_not_with_muster(cluster: Cluster) -> None:
    done = run()

    assert done.returncode == 0, done.stderr
    plain, with_muster, asked, begins = done.stdout.splitlines()
    assert waited(plain, "plain Slurm") > 8
    assert waited(with_muster, "with Muster") < waited(plain, "plain Slurm") / 2
    found = re.fullmatch(r"with Muster  (\S+) was asked to end at (\d+)", asked)
    assert found is not None, asked
    assert int(found[2]) > 0
    assert begins == f"with Muster  {found[1]} begins at {found[2]}"
    assert cluster.jobs() == []


def waited(line: str, half: str) -> float:
    found = re.fullmatch(rf"{half}  the urgent job has waited ([\d.]+) s", line)
    assert found is not None, line
    return float(found[1])


def test_without_slurm_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = run()
    assert done.returncode == 2
    assert done.stderr.startswith("needs a Slurm whose commands are here: ")
