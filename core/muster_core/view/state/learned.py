"""The asks with devices that ever came, of which ``fgd`` learns what is typical."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.values.configuration.partition import TypicalAsk
from muster_core.values.devices import without_devices
from muster_core.values.resources import Resources
from muster_core.view.facts import LearnedFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.nodes.node import Weights
    from muster_core.values.devices import DeviceNeeds

Wanted = tuple["DeviceNeeds", "Resources"]
"""What an ask needs: devices and resources."""


@final
class Learned:
    """How many asks with devices came, and what was taken of that for the order of nodes."""

    def __init__(self) -> None:
        #: How many asks with the same needs came, in the order in which the first of them came.
        self._came: dict[Wanted, int] = {}
        #: What is typical, as it was last taken.
        self.taken: tuple[TypicalAsk, ...] = ()
        #: How many asks came, and how many had come when they were last taken.
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
    @property
    def is_due(self) -> bool:
        """Whether the next round takes what is typical anew."""
        return 0 < self._total >= 2 * self._taken_total

    # DEVICE-18
    def take(self, weights: Weights) -> bool:
        """Take what is typical from now on, if it is time; this is called as a round starts.

        Args:
            weights: The weights in force; of resources only the types with one are typical.

        Returns:
            Whether something was taken.
        """
        if not self.is_due:
            return False
        names = {name for name, _ in weights}
        self.taken = tuple(
            TypicalAsk(devices, _those(names, resources), count)
            for (devices, resources), count in self._came.items()
        )
        self._taken_total = self._total
        return True

    # CHECKPOINT-4
    def facts(self) -> LearnedFacts:
        """Return what is known. Between two batches."""
        return LearnedFacts(
            tuple((*wanted, count) for wanted, count in self._came.items()), self.taken
        )

    # CHECKPOINT-5
    def load(self, facts: LearnedFacts) -> None:
        """Know what was saved."""
        self.note(facts.came)
        self.taken = facts.taken
        self._taken_total = sum(ask.weight for ask in facts.taken)


def _those(names: set[str], resources: Resources) -> Resources:
    amounts = without_devices(resources).items()
    return Resources({name: amount for name, amount in amounts if name in names})
