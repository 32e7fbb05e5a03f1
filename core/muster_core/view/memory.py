"""What rounds have done to the asks, so that they end when a state comes again.

SPEC section 5: rounds go on until one leaves the bound, waiting and pending asks exactly
as it found them, and never twice from the same state. As long as nothing is given up
again, every round that does anything leads to a state that was never there; only when
something was given up do states have to be compared.
"""

from __future__ import annotations

from typing import final

Place = tuple[bool, str] | None
"""Whether an ask is bound, and its node; None while it is pending."""


@final
class Memory:
    """The states from which rounds have begun, as the moves that led to them.

    And those from which it was looked who may take something from others: that memory
    lasts for the whole batch, so that no two can take from one another for ever.
    """

    def __init__(self) -> None:
        #: Every move in this batch: the application, the ask, from where, to where.
        self._moves: list[tuple[int, str, Place, Place]] = []
        #: After how many moves each round began, since the memory of rounds began.
        self._rounds: list[int] = []
        #: Whether any of the moves since then gave something up.
        self._gave_up = False
        #: After how many moves it was looked who may take something.
        self._looks: list[int] = []

    def start_batch(self) -> None:
        """Forget everything."""
        self._moves.clear()
        self._looks.clear()
        self.start_anew()

    def start_anew(self) -> None:
        """Forget from which states rounds have begun."""
        self._rounds.clear()
        self._gave_up = False

    def note(self, app: int, ask: str, before: Place, after: Place) -> None:
        """Take note that an ask is in another place now."""
        self._moves.append((app, ask, before, after))
        self._gave_up = self._gave_up or after is None

    def mark(self) -> tuple[int, bool]:
        """Give the place where the memory is now, for :meth:`go_back`."""
        return len(self._moves), self._gave_up

    def go_back(self, mark: tuple[int, bool]) -> None:
        """Forget moves that were all undone."""
        moves, self._gave_up = mark
        del self._moves[moves:]

    def start_round(self) -> None:
        """Take note that a round begins now."""
        self._rounds.append(len(self._moves))

    def knows_this(self) -> bool:
        """Say whether a round has begun from the state that is now."""
        if not self._gave_up:
            return self._rounds[-1] == len(self._moves)
        return self._came_back(self._rounds)

    def may_look(self) -> bool:
        """Take note that it is looked now who may take something.

        Returns:
            Whether that was not done yet from the state that is now.
        """
        if self._looks and self._are_back(self._looks[-1]) and self._came_back(self._looks):
            return False
        self._looks.append(len(self._moves))
        return True

    def forget_looks(self) -> None:
        """Forget from which states it was looked: a bind has failed, which is a change."""
        self._looks.clear()

    def _are_back(self, look: int) -> bool:
        """Say whether all who have lost their node since a look have one again."""
        last = {(app, ask): after for app, ask, _, after in self._moves[look:]}
        lost = ((app, ask) for app, ask, _, after in self._moves[look:] if after is None)
        return all(last[key] is not None for key in lost)

    def _came_back(self, marks: list[int]) -> bool:
        """Say whether the state that is now was there at one of these marks."""
        now = self._changes(len(self._moves))
        return any(self._changes(moves) == now for moves in marks)

    def _changes(self, moves: int) -> dict[tuple[int, str], Place]:
        """Give what the first moves amount to: who is in another place than at first."""
        first: dict[tuple[int, str], Place] = {}
        last: dict[tuple[int, str], Place] = {}
        for app, ask, before, after in self._moves[:moves]:
            first.setdefault((app, ask), before)
            last[app, ask] = after
        return {key: place for key, place in last.items() if place != first[key]}
