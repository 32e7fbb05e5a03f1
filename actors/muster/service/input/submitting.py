"""Submitting events, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, final

import attrs

from muster._runtime.clients.calls import Enter
from muster_core.events import AddAsk, Apply, Event, PodObject

if TYPE_CHECKING:
    from muster._runtime.clients.calls import Entered, Guard
    from muster._runtime.requests import RequestKey
    from muster.service.input.running import Running
    from muster_core.structures.steps import Steps


@final
@attrs.frozen
class Outcome:
    """What became of the events of a request.

    Attributes:
        batch: The number of the batch that they went into; None if none was let in.
        seqs: The numbers of the first and the last decision of this batch; None without any.
        errors: Why events were refused, by their number among those that are valid; without a
            batch, those of an atomic request that kept the others out.
    """

    batch: int | None = None
    seqs: tuple[int, int] | None = None
    errors: Mapping[int, str] = attrs.field(factory=dict[int, str])

    def headers(self) -> dict[str, str]:
        """Return the headers that say what the events led to."""
        first, last = self.seqs or (None, None)
        found = {"Muster-Batch": self.batch, "Muster-First-Seq": first, "Muster-Last-Seq": last}
        return {name: str(number) for name, number in found.items() if number is not None}


# INPUT-4
async def submit(
    service: Running,
    made: Sequence[Event | str],
    *,
    guard: Guard | None = None,
    request: RequestKey | None = None,
    is_atomic: bool = False,
) -> Outcome:
    """Let events in together, without those that are invalid.

    Args:
        service: Sends them to the scheduler.
        made: The events, or why they are none.
        guard: Judges which of them are let in, or None.
        request: The key of the request, or None.
        is_atomic: Whether none is let in if one of them is refused; then all are valid.

    Raises:
        Problem: 503 if too many calls wait already.
        ClosedSchedulerError: If the scheduler is closed.
    """
    events = [one for one in made if not isinstance(one, str)]
    if not events:
        return Outcome()
    call = Enter(events, request=request, guard=guard, is_atomic=is_atomic)
    entered: Entered = await service.call(call, call.answer)
    # Nothing is awaited from here on, so that a request that was let in is remembered.
    errors = {index: str(one) for index, one in enumerate(entered.refusals) if one is not None}
    return Outcome(entered.batch or None, entered.seqs, errors)


# INPUT-5
def _asks_of(event: Event) -> list[str]:
    """Return the names of the asks that an event has added; of objects, those of its Pods."""
    if isinstance(event, AddAsk):
        return [event.ask] if event.count is None else event.names()
    if isinstance(event, Apply):
        contents = (one.content for one in event.objects)
        return [one.name for one in contents if isinstance(one, PodObject) and one.ask is not None]
    return []


def results_of(
    made: Sequence[Event | str], errors: Mapping[int, str], *, is_refused: bool = False
) -> Steps[list[dict[str, object]]]:
    """Return what is answered for each event.

    Args:
        made: The events, or why they are none.
        errors: Why events were refused, by their number among those that are valid.
        is_refused: Whether none was let in, since the request is atomic and one is refused.
    """
    results: list[dict[str, object]] = []
    valid = 0
    for index, one in enumerate(made):
        if not index % 64:
            yield
        asks: list[str] = []
        if isinstance(one, str):
            error: str | None = one
        else:
            error = errors.get(valid)
            valid += 1
            if error is None and not is_refused:
                asks = _asks_of(one)
        is_in = error is None and not is_refused
        results.append({"index": index, "ok": is_in, "error": error, "asks": asks})
    return results
