"""What was let into a scheduler, kept to be let in once more."""

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
    """A record in memory, for tests: a :class:`muster.Record`.

    Attributes:
        steps: Each event with its instant, in microseconds since the opening, in order;
            None in place of an event says that the batch of this instant was closed.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[int, Event | None]] = []

    def enter(self, at_us: int, event: Event, /) -> None:
        """Keep an event."""
        self.steps.append((at_us, event))

    def close(self, at_us: int, /) -> None:
        """Keep that a batch was closed."""
        self.steps.append((at_us, None))

    async def replay(self, configuration: Configuration | None = None) -> Sequence[Announced]:
        """Let everything into a simulation, in the same batches.

        Args:
            configuration: What the scheduler was opened with; default: only ``root``.

        Returns:
            The decisions, which are those of the scheduler, up to the last closed batch: what
            was let in after that was never decided.
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
    """Give what was let in up to the last closed batch, and number the events.

    Args:
        steps: As those of :class:`Inputs`.

    Yields:
        Of each step the instant, the index of its event, and the event; where a batch was closed,
        None in its place, and the index of the event that comes next.
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
