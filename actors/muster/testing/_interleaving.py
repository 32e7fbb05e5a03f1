"""Disturbing the order of tasks on purpose."""

from __future__ import annotations

from random import Random
from typing import final

import trio


@final
class Interleaving:
    """Lets other tasks run a random number of times wherever it is awaited.

    To be given to :func:`muster.open_simulation` as ``interleave``: then every owner
    is delayed at random before it reads its mailbox. No decision may depend on it.

    Args:
        seed: Two with the same seed delay alike.
        longest: The largest number of times that others may run at one place.
    """

    def __init__(self, seed: int, longest: int = 3) -> None:
        self._random = Random(seed)
        self._longest = longest
        #: How often it let others run.
        self.checkpoints = 0

    async def __call__(self) -> None:
        """Let others run, or not."""
        for _ in range(self._random.randint(0, self._longest)):
            self.checkpoints += 1
            await trio.lowlevel.checkpoint()
