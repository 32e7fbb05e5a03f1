"""The accounts of users: who holds what, and has used how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, final

from muster.figures.use import (
    DAY_US,
    HOUR_US,
    KEPT_DAYS_US,
    KEPT_HOURS_US,
    NOTHING,
    Account,
    Used,
    begin_of,
    total,
)

if TYPE_CHECKING:
    from muster.service.ledger.entries import AppEntry

MOST: Final = 1_000
"""How many accounts are kept, if not more users have asks."""

NAMED: Final = 100
"""How many users have a label of their own in the metrics: the first ones."""


# LISTS-21
@final
class Accounts:
    """The account of each user.

    Attributes:
        users: The accounts, by user, in the order in which they came; the user "" is none.
        gone: What those have used whose accounts are not kept any more.
        known_us: Since when it is known what was used, in microseconds since the origin.
        changed_us: The instant of the last batch.
    """

    def __init__(self) -> None:
        self.users: dict[str, Account] = {}
        self.gone: Used = NOTHING
        self.known_us = 0
        self.changed_us = 0

    def of(self, user: str | None) -> Account:
        """Return the account of a user, which is made if there is none."""
        name = user or ""
        account = self.users.get(name)
        if account is None:
            if len(self.users) >= MOST:
                self._make_room()
            account = self.users[name] = Account()
        return account

    def _make_room(self) -> None:
        """Give up the account of the first user without a label who has no application."""
        for name, account in islice(self.users.items(), NAMED, NAMED + MOST):
            if not account.apps:
                self.gone = total([self.gone, account.used(self.changed_us)])
                del self.users[name]
                return

    def pass_until(self, at_us: int, apps: Iterable[AppEntry]) -> None:
        """Mark the hours that have ended, before anything changes.

        Args:
            at_us: The instant of the next batch, in microseconds since the origin.
            apps: All applications that have not completed.
        """
        before_us = self.changed_us
        self.changed_us = at_us
        if at_us // HOUR_US == before_us // HOUR_US:
            return
        self.note_held(apps)
        ends_us = list(_ends(before_us, at_us))
        for account in self.users.values():
            for end_us in ends_us:
                account.mark(end_us)

    def note_held(self, apps: Iterable[AppEntry]) -> None:
        """Note what every user holds, which is what the applications hold; before it is read.

        Args:
            apps: All applications that have not completed.
        """
        for account in self.users.values():
            account.held = {}
        for app in apps:
            held = app.account.held
            for kind, amount in app.used.items():
                held[kind] = held.get(kind, 0) + amount

    def since(self, since_us: int, now_us: int) -> tuple[int, dict[str, Used]]:
        """Return what every user has used.

        Args:
            since_us: From when on, in microseconds since the origin.
            now_us: Until when.

        Returns:
            From when on it really is, and what was used, by user.
        """
        now_us = max(now_us, self.changed_us)
        begin_us = min(begin_of(since_us, now_us, self.known_us), now_us)
        return begin_us, {
            name: account.used_since(begin_us, now_us, self.changed_us)
            for name, account in self.users.items()
        }

    # LISTS-23
    def labelled(self, now_us: int) -> Iterator[tuple[str | None, Mapping[str, int], Used]]:
        """Yield what the first users hold and have used so far, and of all others together.

        Args:
            now_us: The present instant, in microseconds since the origin.

        Yields:
            Each user, and None for all others.
        """
        now_us = max(now_us, self.changed_us)
        users = iter(self.users.items())
        for name, account in islice(users, NAMED):
            yield name, dict(account.held), account.used(now_us)
        others = [one for _, one in users]
        held: Counter[str] = Counter()
        for one in others:
            held.update(one.held)
        yield None, held, total([self.gone, *(one.used(now_us) for one in others)])


def _ends(before_us: int, at_us: int) -> Iterator[int]:
    """Yield the ends of hours that have passed; of what is long ago, only those of days."""
    day_us = before_us // DAY_US * DAY_US
    kept_us = at_us // DAY_US * DAY_US
    first_us = max(day_us + DAY_US, kept_us - KEPT_DAYS_US)
    last_us = kept_us - KEPT_HOURS_US
    for end_us in range(first_us, last_us + 1, DAY_US):
        yield end_us
    for end_us in range(max(before_us // HOUR_US * HOUR_US, last_us) + HOUR_US, at_us + 1, HOUR_US):
        yield end_us


__all__ = ["MOST", "NAMED", "Accounts"]
