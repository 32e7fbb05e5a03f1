"""Projections: what nodes, quotas and usage would be at a later instant, or with other placements.

A projection has only what differs from the view. So asks can be taken from it and put into it
without any effect on the view. The releases say when the asks that hold nodes are expected to end,
in order. Nothing here knows who has a reservation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import final

import attrs

from muster_core.nodes.node import DeviceUse, Holder, Node, NodeDevices
from muster_core.owners.asks import Allocation, Ask
from muster_core.structures.amounts import add_to
from muster_core.structures.ranking import Rank
from muster_core.values.resources import DEVICE_PREFIX
from muster_core.view.gangs import Member
from muster_core.view.node_finder import NodeChoice
from muster_core.view.placement_diff import PendingOrder, PlacementDiff
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView, estimate_us

Instant = tuple[bool, int]
"""A point in the order of releases: whether the end is unknown, and the end in microseconds, or else
the place of the allocation in the order in which nodes were chosen."""


@final
@attrs.frozen(eq=False)
class Release:
    """An ask that holds a node, and when it gives it back."""

    at: Instant
    app: ViewApp
    allocation: Allocation
    node: Node


# BACKFILL-12
def expected_end_us(leaf: LeafView, allocation: Allocation, now_us: int) -> int | None:
    """Return when a bound ask of a leaf is expected to end, in microseconds, or None.

    Args:
        leaf: The leaf.
        allocation: The allocation of the bound ask.
        now_us: The present instant, in microseconds; the end is after it.
    """
    estimate = estimate_us(leaf.config.settings, allocation.ask, allocation.limit_us)
    if estimate is None:
        return None
    taken = now_us - allocation.bound_us
    while estimate <= taken:
        estimate *= 2
    return allocation.bound_us + estimate


# BACKFILL-13, BACKFILL-14
def release_of(
    state: ViewState, app: ViewApp, allocation: Allocation, now_us: int, *, bound: bool
) -> Instant:
    """Return when an ask that holds a node gives it back."""
    end_us = expected_end_us(state.leaf_of(app), allocation, now_us) if bound else None
    return (True, allocation.age) if end_us is None else (False, end_us)


# BACKFILL-14
def releases(state: ViewState, now_us: int) -> list[Release]:
    """Return all asks that hold nodes, in the order in which they give them back."""
    return sorted(releases_of(state, state.apps.values(), now_us), key=attrgetter("at"))


# BACKFILL-14
def releases_on(state: ViewState, node: Node, now_us: int) -> list[Release]:
    """Return the asks that hold a node, in the order in which they give it back."""
    found: list[Release] = []
    for key, name in node.held:
        app = state.apps[key]
        bound = name in app.bound
        allocation, _ = app.bound[name] if bound else app.waiting[name]
        at = release_of(state, app, allocation, now_us, bound=bound)
        found.append(Release(at, app, allocation, node))
    found.sort(key=attrgetter("at"))
    return found


# BACKFILL-14
def releases_of(state: ViewState, apps: Iterable[ViewApp], now_us: int) -> Iterator[Release]:
    """Yield the asks of applications that hold nodes, in no order."""
    for app in apps:
        if not app.bound and not app.waiting:
            continue  # as most of a backlog
        for places, bound in ((app.bound, True), (app.waiting, False)):
            for allocation, node in places.values():
                at = release_of(state, app, allocation, now_us, bound=bound)
                yield Release(at, app, allocation, node)


@final
class Projection:
    """The view without some asks that hold nodes, and with others that are pending.

    Args:
        state: The view; it is up to date.
        fullest_first: Whether the most utilised node is the first in order, whatever the policy.
    """

    def __init__(self, state: ViewState, *, fullest_first: bool = False) -> None:
        self._state = state
        self._fullest_first = fullest_first
        #: What differs from the view, but for the nodes.
        self.difference = PlacementDiff(state)
        #: How much more is used of each node than in the view; less, if negative.
        self._nodes: dict[str, dict[str, int]] = {}
        #: The devices of nodes where others are free than in the view, and which ones are taken.
        self._devices: dict[str, NodeDevices] = {}
        self._taken: dict[Holder, DeviceUse] = {}
        #: The placed asks with their nodes, the last one at the end.
        self._placings: list[tuple[Member, Node]] = []

    # BACKFILL-19
    def find_node(self, member: Member, may: Callable[[Node], bool] | None = None) -> Node | None:
        """Return the first node that a pending ask may take and fits on, or None.

        Args:
            member: The ask.
            may: A further condition on the node.
        """
        choice = NodeChoice(self._state, self)
        standing = choice.standing(member)
        if standing is None:
            return self._first(member, filter(may, self._state.nodes.nodes.values()))
        return choice.find(member, standing, choice.choose(member, standing), may)

    # BACKFILL-19
    def fits_on(self, member: Member, node: Node) -> bool:
        """Return whether a pending ask may take a node, and fits there."""
        if not self.has_room(member, node):
            return False
        choice = NodeChoice(self._state, self)
        standing = choice.standing(member)
        if standing is None:
            return True
        return standing.place(node, choice.choose(member, standing)) is not None

    def order(self) -> PendingOrder:
        """Return the order of pending asks here."""
        return PendingOrder(self._state, self.difference)

    # TOPOLOGY-10
    def domains(self, attribute: str) -> Sequence[str]:
        """Return the domains of an attribute that have a schedulable node, in order."""
        return self._state.gang_index.domains.in_order(attribute, self._nodes)

    def finder(self, place: Callable[[Node], int | None]) -> Callable[[Member], Node | None]:
        """Return a finder for the node that a pending ask takes here.

        See :class:`~muster_core.view.node_finder.ClusterModel`.
        """
        by_place: dict[int, list[Node]] = {}
        for node in self._state.nodes.nodes.values():
            found = place(node)
            if found is not None:
                by_place.setdefault(found, []).append(node)
        groups = [nodes for _, nodes in sorted(by_place.items())]

        def find(member: Member) -> Node | None:
            firsts = (self._first(member, nodes) for nodes in groups)
            return next((node for node in firsts if node is not None), None)

        return find

    def _first(self, member: Member, nodes: Iterable[Node]) -> Node | None:
        fitting = [node for node in nodes if self.has_room(member, node)]
        return min(fitting, key=lambda node: self.rank(node, member.ask), default=None)

    @contextmanager
    def trying(self) -> Generator[None]:
        """Undo at the end all that is placed meanwhile."""
        placed = len(self._placings)
        try:
            yield
        finally:
            while len(self._placings) > placed:
                self._undo(*self._placings.pop())

    def release(self, app: ViewApp, allocation: Allocation, node: Node) -> None:
        """Take an ask away that holds a node; it is not pending then."""
        ask = allocation.ask
        # Done here, as this is done for each ask that holds a node.
        self.difference.released.add((app.identity.key, ask.name))
        self.difference.count(app, ask, -1)
        self.free(allocation, node)

    def occupy(self, node: Node, amounts: Iterable[tuple[str, int]]) -> None:
        """Let pending asks without devices hold a node, where no headroom and no order depends on it."""
        add_to(self._nodes.setdefault(node.name, {}), dict(amounts))

    def free(self, allocation: Allocation, node: Node) -> None:
        """Take away only what an ask holds on a node, where no headroom and no order depends on it."""
        ask = allocation.ask
        add_to(self._nodes.setdefault(node.name, {}), ask.resources.amounts, -1)
        if allocation.devices:
            self._devices_of(node).change_anyway((ask.shape.devices, allocation.devices), 1)

    def place(self, member: Member, node: Node) -> None:
        """Let a pending ask hold a node, which need not have room for it."""
        ask = member.ask
        needs = ask.shape.devices
        if needs and node.devices is not None:
            has_room = self._has_devices(node, ask)
            taken = (
                self._state.nodes.devices_ahead(self.at(node), ask.shape)
                if has_room
                else self._devices_of(node).pick_anyway(needs)
            )
            self._taken[member.holder] = needs, taken
            self._devices_of(node).change_anyway((needs, taken), -1)
        add_to(self._nodes.setdefault(node.name, {}), ask.resources.amounts)
        self.difference.place(member, node)
        self._placings.append((member, node))

    def _undo(self, member: Member, node: Node) -> None:
        add_to(self._nodes[node.name], member.ask.resources.amounts, -1)
        self.difference.undo(member)
        use = self._taken.pop(member.holder, None) if self._taken else None
        if use is not None:
            self._devices_of(node).change_anyway(use, 1)

    def _devices_of(self, node: Node) -> NodeDevices:
        """Return the devices of a node as they are here, to be changed."""
        devices = self._devices.get(node.name)
        if devices is None:
            assert node.devices is not None, "devices are held on a node without any"
            devices = self._devices[node.name] = node.devices.copy()
        return devices

    def at(self, node: Node) -> Node:
        """Return a node as it is here."""
        devices = self._devices.get(node.name)
        if devices is None and not self._nodes.get(node.name):
            return node
        return node.as_if(self.used_on(node), node.devices if devices is None else devices)

    def _has_devices(self, node: Node, ask: Ask) -> bool:
        if not ask.shape.devices:
            return True
        devices = self._devices.get(node.name, node.devices)
        return devices is not None and devices.has_room(ask.shape.devices)

    # BACKFILL-19, RESERVED-6
    def has_room(self, member: Member, node: Node) -> bool:
        """Return whether a pending ask may use a node and has room, whatever its gang."""
        ask = member.ask
        if not (node.matching >> self._state.bit_of(ask) & 1 or node.kept):
            return False
        if node.kept and not self._may_use_kept(member, node):
            return False
        more, used, room = self._nodes.get(node.name, _NOTHING), node.used, node.room
        for name, amount in ask.resources.amounts.items():
            if used.get(name, 0) + more.get(name, 0) + amount > room.get(name, 0):
                # DEVICE-6: others may hold a device twice here, and leave another one free.
                if ask.shape.devices and name.startswith(DEVICE_PREFIX):
                    continue
                return False
        return self._has_devices(node, ask)

    # SERVICE-10, BACKFILL-19
    def _may_use_kept(self, member: Member, node: Node) -> bool:
        """Return whether a pending ask may use a node that node services keep in the view."""
        state, ask = self._state, member.ask
        keepers = state.kept_nodes.keepers_on(node.name)
        if all(keeper in self.difference.placed for keeper in keepers):
            return node.schedulable and node.may_take(ask.shape)
        if not node.matching >> state.bit_of(ask) & 1:
            return False
        return state.kept_nodes.is_service(state.leaf_of(member.app), ask)

    def room_for(self, member: Member, node: Node) -> int:
        """Return how many asks like a pending one would fit on a node at most."""
        if not self.has_room(member, node):
            return 0
        used, room = self.used_on(node), node.room
        amounts = member.ask.resources.amounts.items()
        return min((room[name] - used.get(name, 0)) // amount for name, amount in amounts)

    # ORDER-21
    def rank(self, node: Node, ask: Ask) -> Rank:
        """Return the place of a node in the order of nodes here, for an ask that fits there."""
        nodes = self._state.nodes
        # GANG-57
        if self._fullest_first:
            return (-node.weighing.utilisation(self.used_on(node)), node.name)
        if nodes.is_by_ask:
            return nodes.rank_ahead(self.at(node), ask.shape)
        return nodes.rank_with(node, self.used_on(node))

    def used_on(self, node: Node) -> Mapping[str, int]:
        """Return the usage of a node."""
        more = self._nodes.get(node.name)
        if not more:
            return node.used
        used = dict(node.used)
        add_to(used, more)
        return used


_NOTHING: Mapping[str, int] = {}
