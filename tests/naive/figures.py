"""The names and figures of each reason, as the specification has them, counted anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from muster_core.config.model import PreemptionPolicy
from muster_core.gangs import TopologyRule
from muster_core.reasons import Code, Reserved
from tests.naive import back_off, claims, order, user_limits
from tests.naive.backfill import outlooks, reservations
from tests.naive.backfill.parties import party_of
from tests.naive.filters import lacks
from tests.naive.gangs import group_of, holding, members
from tests.naive.moment import Moment, could_hold
from tests.naive.node_choice import first_node
from tests.naive.permits import constrained, has_enough
from tests.naive.state import App, Ask, Gang, lineage
from tests.naive.topology.choice import rooms
from tests.naive.topology.domains import domains, homes, topology_of
from tests.naive.waits import deadline

Figures = Mapping[str, object]

BACKING_OFF: Final = "BackingOff"
"""The code of an ask that is not tried because its last bind failed a short while ago."""

UNDEFINED = -1
"""What stands for the number of members that a gang lacks of which nobody knows it."""


def figures_of(moment: Moment, ask: Ask, code: str) -> Figures:
    """Give what is to be told of a reason that holds for an ask."""
    _, find = _FIGURES[code]
    return find(moment, ask)


def told(code: str) -> frozenset[str]:
    """Give the names of what is to be told of a reason; of some not each time."""
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
    """Give how many more members of each gang of a group have to hold nodes."""
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
    nodes, matching = moment.world.nodes.values(), moment.matching(ask)
    if not any(could_hold(node, ask) for node in matching):
        figures["nodes"], figures["unmatched"] = len(nodes), len(nodes) - len(matching)
        most = {name: [node.capacity[name] for node in matching] for name in ask.wants}
        figures["largest"] = {name: max(found) for name, found in most.items() if found}
    return figures


def _limited(moment: Moment, ask: Ask) -> Iterator[tuple[str, str, int]]:
    """Give every ``max`` on the path of an ask, of a type that it wants."""
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
    """Give the first node that is kept, by name."""
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
    """Give the application that competes beside those that run, or keeps others out."""
    starting = [app for app in apps if app.state == "Starting"]
    return next((app for app in [*kept, *starting] if app.state != "Running"), None)


def _failed_member(moment: Moment, ask: Ask) -> Figures:
    figures = {"gang": ask.gang, "failed": moment.world.gangs[ask.gang or ""].failed}
    group = group_of(moment.world, ask.gang or "").names
    found = outlooks.for_group(moment.world, group)
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
    delayed = None if node is None else reservations.first_delayed(moment.world, ask, node)
    if node is None or delayed is None:
        return {}
    first, reserved = delayed.nodes[0]
    start_us = delayed.start.start_us
    return {"node": node.name, "delays": first.full, "reserved": reserved, "start_us": start_us}


def _back_off(moment: Moment, ask: Ask) -> Figures:
    end_us = back_off.ends(moment.world, ask)
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
    world, matching = moment.world, moment.matching(ask)
    lacking: dict[str, int] = {}
    for node in moment.open_to(ask):
        kinds = " ".join(sorted(lacks(moment.picture, node, ask)))
        lacking[kinds] = lacking.get(kinds, 0) + 1
    return {
        "nodes": len(world.nodes),
        "unmatched": len(world.nodes) - len(matching),
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
    then_us = claims.delay_ends(moment.world, ask)
    claim = claims.reclaim(moment.picture, ask, then_us)
    claimant = claim.claimant if isinstance(claim, claims.Reclaim) else None
    return {"claimant": claimant, "preempts": ask.preempts}


def _ways(moment: Moment, ask: Ask) -> Figures:
    """Give what reclaim and preemption could do; nothing of an ask that is a node service alone."""
    found = _claims(moment, ask)
    settings = moment.world.queues[ask.app.queue].settings
    closed = settings.preemption_policy is PreemptionPolicy.DISABLED
    return {} if closed or not any(found.values()) else found


def _delay(moment: Moment, ask: Ask) -> Figures:
    left_us = claims.delay_ends(moment.world, ask) - moment.now_us
    return {**_claims(moment, ask), "left_us": left_us}


def _first(moment: Moment, _: Ask) -> Figures:
    return {"first": None if moment.first is None else moment.first.full}


def _draining(moment: Moment, ask: Ask) -> Figures:
    path = [here for here in lineage(ask.app.queue) if moment.world.queues[here].draining]
    return {"queue": path[-1]}


def _user(_: Moment, ask: Ask) -> Figures:
    return {"queue": ask.app.queue, "user": ask.app.user}


_FIGURES: Final[dict[str, tuple[str, Callable[[Moment, Ask], Figures]]]] = {
    Code.PERMIT_WAITING: ("gang held min_member lacking left_us", _waiting),
    Code.GANG_TIMED_OUT: ("gang", _name),
    Code.GANG_UNDEFINED: ("gang", _name),
    Code.GANG_TOO_FEW_MEMBERS: ("gang min_member members", _gang),
    Code.GANG_SURPLUS: ("gang min_member members held lacking", _surplus),
    Code.NEVER_FITS: ("max nodes unmatched largest", _never_fits),
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
    Code.NO_NODE_FITS: ("nodes unmatched unschedulable lacking", _histogram),
    Code.TOPOLOGY: ("gang rule attribute members domain needed room", _topology),
    Code.PREEMPTION_DELAY: ("claimant preempts left_us", _delay),
    Code.RECLAIM_INSUFFICIENT: ("claimant preempts", _ways),
    Code.NOT_YOUR_TURN: ("first", _first),
    Code.DRAINING: ("queue", _draining),
    Code.USER_NOT_ALLOWED: ("queue user", _user),
}
