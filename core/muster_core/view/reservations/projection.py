"""Projections: what nodes, quotas and usage would be at a later instant, or with other placements.

A projection has only what differs from the view. So asks can be taken from it and put into it without
any effect on the view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.totals import add_to

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
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
        #: The pending asks that hold nodes here, by application and name.
        self.placed: dict[tuple[int, str], Member] = {}

    def release(self, app: ViewApp, ask: Ask, node: Node) -> None:
        """Take an ask away that holds a node; it is not pending then."""
        self._count(app, ask, node, -1)

    def place(self, member: Member, node: Node) -> None:
        """Let a pending ask hold a node."""
        self._count(member.app, member.ask, node, 1)
        self.placed[member.app.identity.key, member.ask.name] = member

    def undo(self, member: Member, node: Node) -> None:
        """Undo :meth:`place`."""
        self._count(member.app, member.ask, node, -1)
        self.placed.pop((member.app.identity.key, member.ask.name), None)

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
    def fits_on(self, node: Node, leaf: LeafView, ask: Ask) -> bool:
        """Return whether a pending ask of a leaf may use a node, and fits there."""
        if not node.matching >> self._state.bit_of(ask) & 1:
            return False
        if not self._state.kept_nodes.admits(node, leaf, ask):
            return False
        more, used, capacity = self._nodes.get(node.name, _NOTHING), node.used, node.capacity
        for name, amount in ask.resources.amounts.items():
            if used.get(name, 0) + more.get(name, 0) + amount > capacity.get(name, 0):
                return False
        return True

    def room_for(self, node: Node, leaf: LeafView, ask: Ask) -> int:
        """Return how many asks like a pending one would fit on a node at most."""
        if not self.fits_on(node, leaf, ask):
            return 0
        used, capacity = self.used_on(node), node.capacity
        amounts = ask.resources.amounts.items()
        return min((capacity[name] - used.get(name, 0)) // amount for name, amount in amounts)

    # BACKFILL-19
    def find_node(self, leaf: LeafView, ask: Ask) -> Node | None:
        """Return the first node on which a pending ask of a leaf fits, in the order of nodes here."""
        nodes = self._state.nodes
        fitting = (node for node in nodes.nodes.values() if self.fits_on(node, leaf, ask))
        return min(
            fitting, key=lambda node: nodes.rank_with(node, self.used_on(node)), default=None
        )

    def used_on(self, node: Node) -> Mapping[str, int]:
        """Return what is used of a node."""
        more = self._nodes.get(node.name)
        if not more:
            return node.used
        used = dict(node.used)
        add_to(used, more)
        return used


_NOTHING: Mapping[str, int] = {}
