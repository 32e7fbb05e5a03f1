"""What was done to the asks, so that a state that comes again is known.

ROUND-5, ROUND-6: rounds go on until one leaves the bound, waiting and pending asks exactly
as it found them, and never twice from the same state. As long as nothing is given up
again, every round that does anything leads to a state that was never there; only when
something was given up do states have to be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.steps import PART

if TYPE_CHECKING:
    from muster_core.structures.steps import Steps

Place = tuple[bool, str] | None
"""Whether an ask is bound, and its node; None while it is pending."""


@final
class Memory:
    """The states from which rounds have begun, as the moves that led to them."""

    def __init__(self) -> None:
        #: Every move since the memory began: the application, the ask, from where, to where.
        self._placements: list[tuple[int, str, Place, Place]] = []
        #: After how many moves each round began.
        self._rounds: list[int] = []
        #: Whether any of the moves gave something up.
        self._gave_up = False

    def start_anew(self) -> Steps[None]:
        """Forget everything; of a hundred thousand moves a part at a time, as that takes a while."""
        while len(self._placements) > PART:
            del self._placements[-PART:]
            yield
        self._placements.clear()
        self._rounds.clear()
        self._gave_up = False

    def note(self, app: int, ask: str, before: Place, after: Place) -> None:
        """Take note that an ask is in another place now."""
        self._placements.append((app, ask, before, after))
        self._gave_up = self._gave_up or after is None

    def mark(self) -> tuple[int, bool]:
        """Give the place where the memory is now, for :meth:`go_back`."""
        return len(self._placements), self._gave_up

    def go_back(self, mark: tuple[int, bool]) -> None:
        """Forget moves that were all undone."""
        placements, self._gave_up = mark
        del self._placements[placements:]

    def start_round(self) -> None:
        """Take note that a round begins now."""
        self._rounds.append(len(self._placements))

    def knows_this(self) -> bool:
        """Say whether a round has begun from the state that is now."""
        if not self._gave_up:
            return self._rounds[-1] == len(self._placements)
        now = self._changes(len(self._placements))
        return any(self._changes(placements) == now for placements in self._rounds)

    def _changes(self, placements: int) -> dict[tuple[int, str], Place]:
        """Give what the first moves amount to: who is in another place than at first."""
        first: dict[tuple[int, str], Place] = {}
        last: dict[tuple[int, str], Place] = {}
        for app, ask, before, after in self._placements[:placements]:
            first.setdefault((app, ask), before)
            last[app, ask] = after
        return {key: place for key, place in last.items() if place != first[key]}
