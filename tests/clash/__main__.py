"""Let clients clash with a server: ``python -m tests.clash --minutes 10 --seed 7``.

It stops at the first fault, keeps that directory, and says how to run its round again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.clash.rounds import run_round
from tests.clash.world import Tally


@click.command()
@click.option("--minutes", type=float, default=10.0, show_default=True, help="For how long.")
@click.option("--seed", type=int, default=1, show_default=True, help="The first seed.")
@click.option(
    "--round", "round_s", type=float, default=60.0, show_default=True, help="Seconds of a round."
)
def main(minutes: float, seed: int, round_s: float) -> None:
    """Let clients clash with a server; the exit status is 1 if something was found."""
    began = time.monotonic()
    until = began + minutes * 60
    tally, faults, first = Tally(), list[str](), seed
    while not faults and (tally.rounds == 0 or time.monotonic() < until):
        folder = Path(tempfile.mkdtemp(prefix="muster-clash-"))
        long_s = max(1.0, min(round_s, until - time.monotonic()))
        faults = run_round(seed, folder, long_s, tally)
        if faults:
            again = f"again: python -m tests.clash --seed {seed} --minutes {long_s / 60:.2f}"
            click.echo("\n".join([*faults, "", f"the directory: {folder}", again]))
        else:
            shutil.rmtree(folder)
        seed += 1
    click.echo(f"seeds from {first} on, {(time.monotonic() - began) / 60:.1f} minutes: {tally}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
