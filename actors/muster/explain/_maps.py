"""Explanations and remedies as maps for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from muster.explain._remedies.remedy import Remedy
from muster_core.decisions import MICROSECONDS, seconds
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
    """Return what is reserved for the party of an ask as a map, its start in seconds, or None."""
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
    """Return what is reserved from its map."""
    if found is None:
        return None
    return Reserved(
        scope=found["scope"],
        start_us=in_us(found["start"]),
        places=tuple((one["ask"], one["node"]) for one in found["places"]),
        waits_for=tuple((one["ask"], one["node"]) for one in found["waits_for"]),
    )


def forecast_map(forecast: Forecast | None) -> dict[str, object]:
    """Return what a copy of the state says about the start of an ask as a map; nothing for None."""
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
