"""What `muster import` costs: a million jobs of Slurm, alone and with their steps."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure
from benchmarks.processes import PROJECT, FailedError

JOBS: Final = 1_000_000
MOST_S: Final = 60.0
MOST_MIB: Final = 300.0
NODES: Final = "200x vcore=64,memory=512Gi"
_HEADER: Final = (
    "JobID|JobName|User|Group|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|State|"
    "ReqTRES|AllocTRES|NNodes|Constraints|Priority"
)
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


def measure(scale: float) -> list[Figure]:
    """Make dumps of sacct, and import each in a process of its own."""
    jobs = max(100, int(JOBS * scale))
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="muster-import-") as name:
        folder = Path(name)
        for what, has_steps in (("jobs", False), ("jobs with two steps each", True)):
            dump = folder / "sacct.txt"
            with dump.open("w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in lines(jobs, has_steps=has_steps))
            seconds, mib = _cost(dump, folder / "feed.jsonl")
            note = f"{jobs:,} jobs, {dump.stat().st_size / 1e6:,.0f} MB"
            figures += [
                Figure("import", f"sacct, {what}", seconds, "s", target=MOST_S, note=note),
                Figure("import", f"sacct, {what}: peak memory", mib, "MiB", target=MOST_MIB),
            ]
    return figures


def lines(jobs: int, *, has_steps: bool) -> Iterator[str]:
    """Yield the lines of a dump: jobs of all sizes, three in ten of them tasks of arrays.

    Args:
        jobs: How many jobs.
        has_steps: Whether each has the steps ``batch`` and ``extern``.
    """
    chance = random.Random(1)
    yield _HEADER
    at = _START
    for number in range(1, jobs + 1):
        at += timedelta(seconds=chance.randint(0, 60))
        begin = at + timedelta(seconds=chance.randint(1, 5000))
        ran = chance.randint(1, 80_000)
        times = "|".join(
            f"{instant:%Y-%m-%dT%H:%M:%S}" for instant in (begin, begin + timedelta(seconds=ran))
        )
        cpus, user = 1 << chance.randint(0, 5), chance.randint(1, 300)
        nodes = 1 if chance.random() < 0.9 else 2
        tres = f"billing={cpus},cpu={cpus},mem={cpus * chance.randint(1, 8)}G,node={nodes}"
        job = str(number) if chance.random() < 0.7 else f"{number // 10 * 10}_{number % 10}"
        submitted = f"{at:%Y-%m-%dT%H:%M:%S}"
        yield (
            f"{job}|job-{number % 1000}|user{user}|group{user % 20}|account{user % 40}|batch|normal|"
            f"{submitted}|{submitted}|{times}|{ran}|COMPLETED|{tres}|{tres}|{nodes}||{user}"
        )
        if has_steps:
            for step in ("batch", "extern"):
                yield (
                    f"{job}.{step}|{step}|||account{user % 40}|||{times[:19]}|{times[:19]}|{times}|"
                    f"{ran}|COMPLETED||{tres}|{nodes}||"
                )


def _cost(dump: Path, feed: Path) -> tuple[float, float]:
    """Return the processor time in seconds, and the peak memory in MiB.

    Raises:
        FailedError: The import has failed.
    """
    words = [sys.executable, "-m", "muster", "import", "slurm", str(dump), "-o", str(feed)]
    words += ["--nodes", NODES, "--no-progress"]
    with subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise FailedError(f"{' '.join(words)}: exit {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
