"""Replay Philly's jobs with ``greedy``, ``strict`` and ``backfill``, and with worse estimates.

Run it in the root folder of the project: ``python -m examples.philly.backfill``. The jobs and the
nodes are those of ``demo.py``. With ``backfill`` the estimate of a job is how long it ran, twice
as long, or that rounded up to whole hours.
"""

from __future__ import annotations

import csv
import math
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import click
from rich import box
from rich.console import Console
from rich.table import Table

from examples.philly.demo import (
    GPUS_PER_NODE,
    HERE,
    SINGLE,
    WIDE,
    Cluster,
    read_delays,
    read_jobs,
    run,
)

HOUR_S: Final = 3600
ESTIMATES: Final[Mapping[str, Callable[[int], int]]] = {
    "exact": lambda run_s: run_s,
    "twice as long": lambda run_s: 2 * run_s,
    "whole hours": lambda run_s: math.ceil(run_s / HOUR_S) * HOUR_S,
}
"""The estimate of a job that runs so many seconds, in seconds."""


@attrs.frozen
class Trial:
    """One replay.

    Attributes:
        cluster: Whose jobs are replayed.
        order: The ``scheduling.order``; its configuration is named so too.
        estimates: What the estimates are; other orders than ``backfill`` do not need any.
    """

    cluster: Cluster
    order: str
    estimates: str = "exact"


TRIALS: Final = [
    Trial(cluster, order, estimates)
    for cluster in (SINGLE, WIDE)
    for order, estimates in (
        ("greedy", "exact"),
        ("strict", "exact"),
        *(("backfill", name) for name in ESTIMATES),
    )
]


@attrs.frozen
class Figures:
    """The figures of a replay; times are in seconds.

    Attributes:
        mean_s: How long a job waited, on average.
        high_s: How long the 5 % waited at least that waited longest.
        use: The share of the GPUs that were in use, from the first job to the last end.
        whole_s: The longest wait of a job of a whole node or more.
        wide_s: The longest wait of a job of several nodes; None if there is no such job.
    """

    mean_s: float
    high_s: float
    use: float
    whole_s: float
    wide_s: float | None


def with_estimates(jobs: Path, estimate: Callable[[int], int], target: Path) -> None:
    """Write a table of jobs again, with a column of estimates."""
    with jobs.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with target.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [*rows[0], "estimate_s"])
        writer.writeheader()
        for row in rows:
            run_s = max(int(row["duration_s"]), 1)
            writer.writerow(row | {"estimate_s": estimate(run_s)})


def replay(trial: Trial, folder: Path) -> Figures:
    """Make the feed of a trial, replay it, and compute its figures from the decision log.

    Raises:
        click.ClickException: A command failed, or a job did not run as it should.
    """
    name = f"{trial.cluster.name}-{trial.order}-{trial.estimates.replace(' ', '-')}"
    jobs, mapping, feed, log = (
        folder / f"{name}{end}" for end in (".csv", ".yaml", ".jsonl", ".decisions.jsonl")
    )
    with_estimates(trial.cluster.jobs, ESTIMATES[trial.estimates], jobs)
    plain = (HERE / "philly.yaml").read_text(encoding="utf-8")
    mapping.write_text(f"estimate: estimate_s\n{plain}", encoding="utf-8")
    config = HERE / f"{trial.order}.yaml"
    run(
        *("-m", "muster", "import", "csv", jobs, "--mapping", mapping, "--config", config),
        *("--nodes", trial.cluster.nodes_text, "-o", feed),
    )
    run("-m", "muster", "replay", feed, "--decisions", log, "--strict", "--format", "json")
    delays = dict(zip(read_jobs(jobs), read_delays(read_jobs(jobs), log), strict=True))
    return figures(jobs, delays, trial.cluster.nodes * GPUS_PER_NODE)


def figures(jobs: Path, delays: Mapping[str, float], gpus: int) -> Figures:
    """Compute the figures of a replay.

    Args:
        jobs: The table of jobs.
        delays: How long each job waited, in seconds.
        gpus: How many GPUs there are.
    """
    with jobs.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    used, ends, whole, wide = 0, 0.0, [0.0], list[float]()
    for row in rows:
        wants, run_s, delay_s = int(row["gpus"]), int(row["duration_s"]), delays[row["job_id"]]
        used += wants * run_s
        ends = max(ends, int(row["submit_s"]) + delay_s + run_s)
        if wants >= GPUS_PER_NODE:
            whole.append(delay_s)
        if wants > GPUS_PER_NODE:
            wide.append(delay_s)
    first = min(int(row["submit_s"]) for row in rows)
    waited = sorted(delays.values())
    return Figures(
        mean_s=statistics.fmean(waited),
        high_s=waited[math.ceil(0.95 * len(waited)) - 1],
        use=used / (gpus * (ends - first)),
        whole_s=max(whole),
        wide_s=max(wide, default=None),
    )


def table(found: Sequence[tuple[Trial, Figures]]) -> Table:
    """Lay out the figures of all replays."""
    shown = Table(
        title="How long Philly's jobs wait, in seconds",
        box=box.SIMPLE,
        pad_edge=False,
        collapse_padding=True,
    )
    for heading in ("cluster", "order", "estimates"):
        shown.add_column(heading)
    for heading in ("mean", "95 %", "longest: 8 GPUs +", "over 8 GPUs", "use"):
        shown.add_column(heading, justify="right")
    for trial, one in found:
        shown.add_row(
            trial.cluster.name,
            trial.order,
            trial.estimates if trial.order == "backfill" else "",
            f"{one.mean_s:,.1f}",
            f"{one.high_s:,.0f}",
            f"{one.whole_s:,.0f}",
            "" if one.wide_s is None else f"{one.wide_s:,.0f}",
            f"{one.use:.1%}",
        )
    return shown


@click.command()
@click.option(
    "--cluster",
    type=click.Choice([SINGLE.name, WIDE.name]),
    help="Only this one. Default: both.",
)
def main(cluster: str | None) -> None:
    """Replay two virtual clusters in three orders, with backfill for three kinds of estimates."""
    chosen = [trial for trial in TRIALS if cluster in (None, trial.cluster.name)]
    with tempfile.TemporaryDirectory() as folder:
        found = [(trial, replay(trial, Path(folder))) for trial in chosen]
    Console().print(table(found))


if __name__ == "__main__":
    main()
