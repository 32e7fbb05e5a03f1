"""What the view remembers from batch to batch.

Evicted preemptors, kept nodes, device demand, and queues over their ``max``.

Eviction history: three asks can each have a right to the node of the next: one by its queue's
``guaranteed``, two by their priorities. So an ask that has evicted others from a node, and was then
evicted from there, evicts nothing more on that node until something new happens. Equal asks of one
application count as one, or each of them could evict in turn. A gang group that has lost a node
that it got by evictions evicts nothing at all until then (EVICTION-45 to EVICTION-49).

Kept nodes: node services, and the nodes that they keep while they wait for room (SERVICE-2,
SERVICE-4, SERVICE-10 to SERVICE-12). An ask becomes a keeper when it was looked at and no room
could be made for it; the evictor decides that. This module knows when that ends. A keeper lacks
nothing but room on its node: that is checked before rounds begin, and in a round after each step.

Device demand: the asks with devices that ever came, of which ``fgd`` learns what is typical
(DEVICE-18).

Queues over their ``max``, and since when (QUOTA-2 to QUOTA-4). Nothing that a round or a plan does
brings a queue over its ``max``, and an ask that arrives bound is refused if it would. So only those
are looked at that have other settings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, final

import attrs

from muster_core.nodes.node import Holder, Node, Weights
from muster_core.nodes.node_index import NodeIndex
from muster_core.owners.asks import Allocation, Ask
from muster_core.structures.shapes import Shape, ShapeTable, bits_of
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeeds, without_devices
from muster_core.values.resources import Resources
from muster_core.view.facts import AlikeFacts, EvictionFacts, HistoryFacts, LearnedFacts
from muster_core.view.gangs import ViewGang, topology_state_of
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ViewQueue

Alike = tuple[int, Shape, int, bool, str | None]
"""The key of asks that differ only in their names: the application, their needs
of a node, their priority, whether they may preempt, and their gang."""

Evicted = tuple[Alike | None, str | None, tuple[str, ...]]
"""Equal asks and the node on which they evicted others; or the names of a group's gangs."""


# EVICTION-47
def alike(app: int, ask: Ask) -> Alike:
    """Return the key that an ask shares with equal asks of its application."""
    return (app, ask.shape, ask.priority, ask.preempts, ask.gang)


@final
class EvictionHistory:
    """The evictions, and the evicted preemptors, since something new happened."""

    def __init__(self) -> None:
        #: The asks placed by evictions that still hold their nodes, by application and name.
        self._held: dict[tuple[int, str], Evicted] = {}
        #: The evictions whose preemptors were evicted.
        self._lost: dict[Evicted, None] = {}
        #: The preemptors that were evicted.
        self._losers: dict[Alike, None] = {}
        #: The allocations of bound asks, by application and name, that are released only to try
        #: what would follow.
        self.tried_without: dict[tuple[int, str], Allocation] = {}
        #: Increases whenever evicted preemptors are forgotten.
        self.changes = 0

    def forget(self) -> None:
        """Forget everything: something new happened, or a bind has failed."""
        self._held.clear()
        if self._lost:
            self._lost.clear()
            self._losers.clear()
            self.changes += 1

    def note(self, app: int, ask: Ask, node: str) -> None:
        """Record that asks on a node were evicted for an ask."""
        self._held[app, ask.name] = (alike(app, ask), node, ())

    def note_member(self, app: int, ask: Ask, group: tuple[str, ...]) -> None:
        """Record that asks were evicted for a group, and that a member was placed by that."""
        self._held[app, ask.name] = (None, None, group)

    def evicted(self, app: int, ask: Ask) -> None:
        """Record that an ask was evicted, whether or not it had evicted others."""
        evicted = self._held.pop((app, ask.name), None)
        # EVICTION-49
        if evicted is not None:
            self._lost[evicted] = self._losers[alike(app, ask)] = None

    def has_lost(self, app: int, ask: Ask) -> bool:
        """Return whether an equal ask was evicted from any node where it had evicted others."""
        return bool(self._losers) and alike(app, ask) in self._losers

    # EVICTION-45
    def lost_on(self, app: int, ask: Ask, node: str) -> bool:
        """Return whether an equal ask was evicted from this node, where it had evicted others."""
        return (alike(app, ask), node, ()) in self._lost

    # EVICTION-48
    def lost_by(self, group: tuple[str, ...]) -> bool:
        """Return whether a group has lost a node that it got by evictions."""
        return (None, None, group) in self._lost

    # CHECKPOINT-4
    def facts(self) -> HistoryFacts:
        """Return the history as facts. Between two batches."""
        return HistoryFacts(
            held=tuple((*key, _eviction_facts(evicted)) for key, evicted in self._held.items()),
            lost=tuple(map(_eviction_facts, self._lost)),
            losers=tuple(AlikeFacts(*losers) for losers in self._losers),
        )

    # CHECKPOINT-5
    def load(self, facts: HistoryFacts) -> None:
        """Load the saved history."""
        self._held = {(app, ask): _eviction_from(evicted) for app, ask, evicted in facts.held}
        self._lost = dict.fromkeys(map(_eviction_from, facts.lost))
        self._losers = dict.fromkeys(map(_alike_from, facts.losers))


