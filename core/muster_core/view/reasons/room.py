"""The reasons that follow from nodes: what each of them lacks for a shape.

A survey compares all nodes with a shape. Where only the code of a reason is wanted, what room the
nodes have for shapes is kept until a node changes. If there is room, a topology may still forbid
it: why no node with room is where its gang lets a member be (TOPOLOGY-15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, final

import attrs

from muster_core.gangs import TopologyRule
from muster_core.nodes.node import Node
from muster_core.owners.asks import Ask
from muster_core.structures.amounts import add_to, take_from
from muster_core.structures.shapes import Exclusion, Shape
from muster_core.values.affinity import repelling, terms_in_words
from muster_core.values.reasons import Code, Fact, PendingReason
from muster_core.values.records import MAP
from muster_core.view.gangs import Member, TopologyState, topology_state_of
from muster_core.view.node_finder import NodeFinder
from muster_core.view.reasons.order import Turn
from muster_core.view.reasons.shortfalls import amount, amounts, counted, listed, named, over_max
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.leaf import LeafView


@final
@attrs.define
class NodeSurvey:
    """The comparison of all nodes with a shape.

    Attributes:
        nodes: How many nodes exist.
        unmatched: How many do not match the shape's selector, models or required node.
        averse: How many of the others do not match its affinity.
        tainted: How many of the rest have a taint that it does not tolerate.
        taints: How many of these have each such taint.
        unschedulable: How many match and are not schedulable.
        large: How many match and have the capacity, if they were empty.
        kept: How many match and are schedulable, but are kept for node services.
        fitting: How many of the others have room now.
        lacking: How many of the rest lack each set of types.
        if_unreserved: How many of these would have room if nothing were reserved on them.
        largest: The largest capacity of a matching node, of each requested type.
        free: The free amounts of all schedulable, matching nodes that are not kept, of each
            requested type.
        closed: The first kept node, by name, that has room now, or None.
        closest: Of the nodes that lack something the one that lacks the least, as a fraction of the request,
            and what it lacks.
    """

    nodes: int = 0
    unmatched: int = 0
    averse: int = 0
    tainted: int = 0
    unschedulable: int = 0
    kept: int = 0
    large: int = 0
    fitting: int = 0
    lacking: dict[tuple[str, ...], int] = attrs.field(factory=MAP)
    if_unreserved: int = 0
    taints: dict[str, int] = attrs.field(factory=MAP)
    largest: dict[str, int] = attrs.field(factory=MAP)
    free: dict[str, int] = attrs.field(factory=MAP)
    closed: str | None = None
    closest: tuple[float, str, dict[str, int]] | None = None

    def look_at(self, node: Node, shape: Shape, *, service: bool) -> None:
        """Count a node."""
        self.nodes += 1
        exclusion = node.exclusion(shape)
        if exclusion is not None:
            self._exclude(node, shape, exclusion)
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
            free = max(node.room.get(kind, 0) - node.used.get(kind, 0), 0)
            self.free[kind] = self.free.get(kind, 0) + free
            if number > free:
                lacks[kind] = max(number - free, lacks.get(kind, 0))
        if not lacks:
            self.fitting += 1
            return
        # REASON-12
        if node.reserved and not node.lack_of_devices(shape):
            used = node.used
            self.if_unreserved += all(
                number <= capacity.get(kind, 0) - used.get(kind, 0)
                for kind, number in wanted.items()
            )
        kinds = tuple(sorted(lacks))
        self.lacking[kinds] = self.lacking.get(kinds, 0) + 1
        distance = max(number / wanted[kind] for kind, number in lacks.items())
        if self.closest is None or (distance, node.name) < self.closest[:2]:
            self.closest = (distance, node.name, lacks)

    # AFFINITY-14
    def _exclude(self, node: Node, shape: Shape, exclusion: Exclusion) -> None:
        match exclusion:
            case Exclusion.UNMATCHED:
                self.unmatched += 1
            case Exclusion.AFFINITY:
                self.averse += 1
            case Exclusion.TAINTS:
                self.tainted += 1
                for taint in dict.fromkeys(map(str, repelling(node.taints, shape.tolerations))):
                    self.taints[taint] = self.taints.get(taint, 0) + 1

    @property
    def excluded(self) -> int:
        """How many do not match the shape, whatever the cause."""
        return self.unmatched + self.averse + self.tainted

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


def survey(nodes: Iterable[Node], shape: Shape, *, service: bool = False) -> NodeSurvey:
    """Compare nodes with a shape.

    Args:
        nodes: The nodes.
        shape: The shape.
        service: Whether the asks in question are node services, to which kept nodes are open.
    """
    made = NodeSurvey()
    for node in nodes:
        made.look_at(node, shape, service=service)
    return made


def node_kept(state: ViewState, seen: NodeSurvey) -> PendingReason | None:
    """Return which node service keeps a node on which an ask would fit, or None."""
    keeper = (
        None if seen.closed is None or seen.fitting else state.kept_nodes.keeper_of(seen.closed)
    )
    if keeper is None:
        return None
    name = named(keeper.app, keeper.ask)
    message = f"it would fit on {keeper.node}, which node service {name} keeps until it has room"
    return PendingReason(Code.NODE_KEPT, message, {"node": keeper.node, "keeper": name})


def never_fits(
    leaf: LeafView, ask: Ask, seen: NodeSurvey, nodes: Mapping[str, Node]
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
        facts |= _causes(seen)
        facts["largest"] = dict(seen.largest)
    return PendingReason(Code.NEVER_FITS, "; ".join(parts), facts) if parts else None


def _no_node(shape: Shape, seen: NodeSurvey, nodes: Mapping[str, Node]) -> str:
    """Return why no node could hold a shape even if it were empty."""
    if not seen.nodes:
        return "there are no nodes"
    selector = listed(f"{key}={value}" for key, value in shape.selector) if shape.selector else ""
    if shape.node is not None and shape.node not in nodes:
        return f"it requires node {shape.node}, which is unknown"
    models = _models(shape)
    affinity = terms_in_words(shape.affinity) if seen.averse and shape.affinity is not None else ""
    taints = _taints(seen)
    if seen.nodes == seen.excluded and shape.node is not None:
        parts = [f"does not match its selector {selector}"] if selector else []
        parts += [f"does not have {models}"] if models else []
        # Of the only node that counts the cause is known.
        if affinity:
            parts = [f"does not match its affinity {affinity}"]
        elif taints:
            parts = [f"has a taint that it does not tolerate: {taints}"]
        return f"it requires node {shape.node}, which {' or '.join(parts)}"
    if seen.nodes == seen.excluded:
        parts = [f"matches its selector {selector}"] if selector else []
        parts += [f"has {models}"] if models else []
        parts += [f"matches its affinity {affinity}"] if affinity else []
        parts += [f"has no taint that it does not tolerate ({taints})"] if taints else []
        return f"no node {' and '.join(parts)}"
    wanted, where = shape.resources, _matching_nodes(shape, seen, selector)
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


def _matching_nodes(shape: Shape, seen: NodeSurvey, selector: str) -> str:
    """Describe the nodes that match; there must be at least one."""
    if shape.node is not None:
        return f"the required node {shape.node}"
    matching = seen.nodes - seen.excluded
    which = "the only node" if matching == 1 else f"any of {matching} nodes"
    return f"{which} with {selector}" if selector else which


def no_room(
    ask: Ask,
    seen: NodeSurvey,
    lacks: Callable[[], tuple[int, Mapping[str, int]] | None] | None = None,
) -> Iterator[PendingReason]:
    """Return the amounts that nodes lack if none has room, and whether enough is free in parts.

    Args:
        ask: The ask.
        seen: The nodes as they are for it.
        lacks: Returns how many members the Strict group of the ask lacks, and the sum of their
            requests; None if it is in none, or the only one that it lacks.
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
        yield PendingReason(Code.FRAGMENTED, message, facts)
    yield PendingReason(Code.NO_NODE_FITS, histogram(seen), _figures(seen))
    # AFFINITY-14
    if seen.tainted:
        have = counted(seen.tainted, "node has a taint", "nodes have taints")
        facts = {"nodes": seen.tainted, "taints": dict(seen.taints)}
        message = f"{have} that it does not tolerate: {_taints(seen)}"
        yield PendingReason(Code.NODES_TAINTED, message, facts)
    if seen.averse:
        do = counted(seen.averse, "node does not match", "nodes do not match")
        message = f"{do} its affinity: {terms_in_words(ask.shape.affinity or ())}"
        yield PendingReason(Code.AFFINITY_MISMATCH, message, {"nodes": seen.averse})


