"""Answers in words, and as maps for JSON: when an ask will start, reasons, remedies, reservations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from muster.explain._remedies.case import Remedy, RemedyKind
from muster.figures.text import counted, dated, instant_of
from muster_core.coordinator.plain_scheduler import held_back_later
from muster_core.decisions import MICROSECONDS, seconds
from muster_core.facts import Facts
from muster_core.reasons import (
    UNKNOWN_START,
    Code,
    Explanation,
    Forecast,
    Outlook,
    Passed,
    PendingReason,
    Reserved,
)
from muster_core.view.reasons.gangs import abbreviated, reserved_since


# OUTLOOK-10
def why_held_back_later(
    explanation: Explanation, made: Forecast, facts: Callable[[], Facts], at_us: int
) -> PendingReason | None:
    """Return why an ask that is not held back now is so when it would fit alone, or None.

    Args:
        explanation: Why it is pending now.
        made: What a copy of the state says about its start.
        facts: Returns the facts of the state; called only if another copy is needed.
        at_us: The present instant, in microseconds.
    """
    fits_at = made.fits_at
    if not isinstance(fits_at, int) or fits_at <= at_us or fits_at == made.starts_at_us:
        return None
    if any(reason.code is Code.HELD_BACK for reason in explanation.reasons):
        return None
    return held_back_later(facts(), explanation.app, explanation.ask, fits_at, at_us)


def when_it_starts(
    ask: str,
    outlook: Outlook,
    written: Callable[[int], str],
    later: PendingReason | None = None,
) -> Iterator[str]:
    """Yield sentences that say when a pending ask will start.

    Args:
        ask: The ask, as ``app/ask``.
        outlook: Its outlook.
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
    """Describe the reservation for an ask and other members of its group, or for a whole group.

    Args:
        ask: The ask, as ``app/ask``; None for the group.
        reserved: The reservation.
        written: Writes an instant, given in microseconds since the origin.
    """
    own = next((node for name, node in reserved.places if name == ask), None)
    others = [node for name, node in reserved.places if name != ask]
    since = reserved_since(reserved, written)
    if not others:
        return f"Reserved for it: {own} {since}"
    nodes = abbreviated(list(dict.fromkeys(others)), "other node", "other nodes")
    if ask is None:
        return f"{nodes} for {counted(len(others), 'member')}, {since}"
    members = f"{nodes} for {counted(len(others), 'other member')} of its group, {since}"
    if own is None:
        return f"Nothing is reserved for it, but {members}"
    return f"Reserved for it: {own}, and {members}"


# OUTLOOK-7
def fits_alone(forecast: Forecast, written: Callable[[int], str]) -> str:
    """Describe when the party of an ask alone would fit."""
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
    """Describe why an ask does not start when it would fit alone.

    Args:
        later: Why it is held back then.
        written: Writes an instant, given in microseconds since the origin.
    """
    message = dated(later.message, instant_of(later.facts), written)
    return f"It will not start then: {message}. With a shorter estimate it may pass."


# OUTLOOK-9
def how_it_runs(
    ends_at_us: int | None,
    gone_at_us: int | None,
    passed: Iterable[Passed],
    written: Callable[[int], str],
    *,
    is_bound: bool,
) -> Iterator[str]:
    """Yield sentences that say when an ask that runs will end, and whom it has passed.

    Args:
        ends_at_us: When it is expected to end, in microseconds since the origin; None if that is
            unknown.
        gone_at_us: When it is gone because of its times, likewise; None if it is not.
        passed: The reservations that it did not delay when it got its node.
        written: Writes an instant, given in microseconds since the origin.
        is_bound: Whether it runs.
    """
    if ends_at_us is not None:
        yield f"It is expected to end at {written(ends_at_us)}."
    # TIME-12
    if gone_at_us is not None:
        when = "at the latest" if is_bound else "if it is not bound by then"
        yield f"It is gone at {written(gone_at_us)}, {when}."
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
    since_text = "since before what is kept" if since is None else f"since {since}"
    return f"{ask} is {fate}{on} in {queue} {since_text}"


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


def explanation_map(explanation: Explanation | None) -> dict[str, object]:
    """Return why an ask is not running as a map; nothing but empty values for None."""
    if explanation is None:
        empty: dict[str, object] = {"shortfalls": [], "reasons": [], "first": None, "levels": []}
        return {**empty, **outlook_map(None)}
    return {
        "shortfalls": [attrs.asdict(one) for one in explanation.shortfalls],
        "reasons": [reason_map(reason) for reason in explanation.reasons],
        "first": explanation.first,
        "levels": [
            {
                "at": level.at,
                "own": level.own,
                "other": level.other,
                "keys": [attrs.asdict(key) for key in level.keys],
            }
            for level in explanation.levels
        ],
        **outlook_map(explanation.outlook),
    }


