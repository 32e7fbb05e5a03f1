"""Queues, and the users who wait and run in them, as lists and single answers have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.usage import NOTHING, UsageTotals, in_seconds as area_in_seconds, share_of
from muster.service.endpoints.schemas import (
    AMOUNTS,
    NUMBER,
    RATIO,
    SECONDS,
    Column,
    Table,
    about,
    amounts,
    array,
    flag,
    instant,
    maybe,
    maybe_amounts,
    maybe_number,
    maybe_text,
    number,
    only,
    ratio,
    row_of,
    seconds,
    shape,
    text,
    texts,
    word,
    words,
)
from muster.service.ledger.records import AskEnding
from muster.service.queries.reader import ReadContext
from muster_core.snapshots import UsageSnapshot
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.configuration import PreemptionPolicy, QueueConfig, SortPolicy
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from muster_core.admission.queue_tree import QueueEntry
    from muster_core.view.tree.queue import ViewQueue


MAX_APPLICATIONS: Final = "maxapplications"
"""How ``hits`` names a limit that is no amount."""


@final
@attrs.frozen(eq=False)
class QueueRow:
    """A queue, and what is known of it.

    Attributes:
        context: The state.
        entry: The queue as it was admitted.
        view: The queue in the decision view; None if it has not reported yet.
    """

    context: ReadContext
    entry: QueueEntry
    view: ViewQueue | None

    @classmethod
    def of(cls, context: ReadContext, entry: QueueEntry) -> QueueRow:
        """Return a queue with what is known of it."""
        return cls(context, entry, context.view.queues.get(entry.key))

    @property
    def config(self) -> QueueConfig:
        """Its settings."""
        return self.entry.config

    def allocated(self) -> Mapping[str, int]:
        """Return what is allocated in it."""
        return {} if self.view is None else self.view.usage()

    def pending(self) -> Mapping[str, int]:
        """Return what is pending in it."""
        return {} if self.view is None else self.view.types.amounts(self.view.pending)

    # SHARE-17
    def deserved(self) -> Mapping[str, int] | None:
        """Return what it deserves by weight, or None if its parent does not share by weight."""
        return None if self.view is None else self.context.view.deserved_by(self.entry.key)

    def share(self) -> float | str:
        """Return its fair share; an infinite one as in ``expect``."""
        return ratio(0.0 if self.view is None else self.context.view.share_of(self.entry.key))

    # LISTS-25
    def past(self) -> UsageSnapshot | None:
        """Return what it has used lately; None if no queue above it counts that."""
        parent = None if self.view is None else self.view.parent
        if parent is None:
            return None
        beside = self.context.usage_in(parent)
        return next((one for one in beside if one.queue == self.config.path), None)

    def users(self) -> list[Mapping[str, object]]:
        """Return what its users have used lately, if it counts that."""
        if self.view is None or not isinstance(self.view, LeafView):
            return []
        return [row_of(_USER_USAGE, one) for one in self.context.usage_in(self.view)]

    # CONFIG-25
    def headroom(self) -> dict[str, int]:
        """Return what its own ``max`` leaves of each type that it names.

        It is less than zero where more is allocated, after ``max`` was lowered.
        """
        allocated = self.allocated()
        return {kind: most - allocated.get(kind, 0) for kind, most in self.config.max.amounts}

    def overused(self) -> bool:
        """Return whether none of its pending asks fits its headroom."""
        return self.view is not None and self.context.view.is_overused(self.view)

    # LISTS-5
    def hits(self) -> list[str]:
        """Return which of its own limits keep pending asks out."""
        hit = [] if self.view is None else self.context.view.types_that_keep_out(self.view)
        return [*hit, MAX_APPLICATIONS] if self._stops_applications() else hit

    def _stops_applications(self) -> bool:
        if self.view is None or not self.view.is_full():
            return False
        leaves = self.context.view.leaves_below(self.view)
        return any(app.pending and not app.running for leaf in leaves for app in leaf.apps.values())

    def apps(self) -> int:
        """Return how many applications are in it and below it."""
        if self.view is None:
            return self.entry.apps
        return sum(len(leaf.apps) for leaf in self.context.view.leaves_below(self.view))

    def children(self) -> int:
        """Return how many queues or applications are directly below it."""
        return len(self.entry.children) + self.entry.apps

    def below(self) -> list[str]:
        """Return the paths of the queues directly below it."""
        return sorted(child.config.path for child in self.entry.children.values())


_PART: Final = maybe(SECONDS)

_USER_USAGE: Final[Sequence[Column[UsageSnapshot]]] = (
    maybe_text("user", "the user; null for the applications without one", lambda u: u.user or None),
    amounts("used", "its usage, in base units times whole seconds", lambda u: u.unit_seconds),
    Column("past_share", SECONDS, "its past share", lambda u: u.past_share),
    Column(
        "had",
        SECONDS,
        "the part that it had of what all users have used",
        lambda u: round(u.had, 6),
    ),
    Column("due", SECONDS, "the part that is its due", lambda u: round(u.due, 6)),
)


def _usage_reader(read: Callable[[UsageSnapshot], object]) -> Callable[[QueueRow], object]:
    def found(row: QueueRow) -> object:
        past = row.past()
        return None if past is None else read(past)

    return found


# LISTS-5
QUEUES: Final = Table[QueueRow](
    text("queue", "its path", lambda q: q.config.path),
    maybe_text(
        "parent",
        "the path of its parent; null for the root",
        lambda q: None if q.entry.parent is None else q.entry.parent.config.path,
    ),
    flag("leaf", "whether it has applications", lambda q: not q.config.is_parent),
    flag("dynamic", "whether an application created it", lambda q: q.entry.dynamic),
    flag("draining", "whether it admits no new applications", lambda q: q.entry.draining),
    amounts("allocated", "what its bound and waiting asks hold, in base units", QueueRow.allocated),
    amounts("pending", "what its pending asks ask for, in base units", QueueRow.pending),
    amounts("guaranteed", "its `guaranteed`, in base units", lambda q: q.config.guaranteed.amounts),
    maybe_amounts(
        "deserved",
        "what it deserves by weight, in base units; null if its parent does not share by weight",
        QueueRow.deserved,
    ),
    amounts(
        "max",
        "its `max`, in base units; a type that it does not name has no limit",
        lambda q: q.config.max.amounts,
    ),
    Column("share", RATIO, "its fair share; an infinite one is `inf`", QueueRow.share),
    number("weight", "its `queue.weight`", lambda q: q.config.settings.weight),
    Column(
        "used",
        maybe(AMOUNTS),
        "what it has used lately, in base units times whole seconds; null if nothing counts it",
        _usage_reader(lambda u: u.unit_seconds),
    ),
    Column("past_share", _PART, "its past share, likewise", _usage_reader(lambda u: u.past_share)),
    Column(
        "had",
        _PART,
        "the part that it had of what it and its siblings have used, likewise",
        _usage_reader(lambda u: round(u.had, 6)),
    ),
    Column(
        "due",
        _PART,
        "the part that its weight gives it, likewise",
        _usage_reader(lambda u: round(u.due, 6)),
    ),
    maybe_number(
        "priority",
        "its `currentPriority`; null if it has none",
        lambda q: None if q.view is None else q.view.priority,
    ),
    number("offset", "its `priority.offset`", lambda q: q.config.settings.offset),
    flag("fence", "whether its `priority.policy` is `fence`", lambda q: q.config.settings.fence),
    number("queue_priority", "its `queue.priority`", lambda q: q.config.settings.queue_priority),
    Column(
        "sort_policy",
        word(SortPolicy),
        "its `application.sort.policy`",
        lambda q: q.config.settings.sort_policy.value,
    ),
    flag(
        "sort_by_priority",
        "whether its `application.sort.priority` is `enabled`",
        lambda q: q.config.settings.sort_by_priority,
    ),
    flag("blocking", "whether it keeps strict order", lambda q: q.config.settings.blocking),
    flag(
        "reclaimable", "whether others may reclaim from it", lambda q: q.config.settings.reclaimable
    ),
    Column(
        "preemption_policy",
        word(PreemptionPolicy),
        "its `preemption.policy`",
        lambda q: q.config.settings.preemption_policy.value,
    ),
    flag(
        "overused",
        "whether it has pending asks and none of them fits its headroom",
        QueueRow.overused,
    ),
    texts(
        "hits",
        "which of its own limits keep pending asks out: types of its `max`, `maxapplications`",
        QueueRow.hits,
    ),
    instant(
        "over_since",
        "since when it has more than its `max`, in seconds, if it loses asks because of that; "
        "else null",
        lambda q: q.context.view.timers.over_max.since.get(q.entry.key),
    ),
    number("children", "how many queues or applications are directly below it", QueueRow.children),
    number("apps", "how many applications it has", QueueRow.apps),
    number(
        "running",
        "how many of them count for `maxapplications`",
        lambda q: 0 if q.view is None else q.view.running,
    ),
    number(
        "max_applications",
        "its `maxapplications`; 0 means no limit",
        lambda q: q.config.max_applications,
    ),
    words("properties", "its own properties, as written", lambda q: q.config.own_properties),
    Column(
        "users",
        array(only(shape(**{one.name: about(one.schema, one.about) for one in _USER_USAGE}))),
        "what its users have used lately, if it is a leaf that counts that",
        QueueRow.users,
        single=True,
    ),
    texts("below", "the paths of the queues directly below it", QueueRow.below, single=True),
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


def _ended_reader(ending: AskEnding) -> Callable[[UserRow], int]:
    return lambda row: row.used.ended.get(ending.value, 0)


# LISTS-21, LISTS-22
USERS: Final = Table[UserRow](
    maybe_text("user", "the user; null for the applications without one", lambda u: u.user or None),
    number("apps", "how many applications have not completed", lambda u: u.apps),
    number("pending", "how many asks hold no node, parked ones included", lambda u: u.pending),
    number("waiting", "how many asks hold a node and wait for their gang", lambda u: u.waiting),
    number("bound", "how many asks are bound", lambda u: u.bound),
    amounts("allocated", "what the asks hold now, in base units", lambda u: u.held),
    amounts(
        "used",
        "what asks held since `since` times how long, in base units times whole seconds",
        lambda u: area_in_seconds(u.used.areas),
    ),
    Column(
        "share",
        SECONDS,
        "the largest part of what there is of a type that this was, from 0 to 1",
        lambda u: round(u.share, 6),
    ),
    *(
        Column[UserRow](
            ending.value,
            NUMBER,
            f"how many asks have ended as `{ending.value}` since `since`",
            _ended_reader(ending),
        )
        for ending in AskEnding
    ),
    seconds("since", "since when it counts what was used, in seconds", lambda u: u.since_us),
)
"""The fields of users."""


def users_of(context: ReadContext, since_us: int, now_us: int) -> Steps[Sequence[UserRow]]:
    """Return all users that are known, those who have used most first.

    Args:
        context: The state.
        since_us: Since when to count what was used, in microseconds since the origin.
        now_us: The present instant, likewise.
    """
    book = context.ledger.book
    yield
    accounts, capacity = context.ledger.accounts(), book.history.series.capacity
    now_us = max(now_us, accounts.changed_us)
    begin_us, used = accounts.since(since_us, now_us)
    rows = {name: UserRow(name, begin_us) for name in accounts.users}
    for name, account in accounts.users.items():
        row = rows[name]
        row.used, row.held = used[name], dict(account.held)
        row.share = share_of(row.used.areas, capacity, now_us - begin_us)
    for piece in in_pieces(context.view.apps.values()):
        yield
        for app in piece:
            row = rows.setdefault(app.identity.user[0] or "", UserRow("", begin_us))
            row.apps += 1
            row.pending += len(app.pending) + len(app.backing_off) + len(app.parked)
            row.waiting += len(app.waiting)
            row.bound += len(app.bound)
    known = (row for row in rows.values() if row.apps or row.used != NOTHING)
    return sorted(known, key=lambda row: (-row.share, row.user))
