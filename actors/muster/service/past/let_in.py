"""The events of kept batches that were let in, without those that were refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.decisions import Kind

if TYPE_CHECKING:
    from muster.store import KeptBatch, StateReader
    from muster_core.events import Event

_REJECTED: Final = Kind.REJECTED


@final
class LetIn:
    """Finds the events of a batch that were not refused.

    A refusal names its event by its index among all that were let in, which is counted back from a
    batch of which it is known.

    Args:
        reader: The state directory.
        entered: The number of a batch that is not before those that are looked at, and how many
            events were let in until then.
    """

    def __init__(self, reader: StateReader, entered: tuple[int, int]) -> None:
        self._reader = reader
        self._entered = entered

    def index_of(self, batch: KeptBatch) -> int:
        """Return the index of the first event of a batch among all that were let in."""
        number, count = self._entered
        return count - self._reader.event_count(batch.number - 1, number)

    def events(self, batch: KeptBatch) -> list[Event]:
        """Return the events of a batch that were not refused, in order."""
        kinds = (one.decision for one in batch.decisions)
        refused = {decision.index for decision in kinds if decision.kind is _REJECTED}
        if not refused:
            return [*batch.events]
        first = self.index_of(batch)
        return [one for index, one in enumerate(batch.events, first) if index not in refused]
