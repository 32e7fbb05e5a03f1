"""What a scheduler measures of itself, for whoever shows it. Nothing here knows who that is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, final

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the buckets for what takes moments, in seconds."""


@final
class Timings:
    """How often something took how long.

    Args:
        bounds_s: The upper bounds of the buckets, rising, in seconds; one without a bound follows.

    Attributes:
        bounds_s: The bounds.
        counts: How often it took at most the bound of each bucket, and more than the one before.
        sum_s: All together, in seconds.
    """

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: Sequence[float] = BOUNDS_S) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def note(self, took_s: float) -> None:
        """Count that it took so long, in seconds."""
        self.counts[bisect_left(self.bounds_s, took_s)] += 1
        self.sum_s += took_s


@final
class Meter:
    """Measures a scheduler.

    Attributes:
        decide: The time of the batches of callers until they are decided.
        commit: The time until a batch is in the store.
    """

    __slots__ = ("commit", "decide")

    def __init__(self) -> None:
        self.decide = Timings()
        self.commit = Timings()
