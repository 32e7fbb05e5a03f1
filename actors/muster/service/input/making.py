"""From events as written to typed events, or the reason why they are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster._runtime.pace import A_FEW
from muster.feeds import Expect, RawEvent, Refused, Settle, parse
from muster.service.access.who import Who
from muster.service.input.plain import PlainEvents
from muster.service.input.rights import as_user
from muster_core.events import Event
from muster_core.structures.steps import Steps

_AT: Final = "at: events of a running scheduler have no time of their own"
_FILE: Final = "file: no file of the server is read; send what is in it as config"


def made_events(raws: Sequence[RawEvent], who: Who) -> Steps[list[Event | str]]:
    """Return the events as somebody may send them, or for each other one the reason.

    Args:
        raws: The events as written.
        who: Who sends them.
    """
    made: list[Event | str] = []
    plain = PlainEvents()
    for number, raw in enumerate(raws):
        if not number % A_FEW:
            yield
        value = raw.value
        event = None
        if type(value) is dict and raw.problem is None and "op" in value:
            event = plain.made(value)
        made.append(as_user(made_event(raw), who) if event is None else event)
    return made


# INPUT-3
def made_event(raw: RawEvent) -> Event | str:
    """Return an event, or the reason why it is none."""
    value = raw.value
    if isinstance(value, dict):
        if "at" in value:
            return _AT
        if "file" in value and value.get("op") == "configure":
            return _FILE
    (item,) = parse([raw])
    match item.content:
        case Refused(message):
            return message
        case Settle() | Expect():
            return "op: settle and expect are only for feeds: a service decides by itself"
        case event:
            return event
