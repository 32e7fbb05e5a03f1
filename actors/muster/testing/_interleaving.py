"""Random changes of the order of tasks."""

from __future__ import annotations

from random import Random
from typing import final

import trio


@final
class Interleaving:
    """Lets other tasks run a random number of times whenever it is awaited.

    Pass it as ``interleave`` to :func:`muster.open_simulation` or :func:`muster.open_scheduler`:
    then every owner waits for random times before it reads its mailbox. No decision depends on
    this.

    Args:
        seed: The seed of the random numbers.
        longest: The largest number of checkpoints at one place.
    """

    def __init__(self, seed: int, longest: int = 3) -> None:
        self._random = Random(seed)
        self._longest = longest
        #: How many checkpoints there were.
        self.checkpoints = 0

    async def __call__(self) -> None:
        """Make a random number of checkpoints."""
        for _ in range(self._random.randint(0, self._longest)):
            self.checkpoints += 1
            await trio.lowlevel.checkpoint()