def _eviction_facts(evicted: Evicted) -> EvictionFacts:
    asks, node, group = evicted
    return EvictionFacts(None if asks is None else AlikeFacts(*asks), node, group)


def _eviction_from(facts: EvictionFacts) -> Evicted:
    return (None if facts.alike is None else _alike_from(facts.alike), facts.node, facts.group)


def _alike_from(facts: AlikeFacts) -> Alike:
    return (facts.app, facts.shape, facts.priority, facts.preempts, facts.gang)


KeeperNeed = tuple[int, "Resources"]
"""What decides whether a keeper has headroom: the key of its application, and its resources."""


@final
@attrs.frozen(eq=False)
class Keeper:
    """A node service that keeps its node."""

    app: ViewApp
    ask: Ask
    node: str

    @property
    def holder(self) -> Holder:
        """The key of its application, and its name."""
        return (self.app.identity.key, self.ask.name)

    @property
    def need(self) -> KeeperNeed:
        """What decides whether it has headroom."""
        return (self.app.identity.key, self.ask.resources)


@final
class KeptNodes:
    """Which asks are node services, and which of them keep their nodes."""

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
        self._by_need: dict[KeeperNeed, dict[Holder, Keeper]] = {}

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
        standing = (
            None if ask.gang is None else topology_state_of(self._gangs[ask.gang], self._apps)
        )
        return node if standing is None or standing.lets(node) else None

    def keeper_of(self, node: str) -> Keeper | None:
        """Return the ask that has kept a node longest, or None."""
        return next(iter(self._by_node.get(node, {}).values()), None)

    def keepers_on(self, node: str) -> Collection[Holder]:
        """Return all asks that keep a node."""
        return self._by_node.get(node, _NO_KEEPERS).keys()

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
        pending = app.pending.get(ask.name)
        if pending is None or not pending.is_same(ask):
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
                if number is not None and queue.asked[number] > most:
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


_NO_KEEPERS: Final[Mapping[Holder, Keeper]] = {}


# LIMIT-9
def _has_headroom(leaf: LeafView, app: ViewApp, ask: Ask) -> bool:
    """Return whether queues and limits of users and groups leave enough for an ask."""
    return app.is_within_limits(ask) and leaf.has_room(ask)


DemandKey = tuple["DeviceNeeds", "Resources"]
"""What an ask needs: devices and resources."""


@final
class DeviceDemand:
    """The asks with devices that came, and the typical ones for the order of nodes."""

    def __init__(self) -> None:
        #: How many asks with the same needs came, in the order in which the first of them came.
        self._came: dict[DemandKey, int] = {}
        #: The typical asks, as they were last taken.
        self.taken: tuple[TypicalAsk, ...] = ()
        #: How many asks came, and how many had come when they were last taken.
        self._total = self._taken_total = 0

    def note(self, came: Iterable[tuple[DeviceNeeds, Resources, int]]) -> None:
        """Count asks that have come.

        Args:
            came: Their devices, their resources, and how many there are.
        """
        for devices, resources, count in came:
            self._came[devices, resources] = self._came.get((devices, resources), 0) + count
            self._total += count

    # DEVICE-18
    @property
    def is_due(self) -> bool:
        """Whether the next round takes the typical asks anew."""
        return 0 < self._total >= 2 * self._taken_total

    # DEVICE-18
    def take(self, weights: Weights) -> bool:
        """Take the typical asks from now on, if it is time; this is called as a round starts.

        Args:
            weights: The weights in force; of resources only the types with one are typical.

        Returns:
            Whether something was taken.
        """
        if not self.is_due:
            return False
        names = {name for name, _ in weights}
        self.taken = tuple(
            TypicalAsk(devices, _only(names, resources), count)
            for (devices, resources), count in self._came.items()
        )
        self._taken_total = self._total
        return True

    # CHECKPOINT-4
    def facts(self) -> LearnedFacts:
        """Return the demand as facts. Between two batches."""
        return LearnedFacts(
            tuple((*wanted, count) for wanted, count in self._came.items()), self.taken
        )

    # CHECKPOINT-5
    def load(self, facts: LearnedFacts) -> None:
        """Restore from a checkpoint."""
        self.note(facts.came)
        self.taken = facts.taken
        self._taken_total = sum(ask.weight for ask in facts.taken)


