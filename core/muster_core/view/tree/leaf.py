"""Leaves as a round sees them: which of their applications compete, and in which order.

If neither the policy of a leaf nor a ``maxapplications`` on its path makes applications wait for
others, all of them are in one order. Otherwise there is an order for each state that makes a
difference, since a gate opens or closes for all applications in a state.

For backfilling, a leaf also knows how long its pending asks are expected to take, by shape, the
shortest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Final, final

from typing_extensions import override

from muster_core.owners.app_messages import Values
from muster_core.owners.asks import Ask, AskOrder, run_limit_us
from muster_core.structures.amounts import Types, add_to, sum_of
from muster_core.structures.ranking import Rank
from muster_core.structures.shapes import EVERY_SHAPE, ShapeTable, bits_of
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.application_states import AppState
from muster_core.values.configuration import QueueConfig, Settings, SortPolicy
from muster_core.values.priority import highest
from muster_core.view.tree.aging import AgingOrder
from muster_core.view.tree.application import AppOrder, ViewApp
from muster_core.view.tree.queue import VISIT, ParentView, ViewQueue, app_key
from muster_core.view.tree.usage import User, Users

_EstimatedAsk = tuple[int, int, int, "Ask", "ViewApp"]
"""An estimate in microseconds, the place of the ask in the input, the ask, its application."""

EVERY_TYPE: Final = frozenset(("",))
"""What a leaf watches where a queue on the path deserves something of every type; none is called ``""``."""

_STALE: Final = 64
"""How many more entries than twice the asks a heap may have."""


# BACKFILL-10
def estimate_us(settings: Settings, ask: Ask, limit_us: int | None) -> int | None:
    """Return how long an ask is expected to take, in microseconds, or None.

    Args:
        settings: Those of its leaf.
        ask: The ask.
        limit_us: How long it may be bound, in microseconds, or None.
    """
    own_us = ask.run_for_us if ask.estimate_us is None else ask.estimate_us
    if own_us is not None:
        return own_us
    return settings.estimate_us if limit_us is None else limit_us


# BACKFILL-10
def estimate_now_us(settings: Settings, ask: Ask) -> int | None:
    """Return how long an ask of a leaf with these settings will take if it is bound now, or None."""
    return estimate_us(settings, ask, run_limit_us(ask, settings.run_limit_us))


@final
class Estimates:
    """The plain pending asks of a leaf that have an estimate, by shape.

    Args:
        asks: Its pending asks, each with its application and the bit of its shape.
    """

    __slots__ = ("_heaps", "_settings")

    def __init__(self, settings: Settings, asks: Iterable[tuple[ViewApp, Ask, int]]) -> None:
        self._settings = settings
        #: All pending asks of each shape, and perhaps others.
        self._heaps: dict[int, list[_EstimatedAsk]] = {}
        for app, ask, bit in asks:
            entry = self._entry(app, ask)
            if entry is not None:
                self._heaps.setdefault(bit, []).append(entry)
        for heap in self._heaps.values():
            heapify(heap)

    def is_for(self, settings: Settings) -> bool:
        """Return whether the estimates are those that settings give."""
        own = self._settings
        return (own.estimate_us, own.run_limit_us) == (settings.estimate_us, settings.run_limit_us)

    def add(self, app: ViewApp, ask: Ask, bit: int) -> None:
        """Add an ask that is pending now."""
        entry = self._entry(app, ask)
        if entry is None:
            return
        heap = self._heaps.setdefault(bit, [])
        heappush(heap, entry)
        if len(heap) > _STALE and len(heap) & (len(heap) - 1) == 0:  # Now and then.
            heap[:] = {entry[:3]: entry for entry in heap if _is_pending(entry)}.values()
            heapify(heap)

    def _entry(self, app: ViewApp, ask: Ask) -> _EstimatedAsk | None:
        estimate = estimate_now_us(self._settings, ask)
        return None if estimate is None else (estimate, ask.seq, ask.number, ask, app)

    def shortest(self, bit: int) -> int | None:
        """Return the least estimate of the pending asks of a shape, in microseconds, or None."""
        heap = self._heaps.get(bit)
        while heap and not _is_pending(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def below(self, bit: int, limit_us: int) -> Iterator[tuple[ViewApp, Ask]]:
        """Iterate over the untried asks of a shape with an estimate below a limit, in no order."""
        for estimate, _, _, ask, app in self._heaps.get(bit, ()):
            if estimate < limit_us and app.has_untried(ask):
                yield app, ask


def _is_pending(entry: _EstimatedAsk) -> bool:
    return entry[4].pending.get(entry[3].name) is entry[3]


_OrderKey = tuple[AppState, bool]

_FIRST: Final = itemgetter(0, 1)
"""What decides which of several asks of a leaf is first: the rank of its application, its order."""

COMPETING: Final = (AppState.RUNNING, AppState.STARTING, AppState.ACCEPTED)
"""The states in which an application can have pending asks."""

_HOLDING: Final = (AppState.ACCEPTED, True)
_ORDER_KEYS: Final = (*((state, False) for state in COMPETING), _HOLDING)
"""What decides whether an application competes: its state, and whether it counts as running for
``maxapplications`` only because it has waiting asks."""


@final
class LeafView(ViewQueue):
    """A leaf: its children are applications.

    Attributes:
        aging: How old its pending asks are, if they age; then ``tally`` and its applications count
            levels, not priorities.
        starting: How many of them are in Starting.
        under_limits: How many of them have limits of users or groups.
        blocked: Whether the leaf is blocking, or in a strict scope, and one of its asks, or one of
            the scope, did not fit in this round.
        preempting: How many of its pending asks have a class that lets them preempt, by
            shape, priority and gang; no zeros.
        watched: The types that a ``guaranteed`` on the path names, or all of them, if its asks
            may reclaim and preempt; None if they may not.
        hidden: The shapes of asks that are sure to fail in this round, without any effect; asks of
            some of them may still be tried, see ``limits_us``.
        refusing: The table of shapes while asks are hidden that limits of users and groups refuse,
            as they are just as sure to fail; None while such asks are tried.
        limits_us: The hidden shapes of which asks with an estimate below a limit may be tried.
        estimates: How long the pending asks are expected to take; None until they are needed.
        users: The users whose usage counts in the leaf; None if no usage counts.
        since: How many of the pending asks that could evict others count as pending from each
            instant, in microseconds; no zeros (see :mod:`muster_core.view.state.timers`).
    """

    __slots__ = (
        "_all",
        "_limited",
        "_measures",
        "_orders",
        "_total",
        "aging",
        "apps",
        "blocked",
        "estimates",
        "hidden",
        "limits_us",
        "pending_mask",
        "preempting",
        "refusing",
        "shapes",
        "since",
        "slots",
        "starting",
        "under_limits",
        "users",
        "watched",
    )

    def __init__(
        self, key: int, parent: ParentView | None, config: QueueConfig, types: Types, depth: int = 0
    ) -> None:
        super().__init__(key, parent, config, types, depth)
        self.apps: dict[int, ViewApp] = {}
        self.aging: AgingOrder | None = None
        self.starting = 0
        self.under_limits = 0
        self.blocked = False
        self.preempting: dict[tuple[int, int, str], int] = {}
        self.watched: frozenset[str] | None = None
        self.hidden = 0
        self.refusing: ShapeTable | None = None
        self.limits_us: dict[int, int] = {}
        self.estimates: Estimates | None = None
        self.users: Users | None = None
        self.since: dict[int, int] = {}
        #: How many pending asks have each shape, tried or not, and the mask of these shapes.
        self.shapes: dict[int, int] = {}
        #: How many slots with pending gang members its applications have.
        self.slots = 0
        self.pending_mask = 0
        #: The queues on the path that have a ``maxapplications``.
        self._limited: list[ViewQueue] = []
        #: The applications with pending asks, by state. Where states make no difference, all are
        #: the same order, which is in ``_all`` too.
        self._orders: dict[_OrderKey, AppOrder[ViewApp]] = {}
        self._all: AppOrder[ViewApp] | None = None
        #: By what usage was measured when the applications were listed: the capacity of the
        #: partition, and what the leaf deserved.
        self._measures: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})

    # AGING-7
    @override
    def top(self) -> int | None:
        """Return the highest priority of its applications."""
        return self.priority_at(self.tally.top())

    def priority_at(self, level: int | None) -> int | None:
        """Return the present priority of asks that count with a level, or None if there are none."""
        return level if level is None or self.aging is None else self.aging.priority_at(level)

    # AGING-2
    def priority_of(self, app: ViewApp, ask: Ask) -> int:
        """Return the present priority of an ask that is not bound."""
        return ask.priority if self.aging is None else self.aging.priority(app, ask)

    # AGING-7
    def order_of(self, app: ViewApp, ask: Ask) -> AskOrder:
        """Return the position of a pending ask among those of its application."""
        order = app.order_of(ask)
        return order if self.aging is None else (self.aging.rank(app, ask), *order[1:])

    def values_of(self, app: ViewApp) -> Values:
        """Return the values of an application that the leaf counts."""
        values = app.values()
        if self.aging is None:
            return values
        return Values(self.priority_at(values.priority), values.pending, values.allocated)

    def watches(self, ask: Ask) -> bool:
        """Return whether an ask could reclaim or preempt once its delay is over."""
        watched = self.watched
        if watched is None:
            return False
        if ask.preempts or watched == EVERY_TYPE:
            return True
        return bool(watched) and any(ask.resources[name] for name in watched)

    def unlist(self) -> None:
        """Remove all applications from the orders until ``reorder`` lists them again."""
        self._all, self._orders = None, {}

    def is_ordered(self, total: Mapping[str, int]) -> bool:
        """Return whether nothing that all applications' positions depend on has changed."""
        if not self._orders or self._limited != self._limits():
            return False
        if self.config.settings.sort_policy is not SortPolicy.FAIR:
            return True
        return self._measures == (total, self.deserved)

    def _limits(self) -> list[ViewQueue]:
        return [queue for queue in self.line if queue.config.max_applications]

    def reorder(self, total: Mapping[str, int]) -> Steps[None]:
        """List all applications again, because the settings or the totals have changed."""
        self._limited, self._measures = self._limits(), (dict(total), self.deserved)
        self._all = None
        self._orders = {order_key: AppOrder() for order_key in _ORDER_KEYS}
        if not self._limited and not self.state_aware:
            self._all = self._orders[_HOLDING]
            self._orders = dict.fromkeys(_ORDER_KEYS, self._all)
        if self.users is not None:
            self.users.unlist(total)
        for piece in in_pieces(self.apps.values()):
            for app in piece:
                app.order, app.listed = None, 0
                self.list_app(app, total)
            yield

    def list_app(self, app: ViewApp, total: Mapping[str, int]) -> None:
        """Update an application's position, and the priority with which it counts in the leaf."""
        if app.to_relist or app.limits:
            app.settle()
        # PRIORITY-9
        priority = app.tally.top()
        if priority != app.counted:
            self.tally.replace(app.counted, priority)
            app.counted = priority
            self.repriced = True
        before = app.order
        # ORDER-1
        # BACKOFF-6
        order = (self._all or self._orders.get(_order_key(app))) if app.pending else None
        users = self.users
        if users is not None:
            self._count_user(app, total, is_listed=order is not None)
        if order is None:
            if before is not None:
                before.remove(app)
            return
        rank = app_key(self, app, total) if users is None else self.rank_of(app, total)
        changes = order is not before
        if changes:
            if before is not None:
                before.remove(app)
            order.add(app, rank)
        elif rank != app.rank:
            order.move(app, rank)
        elif app.mask != app.listed:
            order.update(app)

    # USAGE-9
    def rank_of(
        self,
        app: ViewApp,
        total: Mapping[str, int],
        more: Mapping[int, Mapping[str, int]] | None = None,
        priority: int | None = None,
    ) -> Rank:
        """Return the sort key of an application of the leaf.

        Args:
            app: The application.
            total: The capacity of all nodes.
            more: How much more applications would have allocated (less, if negative), by key.
            priority: The highest priority that its pending asks would have; None for that they have.
        """
        allocated: dict[str, int] | None = None
        if more is not None:
            allocated = dict(app.allocated)
            add_to(allocated, more.get(app.identity.key, {}))
        if self.users is None or self.config.settings.sort_policy is not SortPolicy.FAIR:
            return app_key(self, app, total, allocated, priority)
        past = self.users.share_for(app, total, more)
        return app_key(self, app, total, allocated, priority, past)

    def _count_user(self, app: ViewApp, total: Mapping[str, int], *, is_listed: bool) -> None:
        """Count what an application has allocated; move those of its user if their share changes."""
        assert self.users is not None, "counted a user where none counts"
        user = self.users.count(app)
        if is_listed:
            user.listed[app.identity.key] = app
        else:
            user.listed.pop(app.identity.key, None)
        if self.users.renew(user, total):
            self._move_all(user, total, but=app)

    def _move_all(self, user: User, total: Mapping[str, int], but: ViewApp | None = None) -> None:
        fair = self.config.settings.sort_policy is SortPolicy.FAIR
        for app in user.listed.values() if fair else ():
            if app is not but and app.order is not None:
                app.order.move(app, self.rank_of(app, total))

    # USAGE-6
    def rank_users(self, total: Mapping[str, int]) -> None:
        """Move all applications, as the past shares of their users may have changed."""
        assert self.users is not None, "ranked users where none counts"
        for user in self.users.by_name.values() if self._orders else ():
            if self.users.renew(user, total):
                self._move_all(user, total)

    def remove(self, app: ViewApp) -> None:
        """Remove an application that no longer exists."""
        del self.apps[app.identity.key]
        if self.users is not None:
            self.users.count(app, gone=True)
        self.tally.replace(app.counted, None)
        self.repriced = True
        if app.order is not None:
            app.order.remove(app)

    def count_preempting(self, ask: Ask, bit: int, change: int) -> None:
        """Change the count of pending asks that may preempt."""
        key = (bit, ask.priority, ask.gang or "")
        left = self.preempting.get(key, 0) + change
        if left:
            self.preempting[key] = left
        else:
            del self.preempting[key]

    def count_shape(self, bit: int, change: int) -> None:
        """Change the count of the pending asks of a shape."""
        left = self.shapes.get(bit, 0) + change
        if left:
            self.shapes[bit] = left
            self.pending_mask |= 1 << bit
        else:
            del self.shapes[bit]
            self.pending_mask &= ~(1 << bit)

    @override
    def below(self) -> int:
        """Return the shapes of the asks that may be tried."""
        # ROUND-13, BACKFILL-4
        if self.blocked:
            return 0
        if not self.config.settings.blocking:
            if self._all is not None:
                mask = self._all.counts.mask
                if self.refusing is not None:
                    return self._allowed(self._all, self.refusing)
                return mask & ~self.hidden | self._shown() if self.hidden else mask
            mask = 0
            for order in self._open_orders():
                mask |= order.mask
            starter = self.starter()
            return mask if starter is None else mask | starter.mask
        # ROUND-13
        first = self.first()
        if first is None:
            return 0
        # The first ask can only change before the leaf's turn if an ancestor has a
        # maxapplications; then the leaf must be visited in its turn. The same holds if the leaf
        # has gang members, which fail once the leaf is blocked.
        # Limits of users and groups can change it as well.
        above = self.under_limits > 0 or self._limited not in ([], [self])
        return 1 << first[1] | (VISIT if above or self.slots else 0)

    @override
    def visits(self, below: int, exact: bool) -> int:
        """Return the shapes with which the leaf can be entered, if it must be visited."""
        return self.pending_mask if below & VISIT or (exact and below) else 0

    # ROUND-12, ROUND-13
    def choose(self, mask: int) -> tuple[ViewApp, int, Ask] | None:
        """Return the ask to try of those with a bit in ``mask``, or None if it does not fit."""
        if self.config.settings.blocking:
            first = self.first()
            return first if first is not None and mask >> first[1] & 1 else None
        if self._all is not None:
            if self.refusing is not None:
                return self._choose_allowed(self._all, self.refusing, mask)
            if self.hidden:
                return self._choose_shown(self._all, mask)
            app = self._all.ranking.first(mask)
            return None if app is None else (app, *app.best(mask))
        return self._choose_competing(mask)

    def _choose_competing(self, mask: int) -> tuple[ViewApp, int, Ask]:
        found = [app for order in self._open_orders() if (app := order.best(mask)) is not None]
        starter = self.starter()
        if starter is not None and starter.mask & mask:
            found.append(starter)
        app = min(found, key=lambda app: app.rank)
        return (app, *app.best(mask))

    # Asks that need not be tried

    @property
    def may_hide(self) -> bool:
        """Whether asks of the leaf that fail affect no other asks."""
        return self._all is not None and not self.config.settings.blocking

    def hide(self, mask: int) -> bool:
        """Let no ask with a shape in a mask be tried; return whether that is new."""
        new = mask & ~self.hidden
        self.hidden |= mask
        for bit in bits_of(mask) if self.limits_us else ():
            new |= 1 << bit if self.limits_us.pop(bit, None) is not None else 0
        return new != 0

    def hide_longer(self, bit: int, limit_us: int) -> None:
        """Let no ask of a shape be tried with an estimate of at least a limit, in microseconds."""
        self.hidden |= 1 << bit
        self.limits_us[bit] = limit_us

    # LIMIT-9
    def hide_refused(self, shapes: ShapeTable) -> None:
        """Let no ask be tried that a limit of its user or group refuses."""
        self.refusing = shapes

    def show(self) -> None:
        """Let every ask be tried again."""
        self.hidden, self.refusing = 0, None
        self.limits_us.clear()

    def _shown(self) -> int:
        """Return the hidden shapes of which an ask may be tried, since it takes little time."""
        mask, estimates = 0, self.estimates
        for bit, limit_us in self.limits_us.items() if estimates is not None else ():
            assert estimates is not None, "looked for estimates of a leaf without"
            shortest = estimates.shortest(bit)
            if shortest is not None and shortest < limit_us:
                mask |= 1 << bit if any(estimates.below(bit, limit_us)) else 0
        return mask

    def _allowed(self, order: AppOrder[ViewApp], shapes: ShapeTable) -> int:
        """Return the shapes of the asks that are neither hidden nor refused."""
        mask, found = order.counts.mask & ~self.hidden, 0
        for app in order.ranking.standing_for(mask):
            found |= app.mask & mask & ~app.refused(shapes)
        return found

    def _choose_allowed(
        self, order: AppOrder[ViewApp], shapes: ShapeTable, mask: int
    ) -> tuple[ViewApp, int, Ask] | None:
        """Return the first ask with a shape in a mask that is neither hidden nor refused."""
        mask &= ~self.hidden
        for app in order.ranking.standing_for(mask):
            allowed = mask & ~app.refused(shapes)
            if app.mask & allowed:
                return (app, *app.best(allowed))
        return None

    def _choose_shown(self, order: AppOrder[ViewApp], mask: int) -> tuple[ViewApp, int, Ask] | None:
        """Return the first ask with a shape in a mask that is not hidden."""
        found: list[tuple[Rank, AskOrder, ViewApp, int, Ask]] = []
        first = order.ranking.first(mask & ~self.hidden)
        if first is not None:
            bit, ask = first.best(mask & ~self.hidden)
            found.append((first.rank, self.order_of(first, ask), first, bit, ask))
        for bit in bits_of(self._shown() & mask):
            assert self.estimates is not None, "looked for estimates of a leaf without"
            short = self.estimates.below(bit, self.limits_us[bit])
            found.extend((app.rank, self.order_of(app, ask), app, bit, ask) for app, ask in short)
        if not found:
            return None
        _, _, app, bit, ask = min(found, key=_FIRST)
        return app, bit, ask

    @override
    def may_be_blocked_by_members(self) -> bool:
        """Return whether a gang member that was not the first ask may have blocked the leaf."""
        return self.config.settings.blocking and self.slots > 0

    def competes(self, app: ViewApp) -> bool:
        """Return whether an application of the leaf has a turn in a round."""
        if app.must_wait():
            return False
        return app is self.starter() or any(app.order is order for order in self._open_orders())

    def competing(self) -> list[ViewApp]:
        """Return the applications that have a turn in a round, best first."""
        found = [app for order in self._open_orders() for app in order if not app.must_wait()]
        starter = self.starter()
        if starter is not None:
            found.append(starter)
        return sorted(found, key=lambda app: app.rank)

    # ORDER-2, LIMIT-12
    def enters(self) -> bool:
        """Return whether a pending ask of the leaf fits the headroom."""
        mask = self.pending_mask
        for queue in self.upward():
            mask &= queue.admits
        return bool(mask)

    def first(self) -> tuple[ViewApp, int, Ask] | None:
        """Return the first untried ask, whether it fits or not; for a blocking leaf."""
        orders = self._open_orders()
        found = [app for order in orders if (app := order.best(EVERY_SHAPE)) is not None]
        starter = self.starter()
        if starter is not None and starter.mask:
            found.append(starter)
        if not found:
            return None
        app = min(found, key=lambda app: app.rank)
        return (app, *app.best(EVERY_SHAPE))

    @property
    def state_aware(self) -> bool:
        """Whether its applications start one after the other."""
        return self.config.settings.sort_policy is SortPolicy.STATE_AWARE

    # QUEUE-7
    def is_closed(self) -> bool:
        """Return whether ``maxapplications`` on the path stops applications that do not run."""
        return any(queue.is_full() for queue in self._limited)

    # ORDER-15
    def _open_orders(self) -> Sequence[AppOrder[ViewApp]]:
        """Return the orders whose applications all compete."""
        if self._all is not None:
            return (self._all,)
        orders = self._orders
        if self.state_aware:
            return (orders[AppState.RUNNING, False],)
        running = (
            orders[AppState.RUNNING, False],
            orders[AppState.STARTING, False],
            orders[_HOLDING],
        )
        return running if self.is_closed() else (*running, orders[AppState.ACCEPTED, False])

    # ORDER-15, ORDER-16
    def next_to_start(self) -> ViewApp | None:
        """Return the application that is the next to start, if the leaf is state-aware."""
        # ORDER-17
        state = AppState.STARTING if self.starting else AppState.ACCEPTED
        orders = [self._orders[state, False]]
        if state is AppState.ACCEPTED:
            orders.append(self._orders[_HOLDING])
        firsts = (next((app for app in order if not app.must_wait()), None) for order in orders)
        found = [app for app in firsts if app is not None]
        return min(found, key=lambda app: app.rank, default=None)

    def starter(self) -> ViewApp | None:
        """Return the one application that competes beside the Running ones, if state-aware."""
        found = self.next_to_start() if self.state_aware else None
        return None if found is None or (not found.running and self.is_closed()) else found

    @override
    def check(self, shapes: ShapeTable, total: Mapping[str, int]) -> None:
        """Assert the invariants of a leaf that is up to date, outside a round; for tests."""
        ViewQueue.check(self, shapes, total)
        apps = list(self.apps.values())
        assert not self.blocked
        assert not self.hidden
        assert self.refusing is None
        assert not self.limits_us
        assert self.tally.top() == highest(app.counted for app in apps)
        types = self.types
        assert types.amounts(self.pending) == sum_of(app.pending_total for app in apps)
        assert types.amounts(self.allocated) == sum_of(app.allocated for app in apps)
        assert self.starting == sum(app.state is AppState.STARTING for app in apps)
        assert self.under_limits == sum(bool(app.limits) for app in apps)
        assert self.running == sum(app.running for app in apps)
        if self.aging is not None:
            asks = [(app, ask) for app in apps for ask in app.each_pending()]
            self.aging.check({(app.identity.key, ask.name): (app, ask) for app, ask in asks})
        for app in apps:
            assert app.counted == app.tally.top()
            assert not app.pending or app.rank == self.rank_of(app, total)
            app.check()
        # All and only the applications with asks that may be picked are listed, each by its state.
        listed = [app for app in apps if app.pending]
        for order_key, order in self._orders.items():
            if self._all is None:
                order.check([app for app in listed if _order_key(app) == order_key])
        if self._all is not None:
            self._all.check(listed)
        counts: dict[int, int] = {}
        for app in apps:
            for ask in app.each_pending():
                bit = shapes.find(ask.shape) or 0
                counts[bit] = counts.get(bit, 0) + 1
        assert counts == self.shapes
        assert set(bits_of(self.pending_mask)) == set(counts)
        assert not self.pending_mask & (self.admits ^ self.admitted(shapes))
        for queue in self.upward():
            assert not self.pending_mask & (queue.claims ^ queue.claimed(shapes))
        preempting = [ask for app in apps for ask in app.each_pending() if ask.preempts]
        assert self.preempting == Counter(
            (shapes.find(ask.shape), ask.priority, ask.gang or "") for ask in preempting
        )
        assert self.slots == sum(len(app.slots) for app in apps)
        assert all(app.state in COMPETING for app in apps if any(app.each_pending()))


def _order_key(app: ViewApp) -> _OrderKey:
    state = app.state
    return (state, state is AppState.ACCEPTED and bool(app.waiting))
