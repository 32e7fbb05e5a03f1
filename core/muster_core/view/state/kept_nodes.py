"""Node services, and the nodes that they keep while they wait for room.

SERVICE-2, SERVICE-4, SERVICE-10 to SERVICE-12. An ask becomes a keeper when it was looked at and no
room could be made for it; the evictor decides that. This module knows when that ends. A keeper
lacks nothing but room on its node: that is checked before rounds begin, and in a round after each
step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.structures.shapes import bits_of
from muster_core.view.gangs.standing import standing_in
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from muster_core.nodes.node import Holder, Node
    from muster_core.nodes.node_index import NodeIndex
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.shapes import ShapeTable
    from muster_core.values.resources import Resources
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue

Need = tuple[int, "Resources"]
"""What decides whether a keeper has headroom: the key of its application, and its resources."""


@final
@attrs.frozen(eq=False)
class Keeper:
    """A node service that keeps its node.

    Attributes:
        app: Its application.
        ask: The ask.
        node: The name of the node.
    """

    app: ViewApp
    ask: Ask
    node: str

    @property
    def holder(self) -> Holder:
        """The key of its application, and its name."""
        return (self.app.identity.key, self.ask.name)

    @property
    def need(self) -> Need:
        """What decides whether it has headroom."""
        return (self.app.identity.key, self.ask.resources)


@final
class KeptNodes:
    """Which asks are node services, and which of them keep their nodes.

    Args:
        shapes: The table of shapes.
        nodes: The nodes.
        queues: The queues of the view, by key.
        gangs: The gangs of the view, by name.
        apps: The applications of the view, by key.
    """

    def __init__(
        self,
        shapes: ShapeTable,
        nodes: NodeIndex,
        queues: Mapping[int, ViewQueue],
        gangs: Mapping[str, ViewGang],
        apps: Mapping[int, ViewApp],
    ) -> None:
        self._shapes = shapes
        self._nodes = nodes
        self._queues = queues
        self._gangs = gangs
        self._apps = apps
        #: The leaves with ``preemption.required.node``, by key.
        self.leaves: dict[int, LeafView] = {}
        #: All keepers, those of each node, and those with the same need.
        self._keepers: dict[Holder, Keeper] = {}
        self._by_node: dict[str, dict[Holder, Keeper]] = {}
        self._by_need: dict[Need, dict[Holder, Keeper]] = {}

    def __bool__(self) -> bool:
        """Return whether a node is kept."""
        return bool(self._keepers)

    def note_settings(self, queue: ViewQueue) -> None:
        """Record that a queue is new or has other settings."""
        if isinstance(queue, LeafView) and queue.config.settings.required_node:
            self.leaves[queue.key] = queue
        else:
            self.leaves.pop(queue.key, None)

    # SERVICE-2
    def is_service(self, leaf: LeafView, ask: Ask) -> bool:
        """Return whether an ask of a leaf is a node service."""
        if ask.shape.node is None or not leaf.config.settings.required_node:
            return False
        return ask.gang is None or self._gangs[ask.gang].satisfied

    # SERVICE-4
    def node_of(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Node | None:
        """Return the node of a pending node service that lacks nothing, or nothing but room there.

        Args:
            leaf: Its leaf.
            app: Its application.
            ask: The ask; None is returned if it is no node service.
        """
        if not (self.is_service(leaf, ask) and _has_headroom(leaf, app, ask)):
            return None
        node = self._nodes.nodes.get(ask.shape.node or "")
        if node is None or not node.schedulable or not ask.resources.fits_in(node.capacity):
            return None
        if not node.may_take(ask.shape):
            return None
        # TOPOLOGY-12
        standing = None if ask.gang is None else standing_in(self._gangs[ask.gang], self._apps)
        return node if standing is None or standing.lets(node) else None

    def keeper_of(self, node: str) -> Keeper | None:
        """Return the ask that has kept a node longest, or None."""
        return next(iter(self._by_node.get(node, {}).values()), None)

    def keepers_on(self, node: str) -> Collection[Holder]:
        """Return all asks that keep a node."""
        return self._by_node.get(node, _NONE).keys()

    # CHECKPOINT-4
    def keepers(self) -> tuple[Holder, ...]:
        """Return all keepers, in the order in which they began; :meth:`keep` takes them again."""
        return tuple(self._keepers)

    def keeps(self, app: ViewApp, ask: Ask) -> bool:
        """Return whether an ask keeps its node."""
        return (app.identity.key, ask.name) in self._keepers

    # SERVICE-10
    def keep(self, app: ViewApp, ask: Ask) -> None:
        """Record that a node service keeps its node, if it does not do so already."""
        keeper = Keeper(app, ask, ask.shape.node or "")
        if keeper.holder in self._keepers:
            return
        self._keepers[keeper.holder] = keeper
        if keeper.node not in self._by_node:
            self._nodes.keep(keeper.node, kept=True)
        else:
            self._note_other_keepers(keeper.node)
        self._by_node.setdefault(keeper.node, {})[keeper.holder] = keeper
        self._by_need.setdefault(keeper.need, {})[keeper.holder] = keeper

    # SERVICE-11
    def end(self, app: ViewApp, ask: Ask) -> None:
        """Record that an ask was bound, or that its bind has failed."""
        keeper = self._keepers.pop((app.identity.key, ask.name), None)
        if keeper is None:
            return
        of_node, of_need = self._by_node[keeper.node], self._by_need[keeper.need]
        del of_node[keeper.holder], of_need[keeper.holder]
        if not of_need:
            del self._by_need[keeper.need]
        if not of_node:
            del self._by_node[keeper.node]
            self._nodes.keep(keeper.node, kept=False)
        else:
            self._note_other_keepers(keeper.node)

    def _note_other_keepers(self, name: str) -> None:
        """Record that a node is kept by others than before: by more, or by fewer."""
        node = self._nodes.nodes.get(name)
        if node is not None:
            self._nodes.touch(node)

    # SERVICE-11
    def settle(self) -> bool:
        """Find which asks are gone, or fail for another reason than room, and end their keeping.

        Returns:
            Whether there were any.
        """
        over = [keeper for keeper in self._keepers.values() if not self._stands(keeper)]
        self._end_all(over)
        return bool(over)

    def end_without_headroom(self) -> None:
        """End the keeping of the asks that no longer fit what queues and limits leave to them.

        The same for those whose gang's topology no longer lets them be on their node.
        """
        self._end_all([one for one in self._members() if not self._stands(one)])
        for keepers in list(self._by_need.values()):
            first = next(iter(keepers.values()))
            if not _has_headroom(self._leaf_of(first), first.app, first.ask):
                self._end_all(list(keepers.values()))

    def _end_all(self, keepers: Iterable[Keeper]) -> None:
        for keeper in keepers:
            self.end(keeper.app, keeper.ask)

    def _leaf_of(self, keeper: Keeper) -> LeafView:
        leaf = self._queues[keeper.app.identity.leaf]
        assert type(leaf) is LeafView, "an application in a parent queue"
        return leaf

    # SERVICE-11
    def _stands(self, keeper: Keeper) -> bool:
        app, ask = keeper.app, keeper.ask
        if app.pending.get(ask.name) is not ask:
            return False
        return self.node_of(self._leaf_of(keeper), app, ask) is not None

    def may_open(self) -> bool:
        """Return whether a kept node may be open to other asks later in the round that begins.

        If so there can be more room later in the round than before, and each tried ask must be
        known. The answer is also True if an ask that requires a kept node fits there, since such
        asks, services or not, have the same shape.
        """
        for name in self._by_node:
            node = self._nodes.nodes.get(name)
            if node is not None and any(map(self._shapes.is_used, bits_of(node.mask))):
                return True
        return bool(self._members()) or any(map(self._may_lose_headroom, self._first_of_needs()))

    def _members(self) -> list[Keeper]:
        """Return the keepers that are members of gangs, which others may move elsewhere."""
        return [keeper for keeper in self._keepers.values() if keeper.ask.gang is not None]

    def _first_of_needs(self) -> Iterator[Keeper]:
        return (next(iter(keepers.values())) for keepers in self._by_need.values())

    def _may_lose_headroom(self, keeper: Keeper) -> bool:
        """Return whether a keeper may not fit the headroom any more if others are placed."""
        resources = keeper.ask.resources
        if any(limit.entry.max for limit in keeper.app.limits):
            return True
        for queue in self._leaf_of(keeper).upward():
            for name, most in queue.config.max.amounts:
                number = queue.types.find(name) if resources[name] else None
                if number is not None and queue.allocated[number] + queue.pending[number] > most:
                    return True
        return False

    def closed_to(self, leaf: LeafView) -> int:
        """Return the shapes that fit on kept nodes, but are closed to a leaf's asks; for tests."""
        mask = 0
        for name in self._by_node:
            mask |= self._nodes.nodes[name].mask
        for app in leaf.apps.values():
            for ask in app.pending.values():
                if self.is_service(leaf, ask):
                    mask &= ~(1 << (self._shapes.find(ask.shape) or 0))
        return mask

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        leaves = {
            key: queue
            for key, queue in self._queues.items()
            if isinstance(queue, LeafView) and queue.config.settings.required_node
        }
        assert self.leaves == leaves
        # Each keeper still waits, and lacks nothing but room on its node.
        assert all(map(self._stands, self._keepers.values()))
        # All and only their nodes are kept.
        kept = {node.name for node in self._nodes.nodes.values() if node.kept}
        assert kept == set(self._by_node) == {one.node for one in self._keepers.values()}
        for groups in (self._by_node, self._by_need):
            held = [holder for keepers in groups.values() for holder in keepers]
            assert sorted(held) == sorted(self._keepers)


_NONE: Final[Mapping[Holder, Keeper]] = {}


# LIMIT-9
def _has_headroom(leaf: LeafView, app: ViewApp, ask: Ask) -> bool:
    """Return whether queues and limits of users and groups leave enough for an ask."""
    return app.is_within_limits(ask) and leaf.has_room(ask)
