"""Kill parts of a scheduler on Ray, and check the work: ``python -m tests.engines.crash``.

It asks for gangs and single asks, with evictions, on three raylets. Meanwhile it kills raylets, or
the agent, the service, or the head, which come back. Every ask has to end once as completed, no two
runs of one ask may overlap by their own clock, no gang may run in part, no process may be left.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from tests.engines import cluster as clusters
from tests.engines.crash.rounds import KINDS, Options, Target, run


@click.command()
@click.option(
    "--kill", "what", type=click.Choice(list(KINDS)), multiple=True, default=("raylet",),
    show_default=True, help="What is killed; again for one of several each time.",
)  # fmt: skip
@click.option("--tasks", type=int, default=1000, show_default=True, help="How many asks.")
@click.option("--minutes", type=float, default=5, show_default=True, help="Over how long.")
@click.option("--every", "every_s", type=float, help="The seconds between kills.")
@click.option("--most", type=int, help="How many kills at most. [default: until all has ended]")
@click.option(
    "--patience",
    type=float,
    default=20,
    show_default=True,
    help="The minutes that it may take beyond.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The seed.")
@click.option("--detached/--no-detached", default=None, help="Default: if the service is killed.")
def main(  # noqa: PLR0917 - click passes every option by its name
    what: tuple[Target, ...],
    tasks: int,
    minutes: float,
    every_s: float | None,
    most: int | None,
    patience: float,
    seed: int,
    detached: bool | None,
) -> None:
    """Kill what runs the work; the exit status is 1 if something is wrong."""
    reason = clusters.why_not()
    if reason is not None:
        raise click.ClickException(reason)
    outlives = "service" in what if detached is None else detached
    options = Options(
        what,
        tasks,
        minutes,
        seed,
        detached=outlives,
        every_s=every_s,
        most=most,
        patience_s=60 * patience,
    )
    folder = Path(tempfile.mkdtemp(prefix="muster-crash-ray-"))
    outcome = run(options, folder, click.echo)
    for fault in outcome.faults:
        click.echo(fault)
    click.echo(outcome.figures)
    if outcome.faults:
        click.echo(f"{len(outcome.faults)} faults; the files are in {folder}")
        sys.exit(1)
    click.echo("no fault")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