def reason_map(reason: PendingReason) -> dict[str, object]:
    """Return a reason as a map."""
    return {
        "code": reason.code.value,
        "message": reason.message,
        "facts": dict(reason.facts),
        "rules": list(reason.code.rules),
    }


def reason_of(found: Mapping[str, Any] | None) -> PendingReason | None:
    """Return a reason from its map."""
    if found is None:
        return None
    return PendingReason(Code(found["code"]), found["message"], found["facts"])


# OUTLOOK-5
def outlook_map(outlook: Outlook | None) -> dict[str, object]:
    """Return when an ask will start as a map, with instants in seconds; nothing for None."""
    return {
        "position": None if outlook is None else outlook.position,
        "reserved": None if outlook is None else reserved_map(outlook.reserved),
        **forecast_map(None if outlook is None else outlook.forecast),
    }


def outlook_of(found: Mapping[str, Any]) -> Outlook | None:
    """Return when an ask will start from the map of its explanation, as far as that has it."""
    if found.get("position") is None:
        return None
    forecast, fits_at = None, found.get("fits_at")
    if found.get("fits_now") is not None:
        forecast = Forecast(
            fits_at if fits_at == UNKNOWN_START else in_us(fits_at),
            in_us(found["starts_at"]),
            in_us(found["stopped_at"]),
            found["fits_now"],
        )
    # A server that is older does not say what is reserved.
    return Outlook(found["position"], forecast, reserved_of(found.get("reserved")))


# OUTLOOK-6
def reserved_map(reserved: Reserved | None) -> dict[str, object] | None:
    """Return the reservation for the party of an ask as a map, its start in seconds, or None."""
    if reserved is None:
        return None
    return {
        "scope": reserved.scope,
        "start": _seconds(reserved.start_us),
        "places": [{"ask": ask, "node": node} for ask, node in reserved.places],
        "waits_for": [{"ask": ask, "node": node} for ask, node in reserved.waits_for],
    }


# OUTLOOK-8
def passed_map(passed: Passed) -> dict[str, object]:
    """Return a reservation that an ask did not delay as a map, with instants in seconds."""
    return {
        "ask": passed.ask,
        "others": passed.others,
        "start": _seconds(passed.start_us),
        "ends": _seconds(passed.ends_us),
    }


def passed_of(found: Mapping[str, Any]) -> Passed:
    """Return a reservation that an ask did not delay from its map."""
    return Passed(found["ask"], found["others"], in_us(found["start"]), in_us(found["ends"]))


def reserved_of(found: Mapping[str, Any] | None) -> Reserved | None:
    """Return a reservation from its map."""
    if found is None:
        return None
    return Reserved(
        scope=found["scope"],
        start_us=in_us(found["start"]),
        places=tuple((one["ask"], one["node"]) for one in found["places"]),
        waits_for=tuple((one["ask"], one["node"]) for one in found["waits_for"]),
    )


def forecast_map(forecast: Forecast | None) -> dict[str, object]:
    """Return the forecast for an ask as a map; nothing for None."""
    fits_at = None if forecast is None else forecast.fits_at
    return {
        "fits_now": None if forecast is None else forecast.fits_now,
        "fits_at": _seconds(fits_at) if isinstance(fits_at, int) else fits_at,
        "starts_at": None if forecast is None else _seconds(forecast.starts_at_us),
        "stopped_at": None if forecast is None else _seconds(forecast.stopped_us),
    }


def in_us(at: float | None) -> int | None:
    """Return seconds in microseconds."""
    return None if at is None else round(at * MICROSECONDS)


def _seconds(at_us: int | None) -> int | float | None:
    return None if at_us is None else seconds(at_us)


_PROOFS: Final = {
    RemedyKind.PRIORITY: "A lower priority is not enough.",
    RemedyKind.MIN_MEMBER: "One more is too many.",
    RemedyKind.DEFINE_GANG: "One more is too many.",
}


def proof_of(remedy: Mapping[str, Any]) -> str:
    """Return the text that the amounts of a remedy, given as a map, are the smallest; or nothing."""
    kind = RemedyKind(remedy["kind"])
    return _PROOFS.get(kind, "Less is not enough.") if remedy["smallest"] else ""


def remedy_map(remedy: Remedy) -> dict[str, object]:
    """Return a remedy as a map."""
    return {
        "kind": remedy.kind.value,
        "text": remedy.text,
        "starts": seconds(remedy.starts) if isinstance(remedy.starts, int) else remedy.starts,
        "applicable": remedy.is_applicable,
        "node": remedy.node,
        "smallest": None if remedy.smallest is None else dict(remedy.smallest),
        "evicted": [*remedy.evicted],
        "events": [dict(event) for event in remedy.events],
    }
