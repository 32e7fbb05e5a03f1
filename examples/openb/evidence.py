#!/usr/bin/env python3
"""Fill the GPU nodes of the openb trace with its pods, and compare with the published figures."""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import click
from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent

TOLERANCE = 0.3
"""How far a mean may be off the published one, in percent of all GPUs."""


@attrs.frozen
class Policy:
    """An order of nodes.

    Attributes:
        name: What it is called in a configuration.
        published: What it is called in the table of published figures.
    """

    name: str
    published: str


POLICIES = (Policy("bestfit", "05-BestFit"), Policy("fgd", "06-FGD"))


@attrs.frozen
class Run:
    """One replay.

    Attributes:
        percent: How much of all GPUs was allocated at the end, in percent.
        bound: How many pods were bound.
        took_s: How long the replay took, in seconds.
    """

    percent: float
    bound: int
    took_s: float


def published() -> dict[str, float]:
    """Read how much of all GPUs each policy has allocated, in percent, at a demand of 130 %."""
    with (HERE / "published.csv").open(encoding="utf-8", newline="") as table:
        return {row["policy"]: float(row["alloc130_mean"]) for row in csv.DictReader(table)}


def run(*command: object) -> None:
    """Run a command of this Python.

    Raises:
        click.ClickException: It failed.
    """
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        output = done.stderr or done.stdout
        raise click.ClickException(f"{' '.join(words)}: exit {done.returncode}\n{output}")


def replay(policy: Policy, seed: int) -> Run:
    """Replay one shuffle, and add up the decisions.

    Raises:
        click.ClickException: A command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        feed, log = Path(folder, "feed.jsonl"), Path(folder, "decisions.jsonl")
        run(HERE / "openb.py", feed, "--policy", policy.name, "--seed", seed)
        began = time.monotonic()
        run("-m", "muster", "replay", feed, "--decisions", log)
        took_s = time.monotonic() - began
        events, decisions = read_lines(feed), read_lines(log)
    wanted = {one["ask"]: milli(one) for one in events if one["op"] == "add_ask"}
    there = sum(1000 * one["devices"]["gpu"]["count"] for one in events if one["op"] == "add_node")
    bound = [wanted[one["ask"]] for one in decisions if one["kind"] == "bound"]
    return Run(100 * sum(bound) / there, len(bound), took_s)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def milli(event: dict[str, Any]) -> int:
    """Return how much of all GPUs an ask wants, in thousandths of one."""
    need = event.get("devices", {}).get("gpu", {})
    return int(need.get("milli", 0)) or 1000 * int(need.get("count", 0))


@attrs.frozen
class Measured:
    """The results of the replays of a policy.

    Attributes:
        policy: The order of nodes.
        published: How much of all GPUs was published to be allocated, in percent.
        runs: The replays.
    """

    policy: Policy
    published: float
    runs: Sequence[Run]

    @property
    def mean(self) -> float:
        """How much of all GPUs was allocated on average, in percent."""
        return statistics.fmean(run.percent for run in self.runs)

    @property
    def holds(self) -> bool:
        """Whether the found figure is the published one."""
        return abs(self.mean - self.published) <= TOLERANCE


def measure(shuffles: int, jobs: int) -> list[Measured]:
    """Replay each policy with some orders of the pods, several replays at a time."""
    known = published()
    with ThreadPoolExecutor(jobs) as pool:
        return [
            Measured(
                policy,
                known[policy.published],
                list(pool.map(partial(replay, policy), range(1, shuffles + 1))),
            )
            for policy in POLICIES
        ]


def layout(found: Sequence[Measured]) -> Table:
    """Make a table of the found and the published figures."""
    table = Table(box=box.SIMPLE_HEAD, title="GPUs allocated, with pods for 130 % of them")
    for name in ("order of nodes", "published", "Muster", "deviation", "pods bound", "a replay"):
        table.add_column(name, justify="left" if name == "order of nodes" else "right")
    for one in found:
        table.add_row(
            one.policy.name,
            f"{one.published:.2f} %",
            f"{one.mean:.2f} %",
            f"{statistics.pstdev(run.percent for run in one.runs):.2f}",
            f"{statistics.fmean(run.bound for run in one.runs):,.0f}",
            f"{statistics.fmean(run.took_s for run in one.runs):.1f} s",
        )
    return table


@click.command()
@click.option("--shuffles", default=10, show_default=True, help="How many orders of the pods.")
@click.option("--jobs", default=2, show_default=True, help="How many replays at a time.")
def main(shuffles: int, jobs: int) -> None:
    """Replay each policy; the exit status is 1 if a figure does not agree."""
    found = measure(shuffles, jobs)
    Console().print(layout(found))
    if not all(one.holds for one in found):
        click.echo(f"A mean is more than {TOLERANCE} off the published one.", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
