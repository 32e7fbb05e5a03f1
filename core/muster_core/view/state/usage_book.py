"""The usage of all queues and users: its holders, its changes, and its present values.

It is brought up to date when a batch begins: first by the allocations between the last two batches
in queues where that has changed, then, if a tick has ended, by all ticks that have ended since the last
batch. Only then the past shares change without a change in a queue itself, and all positions that
follow from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import fsum
from typing import final

from muster_core.values.snapshots import UsageSnapshot
from muster_core.view.facts import UsageFacts
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView, ViewQueue
from muster_core.view.tree.usage import Clock, Usage, User, Users, tick_us, ticks_ended


@final
class UsageBook:
    """Keeps the usage of queues and users up to date.

    Attributes:
        active: Whether any queue has a ``usage.half.life``.
        clock: Says when the present or the last batch is.
    """

    def __init__(self) -> None:
        self.active = False
        self.clock = Clock()
        #: The queues with a ``usage.half.life``, by key.
        self._ruling: dict[int, ViewQueue] = {}
        #: The queues of which another amount may be allocated than when the last batch began.
        self._changed: dict[int, ViewQueue] = {}
        #: The first end of a tick after the last batch, or an earlier instant, in microseconds.
        self._next_us = 0

    # USAGE-1, USAGE-5, USAGE-13, USAGE-17
    def note_settings(self, queue: ViewQueue) -> None:
        """Record that a queue is new or has other settings."""
        if queue.config.settings.half_life_us:
            self._ruling[queue.key] = queue
        else:
            self._ruling.pop(queue.key, None)
        self.active, self._next_us = bool(self._ruling), 0
        if queue.parent is not None:
            self._set(queue, queue.parent.config.settings.half_life_us)
        if isinstance(queue, ParentView):
            for child in queue.children.values():
                self._set(child, queue.config.settings.half_life_us)
        elif isinstance(queue, LeafView):
            self._set_users(queue)

    def _set(self, queue: ViewQueue, half_life_us: int) -> None:
        if not half_life_us:
            queue.past = None
        elif queue.past is None:
            queue.past = Usage(queue.types, self.clock.now_us)
            self._changed[queue.key] = queue

    def _set_users(self, leaf: LeafView) -> None:
        settings = leaf.config.settings
        length_us = tick_us(settings.half_life_us) if settings.usage_of_users else 0
        if not length_us:
            leaf.users = None
        elif leaf.users is not None:
            leaf.users.tick_us = length_us
        else:
            leaf.users = Users(leaf.types, length_us, self.clock)
            for app in leaf.apps.values():
                leaf.users.count(app)
            self._changed[leaf.key] = leaf

    # USAGE-11
    def forget(self, queue: ViewQueue) -> None:
        """Record that a queue is gone."""
        self._ruling.pop(queue.key, None)
        self._changed.pop(queue.key, None)
        self.active = bool(self._ruling)

    def note(self, queues: Iterable[ViewQueue]) -> None:
        """Record that something may have changed in queues."""
        self._changed.update((queue.key, queue) for queue in queues)

    def hold(self) -> None:
        """Take the changes of allocations since the last batch."""
        since_us = self.clock.now_us
        for queue in self._changed.values():
            if queue.past is not None:
                queue.past.hold(queue.allocated, since_us)
            if isinstance(queue, LeafView) and queue.users is not None:
                queue.users.hold(since_us)
        self._changed.clear()

    # USAGE-3, USAGE-6
    def pass_to(self, now_us: int, total: Mapping[str, int]) -> Iterator[ViewQueue]:
        """Bring everything up to date as a batch begins.

        Args:
            now_us: Its instant, in microseconds.
            total: The capacity of all nodes.

        Yields:
            The queues whose position among their siblings, or in which that of an application, may
            be another one now.
        """
        self.hold()
        after_us, self.clock.now_us = self.clock.now_us, now_us
        if now_us < self._next_us:
            return
        for queue in self._ruling.values():
            length_us = tick_us(queue.config.settings.half_life_us)
            if ticks_ended(length_us, after_us, now_us):
                yield from self._end_ticks(queue, length_us, after_us, now_us)
                if isinstance(queue, LeafView) and queue.users is not None:
                    queue.rank_users(total)
                    yield queue
        lengths_us = {tick_us(one.config.settings.half_life_us) for one in self._ruling.values()}
        self._next_us = min((now_us // length_us + 1) * length_us for length_us in lengths_us)

    @staticmethod
    def _end_ticks(
        queue: ViewQueue, length_us: int, after_us: int, by_us: int
    ) -> Iterator[ViewQueue]:
        if isinstance(queue, ParentView):
            for child in queue.children.values():
                assert child.past is not None, "a child of a parent with a half-life has no usage"
                child.past.end_ticks(length_us, after_us, by_us)
                if child.order:
                    yield child
        elif isinstance(queue, LeafView) and queue.users is not None:
            queue.users.end_ticks(after_us, by_us)

    # USAGE-14
    def set(
        self,
        queue: ViewQueue,
        user: str | None,
        amounts: Mapping[str, int],
        total: Mapping[str, int],
    ) -> None:
        """Replace the usage of some types, of a queue or of a user of a leaf.

        Args:
            queue: The queue.
            user: The user, or None.
            amounts: In base units times microseconds.
            total: The capacity of all nodes.
        """
        if user is None:
            assert queue.past is not None, "a queue without usage gets one"
            queue.past.set(amounts)
            return
        assert isinstance(queue, LeafView), "a user of a parent"
        assert queue.users is not None, "a leaf that counts no users gets the usage of one"
        queue.users.of(user).usage.set(amounts)
        queue.users.changed[user] = queue.users.of(user)
        self._changed[queue.key] = queue
        queue.rank_users(total)

    # CHECKPOINT-4
    def facts(self, queues: Mapping[int, ViewQueue]) -> Iterator[UsageFacts]:
        """Iterate over what must be kept. Between two batches."""
        self.hold()
        for _, queue in sorted(queues.items()):
            if queue.past is not None:
                queue.past.hold(queue.allocated, self.clock.now_us)
                if not queue.past.is_nothing:
                    yield queue.past.facts(queue.key)
            if isinstance(queue, LeafView) and queue.users is not None:
                yield from queue.users.facts(queue.key, self.clock.now_us)

    # CHECKPOINT-5
    def load(
        self,
        facts: Iterable[UsageFacts],
        queues: Mapping[int, ViewQueue],
        now_us: int,
        total: Mapping[str, int],
    ) -> None:
        """Load the kept usage; all queues and applications are there already.

        Args:
            facts: The kept usage.
            queues: All queues, by key; their positions must be found again.
            now_us: The instant of the last batch, in microseconds.
            total: The capacity of all nodes.
        """
        self.clock.now_us = now_us
        for one in facts:
            queue = queues[one.queue]
            if one.user is None:
                assert queue.past is not None, "a queue without usage has had some"
                queue.past.load(one)
            else:
                assert isinstance(queue, LeafView), "a user of a parent"
                assert queue.users is not None, "a leaf that counts no users has had some"
                queue.users.of(one.user).usage.load(one)
        for queue in queues.values():
            if queue.past is not None:
                queue.past.since_us = now_us
            if isinstance(queue, LeafView) and queue.users is not None:
                queue.users.begin()
                queue.rank_users(total)
        self._changed = dict(queues)
        self._next_us = 0

    # Reading, between two batches

    # USAGE-16
    def snapshots(
        self, queues: Iterable[ViewQueue], total: Mapping[str, int]
    ) -> tuple[UsageSnapshot, ...]:
        """Return the usage of all queues and users that have one, by path, users after the queue."""
        self.hold()
        found: list[UsageSnapshot] = []
        for queue in queues:
            found += self.snapshots_in(queue, total)
        found.sort(key=lambda one: (one.queue, one.user is not None, one.user or ""))
        return tuple(found)

    def snapshots_in(self, queue: ViewQueue, total: Mapping[str, int]) -> list[UsageSnapshot]:
        """Return the usage of the queues directly below one, or of the users of a leaf."""
        if isinstance(queue, ParentView):
            return self.of_children(queue, total)
        return self.of_users(queue, total) if isinstance(queue, LeafView) else []

    def of_children(self, parent: ParentView, total: Mapping[str, int]) -> list[UsageSnapshot]:
        """Return the usage of the children of a parent, as they are listed there."""
        children = [child for child in parent.children.values() if child.past is not None]
        weights = [child.config.settings.weight for child in children]
        shares = [child.past_share(total) for child in children]
        return [
            _snapshot(child, None, child.past, share, weight, parts)
            for child, share, weight, parts in zip(
                children, shares, weights, _parts(shares, weights), strict=True
            )
            if child.past is not None
        ]

    def of_users(self, leaf: LeafView, total: Mapping[str, int]) -> list[UsageSnapshot]:
        """Return the usage of the users of a leaf that have applications there or any usage."""
        self.hold()
        users = leaf.users
        if users is None:
            return []
        there = sorted(users.by_name.items())
        shares = [users.share_of(user, total) for _, user in there]
        parts = _parts(shares, [1] * len(there))
        return [
            _snapshot(leaf, name, user.usage, share, 1, both)
            for (name, user), share, both in zip(there, shares, parts, strict=True)
        ]

    def check(self, queues: Mapping[int, ViewQueue]) -> None:
        """Assert the invariants between two batches; for tests."""
        ruling = {key for key, one in queues.items() if one.config.settings.half_life_us}
        assert self._ruling.keys() == ruling
        assert self.active is bool(ruling)
        assert self._changed.keys() <= queues.keys()
        for queue in queues.values():
            above = queue.parent
            has_usage = above is not None and above.config.settings.half_life_us > 0
            assert (queue.past is not None) is has_usage
            if isinstance(queue, LeafView):
                settings = queue.config.settings
                assert (queue.users is not None) is (
                    settings.half_life_us > 0 and settings.usage_of_users
                )
                _check_users(queue)


def _check_users(leaf: LeafView) -> None:
    if leaf.users is None:
        return
    counted: dict[int, User] = {
        key: user for user in leaf.users.by_name.values() for key in user.apps
    }
    assert counted.keys() == leaf.apps.keys()
    for user in leaf.users.by_name.values():
        there = [leaf.apps[key] for key in user.apps]
        assert all(user.apps[app.identity.key] == app.allocated for app in there)
        assert user.listed.keys() == {app.identity.key for app in there if app.order is not None}
        for number, name in enumerate(leaf.types.names):
            known = user.allocated[number] if number < len(user.allocated) else 0
            assert known == sum(app.allocated.get(name, 0) for app in there)


def _parts(shares: list[float], weights: list[int]) -> list[tuple[float, float]]:
    """Return the part that each of some siblings has had, and the part that its weight gives it."""
    had = [share * weight for share, weight in zip(shares, weights, strict=True)]
    of_all, weight_of_all = fsum(had), sum(weights)
    return [
        (one / of_all if of_all else 0.0, weight / weight_of_all)
        for one, weight in zip(had, weights, strict=True)
    ]


def _snapshot(
    queue: ViewQueue,
    user: str | None,
    usage: Usage,
    share: float,
    weight: int,
    parts: tuple[float, float],
) -> UsageSnapshot:
    ruling = queue if user is not None else queue.parent
    assert ruling is not None, "the root has no usage"
    return UsageSnapshot(
        queue=queue.config.path,
        user=user,
        used=usage.amounts(),
        past_share=share,
        weight=weight,
        half_life_us=ruling.config.settings.half_life_us,
        had=parts[0],
        due=parts[1],
    )
