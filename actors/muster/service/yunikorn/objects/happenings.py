"""Events of the ring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from muster.service.ledger.ring import What
from muster.service.yunikorn.objects.forms import Made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.service.ledger.ring import Ring, RingEvent


# REST-15
def event(one: RingEvent, origin_us: int) -> Made:
    """Return an event.

    Args:
        one: The event.
        origin_us: The origin of its time, in microseconds since 1970.
    """
    number, at_us, about, other, amounts, message = one
    what = What(number)
    made: Made = {"type": what.type, "objectID": about}
    if other:
        made["referenceID"] = other
    if message:
        made["message"] = str(message)
    made["timestampNano"] = (origin_us + at_us) * 1_000
    made["eventChangeType"] = what.change
    made["eventChangeDetail"] = what.detail
    made["resource"] = _resource(amounts)
    return made


def _resource(amounts: Mapping[str, int] | None) -> Made:
    """Return amounts as YuniKorn's messages write them: what is 0 has no value."""
    if not amounts:
        return {}
    values = {kind: {"value": amount} if amount else {} for kind, amount in amounts.items()}
    return {"resources": values}


# REST-16
def batch(ring: Ring, events: Sequence[RingEvent] | None, origin_us: int) -> Made:
    """Return some events of the ring; None if they begin where there are none."""
    return {
        "InstanceUUID": ring.instance,
        "LowestID": ring.lowest,
        "HighestID": ring.highest,
        "EventRecords": None if events is None else [event(one, origin_us) for one in events],
    }
