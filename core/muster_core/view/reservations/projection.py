"""Projections: what nodes, quotas and usage would be at a later instant, or with other placements.

A projection has only what differs from the view. So asks can be taken from it and put into it without
any effect on the view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.totals import add_to

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.nodes.devices import DeviceUse, NodeDevices
    from muster_core.nodes.node import Holder, Node
    from muster_core.owners.messages.asks import Allocation, Ask
    from muster_core.structures.ranking import Rank
    from muster_core.view.reservations.party import Member
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.user_limit import LimitKey


@final
class Projection:
    """The view without some asks that hold nodes, and with others that are pending.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: How much more is used than in the view (less if negative): of each node, queue, limit and
        #: application.
        self._nodes: dict[str, dict[str, int]] = {}
        self.queues: dict[int, dict[str, int]] = {}
        self._limits: dict[LimitKey, dict[str, int]] = {}
        self.apps: dict[int, dict[str, int]] = {}
        #: The asks that hold nodes in the view, and none here.
        self.released: set[Holder] = set()
        #: The pending asks that hold nodes here, by application and name, and these nodes.
        self.placed: dict[Holder, Member] = {}
        self.nodes_of: dict[Holder, Node] = {}
        #: The devices of nodes where others are free than in the view, and which ones are taken.
        self._devices: dict[str, NodeDevices] = {}
        self._taken: dict[Holder, DeviceUse] = {}

    def release(self, app: ViewApp, allocation: Allocation, node: Node) -> None:
        """Take an ask away that holds a node; it is not pending then."""
        ask = allocation.ask
        self.released.add((app.identity.key, ask.name))
        self._count(app, ask, node, -1)
        if allocation.devices:
            self._devices_of(node).change_anyway((ask.shape.devices, allocation.devices), 1)

    def place(self, member: Member, node: Node) -> None:
        """Let a pending ask hold a node, which need not have room for it."""
        app, ask = member
        key, needs = (app.identity.key, ask.name), ask.shape.devices
        if needs and node.devices is not None:
            has_room = self._has_devices(node, ask)
            taken = (
                self._state.nodes.devices_ahead(self.at(node), ask.shape)
                if has_room
                else self._devices_of(node).pick_anyway(needs)
            )
            self._taken[key] = needs, taken
            self._devices_of(node).change_anyway(self._taken[key], -1)
        self._count(app, ask, node, 1)
        self.placed[key] = member
        self.nodes_of[key] = node

    def undo(self, member: Member, node: Node) -> None:
        """Undo :meth:`place`."""
        app, ask = member
        key = (app.identity.key, ask.name)
        self._count(app, ask, node, -1)
        self.placed.pop(key, None)
        self.nodes_of.pop(key, None)
        use = self._taken.pop(key, None)
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

    def _count(self, app: ViewApp, ask: Ask, node: Node, times: int) -> None:
        amounts = ask.resources.amounts
        add_to(self._nodes.setdefault(node.name, {}), amounts, times)
        for queue in self._state.leaf_of(app).line:
            add_to(self.queues.setdefault(queue.key, {}), amounts, times)
        for limit in app.limits:
            add_to(self._limits.setdefault(limit.key, {}), amounts, times)
        add_to(self.apps.setdefault(app.identity.key, {}), amounts, times)

    # BACKFILL-19
    def has_headroom(self, app: ViewApp, ask: Ask) -> bool:
        """Return whether queues and limits of users and groups leave enough for an ask."""
        for queue in self._state.leaf_of(app).line:
            more = self.queues.get(queue.key, _NOTHING)
            for name, most in queue.config.max.amounts:
                amount = ask.resources[name]
                if amount and queue.used(name) + more.get(name, 0) + amount > most:
                    return False
        for limit in app.limits:
            more = self._limits.get(limit.key, _NOTHING)
            for name, most in limit.entry.max.amounts:
                amount = ask.resources[name]
                if amount and limit.used.get(name, 0) + more.get(name, 0) + amount > most:
                    return False
        return True

    # BACKFILL-19
    def has_room(self, node: Node, leaf: LeafView, ask: Ask) -> bool:
        """Return whether a pending ask of a leaf may use a node and has room, whatever its gang."""
        if not node.matching >> self._state.bit_of(ask) & 1:
            return False
        if node.kept and not self._state.kept_nodes.is_service(leaf, ask):
            return False
        more, used, capacity = self._nodes.get(node.name, _NOTHING), node.used, node.capacity
        for name, amount in ask.resources.amounts.items():
            if used.get(name, 0) + more.get(name, 0) + amount > capacity.get(name, 0):
                return False
        return self._has_devices(node, ask)

    def room_for(self, node: Node, leaf: LeafView, ask: Ask) -> int:
        """Return how many asks like a pending one would fit on a node at most."""
        if not self.has_room(node, leaf, ask):
            return 0
        used, capacity = self.used_on(node), node.capacity
        amounts = ask.resources.amounts.items()
        return min((capacity[name] - used.get(name, 0)) // amount for name, amount in amounts)

    # ORDER-21
    def rank(self, node: Node, ask: Ask) -> Rank:
        """Return the place of a node in the order of nodes here, for an ask that fits there."""
        nodes = self._state.nodes
        if nodes.is_by_ask:
            return nodes.rank_ahead(self.at(node), ask.shape)
        return nodes.rank_with(node, self.used_on(node))

    def used_on(self, node: Node) -> Mapping[str, int]:
        """Return what is used of a node."""
        more = self._nodes.get(node.name)
        if not more:
            return node.used
        used = dict(node.used)
        add_to(used, more)
        return used


_NOTHING: Mapping[str, int] = {}
