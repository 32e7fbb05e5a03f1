"""``muster import swf``: the Standard Workload Format."""

from __future__ import annotations

from typing import Final

import click

from muster.cli._import.request import Request, import_options
from muster.cli._import.run import Kind, run
from muster.cli._options import example
from muster.importing.swf import FIELDS, QUEUES, read_swf

_KIND: Final = Kind(read_swf, FIELDS, QUEUES)


@click.command("swf", epilog=example("muster import swf trace.swf.gz -o feed.jsonl"))
@import_options()
def command(request: Request) -> None:
    """Make a feed of a log in the Standard Workload Format.

    The Parallel Workloads Archive has such logs of many machines. The header tells the nodes, or
    --nodes does. A job that needs several nodes becomes a gang.

    Fields of the mapping file: user, group, queue_name, queue_number, partition, executable.

    Exit status: 0, or 2 if a file cannot be used.
    """
    run(request, _KIND)
