"""When an ask will start, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from muster.figures.instants import dated, instant_of
from muster.figures.text import counted
from muster_core.reasons import (
    UNKNOWN_START,
    Forecast,
    Outlook,
    Passed,
    PendingReason,
    Reserved,
)
from muster_core.view.reasons.order.reserved import few, reserved_since


def when_it_starts(
    ask: str,
    outlook: Outlook,
    written: Callable[[int], str],
    later: PendingReason | None = None,
) -> Iterator[str]:
    """Yield sentences that say when a pending ask will start.

    Args:
        ask: The ask, as ``app/ask``.
        outlook: What is known of it.
        written: Writes an instant, given in microseconds since the origin.
        later: Why it is held back when it would fit alone, if it is.
    """
    yield f"It is number {outlook.position:,} of all pending asks in order."
    if outlook.reserved is not None:
        yield f"{what_is_reserved(ask, outlook.reserved, written)}."
    if outlook.forecast is not None:
        yield fits_alone(outlook.forecast, written)
        # OUTLOOK-10
        if later is not None:
            yield not_then(later, written)
        yield _starts(outlook.forecast, written)


# OUTLOOK-6
def what_is_reserved(ask: str | None, reserved: Reserved, written: Callable[[int], str]) -> str:
    """Say what is reserved for an ask and for other members of its group, or for a whole group.

    Args:
        ask: The ask, as ``app/ask``; None for the group.
        reserved: What is reserved.
        written: Writes an instant, given in microseconds since the origin.
    """
    own = next((node for name, node in reserved.places if name == ask), None)
    others = [node for name, node in reserved.places if name != ask]
    since = reserved_since(reserved, written)
    if not others:
        return f"Reserved for it: {own} {since}"
    nodes = few(list(dict.fromkeys(others)), "other node", "other nodes")
    if ask is None:
        return f"{nodes} for {counted(len(others), 'member')}, {since}"
    members = f"{nodes} for {counted(len(others), 'other member')} of its group, {since}"
    if own is None:
        return f"Nothing is reserved for it, but {members}"
    return f"Reserved for it: {own}, and {members}"


# OUTLOOK-7
def fits_alone(forecast: Forecast, written: Callable[[int], str]) -> str:
    """Say when the party of an ask alone would fit."""
    fits_at = forecast.fits_at
    if forecast.fits_now:
        return "It would fit alone now."
    if fits_at is None:
        return "It would not fit even if all others ended."
    if fits_at == UNKNOWN_START:
        return "It would fit alone when an ask ends whose end nobody knows."
    return f"It would fit alone at {written(fits_at)}."


# OUTLOOK-10
def not_then(later: PendingReason, written: Callable[[int], str]) -> str:
    """Say why an ask does not start when it would fit alone.

    Args:
        later: Why it is held back then.
        written: Writes an instant, given in microseconds since the origin.
    """
    message = dated(later.message, instant_of(later.facts), written)
    return f"It will not start then: {message}. With a shorter estimate it may pass."


# OUTLOOK-9
def how_it_runs(
    ends_at_us: int | None, passed: Iterable[Passed], written: Callable[[int], str]
) -> Iterator[str]:
    """Yield sentences that say when an ask that runs will end, and whom it has passed.

    Args:
        ends_at_us: When it is expected to end, in microseconds since the origin; None if nobody
            knows.
        passed: The reservations that it did not delay when it got its node.
        written: Writes an instant, given in microseconds since the origin.
    """
    if ends_at_us is not None:
        yield f"It is expected to end at {written(ends_at_us)}."
    yield from whom_it_passed(passed, written)


def where_it_is(ask: str, fate: str, node: str | None, queue: str, since: str | None) -> str:
    """Return a sentence, without a full stop, that says in which state an ask is.

    Args:
        ask: The ask, as ``app/ask``.
        fate: Its state: pending, parked, waiting or bound.
        node: The node that it holds, or None.
        queue: The path of its queue.
        since: Since when, as text; None if that is not kept.
    """
    on = "" if node is None else f" on {node}"
    then = "since before what is kept" if since is None else f"since {since}"
    return f"{ask} is {fate}{on} in {queue} {then}"


# OUTLOOK-8
def whom_it_passed(passed: Iterable[Passed], written: Callable[[int], str]) -> Iterator[str]:
    """Yield sentences that say which reservations an ask did not delay when it got its node.

    Args:
        passed: These reservations.
        written: Writes an instant, given in microseconds since the origin.
    """
    for one in passed:
        others = f" and {counted(one.others, 'other member')}" if one.others else ""
        start_us, ends_us = one.start_us, one.ends_us
        since = "with a reservation whose start was not known"
        if start_us is not None:
            since = f"with a reservation from {written(start_us)}"
        why = "it fits its node beside what is reserved there"
        if ends_us is not None:
            why = f"it was expected to end by {written(ends_us)}"
        yield f"It passed {one.ask}{others}, {since}: {why}."


def _starts(forecast: Forecast, written: Callable[[int], str]) -> str:
    if forecast.starts_at_us is not None:
        return (
            f"It starts at {written(forecast.starts_at_us)} if nothing more comes, and every ask "
            "takes as long as expected."
        )
    if forecast.stopped_us is not None:
        return (
            f"It does not start before {written(forecast.stopped_us)} if nothing more comes; the "
            "forecast ends there."
        )
    return (
        "Its start is not known: it is still pending when every ask has ended whose end is known."
    )
