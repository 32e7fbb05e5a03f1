"""Remedies that concern nodes: schedulable again, relabelled, larger or new."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from muster.explain._remedies.case import Case, told
from muster.explain._remedies.remedy import Remedy, RemedyKind
from muster.explain._remedies.search import Knob, Smallest, smallest
from muster.explain._writing import Written, amounts
from muster_core.nodes.node import Node
from muster_core.structures.totals import add_to
from muster_core.values.devices import MOST_DEVICES, WHOLE, resource_type, without_devices
from muster_core.values.quantities import format_quantity
from muster_core.view.reasons.words import listed

# Looking up a member of an enum takes ten times as long.
_ATTRIBUTES: Final = RemedyKind.ATTRIBUTES
_CAPACITY: Final = RemedyKind.CAPACITY
_NODE: Final = RemedyKind.NODE
_SCHEDULABLE: Final = RemedyKind.SCHEDULABLE

_TRIED: Final = 16
"""How many nodes are tried with one kind of change."""

_TOLD: Final = 3
"""How many nodes are reported for one kind of change."""


def node_remedies(case: Case) -> Iterator[Remedy]:
    """Try changes of nodes."""
    yield from _open(case)
    yield from _relabel(case)
    yield from _grow(case)
    if case.event.node is None or case.event.node not in case.nodes:
        yield from _add(case)


def _all(case: Case) -> list[Node]:
    return list(case.machine.view.nodes.in_order())


def _first(
    case: Case, kind: RemedyKind, nodes: Sequence[Node], change: Callable[[Node], Written], how: str
) -> Iterator[Remedy]:
    """Try the same change on several nodes, until it has worked on a few."""
    found = 0
    for node in nodes[:_TRIED]:
        remedy = case.remedy(kind, how.format(node.name), [change(node)])
        if remedy is not None:
            yield remedy
            found += 1
            if found == _TOLD:
                return


def _open(case: Case) -> Iterator[Remedy]:
    closed = [node for node in _all(case) if not node.schedulable and case.matches(node)]

    def change(node: Node) -> Written:
        return {"op": "update_node", "node": node.name, "schedulable": True}

    text = "make node {} schedulable again"
    yield from _first(case, _SCHEDULABLE, case.by_lack(closed), change, text)


def _relabel(case: Case) -> Iterator[Remedy]:
    selector = case.event.selector
    others = [
        node
        for node in _all(case)
        if node.schedulable
        and case.matches(node, attributes=False)
        and not case.matches(node)
        and not case.lack(node)
    ]

    def change(node: Node) -> Written:
        attributes: Written = {**node.attributes, **selector}
        return {"op": "update_node", "node": node.name, "attributes": attributes}

    text = f"give node {{}} the attributes that the selector requires: {_safe(_wanted(case))}"
    yield from _first(case, _ATTRIBUTES, others, change, text)


def _safe(text: str) -> str:
    """Escape a text for ``format``."""
    return text.replace("{", "{{").replace("}", "}}")


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

    def events(more: tuple[int, ...]) -> list[Written]:
        grown = dict(node.capacity)
        add_to(grown, added(more))
        return [
            {"op": "update_node", "node": node.name, "capacity": amounts(without_devices(grown))}
        ]

    def text(more: tuple[int, ...]) -> str:
        return f"{told(added(more))} more on node {node.name}"

    knobs = [
        Knob(
            max(lack.get(name, 0), case.pending.get(name, 0)),
            lack.get(name, 0),
            case.steps.get(name, 1),
        )
        for name in names
    ]
    found = smallest(lambda more: case.trials.bind(events(more)), knobs)
    return next(case.found(_CAPACITY, names, found, text, events), None)


def more_room(case: Case, room: Mapping[str, int]) -> Written:
    """Return the event that makes room for the ask: on its required node, or on a new one."""
    node = case.nodes.get(case.event.node or "")
    if node is None:
        return new_node(case, room)
    written: Written = {"op": "update_node", "node": node.name}
    capacity = _with_room(node, room)
    if capacity != node.capacity:
        written["capacity"] = amounts(without_devices(capacity))
    if not case.matches(node):
        written["attributes"] = {**node.attributes, **case.event.selector}
    if not node.schedulable:
        written["schedulable"] = True
    return written


def _with_room(node: Node, room: Mapping[str, int]) -> dict[str, int]:
    """Return a capacity of a node with which at least ``room`` is free; no less than now."""
    capacity = dict(node.capacity)
    for name, amount in room.items():
        capacity[name] = max(capacity.get(name, 0), node.used.get(name, 0) + amount)
    return capacity


def room_text(case: Case, room: Mapping[str, int]) -> str:
    """Return in words what :func:`more_room` changes."""
    node = case.nodes.get(case.event.node or "")
    if node is None:
        return _new_text(case, room)
    capacity = _with_room(node, room)
    parts = [
        f"{told({name: amount})} instead of {format_quantity(name, node.capacity.get(name, 0))} "
        f"as capacity of node {node.name}"
        for name, amount in capacity.items()
        if amount != node.capacity.get(name, 0)
    ]
    if not case.matches(node):
        parts.append(f"node {node.name} with {_wanted(case)}")
    if not node.schedulable:
        parts.append(f"node {node.name} becomes schedulable again")
    return ", and ".join(parts)


def _wanted(case: Case) -> str:
    return ", ".join(_marks(case))


def _marks(case: Case) -> list[str]:
    """Return the attributes that the selector requires."""
    return [f"{key}={value}" for key, value in case.event.selector.items()]


def _new_text(case: Case, capacity: Mapping[str, int]) -> str:
    what = "another node" if case.event.node is None else f"a node named {case.event.node}"
    sizes = (told({name: amount}) for name, amount in capacity.items())
    return f"{what} with {listed([*sizes, *_marks(case)])}"


def new_node(case: Case, capacity: Mapping[str, int]) -> Written:
    """Return the event that adds a node that the ask may use."""
    name, number = case.event.node or "another-node", 1
    while name in case.nodes:
        number += 1
        name = f"another-node-{number}"
    written: Written = {"op": "add_node", "node": name}
    written["capacity"] = amounts(without_devices(capacity))
    written |= _devices(case, capacity)
    if case.event.selector:
        written["attributes"] = {**case.event.selector}
    return written


def _devices(case: Case, capacity: Mapping[str, int]) -> Written:
    """Return the devices of a new node on which there is so much of each type."""
    stocks: Written = {}
    for kind, need in case.event.devices.items():
        count = min(-(-capacity.get(resource_type(kind), 0) // WHOLE), MOST_DEVICES)
        if count:
            model = {} if need.models is None else {"model": need.models[0]}
            stocks[kind] = {"count": count, **model}
    return {"devices": stocks} if stocks else {}


def _add(case: Case) -> Iterator[Remedy]:
    names = sorted(case.together)

    def size(values: tuple[int, ...]) -> dict[str, int]:
        return dict(zip(names, values, strict=True))

    def events(values: tuple[int, ...]) -> list[Written]:
        return [new_node(case, size(values))]

    def text(values: tuple[int, ...]) -> str:
        return _new_text(case, size(values))

    yield from case.found(_NODE, names, smallest_room(case, names, events), text, events)


def smallest_room(
    case: Case, names: Sequence[str], events: Callable[[tuple[int, ...]], Sequence[Written]]
) -> Smallest | None:
    """Find the smallest amounts of some types with which the ask is bound."""

    def works(values: tuple[int, ...]) -> bool:
        return case.trials.bind(events(values))

    size = {name: case.together[name] for name in names}
    while True:
        knobs = [
            Knob(size[name], min(size[name], case.event.wanted[name]), case.steps.get(name, 1))
            for name in names
        ]
        found = smallest(works, knobs)
        if found is not None or all(size[name] >= case.pending[name] for name in names):
            return found
        size = {name: min(2 * size[name], case.pending[name]) for name in names}
