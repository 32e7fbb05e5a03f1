"""The pace of a scheduler: long work yields regularly, so that other tasks of the program can run.

Trio checks timers and sockets only after all ready tasks have run. So it is not enough that each
task yields: all tasks of a scheduler share one pace, and together they use one slice of time
between two such checks.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar, final

import trio

from muster_core.structures.steps import Driven

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from muster_core.structures.steps import Steps

R = TypeVar("R")
T = TypeVar("T")

SLICE_S: Final = 0.002
"""How long the tasks of a scheduler work before they let other tasks run, in seconds."""

PORTION: Final = 64
"""How many messages are put before their readers may run."""


PIECE: Final = 256
"""How many small steps are done between two checks of the clock."""

A_FEW: Final = 8
"""How many events are created from maps between two checks of the clock."""


def slices(things: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield a sequence in pieces of at most :data:`PIECE` items, in order."""
    if len(things) <= PIECE:
        if things:
            yield things
        return
    for at in range(0, len(things), PIECE):
        yield things[at : at + PIECE]


@final
class Pace:
    """Says when to let other tasks run. Decisions do not depend on it."""

    __slots__ = ("_slices", "_until")

    def __init__(self) -> None:
        self._until = 0.0
        #: How many slices have begun.
        self._slices = 0

    def start(self) -> None:
        """Begin a slice, as other tasks have just run."""
        self._slices += 1
        self._until = perf_counter() + SLICE_S

    def is_up(self) -> bool:
        """Return whether other tasks should run now."""
        return perf_counter() >= self._until

    async def rest(self, *, shield: bool = False) -> None:
        """Let other tasks run.

        Args:
            shield: Whether this must not be cancelled.
        """
        while True:
            before = self._slices
            if shield:
                await trio.lowlevel.cancel_shielded_checkpoint()
            else:
                await trio.lowlevel.checkpoint()
            if self._slices == before:
                self.start()  # The first task that continues begins the next slice.
                return
            if not self.is_up():  # Otherwise another task has used up the slice.
                return

    async def take(self, steps: Steps[R], *, shield: bool = False) -> R:
        """Run steps at this pace, and return their result.

        Args:
            steps: The steps.
            shield: Whether they must not be cancelled in between.
        """
        driven = Driven(steps)
        for _ in driven:
            if perf_counter() >= self._until:
                await self.rest(shield=shield)
        return driven.value

    async def let_go(self, things: list[T], *, shield: bool = False) -> None:
        """Empty a list in pieces, because freeing many objects at once takes long.

        Args:
            things: The list, which must have no other user.
            shield: Whether this must not be cancelled in between.
        """
        while things:
            del things[-PIECE:]
            if self.is_up():
                await self.rest(shield=shield)
