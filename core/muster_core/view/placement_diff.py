"""Placement diffs: usage, holders and order if some asks held nodes and some did not.

So placements can be tried, and a later instant looked at, without any change of queues and limits.
The order is that of section 4 among a few pending asks, in the view or with a diff applied. What
differs on the nodes is not here: see :class:`muster_core.view.node_finder.ClusterModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, final

import attrs

from muster_core.nodes.node import Holder, Node
from muster_core.owners.asks import Ask, AskOrder
from muster_core.structures.amounts import Row, add_to
from muster_core.structures.ranking import Rank
from muster_core.values.priority import current_priority, highest
from muster_core.view.gangs import Member, ViewGang, held_nodes
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import LimitKey, ViewLimit
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView, QueueKey, ViewQueue, queue_key

_NOTHING: Final[Mapping[str, int]] = {}


@final
class PlacementDiff:
    """Asks that hold nodes in the view and would not, and pending ones that would."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: How much more than in the view is used (less if negative): of each queue, limit and
        #: application.
        self.queues: dict[int, dict[str, int]] = {}
        self._limits: dict[LimitKey, dict[str, int]] = {}
        self.apps: dict[int, dict[str, int]] = {}
        #: The asks that hold nodes in the view, and none here; they are not pending. What they use
        #: must be counted off.
        self.released: set[Holder] = set()
        #: The pending asks that hold nodes here, and these nodes.
        self.placed: dict[Holder, tuple[Member, Node]] = {}

    def place(self, member: Member, node: Node) -> None:
        """Let a pending ask hold a node."""
        self.count(*member, 1)
        self.placed[member.holder] = member, node

    def undo(self, member: Member) -> None:
        """Undo :meth:`place`."""
        self.count(*member, -1)
        self.placed.pop(member.holder, None)

    def count(self, app: ViewApp, ask: Ask, times: int) -> None:
        """Add to what is used as much as an ask needs, this many times; it may be negative."""
        amounts = ask.resources.amounts
        for queue in self._state.leaf_of(app).line:
            add_to(self.queues.setdefault(queue.key, {}), amounts, times)
        for limit in app.limits:
            add_to(self._limits.setdefault(limit.key, {}), amounts, times)
        add_to(self.apps.setdefault(app.identity.key, {}), amounts, times)

    # LIMIT-9, CONFIG-25, BACKFILL-19
    def has_headroom(self, app: ViewApp, ask: Ask) -> bool:
        """Return whether queues and limits of users and groups leave enough for one more ask."""
        for queue in self._state.leaf_of(app).line:
            more = self.queues.get(queue.key, _NOTHING)
            if queue.config.max.amounts and not queue.admits_more(ask, more):
                return False
        for limit in app.limits:
            if not limit.has_room_for(ask.resources, self._limits.get(limit.key, _NOTHING)):
                return False
        return True

    def over(self, one: ViewQueue | ViewLimit[ViewApp]) -> dict[str, int]:
        """Return how much more of each type than it allows would be used of a queue or a limit."""
        if isinstance(one, ViewLimit):
            most, used, more = one.entry.max, one.used, self._limits.get(one.key, _NOTHING)
        else:
            most, used, more = one.config.max, one.usage(), self.queues.get(one.key, _NOTHING)
        now = {name: used.get(name, 0) + more.get(name, 0) - some for name, some in most.amounts}
        return {name: some for name, some in now.items() if some > 0}

    # TOPOLOGY-3, BACKFILL-19
    def held_by(self, gang: ViewGang) -> Iterator[tuple[int, Node]]:
        """Yield when each member of a gang that holds a node was assigned, and its node.

        Asks that hold one only here come after all that hold one in the view, in order.
        """
        yield from held_nodes(gang, self._state.apps, self.released)
        last = self._state.numbers
        for number, (member, node) in enumerate(self.placed.values(), last + 1):
            if member.ask.gang == gang.name:
                yield number, node


