#!/usr/bin/env python3
"""Replay two months of a real GPU cluster twice, and compare with published figures.

The jobs are those of virtual cluster 0e4a51 of the Philly trace, on 32 nodes of 8 GPUs.
Each replay is what a user would type: ``to_feed.py`` makes the feed, ``muster replay``
runs it. Queueing delays are computed from the decision log and the table of jobs alone.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import attrs
import click
from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
JOBS = HERE / "jobs-0e4a51.csv"
NODES = 32


@attrs.frozen
class Experiment:
    """One replay, and what to expect of it.

    Attributes:
        name: What the policy is called in the table.
        config: The configuration's file name; the feed's is made from it.
        published_s: The average queueing delay that was published, in whole seconds.
        tolerance_s: How far ours may be off, in seconds.
    """

    name: str
    config: str
    published_s: int
    tolerance_s: float


EXPERIMENTS = (
    # The order of jobs of the same second is not published, and here it matters.
    Experiment("FIFO", "fifo.yaml", 101_473, tolerance_s=101_473 * 0.001),
    Experiment("SJF", "sjf.yaml", 36_682, tolerance_s=0),
)


@attrs.frozen
class Outcome:
    """What a replay gave.

    Attributes:
        experiment: What was tried.
        delays_s: How long each job waited, in seconds.
        took_s: How long the replay took in real time, in seconds.
    """

    experiment: Experiment
    delays_s: Sequence[float]
    took_s: float

    @property
    def average_s(self) -> float:
        """The average queueing delay in seconds."""
        return sum(self.delays_s) / len(self.delays_s)

    @property
    def difference_s(self) -> float:
        """Ours less the published one, in seconds; that one is a number of whole seconds."""
        return round(self.average_s) - self.experiment.published_s

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
        said = done.stderr or done.stdout
        raise click.ClickException(f"{' '.join(words)}: exit {done.returncode}\n{said}")


def submitted() -> dict[str, int]:
    """Read when each job was submitted, in seconds since the start of the trace."""
    with JOBS.open(encoding="utf-8", newline="") as stream:
        return {row["job_id"]: int(row["submit_s"]) for row in csv.DictReader(stream)}


def bound(decisions: Path) -> dict[str, float]:
    """Read from a decision log when each application's ask was bound, in seconds.

    Raises:
        click.ClickException: Something was refused, or bound twice.
    """
    found: dict[str, float] = {}
    with decisions.open(encoding="utf-8") as stream:
        for line in stream:
            decision = cast(dict[str, object], json.loads(line))
            kind, app, at = decision["kind"], decision.get("app"), decision["at"]
            if kind == "rejected" or (kind == "bound" and app in found):
                raise click.ClickException(f"{decisions}: not expected here: {line}")
            if kind == "bound" and isinstance(app, str) and isinstance(at, int | float):
                found[app] = at
    return found


def replay(experiment: Experiment, folder: Path) -> Outcome:
    """Make the feed of an experiment, replay it, and read what was decided.

    Raises:
        click.ClickException: A command failed, or a job never ran.
    """
    config = HERE / experiment.config
    feed = folder / f"{config.stem}.jsonl"
    decisions = folder / f"{config.stem}.decisions.jsonl"
    # Both feeds carry the priorities: what differs is the configuration, and that alone.
    options = ("--nodes", NODES, "--priority", "sjf", "--config", config, "--out", feed)
    run(HERE / "to_feed.py", JOBS, *options)
    start = time.perf_counter()
    run("-m", "muster", "replay", feed, "--decisions", decisions, "--strict", "--format", "json")
    took_s = time.perf_counter() - start
    came, ran = submitted(), bound(decisions)
    if came.keys() != ran.keys():
        raise click.ClickException(f"{decisions}: {len(ran)} of {len(came)} jobs ran")
    return Outcome(experiment, [ran[job] - came[job] for job in came], took_s)


def table(outcomes: Sequence[Outcome]) -> Table:
    """Lay out what was found beside what was published."""
    title = f"Average queueing delay, Philly cluster 0e4a51, {NODES} nodes of 8 GPUs"
    shown = Table(title=title, box=box.SIMPLE)
    shown.add_column("policy")
    for heading in ("jobs", "Muster", "published", "difference", "took"):
        shown.add_column(heading, justify="right")
    shown.add_column("")
    for outcome in outcomes:
        published_s = outcome.experiment.published_s
        shown.add_row(
            outcome.experiment.name,
            f"{len(outcome.delays_s):,}",
            f"{round(outcome.average_s):,} s",
            f"{published_s:,} s",
            f"{outcome.difference_s:,} s ({outcome.difference_s / published_s:.3%})",
            f"{outcome.took_s:.1f} s",
            "ok" if outcome.holds else "DIFFERS",
        )
    return shown


def run_all(folder: Path) -> list[Outcome]:
    """Run every experiment with its files in ``folder``."""
    return [replay(experiment, folder) for experiment in EXPERIMENTS]


@click.command()
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Leave the feeds and the decision logs in this folder.",
)
def main(keep: Path | None) -> None:
    """Replay virtual cluster 0e4a51 under two policies; exit status 1 if a figure differs.

    Example: demo.py --keep out
    """
    if keep is None:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = run_all(Path(folder))
    else:
        keep.mkdir(parents=True, exist_ok=True)
        outcomes = run_all(keep)
    Console().print(table(outcomes))
    sys.exit(0 if all(outcome.holds for outcome in outcomes) else 1)


if __name__ == "__main__":
    main()