def _only(names: set[str], resources: Resources) -> Resources:
    amounts = without_devices(resources).items()
    return Resources({name: amount for name, amount in amounts if name in names})


@final
class OverMax:
    """The configured queues that have more than their ``max``, and since when."""

    def __init__(self, queues: Mapping[int, ViewQueue]) -> None:
        self._queues = queues
        #: Whether the partition lets such queues lose asks.
        self.enabled = False
        #: When the batch was after which each of them was over for the first time, in microseconds.
        self.since: dict[int, int] = {}
        #: The queues that may be over since this batch, by key.
        self._suspects: dict[int, ViewQueue] = {}

    def __bool__(self) -> bool:
        """Return whether a queue is over, or may be."""
        return bool(self.since or self._suspects)

    def configure(self, *, enabled: bool) -> None:
        """Take over the settings of the partition."""
        if enabled and not self.enabled:
            self._suspects.update(self._queues)
        self.enabled = enabled

    def note(self, queue: ViewQueue) -> None:
        """Record that a queue is new or has other settings."""
        if queue.config.settings.quota_preemption_us:
            self._suspects[queue.key] = queue

    def forget(self, queue: ViewQueue) -> None:
        """Record that a queue is gone."""
        self._suspects.pop(queue.key, None)
        self.since.pop(queue.key, None)

    # QUOTA-2, QUOTA-3
    def end_batch(self, now_us: int) -> None:
        """Find which queues are over now, at the end of a batch."""
        suspects, self._suspects = {**self._suspects, **dict.fromkeys(self.since)}, {}
        for key in suspects:
            if self._is_over(self._queues[key]):
                self.since.setdefault(key, now_us)
            else:
                self.since.pop(key, None)

    # QUOTA-4
    def end_us(self, key: int) -> int:
        """Return when a queue that is over has been so for its delay, in microseconds."""
        return self.since[key] + self._queues[key].config.settings.quota_preemption_us

    def next_us(self, passed_us: int) -> int | None:
        """Return the first end of a delay after an instant, in microseconds, or None."""
        ends = map(self.end_us, self.since)
        return min((end_us for end_us in ends if end_us > passed_us), default=None)

    # QUOTA-5, QUOTA-7
    def due(self, now_us: int) -> list[ViewQueue]:
        """Return the queues that are over for longer than their delay, in the order of their paths."""
        found = [
            self._queues[key]
            for key in self.since
            if self.end_us(key) <= now_us and self._is_over(self._queues[key])
        ]
        return sorted(found, key=_path_of)

    # QUOTA-2
    def _is_over(self, queue: ViewQueue) -> bool:
        delay_us = queue.config.settings.quota_preemption_us
        return self.enabled and delay_us > 0 and bool(excess(queue))

    # CHECKPOINT-4
    def facts(self) -> tuple[tuple[int, int], ...]:
        """Return which queues are over, by key, and since when. Between two batches."""
        return tuple(self.since.items())

    # CHECKPOINT-5
    def load(self, facts: Iterable[tuple[int, int]]) -> None:
        """Restore from a checkpoint, after all queues have reported."""
        self._suspects.clear()
        self.since = dict(facts)

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        assert not self._suspects
        over = {key for key, queue in self._queues.items() if self._is_over(queue)}
        assert set(self.since) == over


# QUOTA-2
def excess(queue: ViewQueue) -> dict[str, int]:
    """Return the excess of a queue over its own ``max``, by type."""
    over = {name: queue.used(name) - most for name, most in queue.config.max.amounts}
    return {name: amount for name, amount in over.items() if amount > 0}


def _path_of(queue: ViewQueue) -> str:
    return queue.config.path
