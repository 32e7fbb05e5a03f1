"""Remedies that concern nodes.

Nodes that are schedulable again, relabelled, larger or new; and asks that may use other nodes, with
more tolerations, or a shorter affinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, final

import attrs

from muster.explain._remedies.case import (
    Case,
    NumberRange,
    Remedy,
    RemedyKind,
    amounts_in_words,
    smallest,
)
from muster.feeds._kinds import EventFields, write_amounts
from muster.feeds._operations import write
from muster.replay import event_of
from muster_core.events import AddAsk, AddNode
from muster_core.nodes.node import Node
from muster_core.resources import Resources
from muster_core.structures.amounts import add_to
from muster_core.structures.shapes import Exclusion
from muster_core.values.affinity import Affinity, Taint, Toleration, repelling
from muster_core.values.devices import NO_STOCKS, DeviceStock, without_devices
from muster_core.values.resources import format_quantity
from muster_core.view.reasons.shortfalls import listed

_TRIED: Final = 16
"""How many nodes are tried with one kind of change."""

_MOST_REPORTED: Final = 3
"""How many nodes are reported for one kind of change."""


_KINDS: Final = 2
"""How many kinds of new nodes are tried."""

_MOST: Final = 1_000
"""The most new nodes."""


def node_remedies(case: Case) -> Iterator[Remedy]:
    """Try changes of nodes."""
    yield from _open(case)
    yield from _relabel(case)
    yield from _reserve_less(case)
    yield from _grow(case)
    if case.event.node is None or case.event.node not in case.nodes:
        yield from _add(case)


def _all(case: Case) -> list[Node]:
    return list(case.machine.view.nodes.in_order())


def _first(
    case: Case,
    kind: RemedyKind,
    nodes: Sequence[Node],
    change: Callable[[Node], EventFields],
    how: Callable[[Node], str],
) -> Iterator[Remedy]:
    """Try the same change on several nodes, until it has worked on a few."""
    found = 0
    for node in nodes[:_TRIED]:
        remedy = case.remedy(kind, how(node), [change(node)])
        if remedy is not None:
            yield remedy
            found += 1
            if found == _MOST_REPORTED:
                return


def _open(case: Case) -> Iterator[Remedy]:
    closed = [node for node in _all(case) if not node.schedulable and case.matches(node)]

    def change(node: Node) -> EventFields:
        return {"op": "update_node", "node": node.name, "schedulable": True}

    def text(node: Node) -> str:
        return f"make node {node.name} schedulable again"

    yield from _first(case, RemedyKind.SCHEDULABLE, case.by_lack(closed), change, text)


def _relabel(case: Case) -> Iterator[Remedy]:
    others = [
        node
        for node in _all(case)
        if node.schedulable
        and case.matches(node, attributes=False)
        and not case.matches(node)
        and not case.lack(node)
    ]

    def change(node: Node) -> EventFields:
        attributes: EventFields = {**node.attributes, **_required(case, node)}
        return {"op": "update_node", "node": node.name, "attributes": attributes}

    def text(node: Node) -> str:
        whose = "the selector requires" if case.event.affinity is None else "it requires"
        return (
            f"give node {node.name} the attributes that {whose}: {_in_words(_required(case, node))}"
        )

    yield from _first(case, RemedyKind.ATTRIBUTES, others, change, text)


# RESERVED-2, RESERVED-7
def _reserve_less(case: Case) -> Iterator[Remedy]:
    """Reserve less on a node for others, and no less than it takes."""

    def less(node: Node) -> dict[str, int]:
        lack, reserved = case.lack(node), node.reserved
        left = {name: amount - lack.get(name, 0) for name, amount in reserved.items()}
        return {name: amount for name, amount in left.items() if amount}

    def change(node: Node) -> EventFields:
        return {"op": "update_node", "node": node.name, "reserved": write_amounts(less(node))}

    for node in case.by_lack([node for node in _all(case) if node.reserved])[:_TRIED]:
        lack = case.lack(node)
        if not lack or any(amount > node.reserved.get(name, 0) for name, amount in lack.items()):
            continue
        text = f"reserve {amounts_in_words(lack)} less for others on node {node.name}"
        remedy = case.remedy(RemedyKind.RESERVED, text, [change(node)])
        if remedy is not None:
            yield remedy
            return


def _grow(case: Case) -> Iterator[Remedy]:
    """Enlarge a node; those that lack least are tried first."""
    usable = [node for node in _all(case) if node.schedulable and case.matches(node)]
    for node in case.by_lack(usable)[:_TRIED]:
        remedy = _grown(case, node)
        if remedy is not None:
            yield remedy
            return


def _grown(case: Case, node: Node) -> Remedy | None:
    lack, names = case.lack(node), sorted(case.event.wanted)

    def added(more: tuple[int, ...]) -> dict[str, int]:
        return {name: extra for name, extra in zip(names, more, strict=True) if extra}

    def events(more: tuple[int, ...]) -> list[EventFields]:
        grown = dict(node.capacity)
        add_to(grown, added(more))
        return [
            {
                "op": "update_node",
                "node": node.name,
                "capacity": write_amounts(without_devices(grown)),
            }
        ]

    def text(more: tuple[int, ...]) -> str:
        return f"{amounts_in_words(added(more))} more on node {node.name}"

    knobs = [
        NumberRange(
            max(lack.get(name, 0), case.pending.get(name, 0)),
            lack.get(name, 0),
            case.steps.get(name, 1),
        )
        for name in names
    ]
    found = smallest(lambda more: case.trials.bind(events(more)), knobs)
    return next(case.found(RemedyKind.CAPACITY, names, found, text, events), None)


def more_room(case: Case, node: Node, room: Mapping[str, int]) -> EventFields:
    """Return the event that makes room for the ask on its required node."""
    written: EventFields = {"op": "update_node", "node": node.name}
    capacity = _with_room(node, room)
    if capacity != node.capacity:
        written["capacity"] = write_amounts(without_devices(capacity))
    if not case.matches(node):
        written["attributes"] = {**node.attributes, **_required(case, node)}
    if not node.schedulable:
        written["schedulable"] = True
    return written


def _with_room(node: Node, room: Mapping[str, int]) -> dict[str, int]:
    """Return a capacity of a node with which at least ``room`` is free; no less than now."""
    capacity = dict(node.capacity)
    for name, amount in room.items():
        held = node.used.get(name, 0) + node.reserved.get(name, 0)
        capacity[name] = max(capacity.get(name, 0), held + amount)
    return capacity


def room_text(case: Case, node: Node, room: Mapping[str, int]) -> str:
    """Return the change of :func:`more_room` as text."""
    capacity = _with_room(node, room)
    parts = [
        f"{amounts_in_words({name: amount})} instead of {format_quantity(name, node.capacity.get(name, 0))} "
        f"as capacity of node {node.name}"
        for name, amount in capacity.items()
        if amount != node.capacity.get(name, 0)
    ]
    if not case.matches(node):
        parts.append(f"node {node.name} with {_in_words(_required(case, node))}")
    if not node.schedulable:
        parts.append(f"node {node.name} becomes schedulable again")
    return ", and ".join(parts)


def _required(case: Case, node: Node) -> dict[str, str]:
    return case.required_attributes(node.name, node.attributes)


def _in_words(attributes: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in attributes.items())


# OUTLOOK-33
@final
@attrs.frozen
class NewNode:
    """A kind of node that may be added: one like a node of the cluster, if one is large enough.

    Attributes:
        like: The name of the node that it is like; None if none is large enough for the ask.
        event: The event that adds the first of them.
        required: Those of its attributes that the ask requires.
    """

    like: str | None
    event: AddNode
    required: Mapping[str, str]

    def events(self, case: Case, count: int) -> list[EventFields]:
        """Return the events that add so many."""
        found: list[EventFields] = []
        number = 0
        while len(found) < count:
            number += 1
            name = self.event.node if number == 1 else f"{self.event.node}-{number}"
            if name not in case.nodes:
                found.append(write(attrs.evolve(self.event, node=name)))
        return found

    def text(self, case: Case, count: int) -> str:
        """Return the added nodes as text."""
        sizes = [amounts_in_words({name: amount}) for name, amount in self.event.room.items()]
        sizes += [f"{key}={value}" for key, value in self.required.items()]
        each = "with" if count == 1 else "each with"
        has = f"{'' if self.like is None else f'like {self.like}, '}{each} {listed(sizes)}"
        if case.event.node is not None:
            return f"a node named {case.event.node} {has}"
        return f"another node {has}" if count == 1 else f"{count:,} more nodes {has}"


def new_nodes(case: Case) -> list[NewNode]:
    """Return the kinds of nodes that may be added for an ask, the most frequent one first.

    If no node of the cluster is large enough, it is one that holds just the ask.
    """
    name, ask = case.event.node or "another-node", case.ask
    counts: dict[tuple[object, ...], list[Node]] = {}
    for node in case.machine.view.nodes.in_order():
        stocks = NO_STOCKS if node.devices is None else node.devices.stocks
        models = attrs.evolve(ask.shape, selector=(), node=None, affinity=None)
        if ask.resources.fits_in(node.capacity) and models.matches(node.name, {}, stocks):
            key = (tuple(sorted(node.capacity.items())), tuple(stocks.items()))
            counts.setdefault(key, []).append(node)
    if not counts:
        devices = _devices(case)
        capacity = Resources(without_devices(case.event.wanted))
        required = case.required_attributes(name, {})
        event = AddNode(name, capacity, required, devices=devices)
        return [NewNode(None, event, required)]
    found: list[NewNode] = []
    for some in sorted(counts.values(), key=len, reverse=True)[:_KINDS]:
        node = next((one for one in some if case.matches(one)), some[0])
        capacity = Resources(without_devices(node.capacity))
        stocks = NO_STOCKS if node.devices is None else node.devices.stocks
        required = case.required_attributes(name, node.attributes)
        attributes = {**node.attributes, **required}
        event = AddNode(name, capacity, attributes, devices=stocks)
        found.append(NewNode(node.name, event, required))
    return found


def _devices(case: Case) -> Mapping[str, DeviceStock]:
    """Return the devices of a new node that holds just the ask."""
    return {
        kind: DeviceStock(max(need.count, 1), None if need.models is None else need.models[0])
        for kind, need in case.event.devices.items()
    }


def count_of(case: Case, new: NewNode) -> NumberRange:
    """Return how many new nodes may be needed."""
    room = new.event.room

    def nodes_for(size: Mapping[str, int]) -> int:
        return max(
            (-(-amount // room[kind]) for kind, amount in size.items() if room[kind]), default=1
        )

    guess = max(nodes_for(case.combined), 1)
    if case.event.node is not None:
        return NumberRange(1, 1)
    return NumberRange(
        min(max(guess, case.lacking, nodes_for(case.pending)), _MOST), min(guess, _MOST)
    )


def _add(case: Case) -> Iterator[Remedy]:
    for new in new_nodes(case):

        def events(count: tuple[int, ...], new: NewNode = new) -> list[EventFields]:
            return new.events(case, count[0])

        def text(count: tuple[int, ...], new: NewNode = new) -> str:
            return new.text(case, count[0])

        found = smallest(lambda count: case.trials.bind(events(count)), [count_of(case, new)])
        yield from case.found(RemedyKind.NODE, ["nodes"], found, text, events)


_CHANGES: Final = 8
"""How many changes of one kind are tried."""

_AGAIN: Final = "withdrawn and submitted again, and counts as created then"


# AFFINITY-15
def place_remedies(case: Case) -> Iterator[Remedy]:
    """Try tolerations that the ask lacks, and its affinity with fewer requirements."""
    exclusions = {node.exclusion(case.ask.shape) for node in case.nodes.values()}
    if exclusions.isdisjoint({Exclusion.TAINTS, Exclusion.AFFINITY}):
        return
    if case.trials.bind(_events(case, case.event.tolerations, case.event.affinity)):
        return  # Then they are not the cause.
    if Exclusion.TAINTS in exclusions:
        yield from _tolerant(case)
    if Exclusion.AFFINITY in exclusions:
        yield from _less_choosy(case)


def _tolerant(case: Case) -> Iterator[Remedy]:
    """Try to tolerate the taints of nodes; what opens more nodes is tried first."""
    shape = case.ask.shape
    sets = Counter(
        tuple(dict.fromkeys(repelling(node.taints, shape.tolerations)))
        for node in case.nodes.values()
        if node.exclusion(shape) is Exclusion.TAINTS
    )
    for taints, _ in sorted(sets.items(), key=lambda one: (len(one[0]), -one[1]))[:_CHANGES]:
        more = (*case.event.tolerations, *map(_toleration_of, taints))
        named = f"toleration{'s' if len(taints) > 1 else ''} of {listed(map(str, taints))}"
        text = f"{named}: {_who(case)} {_AGAIN}"
        remedy = case.remedy(RemedyKind.TOLERATION, text, _events(case, more, case.event.affinity))
        if remedy is not None:
            yield remedy


def _toleration_of(taint: Taint) -> Toleration:
    return Toleration(taint.key, value=taint.value, effect=taint.effect)


def _less_choosy(case: Case) -> Iterator[Remedy]:
    """Try the affinity without each of its requirements, and at last none."""
    affinity, found = case.event.affinity or (), False
    shorter: list[tuple[str, Affinity | None]] = [
        (f"an affinity without {left_out}", (*affinity[:at], without, *affinity[at + 1 :]))
        for at, term in enumerate(affinity)
        for left_out in term
        if (without := tuple(one for one in term if one != left_out))
    ]
    for named, changed in (*shorter[:_CHANGES], ("no affinity", None)):
        if changed is None and found:
            return
        text = f"{named}: {_who(case)} {_AGAIN}"
        events = _events(case, case.event.tolerations, changed)
        remedy = case.remedy(RemedyKind.AFFINITY, text, events)
        if remedy is not None:
            found = True
            yield remedy


def _who(case: Case) -> str:
    return "the ask is" if len(_alike(case)) == 1 else "it and its gang are"


def _alike(case: Case) -> list[AddAsk]:
    """Return the ask, and the other pending members of its gang that may use the same nodes."""
    if case.gang is None:
        return [case.event]
    found, own, view = [case.event], case.ask.shape, case.machine.view
    classes = case.machine.registry.classes.facts()
    for app, name in case.snapshot.gangs[case.gang.name].pending:
        ask = view.apps[case.machine.registry.app_key(app)].find(name)
        if ask is not None and (app, name) != (case.event.app, case.event.ask):
            chosen = ask.shape.tolerations, ask.shape.affinity
            if chosen == (own.tolerations, own.affinity):
                found.append(event_of(app, ask, classes))
    return found


def _events(
    case: Case, tolerations: tuple[Toleration, ...], affinity: Affinity | None
) -> list[EventFields]:
    """Return the events that submit the ask again, with other nodes that it may use."""
    events: list[EventFields] = []
    for event in _alike(case):
        events.append({"op": "remove_ask", "app": event.app, "ask": event.ask})
        events.append(write(attrs.evolve(event, tolerations=tolerations, affinity=affinity)))
    return events