@final
@attrs.frozen
class PendingOrder:
    """The order of pending asks.

    Args:
        difference: What differs from it.
        bring_up_to_date: Updates the positions of applications and queues, if they may be out of
            date.
    """

    _state: ViewState
    _difference: PlacementDiff
    _bring_up_to_date: Callable[[], None] | None = None

    # TOPOLOGY-8, BACKFILL-16, BACKFILL-19
    def sorted(self, members: Sequence[Member]) -> list[Member]:
        """Return pending asks in the order in which they would be taken if nothing were placed."""
        apps = {member.app.identity.key: member.app for member in members}
        if len(apps) < 2:
            return sorted(members, key=self._place_of)
        if self._bring_up_to_date is not None:
            self._bring_up_to_date()
        by_app: dict[int, list[Member]] = {}
        for member in members:
            by_app.setdefault(member.app.identity.key, []).append(member)
        found: list[Member] = []
        for app in self._apps_in_order(apps.values()):
            found += sorted(by_app[app.identity.key], key=self._place_of)
        return found

    def first(self, members: Sequence[Member]) -> Member:
        """Return the first of some pending asks."""
        return self.sorted(members)[0]

    # AGING-7
    def _place_of(self, member: Member) -> AskOrder:
        # It may have grown older since it was looked up.
        now = member.app.pending_ask(member.ask.name)
        ask = member.ask if now is None else now
        aging = self._state.leaf_of(member.app).aging
        if now is not None and aging is not None:
            ask = aging.ranked(member.app, now)
        gang = None if ask.gang is None else self._state.gangs[ask.gang]
        return ask.order if gang is None else ask.order_in(gang.creation)

    def _apps_in_order(self, apps: Iterable[ViewApp]) -> list[ViewApp]:
        by_leaf: dict[int, list[ViewApp]] = {}
        for app in apps:
            by_leaf.setdefault(app.identity.leaf, []).append(app)
        wanted = {queue.key for key in by_leaf for queue in self._state.queues[key].line}
        found: list[ViewApp] = []
        for leaf in self._leaves(self._state.root, wanted):
            ranked = [(self._app_key(leaf, app), app) for app in by_leaf[leaf.key]]
            ranked.sort(key=itemgetter(0))
            found += [app for _, app in ranked]
        return found

    def _leaves(self, queue: ViewQueue, wanted: set[int]) -> list[LeafView]:
        if isinstance(queue, LeafView):
            return [queue]
        assert isinstance(queue, ParentView), "a queue is a parent or a leaf"
        children = [child for child in queue.children.values() if child.key in wanted]
        if len(children) > 1:
            children.sort(key=lambda child: self._queue_key(queue, child))
        return [leaf for child in children for leaf in self._leaves(child, wanted)]

    def _app_key(self, leaf: LeafView, app: ViewApp) -> Rank:
        return leaf.rank_of(app, self._state.total, self._difference.apps, self._top_of(app))

    def _queue_key(self, parent: ParentView, child: ViewQueue) -> QueueKey:
        if child.key not in self._difference.queues:
            return child.key_in(parent, self._state.total)
        allocated, pending = self._allocated(child), self._pending(child)
        asked = [used + more for used, more in zip(allocated, pending, strict=True)]
        share, more = child.shares_of(allocated, asked, self._state.total)
        # USAGE-8
        if child.past is not None:
            share = child.past_share(self._state.total, allocated)
        return queue_key(parent.config.settings, child.config, self._counted(child), share, more)

    def _allocated(self, queue: ViewQueue) -> Row:
        row, more = list(queue.allocated), self._difference.queues.get(queue.key)
        for name, amount in (more or {}).items():
            number = queue.types.find(name)
            assert number is not None, "an ask holds a type that has no number"
            row[number] += amount
        return row

    def _pending(self, queue: ViewQueue) -> Row:
        row = list(queue.pending)
        for member in self._placed_below(queue):
            for number, amount in queue.types.numbered(member.ask.resources.amounts):
                row[number] -= amount
        return row

    def _placed_below(self, queue: ViewQueue) -> list[Member]:
        state, placed = self._state, self._difference.placed.values()
        return [member for member, _ in placed if queue in state.leaf_of(member.app).line]

    def _counted(self, queue: ViewQueue) -> int | None:
        """Return the priority of a queue as its parent sees it."""
        if not self._placed_below(queue):
            return queue.counted
        if not any(self._pending(queue)):
            return None
        if isinstance(queue, LeafView):
            top = queue.priority_at(highest(self._top_of(app) for app in queue.apps.values()))
        else:
            assert isinstance(queue, ParentView), "a queue is a parent or a leaf"
            top = highest(self._counted(child) for child in queue.children.values())
        return current_priority(queue.config.settings, top, is_root=queue.parent is None)

    def _top_of(self, app: ViewApp) -> int | None:
        """Return the highest priority of what is pending of an application, or the highest level."""
        placed = {name for key, name in self._difference.placed if key == app.identity.key}
        if not placed:
            return app.tally.top()
        asks = [ask for ask in app.each_pending() if ask.name not in placed]
        aging = self._state.leaf_of(app).aging
        if aging is not None:
            asks += aging.next_without(app, placed)
        return highest(-ask.rank for ask in asks)
