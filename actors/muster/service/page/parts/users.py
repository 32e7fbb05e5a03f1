"""Users: who waits, who holds what, and who has used most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.use import DAY_US
from muster.service.access.who import Role
from muster.service.ledger.lives import Ending
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem
from muster.service.reading.users import UserRow, users_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps

_MOST: Final = 100
"""How many users the page shows."""

_SPANS: Final[Mapping[str, str]] = {
    "1": "a day",
    "7": "7 days",
    "30": "30 days",
    "90": "90 days",
}
"""How far the page looks back, in days, and in words."""

_USUAL: Final = "7"


@final
@attrs.frozen
class _Listed:
    """The users of a page.

    Attributes:
        rows: The first ones.
        count: How many there are in all.
    """

    rows: Sequence[UserRow]
    count: int


# LISTS-24
async def _users(viewed: Viewed) -> Response:
    days = viewed.text("days", _USUAL) or _USUAL
    if days not in _SPANS:
        raise Problem(400, f"days: {days[:100]!r}: must be one of {', '.join(_SPANS)}")
    now_us = viewed.moment.now_us()

    def read(looking: Looking) -> Steps[_Listed]:
        rows = yield from users_of(looking, now_us - int(days) * DAY_US, now_us)
        return _Listed(rows[:_MOST], len(rows))

    found = await viewed.moment.seen(read)
    return shown(
        viewed,
        "users.html",
        listed=found.value,
        days=days,
        spans=_SPANS,
        endings=[ending.value for ending in Ending],
    )


PAGES: Final = (Page("GET", "/users", Role.READER, _users),)
"""The list of users."""
