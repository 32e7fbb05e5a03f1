#!/usr/bin/env python3
"""Replay two months of two real GPU clusters, and compare with published figures.

The jobs are those of virtual clusters 0e4a51 and 2869ce of the Philly trace, on 32 and on
16 nodes of 8 GPUs. Jobs of more than 8 GPUs are gangs. Each replay is what a user would
type: ``muster import csv`` makes the feed, ``muster replay`` runs it. Queueing delays are
computed from the decision log and the table of jobs alone.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import attrs
import click
from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
GPUS_PER_NODE = 8


@attrs.frozen
class Cluster:
    """A virtual cluster.

    Attributes:
        name: What the trace calls it.
        nodes: How many nodes of 8 GPUs it has.
    """

    name: str
    nodes: int

    @property
    def nodes_text(self) -> str:
        """Its nodes, for ``--nodes``."""
        return f"{self.nodes}x nvidia.com/gpu={GPUS_PER_NODE}"

    @property
    def jobs(self) -> Path:
        """The table of its jobs."""
        return HERE / f"jobs-{self.name}.csv"


@attrs.frozen
class Experiment:
    """One replay, and its expected figures.

    Attributes:
        cluster: Whose jobs are replayed.
        policy: What the policy is called in the table; its configuration is named so too.
        published_s: The average queueing delay that was published, in seconds: the whole
            ones, what was left was cut off.
        tolerance_s: How far ours may be off, in seconds.
    """

    cluster: Cluster
    policy: str
    published_s: int
    tolerance_s: float = 0

    @property
    def config(self) -> Path:
        """The configuration."""
        return HERE / f"{self.policy.lower()}.yaml"


SINGLE = Cluster("0e4a51", nodes=32)
WIDE = Cluster("2869ce", nodes=16)

EXPERIMENTS = (
    # The order of jobs of the same second is not published, and here it matters.
    Experiment(SINGLE, "FIFO", 101_473, tolerance_s=101_473 * 0.001),
    Experiment(SINGLE, "SJF", 36_682),
    Experiment(WIDE, "FIFO", 21_171),
    Experiment(WIDE, "SJF", 7_344),
)


@attrs.frozen
class Job:
    """A job of the table, which the decision log must agree with.

    Attributes:
        submit_s: When it was submitted, in seconds since the start of the trace.
        members: On how many nodes it runs: full ones, and one more for the rest.
    """

    submit_s: int
    members: int


@attrs.frozen
class Outcome:
    """The result of a replay.

    Attributes:
        experiment: What was tried.
        delays_s: How long each job waited, in seconds.
        gangs: How many of these jobs ran on several nodes, all of them at once.
        took_s: How long the replay took in real time, in seconds.
    """

    experiment: Experiment
    delays_s: Sequence[float]
    gangs: int
    took_s: float

    @property
    def average_s(self) -> int:
        """The average queueing delay in whole seconds, cut off like the published one."""
        return int(sum(self.delays_s) // len(self.delays_s))

    @property
    def difference_s(self) -> int:
        """Ours less the published one, in seconds."""
        return self.average_s - self.experiment.published_s

    @property
    def holds(self) -> bool:
        """Whether the published figure was met."""
        return abs(self.difference_s) <= self.experiment.tolerance_s


def run(*command: object) -> None:
    """Run a command of this Python, without its output unless it fails.

    Raises:
        click.ClickException: It failed.
    """
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        output = done.stderr or done.stdout
        raise click.ClickException(f"{' '.join(words)}: exit {done.returncode}\n{output}")


def read_jobs(table: Path) -> dict[str, Job]:
    """Read the table of jobs, by their names."""
    with table.open(encoding="utf-8", newline="") as stream:
        return {
            row["job_id"]: Job(int(row["submit_s"]), math.ceil(int(row["gpus"]) / GPUS_PER_NODE))
            for row in csv.DictReader(stream)
        }


def bound(decisions: Path) -> dict[str, list[float]]:
    """Read from a decision log when each application's asks were bound, in seconds.

    Raises:
        click.ClickException: Something was refused.
    """
    found: defaultdict[str, list[float]] = defaultdict(list)
    with decisions.open(encoding="utf-8") as stream:
        for line in stream:
            decision = cast(dict[str, object], json.loads(line))
            kind, app, at = decision["kind"], decision.get("app"), decision["at"]
            if kind == "rejected":
                raise click.ClickException(f"{decisions}: not expected here: {line}")
            if kind == "bound" and isinstance(app, str) and isinstance(at, int | float):
                found[app].append(at)
    return found


def read_delays(jobs: Mapping[str, Job], decisions: Path) -> Iterator[float]:
    """Yield how long each job waited, in seconds.

    Raises:
        click.ClickException: A job did not run whole, once, on all of its nodes at once.
    """
    ran = bound(decisions)
    for name, job in jobs.items():
        instants = ran.pop(name, [])
        if len(instants) != job.members or len(set(instants)) != 1:
            raise click.ClickException(
                f"{decisions}: job {name} of {job.members} members: bound at {instants}"
            )
        yield instants[0] - job.submit_s
    if ran:
        raise click.ClickException(f"{decisions}: {min(ran)} is no job of the table")


def replay(experiment: Experiment, folder: Path, reports: Path | None) -> Outcome:
    """Make the feed of an experiment, replay it, and read the decision log.

    A report of it is written to the folder ``reports``, if there is one.

    Raises:
        click.ClickException: A command failed, or a job did not run as it should.
    """
    cluster, config = experiment.cluster, experiment.config
    feed = folder / f"{cluster.name}-{config.stem}.jsonl"
    decisions = feed.with_suffix(".decisions.jsonl")
    # Both policies get the priorities: what differs is the configuration, and that alone.
    options = ("--mapping", HERE / "philly.yaml", "--nodes", cluster.nodes_text, "--config", config)
    run("-m", "muster", "import", "csv", cluster.jobs, *options, "-o", feed)
    report = () if reports is None else ("--report", reports / f"{feed.stem}.html")
    start = time.perf_counter()
    run(
        *("-m", "muster", "replay", feed, "--decisions", decisions, *report),
        *("--strict", "--format", "json"),
    )
    took_s = time.perf_counter() - start
    jobs = read_jobs(cluster.jobs)
    gangs = sum(job.members > 1 for job in jobs.values())
    return Outcome(experiment, list(read_delays(jobs, decisions)), gangs, took_s)


def table(outcomes: Sequence[Outcome]) -> Table:
    """Make a table of the found and the published figures."""
    title = "Average queueing delay of Philly's jobs, in seconds"
    caption = f"gangs: those of the jobs that want more than {GPUS_PER_NODE} GPUs"
    # Even with the word DIFFERS it is no wider than 80 characters.
    shown = Table(
        title=title, caption=caption, box=box.SIMPLE, pad_edge=False, collapse_padding=True
    )
    shown.add_column("cluster")
    shown.add_column("policy")
    for heading in ("jobs", "gangs", "Muster", "published", "difference", "took"):
        shown.add_column(heading, justify="right")
    shown.add_column("")
    for outcome in outcomes:
        published_s = outcome.experiment.published_s
        difference = f"{outcome.difference_s / published_s:+.3%}"
        shown.add_row(
            outcome.experiment.cluster.name,
            outcome.experiment.policy,
            f"{len(outcome.delays_s):,}",
            f"{outcome.gangs:,}",
            f"{outcome.average_s:,}",
            f"{published_s:,}",
            difference if outcome.difference_s else "0",
            f"{outcome.took_s:.1f} s",
            "ok" if outcome.holds else "DIFFERS",
        )
    return shown


def run_all(folder: Path, reports: Path | None) -> list[Outcome]:
    """Run every experiment with its files in ``folder``, and its report in ``reports``."""
    return [replay(experiment, folder, reports) for experiment in EXPERIMENTS]


@click.command()
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Leave the feeds and the decision logs in this folder.",
)
@click.option(
    "--reports",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a page to look at for each replay, in this folder.",
)
def main(keep: Path | None, reports: Path | None) -> None:
    """Replay two virtual clusters under two policies; exit status 1 if a figure differs.

    Example: demo.py --keep out
    """
    if reports is not None:
        reports.mkdir(parents=True, exist_ok=True)
    if keep is None:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = run_all(Path(folder), reports)
    else:
        keep.mkdir(parents=True, exist_ok=True)
        outcomes = run_all(keep, reports)
    Console().print(table(outcomes))
    if reports is not None:
        click.echo(f"To look at: {reports}/*.html")
    sys.exit(0 if all(outcome.holds for outcome in outcomes) else 1)


if __name__ == "__main__":
    main()
