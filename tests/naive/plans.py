"""What one ask would take on which node, in the naive model; nothing is changed here."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from muster_core.snapshots import AskPlace
from tests.naive.claims import Claim
from tests.naive.filters import lacks, matches
from tests.naive.gangs import group_of, members, waiting
from tests.naive.picture import Picture
from tests.naive.services import is_open
from tests.naive.state import Ask, Gang, Node, World, lineage
from tests.naive.takings import alike
from tests.naive.topology.choice import nodes_of_plans

Unit = tuple[Ask, ...]
"""What goes together, in the order of victims."""


@attrs.frozen
class Plan:
    """What is to be done for an ask.

    Attributes:
        claim: What it may take.
        node: Where it is to be placed.
        victims: What goes, in the order in which it was taken.
    """

    claim: Claim
    node: Node
    victims: tuple[Ask, ...]


def plan_for(claim: Claim) -> Plan | None:
    """Give the best plan for an ask that fits nowhere, or None if no node works."""
    plans: list[tuple[tuple[object, ...], Plan]] = []
    for place, node in enumerate(nodes_of_plans(Picture(claim.world), claim.ask)):
        may = matches(node, claim.ask) and is_open(claim.world, node, claim.ask)
        lost = (alike(claim.ask), node.name) in claim.world.lost
        units = _taken_on(claim, node) if may and not lost else None
        if units is None:
            continue
        victims = tuple(ask for unit in _spared(claim, node, units) for ask in unit)
        claim.world.reached["victims by devices"] += any(
            set(one.devices or ()) & set(claim.ask.needs) for one in victims
        )
        highest = max(claim.rank(victim) for victim in victims)
        plans.append(((highest, len(victims), place), Plan(claim, node, victims)))
    return min(plans, key=lambda one: one[0])[1] if plans else None


def fits(picture: Picture, node: Node, ask: Ask) -> bool:
    """Say whether an ask has room on a node and in the quotas above it."""
    return not lacks(picture, node, ask) and picture.fits_headroom(ask)


def _gone(units: Sequence[Unit]) -> set[Ask]:
    return {ask for unit in units for ask in unit}


def _taken_on(claim: Claim, node: Node) -> list[Unit] | None:
    """Take the first useful unit again and again, until the ask fits; None if it never does."""
    taken: list[Unit] = []
    while not fits(Picture(claim.world, _gone(taken)), node, claim.ask):
        unit = _first_unit(claim, node, _gone(taken))
        if unit is None:
            return None
        taken.append(unit)
    return taken


def _first_unit(claim: Claim, node: Node, gone: set[Ask]) -> Unit | None:
    """Give the first unit in order that is useful and may be taken, once others are gone."""
    picture = Picture(claim.world, gone)
    held = [ask for ask in claim.world.asks() if ask.held and ask not in gone]
    scope = [ask for ask in held if claim.in_scope(ask)]
    scope.sort(key=lambda ask: claim.order(picture, ask))
    for first in scope:
        unit = _unit_of(claim.world, first, gone)
        if not unit <= set(scope):
            continue
        useful = any(_is_useful(picture, node, claim.ask, ask) for ask in unit)
        if useful and all(claim.may_lose(picture, ask, list(unit)) for ask in unit):
            return tuple(ask for ask in scope if ask in unit)
    return None


def _is_useful(picture: Picture, node: Node, ask: Ask, victim: Ask) -> bool:
    """Say whether a victim has something of what an ask lacks."""
    if victim.node == node.name and lacks(picture, node, ask) & set(victim.wants):
        return True
    for path in lineage(ask.app.queue):
        used, limits = picture.allocated[path], picture.world.queues[path].limits
        if path not in lineage(victim.app.queue):
            continue
        for name, value in ask.wants.items():
            limit = limits.get(name)
            if limit is not None and used.get(name, 0) + value > limit and name in victim.wants:
                return True
    return False


def _unit_of(world: World, ask: Ask, gone: set[Ask]) -> set[Ask]:
    """Give what goes with an ask, itself included, once others are gone."""
    gang = None if ask.gang is None else world.gangs[ask.gang]
    if gang is None:
        return {ask}
    if ask.place is AskPlace.WAITING:
        return set(waiting(world, *group_of(world, gang.name).gangs)) - gone
    bound = _bound(world, gang) - gone
    definition = gang.definition
    if not gang.satisfied or definition is None or len(bound) > definition.min_member:
        return {ask}
    return bound


def _bound(world: World, gang: Gang) -> set[Ask]:
    return {ask for ask in members(world, gang) if ask.place is AskPlace.BOUND}


def _spared(claim: Claim, node: Node, taken: Sequence[Unit]) -> list[Unit]:
    """Leave out, from the last to the first, what need not go."""
    kept = list(taken)
    for unit in reversed(taken):
        rest = [other for other in kept if other is not unit]
        still_fits = fits(Picture(claim.world, _gone(rest)), node, claim.ask)
        if still_fits and not _halves_a_gang(claim.world, _gone(rest)):
            kept = rest
    return kept


def _halves_a_gang(world: World, gone: set[Ask]) -> bool:
    """Say whether some of a gang go, but neither all of it nor what it can spare."""
    for gang in world.gangs.values():
        bound, definition = _bound(world, gang), gang.definition
        if definition is None or not gang.satisfied or not bound & gone:
            continue
        if 0 < len(bound - gone) < definition.min_member:
            return True
    return False
