"""Logs for ``starts.py``: one that is made, and jobs of real clusters, as jobs of one pool."""

from __future__ import annotations

import csv
import gzip
import math
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import attrs

from examples.evidence.plain import Job, read

EXAMPLES: Final = Path(__file__).resolve().parents[1]
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S

REQUESTS_S: Final = [
    minutes * 60 for minutes in (5, 10, 15, 30, 60, 120, 240, 480, 720, 1440, 2880, 5760)
]
"""The times that users request: a few round ones, as on every cluster."""

ARRIVALS: Final = [3, 2, 2, 2, 2, 2, 3, 5, 9, 12, 14, 15, 14, 15, 16, 16, 15, 13, 10, 8, 7, 6, 5, 4]
"""How many jobs come in each hour of a day, in proportion."""


@attrs.frozen
class Log:
    """Jobs for one pool of processors.

    Attributes:
        name: What it is called.
        processors: How many processors the pool has.
        jobs: Its jobs, in the order of the log.
    """

    name: str
    processors: int
    jobs: list[Job]


def week() -> Log:
    """Return ``examples/swf/week.swf``."""
    jobs, header = read((EXAMPLES / "swf" / "week.swf").read_text(encoding="utf-8"))
    return Log("week.swf", header["MaxProcs"], jobs)


def synthetic(
    jobs: int = 10_000, *, days: int = 20, seed: int = 2003, are_ended: bool = True
) -> Log:
    """Make a log in the manner of Lublin and Feitelson.

    Sizes are powers of two or not, and many are 1; run times come from one of two gamma
    distributions, of which large jobs prefer the longer one; by day more jobs come than by night.
    (Lublin and Feitelson: The workload on parallel supercomputers. JPDC 63 (11), 2003. The
    parameters of sizes and run times are theirs; arrivals are simpler.)

    Args:
        jobs: How many.
        days: In how many days they come. 10,000 in 20 days need 9 of 10 processors.
        seed: Of the random numbers.
        are_ended: Whether a job ends when the time that it requested is over. Else every twentieth
            runs for longer.
    """
    chance = random.Random(seed)
    weights = [share for _ in range(days) for share in ARRIVALS]
    hours = chance.choices(range(24 * days), weights, k=jobs)
    submits = sorted(hour * HOUR_S + chance.randrange(HOUR_S) for hour in hours)
    chosen = [_synthetic_job(chance, number, at) for number, at in enumerate(submits, start=1)]
    if are_ended:
        chosen = [replace(job, run=min(job.run, job.requested)) for job in chosen]
    return Log("made" if are_ended else "made, overrun", 8_000, chosen)


def whole_nodes(log: Log, size: int) -> Log:
    """Return a log in which a job needs whole nodes of so many processors."""
    jobs = [replace(job, size=math.ceil(job.size / size)) for job in log.jobs]
    return Log(f"{log.name}, whole nodes", log.processors // size, jobs)


def _synthetic_job(chance: random.Random, number: int, submit: int) -> Job:
    size = _size(chance, 10.4)
    is_short = chance.random() < -0.0054 * size + 0.78
    alpha, beta = (4.2, 0.94) if is_short else (312, 0.03)
    run = max(1, min(round(math.exp(chance.gammavariate(alpha, beta))), 4 * DAY_S))
    wanted = run / chance.uniform(0.1, 1)
    requested = next((one for one in REQUESTS_S if one >= wanted), REQUESTS_S[-1])
    if chance.random() < 0.05:
        requested = max(1, run // chance.randint(2, 9))
    return Job(number, submit, size, run, requested)


def _size(chance: random.Random, most: float) -> int:
    """Choose how many processors a job needs, up to two to the power of ``most``."""
    if chance.random() < 0.244:
        return 1
    middle = most - 2.5
    low, high = (0.8, middle) if chance.random() < 0.86 else (middle, most)
    power = chance.uniform(low, high)
    return 2 ** round(power) if chance.random() < 0.576 / 0.756 else max(1, round(2**power))


def philly(cluster: str, nodes: int) -> Log:
    """Return the jobs of a virtual cluster of Philly; a processor is a GPU."""
    path = EXAMPLES / "philly" / f"jobs-{cluster}.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [
            (int(row["submit_s"]), int(row["gpus"]), int(row["duration_s"]))
            for row in csv.DictReader(stream)
        ]
    return _real(f"Philly {cluster}", 8 * nodes, rows)


def openb(gpus: int = 40) -> Log:
    """Return the pods of openb that want GPUs and were scheduled; a processor is a GPU.

    Replayed as they came they need few of the 6,212 GPUs, so that no job would wait: these are
    fewer. A share of a GPU counts as one.
    """
    with gzip.open(EXAMPLES / "openb" / "openb_pod_list_default.csv.gz", "rt") as stream:
        rows = [
            (
                int(row["creation_time"]),
                int(row["num_gpu"]),
                int(row["deletion_time"]) - int(row["scheduled_time"]),
            )
            for row in csv.DictReader(stream)
            if int(row["num_gpu"]) and row["scheduled_time"]
        ]
    return _real("openb", gpus, sorted(rows, key=lambda row: row[0]))


def _real(name: str, processors: int, rows: Iterable[tuple[int, int, int]]) -> Log:
    """Make a log of submission, size and run time; requested times are rounded up to hours."""
    jobs = [
        Job(number, submit, size, max(run, 1), math.ceil(max(run, 1) / HOUR_S) * HOUR_S)
        for number, (submit, size, run) in enumerate(rows, start=1)
    ]
    return Log(name, processors, jobs)
