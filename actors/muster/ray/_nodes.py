"""The nodes of Ray as nodes of a scheduler: their names, their amounts, and what changes.

Ray counts ``CPU`` in cores, ``memory`` in bytes and all others in units, in steps of 0.0001. Muster
counts ``vcore`` in millicores, and all others in bytes or units. Amounts are translated exactly, or
refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from fractions import Fraction
from operator import itemgetter
from types import MappingProxyType
from typing import Final, Protocol, cast, final

import attrs

from muster.ray._messages import NodeMap
from muster_core.errors import EventError, MusterError, RefusedError
from muster_core.events import AddNode, Event, RemoveNode, UpdateNode
from muster_core.resources import Resources
from muster_core.snapshots import Snapshot


@final
class NodeNames:
    """Gives nodes their names.

    Nodes that are called by a label may have the same name. Then it is that of the one that has had
    it so far; of new ones it is that of the lowest id. One with nothing to schedule leaves it to
    the others.

    Args:
        label: The label that has the names; None for the ids.
        has_room: Whether a node has anything to schedule.
    """

    def __init__(self, label: str | None, has_room: Callable[[NodeMap], bool]) -> None:
        self.label: Final = label
        self._has_room = has_room
        #: The id of the node that has had a name last.
        self._held: dict[str, str] = {}

    def hold(self, name: str, number: str) -> None:
        """Record that a node has had a name so far."""
        self._held[name] = number

    def of(self, nodes: Iterable[NodeMap]) -> Mapping[str, NodeMap]:
        """Return nodes by their names."""
        found = {name: alike[0] for name, alike in self._by_name(nodes).items()}
        self._held.update((name, node["id"]) for name, node in found.items())
        return found

    def doubles(self, nodes: Iterable[NodeMap]) -> Iterable[tuple[str, NodeMap, NodeMap]]:
        """Iterate over the names of several nodes: each with the node that has it, and another."""
        for name, (first, *others) in self._by_name(nodes).items():
            for other in others:
                yield name, first, other

    def _by_name(self, nodes: Iterable[NodeMap]) -> Mapping[str, list[NodeMap]]:
        """Return all nodes of each name, the one that has it first."""
        found: dict[str, list[NodeMap]] = {}
        for node in sorted(nodes, key=itemgetter("id")):
            found.setdefault(self._name(node), []).append(node)
        for name, alike in found.items():
            if len(alike) > 1:
                held = self._held.get(name)
                alike.sort(key=lambda node: (not self._has_room(node), node["id"] != held))
        return found

    def _name(self, node: NodeMap) -> str:
        return node["id"] if self.label is None else node["labels"].get(self.label, node["id"])


DEFAULT_RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {"CPU": "vcore", "memory": "memory", "GPU": "nvidia.com/gpu"}
)
"""The names in Muster of resources of Ray; all others have the same name in both."""

_MILLI: Final = "vcore"
_OWN: Final = frozenset({"CPU", "GPU", "memory", "object_store_memory"})
"""The resources that Ray declares with arguments of their own."""

# Ray lists these for a node, but no run asks for them; the last ones are of placement groups.
_LEFT_OUT: Final = re.compile(
    r"node:.*|accelerator_type:.*|object_store_memory|bundle_group_.*|.+_group_[0-9a-f_]{32,}",
    re.DOTALL,
)
_HEAD: Final = "node:__internal_head__"

_MUSTERS: Final = frozenset({"vcore", "nvidia.com/gpu"})
"""The names of resources in Muster that Ray does not use."""

_STEPS: Final = 10_000
"""How many steps Ray counts to one."""

_MOST_STEPS: Final = 2**63 - 1
_MOST: Final = 2**63 - 1


@final
@attrs.frozen
class RayRequest:
    """The amounts that a run declares to Ray."""

    cpus: float = 0.0
    gpus: float = 0.0
    memory: int = 0
    resources: Mapping[str, float] = attrs.field(factory=dict[str, float])


@final
class Amounts:
    """Translates between Ray and Muster.

    Args:
        names: The names in Muster of the resources of Ray; the others keep their names.

    Raises:
        EventError: If it is no map of names, or a name is not one of Ray, two have the same name,
            one has none, or one is not given out.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        _check_names(names)
        self._to_muster = dict(names)
        self._to_ray = {muster: ray for ray, muster in names.items()}
        if len(self._to_ray) < len(self._to_muster):
            msg = f"resources: {dict(names)!r}: two resources of Ray have the same name in Muster"
            raise EventError(msg)
        for ray, muster in names.items():
            if not muster or _LEFT_OUT.fullmatch(ray):
                msg = f"resources: {ray!r}: {muster!r}: cannot be given out under this name"
                raise EventError(msg)

    def unknown(self, nodes: Iterable[Mapping[str, float]]) -> list[str]:
        """Return the resources with a given name that no node has, except Ray's own ones."""
        there = {name for amounts in nodes for name in amounts}
        return sorted(self._to_muster.keys() - DEFAULT_RESOURCES.keys() - there)

    def capacity(self, amounts: Mapping[str, float]) -> Resources | None:
        """Return the resources of a node that is made of these amounts; what is less than a unit is lost.

        Returns:
            None if there is nothing to schedule: a head has memory only.
        """
        found: dict[str, int] = {}
        for ray, amount in amounts.items():
            muster = self._to_muster.get(ray)
            if muster is None:
                if _LEFT_OUT.fullmatch(ray) or ray in _OWN or ray in self._to_ray:
                    continue
                muster = ray
            steps = round(Fraction(amount) * _STEPS)
            found[muster] = min(steps * _factor(muster) // _STEPS, _MOST)
        capacity = Resources(found)
        memory = self._to_muster.get("memory")
        if not capacity or (_HEAD in amounts and set(capacity) <= {memory}):
            return None
        return capacity

    def resources(self, declared: RayRequest) -> Resources:
        """Return the resources that a run has declared to Ray."""
        amounts = {
            "CPU": declared.cpus,
            "GPU": declared.gpus,
            "memory": declared.memory,
            **declared.resources,
        }
        return self.capacity(amounts) or Resources()

    def declared(self, resources: Resources) -> RayRequest:
        """Return the amounts that a run with these resources declares to Ray.

        Raises:
            EventError: If Ray cannot count an amount; the message names the resource.
        """
        amounts = {self._ray(name): self._exact(name, amount) for name, amount in resources.items()}
        return RayRequest(
            cpus=float(amounts.pop("CPU", 0)),
            gpus=float(amounts.pop("GPU", 0)),
            memory=int(amounts.pop("memory", 0)),
            resources={name: float(amount) for name, amount in amounts.items()},
        )

    def _ray(self, name: str) -> str:
        """Return the name in Ray of a resource of Muster.

        Raises:
            EventError: If Ray has another one of this name, or does not give it out.
        """
        ray = self._to_ray.get(name)
        if ray is not None:
            return ray
        if name in self._to_muster:
            msg = f"{name}: Ray's {name} is called {self._to_muster[name]!r} here"
            raise EventError(msg)
        if name in _OWN or _LEFT_OUT.fullmatch(name):
            msg = f"{name}: is not given out: it is no reservation in Ray"
            raise EventError(msg)
        return name

    def _exact(self, name: str, amount: int) -> Fraction:
        """Return an amount as Ray counts it.

        Raises:
            EventError: If Ray cannot count it.
        """
        ray = self._ray(name)
        exact = Fraction(amount, _factor(name))
        if exact * _STEPS > _MOST_STEPS:
            msg = f"{name}: {amount}: Ray counts to {_MOST_STEPS // _STEPS}"
            raise EventError(msg)
        if (exact * _STEPS).denominator != 1 or (ray == "memory" and exact.denominator != 1):
            msg = f"{name}: {float(exact)}: Ray's {ray} has no such fraction"
            raise EventError(msg)
        if ray == "GPU" and exact > 1 and exact.denominator != 1:
            msg = f"{name}: {float(exact)}: Ray gives more than one GPU only as a whole number"
            raise EventError(msg)
        return exact


def _check_names(names: object) -> None:
    """Check the given names of the resources of Ray.

    Raises:
        EventError: If it is no map of names, or a name is not one of Ray.
    """
    right = f"must be a map of Ray's names and Muster's, such as {dict(DEFAULT_RESOURCES)!r}"
    if not isinstance(names, Mapping):
        msg = f"resources: {names!r:.100}: {right}"
        raise EventError(msg)
    rays = {name.lower(): name for name in _OWN}
    for ray, muster in cast("Mapping[object, object]", names).items():
        if not isinstance(ray, str) or not isinstance(muster, str):
            msg = f"resources: {ray!r:.100}: {muster!r:.100}: {right}"
            raise EventError(msg)
        meant = rays.get(ray.lower(), ray)
        if meant != ray:
            msg = f"resources: {ray!r}: Ray calls it {meant!r}"
            raise EventError(msg)
        if ray in _MUSTERS:
            msg = f"resources: {ray!r}: {muster!r}: Ray has no {ray!r}; {right}"
            raise EventError(msg)


def _factor(name: str) -> int:
    """Return the base units of a resource of Muster in one of Ray."""
    return 1000 if name == _MILLI else 1


_LOG: Final = logging.getLogger("muster.ray")

NODE_ID: Final = "ray.io/node-id"
"""The attribute of a node of Muster by which it is a node of Ray."""

_NodeEvent = AddNode | UpdateNode | RemoveNode

_SHOWN: Final = 5
"""The most nodes whose labels a message lists."""


class NodeScheduler(Protocol):
    """The part of a scheduler that this module needs."""

    async def submit_many(self, events: Iterable[Event], /) -> tuple[RefusedError | None, ...]:
        """Submit events in one batch; see :meth:`muster.Scheduler.submit_many`."""
        ...

    async def snapshot(self) -> Snapshot:
        """Return the state; see :meth:`muster.Scheduler.snapshot`."""
        ...


@final
class NodeDescriptions:
    """Which nodes of Ray are nodes of Muster, and how they are described.

    Args:
        label: The label that has the names; None for the ids of the nodes.
        select: The labels that nodes must have.
        amounts: Translates amounts.

    Attributes:
        amounts: Translates amounts.
        names: Gives nodes their names.
    """

    def __init__(self, label: str | None, select: Mapping[str, str], amounts: Amounts) -> None:
        self._select = select
        self.amounts: Final = amounts
        self.names: Final = NodeNames(
            label, lambda node: amounts.capacity(node["resources"]) is not None
        )

    def selected(self, nodes: tuple[NodeMap, ...]) -> Mapping[str, NodeMap]:
        """Return the nodes that are selected, by name."""
        return self.names.of(self._with_labels(nodes))

    def doubles(self, nodes: tuple[NodeMap, ...]) -> Iterable[tuple[str, NodeMap, NodeMap]]:
        """Iterate over the names of several nodes: each with the node that has it, and another."""
        for name, first, other in self.names.doubles(self._with_labels(nodes)):
            if self.amounts.capacity(other["resources"]) is not None:
                yield name, first, other

    def _with_labels(self, nodes: tuple[NodeMap, ...]) -> list[NodeMap]:
        wanted = self._select.items()
        return [one for one in nodes if wanted <= one["labels"].items()]

    def doubt(self, nodes: tuple[NodeMap, ...]) -> str:
        """Return the likely mistakes in the labels or the names of resources, or an empty text."""
        selected = self.selected(nodes)
        if nodes and not selected:
            wanted = _labels_text(self._select)
            found = sorted({_labels_text(one["labels"]) for one in nodes} - {""})
            there = "; ".join(found[:_SHOWN]) or "no labels"
            return f"no node of Ray has the labels {wanted}; there is {there}"
        unknown = self.amounts.unknown(node["resources"] for node in selected.values())
        if selected and unknown:
            return f"resources: {unknown[0]!r}: no node of Ray has a resource of this name now"
        label = self.names.label
        if label is not None:
            for name, node in selected.items():
                if label not in node["labels"] and self.amounts.capacity(node["resources"]):
                    return f"node {name} of Ray has no label {label!r}: its id is its name"
        return ""


@final
@attrs.frozen
class _NodeSpec:
    """The wanted state of a node of Muster.

    Attributes:
        id: The id of the node of Ray.
        capacity: Its resources.
        attributes: Its attributes.
        draining: Whether it takes no more work.
    """

    id: str
    capacity: Resources
    attributes: Mapping[str, str]
    draining: bool


@final
class RayNodeFollower:
    """Makes the nodes of one scheduler those of Ray, by events for what differs.

    Args:
        scheduler: The scheduler.
        naming: Describes the nodes.
    """

    def __init__(self, scheduler: NodeScheduler, naming: NodeDescriptions) -> None:
        self._scheduler = scheduler
        self._naming = naming
        #: The nodes that the scheduler has from here, by name.
        self._held: dict[str, _NodeSpec] = {}
        #: The last complaint about each name, so that it is logged once.
        self._complaints: dict[str, str] = {}
        self._doubt = ""
        #: The ids of the pairs of nodes with one name of which a warning was logged.
        self._doubles: set[tuple[str, str]] = set()

    async def find(self, nodes: tuple[NodeMap, ...]) -> None:
        """Take over the nodes that the scheduler has from an earlier program.

        Args:
            nodes: The nodes of Ray now.
        """
        before = (await self._scheduler.snapshot()).nodes
        ours = {name: node for name, node in before.items() if NODE_ID in node.attributes}
        for name, node in ours.items():
            self._naming.names.hold(name, node.attributes[NODE_ID])
        wanted = self._wanted(nodes)
        for name, node in ours.items():
            number = node.attributes[NODE_ID]
            # If it takes no work although it does not drain, an operator has closed it.
            is_draining = name in wanted and wanted[name].draining and not node.schedulable
            self._held[name] = _NodeSpec(
                number, Resources(node.capacity), dict(node.attributes), is_draining
            )

    async def follow(self, nodes: tuple[NodeMap, ...]) -> Sequence[str]:
        """Submit the changes to the scheduler, in one batch.

        Returns:
            The ids of the nodes that were added.
        """
        wanted = self._wanted(nodes)
        doubt = self._naming.doubt(nodes)
        if doubt not in ("", self._doubt):
            _LOG.warning("%s", doubt)
        self._doubt = doubt
        self._warn_of_doubles(nodes)
        events: list[_NodeEvent] = []
        for name, held in self._held.items():
            if name not in wanted or wanted[name].id != held.id:
                events.append(RemoveNode(name))
        for name, node in wanted.items():
            change = self._change(name, node)
            if change is not None:
                events.append(change)
        added: list[str] = []
        if events:
            refusals = await self._scheduler.submit_many(events)
            there = await self._still_there(events, refusals)
            for event, refusal in zip(events, refusals, strict=True):
                self._note(event, refusal, wanted, there)
                if refusal is None and isinstance(event, AddNode):
                    added.append(wanted[event.node].id)
        for name in self._complaints.keys() - wanted.keys():
            del self._complaints[name]
        return added

    def _change(self, name: str, node: _NodeSpec) -> AddNode | UpdateNode | None:
        """Return the event that brings a node to its wanted state, if it needs one."""
        held = self._held.get(name)
        try:
            if held is None or held.id != node.id:
                return AddNode(name, node.capacity, node.attributes, not node.draining)
            if held == node:
                return None
            return UpdateNode(
                name,
                None if node.capacity == held.capacity else node.capacity,
                None if node.attributes == held.attributes else node.attributes,
                None if node.draining == held.draining else not node.draining,
            )
        except EventError as error:
            self._complain(name, error)
            return None

    def _note(
        self,
        event: _NodeEvent,
        refusal: RefusedError | None,
        wanted: Mapping[str, _NodeSpec],
        there: Set[str],
    ) -> None:
        """Process the result of an event.

        Args:
            event: The event.
            refusal: Why it was refused, or None.
            wanted: The wanted states of the nodes.
            there: Of the nodes that were to be changed or removed, and were not, those that the
                scheduler has. What it has stays held as it was, and is tried again.
        """
        name = event.node
        if refusal is not None:
            self._complain(name, refusal)
        if refusal is None and not isinstance(event, RemoveNode):
            self._held[name] = wanted[name]
            self._complaints.pop(name, None)
        elif not isinstance(event, AddNode) and name not in there:
            self._held.pop(name, None)  # if it was refused, another client has removed the node

    async def _still_there(
        self, events: Iterable[_NodeEvent], refusals: Iterable[RefusedError | None]
    ) -> Set[str]:
        """Return the nodes of refused changes and removals that the scheduler has."""
        refused = {
            event.node
            for event, refusal in zip(events, refusals, strict=True)
            if refusal is not None and not isinstance(event, AddNode)
        }
        return refused & (await self._scheduler.snapshot()).nodes.keys() if refused else refused

    def _warn_of_doubles(self, nodes: tuple[NodeMap, ...]) -> None:
        """Warn of two nodes with one name, once of each pair."""
        for name, node, other in self._naming.doubles(nodes):
            pair = node["id"], other["id"]
            if pair not in self._doubles:
                self._doubles.add(pair)
                _LOG.warning(
                    "the nodes %s and %s of Ray have the same name %r, by the label %r: the first "
                    "one has it, the other one is left out",
                    *pair,
                    name,
                    self._naming.names.label,
                )

    def _complain(self, name: str, error: MusterError) -> None:
        text = str(error)
        if self._complaints.get(name) != text:
            self._complaints[name] = text
            _LOG.warning("node %s of Ray: %s", name, text)

    def _wanted(self, nodes: tuple[NodeMap, ...]) -> dict[str, _NodeSpec]:
        found: dict[str, _NodeSpec] = {}
        for name, node in self._naming.selected(nodes).items():
            capacity = self._naming.amounts.capacity(node["resources"])
            if capacity is not None:
                labels = {**node["labels"], NODE_ID: node["id"]}
                found[name] = _NodeSpec(node["id"], capacity, labels, node["draining"])
        return found


def _labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as they are written, without those that Ray gives to every node."""
    own = sorted(item for item in labels.items() if not item[0].startswith("ray.io/"))
    return ", ".join(f"{name}={value}" for name, value in own)
