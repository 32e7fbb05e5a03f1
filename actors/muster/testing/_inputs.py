"""A record in memory, which tests can replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster._surface.simulation import open_simulation
from muster.testing._recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from muster_core.config.model import Configuration
    from muster_core.decisions import Announced
    from muster_core.events import Event


@final
class Inputs:
    """A :class:`muster.Record` in memory, for tests.

    Attributes:
        steps: Each event with its instant, in microseconds since the opening, in order. None
            instead of an event is the end of the batch of this instant.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[int, Event | None]] = []

    def enter(self, at_us: int, event: Event, /) -> None:
        """Keep an event."""
        self.steps.append((at_us, event))

    def close(self, at_us: int, /) -> None:
        """Keep the end of a batch."""
        self.steps.append((at_us, None))

    async def replay(self, configuration: Configuration | None = None) -> Sequence[Announced]:
        """Submit all events to a simulation, in the same batches.

        Args:
            configuration: The first configuration of the scheduler; default: only ``root``.

        Returns:
            The decisions up to the last closed batch, which are those of the scheduler. Later
            events were never decided.
        """
        log = Recording()
        async with open_simulation(configuration, journal=log) as simulation:
            for at_us, index, event in decided(self.steps):
                if event is None:
                    await simulation.settle(at_us)
                else:
                    await simulation.submit(event, at_us=at_us, index=index)
        return log.decisions


def decided(steps: Iterable[tuple[int, Event | None]]) -> Iterator[tuple[int, int, Event | None]]:
    """Yield the steps up to the last closed batch, with the indexes of their events.

    Args:
        steps: Steps as in :class:`Inputs`.

    Yields:
        For each event its instant, its index and the event. For each end of a batch its instant,
        the index of the next event, and None.
    """
    waiting: list[tuple[int, int, Event | None]] = []
    index = 0
    for at_us, event in steps:
        waiting.append((at_us, index, event))
        if event is None:
            yield from waiting
            waiting.clear()
        else:
            index += 1
