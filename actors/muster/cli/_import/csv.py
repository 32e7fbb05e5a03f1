"""``muster import csv``: tables of jobs, with a mapping file."""

from __future__ import annotations

from functools import partial
from typing import get_args

import attrs
import click

from muster.cli._import.request import Request, import_options
from muster.cli._import.run import Kind, run, said
from muster.cli._options import FILE, example
from muster.importing.tables import Choice, Wide, read_mapping, read_table, read_table_of_nodes


@click.command(
    "csv", epilog=example("muster import csv jobs.csv.gz --mapping jobs.yaml -o feed.jsonl")
)
@import_options("--queues")
@click.option(
    "--mapping",
    type=FILE,
    metavar="FILE",
    required=True,
    help="The mapping file: what the columns mean, and which jobs go to which queues, in YAML.",
)
@click.option(
    "--where",
    multiple=True,
    metavar="COLUMN=PATTERN",
    help="Only rows in which the column matches; `*` and `?` are wildcards. May be repeated.",
)
@click.option(
    "--wide",
    type=click.Choice(get_args(Wide)),
    help="Jobs of several asks: all or nothing, one by one, or left out. [default: see the mapping]",
)
@click.option(
    "--priority/--no-priority", default=True, help="Whether the priority of the mapping counts."
)
def command(
    request: Request,
    *,
    mapping: str,
    where: tuple[str, ...],
    wide: Wide | None,
    priority: bool,
) -> None:
    """Make a feed of a table of jobs, such as CSV.

    The first line of the table names the columns. A mapping file says which of them is the instant
    of submission, the time that a job ran, and so on.

    Fields of its rules for queues: the columns that it names.

    Exit status: 0, or 2 if a file cannot be used.
    """
    patterns: dict[str, list[str]] = {}
    for text in where:
        column, equals, pattern = text.partition("=")
        if not equals:
            msg = f"--where: {text!r} is not COLUMN=PATTERN"
            raise click.UsageError(msg)
        patterns.setdefault(column, []).append(pattern)
    with said(request):
        mapped = read_mapping(mapping)
        if mapped.has_rules and request.queues is not None:
            msg = f"--queues: {mapping} has `queues` already: give them once"
            raise click.UsageError(msg)
        if mapped.has_rules:
            request = attrs.evolve(request, queues=mapping)
        read = partial(
            read_table, mapped=mapped, choice=Choice(wide, priority=priority, where=patterns)
        )
        kind = Kind(
            read,
            mapped.names,
            (mapped.queue,),
            partial(read_table_of_nodes, mapped=mapped),
            rest_of_mapping=mapped.fields if mapped.has_rules else (),
        )
        run(request, kind)
