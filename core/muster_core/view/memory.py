"""What was done to the asks, so that a state that comes again is known.

SPEC section 5: rounds go on until one leaves the bound, waiting and pending asks exactly
as it found them, and never twice from the same state. As long as nothing is given up
again, every round that does anything leads to a state that was never there; only when
something was given up do states have to be compared.

The same holds for reclaim and preemption, for as long as nothing new comes in. Three asks
can each have a right to the place of the next: one by what its queue is guaranteed, two by
their priorities. From a state from which something was taken nothing is taken again, or
they would take it from one another for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable

Place = tuple[bool, str] | None
"""Whether an ask is bound, and its node; None while it is pending."""


@final
class Memory:
    """The states from which rounds have begun, and from which something was taken."""

    def __init__(self) -> None:
        #: Every move since something new came in: the application, the ask, from where, to where.
        self._moves: list[tuple[int, str, Place, Place]] = []
        #: After how many moves each round began, since the memory of rounds began.
        self._rounds: list[int] = []
        #: Whether any of the moves since then gave something up.
        self._gave_up = False
        #: After how many moves something was taken, by a hash of what all moves amount to.
        self._taken: dict[int, list[int]] = {}
        #: That hash, after so many moves.
        self._hash = 0
        self._hashed = 0

    def start_batch(self, *, is_new: bool) -> None:
        """Begin a batch.

        Args:
            is_new: Something new came in, so that nothing that was before matters.
        """
        if is_new or not self._taken:
            self._moves.clear()
            self._taken.clear()
            self._hash = self._hashed = 0
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

    # Rounds

    def start_round(self) -> None:
        """Take note that a round begins now."""
        self._rounds.append(len(self._moves))

    def knows_this(self) -> bool:
        """Say whether a round has begun from the state that is now."""
        if not self._gave_up:
            return self._rounds[-1] == len(self._moves)
        return self._is_now_as_after(self._rounds)

    # Reclaim and preemption

    def may_take(self) -> bool:
        """Say whether nothing was taken from the state that is now, since anything came in."""
        if not self._taken:
            return True
        return not self._is_now_as_after(self._taken.get(self._hash_now(), ()))

    def take(self) -> None:
        """Take note that something is taken from the state that is now."""
        self._taken.setdefault(self._hash_now(), []).append(len(self._moves))

    def forget_taken(self) -> None:
        """Forget from which states something was taken: a bind has failed, which is a change."""
        self._taken.clear()

    def _hash_now(self) -> int:
        """Give a hash of what all moves amount to; equal ones may come of different states."""
        for app, ask, before, after in self._moves[self._hashed :]:
            self._hash ^= hash((app, ask, before)) ^ hash((app, ask, after))
        self._hashed = len(self._moves)
        return self._hash

    # States

    def _is_now_as_after(self, marks: Iterable[int]) -> bool:
        """Say whether the state that is now was there after one of these numbers of moves."""
        now = None
        for moves in marks:
            now = self._changes(len(self._moves)) if now is None else now
            if self._changes(moves) == now:
                return True
        return False

    def _changes(self, moves: int) -> dict[tuple[int, str], Place]:
        """Give what the first moves amount to: who is in another place than at first."""
        first: dict[tuple[int, str], Place] = {}
        last: dict[tuple[int, str], Place] = {}
        for app, ask, before, after in self._moves[:moves]:
            first.setdefault((app, ask), before)
            last[app, ask] = after
        return {key: place for key, place in last.items() if place != first[key]}
