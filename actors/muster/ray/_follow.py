"""The nodes of Ray as nodes of a scheduler."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, Protocol, final

import attrs

from muster.ray._amounts import Amounts
from muster.ray._messages import NodeMap
from muster.ray.linked.names import Names
from muster_core.errors import EventError, MusterError, RefusedError
from muster_core.events import AddNode, Event, RemoveNode, UpdateNode
from muster_core.resources import Resources
from muster_core.snapshots import Snapshot

_LOG: Final = logging.getLogger("muster.ray")

NODE_ID: Final = "ray.io/node-id"
"""The attribute of a node of Muster by which it is a node of Ray."""

_Told = AddNode | UpdateNode | RemoveNode

_SHOWN: Final = 5
"""Of how many nodes the labels are told."""


class Books(Protocol):
    """The part of a scheduler that is needed here."""

    async def submit_many(self, events: Iterable[Event], /) -> tuple[RefusedError | None, ...]:
        """Submit events in one batch; see :meth:`muster.Scheduler.submit_many`."""
        ...

    async def snapshot(self) -> Snapshot:
        """Return the state; see :meth:`muster.Scheduler.snapshot`."""
        ...


@final
class Naming:
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
        self.names: Final = Names(
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
        """Return what seems wrong with the labels or the names of resources, or an empty text."""
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
class _Wanted:
    """What a node of Muster is to be like.

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
class Follower:
    """Makes the nodes of one scheduler those of Ray, by events for what differs.

    Args:
        books: The scheduler.
        naming: Describes the nodes.
    """

    def __init__(self, books: Books, naming: Naming) -> None:
        self._books = books
        self._naming = naming
        #: The nodes that the scheduler has from here, by name.
        self._held: dict[str, _Wanted] = {}
        #: The last complaint about each name, so that it is logged once.
        self._complaints: dict[str, str] = {}
        self._doubt = ""
        #: The pairs of nodes with one name of which a warning has told, by their ids.
        self._doubles: set[tuple[str, str]] = set()

    async def find(self, nodes: tuple[NodeMap, ...]) -> None:
        """Take over the nodes that the scheduler has from an earlier program.

        Args:
            nodes: The nodes of Ray now.
        """
        before = (await self._books.snapshot()).nodes
        ours = {name: node for name, node in before.items() if NODE_ID in node.attributes}
        for name, node in ours.items():
            self._naming.names.hold(name, node.attributes[NODE_ID])
        wanted = self._wanted(nodes)
        for name, node in ours.items():
            number = node.attributes[NODE_ID]
            # If it takes no work although it does not drain, an operator has closed it.
            is_draining = name in wanted and wanted[name].draining and not node.schedulable
            self._held[name] = _Wanted(
                number, Resources(node.capacity), dict(node.attributes), is_draining
            )

    async def follow(self, nodes: tuple[NodeMap, ...]) -> Sequence[str]:
        """Tell the scheduler what has changed, in one batch.

        Returns:
            The ids of the nodes that were added.
        """
        wanted = self._wanted(nodes)
        doubt = self._naming.doubt(nodes)
        if doubt not in ("", self._doubt):
            _LOG.warning("%s", doubt)
        self._doubt = doubt
        self._tell_doubles(nodes)
        events: list[_Told] = []
        for name, held in self._held.items():
            if name not in wanted or wanted[name].id != held.id:
                events.append(RemoveNode(name))
        for name, node in wanted.items():
            change = self._change(name, node)
            if change is not None:
                events.append(change)
        added: list[str] = []
        if events:
            refusals = await self._books.submit_many(events)
            there = await self._still_there(events, refusals)
            for event, refusal in zip(events, refusals, strict=True):
                self._note(event, refusal, wanted, there)
                if refusal is None and isinstance(event, AddNode):
                    added.append(wanted[event.node].id)
        for name in self._complaints.keys() - wanted.keys():
            del self._complaints[name]
        return added

    def _change(self, name: str, node: _Wanted) -> AddNode | UpdateNode | None:
        """Return the event that makes a node what it is to be, if there is one."""
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
        event: _Told,
        refusal: RefusedError | None,
        wanted: Mapping[str, _Wanted],
        there: Set[str],
    ) -> None:
        """Take in what has become of an event.

        Args:
            event: The event.
            refusal: Why it was refused, or None.
            wanted: What the nodes are to be like.
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
            self._held.pop(name, None)  # if it was refused, somebody else has removed the node

    async def _still_there(
        self, events: Iterable[_Told], refusals: Iterable[RefusedError | None]
    ) -> Set[str]:
        """Return the nodes of refused changes and removals that the scheduler has."""
        refused = {
            event.node
            for event, refusal in zip(events, refusals, strict=True)
            if refusal is not None and not isinstance(event, AddNode)
        }
        return refused & (await self._books.snapshot()).nodes.keys() if refused else refused

    def _tell_doubles(self, nodes: tuple[NodeMap, ...]) -> None:
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

    def _wanted(self, nodes: tuple[NodeMap, ...]) -> dict[str, _Wanted]:
        found: dict[str, _Wanted] = {}
        for name, node in self._naming.selected(nodes).items():
            capacity = self._naming.amounts.capacity(node["resources"])
            if capacity is not None:
                labels = {**node["labels"], NODE_ID: node["id"]}
                found[name] = _Wanted(node["id"], capacity, labels, node["draining"])
        return found


def _labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as they are written, without those that Ray gives to every node."""
    own = sorted(item for item in labels.items() if not item[0].startswith("ray.io/"))
    return ", ".join(f"{name}={value}" for name, value in own)
