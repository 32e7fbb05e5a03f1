"""Decisions in words."""

from __future__ import annotations

from collections.abc import Mapping


def as_words(decision: Mapping[str, object]) -> str:
    """Return a decision in the form of the log as one line of text."""
    what = "/".join(str(decision[name]) for name in ("app", "ask") if name in decision)
    others = (str(decision[name]) for name in ("gang", "queue") if name in decision)
    words = [str(decision["kind"]).replace("_", " "), what or next(others, "")]
    if "state" in decision:
        words.append(f"is {decision['state']}")
    if "priority" in decision:
        priority = decision["priority"]
        words.append("has none" if priority is None else f"is {priority}")
    if "reason" in decision:
        words.append(f"({str(decision['reason']).replace('_', ' ')})")
    if "node" in decision:
        words.append(f"on {decision['node']}")
    if "message" in decision:
        words.append(str(decision["message"]))
    return " ".join(word for word in words if word)
