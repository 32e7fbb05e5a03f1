"""A companion: an object of the program that hears of every batch and is kept with the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster._runtime.passing import PassedByAsk
    from muster_core.decisions import Announced
    from muster_core.events import Event
    from muster_core.structures.steps import Steps


class Companion(Protocol):
    """Hears of every batch once, in order, before callers and observers do.

    What it knows must follow from what it hears. With a store its state is kept with each
    checkpoint; at the next start it is loaded, and hears again of the batches after that.

    All methods are called in the scheduler's tasks, and yield wherever others may run.
    """

    def hear(
        self,
        number: int,
        at_us: int,
        first: int,
        events: Sequence[Event],
        announced: Sequence[Announced],
        passed: PassedByAsk,
        /,
    ) -> Steps[None]:
        """Hear of a batch.

        Args:
            number: Its number, from 1.
            at_us: Its instant, in microseconds since the origin.
            first: The index of its first event, from 0, among all events that were let in.
            events: Its events, also those that were refused.
            announced: Its decisions.
            passed: Which reservations asks did not delay when they got a node in it. A store does
                not keep it, so it is empty for batches up to the checkpoint of a start.
        """
        ...

    def begin(self) -> None:
        """Take note that it has heard of all that was kept: what follows happens from now on."""
        ...

    def save(self) -> Steps[Sequence[bytes]]:
        """Return its state, in parts of some hundred kilobytes."""
        ...

    def load(self, parts: Sequence[bytes], /) -> Steps[None]:
        """Take up a state that was saved, perhaps by another version.

        Args:
            parts: The parts; empty if nothing was kept, and it hears of all kept batches.

        Raises:
            ValueError: If it does not know this state; then it hears of all kept batches.
        """
        ...
