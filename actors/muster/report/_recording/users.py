"""What users have waited for and used, while a feed is replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, final

import attrs

from muster.figures.use import Account

MOST_USERS: Final = 1_000
"""How many users have a record of their own; all others share one."""

OTHERS: Final = "all others"
"""Who stands for all users beyond the first ones."""


@final
@attrs.define(eq=False)
class UserRecord:
    """A user.

    Attributes:
        account: What the user holds and has used.
        asks: How many asks were bound at least once.
        wait_us: How long these have waited together until their first bind, in microseconds.
        longest_us: The longest of these waits.
    """

    account: Account = attrs.field(factory=Account)
    asks: int = 0
    wait_us: int = 0
    longest_us: int = 0

    def bound(self, wait_us: int) -> None:
        """Record the first bind of an ask."""
        self.asks += 1
        self.wait_us += wait_us
        self.longest_us = max(self.longest_us, wait_us)

    @property
    def mean_us(self) -> float | None:
        """The mean wait, in microseconds; None if no ask was bound."""
        return self.wait_us / self.asks if self.asks else None


# LISTS-24
@final
class UserRecords:
    """The records of users.

    Attributes:
        records: The records, by user, in the order in which they came; the user "" is none.
    """

    def __init__(self) -> None:
        self.records: dict[str, UserRecord] = {}

    def of(self, user: str | None) -> UserRecord:
        """Return the record of a user."""
        name = user or ""
        if name not in self.records and len(self.records) >= MOST_USERS:
            name = OTHERS
        record = self.records.get(name)
        if record is None:
            record = self.records[name] = UserRecord()
        return record

    def counted(self, users: Iterable[str | None]) -> Mapping[str, int]:
        """Return how often users are named; who has no record is among the others."""
        counts: Counter[str] = Counter()
        for user, number in Counter(user or "" for user in users).items():
            is_known = user in self.records or len(self.records) < MOST_USERS
            counts[user if is_known else OTHERS] += number
        return counts
