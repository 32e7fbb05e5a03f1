"""Queues as a round sees them: their order, their headroom, and what they could place.

Every queue has a mask of the shapes that it could place now as far as its quota
and those below it go (``open``). A parent is entered only for a shape that is in
the mask of one of its children, so that no search ever fails, and nothing is
placed that the plain algorithm would not place: within a round room only
shrinks, so an ask that fits when its turn comes would have fitted before, and
one that does not fit never will.

Some asks have to be tried in their turn, fitting or not (see
:mod:`muster_core.view.gangs`). A leaf that has such asks is to be visited if it enters
at all, which means that something pending in it fits the headroom; which shapes those
are is a second mask (``visiting``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

import attrs
from typing_extensions import override

from muster_core.config.model import QueueConfig, SortPolicy
from muster_core.lifecycle import AppState
from muster_core.messages import Ask, Values
from muster_core.priority import PriorityTally, current_priority
from muster_core.shapes import EVERY_SHAPE, VISIT_BIT, ShapeTable, bits_of
from muster_core.shares import Denominators, dominant_share, fair_share, usage_key
from muster_core.totals import add_to
from muster_core.view.apps import ViewApp
from muster_core.view.orders import AppOrder, OrderKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


VISIT: Final = 1 << VISIT_BIT
"""The mask of what is to be tried though it may fit nowhere."""

_Standing = tuple[AppState, bool]

COMPETING: Final = (AppState.RUNNING, AppState.STARTING, AppState.ACCEPTED)
"""The states in which an application can have pending asks."""

_HOLDING: Final = (AppState.ACCEPTED, True)
_STANDINGS: Final = (*((state, False) for state in COMPETING), _HOLDING)
"""What decides whether an application competes: its state, and whether it only runs for the
sake of ``maxapplications``, as it holds waiting asks."""

QueueKey = tuple[float | str, ...]


@attrs.define(eq=False)
class ViewQueue(ABC):
    """A queue; a parent or a leaf.

    Attributes:
        key: Its number.
        parent: Its parent, or None for the root.
        config: Its settings.
        depth: The number of its ancestors.
        pending: What is pending in it.
        allocated: What is allocated in it.
        tally: The priorities of what is right below it and has something pending.
        priority: Its ``currentPriority``.
        counted: The priority with which it counts in its parent.
        running: How many applications run in it, for ``maxapplications``.
        open: The shapes that it could place now.
        visiting: The shapes with which leaves below enter that are to be visited.
        admits: The shapes that fit in the headroom left by its own ``max``.
        claims: The shapes for which it may reclaim, as far as ``guaranteed`` goes.
        order: Its place among its siblings, while it could place something or is to be
            visited.
        denominators: What its use is compared with; None while not known.
    """

    key: int
    parent: ParentView | None
    config: QueueConfig
    depth: int = 0
    pending: dict[str, int] = attrs.field(factory=dict[str, int])
    allocated: dict[str, int] = attrs.field(factory=dict[str, int])
    tally: PriorityTally = attrs.field(factory=PriorityTally)
    priority: int | None = None
    counted: int | None = None
    running: int = 0
    open: int = 0
    visiting: int = 0
    admits: int = EVERY_SHAPE
    claims: int = 0
    order: QueueKey = ()
    denominators: Denominators | None = None

    def upward(self) -> Iterator[ViewQueue]:
        """Give the queue and its ancestors, nearest first."""
        queue: ViewQueue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def gates(self) -> tuple[bool, bool]:
        """Say for whom ``maxapplications`` is used up here: (running ones, others)."""
        limit = self.config.max_applications
        return (limit > 0 and self.running > limit, limit > 0 and self.running >= limit)

    def may_be_blocked_by_members(self) -> bool:
        """Say whether a member of a gang that was not the first may have blocked a leaf."""
        return False

    @abstractmethod
    def below(self) -> int:
        """Give the shapes that could be placed but for the queue's own ``max``."""

    @abstractmethod
    def visits(self, below: int, *, exact: bool) -> int:
        """Give the shapes with which leaves would enter that are to be visited.

        Args:
            below: What :meth:`below` gives.
            exact: Whether every leaf is to be visited that has something to try.
        """

    def has_room(self, ask: Ask) -> bool:
        """Say whether an ask fits in the headroom of the queue and all above it."""
        resources = ask.resources
        for queue in self.upward():
            for name, most in queue.config.max.amounts:
                amount = resources[name]
                if amount and queue.allocated.get(name, 0) + amount > most:
                    return False
        return True

    def values(self) -> Values:
        """Give what counts of the queue in its parent."""
        return Values(self.counted, dict(self.pending), dict(self.allocated))

    def admitted(self, shapes: ShapeTable) -> int:
        """Give the shapes that fit in the headroom left by the queue's own ``max``."""
        limits = self.config.max.amounts
        if not limits:
            return EVERY_SHAPE
        allocated = self.allocated
        headroom = {name: most - allocated.get(name, 0) for name, most in limits}
        return shapes.fitting_headroom(headroom)

    def claimed(self, shapes: ShapeTable) -> int:
        """Give the shapes of which ``guaranteed`` names a type, and with which it is not exceeded."""
        guaranteed = self.config.guaranteed
        if not guaranteed or self.parent is None:
            return 0
        room = {name: most - self.allocated.get(name, 0) for name, most in guaranteed.items()}
        return shapes.naming(guaranteed) & shapes.fitting_headroom(room)

    def fair_share(self, total: Mapping[str, int]) -> float:
        """Give the fair share, where the partition has ``total``."""
        return self.share_of(self.allocated, total)

    def share_of(self, amounts: Mapping[str, int], total: Mapping[str, int]) -> float:
        """Give the fair share that the queue would have with these amounts allocated."""
        if self.denominators is None:
            self.denominators = Denominators([queue.config for queue in self.upward()], total)
        return fair_share(amounts, self.denominators)

    def refresh(self, shapes: ShapeTable, total: Mapping[str, int], *, exact: bool = False) -> None:
        """Bring everything that is computed up to date, and tell the parent."""
        self.priority = current_priority(
            self.config.settings, self.tally.top(), is_root=self.parent is None
        )
        before = self.open
        below = self.below()
        self.admits = self.admitted(shapes)
        self.claims = self.claimed(shapes)
        self.open = below & self.admits & ~VISIT
        self.visiting = self.visits(below, exact=exact) & self.admits
        if self.parent is not None:
            self.parent.child_changed(self, before, total)

    def key_in(self, parent: ParentView, total: Mapping[str, int]) -> QueueKey:
        """Compute the queue's place among its siblings (SPEC section 4)."""
        by_share = (self.fair_share(total), -dominant_share(self.pending, total), self.config.path)
        if not parent.config.settings.sort_by_priority:
            return by_share
        priority = self.counted
        assert priority is not None, "a queue with something pending has a priority"
        return (-self.config.settings.queue_priority, -priority, *by_share)

    def check(self, shapes: ShapeTable, total: Mapping[str, int]) -> None:
        """Assert the invariants of a queue that is up to date; for tests."""
        # What is cached is what a fresh look gives.
        assert self.priority == current_priority(
            self.config.settings, self.tally.top(), is_root=self.parent is None
        )
        below, admitted = self.below(), self.admitted(shapes)
        assert self.open == below & admitted & ~VISIT
        assert self.visiting == self.visits(below, exact=False) & admitted
        assert self.fair_share(total) == fair_share(
            self.allocated, Denominators([queue.config for queue in self.upward()], total)
        )
        # Its parent knows it, and is told of its priority only while something is pending.
        if self.parent is not None:
            assert self.parent.children[self.key] is self
            assert self.counted == (self.priority if self.pending else None)
        self.tally.check()


