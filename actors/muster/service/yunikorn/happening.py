"""Events, some of them or as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.service.ledger.reconcile import note_queues
from muster.service.ledger.telling import tell_reasons
from muster.service.yunikorn.answers import answer_json
from muster.service.yunikorn.objects.happenings import batch
from muster.service.yunikorn.streams import EventLines
from muster.service.yunikorn.wrong import Wrong

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.yunikorn.asked import Asked
    from muster.service.yunikorn.objects.forms import Seen
    from muster_core.structures.steps import Steps

MOST: Final = 10_000
"""How many events an answer has at most."""


# REST-16
async def events(asked: Asked) -> Response:
    """Answer with some of the events."""
    start, count = _number(asked, "start", 0), _number(asked, "count", MOST)
    if not count:
        raise Wrong(400, "count: must be above 0")
    ledger = asked.service.ledger

    def read(seen: Seen) -> Steps[None]:
        yield
        if ledger.book.queues_changed:
            note_queues(ledger, seen.machine)
        yield from tell_reasons(ledger, seen.machine)

    await asked.look(read)
    ring = ledger.ring
    found = None
    if ring.lowest <= start <= ring.highest:
        found = ring.since(start, min(count, MOST))
    return await answer_json(asked.request, batch(ring, found, asked.service.origin_us))


async def event_stream(asked: Asked) -> Response:
    """Answer with the latest events, and each that follows."""
    service = asked.service
    count = _number(asked, "count", 0)
    host = asked.request.headers.get("host", "")
    return EventLines(asked.streams, service.ledger.ring, service.origin_us, host, count)


def _number(asked: Asked, name: str, default: int) -> int:
    """Return a number of the query.

    Raises:
        Wrong: 400 if it is none.
    """
    written = asked.request.query_params.get(name)
    if written is None:
        return default
    if not (written.isascii() and written.isdecimal()) or len(written) > 20:
        raise Wrong(400, f"{name}: {written[:100]!r} is not a whole number from 0 on")
    return int(written)
