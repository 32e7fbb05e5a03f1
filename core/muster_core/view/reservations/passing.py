"""The reservations that asks did not delay when they got their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.values.reasons import Passed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.reservations.later.releases import Instant
    from muster_core.view.reservations.party import Reservation
    from muster_core.view.tree.application import ViewApp

_NOW: Final[Instant] = (False, 0)


# OUTLOOK-8
@final
class Passing:
    """Remembers which reservations the asks of the last batch with a round have passed."""

    def __init__(self) -> None:
        #: When each ask is expected to end, and what it passed, by application and name.
        self._passed: dict[tuple[int, str], tuple[Instant, tuple[Reservation, ...]]] = {}
        self._is_over = False

    def __bool__(self) -> bool:
        """Return whether anything is remembered."""
        return bool(self._passed)

    def start_round(self) -> None:
        """Begin a round; what was told of an earlier batch is forgotten."""
        if self._is_over:
            self._passed.clear()
            self._is_over = False

    def end_batch(self) -> None:
        """End a batch."""
        self._is_over = True

    def note(self, app: ViewApp, ask: Ask, end: Instant, passed: Iterable[Reservation]) -> None:
        """Note that an ask gets a node, and which reservations it does not delay there.

        Args:
            app: Its application.
            ask: The ask.
            end: When it is expected to end.
            passed: The reservations of its scope, but for that of its group.
        """
        found = tuple(one for one in passed if all(it.ask is not ask for it, _ in one.places))
        if found:
            self._passed[app.identity.key, ask.name] = end, found

    def of(self, app: int, ask: str) -> tuple[Passed, ...]:
        """Return what an ask passed when it got its node in the last batch.

        Args:
            app: The key of its application.
            ask: Its name.
        """
        end, passed = self._passed.get((app, ask), (_NOW, ()))
        return tuple(_told(one, end) for one in passed)


def _told(one: Reservation, end: Instant) -> Passed:
    (member, _), *others = one.places
    ends_us = end[1] if end <= one.start else None
    whom = f"{member.app.identity.name}/{member.ask.name}"
    return Passed(whom, len(others), one.start_us, ends_us)
