"""Queue settings that bind many applications at once: limits of users and groups, and scopes.

User limits (LIMIT-5 to LIMIT-13): the applications that count for each, and its free amounts. An
application has all limits that apply to it, so that one that has none costs a round nothing. A
limit is computed again after its usage has changed; if it then admits other shapes, its
applications are listed again.

Scopes of ``scheduling.order`` (BACKFILL-2 to BACKFILL-8): the leaves whose asks may not overtake,
or only backfill. The topmost queue of a path whose order is not ``greedy`` makes all asks below it
one scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import final

from muster_core.owners.asks import Ask
from muster_core.structures.amounts import add_to, take_from
from muster_core.structures.shapes import EVERY_SHAPE, ShapeTable, bits_of
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.configuration import EVERY_NAME, LimitEntry, QueueConfig, SchedulingOrder
from muster_core.values.reasons import Passed
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import LimitKey, ViewLimit
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import VISIT, ViewQueue

AppLimit = ViewLimit[ViewApp]


@final
class UserLimits:
    """All limits that apply to an application."""

    def __init__(self, shapes: ShapeTable) -> None:
        self._shapes = shapes
        #: Every limit for which an application counts.
        self.limits: dict[LimitKey, AppLimit] = {}
        #: Those whose usage has changed since they were computed.
        self._stale: list[AppLimit] = []
        #: The applications that are new, or of which that they run has changed.
        self._moved: dict[int, ViewApp] = {}
        #: Whether the limits of some queue have changed, so that all must be found again.
        self.changed = False
        #: The entries by name of the queues that have limits, with their configurations.
        self._named: dict[int, tuple[QueueConfig, _LimitsByName]] = {}

    @property
    def has_stale(self) -> bool:
        """Whether a limit must be computed again, or an application be restricted anew."""
        return bool(self._stale or self._moved)

    # The applications of limits

    # LIMIT-5, LIMIT-7
    def enter(self, app: ViewApp, leaf: LeafView) -> None:
        """Let an application, which has none yet, count for all limits that apply to it."""
        found: list[AppLimit] = []
        user = app.identity.user[0] or None
        for queue in leaf.line:
            if not queue.config.limits:
                continue
            named, path = self._named_of(queue.key, queue.config), queue.config.path
            entry = named.of_user(user)
            if entry is not None:
                found.append(self._limit(LimitKey(queue.key, False, user), path, entry))
            entry = None if app.group is None else named.groups.get(app.group)
            if entry is not None:
                found.append(self._limit(LimitKey(queue.key, True, app.group), path, entry))
        if not found:
            return
        app.limits = tuple(found)
        leaf.under_limits += 1
        for limit in found:
            limit.add(app)
        self.touch(app)

    def enter_again(self, app: ViewApp, leaf: LeafView) -> None:
        """Find the limits of an application again, as its group or its queues have changed."""
        if app.limits:
            self._leave(app, leaf)
            self._moved[app.identity.key] = app
        self.enter(app, leaf)

    def forget(self, app: ViewApp, leaf: LeafView) -> None:
        """Let an application count for no limit any more, since it goes."""
        if app.limits:
            self._leave(app, leaf)
        self._moved.pop(app.identity.key, None)

    def _leave(self, app: ViewApp, leaf: LeafView) -> None:
        leaf.under_limits -= 1
        for limit in app.limits:
            self._touch(limit)
            limit.remove(app)
            if not limit.apps and self.limits.get(limit.key) is limit:
                del self.limits[limit.key]
        app.limits = ()

    def find_again(self, apps: Iterable[tuple[ViewApp, LeafView]]) -> Steps[None]:
        """Find the limits of all applications again, after those of a queue have changed."""
        self.changed = False
        self._named.clear()
        for piece in in_pieces(apps):
            yield
            for app, leaf in piece:
                self.enter_again(app, leaf)

    def _limit(self, key: LimitKey, path: str, entry: LimitEntry) -> AppLimit:
        limit = self.limits.get(key)
        # A new configuration may have the same limits: then the applications that count already stay.
        if limit is None or limit.entry != entry:
            limit = self.limits[key] = ViewLimit[ViewApp](key, path, entry)
            self._stale.append(limit)
        return limit

    def _named_of(self, key: int, config: QueueConfig) -> _LimitsByName:
        known = self._named.get(key)
        if known is None or known[0] is not config:
            known = self._named[key] = config, _LimitsByName(config.limits)
        return known[1]

    # Usage

    # LIMIT-9, LIMIT-14
    def take(self, app: ViewApp, amounts: Mapping[str, int]) -> None:
        """Count resources that an application has been given."""
        for limit in app.limits:
            add_to(limit.used, amounts)
            self._touch(limit)

    def give_back(self, app: ViewApp, amounts: Mapping[str, int]) -> None:
        """Count resources that an application has lost."""
        for limit in app.limits:
            take_from(limit.used, amounts)
            self._touch(limit)

    def count_running(self, app: ViewApp, change: int) -> None:
        """Count that an application runs now, or does not run any more."""
        for limit in app.limits:
            limit.running += change
        self.touch(app)

    def touch(self, app: ViewApp) -> None:
        """Let what an application may try be computed again, as it may have a new shape."""
        self._moved[app.identity.key] = app
        for limit in app.limits:
            self._touch(limit)

    def touch_all(self) -> None:
        """Let all limits be computed again, since the bits of shapes have changed."""
        for limit in self.limits.values():
            self._touch(limit)

    def _touch(self, limit: AppLimit) -> None:
        if not limit.stale:
            limit.stale = True
            self._stale.append(limit)

    # Admission

    def refresh(self, *, exact: bool) -> Iterator[ViewApp]:
        """Compute again what has changed.

        Args:
            exact: Whether every ask is tried, whether it fits or not.

        Yields:
            The applications that may have to be listed again; perhaps one more than once.
        """
        while self._stale:
            limit = self._stale.pop()
            if limit.refresh(self._shapes):
                yield from self._restricted(limit, exact=exact)
        while self._moved:
            _, app = self._moved.popitem()
            self._restrict(app, exact=exact)
            yield app

    def restrict_all(self, *, exact: bool) -> Iterator[ViewApp]:
        """Restrict all applications anew; yield them, perhaps one more than once."""
        for limit in self.limits.values():
            yield from self._restricted(limit, exact=exact)

    def _restricted(self, limit: AppLimit, *, exact: bool) -> Iterator[ViewApp]:
        for app in limit.apps.values():
            self._restrict(app, exact=exact)
            yield app

    @staticmethod
    def _restrict(app: ViewApp, *, exact: bool) -> None:
        """Compute which shapes of an application its limits let a round try."""
        allowed = EVERY_SHAPE
        # LIMIT-13
        if app.must_wait():
            allowed = 0
        elif not exact:
            # LIMIT-9
            for limit in app.limits:
                allowed &= ~limit.refuses
        app.allowed = allowed
        app.restrict()

    def check(self, apps: Mapping[int, ViewApp]) -> None:
        """Assert the invariants between two batches; for tests."""
        assert not self.has_stale
        assert not self.changed
        counted = {key: set(limit.apps) for key, limit in self.limits.items()}
        expected: dict[LimitKey, set[int]] = {}
        for key, app in apps.items():
            for limit in app.limits:
                assert self.limits[limit.key] is limit
                expected.setdefault(limit.key, set()).add(key)
            allowed = app.allowed
            self._restrict(app, exact=False)
            assert app.allowed == allowed
        # All and only the limits for which an application counts are kept.
        assert counted == expected
        for limit in self.limits.values():
            limit.check(self._shapes)

    def closed_to(self, leaf: LeafView) -> int:
        """Return the gang shapes of a leaf that are tried, but refused by limits; for tests."""
        refused = others = 0
        for app in leaf.apps.values():
            for bit in bits_of(app.mask & ~VISIT):
                shape = self._shapes.shapes[bit]
                fits = all(limit.has_room_for(shape.resources) for limit in app.limits)
                refused |= 0 if fits or shape.members == 1 else 1 << bit
                others |= 1 << bit if fits else 0
        return refused & ~others


@final
class _LimitsByName:
    """The limits of one queue, by name."""

    __slots__ = ("groups", "users")

    def __init__(self, entries: Iterable[LimitEntry]) -> None:
        self.users: dict[str, LimitEntry] = {}
        self.groups: dict[str, LimitEntry] = {}
        for entry in entries:
            for name in entry.users:
                self.users[name] = entry
            for name in entry.groups:
                self.groups[name] = entry

    # LIMIT-5, LIMIT-6
    def of_user(self, user: str | None) -> LimitEntry | None:
        everybody = self.users.get(EVERY_NAME)
        return everybody if user is None else self.users.get(user, everybody)


@final
class Scopes:
    """The queues whose order is not ``greedy``, and the scopes that they make."""

    def __init__(self, queues: Mapping[int, ViewQueue]) -> None:
        self._queues = queues
        #: The queues whose own order is not greedy, by key; others may be above them.
        self._ordered: dict[int, ViewQueue] = {}
        #: The plain asks that became pending since the last batch took them.
        self._new: list[tuple[ViewApp, Sequence[Ask]]] = []
        #: The reservations that the ask that gets a node next does not delay there.
        self.passed: tuple[Passed, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is a scope."""
        return bool(self._ordered)

    def note_settings(self, queue: ViewQueue) -> None:
        """Record that a queue is new or has other settings."""
        if queue.config.settings.scheduling_order is not SchedulingOrder.GREEDY:
            self._ordered[queue.key] = queue
        else:
            self._ordered.pop(queue.key, None)

    def forget(self, queue: ViewQueue) -> None:
        """Record that a queue is gone."""
        self._ordered.pop(queue.key, None)

    def note_new(self, app: ViewApp, asks: Sequence[Ask]) -> None:
        """Record that plain asks of an application, in any queue, begin to be pending."""
        self._new.append((app, asks))

    def take_new(self) -> Sequence[tuple[ViewApp, Sequence[Ask]]]:
        """Return the plain asks that began to be pending since this was called."""
        if not self._new:
            return ()
        new, self._new = self._new, []
        return new

    def have_pending(self) -> bool:
        """Return whether an ask of a scope is pending."""
        return any(any(queue.pending) for queue in self._ordered.values())

    # BACKFILL-2, BACKFILL-7
    def of(self, leaf: LeafView) -> ViewQueue | None:
        """Return the queue that makes the scope of a leaf, or None if it is in no scope."""
        if not self._ordered:
            return None
        for queue in reversed(leaf.line):
            if queue.key in self._ordered:
                return queue
        return None

    # BACKFILL-4
    def is_strict(self, queue: ViewQueue) -> bool:
        """Return whether a queue makes a strict scope."""
        if queue.key not in self._ordered or _order(queue) is not SchedulingOrder.STRICT:
            return False
        return not any(above.key in self._ordered for above in queue.line[1:])

    def strict(self, leaf: LeafView) -> ViewQueue | None:
        """Return the queue that makes the scope of a leaf, if that scope is strict."""
        scope = self.of(leaf)
        return scope if scope is not None and _order(scope) is SchedulingOrder.STRICT else None

    def backfill(self, leaf: LeafView) -> ViewQueue | None:
        """Return the queue that makes the scope of a leaf, if asks may backfill there."""
        scope = self.of(leaf)
        return scope if scope is not None and _order(scope) is SchedulingOrder.BACKFILL else None

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert self._ordered == {
            key: queue
            for key, queue in self._queues.items()
            if _order(queue) is not SchedulingOrder.GREEDY
        }


def _order(queue: ViewQueue) -> SchedulingOrder:
    return queue.config.settings.scheduling_order
