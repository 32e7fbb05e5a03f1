"""The known pods and nodes of a cluster, and what the scheduler has of them.

All of it belongs to the tasks of one :class:`muster.kubernetes.Cluster`, which run in one thread and
change it between two checkpoints; no other task sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, TypeVar, final

import attrs
import trio

from muster.kubernetes._objects import PORT, Node, Pod, PodRequest
from muster_core.values.affinity import Taint
from muster_core.values.devices import without_devices
from muster_core.values.resources import MAX_QUANTITY

K = TypeVar("K")

AskName = tuple[str, str]
"""The names of an application and an ask."""


class Held(Enum):
    """What the scheduler has of a pod."""

    NOTHING = "nothing"
    PENDING = "pending"
    BOUND = "bound"


@final
@attrs.define(eq=False)
class PodEntry:
    """A pod.

    Attributes:
        pod: Its last known state.
        is_gone: Whether the cluster has it no more.
        held: What the scheduler has of it.
        name: The names of its ask, while the scheduler has it.
        asked: The submission with which it was let in last; None if that is not known.
        has: What its ask needs: less than what it takes if it was resized after that.
        sent_to: The node in a binding that was sent, and may have been carried out.
        is_evicted: Whether it is taken from its node: it is not let in again.
        obstacle: The reason why it is still there although it is evicted; empty if none is known.
        refusal: Why the scheduler has not let it in; empty if it has.
        place: The node on which it is counted.
        counted: The amounts that are counted there.
        changed: Where tasks wait for a change of it.
    """

    pod: Pod
    is_gone: bool = False
    held: Held = Held.NOTHING
    name: AskName | None = None
    asked: PodRequest | None = None
    has: Mapping[str, int] = attrs.field(factory=dict[str, int])
    sent_to: str | None = None
    is_evicted: bool = False
    obstacle: str = ""
    refusal: str = ""
    place: str | None = None
    counted: Mapping[str, int] = attrs.field(factory=dict[str, int])
    changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    @property
    def is_pending(self) -> bool:
        """Whether the scheduler has its ask, which is not bound."""
        return self.held is Held.PENDING

    @property
    def is_over(self) -> bool:
        """Whether it takes no room any more: it has ended, or is gone."""
        return self.is_gone or self.pod.is_finished

    @property
    def is_lost(self) -> bool:
        """Whether it is over, or is being deleted before it was bound."""
        unbound = self.pod.node is None and self.sent_to is None
        return self.is_over or (self.pod.is_deleted and unbound)

    # POD-15
    def wanted(self) -> Held:
        """Return the state that it should have in the scheduler."""
        pod = self.pod
        is_out = self.is_over or self.is_evicted
        if not pod.is_ours or is_out or pod.request is None:
            return Held.NOTHING
        if pod.node is not None:
            return Held.BOUND
        return Held.NOTHING if pod.is_deleted or pod.is_gated else Held.PENDING


@final
@attrs.frozen
class HeldNode:
    """A node as the scheduler has it."""

    capacity: Mapping[str, int]
    attributes: Mapping[str, str]
    schedulable: bool
    taints: tuple[Taint, ...]
    reserved: Mapping[str, int]


@final
@attrs.define(eq=False)
class NodeEntry:
    """A node.

    Attributes:
        name: Its name.
        node: Its last known state; None if the cluster does not have it.
        held: What the scheduler has of it, or None.
        pods: The pods that are there, or are about to be.
        used: The amounts that they take together.
        waiting: The pods whose tasks wait for room there.
    """

    name: str
    node: Node | None = None
    held: HeldNode | None = None
    pods: dict[str, PodEntry] = attrs.field(factory=dict[str, PodEntry])
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    waiting: set[PodEntry] = attrs.field(factory=set[PodEntry])

    def wake(self) -> None:
        """Wake the tasks that wait for room."""
        for one in self.waiting:
            one.changed.unpark_all()

    def obstacles(self) -> Iterator[str]:
        """Yield the reasons why evicted pods are still there."""
        pods = self.pods.values()
        return (one.obstacle for one in pods if one.obstacle and not one.pod.is_deleted)

    def lacks(self, entry: PodEntry) -> str:
        """Return the resource that a pod lacks until others have gone; empty if it fits."""
        if self.node is None:
            return "the node"
        is_counted = entry.place == self.name
        for kind, amount in entry.pod.takes.items():
            has = 1 if kind.startswith(PORT) else self.node.capacity.get(kind, 0)
            own = entry.counted.get(kind, 0) if is_counted else 0
            if self.used.get(kind, 0) - own + amount > has:
                return kind
        return ""

    def longest_s(self, eviction_s: float) -> float:
        """Return the longest time that ending pods there may still take, in seconds.

        Args:
            eviction_s: How long an eviction may take until the pod begins to end.
        """
        ending = [one.pod.grace_s for one in self.pods.values() if one.pod.is_deleted]
        begins = [
            eviction_s + one.pod.grace_s
            for one in self.pods.values()
            if one.is_evicted and not one.pod.is_deleted
        ]
        return max((*ending, *begins), default=0.0)

    def reserved(self) -> dict[str, int]:
        """Return what the pods take that are not evicted, beyond what the scheduler has of them."""
        total: dict[str, int] = {}
        for one in self.pods.values():
            is_held = one.held is Held.BOUND
            if is_held or (not one.is_evicted and _counts_as_other(one)):
                for kind, amount in one.pod.takes.items():
                    more = amount - (one.has.get(kind, 0) if is_held else 0)
                    if more > 0:
                        total[kind] = min(total.get(kind, 0) + more, MAX_QUANTITY)
        return total


def _counts_as_other(entry: PodEntry) -> bool:
    """Return whether a pod takes room although the scheduler does not have it."""
    return entry.wanted() is Held.NOTHING or bool(entry.refusal)


@final
class Cache:
    """The pods and nodes of a cluster.

    Attributes:
        pods: The pods by uid, also those that are gone while the scheduler has their asks.
        nodes: The nodes by name.
        by_gang: The uids of the pods of each gang.
        by_name: The uids of the pods whose asks would have these names; the first one has come first.
        holders: The pods whose asks the scheduler has, by the names of these.
        ports: The resource types of all host ports that a pod has asked for.
        dirty_pods: Pods whose state in the scheduler may be out of date.
        dirty_nodes: Nodes, likewise.
        dirty_gangs: Gangs of which a pod has changed.
        unexplained: Pods for which it may have to be reported why they are not bound, the next one
            first.
        dirtied: Where the task waits that updates the scheduler.
        hurried: Where it waits for more changes, if those so far have time.
        has_time: Whether the changes have time: only labels of nodes have changed.
    """

    def __init__(self) -> None:
        self.pods: Final[dict[str, PodEntry]] = {}
        self.nodes: Final[dict[str, NodeEntry]] = {}
        self.by_gang: Final[dict[str, dict[str, None]]] = {}
        self.by_name: Final[dict[AskName, dict[str, None]]] = {}
        self.holders: Final[dict[AskName, PodEntry]] = {}
        self.ports: Final[set[str]] = set()
        self.dirty_pods: dict[str, None] = {}
        self.dirty_nodes: dict[str, None] = {}
        self.dirty_gangs: set[str] = set()
        self.unexplained: Final[dict[str, None]] = {}
        self.dirtied: Final = trio.lowlevel.ParkingLot()
        self.hurried: Final = trio.lowlevel.ParkingLot()
        self.has_time = True

    def node_of(self, name: str) -> NodeEntry:
        """Return the entry of a node, which may not be in the cluster."""
        entry = self.nodes.get(name)
        if entry is None:
            entry = self.nodes[name] = NodeEntry(name)
        return entry

    def mark_pod(self, uid: str) -> None:
        """Mark a pod for the next comparison with the scheduler."""
        self.dirty_pods[uid] = None
        self.hurry()

    def mark_node(self, name: str) -> None:
        """Mark a node for the next comparison with the scheduler."""
        self.dirty_nodes[name] = None
        self.hurry()

    def hurry(self) -> None:
        """Let the scheduler get the changes at once."""
        self.has_time = False
        self.dirtied.unpark_all()
        self.hurried.unpark_all()

    # Pods

    def note_pod(self, pod: Pod) -> PodEntry:
        """Record the last known state of a pod."""
        uid = pod.identity.uid
        entry = self.pods.get(uid)
        if entry is None:
            entry = self.pods[uid] = PodEntry(pod)
        else:
            if entry.pod.request != pod.request:
                self._unlist(entry)
            entry.pod, entry.is_gone = pod, False
        if pod.request is not None:
            ask = pod.request.ask
            self.by_name.setdefault((ask.app, ask.ask), {})[uid] = None
            if ask.gang is not None:
                self.by_gang.setdefault(ask.gang, {})[uid] = None
            new_ports = {kind for kind in pod.takes if kind.startswith(PORT)} - self.ports
            if new_ports:
                self.ports.update(new_ports)
                for name in self.nodes:
                    self.mark_node(name)
        self._settle(entry)
        return entry

    def drop_pod(self, uid: str) -> None:
        """Note that a pod is gone."""
        entry = self.pods.get(uid)
        if entry is not None:
            entry.is_gone = True
            self._settle(entry)
            if entry.held is Held.NOTHING:
                self.forget(entry)

    def _settle(self, entry: PodEntry) -> None:
        """Count a pod on its node, and wake the tasks that wait for a change of it."""
        pod = entry.pod
        if pod.node is not None:
            entry.sent_to = None
        self.put(entry, None if entry.is_over else pod.node or entry.place)
        entry.changed.unpark_all()
        self.mark_pod(pod.identity.uid)
        self._note_unexplained(entry)
        if pod.request is not None and pod.request.ask.gang is not None:
            self.dirty_gangs.add(pod.request.ask.gang)

    def _note_unexplained(self, entry: PodEntry) -> None:
        if entry.pod.is_ours and entry.pod.node is None and not entry.is_over:
            self.unexplained.setdefault(entry.pod.identity.uid)

    def put(self, entry: PodEntry, place: str | None) -> None:
        """Count a pod on a node, or on none any more."""
        uid = entry.pod.identity.uid
        old = entry.place
        if old is not None:
            node = self.nodes[old]
            if node.pods.pop(uid, None) is not None:
                _add(node.used, entry.counted, -1)
        before, entry.place, entry.counted = entry.counted, place, entry.pod.takes
        if place is not None:
            node = self.node_of(place)
            node.pods[uid] = entry
            _add(node.used, entry.counted, 1)
        for name in {old, place} - {None}:
            assert name is not None, "taken out"
            self.nodes[name].wake()
            if old != place or before != entry.counted:
                self.mark_node(name)

    def forget(self, entry: PodEntry) -> None:
        """Forget a pod that is gone, and of which the scheduler has nothing."""
        uid = entry.pod.identity.uid
        self.pods.pop(uid, None)
        self.dirty_pods.pop(uid, None)
        self._unlist(entry)

    def _unlist(self, entry: PodEntry) -> None:
        """Take a pod out of the indexes by name and gang."""
        uid, request = entry.pod.identity.uid, entry.pod.request
        if request is not None:
            ask = request.ask
            _drop(self.by_name, (ask.app, ask.ask), uid)
            if ask.gang is not None:
                _drop(self.by_gang, ask.gang, uid)

    def set_held(self, entry: PodEntry, held: Held, name: AskName | None = None) -> None:
        """Note what the scheduler has of a pod.

        Args:
            entry: The pod.
            held: What it has.
            name: The names of its ask, if it is a new one: what the pod says may change later.
        """
        was, entry.held = entry.held, held
        self._note_unexplained(entry)
        if held is not Held.NOTHING:
            entry.refusal = ""
            if name is not None and entry.name is None and name not in self.holders:
                entry.name, self.holders[name] = name, entry
        elif entry.name is not None:
            name, entry.name = entry.name, None
            self.holders.pop(name, None)
            # Another pod may have waited for the name.
            for uid in self.by_name.get(name, ()):
                if uid != entry.pod.identity.uid:
                    self.mark_pod(uid)
        if entry.place is not None and was is not held:
            self.mark_node(entry.place)

    def note_refused(self, entry: PodEntry, why: str) -> None:
        """Note that the scheduler has not let a pod in."""
        self.set_held(entry, Held.NOTHING)
        entry.refusal = why
        if entry.place is not None:
            self.mark_node(entry.place)

    def note_obstacle(self, entry: PodEntry, why: str) -> None:
        """Record why an evicted pod is still there, and wake the tasks that wait for its room."""
        entry.obstacle = why
        if entry.place is not None:
            self.nodes[entry.place].wake()

    def named(self, full_name: str) -> Iterator[PodEntry]:
        """Yield the pods with a namespace and a name: at most one that is not gone."""
        return (one for one in self.pods.values() if one.pod.identity.full_name == full_name)

    # Nodes

    def note_node(self, node: Node) -> None:
        """Record the last known state of a node."""
        entry = self.node_of(node.name)
        old, entry.node = entry.node, node
        if old is not None and old.offers == node.offers:
            self.dirty_nodes[node.name] = None
            self.dirtied.unpark_all()
            return
        entry.wake()
        self.mark_node(node.name)

    def drop_node(self, name: str) -> None:
        """Note that a node is gone."""
        entry = self.node_of(name)
        entry.node = None
        entry.wake()
        self.mark_node(name)
        if entry.held is None and not entry.pods:
            del self.nodes[name], self.dirty_nodes[name]

    def wanted_node(self, entry: NodeEntry) -> HeldNode | None:
        """Return what the scheduler should have of a node."""
        node = entry.node
        if node is None:
            return None
        capacity = without_devices({**node.capacity, **dict.fromkeys(sorted(self.ports), 1)})
        reserved = without_devices(entry.reserved())
        return HeldNode(capacity, node.attributes, node.schedulable, node.taints, reserved)


def _drop(index: dict[K, dict[str, None]], key: K, uid: str) -> None:
    uids = index.get(key, {})
    uids.pop(uid, None)
    if not uids:
        index.pop(key, None)


def _add(total: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for kind, amount in amounts.items():
        total[kind] = total.get(kind, 0) + sign * amount
