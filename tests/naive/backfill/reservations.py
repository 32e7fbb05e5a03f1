"""Reservations of a round: sought for who did not fit, kept, and not delayed by others.

P(x) is the present state without the asks that are released up to the instant x, with the
parties of some reservations on their nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager

from muster_core.snapshots import AskPlace
from tests.naive import order, permits
from tests.naive.backfill.estimates import estimate_us, instants, is_after_now, released_by
from tests.naive.backfill.parties import Party, is_own, party_of, staying
from tests.naive.backfill.scopes import backfill_scope
from tests.naive.devices.rooms import taken_anyway
from tests.naive.gangs import group_of
from tests.naive.node_choice import fits_on, fitting
from tests.naive.picture import Picture
from tests.naive.state import Ask, Instant, Node, Reservation, Searches, World

Nodes = tuple[tuple[Ask, str], ...]
"""Who gets which node, one after another."""


def begin_round(world: World) -> None:
    """Begin a round, in which nothing is reserved yet."""
    world.reserved_before, world.reserved = world.reserved, []
    world.searches.append(Searches(world.moves))


def undelayed(world: World, ask: Ask) -> Callable[[Node], bool]:
    """Give what says of a node on which an ask fits whether it delays no reservation there."""
    return lambda node: first_delayed(world, ask, node) is None


def first_delayed(world: World, ask: Ask, node: Node) -> Reservation | None:
    """Give the first reservation that an ask would delay on a node on which it fits."""
    scope = backfill_scope(world, ask)
    others = [] if scope is None else in_force(world, scope.path)
    return next((one for one in others if _delays(world, one, ask, node)), None)


def in_force(world: World, scope: str) -> list[Reservation]:
    """Give the reservations of a scope that are in force now."""
    return [one for one in world.reserved if one.scope == scope]


def seek(world: World, ask: Ask) -> list[tuple[Ask, Node]]:
    """Seek a reservation for the party of an ask that did not fit, or was held back.

    Returns:
        Where a gang's party is assigned now, as its nodes were reserved and are free; nothing
        is reserved then.
    """
    scope = backfill_scope(world, ask)
    party = None if scope is None else party_of(world, ask)
    if scope is None or party is None:
        return []
    others = in_force(world, scope.path)
    known = any(party.is_that_of(one) for one in others)
    if known or len(others) >= scope.settings.backfill_depth:
        return []
    world.searches[-1].sought.setdefault(party.asks, world.moves)
    before = _before(world, party)
    if before is not None and party.group:
        now = _as_things_are(world, party, before)
        if now is not None:
            world.reached["bound from a reservation"] += 1
            return now
    found = first_start(world, party, others)
    made = _made(world, scope.path, party, found)
    if before is not None and _is_kept(world, party, before, found, others):
        world.reached["kept"] += 1
        made = Reservation(scope.path, party.group, before.start, before.nodes)
    if made is None:
        world.reached["found none"] += 1
    else:
        world.reached["reserved"] += 1
        world.reached["reserved for a gang"] += bool(party.group)
        world.reached["a start unknown"] += made.start.is_unknown
        world.reached["more than one in force"] += bool(others)
        world.reserved.append(made)
    return []


def first_start(
    world: World, party: Party, others: list[Reservation]
) -> tuple[Instant, Nodes] | None:
    """Give the first instant at which a party can be placed beside others, and where."""
    stay, there = staying(world, party.group), pending_nodes(others)
    for instant in instants(world):
        gone = released_by(world, instant, stay)
        with on_nodes(world, there, gone):
            nodes = _placed(world, gone, party)
        if nodes is not None:
            return (instant, nodes)
    return None


def is_placed(world: World, party: Party) -> bool:
    """Say whether a party can be placed beside nobody, as things are."""
    return _placed(world, set(), party) is not None


def pending_nodes(reservations: Iterable[Reservation]) -> Nodes:
    """Give the nodes that are reserved for those who hold none."""
    return tuple(
        (ask, node)
        for one in reservations
        for ask, node in one.nodes
        if ask.place is AskPlace.PENDING
    )


def _made(
    world: World, scope: str, party: Party, found: tuple[Instant, Nodes] | None
) -> Reservation | None:
    return None if found is None else Reservation(scope, party.group, *found)


def _before(world: World, party: Party) -> Reservation | None:
    """Give the reservation that the round before left for the very same asks."""
    for one in world.reserved_before:
        if one.asks == party.asks:
            return one
    return None


def _is_kept(
    world: World,
    party: Party,
    before: Reservation,
    found: tuple[Instant, Nodes] | None,
    others: list[Reservation],
) -> bool:
    """Say whether the start and the nodes of the round before are kept."""
    if not is_after_now(world, before.start):
        return False
    if found is not None and found[0] < before.start:
        world.reached["an earlier start"] += 1
        return False
    gone = released_by(world, before.start, staying(world, party.group))
    with on_nodes(world, pending_nodes(others), gone):
        return _fit_on(world, gone, before.nodes)


def _as_things_are(
    world: World, party: Party, before: Reservation
) -> list[tuple[Ask, Node]] | None:
    """Give where a gang's party can be assigned now, each on the node reserved for it.

    A member may be of another scope than the reservation: those of its own scope hold it back.
    """
    reserved, left = dict(before.nodes), set(party.asks)
    found: list[tuple[Ask, Node]] = []
    while left:
        with on_nodes(world, ((ask, node.name) for ask, node in found)):
            picture = Picture(world)
            ask = order.best_of(picture, left)
            node = None if ask is None else world.nodes.get(reserved[ask])
            if ask is None or node is None or not fits_on(picture, node, ask):
                return None
            if first_delayed(world, ask, node) is not None:
                world.reached["held back from its own node"] += 1
                return None
        found.append((ask, node))
        left.remove(ask)
    return found


def _delays(world: World, reservation: Reservation, ask: Ask, node: Node) -> bool:
    """Say whether an ask would delay a reservation if it took a node on which it fits now."""
    if is_own(world, reservation, ask):
        return False
    if _ends_by(world, ask, reservation.start):
        world.reached["ends by the start"] += 1
        return False
    no_later = [one for one in in_force(world, reservation.scope) if one.start <= reservation.start]
    there = [(other, name) for other, name in pending_nodes(no_later) if other is not ask]
    gone = released_by(world, reservation.start, staying(world, reservation.group))
    with on_nodes(world, there, gone):
        fits = fits_on(Picture(world, gone), node, ask)
    world.reached["fits beside the party"] += fits
    return not fits


def _ends_by(world: World, ask: Ask, start: Instant) -> bool:
    """Say whether an ask that is bound now is expected to end by the start of a reservation."""
    length_us = estimate_us(world, ask)
    gang = permits.constrained(world, ask)
    waits = gang is not None and not group_of(world, gang.name).strict
    return length_us is not None and not waits and Instant(False, world.now_us + length_us) <= start


def _placed(world: World, gone: set[Ask], party: Party) -> Nodes | None:
    """Try without effect to place a party once some are gone, one member after another."""
    left, found = set(party.asks), list[tuple[Ask, str]]()
    while left:
        with on_nodes(world, found, gone):
            picture = Picture(world, gone)
            ask = order.best_of(picture, left)
            node = None if ask is None else fitting(picture, ask)
        if ask is None or node is None:
            return None
        found.append((ask, node.name))
        left.remove(ask)
    return tuple(found)


def _fit_on(world: World, gone: set[Ask], nodes: Nodes) -> bool:
    """Say whether asks fit their nodes once some are gone, one after another."""
    for place, (ask, name) in enumerate(nodes):
        with on_nodes(world, nodes[:place], gone):
            node = world.nodes.get(name)
            if node is None or not fits_on(Picture(world, gone), node, ask):
                return False
    return True


@contextmanager
def on_nodes(
    world: World, nodes: Iterable[tuple[Ask, str]], gone: Collection[Ask] = ()
) -> Generator[None]:
    """Let pending asks hold nodes for a while, without effect; no node was chosen later.

    Args:
        world: What there is.
        nodes: Who gets which node, one after another.
        gone: Who holds nothing meanwhile, so that its devices are free.
    """
    before: list[tuple[Ask, AskPlace, str | None, int, dict[str, tuple[int, ...]] | None]] = []
    for ask, name in nodes:
        before.append((ask, ask.place, ask.node, ask.held_order, ask.devices))
        if ask.needs:
            ask.devices = taken_anyway(Picture(world, gone), world.nodes[name], ask)
        ask.place, ask.node, ask.held_order = AskPlace.WAITING, name, world.moves + 1
    try:
        yield
    finally:
        for ask, place, node, held_order, devices in reversed(before):
            ask.place, ask.node, ask.held_order, ask.devices = place, node, held_order, devices
