"""Long work in small pieces: a service shares its thread with the scheduler."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar, final

import trio

if TYPE_CHECKING:
    from muster_core.steps import Steps

R = TypeVar("R")

SLICE_S: Final = 0.002
"""How long a task works before it lets others run, in seconds."""


@final
class Pace:
    """Says when it is time to let others run. What is decided does not depend on that."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + SLICE_S

    def is_up(self) -> bool:
        """Say whether others should run now."""
        return perf_counter() >= self._until

    async def rest(self) -> None:
        """Let others run."""
        await trio.lowlevel.checkpoint()
        self._until = perf_counter() + SLICE_S

    async def take(self, steps: Steps[R]) -> R:
        """Take steps at this pace, and give what comes of them."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                value: R = end.value
                return value
            if self.is_up():
                await self.rest()
