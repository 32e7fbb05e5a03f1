"""From the dumps of a cluster to the jobs of a workload.

Pods stand before the nodes, gangs and queues in a dump, and may stand in several dumps. So all
objects are read before the first pod becomes part of the feed; meanwhile pods wait in a spool.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, final

from muster.feeds import FeedError
from muster.importing.kubernetes.dumps.objects import objects_of
from muster.importing.kubernetes.gangs import NO_WAIT
from muster.importing.kubernetes.gathering import (
    AGAIN,
    CLASS,
    GROUP,
    NODE,
    POD,
    Gathering,
)
from muster.importing.kubernetes.nodes import MOST_TAINTS, Nodes
from muster.importing.kubernetes.pods import LABEL, Pod
from muster.importing.kubernetes.queues import Queue, Settings, usable
from muster.importing.kubernetes.submitting import Submitting
from muster.importing.workload.queues import Queues
from muster.importing.workload.reading import Opener, opened
from muster.importing.workload.spool import Spool
from muster.importing.workload.workload import Workload

FIELDS: Final = (
    "namespace",
    "queue_path",
    "user",
    "app",
    "priority_class",
    "owner_kind",
    f"{LABEL}*",
)
"""The fields that a mapping file can look at."""

# KUBERNETES-10
QUEUES: Final = ("{queue_path}", "root.{namespace}")
"""The queues of pods where there is no mapping file."""

_ROOT: Final = "root"


def read_kubernetes(
    files: Sequence[str],
    workload: Workload,
    queues: Queues,
    *,
    opener: Opener = str,
    nodes_join: bool = False,
) -> None:
    """Put the pods of dumps into a workload, with nodes, gangs, queues and priority classes.

    Args:
        files: The names of the files, as ``kubectl get … -o yaml`` or ``-o json`` prints them.
        workload: Where the pods go. If it has nodes, those of the dumps are left out.
        queues: Chooses the queues.
        opener: Opens a file.
        nodes_join: Whether a node that was created after the first pod comes at that instant,
            and is not there from the start.

    Raises:
        FeedError: If a file cannot be read, or is neither YAML nor JSON.
    """
    workload.is_dated = True
    labels = tuple(name.removeprefix(LABEL) for name in queues.fields if name.startswith(LABEL))
    with Spool() as pods:
        gathering = Gathering(workload.account, pods, labels)
        for file in files:
            with opened(file, opener) as source:
                is_empty = True
                for found in objects_of(source):
                    is_empty = False
                    gathering.take(found)
            if is_empty:
                raise FeedError(source.name, "is empty: it has no Kubernetes object")
        pods.finish()
        _Importer(gathering, workload, queues).finish(pods, nodes_join=nodes_join)


@final
class _Importer:
    """Submits what was gathered."""

    def __init__(self, gathering: Gathering, workload: Workload, queues: Queues) -> None:
        self._gathering = gathering
        self._workload = workload
        self._account = workload.account
        self._queues = queues

    def finish(self, pods: Spool, *, nodes_join: bool) -> None:
        """Submit everything."""
        are_given = bool(self._workload.nodes)
        taints = () if are_given else self._taints()
        if not are_given:
            known = self._gathering.nodes.values()
            self._workload.nodes = [node.fields(taints) for node in known]
        submitting = Submitting(
            self._workload, self._queues, Nodes(self._workload.nodes, taints), self._gathering
        )
        for at_us, some in groupby(pods.in_order(), key=lambda entry: entry[0]):
            for pod in self._once([Pod.unpacked(record) for _, record in some]):
                submitting.submit(at_us, pod)
        self._add_classes()
        self._add_gangs()
        self._settle_nodes(are_given=are_given)
        if nodes_join and not are_given and submitting.first_us is not None:
            self._let_nodes_join(submitting.first_us)
        self._add_queues()

    # KUBERNETES-3
    def _once(self, pods: Sequence[Pod]) -> Iterable[Pod]:
        """Return pods of one instant, without earlier records of the same ones."""
        if len(pods) == 1:
            return pods
        kept: dict[tuple[str, str, str], Pod] = {}
        for pod in pods:
            key = (pod.namespace, pod.name, pod.uid)
            old = kept.get(key)
            if old is not None:
                worse = pod if pod.state < old.state else old
                self._account.leave_out(POD, AGAIN, worse.place, worse.full_name)
                if worse is pod:
                    continue
            kept[key] = pod
        return kept.values()

    def _taints(self) -> tuple[tuple[str, str, str], ...]:
        taints = sorted({taint for node in self._gathering.nodes.values() for taint in node.taints})
        for node in self._gathering.nodes.values():
            for taint in sorted(node.taints.intersection(taints[MOST_TAINTS:])):
                cause = f"more than {MOST_TAINTS} different taints: the others are not modelled"
                self._account.note(NODE, cause, node.place, f"{node.name}: {taint[0]}")
        return tuple(taints[:MOST_TAINTS])

    def _settle_nodes(self, *, are_given: bool) -> None:
        for node in self._gathering.nodes.values():
            if are_given:
                self._account.leave_out(NODE, "--nodes says which there are", node.place, node.name)
            else:
                self._account.taken[NODE] += 1

    # KUBERNETES-14
    def _let_nodes_join(self, first_us: int) -> None:
        """Let nodes that were created after the first pod come later; the first one is there."""
        known = self._gathering.nodes
        start_us = max(first_us, min((node.created_us or 0 for node in known.values()), default=0))
        there = {node.name: node for node in self._workload.nodes}
        for name, node in known.items():
            if node.created_us is not None and node.created_us > start_us:
                self._workload.event(node.created_us, there.pop(name).event(), before=True)
        self._workload.nodes = list(there.values())

    def _add_classes(self) -> None:
        for made, _ in self._gathering.classes.values():
            self._account.taken[CLASS] += 1
            policy = "PreemptLowerPriority" if made.preempts else "Never"
            self._workload.head.append(
                {
                    "op": "add_priority_class",
                    "name": made.name,
                    "value": made.value,
                    "preemption_policy": policy,
                }
            )

    # KUBERNETES-13
    def _add_gangs(self) -> None:
        gangs, groups = self._gathering.gangs, self._gathering.groups
        for gang in gangs.defined():
            self._workload.event(gang.at_us, gang.event(), before=True)
            least = gang.fields.min_member or 0
            if least < gang.wanted:
                place, _ = groups.get(gang.name, (gang.name, ""))
                cause = "needs fewer members in the feed: only so many pods came to its start"
                example = f"{gang.name}: {least} of {gang.wanted}"
                self._account.change("gang", cause, place, example)
        for name, (place, _) in groups.items():
            if gangs.has_members(name):
                self._account.taken[GROUP] += 1
            elif gangs.least(name) == 1:
                self._account.leave_out(GROUP, "needs one member, as any pod does", place, name)
            else:
                self._account.leave_out(GROUP, "no pod of it is taken", place, name)

    # KUBERNETES-17
    def _add_queues(self) -> None:
        tree = self._gathering.tree
        wanted: Settings = {}
        known: dict[str, Queue] = {}
        for queue in tree.queues:
            path = tree.path_of(queue.name)
            if self._is_below_pods(path):
                cause = "a queue above it has pods of its own"
                self._account.leave_out(queue.what, cause, queue.place, path)
                continue
            self._account.taken[queue.what] += 1
            if queue.weight is not None:
                example = f"{path}: {queue.weight}"
                self._account.note(queue.what, "weights are not modelled", queue.place, example)
            if path not in ("", _ROOT):
                wanted[path] = queue.settings
                known[path] = queue
        kept, refused = usable(self._workload.queues, wanted)
        for path, refusal in refused.items():
            cause = "a configuration that says the same would be refused: it has no limits"
            queue = known[path]
            self._account.note(queue.what, cause, queue.place, f"{path}: {refusal}")
        self._workload.settings = {**kept, **self._of_root()}

    def _is_below_pods(self, path: str) -> bool:
        names = path.split(".")
        above = {".".join(names[:number]) for number in range(1, len(names))}
        return not above.isdisjoint(self._workload.queues)

    def _of_root(self) -> Settings:
        waits = [gang.fields.wait_us for gang in self._gathering.gangs.defined()]
        return {_ROOT: {"properties": {"gang.wait.time": NO_WAIT}}} if None in waits else {}