def _taints(seen: NodeSurvey) -> str:
    """Return in words which taints keep the ask from how many nodes."""
    parts = [
        taint if count == seen.tainted else f"{taint} ({count})"
        for taint, count in sorted(seen.taints.items())
    ]
    return _shortened(parts)


def _causes(seen: NodeSurvey) -> dict[str, Fact]:
    """Return how many nodes taints and the affinity keep an ask from, where there are such."""
    counts = {"averse": seen.averse, "tainted": seen.tainted}
    return {name: count for name, count in counts.items() if count}


def histogram(seen: NodeSurvey) -> str:
    """Return in words what nodes lack of which none has room."""
    if not seen.nodes:
        return "there are no nodes"
    counts = [(seen.unmatched, "does not match", "do not match")]
    counts.append((seen.averse, "does not match its affinity", "do not match its affinity"))
    counts.append((seen.tainted, "has an untolerated taint", "have untolerated taints"))
    counts.append((seen.unschedulable, "is not schedulable", "are not schedulable"))
    counts.append((seen.kept, "is kept for a node service", "are kept for node services"))
    for kinds, number in sorted(seen.lacking.items()):
        lack = f"too little {listed(kinds)}"
        counts.append((number, f"has {lack}", f"have {lack}"))
    parts = ", ".join(counted(*count) for count in counts if count[0])
    message = f"of {counted(seen.nodes, 'node', 'nodes')} {parts}"
    if seen.if_unreserved:
        would = counted(seen.if_unreserved, "node", "nodes")
        message += f"; {would} would have room if nothing were reserved there"
    if seen.closest is None:
        return message
    _, name, lacks = seen.closest
    return f"{message}; {name} is the closest and lacks {amounts(lacks)}"


