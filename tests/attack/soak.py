"""Let clients that do not behave loose on services that are killed: ``python -m tests.attack.soak``.

It stops at the first fault, keeps that directory, and says how to do the same again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import click
import trio

from tests.attack.clients import Plan, Run


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0), default=10, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(minutes: float, seed: int) -> None:
    """Run services with clients that do not behave, one after the other."""
    until = time.monotonic() + 60 * minutes
    services = kills = answers = decisions = 0
    while time.monotonic() < until:
        plan = Plan(seed, answers=1_500, kills=8, submitters=2 + seed % 5, followers=3 + seed % 9)
        folder = Path(tempfile.mkdtemp(prefix="muster-soak-"))
        run = Run(folder, plan)
        trio.run(run.run)
        services, kills, seed = services + 1, kills + plan.kills, seed + 1
        answers += len(run.asks)
        decisions += sum(map(len, run.seen))
        if run.faults:
            told = "\n".join(run.faults[:10])
            click.echo(f"{plan}\n{told}\nthe directory: {folder}")
            sys.exit(1)
        shutil.rmtree(folder)
    click.echo(
        f"{services} services, {kills} kills, {answers:,} answers, "
        f"{decisions:,} decisions in streams: no fault"
    )


if __name__ == "__main__":
    main()
