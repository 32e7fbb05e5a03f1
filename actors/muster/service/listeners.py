"""The listeners of the service, as one observer of batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import attrs

if TYPE_CHECKING:
    from muster.service.ask_index import AskIndex
    from muster.service.decision_log import DecisionTail
    from muster.service.input.leases import Leases
    from muster.service.ledger.ledger import Ledger
    from muster.service.metrics.collectors import BatchCounts
    from muster_core.decisions import Announced
    from muster_core.events import Event
    from muster_core.structures.steps import Steps


@final
@attrs.frozen(eq=False)
class BatchListeners:
    """Passes every batch on to all listeners; the ledger and the leases are saved in checkpoints.

    Attributes:
        ledger: What was let in and decided, as far as lists need it.
        counting: What is counted for the metrics.
        tail: The latest decisions.
        leases: The leases of nodes.
        ask_index: All asks in the order in which they were added.
    """

    ledger: Ledger
    counting: BatchCounts
    tail: DecisionTail
    leases: Leases
    ask_index: AskIndex

    def observe(
        self,
        number: int,
        at_us: int,
        first: int,
        events: Sequence[Event],
        announced: Sequence[Announced],
        /,
    ) -> Steps[None]:
        """Pass on a batch. The lists have a decision before a stream has it."""
        yield from self.ledger.observe(number, at_us, first, events, announced)
        yield from self.counting.observe(at_us, announced)
        self.ask_index.observe(events)
        yield from self.tail.observe(number, announced)
        yield from self.leases.observe(first, events, announced)

    def begin(self) -> None:
        """Count from now on."""
        self.counting.is_open = True

    def save(self) -> Steps[Sequence[bytes]]:
        """Return the leases, and the state of the ledger."""
        leases = self.leases.save()
        return [leases, *(yield from self.ledger.save())]

    def load(self, parts: Sequence[bytes], /) -> Steps[None]:
        """Load the leases and the ledger.

        Raises:
            ValueError: If another version wrote it.
        """
        self.leases.load(parts[0] if parts else None)
        yield from self.ledger.load(parts_of_ledger(parts))


def parts_of_ledger(parts: Sequence[bytes]) -> Sequence[bytes]:
    """Return which parts of what was saved are those of the ledger."""
    return parts[1:]