@attrs.define(eq=False)
class ParentView(ViewQueue):
    """A parent: its children are queues.

    Attributes:
        children: All children by their keys.
    """

    children: dict[int, ViewQueue] = attrs.field(factory=dict[int, ViewQueue])
    #: The children that could place something, in order.
    _order: list[tuple[QueueKey, ViewQueue]] = attrs.field(
        factory=list["tuple[QueueKey, ViewQueue]"], init=False
    )
    #: How many children could place each shape; no zeros.
    _counts: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    #: The shapes that some child could place.
    _below: int = attrs.field(default=0, init=False)
    #: The children below which there is a leaf to be visited.
    _visited: dict[int, ViewQueue] = attrs.field(factory=dict[int, ViewQueue], init=False)

    @override
    def below(self) -> int:
        """Give the shapes that some child could place."""
        return self._below

    @override
    def visits(self, below: int, *, exact: bool) -> int:
        """Give the shapes with which leaves would enter that are to be visited."""
        mask = 0
        for child in self._visited.values():
            mask |= child.visiting
        return mask

    def child_changed(self, child: ViewQueue, before: int, total: Mapping[str, int]) -> None:
        """Take note of what a child could place, of its priority and of its place."""
        counted = child.priority if child.pending else None
        self.tally.replace(child.counted, counted)
        child.counted = counted
        wanted = child.open or child.visiting
        order = child.key_in(self, total) if wanted else ()
        if order != child.order:
            self._unlist(child)
            child.order = order
            if wanted:
                insort(self._order, (order, child))
        self._count(before, child.open)
        if child.visiting:
            self._visited[child.key] = child
        else:
            self._visited.pop(child.key, None)

    def reorder(self) -> None:
        """List no child until each has been refreshed, as the settings have changed."""
        self._order.clear()
        for child in self.children.values():
            child.order = ()

    def remove(self, child: ViewQueue) -> None:
        """Take out a child that has ceased to exist."""
        del self.children[child.key]
        self.tally.replace(child.counted, None)
        self._unlist(child)
        self._count(child.open, 0)
        self._visited.pop(child.key, None)

    def first(self, mask: int, entering: int) -> ViewQueue:
        """Give the best child that is to be entered; there must be one.

        Args:
            mask: The shapes for which there is room, on a node and in the queues above.
            entering: The shapes for which there is headroom in the queues above.
        """
        for _, child in self._order:
            if child.open & mask or child.visiting & entering:
                return child
        msg = "entered a queue in which nothing can be placed"
        raise AssertionError(msg)

    def _unlist(self, child: ViewQueue) -> None:
        if child.order:
            del self._order[bisect_left(self._order, (child.order,))]

    def _count(self, before: int, after: int) -> None:
        for bit in bits_of(before ^ after):
            left = self._counts.get(bit, 0) + (1 if after >> bit & 1 else -1)
            if left:
                self._counts[bit] = left
                self._below |= 1 << bit
            else:
                del self._counts[bit]
                self._below &= ~(1 << bit)

    @override
    def check(self, shapes: ShapeTable, total: Mapping[str, int]) -> None:
        """Assert the invariants of a parent that is up to date; for tests."""
        ViewQueue.check(self, shapes, total)
        children = list(self.children.values())
        assert self.tally.top() == _highest(child.counted for child in children)
        assert self.pending == _sum(child.pending for child in children)
        assert self.allocated == _sum(child.allocated for child in children)
        assert self.running == sum(child.running for child in children)
        # All and only the children that could place something are listed, in order.
        listed = [child for child in children if child.open or child.visiting]
        order = sorted((child.key_in(self, total), child.key) for child in listed)
        assert [(key, child.key) for key, child in self._order] == order
        counts: dict[int, int] = {}
        for child in children:
            for bit in bits_of(child.open):
                counts[bit] = counts.get(bit, 0) + 1
        assert counts == self._counts
        assert set(bits_of(self._below)) == set(counts)
        assert set(self._visited) == {child.key for child in children if child.visiting}


