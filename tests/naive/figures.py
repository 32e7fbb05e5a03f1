"""The names and figures of each reason, as the specification has them, counted anew at the end of
a batch.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, final

from muster_core.config.model import PreemptionPolicy, SchedulingOrder
from muster_core.gangs import TopologyRule
from muster_core.reasons import Code, Reserved
from tests.naive import (
    affinity,
    evictions,
    gangs,
    node_choice,
    order,
    order as user_limits,
    rounds,
    state,
)
from tests.naive.gangs import constrained, deadline, group_of, has_enough, holding, members
from tests.naive.node_choice import first_node, is_chosen, lacks, may_stand, rooms
from tests.naive.order import domains, homes, topology_of
from tests.naive.picture import Picture
from tests.naive.rounds import may_be_helped, party_of, staying
from tests.naive.state import (
    ROOT,
    App,
    Ask,
    Gang,
    Node,
    Reservation,
    World,
    awake,
    backs_off,
    lineage,
    release_of,
    scope_of,
)


@final
class Moment:
    """The state at the end of a batch, and whom the next round would turn to.

    Args:
        world: The state.
        now_us: The instant of the batch, in microseconds since the start.
    """

    def __init__(self, world: World, now_us: int) -> None:
        self.world = world
        self.now_us = now_us
        self.picture = Picture(world)

    @cached_property
    def first(self) -> Ask | None:
        """What would be tried first in the next round, where no cycle is invalid."""
        return self._first_below(ROOT)

    def _first_below(self, path: str) -> Ask | None:
        if not self.picture.enters(path):
            return None
        for child in order.children(self.picture, path):
            found = self._first_below(child.path)
            if found is not None:
                return found
        return self.first_of_leaf(path)

    def first_of_leaf(self, path: str) -> Ask | None:
        """Return the first ask of a leaf that PreFilter lets through, whatever fits."""
        return next(iter(self.tried_in(path)), None)

    def blocked_with(self, ask: Ask) -> str | None:
        """Return the path of the strict scope or the blocking leaf that an ask is in."""
        leaf = self.world.queues[ask.app.queue]
        scope = scope_of(self.world, leaf.path)
        if scope is not None and scope.settings.scheduling_order is SchedulingOrder.STRICT:
            return scope.path
        return leaf.path if leaf.settings.blocking else None

    def first_that_blocks(self, path: str) -> Ask | None:
        """Return the first ask that blocks a leaf or scope unless it fits: no limit keeps it."""
        tried = (ask for ask in self.tried_below(path) if not user_limits.over(self.picture, ask))
        return next(tried, None)

    def tried_below(self, path: str) -> Iterator[Ask]:
        """Yield the asks of a leaf, or of the queues that enter below one, as they are tried."""
        for child in order.children(self.picture, path):
            yield from self.tried_below(child.path)
        yield from self.tried_in(path)

    def tried_in(self, path: str) -> Iterator[Ask]:
        """Yield the asks of a leaf that may be picked and pass PreFilter, whatever fits."""
        for app in order.applications(self.picture, path):
            for ask in awake(self.world, order.asks(self.picture, app)):
                if gang_code(self.world, ask) is None:
                    yield ask

    def competes(self, ask: Ask) -> bool:
        """Return whether a round turns to an ask at all, if its queue enters."""
        if backs_off(self.world, ask):
            return False
        applications = order.applications(self.picture, ask.app.queue)
        return ask.app in applications and gang_code(self.world, ask) is None

    def is_looked_at(self, ask: Ask) -> bool:
        """Return whether reclaim and preemption look at an ask: overused queues included."""
        gang = gangs.constrained(self.world, ask)
        if gang is not None and not may_be_helped(self.world, group_of(self.world, gang.name)):
            return False
        if user_limits.over(self.picture, ask):
            return False
        return ask in self.candidates

    @cached_property
    def candidates(self) -> list[Ask]:
        """Return the asks at which reclaim and preemption look, whatever they may take."""
        return evictions.candidates(self.picture)

    def free(self, node: Node, name: str) -> int:
        """Return how much of a type is free on a node; one that has less than it gave has none."""
        return max(0, node.for_asks(name) - self.picture.used[node.name].get(name, 0))

    def matching(self, ask: Ask) -> list[Node]:
        """Return the nodes on which an ask may stand, schedulable or not."""
        return [node for node in self.world.nodes.values() if may_stand(node, ask)]

    def chosen(self, ask: Ask) -> list[Node]:
        """Return the nodes that an ask requires and selects, before its affinity and taints."""
        return [node for node in self.world.nodes.values() if is_chosen(node, ask)]

    def tainted(self, ask: Ask) -> list[Node]:
        """Return the nodes that only taints keep from an ask, apart from room."""
        return [
            node
            for node in self.chosen(ask)
            if affinity.wanted(node, ask) and affinity.keeping_off(node, ask)
        ]

    def open_to(self, ask: Ask) -> list[Node]:
        """Return the schedulable ones of them that no node service keeps from it."""
        return [
            node
            for node in self.matching(ask)
            if node.schedulable and node_choice.is_open(self.world, node, ask)
        ]

    def kept_from(self, ask: Ask) -> list[Node]:
        """Return the nodes on which an ask would fit if no node service kept them."""
        open_nodes = self.open_to(ask)
        return [
            node
            for node in self.matching(ask)
            if node.schedulable and node not in open_nodes and not lacks(self.picture, node, ask)
        ]


def could_hold(node: Node, ask: Ask) -> bool:
    """Return whether a node has what an ask wants, whatever is used of it."""
    return all(node.capacity[name] >= value for name, value in ask.wants.items())


def gang_code(world: World, ask: Ask) -> Code | None:
    """Return why PreFilter refuses an ask, whatever its cycle; None if it does not."""
    gang = gangs.constrained(world, ask)
    if gang is None:
        return None
    definition = gang.definition
    if definition is None:
        return Code.GANG_UNDEFINED
    if len(members(world, gang)) < definition.min_member:
        return Code.GANG_TOO_FEW_MEMBERS
    if holding(world, gang) >= definition.min_member:
        return Code.GANG_SURPLUS
    return None


def for_ask(world: World, ask: Ask) -> Reserved | None:
    """Return what is reserved for a pending ask, or for others of its group."""
    own = [one for one in world.reserved if ask in one.asks]
    if own:
        return _last_reserved(world, own)
    gang = gangs.constrained(world, ask)
    return None if gang is None else for_group(world, group_of(world, gang.name).names)


def for_group(world: World, names: frozenset[str]) -> Reserved | None:
    """Return what is reserved for what a group lacks."""
    own = [one for one in world.reserved if one.group == names]
    return _last_reserved(world, own) if own else None


def _last_reserved(world: World, some: Iterable[Reservation]) -> Reserved:
    """Return the figures of the reservation whose scope has the last path."""
    one = max(some, key=lambda one: one.scope)
    places = tuple((ask.full, node) for ask, node in one.nodes)
    waits_for = tuple((ask.full, ask.node or "") for ask in _ending(world, one))
    return Reserved(one.scope, one.start.start_us, places, waits_for)


def _ending(world: World, one: Reservation) -> list[Ask]:
    """Return the asks with whose end it starts: those on its nodes, or else all."""
    held = {ask for ask in world.asks() if ask.held} - staying(world, one.group)
    start = one.start
    making = {ask for ask in held if release_of(world, ask) == start}
    if start.is_unknown:
        # Every known end is before it.
        ends = {ask: release_of(world, ask) for ask in held}
        making = {ask for ask, at in ends.items() if at.is_unknown and at <= start}
    nodes = {node for _, node in one.nodes}
    found = {ask for ask in making if ask.node in nodes} or making
    return sorted(found, key=lambda ask: (release_of(world, ask), ask.held_order))


Figures = Mapping[str, object]

BACKING_OFF: Final = "BackingOff"
"""The code of an ask that is not tried because its last bind failed a short while ago."""

UNDEFINED = -1
"""The number of members that a gang lacks, where it is unknown."""


def figures_of(moment: Moment, ask: Ask, code: str) -> Figures:
    """Return the figures of a reason that holds for an ask."""
    _, find = _FIGURES[code]
    return find(moment, ask)


def figure_names(code: str) -> frozenset[str]:
    """Return the names of the figures that a reason may have."""
    names, _ = _FIGURES[code]
    return frozenset(names.split())


def _name(_: Moment, ask: Ask) -> Figures:
    return {"gang": ask.gang}


def _waiting(moment: Moment, ask: Ask) -> Figures:
    gang = moment.world.gangs[ask.gang or ""]
    definition, group = gang.definition, group_of(moment.world, gang.name)
    ends = [deadline(moment.world, one) for one in group.gangs]
    due_us = min((end for end in ends if end is not None), default=None)
    figures: dict[str, object] = {
        "gang": gang.name,
        "held": holding(moment.world, gang),
        "min_member": None if definition is None else definition.min_member,
        "lacking": _lacking(moment, gang),
    }
    if due_us is not None:
        figures["left_us"] = max(0, due_us - moment.now_us)
    return figures


def _surplus(moment: Moment, ask: Ask) -> Figures:
    gang = moment.world.gangs[ask.gang or ""]
    held = holding(moment.world, gang)
    return {**_gang(moment, ask), "held": held, "lacking": _lacking(moment, gang)}


def _gang(moment: Moment, ask: Ask) -> Figures:
    gang = moment.world.gangs[ask.gang or ""]
    definition = gang.definition
    least = None if definition is None else definition.min_member
    return {"gang": gang.name, "min_member": least, "members": len(members(moment.world, gang))}


def _lacking(moment: Moment, gang: Gang) -> dict[str, int]:
    """Return how many more members of each gang of a group have to hold nodes."""
    world, lacking = moment.world, dict[str, int]()
    for name in group_of(world, gang.name).names:
        one = world.gangs.get(name)
        definition = None if one is None else one.definition
        if one is None or definition is None:
            lacking[name] = UNDEFINED
        elif not has_enough(world, one):
            lacking[name] = max(0, definition.min_member - holding(world, one))
    return lacking


def _never_fits(moment: Moment, ask: Ask) -> Figures:
    figures: dict[str, object] = {}
    over = {
        f"{path} {name}": limit
        for path, name, limit in _limited(moment, ask)
        if ask.wants[name] > limit
    }
    if over:
        figures["max"] = over
    matching = moment.matching(ask)
    if not any(could_hold(node, ask) for node in matching):
        figures |= _apart(moment, ask)
        most = {name: [node.capacity[name] for node in matching] for name in ask.wants}
        figures["largest"] = {name: max(found) for name, found in most.items() if found}
    return figures


def _apart(moment: Moment, ask: Ask) -> dict[str, object]:
    """Count the nodes on which an ask may not stand, by cause."""
    nodes, chosen = moment.world.nodes, moment.chosen(ask)
    averse = [node for node in chosen if not affinity.wanted(node, ask)]
    tainted = moment.tainted(ask)
    figures: dict[str, object] = {"nodes": len(nodes), "unmatched": len(nodes) - len(chosen)}
    figures |= {"averse": len(averse)} if averse else {}
    return figures | ({"tainted": len(tainted)} if tainted else {})


def _taints(moment: Moment, ask: Ask) -> Figures:
    nodes = moment.tainted(ask)
    each = [{str(taint) for taint in affinity.keeping_off(node, ask)} for node in nodes]
    return {"nodes": len(nodes), "taints": dict(Counter(itertools.chain(*each)))}


def _averse(moment: Moment, ask: Ask) -> Figures:
    return {"nodes": _apart(moment, ask)["averse"]}


def _limited(moment: Moment, ask: Ask) -> Iterator[tuple[str, str, int]]:
    """Yield every ``max`` on the path of an ask, of a type that it wants."""
    for path in lineage(ask.app.queue):
        for name, limit in moment.world.queues[path].limits.items():
            if name in ask.wants:
                yield path, name, limit


def _left(moment: Moment, ask: Ask) -> Figures:
    left: dict[str, int] = {}
    for path, name, limit in _limited(moment, ask):
        room = limit - moment.picture.allocated[path].get(name, 0)
        if room < ask.wants[name] <= limit:
            left[f"{path} {name}"] = max(0, room)
    return {"left": left}


def _limits(moment: Moment, ask: Ask) -> Figures:
    paths = moment.picture.full_above(ask.app)
    limits = {path: moment.world.queues[path].max_applications for path in paths}
    return {"maxapplications": limits}


def _user_limit(moment: Moment, ask: Ask) -> Figures:
    first = user_limits.against(moment.picture, ask, Code.USER_LIMIT)[0]
    return {"user": first.name, "queue": first.path}


def _group_limit(moment: Moment, ask: Ask) -> Figures:
    first = user_limits.against(moment.picture, ask, Code.GROUP_LIMIT)[0]
    return {"group": first.name, "queue": first.path}


def _kept(moment: Moment, ask: Ask) -> Figures:
    """Return the first node that is kept, by name."""
    return {"node": min(node.name for node in moment.kept_from(ask))}


def _turn(moment: Moment, ask: Ask) -> Figures:
    leaf = ask.app.queue
    apps = moment.picture.apps(leaf)
    by_priority = moment.world.queues[leaf].settings.sort_by_priority
    kept = order.state_aware(moment.picture, apps, by_priority=by_priority)
    first = turn_of(apps, kept)
    assert first is not None, "it would be nobody's turn but its own"
    return {"state": ask.app.state, "first": first.name, "first_state": first.state}


def turn_of(apps: list[App], kept: list[App]) -> App | None:
    """Return the application that competes beside those that run, or keeps others out."""
    starting = [app for app in apps if app.state == "Starting"]
    return next((app for app in [*kept, *starting] if app.state != "Running"), None)


def _failed_member(moment: Moment, ask: Ask) -> Figures:
    figures = {"gang": ask.gang, "failed": moment.world.gangs[ask.gang or ""].failed}
    group = group_of(moment.world, ask.gang or "").names
    found = for_group(moment.world, group)
    return figures if found is None else {**figures, **_reserved(found)}


def _reserved(found: Reserved) -> Figures:
    return {
        "reserved": tuple(dict.fromkeys(node for _, node in found.places)),
        "start_us": found.start_us,
        "waits_for": tuple(name for name, _ in found.waits_for),
    }


def _behind(moment: Moment, ask: Ask) -> Figures:
    path = moment.blocked_with(ask)
    first = None if path is None else moment.first_that_blocks(path)
    return {"behind": None if first is None else first.full}


def _delays(moment: Moment, ask: Ask) -> Figures:
    node = first_node(moment.picture, ask)
    delayed = None if node is None else rounds.first_delayed(moment.world, ask, node)
    if node is None or delayed is None:
        return {}
    first, reserved = delayed.nodes[0]
    start_us = delayed.start.start_us
    return {"node": node.name, "delays": first.full, "reserved": reserved, "start_us": start_us}


def _back_off(moment: Moment, ask: Ask) -> Figures:
    end_us = state.ends(moment.world, ask)
    return {"left_us": None if end_us is None else end_us - moment.now_us}


def _failed_bind(_: Moment, ask: Ask) -> Figures:
    return {"node": ask.failed_on}


def _free(moment: Moment, ask: Ask) -> Figures:
    nodes = moment.open_to(ask)
    free = {name: sum(moment.free(node, name) for node in nodes) for name in ask.wants}
    figures: dict[str, object] = {"free": free, "nodes": len(nodes)}
    gang = constrained(moment.world, ask)
    if gang is not None and group_of(moment.world, gang.name).strict:
        party = party_of(moment.world, ask)
        if party is not None and len(party.asks) > 1:
            kinds = {name for one in party.asks for name in one.wants}
            figures["lacks"] = {
                name: sum(one.wants.get(name, 0) for one in party.asks) for name in kinds
            }
    return figures


def _histogram(moment: Moment, ask: Ask) -> Figures:
    matching = moment.matching(ask)
    lacking: dict[str, int] = {}
    for node in moment.open_to(ask):
        kinds = " ".join(sorted(lacks(moment.picture, node, ask)))
        lacking[kinds] = lacking.get(kinds, 0) + 1
    free_of_others = [
        node
        for node in moment.open_to(ask)
        if node.reserved and not lacks(moment.picture, node, ask, of_all=True)
    ]
    return {
        **({"if_unreserved": len(free_of_others)} if free_of_others else {}),
        **_apart(moment, ask),
        "unschedulable": sum(not node.schedulable for node in matching),
        "lacking": lacking,
    }


def _topology(moment: Moment, ask: Ask) -> Figures:
    topology = topology_of(moment.picture, ask)
    assert topology is not None, "nothing but a topology keeps it off"
    figures: dict[str, object] = {
        "gang": ask.gang,
        "rule": topology.rule.value,
        "attribute": topology.attribute,
    }
    held = homes(moment.picture, ask)
    if not domains(moment.picture, topology):
        return figures
    if topology.rule is TopologyRule.SPREAD:
        figures["members"] = {domain: held.count(domain) for domain in held}
    elif held:
        figures["domain"] = held[0]
    else:
        figures["needed"], figures["room"] = rooms(moment.picture, ask, topology)
    return figures


def _claims(moment: Moment, ask: Ask) -> Figures:
    then_us = evictions.delay_ends(moment.world, ask)
    claim = evictions.reclaim(moment.picture, ask, then_us)
    claimant = claim.claimant if isinstance(claim, evictions.Reclaim) else None
    return {"claimant": claimant, "preempts": ask.preempts}


def _ways(moment: Moment, ask: Ask) -> Figures:
    """Return what reclaim and preemption could do; nothing for an ask that is a node service."""
    found = _claims(moment, ask)
    settings = moment.world.queues[ask.app.queue].settings
    closed = settings.preemption_policy is PreemptionPolicy.DISABLED
    return {} if closed or not any(found.values()) else found


def _delay(moment: Moment, ask: Ask) -> Figures:
    left_us = evictions.delay_ends(moment.world, ask) - moment.now_us
    return {**_claims(moment, ask), "left_us": left_us}


def _first(moment: Moment, _: Ask) -> Figures:
    return {"first": None if moment.first is None else moment.first.full}


def _draining(moment: Moment, ask: Ask) -> Figures:
    path = [prefix for prefix in lineage(ask.app.queue) if moment.world.queues[prefix].draining]
    return {"queue": path[-1]}


def _user(_: Moment, ask: Ask) -> Figures:
    return {"queue": ask.app.queue, "user": ask.app.user}


_FIGURES: Final[dict[str, tuple[str, Callable[[Moment, Ask], Figures]]]] = {
    Code.PERMIT_WAITING: ("gang held min_member lacking left_us", _waiting),
    Code.GANG_TIMED_OUT: ("gang", _name),
    Code.GANG_UNDEFINED: ("gang", _name),
    Code.GANG_TOO_FEW_MEMBERS: ("gang min_member members", _gang),
    Code.GANG_SURPLUS: ("gang min_member members held lacking", _surplus),
    Code.NEVER_FITS: ("max nodes unmatched averse tainted largest", _never_fits),
    Code.QUEUE_MAX: ("left", _left),
    Code.USER_LIMIT: ("user queue", _user_limit),
    Code.GROUP_LIMIT: ("group queue", _group_limit),
    Code.QUEUE_MAX_APPS: ("maxapplications", _limits),
    Code.STATE_AWARE_TURN: ("state first first_state", _turn),
    Code.BLOCKED: ("behind", _behind),
    Code.GANG_CYCLE_INVALID: ("gang failed reserved start_us waits_for", _failed_member),
    BACKING_OFF: ("left_us", _back_off),
    Code.BIND_FAILED: ("node", _failed_bind),
    Code.NODE_KEPT: ("node", _kept),
    Code.HELD_BACK: ("node delays reserved start_us", _delays),
    Code.FRAGMENTED: ("free nodes lacks", _free),
    Code.NO_NODE_FITS: (
        "nodes unmatched averse tainted unschedulable lacking if_unreserved",
        _histogram,
    ),
    Code.NODES_TAINTED: ("nodes taints", _taints),
    Code.AFFINITY_MISMATCH: ("nodes", _averse),
    Code.TOPOLOGY: ("gang rule attribute members domain needed room", _topology),
    Code.PREEMPTION_DELAY: ("claimant preempts left_us", _delay),
    Code.RECLAIM_INSUFFICIENT: ("claimant preempts", _ways),
    Code.NOT_YOUR_TURN: ("first", _first),
    Code.DRAINING: ("queue", _draining),
    Code.USER_NOT_ALLOWED: ("queue user", _user),
}