def _figures(seen: NodeSurvey) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "nodes": seen.nodes,
        "unmatched": seen.unmatched,
        "unschedulable": seen.unschedulable,
        "lacking": {" ".join(kinds): number for kinds, number in sorted(seen.lacking.items())},
    }
    facts |= _causes(seen)
    if seen.kept:
        facts["kept"] = seen.kept
    if seen.if_unreserved:
        facts["if_unreserved"] = seen.if_unreserved
    if seen.closest is not None:
        facts["closest"], facts["closest_lacks"] = seen.closest[1:]
    return facts


Capacity: TypeAlias = frozenset[tuple[str, int]]
"""A capacity as pairs of a type and its amount."""


@final
class _KnownNode(NamedTuple):
    """A node in one of its versions, as a survey counts it."""

    version: int
    free: Mapping[str, int]
    capacity: Capacity


_NEW: Final = _KnownNode(-1, {}, frozenset())
"""The values of a new node."""


@final
class NodeRoom:
    """What room nodes have for shapes; results are kept until a node changes."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._changes = -1
        self._ever: dict[Shape, bool] = {}
        self._late: dict[tuple[Shape, bool], Code | None] = {}
        #: The free amounts of all nodes; no zeros.
        self._free: dict[str, int] = {}
        #: How many nodes have each capacity.
        self._capacities: dict[Capacity, int] = {}
        #: What each node has in these two.
        self._known: dict[Node, _KnownNode] = {}
        self._is_current = False

    def _catch_up(self) -> None:
        changes = self._state.nodes.changes
        if self._changes != changes:
            self._changes = changes
            self._ever.clear()
            self._late.clear()
            self._is_current = False

    def ever_fits(self, shape: Shape) -> bool:
        """Return whether a node could hold an ask of a shape if it were empty."""
        self._catch_up()
        found = self._ever.get(shape)
        if found is None:
            nodes = self._state.nodes.nodes
            if shape.is_choosy or self._state.nodes.tainted:
                found = any(is_large(node, shape) for node in nodes.values())
            else:
                self._look_at_nodes()
                found = any(shape.resources.fits_in(dict(one)) for one in self._capacities)
            self._ever[shape] = found
        return found

    def why_none(self, leaf: LeafView, ask: Ask) -> Code | None:
        """Return the most important reason why no node has room for an ask; None if one has."""
        self._catch_up()
        state = self._state
        service = state.kept_nodes.is_service(leaf, ask)
        if ask.shape.is_choosy or state.nodes.keeps_any or state.nodes.tainted:
            key = (ask.shape, service)
            if key not in self._late:
                seen = survey(state.nodes.nodes.values(), ask.shape, service=service)
                kept = node_kept(state, seen)
                found = next(no_room(ask, seen), None) if kept is None else kept
                self._late[key] = None if found is None else found.code
            return self._late[key]
        bit = state.shapes.find(ask.shape)
        if bit is None or state.nodes.fitting >> bit & 1:
            return None
        self._look_at_nodes()
        return Code.FRAGMENTED if is_in_parts(ask, self._free) else Code.NO_NODE_FITS

    def _look_at_nodes(self) -> None:
        """Update the records of all nodes; only those that have changed cost time."""
        if self._is_current:
            return
        self._is_current = True
        nodes, known = self._state.nodes.nodes, self._known
        for node in [one for one in nodes.values() if known.get(one, _NEW).version != one.version]:
            self._forget(node)
            seen = known[node] = _KnownNode(
                node.version, _free_on(node), frozenset(node.capacity.items())
            )
            add_to(self._free, seen.free)
            self._capacities[seen.capacity] = self._capacities.get(seen.capacity, 0) + 1
        if len(known) > len(nodes):
            for node in [one for one in known if nodes.get(one.name) is not one]:
                self._forget(node)

    def _forget(self, node: Node) -> None:
        seen = self._known.pop(node, None)
        if seen is None:
            return
        take_from(self._free, seen.free)
        left = self._capacities[seen.capacity] - 1
        if left:
            self._capacities[seen.capacity] = left
        else:
            del self._capacities[seen.capacity]


def _free_on(node: Node) -> Mapping[str, int]:
    """Return the free amounts of a node, as a survey counts them; no zeros."""
    if not node.schedulable:
        return {}
    left = {kind: most - node.used.get(kind, 0) for kind, most in node.room.items()}
    return {kind: amount for kind, amount in left.items() if amount > 0}


_MOST_SHOWN: Final = 8
"""How many domains a sentence names."""


# TOPOLOGY-15
def outside_topology(state: ViewState, finder: NodeFinder, turn: Turn) -> PendingReason | None:
    """Return why a pending ask can take none of the nodes that have room for it, or None.

    Args:
        state: The view.
        finder: Finds nodes.
        turn: The ask, for which some node has room.
    """
    gang = None if turn.ask.gang is None else state.gangs[turn.ask.gang]
    standing = None if gang is None else topology_state_of(gang, state.apps)
    if gang is None or standing is None:
        return None
    if finder.find(turn.leaf, turn.app, turn.ask, state.bit_of(turn.ask)) is not None:
        return None
    facts: dict[str, Fact] = {
        "gang": gang.name,
        "rule": standing.topology.rule.value,
        "attribute": standing.topology.attribute,
    }
    problem = _by_rule(state, finder, turn, standing, facts)
    message = f"gang {gang.name} has the topology {standing.topology}, and {problem}"
    return PendingReason(Code.TOPOLOGY, message, facts)


def _by_rule(
    state: ViewState,
    finder: NodeFinder,
    turn: Turn,
    standing: TopologyState,
    facts: dict[str, Fact],
) -> str:
    attribute = standing.topology.attribute
    domains = _domains(state, standing)
    if not domains:
        return f"no node has the attribute {attribute}"
    if standing.topology.rule is TopologyRule.SPREAD:
        facts["members"] = dict(standing.counts)
        return f"no {attribute} takes one more: {_of_spread(domains, standing, turn)}"
    # TOPOLOGY-4
    if standing.home is not None:
        facts["domain"] = standing.home
        lacks = _lacks(domains.get(standing.home, ()), turn)
        return f"its members are in {attribute} {standing.home}, where {lacks}"
    # TOPOLOGY-11
    needed, rooms = finder.choice.rooms(Member(turn.app, turn.ask), standing)
    facts["needed"], facts["room"] = needed, rooms
    if needed == 1:
        return f"no {attribute} has room for it: only nodes without the attribute have"
    parts = _shortened([f"{name} for {number}" for name, number in rooms.items()])
    return (
        f"no {attribute} has room for the {needed} members that it needs together: "
        f"{f'there is room in {parts}' if parts else 'none has a schedulable node'}"
    )


def _domains(state: ViewState, standing: TopologyState) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in state.nodes.nodes.values():
        domain = standing.domain_of(node)
        if domain is not None:
            found.setdefault(domain, []).append(node)
    return dict(sorted(found.items()))


def _of_spread(domains: dict[str, list[Node]], standing: TopologyState, turn: Turn) -> str:
    parts: list[str] = []
    for name, nodes in domains.items():
        holds = counted(standing.counts.get(name, 0), "member", "members")
        why = "as many as it may" if standing.lets(nodes[0]) is False else _lacks(nodes, turn)
        parts.append(f"{name} holds {holds} ({why})")
    return _shortened(parts)


def _lacks(nodes: Iterable[Node], turn: Turn) -> str:
    return histogram(survey(nodes, turn.ask.shape))


def _shortened(parts: list[str]) -> str:
    """Join parts; leave out those beyond the number that a reader looks at."""
    left = len(parts) - _MOST_SHOWN
    return ", ".join([*parts[:_MOST_SHOWN], *([f"{left} more"] if left > 0 else [])])
