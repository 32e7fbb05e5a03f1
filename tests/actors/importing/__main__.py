"""Import dumps with mistakes: ``python -m tests.actors.importing --kind slurm --count 100000``."""

from __future__ import annotations

import sys

import click

from tests.actors.importing.mutated import KINDS, attack


@click.command()
@click.option("--kind", type=click.Choice(KINDS), required=True, help="The kind of dumps.")
@click.option("--count", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="What determines them.")
def main(kind: str, count: int, seed: int) -> None:
    """Import dumps with mistakes, and check that each import stands them."""
    outcomes, faults = attack(kind, count, seed)
    for outcome, number in sorted(outcomes.items()):
        click.echo(f"{number:9,} × {outcome}")
    click.echo(f"{sum(outcomes.values()) + len(faults):9,} dumps, {len(faults)} faults")
    for fault in faults[:20]:
        click.echo(f"\n{fault}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
