"""Whether whoever looks at a page may send the events of a button, and why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from muster.feeds import RawEvent
from muster.service.access.who import Role
from muster.service.input.making import made_event
from muster.service.input.rights import as_user, guard_of

if TYPE_CHECKING:
    from muster.feeds import Raw
    from muster.service.page.viewed import Viewed
    from muster.service.reading.looking import Looking


# PAGE-47
def refusal_of(viewed: Viewed, looking: Looking, events: Sequence[Mapping[str, Raw]]) -> str:
    """Return why whoever looks may not send some events; empty if they may.

    Args:
        viewed: The request.
        looking: The state.
        events: The events as values.
    """
    who = viewed.who
    if viewed.moment.is_past:
        return "This is the past, which nothing changes: go back to the present first."
    if who.role < Role.SUBMITTER:
        return f"This needs the role submitter; {who.name!r} has the role reader."
    guard = guard_of(who, viewed.service.access.users)
    if guard is None:
        return ""
    for number, value in enumerate(events):
        event = as_user(made_event(RawEvent(number, None, dict(value))), who)
        if isinstance(event, str):
            return event
        refusal = guard.refusal(event, looking.machine)
        if refusal is not None:
            return refusal
    return ""
