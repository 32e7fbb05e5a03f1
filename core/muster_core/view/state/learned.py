"""The asks with devices that ever came, of which ``fgd`` learns what is typical."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.values.configuration.partition import TypicalAsk
from muster_core.view.facts import LearnedFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.values.devices import DeviceNeeds
    from muster_core.values.resources import Resources

Wanted = tuple["DeviceNeeds", "Resources"]
"""What an ask needs: devices and resources."""


@final
class Learned:
    """How many asks with devices came, and what was taken of that for the order of nodes."""

    def __init__(self) -> None:
        #: How many asks with the same needs came, in the order in which the first of them came.
        self._came: dict[Wanted, int] = {}
        #: The same when it was last taken.
        self._taken: dict[Wanted, int] = {}
        self._total = self._taken_total = 0

    def note(self, came: Iterable[tuple[DeviceNeeds, Resources, int]]) -> None:
        """Count asks that have come.

        Args:
            came: Their devices, their resources, and how many there are.
        """
        for devices, resources, count in came:
            self._came[devices, resources] = self._came.get((devices, resources), 0) + count
            self._total += count

    # DEVICE-18
    def take(self) -> tuple[TypicalAsk, ...] | None:
        """Return what is typical from now on; None if it stays. This is called as a round starts."""
        if self._total < 2 * self._taken_total or not self._total:
            return None
        self._taken, self._taken_total = dict(self._came), self._total
        return self._typical()

    def _typical(self) -> tuple[TypicalAsk, ...]:
        return tuple(
            TypicalAsk(devices, resources, count)
            for (devices, resources), count in self._taken.items()
        )

    # CHECKPOINT-4
    def facts(self) -> tuple[LearnedFacts, ...]:
        """Return what is known. Between two batches."""
        return tuple(
            LearnedFacts(devices, resources, count, self._taken.get((devices, resources), 0))
            for (devices, resources), count in self._came.items()
        )

    # CHECKPOINT-5
    def load(self, facts: Iterable[LearnedFacts]) -> tuple[TypicalAsk, ...]:
        """Know what was saved; return what is typical."""
        for one in facts:
            self._came[one.devices, one.resources] = one.came
            if one.taken:
                self._taken[one.devices, one.resources] = one.taken
        self._total, self._taken_total = sum(self._came.values()), sum(self._taken.values())
        return self._typical()
