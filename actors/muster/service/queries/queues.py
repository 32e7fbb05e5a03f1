"""Queues, and the users who wait and run in them, as a list and a single answer say them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.usage import NOTHING, UsageTotals, in_seconds as area_in_seconds, share_of
from muster.service.endpoints import schemas
from muster.service.endpoints.schemas import Column, Table
from muster.service.ledger.records import AskEnding
from muster.service.queries.reader import ReadContext, in_seconds
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.configuration import PreemptionPolicy, QueueConfig, SortPolicy

if TYPE_CHECKING:
    from muster_core.admission.queue_tree import QueueEntry
    from muster_core.structures.shapes import Shape
    from muster_core.view.tree.queue import ViewQueue


MAX_APPLICATIONS: Final = "maxapplications"
"""How ``hits`` names a limit that is no amount."""


@final
@attrs.frozen(eq=False)
class QueueRow:
    """A queue, and what is known of it.

    Attributes:
        looking: The state.
        entry: The queue as it was admitted.
        seen: The queue in the decision view; None if it has not reported yet.
    """

    looking: ReadContext
    entry: QueueEntry
    seen: ViewQueue | None

    @classmethod
    def of(cls, looking: ReadContext, entry: QueueEntry) -> QueueRow:
        """Return a queue with what is known of it."""
        return cls(looking, entry, looking.view.queues.get(entry.key))

    @property
    def config(self) -> QueueConfig:
        """Its settings."""
        return self.entry.config

    def allocated(self) -> Mapping[str, int]:
        """Return what is allocated in it."""
        return {} if self.seen is None else self.seen.usage()

    def pending(self) -> Mapping[str, int]:
        """Return what is pending in it."""
        return {} if self.seen is None else self.seen.types.amounts(self.seen.pending)

    def share(self) -> float | str:
        """Return its fair share; an infinite one as in ``expect``."""
        return schemas.ratio(
            0.0 if self.seen is None else self.looking.view.share_of(self.entry.key)
        )

    # CONFIG-25
    def headroom(self) -> dict[str, int]:
        """Return what its own ``max`` leaves of each type that it names.

        It is less than zero where more is allocated, after ``max`` was lowered.
        """
        allocated = self.allocated()
        return {kind: most - allocated.get(kind, 0) for kind, most in self.config.max.amounts}

    def _pending_mask(self) -> int:
        mask = 0
        if self.seen is not None:
            for leaf in self.looking.view.leaves_below(self.seen):
                mask |= leaf.pending_mask
        return mask

    # ORDER-2
    def overused(self) -> bool:
        """Return whether none of its pending asks fits its headroom."""
        if self.seen is None:
            return False
        mask = pending = self._pending_mask()
        for queue in self.seen.upward():
            mask &= queue.admits
        return bool(pending) and not mask

    # LISTS-5
    def hits(self) -> list[str]:
        """Return which of its own limits keep pending asks out."""
        seen = self.seen
        if seen is None:
            return []
        hit: list[str] = []
        if self.config.max.amounts:
            kept_out = self._pending_mask() & ~seen.admits
            shapes = list(self.looking.view.shapes_in(kept_out))
            hit = [
                name
                for name, most in self.config.max.amounts
                if any(_is_over(shape, name, most - seen.used(name)) for shape in shapes)
            ]
        return [*hit, MAX_APPLICATIONS] if self._stops_applications() else hit

    def _stops_applications(self) -> bool:
        if self.seen is None or not self.seen.is_full():
            return False
        leaves = self.looking.view.leaves_below(self.seen)
        return any(app.pending and not app.running for leaf in leaves for app in leaf.apps.values())

    def apps(self) -> int:
        """Return how many applications are in it and below it."""
        if self.seen is None:
            return self.entry.apps
        return sum(len(leaf.apps) for leaf in self.looking.view.leaves_below(self.seen))

    def children(self) -> int:
        """Return how many queues or applications are directly below it."""
        return len(self.entry.children) + self.entry.apps

    def below(self) -> list[str]:
        """Return the paths of the queues directly below it."""
        return sorted(child.config.path for child in self.entry.children.values())


def _is_over(shape: Shape, name: str, room: int) -> bool:
    amount = shape.resources[name]
    return amount > 0 and amount > room


# LISTS-5
QUEUES: Final = Table[QueueRow](
    (
        Column("queue", schemas.TEXT, "its path", lambda row: row.config.path),
        Column(
            "parent",
            schemas.maybe(schemas.TEXT),
            "the path of its parent; null for the root",
            lambda row: None if row.entry.parent is None else row.entry.parent.config.path,
        ),
        Column(
            "leaf",
            schemas.BOOLEAN,
            "whether it has applications",
            lambda row: not row.config.is_parent,
        ),
        Column(
            "dynamic",
            schemas.BOOLEAN,
            "whether an application created it",
            lambda row: row.entry.dynamic,
        ),
        Column(
            "draining",
            schemas.BOOLEAN,
            "whether it admits no new applications",
            lambda row: row.entry.draining,
        ),
        Column(
            "allocated",
            schemas.AMOUNTS,
            "what its bound and waiting asks hold, in base units",
            lambda row: row.allocated(),
        ),
        Column(
            "pending",
            schemas.AMOUNTS,
            "what its pending asks ask for, in base units",
            lambda row: row.pending(),
        ),
        Column(
            "guaranteed",
            schemas.AMOUNTS,
            "its `guaranteed`, in base units",
            lambda row: dict(row.config.guaranteed.amounts),
        ),
        Column(
            "max",
            schemas.AMOUNTS,
            "its `max`, in base units; a type that it does not name has no limit",
            lambda row: dict(row.config.max.amounts),
        ),
        Column(
            "share",
            schemas.RATIO,
            "its fair share; an infinite one is `inf`",
            lambda row: row.share(),
        ),
        Column(
            "priority",
            schemas.maybe(schemas.NUMBER),
            "its `currentPriority`; null if it has none",
            lambda row: None if row.seen is None else row.seen.priority,
        ),
        Column(
            "offset",
            schemas.NUMBER,
            "its `priority.offset`",
            lambda row: row.config.settings.offset,
        ),
        Column(
            "fence",
            schemas.BOOLEAN,
            "whether its `priority.policy` is `fence`",
            lambda row: row.config.settings.fence,
        ),
        Column(
            "queue_priority",
            schemas.NUMBER,
            "its `queue.priority`",
            lambda row: row.config.settings.queue_priority,
        ),
        Column(
            "sort_policy",
            schemas.word(SortPolicy),
            "its `application.sort.policy`",
            lambda row: row.config.settings.sort_policy.value,
        ),
        Column(
            "sort_by_priority",
            schemas.BOOLEAN,
            "whether its `application.sort.priority` is `enabled`",
            lambda row: row.config.settings.sort_by_priority,
        ),
        Column(
            "blocking",
            schemas.BOOLEAN,
            "whether it keeps strict order",
            lambda row: row.config.settings.blocking,
        ),
        Column(
            "reclaimable",
            schemas.BOOLEAN,
            "whether others may reclaim from it",
            lambda row: row.config.settings.reclaimable,
        ),
        Column(
            "preemption_policy",
            schemas.word(PreemptionPolicy),
            "its `preemption.policy`",
            lambda row: row.config.settings.preemption_policy.value,
        ),
        Column(
            "overused",
            schemas.BOOLEAN,
            "whether it has pending asks and none of them fits its headroom",
            lambda row: row.overused(),
        ),
        Column(
            "hits",
            schemas.TEXTS,
            "which of its own limits keep pending asks out: types of its `max`, `maxapplications`",
            lambda row: row.hits(),
        ),
        Column(
            "children",
            schemas.NUMBER,
            "how many queues or applications are directly below it",
            lambda row: row.children(),
        ),
        Column("apps", schemas.NUMBER, "how many applications it has", lambda row: row.apps()),
        Column(
            "running",
            schemas.NUMBER,
            "how many of them count for `maxapplications`",
            lambda row: 0 if row.seen is None else row.seen.running,
        ),
        Column(
            "max_applications",
            schemas.NUMBER,
            "its `maxapplications`; 0 means no limit",
            lambda row: row.config.max_applications,
        ),
        Column(
            "properties",
            schemas.WORDS,
            "its own properties, as written",
            lambda row: dict(row.config.own_properties),
        ),
        Column(
            "below",
            schemas.TEXTS,
            "the paths of the queues directly below it",
            lambda row: row.below(),
            single=True,
        ),
    )
)
"""The fields of queues."""


@final
@attrs.define(eq=False)
class UserRow:
    """A user.

    Attributes:
        user: The user; empty for the applications that have none.
        since_us: Since when it is known what was used, in microseconds since the origin.
        used: What was used since then.
        share: The largest part of the capacity, over the resource types, that this was.
        held: What the asks hold now.
        apps: How many applications there are.
        pending: How many asks are pending or parked.
        waiting: How many asks wait for their gang on a node.
        bound: How many asks are bound.
    """

    user: str
    since_us: int
    used: UsageTotals = NOTHING
    share: float = 0.0
    held: Mapping[str, int] = attrs.field(factory=dict[str, int])
    apps: int = 0
    pending: int = 0
    waiting: int = 0
    bound: int = 0


def _ended(ending: AskEnding) -> Callable[[UserRow], int]:
    return lambda row: row.used.ended.get(ending.value, 0)


# LISTS-21, LISTS-22
USERS: Final = Table[UserRow](
    (
        Column(
            "user",
            schemas.maybe(schemas.TEXT),
            "the user; null for the applications without one",
            lambda row: row.user or None,
        ),
        Column(
            "apps",
            schemas.NUMBER,
            "how many applications have not completed",
            lambda row: row.apps,
        ),
        Column(
            "pending",
            schemas.NUMBER,
            "how many asks hold no node, parked ones included",
            lambda row: row.pending,
        ),
        Column(
            "waiting",
            schemas.NUMBER,
            "how many asks hold a node and wait for their gang",
            lambda row: row.waiting,
        ),
        Column("bound", schemas.NUMBER, "how many asks are bound", lambda row: row.bound),
        Column(
            "allocated",
            schemas.AMOUNTS,
            "what the asks hold now, in base units",
            lambda row: dict(row.held),
        ),
        Column(
            "used",
            schemas.AMOUNTS,
            "what asks held since `since` times how long, in base units times whole seconds",
            lambda row: area_in_seconds(row.used.areas),
        ),
        Column(
            "share",
            schemas.SECONDS,
            "the largest part of what there is of a type that this was, from 0 to 1",
            lambda row: round(row.share, 6),
        ),
        *(
            Column[UserRow](
                ending.value,
                schemas.NUMBER,
                f"how many asks have ended as `{ending.value}` since `since`",
                _ended(ending),
            )
            for ending in AskEnding
        ),
        Column(
            "since",
            schemas.SECONDS,
            "since when it counts what was used, in seconds",
            lambda row: in_seconds(row.since_us),
        ),
    )
)
"""The fields of users."""


def users_of(looking: ReadContext, since_us: int, now_us: int) -> Steps[Sequence[UserRow]]:
    """Return all users that are known, those who have used most first.

    Args:
        looking: The state.
        since_us: Since when to count what was used, in microseconds since the origin.
        now_us: The present instant, likewise.
    """
    book = looking.ledger.book
    yield
    accounts, capacity = looking.ledger.accounts(), book.history.series.capacity
    now_us = max(now_us, accounts.changed_us)
    begin_us, used = accounts.since(since_us, now_us)
    rows = {name: UserRow(name, begin_us) for name in accounts.users}
    for name, account in accounts.users.items():
        row = rows[name]
        row.used, row.held = used[name], dict(account.held)
        row.share = share_of(row.used.areas, capacity, now_us - begin_us)
    for piece in in_pieces(looking.view.apps.values()):
        yield
        for app in piece:
            row = rows.setdefault(app.identity.user[0] or "", UserRow("", begin_us))
            row.apps += 1
            row.pending += len(app.pending) + len(app.backing_off) + len(app.parked)
            row.waiting += len(app.waiting)
            row.bound += len(app.bound)
    known = (row for row in rows.values() if row.apps or row.used != NOTHING)
    return sorted(known, key=lambda row: (-row.share, row.user))
