"""Explanations and remedies as maps for JSON."""

from __future__ import annotations

import attrs

from muster.explain._remedies.remedy import Remedy
from muster_core.decisions import seconds
from muster_core.reasons import Explanation, Forecast, Outlook


def explanation_map(explanation: Explanation | None) -> dict[str, object]:
    """Return why an ask is not running as a map; nothing but empty values for None."""
    if explanation is None:
        return {"reasons": [], "first": None, "levels": [], **outlook_map(None)}
    return {
        "reasons": [
            {
                "code": reason.code.value,
                "message": reason.message,
                "facts": dict(reason.facts),
                "rules": list(reason.code.rules),
            }
            for reason in explanation.reasons
        ],
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


# OUTLOOK-5
def outlook_map(outlook: Outlook | None) -> dict[str, object]:
    """Return when an ask will start as a map, with instants in seconds; nothing for None."""
    return {
        "position": None if outlook is None else outlook.position,
        **forecast_map(None if outlook is None else outlook.forecast),
    }


def forecast_map(forecast: Forecast | None) -> dict[str, object]:
    """Return what a copy of the state says about the start of an ask as a map; nothing for None."""
    fits_at = None if forecast is None else forecast.fits_at
    return {
        "fits_at": _seconds(fits_at) if isinstance(fits_at, int) else fits_at,
        "starts_at": None if forecast is None else _seconds(forecast.starts_at_us),
        "stopped_at": None if forecast is None else _seconds(forecast.stopped_us),
    }


def _seconds(at_us: int | None) -> int | float | None:
    return None if at_us is None else seconds(at_us)


def remedy_map(remedy: Remedy) -> dict[str, object]:
    """Return a remedy as a map."""
    return {
        "kind": remedy.kind.value,
        "text": remedy.text,
        "node": remedy.node,
        "smallest": None if remedy.smallest is None else dict(remedy.smallest),
        "evicted": [*remedy.evicted],
        "events": [dict(event) for event in remedy.events],
    }
