"""Pods as jobs of a workload: which are taken, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast, final

from muster.feeds._written.amounts import amounts
from muster.importing.kubernetes.gathering import POD, Gathering
from muster.importing.kubernetes.nodes import PODS, Nodes
from muster.importing.kubernetes.pods import LABEL, Pod
from muster.importing.kubernetes.times import State
from muster.importing.workload.jobs import Amounts, Job, Part
from muster.importing.workload.nodes import TOO_LARGE
from muster.importing.workload.queues import Queues
from muster.importing.workload.texts import name_of, queue_path_of
from muster.importing.workload.workload import Workload
from muster_core.decisions import MICROSECONDS
from muster_core.values.quantities import VCORE

_BUILT_IN: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""PRIORITY-6."""

_LEAST: Final[Amounts] = {VCORE: "1m"}
"""What a pod asks for that asks for nothing: an ask wants something."""


@final
class Submitting:
    """Submits pods in the order in which they were created.

    Args:
        workload: Where they go.
        queues: Chooses their queues.
        nodes: The nodes of the feed.
        gathering: What the dumps say of gangs, queues and priority classes.

    Attributes:
        first_us: When the first one came, in microseconds since 1970, or None.
    """

    def __init__(
        self, workload: Workload, queues: Queues, nodes: Nodes, gathering: Gathering
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
        if pod.state == State.FINISHED and pod.started_us is None:
            return "it ended before it was bound to a node"
        if pod.state == State.FINISHED and pod.finished_us is None:
            return "it is not known when it ended"
        if pod.state == State.PENDING and pod.is_deleted:
            return "it was deleted before it was bound to a node"
        if pod.is_gated:
            return "it waits at a scheduling gate"
        if pod.is_of_node and not self._nodes.has(pod.node):
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

    def _part(self, pod: Pod, at_us: int) -> Part:
        name = name_of(pod.name)
        times = self._asks[pod.app, name] = self._asks.get((pod.app, name), 0) + 1
        priority, priority_class = self._priority(pod)
        return Part(
            ask=name if times == 1 else f"{name}_{times}",
            resources=self._resources(pod),
            selector=self._selector(pod),
            node=pod.node,
            run_us=self._run_us(pod, at_us),
            priority=priority,
            priority_class=priority_class,
            estimate_us=None if pod.deadline_s is None else pod.deadline_s * MICROSECONDS,
        )

    # KUBERNETES-9
    def _resources(self, pod: Pod) -> Amounts:
        written = cast("Amounts", amounts(pod.requests))
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

    # KUBERNETES-15, KUBERNETES-16
    def _selector(self, pod: Pod) -> Mapping[str, str]:
        if pod.is_of_node:
            return {}
        selector = {**pod.selector, **self._nodes.avoiding(pod.tolerations)}
        if not self._nodes.match(selector):
            self._note(pod, "no node of the feed is one of those that it may run on")
        return selector

    # KUBERNETES-5
    def _run_us(self, pod: Pod, at_us: int) -> int | None:
        if pod.state == State.PENDING:
            self._change(pod, "it was not bound yet: once it is bound it holds its room to the end")
        elif pod.state == State.RUNNING:
            self._change(pod, "it had not ended: it holds its room to the end")
        if pod.finished_us is None or pod.started_us is None:
            return None
        return max(pod.finished_us - max(pod.started_us, min(at_us, pod.finished_us)), 1)

    # KUBERNETES-18
    def _priority(self, pod: Pod) -> tuple[int, str | None]:
        """Return the number, or the class if it is known and says the same."""
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
    return pod.state == State.RUNNING or (pod.finished_us is not None and pod.finished_us > at_us)


def _detail(pod: Pod, example: str) -> str:
    return f"{pod.full_name}: {example}" if example else pod.full_name
