"""The placements and releases of asks, so that a repeated state is recognized.

ROUND-5, ROUND-6: rounds go on until one leaves the bound, waiting and pending asks exactly
as it found them, and never begin twice from the same state. While nothing is released, every
round that changes anything leads to a new state; states must be compared only after
something was released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.steps import PART
from muster_core.values.devices import TakenDevices

if TYPE_CHECKING:
    from muster_core.structures.steps import Steps

Place = tuple[bool, str] | tuple[bool, str, TakenDevices] | None
"""Whether an ask is bound, its node, and its devices if it has some; None while it is pending."""


@final
class SeenStates:
    """The states from which rounds have begun, as the placements that led to them."""

    def __init__(self) -> None:
        #: Every placement and release: the application, the ask, its place before and after.
        self._placements: list[tuple[int, str, Place, Place]] = []
        #: How many of them there were when each round began.
        self._rounds: list[int] = []
        #: Whether one of them was a release.
        self._has_released = False

    def start_anew(self) -> Steps[None]:
        """Forget everything; many thousand placements in parts, since that takes time."""
        while len(self._placements) > PART:
            del self._placements[-PART:]
            yield
        self._placements.clear()
        self._rounds.clear()
        self._has_released = False

    def note(self, app: int, ask: str, before: Place, after: Place) -> None:
        """Record that the place of an ask has changed."""
        self._placements.append((app, ask, before, after))
        self._has_released = self._has_released or after is None

    def mark(self) -> tuple[int, bool]:
        """Return the current position, for :meth:`go_back`."""
        return len(self._placements), self._has_released

    def go_back(self, mark: tuple[int, bool]) -> None:
        """Forget the placements since a mark, which were all undone."""
        placements, self._has_released = mark
        del self._placements[placements:]

    def start_round(self) -> None:
        """Record that a round begins."""
        self._rounds.append(len(self._placements))

    # ROUND-6
    def knows_this(self) -> bool:
        """Return whether a round has begun from the current state."""
        if not self._has_released:
            return self._rounds[-1] == len(self._placements)
        now = self._changes(len(self._placements))
        return any(self._changes(placements) == now for placements in self._rounds)

    def _changes(self, placements: int) -> dict[tuple[int, str], Place]:
        """Return the net effect of the first placements: the asks whose place has changed."""
        first: dict[tuple[int, str], Place] = {}
        last: dict[tuple[int, str], Place] = {}
        for app, ask, before, after in self._placements[:placements]:
            first.setdefault((app, ask), before)
            last[app, ask] = after
        return {key: place for key, place in last.items() if place != first[key]}
