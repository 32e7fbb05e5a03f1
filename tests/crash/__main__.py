"""Kill processes with a store, and check what is kept: ``python -m tests.crash --kills 200``.

It stops at the first fault, keeps that directory, and says how to run its chain again. It has one
thread, since it forks: a life costs milliseconds so, and not the start of an interpreter.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.crash.chain import Tally, run_chain, warm_up
from tests.crash.plans import plan_of

_MEMORY = Path("/dev/shm")


def _room() -> Path | None:
    """Return a folder in memory, or None for the usual one."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None


@click.command()
@click.option("--kills", type=int, help="End after so many kills.")
@click.option("--minutes", type=float, help="End after so many minutes.")
@click.option("--seed", type=int, default=1, show_default=True, help="The first seed.")
@click.option("--stride", type=int, default=1, show_default=True, help="The step between seeds.")
@click.option("--chain", type=int, help="Run the chain of this seed alone, again and again.")
def main(
    kills: int | None, minutes: float | None, seed: int, stride: int, chain: int | None
) -> None:
    """Kill processes with a store; the exit status is 1 if something was found."""
    with tempfile.TemporaryDirectory(prefix="muster-crash-", dir=_room()) as warm:
        warm_up(Path(warm) / "state")
    tally, number = Tally(), seed if chain is None else chain
    until = None if minutes is None else time.monotonic() + minutes * 60
    if chain is not None:
        click.echo(str(plan_of(chain)))
    while (kills is None or tally.kills < kills) and (until is None or time.monotonic() < until):
        directory = Path(tempfile.mkdtemp(prefix="muster-crash-", dir=_room()))
        faults = run_chain(number, directory / "state", tally)
        if faults:
            click.echo("\n".join([str(plan_of(number)), "", *faults, ""]))
            click.echo(f"{tally}\nthe directory: {directory}")
            click.echo(f"again: python -m tests.crash --chain {number} --kills 500")
            sys.exit(1)
        shutil.rmtree(directory)
        number += stride if chain is None else 0
        if kills is None and minutes is None:
            break
    click.echo(f"seeds from {seed} on: {tally}")


if __name__ == "__main__":
    main()
