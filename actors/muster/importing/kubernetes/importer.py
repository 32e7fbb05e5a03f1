"""From the dumps of a cluster to the jobs of a workload.

Pods come before the nodes, gangs and queues in a dump, and may be in several dumps. So all
objects are read before the first pod becomes part of the feed; meanwhile pods wait in a spool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, cast, final

from muster.feeds import FeedError
from muster.feeds._kinds import write_amounts
from muster.importing.dumps import Opener, Spool, open_dump
from muster.importing.kubernetes.dumps import objects_of
from muster.importing.kubernetes.inventory import (
    AGAIN,
    CLASS,
    GROUP,
    NO_WAIT,
    NODE,
    POD,
    DumpedQueue,
    Inventory,
    Settings,
    usable,
)
from muster.importing.kubernetes.nodes import PODS, FeedNodes
from muster.importing.kubernetes.pods import LABEL, Pod, PodState
from muster.importing.nodes import TOO_LARGE
from muster.importing.queues import Queues, name_of, queue_path_of
from muster.importing.workload import Amounts, AskGroup, Job, Workload
from muster_core.config.properties import QUEUE_WEIGHT, SHARE_POLICY
from muster_core.values.resources import VCORE

_BUILT_IN: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""PRIORITY-6."""

_LEAST: Final[Amounts] = {VCORE: "1m"}
"""The request of a pod that asks for nothing: an ask must not be empty."""


