"""``muster import``: make a feed of the workload of another system.

The group has one command for each format: tables (``csv``), what ``kubectl get`` prints
(``kubernetes``), what sacct prints (``slurm``), and the Standard Workload Format (``swf``).
"""

from __future__ import annotations

from functools import partial
from typing import Final, final, get_args
from zoneinfo import ZoneInfo

import attrs
import click
from typing_extensions import override

from muster.cli._import_run import DumpFormat, ImportRequest, import_options, run
from muster.cli._options import FILE, example
from muster.importing.kubernetes import (
    FIELDS as KUBERNETES_FIELDS,
    QUEUES as KUBERNETES_QUEUES,
    read_kubernetes,
)
from muster.importing.slurm import (
    FIELDS as SLURM_FIELDS,
    QUEUES as SLURM_QUEUES,
    ClusterFiles,
    PrioritySource,
    conf_of,
    nodes_of_slurm,
    read_slurm,
)
from muster.importing.swf import FIELDS as SWF_FIELDS, QUEUES as SWF_QUEUES, read_swf
from muster.importing.tables import (
    ImportOptions,
    Wide,
    read_mapping,
    read_table,
    read_table_of_nodes,
)

_FORMATS: Final = ("csv", "kubernetes", "slurm", "swf")


@final
class ImportGroup(click.Group):
    """The kinds of dumps."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_FORMATS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _FORMATS:
            return None
        command: click.Command = {
            "csv": csv_command,
            "kubernetes": kubernetes_command,
            "slurm": slurm_command,
            "swf": swf_command,
        }[cmd_name]
        return command


@click.command(cls=ImportGroup, epilog=example("muster import swf trace.swf.gz -o feed.jsonl"))
def command() -> None:
    """Make a feed of the jobs of another system.

    The feed begins with a configuration and the nodes; then the jobs come as they came there. What
    cannot be in the feed is counted, with the reason.
    """


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
def csv_command(
    request: ImportRequest,
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
    with request.exit_on_error():
        mapped = read_mapping(mapping)
        if mapped.has_rules and request.queues is not None:
            msg = f"--queues: {mapping} has `queues` already: give them once"
            raise click.UsageError(msg)
        if mapped.has_rules:
            request = attrs.evolve(request, queues=mapping)
        read = partial(
            read_table, mapped=mapped, choice=ImportOptions(wide, priority=priority, where=patterns)
        )
        kind = DumpFormat(
            read,
            mapped.names,
            (mapped.queue,),
            partial(read_table_of_nodes, mapped=mapped),
            rest_of_mapping=mapped.fields if mapped.has_rules else (),
        )
        run(request, kind)


@click.command(
    "kubernetes",
    epilog=example("muster import kubernetes cluster.json --mapping mapping.yaml -o feed.jsonl"),
)
@click.option(
    "--nodes-join",
    is_flag=True,
    help="Let a node that is younger than the first pod come when it was created. "
    "[default: all nodes are there from the start]",
)
@import_options()
def kubernetes_command(request: ImportRequest, *, nodes_join: bool) -> None:
    """Make a feed of the pods of a Kubernetes cluster.

    Reads what kubectl get pods,nodes -A prints with -o json or -o yaml, and PodGroups, queues of
    Volcano, ElasticQuotas and PriorityClasses, if they are there, too. Marks of YuniKorn, Koordinator and
    Volcano say the queue, the application and the gang of a pod. Pods that have not ended hold
    their room to the end. With --since, pods that ran then come at that time.

    Fields of the mapping file: namespace, queue_path, user, app, priority_class, owner_kind, label:NAME.

    Exit status: 0, or 2 if a file cannot be used.
    """
    read = partial(read_kubernetes, nodes_join=nodes_join)
    run(request, DumpFormat(read, KUBERNETES_FIELDS, KUBERNETES_QUEUES))


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
    "--sshare",
    "shares",
    type=FILE,
    metavar="FILE",
    help="The shares of accounts, which become weights of queues, and what accounts and users have "
    "used, with which the feed begins: what `sshare -a -l -P` prints. Its tree of accounts counts "
    "unless --accounts is given.",
)
@click.option(
    "--usage/--no-usage",
    default=True,
    help="Whether the feed begins with what accounts and users have used, by --sshare. Without it, "
    "--sshare brings shares alone: if it was printed after the first jobs came, their usage is in "
    "it already.",
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
    type=click.Choice([source.value for source in PrioritySource]),
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
def slurm_command(
    request: ImportRequest,
    *,
    accounts: str | None,
    shares: str | None,
    usage: bool,
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
    source = None if priority is None else PrioritySource(priority)
    if (source is PrioritySource.QOS) is not (qos is not None):
        msg = "--priority qos and --qos FILE go together"
        raise click.UsageError(msg)
    if shares is not None and source is PrioritySource.ARRIVAL:
        msg = (
            "--sshare with --priority arrival: who came first would go first, and past shares would "
            "decide nothing: give one of them"
        )
        raise click.UsageError(msg)
    if shares is None and not usage:
        msg = "--no-usage needs --sshare, whose usage it leaves out"
        raise click.UsageError(msg)
    if conf is None and request.nodes is not None:
        conf = conf_of(request.nodes)
    sources = ClusterFiles(
        zone=zone,
        priority=source,
        qos=qos,
        accounts=accounts,
        shares=shares,
        usage=usage,
        conf=conf,
    )
    run(
        request,
        DumpFormat(
            partial(read_slurm, sources=sources), SLURM_FIELDS, SLURM_QUEUES, nodes_of_slurm
        ),
    )


_SWF: Final = DumpFormat(read_swf, SWF_FIELDS, SWF_QUEUES)


@click.command("swf", epilog=example("muster import swf trace.swf.gz -o feed.jsonl"))
@import_options()
def swf_command(request: ImportRequest) -> None:
    """Make a feed of a log in the Standard Workload Format.

    The Parallel Workloads Archive has such logs of many machines. The header tells the nodes, or
    --nodes does. A job that needs several nodes becomes a gang.

    Fields of the mapping file: user, group, queue_name, queue_number, partition, executable.

    Exit status: 0, or 2 if a file cannot be used.
    """
    run(request, _SWF)
