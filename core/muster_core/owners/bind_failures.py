"""The binds of an application's asks that will fail, and those that have failed in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.owners.messages.failed_binds import FailedBinds, one_more
from muster_core.owners.messages.from_applications import InARow, Spoilt
from muster_core.values.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection

    from muster_core.owners.messages.from_applications import AppAction
    from muster_core.owners.messages.to_applications import AppFacts, CommitApp

SPOILT_LIMIT: Final = 1_000_000
"""The largest number of future binds of one ask that can be made to fail."""


@final
class BindFailures:
    """What is known of the failing binds of one application; only of asks that exist."""

    __slots__ = ("in_a_row", "spoilt")

    def __init__(self) -> None:
        #: How many of the next binds of an ask will fail; no zeros.
        self.spoilt: dict[str, int] = {}
        #: The binds of an ask that have failed in a row.
        self.in_a_row: dict[str, FailedBinds] = {}

    # FEED-34, FEED-35
    def spoil(self, name: str, more: int) -> AppAction:
        """Let more of the next binds of an ask fail.

        Raises:
            RefusedError: If these would be too many.
        """
        times = self.spoilt.get(name, 0) + more
        if times > SPOILT_LIMIT:
            msg = f"times: {more} more would make more than {SPOILT_LIMIT} failing binds"
            raise RefusedError(msg)
        self.spoilt[name] = times
        return Spoilt(name, times)

    # BACKOFF-1
    def count(self, name: str, now_us: int) -> AppAction:
        """Count a bind of an ask that has failed, at an instant in microseconds."""
        failed = self.in_a_row[name] = one_more(self.in_a_row.get(name), now_us)
        return InARow(name, failed)

    # BACKOFF-4
    def end_row(self, name: str) -> AppAction | None:
        """Forget the binds of an ask that have failed in a row; None if there are none."""
        return None if self.in_a_row.pop(name, None) is None else InARow(name, None)

    def forget(self, name: str) -> AppAction | None:
        """Forget the binds of an ask that would have failed; None if there are none."""
        return Spoilt(name, 0) if self.spoilt.pop(name, 0) else None

    def commit(self, commit: CommitApp) -> None:
        """Apply what a batch has decided."""
        for name in commit.failed:
            left = self.spoilt[name] - 1
            if left:
                self.spoilt[name] = left
            else:
                del self.spoilt[name]
        for name, failed in commit.in_a_row:
            self.in_a_row.pop(name, None)
            if failed is not None:
                self.in_a_row[name] = failed

    # CHECKPOINT-5
    def load(self, facts: AppFacts) -> None:
        """Take over what was saved."""
        self.spoilt, self.in_a_row = dict(facts.spoilt), dict(facts.in_a_row)

    def check(self, names: Collection[str]) -> None:
        """Assert that only asks of these names have such binds; for tests."""
        assert self.spoilt.keys() <= set(names)
        assert self.in_a_row.keys() <= set(names)