@final
class PodSubmission:
    """Submits pods in the order in which they were created.

    Args:
        workload: Where they go.
        queues: Chooses their queues.
        nodes: The nodes of the feed.
        gathering: The gangs, queues and priority classes of the dumps.

    Attributes:
        first_us: When the first one came, in microseconds since 1970, or None.
    """

    def __init__(
        self, workload: Workload, queues: Queues, nodes: FeedNodes, gathering: Inventory
    ) -> None:
        self._workload = workload
        self._account = workload.account
        self._queues = queues
        self._nodes = nodes
        self._gangs = gathering.gangs
        self._tree = gathering.tree
        self._groups = gathering.groups
        self._classes = _BUILT_IN | {
            name: made.value for name, (made, _) in gathering.classes.items()
        }
        self._app_queues: dict[str, str] = {}
        self._asks: dict[tuple[str, str], int] = {}
        self.first_us: int | None = None

    def submit(self, created_us: int, pod: Pod) -> None:
        """Submit a pod, or count why it is left out.

        Args:
            created_us: When it was created, in microseconds since 1970.
            pod: The pod.
        """
        since_us = self._workload.since_us
        at_us = created_us
        if since_us is not None and at_us < since_us and _runs_at(pod, since_us):
            at_us = since_us
        fields = self._fields(pod)
        cause = self._why_not(pod, at_us)
        queue = None if cause else self._queues.of(fields)
        if queue is None:
            text = cause or "no queue for it: see --mapping"
            self._account.leave_out(POD, text, pod.place, pod.full_name)
            return
        self._account.taken[POD] += 1
        if self.first_us is None:
            self.first_us = at_us
        if at_us != created_us:
            self._change(pod, "it ran already at --since: it comes then, for the rest of its time")
        for note in pod.notes:
            self._note(pod, note)
        known = self._app_queues.setdefault(pod.app, queue)
        if known != queue:
            self._change(
                pod, "its application is in another queue, where its first pod came", known
            )
        self._workload.submit(
            Job(
                at_us=at_us,
                app=pod.app,
                queue=known,
                parts=[self._part(pod, at_us)],
                user=pod.user,
                groups=pod.groups,
                gang=self._gang(pod, at_us, created_us),
            )
        )

    def _note(self, pod: Pod, text: str, example: str = "") -> None:
        self._account.note(POD, text, pod.place, _detail(pod, example))

    def _change(self, pod: Pod, text: str, example: str = "") -> None:
        self._account.change(POD, text, pod.place, _detail(pod, example))

    # KUBERNETES-6, KUBERNETES-7, KUBERNETES-8
    def _why_not(self, pod: Pod, at_us: int) -> str | None:
        if pod.is_placeholder:
            return "a placeholder of YuniKorn, which stands for the pods of a gang"
        if pod.state == PodState.FINISHED and pod.started_us is None:
            return "it ended before it was bound to a node"
        if pod.state == PodState.FINISHED and pod.finished_us is None:
            return "it is not known when it ended"
        if pod.state == PodState.PENDING and pod.is_deleted:
            return "it was deleted before it was bound to a node"
        if pod.is_gated:
            return "it waits at a scheduling gate"
        if pod.is_of_node and (pod.node is None or not self._nodes.match(pod)):
            return "it belongs to a node that is not in the feed, or accepts no pods"
        if not self._workload.is_wanted(at_us):
            return "outside --since and --until"
        return None

    # KUBERNETES-10
    def _fields(self, pod: Pod) -> dict[str, str]:
        path = queue_path_of(pod.path)
        if not path:
            _, grouped = self._groups.get(pod.gang or "", ("", ""))
            named = pod.queue or grouped
            path = self._tree.path_of(named) if named else ""
        return {
            "namespace": pod.namespace,
            "queue_path": path.removeprefix("root."),
            "user": pod.user,
            "app": pod.app,
            "priority_class": pod.priority_class,
            "owner_kind": pod.owner_kind,
            **{f"{LABEL}{name}": text for name, text in pod.labels.items()},
        }

    def _part(self, pod: Pod, at_us: int) -> AskGroup:
        name = name_of(pod.name)
        times = self._asks[pod.app, name] = self._asks.get((pod.app, name), 0) + 1
        priority, priority_class = self._priority(pod)
        if not self._nodes.match(pod):
            self._note(pod, "no node of the feed is one of those that it may run on")
        return AskGroup(
            ask=name if times == 1 else f"{name}_{times}",
            resources=self._resources(pod),
            selector=pod.selector,
            node=pod.node,
            tolerations=pod.tolerations,
            affinity=pod.affinity,
            run_us=self._run_us(pod, at_us),
            priority=priority,
            priority_class=priority_class,
            estimate_us=pod.estimate_us,
        )

    # KUBERNETES-9
    def _resources(self, pod: Pod) -> Amounts:
        written = cast("Amounts", write_amounts(pod.requests))
        largest = self._nodes.largest
        for kind, amount in pod.requests.items():
            if amount > largest.get(kind, 0) and largest:
                self._note(pod, TOO_LARGE, f"{kind} {written[kind]}")
                break
        if self._nodes.count_pods:
            return {**written, PODS: 1}
        if written:
            return written
        self._change(pod, "it asks for nothing: it has 1m of vcore")
        return _LEAST

    # KUBERNETES-5
    def _run_us(self, pod: Pod, at_us: int) -> int | None:
        if pod.state == PodState.PENDING:
            self._change(pod, "it was not bound yet: once it is bound it holds its room to the end")
        elif pod.state == PodState.RUNNING:
            self._change(pod, "it had not ended: it holds its room to the end")
        if pod.finished_us is None or pod.started_us is None:
            return None
        return max(pod.finished_us - max(pod.started_us, min(at_us, pod.finished_us)), 1)

    # KUBERNETES-18
    def _priority(self, pod: Pod) -> tuple[int, str | None]:
        """Return the number, or the class if it is known and has the same value."""
        value = self._classes.get(pod.priority_class)
        if value is not None and pod.priority in (None, value):
            return 0, pod.priority_class
        if pod.priority is None and pod.priority_class:
            self._note(pod, "its priority class is not in the dump: it has priority 0")
        return pod.priority or 0, None

    # KUBERNETES-11
    def _gang(self, pod: Pod, at_us: int, created_us: int) -> str | None:
        if pod.gang is None:
            return None
        least = self._gangs.least(pod.gang)
        if least > 1:
            self._gangs.add_member(pod.gang, at_us, created_us, pod.started_us)
            return pod.gang
        if not least:
            self._note(pod, "nobody says how many members its gang needs: it is in no gang")
        return None


