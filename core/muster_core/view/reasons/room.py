"""The reasons that follow from nodes: what each of them lacks for a shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.values.reasons import Code, PendingReason
from muster_core.view.reasons.quotas import over_max
from muster_core.view.reasons.words import amount, amounts, counted, listed, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.shapes import Shape
    from muster_core.values.reasons import Fact
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.leaf import LeafView

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_NODE_KEPT: Final = Code.NODE_KEPT
_NEVER_FITS: Final = Code.NEVER_FITS
_FRAGMENTED: Final = Code.FRAGMENTED
_NO_NODE_FITS: Final = Code.NO_NODE_FITS


@final
@attrs.define
class Survey:
    """The comparison of all nodes with a shape.

    Attributes:
        nodes: How many nodes exist.
        unmatched: How many do not match the shape's selector or required node.
        unschedulable: How many match and are not schedulable.
        large: How many match and have the capacity, if they were empty.
        kept: How many match and are schedulable, but are kept for node services.
        fitting: How many of the others have room now.
        lacking: How many of the rest lack each set of types.
        largest: The largest capacity of a matching node, of each requested type.
        free: The free amounts of all schedulable, matching nodes that are not kept, of each
            requested type.
        closed: The first kept node, by name, that has room now, or None.
        closest: Of the nodes that lack something the one that lacks the least, as a fraction of the request,
            and what it lacks.
    """

    nodes: int = 0
    unmatched: int = 0
    unschedulable: int = 0
    kept: int = 0
    large: int = 0
    fitting: int = 0
    lacking: dict[tuple[str, ...], int] = attrs.field(factory=dict[tuple[str, ...], int])
    largest: dict[str, int] = attrs.field(factory=dict[str, int])
    free: dict[str, int] = attrs.field(factory=dict[str, int])
    closed: str | None = None
    closest: tuple[float, str, dict[str, int]] | None = None

    def look_at(self, node: Node, shape: Shape, *, service: bool) -> None:
        """Count a node."""
        self.nodes += 1
        if not node.may_take(shape):
            self.unmatched += 1
            return
        wanted, capacity = shape.resources, node.capacity
        self.large += wanted.fits_in(capacity)
        for kind in wanted:
            self.largest[kind] = max(self.largest.get(kind, 0), capacity.get(kind, 0))
        if not node.schedulable:
            self.unschedulable += 1
            return
        # SERVICE-10
        if node.kept and not service:
            self._look_at_kept(node, shape)
            return
        lacks = node.lack_of_devices(shape)
        for kind, number in wanted.items():
            free = max(capacity.get(kind, 0) - node.used.get(kind, 0), 0)
            self.free[kind] = self.free.get(kind, 0) + free
            if number > free:
                lacks[kind] = max(number - free, lacks.get(kind, 0))
        if not lacks:
            self.fitting += 1
            return
        kinds = tuple(sorted(lacks))
        self.lacking[kinds] = self.lacking.get(kinds, 0) + 1
        distance = max(number / wanted[kind] for kind, number in lacks.items())
        if self.closest is None or (distance, node.name) < self.closest[:2]:
            self.closest = (distance, node.name, lacks)

    def _look_at_kept(self, node: Node, shape: Shape) -> None:
        self.kept += 1
        if node.how_many(shape) and (self.closed is None or node.name < self.closed):
            self.closed = node.name


def is_large(node: Node, shape: Shape) -> bool:
    """Return whether a node could hold an ask of a shape if it were empty."""
    return node.may_take(shape) and shape.resources.fits_in(node.capacity)


def is_in_parts(ask: Ask, free: Mapping[str, int]) -> bool:
    """Return whether as much as an ask needs is free on all nodes together."""
    return all(free.get(kind, 0) >= number for kind, number in ask.resources.items())


def survey(nodes: Iterable[Node], shape: Shape, *, service: bool = False) -> Survey:
    """Compare nodes with a shape.

    Args:
        nodes: The nodes.
        shape: The shape.
        service: Whether the asks in question are node services, to which kept nodes are open.
    """
    made = Survey()
    for node in nodes:
        made.look_at(node, shape, service=service)
    return made


def node_kept(state: ViewState, seen: Survey) -> PendingReason | None:
    """Return which node service keeps a node on which an ask would fit, or None."""
    keeper = (
        None if seen.closed is None or seen.fitting else state.kept_nodes.keeper_of(seen.closed)
    )
    if keeper is None:
        return None
    name = named(keeper.app, keeper.ask)
    message = f"it would fit on {keeper.node}, which node service {name} keeps until it has room"
    return PendingReason(_NODE_KEPT, message, {"node": keeper.node, "keeper": name})


def never_fits(
    leaf: LeafView, ask: Ask, seen: Survey, nodes: Mapping[str, Node]
) -> PendingReason | None:
    """Return why an ask could not be placed even if no other ask held a node, or None."""
    over = list(over_max(leaf, ask))
    parts = [
        f"it asks for {amount(kind, ask.resources[kind])}, the max of {path} is {amount(kind, most)}"
        for path, kind, most in over
    ]
    facts: dict[str, Fact] = {}
    if over:
        facts["max"] = {f"{path} {kind}": most for path, kind, most in over}
    if not seen.large:
        parts.append(_no_node(ask.shape, seen, nodes))
        facts["nodes"], facts["unmatched"] = seen.nodes, seen.unmatched
        facts["largest"] = dict(seen.largest)
    return PendingReason(_NEVER_FITS, "; ".join(parts), facts) if parts else None


def _no_node(shape: Shape, seen: Survey, nodes: Mapping[str, Node]) -> str:
    """Return why no node could hold a shape even if it were empty."""
    if not seen.nodes:
        return "there are no nodes"
    selector = listed(f"{key}={value}" for key, value in shape.selector) if shape.selector else ""
    if shape.node is not None and shape.node not in nodes:
        return f"it requires node {shape.node}, which is unknown"
    models = _models(shape)
    if seen.nodes == seen.unmatched and shape.node is not None:
        parts = [f"does not match its selector {selector}"] if selector else []
        parts += [f"does not have {models}"] if models else []
        return f"it requires node {shape.node}, which {' or '.join(parts)}"
    if seen.nodes == seen.unmatched:
        parts = [f"matches its selector {selector}"] if selector else []
        parts += [f"has {models}"] if models else []
        return f"no node {' and '.join(parts)}"
    wanted, where = shape.resources, _where(shape, seen, selector)
    unknown = sorted(kind for kind in wanted if not seen.largest[kind])
    if unknown:
        return f"there is no {listed(unknown)} on {where}"
    larger = {kind: number for kind, number in wanted.items() if number > seen.largest[kind]}
    if not larger:
        return f"it asks for {amounts(wanted)}, which are not together on {where}"
    most = amounts({kind: seen.largest[kind] for kind in larger})
    return f"it asks for {amounts(larger)}, and the most on {where} is {most}"


# DEVICE-3
def _models(shape: Shape) -> str:
    """Describe the models of devices that a shape may use; empty if any will do."""
    kinds = [
        f"{kind} of the model {' or '.join(need.models)}"
        for kind, need in shape.devices
        if need.models is not None
    ]
    return " and ".join(kinds)


def _where(shape: Shape, seen: Survey, selector: str) -> str:
    """Describe the nodes that match; there must be at least one."""
    if shape.node is not None:
        return f"the required node {shape.node}"
    matching = seen.nodes - seen.unmatched
    which = "the only node" if matching == 1 else f"any of {matching} nodes"
    return f"{which} with {selector}" if selector else which


def no_room(
    ask: Ask, seen: Survey, lacks: Callable[[], tuple[int, Mapping[str, int]] | None] | None = None
) -> Iterator[PendingReason]:
    """Return what nodes lack if none has room, and whether enough is free in parts.

    Args:
        ask: The ask.
        seen: The nodes as they are for it.
        lacks: Returns how many members the Strict group of the ask lacks, and what they ask for
            together; None if it is in none, or the only one that it lacks.
    """
    if seen.fitting:
        return
    wanted, matching = ask.resources, sum(seen.lacking.values())
    if is_in_parts(ask, seen.free):
        free = {kind: seen.free[kind] for kind in wanted}
        message = (
            f"it asks for {amounts(wanted)}; {amounts(free)} are free on "
            f"{counted(matching, 'node', 'nodes')} in all, but not on one"
        )
        facts: dict[str, Fact] = {"free": free, "nodes": matching}
        lacking = None if lacks is None else lacks()
        if lacking is not None:
            count, facts["lacks"] = lacking
            message += (
                f"; the {count} members that its group lacks ask for {amounts(lacking[1])} in all"
            )
        yield PendingReason(_FRAGMENTED, message, facts)
    yield PendingReason(_NO_NODE_FITS, histogram(seen), _figures(seen))


def histogram(seen: Survey) -> str:
    """Return in words what nodes lack of which none has room."""
    if not seen.nodes:
        return "there are no nodes"
    counts = [(seen.unmatched, "does not match", "do not match")]
    counts.append((seen.unschedulable, "is not schedulable", "are not schedulable"))
    counts.append((seen.kept, "is kept for a node service", "are kept for node services"))
    for kinds, number in sorted(seen.lacking.items()):
        lack = f"too little {listed(kinds)}"
        counts.append((number, f"has {lack}", f"have {lack}"))
    parts = ", ".join(counted(*count) for count in counts if count[0])
    message = f"of {counted(seen.nodes, 'node', 'nodes')} {parts}"
    if seen.closest is None:
        return message
    _, name, lacks = seen.closest
    return f"{message}; {name} is the closest and lacks {amounts(lacks)}"


def _figures(seen: Survey) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "nodes": seen.nodes,
        "unmatched": seen.unmatched,
        "unschedulable": seen.unschedulable,
        "lacking": {" ".join(kinds): number for kinds, number in sorted(seen.lacking.items())},
    }
    if seen.kept:
        facts["kept"] = seen.kept
    if seen.closest is not None:
        facts["closest"], facts["closest_lacks"] = seen.closest[1:]
    return facts
