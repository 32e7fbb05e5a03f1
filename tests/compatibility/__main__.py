"""Compare the present state with the promises, or write the promises::

    python -m tests.compatibility
    python -m tests.compatibility --write tests/feeds/gangs/new.yaml

``docs/compatibility.md`` says what is promised, and ``CONTRIBUTING.md`` when the files may change.
"""

from __future__ import annotations

import sys

import click

from muster.store._rows import FORMAT
from tests.compatibility.decisions import FORMATS
from tests.compatibility.promised import HERE, compare, write
from tests.compatibility.store import make


@click.command()
@click.option("--write", "writes", is_flag=True, help="Write what is new if nothing is broken.")
@click.option("--breaks", is_flag=True, help="With --write: also write what is broken.")
@click.argument("feeds", nargs=-1)
def main(feeds: tuple[str, ...], writes: bool, breaks: bool) -> None:
    """Compare all that is promised; FEEDS are feeds whose decisions are to be promised, too."""
    if writes and not (FORMATS / f"{FORMAT}.db.gz").exists():
        make()
    wrong, new, texts = compare(feeds)
    for line in new:
        click.echo(f"new     {line}")
    for line in wrong:
        click.echo(f"BROKEN  {line}")
    is_written = writes and write(HERE, wrong, texts, breaks=breaks)
    click.echo(f"{len(wrong):,} promises are broken, and {len(new):,} facts are new")
    sys.exit(1 if wrong and not is_written else 0)


if __name__ == "__main__":
    main()
