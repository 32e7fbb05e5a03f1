"""A storm of two servers: ``python -m tests.pair --seconds 600 --seed 7``.

It stops when something is wrong, and keeps that directory.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click
import trio

from tests.pair.storm import run_storm

_LAST: int = 40


@click.command()
@click.option("--seconds", type=float, default=600.0, show_default=True, help="How long it blows.")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of what happens.")
def main(seconds: float, seed: int) -> None:
    """Let a storm come over two servers; the exit status is 1 if something was wrong."""
    folder = Path(tempfile.mkdtemp(prefix="muster-pair-"))
    outcome, journal = trio.run(run_storm, seed, seconds, folder)
    click.echo("\n".join([*outcome.skipped, *outcome.faults]), nl=bool(outcome.faults))
    if outcome.faults:
        click.echo("\n".join(["What has happened last:", *journal[-_LAST:]]))
        click.echo(f"the directory: {folder}")
    else:
        shutil.rmtree(folder)
    click.echo(f"seed {seed}, {outcome}")
    sys.exit(1 if outcome.faults else 0)


if __name__ == "__main__":
    main()
