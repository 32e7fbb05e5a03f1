"""Decisions and reasons in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_core.decisions import Reason
from muster_core.reasons import Code

REASONS: Final[Mapping[Code, str]] = {
    Code.PERMIT_WAITING: "holds a node and waits for the rest of its gang",
    Code.GANG_TIMED_OUT: "its gang has timed out",
    Code.GANG_UNDEFINED: "its gang is not defined",
    Code.GANG_TOO_FEW_MEMBERS: "its gang has fewer members than min_member",
    Code.GANG_SURPLUS: "its gang has enough nodes, its group is not complete",
    Code.NEVER_FITS: "fits on no node, even an empty one, or is over a max alone",
    Code.QUEUE_MAX: "its queue has too little headroom under max",
    Code.USER_LIMIT: "its user has reached a limit",
    Code.GROUP_LIMIT: "its group has reached a limit",
    Code.QUEUE_MAX_APPS: "its queue runs as many applications as maxapplications allows",
    Code.STATE_AWARE_TURN: "another application must start first",
    Code.BLOCKED: "an ask before it blocks its queue",
    Code.GANG_CYCLE_INVALID: "there was no room for its whole gang",
    Code.BACKING_OFF: "backs off after failures",
    Code.BIND_FAILED: "its last bind failed",
    Code.NODE_KEPT: "its node is kept for a node service",
    Code.FRAGMENTED: "enough is free, but not on one node",
    Code.NO_NODE_FITS: "no node has room now",
    Code.TOPOLOGY: "no node with room is where its gang may be",
    Code.PREEMPTION_DELAY: "may preempt after its preemption.delay",
    Code.RECLAIM_INSUFFICIENT: "evictions would not make enough room",
    Code.NOT_YOUR_TURN: "another ask is tried first",
    Code.DRAINING: "its queue is draining",
    Code.USER_NOT_ALLOWED: "the configuration admits its user no more",
}
"""Each reason why an ask is not running, in a few words."""

CAUSES: Final[Mapping[str, str]] = {
    Reason.PREEMPTED: "preempted",
    Reason.RECLAIMED: "reclaimed",
    Reason.NODE_LOST: "node lost",
    Reason.BIND_FAILED: "bind failed",
    Reason.FAILED: "work failed",
}
"""Each common reason why a run is cut short and run again, in a few words."""


def cause(reason: str) -> str:
    """Return why a run was cut short, in a few words."""
    return CAUSES.get(reason, reason.replace("_", " "))


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
