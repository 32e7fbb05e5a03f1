"""Why no node with room is where its gang lets a member be (TOPOLOGY-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.gangs.topology import TopologyRule
from muster_core.values.reasons import Code, PendingReason
from muster_core.view.gangs.member import Member
from muster_core.view.gangs.standing import standing_in
from muster_core.view.reasons import room
from muster_core.view.reasons.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.nodes.node import Node
    from muster_core.values.reasons import Fact
    from muster_core.view.gangs.standing import Standing
    from muster_core.view.reasons.turns import Turn
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.topology.node_finder import NodeFinder

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_TOPOLOGY: Final = Code.TOPOLOGY
_SPREAD: Final = TopologyRule.SPREAD

_MOST: Final = 8
"""How many domains a sentence names."""


# TOPOLOGY-15
def why_not(state: ViewState, finder: NodeFinder, turn: Turn) -> PendingReason | None:
    """Return why a pending ask can take none of the nodes that have room for it, or None.

    Args:
        state: The view.
        finder: Finds nodes.
        turn: The ask, for which some node has room.
    """
    gang = None if turn.ask.gang is None else state.gangs[turn.ask.gang]
    standing = None if gang is None else standing_in(gang, state.apps)
    if gang is None or standing is None:
        return None
    if finder.find(turn.leaf, turn.app, turn.ask, state.bit_of(turn.ask)) is not None:
        return None
    facts: dict[str, Fact] = {
        "gang": gang.name,
        "rule": standing.topology.rule.value,
        "attribute": standing.topology.attribute,
    }
    said = _why(state, finder, turn, standing, facts)
    message = f"gang {gang.name} has the topology {standing.topology}, and {said}"
    return PendingReason(_TOPOLOGY, message, facts)


def _why(
    state: ViewState,
    finder: NodeFinder,
    turn: Turn,
    standing: Standing,
    facts: dict[str, Fact],
) -> str:
    attribute = standing.topology.attribute
    domains = _domains(state, standing)
    if not domains:
        return f"no node has the attribute {attribute}"
    if standing.topology.rule is _SPREAD:
        facts["members"] = dict(standing.counts)
        return f"no {attribute} takes one more: {_of_spread(domains, standing, turn)}"
    # TOPOLOGY-4
    if standing.home is not None:
        facts["domain"] = standing.home
        lacks = _lacks(domains.get(standing.home, ()), turn)
        return f"its members are in {attribute} {standing.home}, where {lacks}"
    # TOPOLOGY-11
    needed, rooms = finder.rooms(Member(turn.app, turn.ask), standing)
    facts["needed"], facts["room"] = needed, rooms
    if needed == 1:
        return f"no {attribute} has room for it: only nodes without the attribute have"
    parts = _shortened([f"{name} for {number}" for name, number in rooms.items()])
    return (
        f"no {attribute} has room for the {needed} members that it needs together: "
        f"{f'there is room in {parts}' if parts else 'none has a schedulable node'}"
    )


def _domains(state: ViewState, standing: Standing) -> dict[str, list[Node]]:
    """Return the nodes of each domain, by value."""
    found: dict[str, list[Node]] = {}
    for node in state.nodes.nodes.values():
        domain = standing.domain_of(node)
        if domain is not None:
            found.setdefault(domain, []).append(node)
    return dict(sorted(found.items()))


def _of_spread(domains: dict[str, list[Node]], standing: Standing, turn: Turn) -> str:
    parts: list[str] = []
    for name, nodes in domains.items():
        holds = counted(standing.counts.get(name, 0), "member", "members")
        why = "as many as it may" if standing.lets(nodes[0]) is False else _lacks(nodes, turn)
        parts.append(f"{name} holds {holds} ({why})")
    return _shortened(parts)


def _lacks(nodes: Iterable[Node], turn: Turn) -> str:
    """Return what nodes lack that have no room for an ask."""
    return room.histogram(room.survey(nodes, turn.ask.shape))


def _shortened(parts: list[str]) -> str:
    """Join parts; leave out those beyond the number that a reader looks at."""
    left = len(parts) - _MOST
    return ", ".join([*parts[:_MOST], *([f"{left} more"] if left > 0 else [])])
