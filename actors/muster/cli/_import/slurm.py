"""``muster import slurm``: what sacct prints."""

from __future__ import annotations

from functools import partial
from zoneinfo import ZoneInfo

import click

from muster.cli._import.request import Request, import_options
from muster.cli._import.run import Kind, run
from muster.cli._options import FILE, example
from muster.importing.slurm import (
    FIELDS,
    QUEUES,
    Source,
    Sources,
    conf_of,
    nodes_of_slurm,
    read_slurm,
)


def _zone(context: click.Context, parameter: click.Parameter, value: str) -> ZoneInfo:
    del context, parameter
    try:
        return ZoneInfo(value)
    except (KeyError, OSError, ValueError):  # no such name; a folder; a path that leads elsewhere
        msg = f"{value!r} is no time zone, such as Europe/Berlin or UTC"
        raise click.BadParameter(msg) from None


@click.command(
    "slurm", epilog=example("muster import slurm sacct.txt --nodes slurm.conf -o feed.jsonl")
)
@import_options()
@click.option(
    "--accounts",
    type=FILE,
    metavar="FILE",
    help="The tree of accounts, which become queues: what `sacctmgr --parsable2 show "
    "associations tree` prints, or a file of `sacctmgr dump`.",
)
@click.option(
    "--slurm-conf",
    "conf",
    type=FILE,
    metavar="FILE",
    help="How Slurm schedules: a slurm.conf, or what `scontrol show config` and `scontrol show "
    "partition` print. It says the order of the queue root, unless --config is given, and the "
    "time limits of jobs that have none of their own. Default: the slurm.conf of --nodes.",
)
@click.option(
    "--priority",
    type=click.Choice([source.value for source in Source]),
    help="Where the priorities of asks come from: nowhere, their arrival (the higher PriorityTier, "
    "then who came first), the column Priority, or the QOS. [default: arrival, if --slurm-conf says "
    "how Slurm schedules]",
)
@click.option(
    "--qos",
    type=FILE,
    metavar="FILE",
    help="The priorities of QOSes, for --priority qos: what `sacctmgr --parsable2 show qos` "
    "prints.",
)
@click.option(
    "--timezone",
    "zone",
    default="UTC",
    show_default=True,
    metavar="NAME",
    callback=_zone,
    help="The time zone of times without an offset.",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Replay the feed, compare the starts of jobs with those that sacct shows, and say how far "
    "off they are. With --config it judges that configuration.",
)
def command(
    request: Request,
    *,
    accounts: str | None,
    conf: str | None,
    priority: str | None,
    qos: str | None,
    zone: ZoneInfo,
) -> None:
    """Make a feed of the jobs that sacct prints.

    FILE is the output of `sacct --parsable2` with any columns in any order, or of `sacct --json`.
    It needs at least JobID, Submit, Start, ElapsedRaw, State, ReqTRES and NNodes; with
    --duplicates each run of a requeued job is there. --nodes may also name a slurm.conf, or a file
    with what `scontrol show node` prints: then jobs stay in their partitions, and on nodes with
    the features that they asked for.

    A job of several nodes becomes a gang with a member for each, an array an application with an
    ask for each task. Steps are parts of their jobs.

    Fields of the mapping file: account, account_path (with the accounts above it, see --accounts),
    partition, scope (the partitions that share nodes; empty if all do), qos, user, group, name,
    reservation, wckey, cluster.

    Exit status: 0, or 2 if a file cannot be used.
    """
    source = None if priority is None else Source(priority)
    if (source is Source.QOS) is not (qos is not None):
        msg = "--priority qos and --qos FILE go together"
        raise click.UsageError(msg)
    if conf is None and request.nodes is not None:
        conf = conf_of(request.nodes)
    sources = Sources(zone=zone, priority=source, qos=qos, accounts=accounts, conf=conf)
    run(request, Kind(partial(read_slurm, sources=sources), FIELDS, QUEUES, nodes_of_slurm))
