"""Users: what they wait for, hold and have used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.use import NOTHING, Used, in_seconds as area_in_seconds, share_of
from muster.service.endpoints import schemas
from muster.service.endpoints.columns import Column, Table
from muster.service.ledger.lives import Ending
from muster.service.reading.looking import Looking, in_seconds
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from muster_core.structures.steps import Steps


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
    used: Used = NOTHING
    share: float = 0.0
    held: Mapping[str, int] = attrs.field(factory=dict[str, int])
    apps: int = 0
    pending: int = 0
    waiting: int = 0
    bound: int = 0


def _ended(ending: Ending) -> Callable[[UserRow], int]:
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
            for ending in Ending
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


def users_of(looking: Looking, since_us: int, now_us: int) -> Steps[Sequence[UserRow]]:
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


__all__ = ["USERS", "UserRow", "users_of"]
