"""``muster import kubernetes``: what ``kubectl get`` prints of a cluster."""

from __future__ import annotations

from functools import partial

import click

from muster.cli._import.request import Request, import_options
from muster.cli._import.run import Kind, run
from muster.cli._options import example
from muster.importing.kubernetes import FIELDS, QUEUES, read_kubernetes


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
def command(request: Request, *, nodes_join: bool) -> None:
    """Make a feed of the pods of a Kubernetes cluster.

    Reads what kubectl get pods,nodes -A prints with -o json or -o yaml, and PodGroups, queues of
    Volcano, ElasticQuotas and PriorityClasses, if they are there, too. Marks of YuniKorn, Koordinator and
    Volcano say the queue, the application and the gang of a pod. Pods that have not ended hold
    their room to the end. With --since, pods that ran then come at that time.

    Fields of the mapping file: namespace, queue_path, user, app, priority_class, owner_kind, label:NAME.

    Exit status: 0, or 2 if a file cannot be used.
    """
    read = partial(read_kubernetes, nodes_join=nodes_join)
    run(request, Kind(read, FIELDS, QUEUES))