def _runs_at(pod: Pod, at_us: int) -> bool:
    """Return whether a pod held its node at an instant."""
    if pod.started_us is None or pod.started_us > at_us:
        return False
    return pod.state == PodState.RUNNING or (
        pod.finished_us is not None and pod.finished_us > at_us
    )


def _detail(pod: Pod, example: str) -> str:
    return f"{pod.full_name}: {example}" if example else pod.full_name


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
        gathering = Inventory(workload.account, pods, labels)
        for file in files:
            with open_dump(file, opener) as source:
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
    """Submits the gathered objects."""

    def __init__(self, gathering: Inventory, workload: Workload, queues: Queues) -> None:
        self._gathering = gathering
        self._workload = workload
        self._account = workload.account
        self._queues = queues

    def finish(self, pods: Spool, *, nodes_join: bool) -> None:
        """Submit everything."""
        are_given = bool(self._workload.nodes)
        if not are_given:
            self._workload.nodes = [node.fields for node in self._gathering.nodes.values()]
        submitting = PodSubmission(
            self._workload, self._queues, FeedNodes(self._workload.nodes), self._gathering
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

    def _settle_nodes(self, *, are_given: bool) -> None:
        for name, node in self._gathering.nodes.items():
            if are_given:
                self._account.leave_out(NODE, "--nodes says which there are", node.place, name)
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
            if least < gang.required:
                place, _ = groups.get(gang.name, (gang.name, ""))
                cause = "needs fewer members in the feed: only so many pods came to its start"
                example = f"{gang.name}: {least} of {gang.required}"
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
        known: dict[str, DumpedQueue] = {}
        for queue in tree.queues:
            path = tree.path_of(queue.name)
            if self._is_below_pods(path):
                cause = "a queue above it has pods of its own"
                self._account.leave_out(queue.what, cause, queue.place, path)
                continue
            self._account.taken[queue.what] += 1
            if path not in ("", _ROOT):
                wanted[path] = queue.settings
                known[path] = queue
        kept, refused = usable(self._workload.queues, wanted)
        for path, refusal in refused.items():
            cause = "a configuration that says the same would be refused: it has no limits"
            queue = known[path]
            self._account.note(queue.what, cause, queue.place, f"{path}: {refusal}")
        self._workload.settings = {**kept, **self._of_root()}
        self._share_by_weight(known)

    def _share_by_weight(self, queues: Mapping[str, DumpedQueue]) -> None:
        """Let the root share by weight if its queues have weights, as the plugin proportion does.

        If queues have parents, or say what they deserve, they are those of the plugin capacity.
        """
        weighted = {path: queue for path, queue in queues.items() if queue.weight != 1}
        if any(queue.has_deserved or path.count(".") > 1 for path, queue in queues.items()):
            for path, queue in weighted.items():
                cause = (
                    "weights are not modelled where queues have parents or say what they deserve"
                )
                self._account.note(queue.what, cause, queue.place, f"{path}: {queue.weight}")
            return
        for path, queue in weighted.items():
            self._set_property(path, QUEUE_WEIGHT.name, str(queue.weight))
            self._set_property(_ROOT, SHARE_POLICY.name, "weight")

    def _set_property(self, path: str, name: str, text: str) -> None:
        own = dict(self._workload.settings.get(path, {}))
        properties = cast("dict[str, object]", own.get("properties", {}))
        own["properties"] = {**properties, name: text}
        self._workload.settings = {**self._workload.settings, path: own}

    def _is_below_pods(self, path: str) -> bool:
        names = path.split(".")
        above = {".".join(names[:number]) for number in range(1, len(names))}
        return not above.isdisjoint(self._workload.queues)

    def _of_root(self) -> Settings:
        waits = [gang.fields.wait_us for gang in self._gathering.gangs.defined()]
        return {_ROOT: {"properties": {"gang.wait.time": NO_WAIT}}} if None in waits else {}
