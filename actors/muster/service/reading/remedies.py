"""The search for remedies: on copies of the state, one search at a time, for a limited time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import attrs
import trio

from muster.service.reading.copies import told_by_copy

if TYPE_CHECKING:
    from muster.service.state import Service

_TURN: Final = trio.Lock()


@final
@attrs.frozen
class Found:
    """What a search has found.

    Attributes:
        searched: The number of the batch after which the state was searched.
        searched_us: When that was, in microseconds since the origin.
        remedies: The remedies, each as ``muster explain`` gives it in JSON; without the event that
            closes a batch, as events that are sent have one of their own, and without any event if it
            is not applicable.
        trials: How many trials were made; None if the search was ended.
        exhausted: Whether the search ended early, because the state is large.
    """

    searched: int
    searched_us: int
    remedies: list[dict[str, Any]]
    trials: int | None
    exhausted: bool


# LISTS-11
async def search(service: Service, app: str, ask: str) -> Found:
    """Search for what would help an ask.

    Args:
        service: The service.
        app: The name of its application.
        ask: Its name.

    Raises:
        Problem: 503 if other searches take too long.
    """
    busy = "other searches for remedies"
    told = await told_by_copy(service, _TURN, "remedies", (app, ask), busy)
    remedies = [_as_sent(line["remedy"]) for line in told.lines if "remedy" in line]
    end = told.lines[-1] if told.lines and "trials" in told.lines[-1] else None
    if end is None:
        return Found(told.batch, told.at_us, remedies, None, exhausted=True)
    return Found(told.batch, told.at_us, remedies, end["trials"], exhausted=end["exhausted"])


# OUTLOOK-33
def _as_sent(remedy: dict[str, Any]) -> dict[str, Any]:
    """Return a remedy with the events that may be sent: none that says that a machine is there."""
    events = remedy["events"] if remedy["applicable"] else ()
    return {**remedy, "events": [one for one in events if one["op"] != "settle"]}
