"""Explanations and remedies as maps for JSON."""

from __future__ import annotations

import attrs

from muster.explain._remedies.remedy import Remedy
from muster_core.reasons import Explanation


def explanation_map(explanation: Explanation | None) -> dict[str, object]:
    """Return why an ask is not running as a map; nothing but empty values for None."""
    if explanation is None:
        return {"reasons": [], "first": None, "levels": []}
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
    }


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
