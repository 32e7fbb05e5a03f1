"""Long work in small pieces: a service shares its thread with the scheduler.

Trio looks at timers and sockets when every task that was ready has had its turn. So it is not
enough that each task is quick: all tasks of a scheduler share one pace, and together they take
a slice of time from one such look to the next.
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
"""How long the tasks of a scheduler work before they let others run, in seconds."""

PORTION: Final = 64
"""How many messages are put before those who are to read them get their turn."""


PIECE: Final = 256
"""How many small things are done before the clock is looked at."""

A_FEW: Final = 32
"""How many events are made of maps before the clock is looked at."""


def slices(things: Sequence[T]) -> Iterator[Sequence[T]]:
    """Give things in pieces of at most :data:`PIECE`, in order."""
    if len(things) <= PIECE:
        if things:
            yield things
        return
    for at in range(0, len(things), PIECE):
        yield things[at : at + PIECE]


@final
class Pace:
    """Says when it is time to let others run. What is decided does not depend on that."""

    __slots__ = ("_slices", "_until")

    def __init__(self) -> None:
        self._until = 0.0
        #: How many slices have begun.
        self._slices = 0

    def start(self) -> None:
        """Begin a slice: others had their turn just now."""
        self._slices += 1
        self._until = perf_counter() + SLICE_S

    def is_up(self) -> bool:
        """Say whether others should run now."""
        return perf_counter() >= self._until

    async def rest(self, *, shield: bool = False) -> None:
        """Let others run.

        Args:
            shield: No cancellation is to come here.
        """
        while True:
            before = self._slices
            if shield:
                await trio.lowlevel.cancel_shielded_checkpoint()
            else:
                await trio.lowlevel.checkpoint()
            if self._slices == before:
                self.start()  # The first that comes back begins the next slice.
                return
            if not self.is_up():  # Else another one has used it up before the turn of this one.
                return

    async def take(self, steps: Steps[R], *, shield: bool = False) -> R:
        """Take steps at this pace, and give what comes of them.

        Args:
            steps: The steps.
            shield: No cancellation is to come between them.
        """
        driven = Driven(steps)
        for _ in driven:
            if perf_counter() >= self._until:
                await self.rest(shield=shield)
        return driven.value

    async def let_go(self, things: list[T], *, shield: bool = False) -> None:
        """Empty a list a few things at a time: to free many objects takes its time as well.

        Args:
            things: Nobody else needs the list.
            shield: No cancellation is to come meanwhile.
        """
        while things:
            del things[-PIECE:]
            if self.is_up():
                await self.rest(shield=shield)