@attrs.define(eq=False)
class LeafView(ViewQueue):
    """A leaf: its children are applications.

    Attributes:
        apps: All its applications by their keys.
        starting: How many of them are in Starting.
        blocked: One of its asks did not fit in this round, and it is a blocking leaf.
        preempting: How many of its pending asks have a class that lets them preempt, by
            shape, priority and gang; no zeros.
        watched: The types that a ``guaranteed`` on the path names, if its asks may reclaim
            and preempt; None if they may not.
        since: How many of the pending asks that could take something count as pending since
            when, in microseconds; no zeros (see :mod:`muster_core.view.delays`).
    """

    apps: dict[int, ViewApp] = attrs.field(factory=dict[int, ViewApp])
    starting: int = 0
    blocked: bool = False
    preempting: dict[tuple[int, int, str], int] = attrs.field(
        factory=dict["tuple[int, int, str]", int]
    )
    watched: frozenset[str] | None = None
    since: dict[int, int] = attrs.field(factory=dict[int, int])
    #: How many pending asks there are of each shape, tried or not, and the mask of those.
    shapes: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    #: How many slots its applications have: pending members of gangs.
    slots: int = attrs.field(default=0, init=False)
    pending_mask: int = attrs.field(default=0, init=False)
    #: The queues on the path that have a ``maxapplications``.
    _limited: list[ViewQueue] = attrs.field(factory=list[ViewQueue], init=False)
    #: The applications with pending asks, by where they stand.
    _orders: dict[_Standing, AppOrder[ViewApp]] = attrs.field(
        factory=dict[_Standing, AppOrder[ViewApp]], init=False
    )

    def watches(self, ask: Ask) -> bool:
        """Say whether an ask could take something from others once its delay is over."""
        watched = self.watched
        if watched is None:
            return False
        return ask.preempts or (bool(watched) and any(ask.resources[name] for name in watched))

    def reorder(self, total: Mapping[str, int]) -> None:
        """List all applications anew, as the settings or the totals have changed."""
        self._limited = [queue for queue in self.upward() if queue.config.max_applications]
        self._orders = {standing: AppOrder[ViewApp]() for standing in _STANDINGS}
        for app in self.apps.values():
            app.order, app.listed = None, 0
            self.list_app(app, total)

    def list_app(self, app: ViewApp, total: Mapping[str, int]) -> None:
        """Bring an application's place up to date, and the priority with which it counts."""
        priority = app.tally.top()
        self.tally.replace(app.counted, priority)
        app.counted = priority
        order = self._orders.get(_standing(app)) if app.pending else None
        key = self.key_of(app, total) if order is not None else ()
        if order is app.order and key == app.key:
            if order is not None:
                order.update(app)
            return
        self._unlist(app)
        if order is not None:
            order.add(app, key)

    def remove(self, app: ViewApp) -> None:
        """Take out an application that has ceased to exist."""
        del self.apps[app.identity.key]
        self.tally.replace(app.counted, None)
        self._unlist(app)

    def _unlist(self, app: ViewApp) -> None:
        for order in self._orders.values():
            if app.order is order:
                order.remove(app)

    def count_preempting(self, ask: Ask, bit: int, change: int) -> None:
        """Count the pending asks that may preempt."""
        key = (bit, ask.priority, ask.gang or "")
        left = self.preempting.get(key, 0) + change
        if left:
            self.preempting[key] = left
        else:
            del self.preempting[key]

    def count_shape(self, bit: int, change: int) -> None:
        """Count the pending asks of a shape."""
        left = self.shapes.get(bit, 0) + change
        if left:
            self.shapes[bit] = left
            self.pending_mask |= 1 << bit
        else:
            del self.shapes[bit]
            self.pending_mask &= ~(1 << bit)

    @override
    def below(self) -> int:
        """Give the bits of the asks that may be tried."""
        if not self.config.settings.blocking:
            mask = 0
            for order in self._open_orders():
                mask |= order.mask
            only = self.only()
            return mask if only is None else mask | only.mask
        first = None if self.blocked else self.first()
        if first is None:
            return 0
        # Whether the first ask is still the first when the leaf's turn comes can only
        # change with an ancestor's maxapplications; then the turn has to be waited for.
        # So it has where members of gangs are, which fail in a leaf once it is blocked.
        above = any(queue is not self for queue in self._limited)
        return 1 << first[1] | (VISIT if above or self.slots else 0)

    @override
    def visits(self, below: int, *, exact: bool) -> int:
        """Give the shapes with which the leaf would enter, if it is to be visited."""
        return self.pending_mask if below & VISIT or (exact and below) else 0

    def choose(self, mask: int) -> tuple[ViewApp, int, Ask] | None:
        """Give the ask to be tried of those with a bit in ``mask``, or None if it does not fit."""
        if self.config.settings.blocking:
            first = self.first()
            return first if first is not None and mask >> first[1] & 1 else None
        found = [app for order in self._open_orders() if (app := order.best(mask)) is not None]
        only = self.only()
        if only is not None and only.mask & mask:
            found.append(only)
        app = min(found, key=lambda app: app.key)
        return (app, *app.best(mask))

    @override
    def may_be_blocked_by_members(self) -> bool:
        """Say whether a member of a gang that was not the first may have blocked the leaf."""
        return self.config.settings.blocking and self.slots > 0

    def competes(self, app: ViewApp) -> bool:
        """Say whether an application of the leaf has its turn in a round."""
        return app is self.only() or any(app.order is order for order in self._open_orders())

    def competing(self) -> list[ViewApp]:
        """Give the applications that have their turn in a round, best first."""
        found = [app for order in self._open_orders() for app in order]
        only = self.only()
        if only is not None:
            found.append(only)
        return sorted(found, key=lambda app: app.key)

    def enters(self) -> bool:
        """Say whether something pending in the leaf fits the headroom."""
        mask = self.pending_mask
        for queue in self.upward():
            mask &= queue.admits
        return bool(mask)

    def first(self) -> tuple[ViewApp, int, Ask] | None:
        """Give the first untried ask of all, fitting or not; for a blocking leaf."""
        found = [app for order in self._open_orders() for app in self._first_of(order)]
        only = self.only()
        if only is not None and only.mask:
            found.append(only)
        if not found:
            return None
        app = min(found, key=lambda app: app.key)
        return (app, *app.best(EVERY_SHAPE))

    @staticmethod
    def _first_of(order: AppOrder[ViewApp]) -> Iterator[ViewApp]:
        for app in order:
            if app.mask:
                yield app
                return

    @property
    def _state_aware(self) -> bool:
        return self.config.settings.sort_policy is SortPolicy.STATE_AWARE

    def closed(self) -> tuple[bool, bool]:
        """Say for whom ``maxapplications`` is used up on the path: (running ones, others)."""
        running = others = False
        for queue in self._limited:
            gates = queue.gates()
            running, others = running or gates[0], others or gates[1]
        return running, others

    def _open_orders(self) -> Iterator[AppOrder[ViewApp]]:
        """Give the orders of which every application competes."""
        running_closed, others_closed = self.closed()
        if not running_closed:
            yield self._orders[AppState.RUNNING, False]
            if not self._state_aware:
                yield self._orders[AppState.STARTING, False]
                yield self._orders[_HOLDING]
        if not others_closed and not self._state_aware:
            yield self._orders[AppState.ACCEPTED, False]

    def only(self) -> ViewApp | None:
        """Give the one application that competes beside the Running ones in a state-aware leaf."""
        if not self._state_aware:
            return None
        state = AppState.STARTING if self.starting else AppState.ACCEPTED
        orders = [self._orders[state, False]]
        if state is AppState.ACCEPTED:
            orders.append(self._orders[_HOLDING])
        found = [app for order in orders for app in islice(order, 1)]
        only = min(found, key=lambda app: app.key, default=None)
        return None if only is None or self.closed()[not only.running] else only

    def key_of(self, app: ViewApp, total: Mapping[str, int]) -> OrderKey:
        """Compute an application's place among those of the leaf (SPEC section 4)."""
        settings = self.config.settings
        creation = app.identity.key
        key: OrderKey = (creation,)
        if settings.sort_policy is SortPolicy.FAIR:
            key = (usage_key(app.allocated, self.config.guaranteed, total), creation)
        if settings.sort_by_priority:
            priority = app.counted
            assert priority is not None, "an application with pending asks has a priority"
            key = (-priority, *key)
        return key

    @override
    def check(self, shapes: ShapeTable, total: Mapping[str, int]) -> None:
        """Assert the invariants of a leaf that is up to date, outside a round; for tests."""
        ViewQueue.check(self, shapes, total)
        apps = list(self.apps.values())
        assert not self.blocked
        assert self.tally.top() == _highest(app.counted for app in apps)
        assert self.pending == _sum(app.pending_total for app in apps)
        assert self.allocated == _sum(app.allocated for app in apps)
        assert self.starting == sum(app.state is AppState.STARTING for app in apps)
        assert self.running == sum(app.running for app in apps)
        for app in apps:
            assert app.counted == app.tally.top()
            assert not app.pending or app.key == self.key_of(app, total)
            app.check()
        # All and only the applications with pending asks are listed, each by its state.
        for standing, order in self._orders.items():
            order.check([app for app in apps if _standing(app) == standing and app.pending])
        counts: dict[int, int] = {}
        for app in apps:
            for ask in app.pending.values():
                bit = shapes.find(ask.shape) or 0
                counts[bit] = counts.get(bit, 0) + 1
        assert counts == self.shapes
        assert set(bits_of(self.pending_mask)) == set(counts)
        assert not self.pending_mask & (self.admits ^ self.admitted(shapes))
        for queue in self.upward():
            assert not self.pending_mask & (queue.claims ^ queue.claimed(shapes))
        preempting = [ask for app in apps for ask in app.pending.values() if ask.preempts]
        assert self.preempting == Counter(
            (shapes.find(ask.shape), ask.priority, ask.gang or "") for ask in preempting
        )
        assert self.slots == sum(len(app.slots) for app in apps)
        assert all(app.state in COMPETING for app in apps if app.pending)


def _standing(app: ViewApp) -> _Standing:
    return (app.state, app.state is AppState.ACCEPTED and bool(app.waiting))


def _highest(priorities: Iterable[int | None]) -> int | None:
    return max((priority for priority in priorities if priority is not None), default=None)


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in amounts:
        add_to(total, part)
    return total
