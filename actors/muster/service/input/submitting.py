"""Submitting events, and what is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import attrs

from muster._runtime.clients.calls import Enter, Entered
from muster_core.errors import RefusedError
from muster_core.events import AddAsk, Event

if TYPE_CHECKING:
    from muster._runtime.clients.client import Client
    from muster_core.structures.steps import Steps


@final
@attrs.frozen
class Submitted:
    """What became of the events of a request.

    Attributes:
        results: What is answered for each event, in order.
        batch: The number of the batch that they went into; None if none went in.
        first_seq: The number of the first decision of this batch; None without any.
        last_seq: The number of the last one.
    """

    results: Sequence[dict[str, object]]
    batch: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers that say what the events led to."""
        found = {
            "Muster-Batch": self.batch,
            "Muster-First-Seq": self.first_seq,
            "Muster-Last-Seq": self.last_seq,
        }
        return {name: str(number) for name, number in found.items() if number is not None}


# INPUT-4
async def submit(client: Client, made: Sequence[Event | str]) -> Submitted:
    """Let events in together, without those that are invalid.

    Args:
        client: Sends them to the scheduler.
        made: The events, or why they are none.

    Raises:
        ClosedSchedulerError: If the scheduler is closed.
    """
    events = [one for one in made if not isinstance(one, str)]
    if not events:
        return Submitted(await client.pace.take(results_of(made, ())))
    call = Enter(events)
    entered: Entered = await client.call(call, call.answer)
    results = await client.pace.take(results_of(made, entered.refusals))
    first, last = entered.seqs or (None, None)
    await client.pace.let_go(events, shield=True)
    return Submitted(results, entered.batch, first, last)


def results_of(
    made: Sequence[Event | str], refusals: Sequence[RefusedError | None]
) -> Steps[list[dict[str, object]]]:
    """Return what is answered for each event.

    Args:
        made: The events, or why they are none.
        refusals: For each event that is one, with what it was refused, or None.
    """
    results: list[dict[str, object]] = []
    rest = iter(refusals)
    for index, one in enumerate(made):
        if not index % 64:
            yield
        refusal = one if isinstance(one, str) else next(rest)
        asks = one.names() if refusal is None and isinstance(one, AddAsk) else []
        error = None if refusal is None else str(refusal)
        results.append({"index": index, "ok": error is None, "error": error, "asks": asks})
    return results
