"""The reasons that follow from binds that have failed (BACKOFF-6, FEED-34, FEED-36)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.values.reasons import Code, PendingReason
from muster_core.view.reasons.words import seconds

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp

# Looking up a member of an enum takes ten times as long.
_BACKING_OFF: Final = Code.BACKING_OFF
_BIND_FAILED: Final = Code.BIND_FAILED


def backing_off(state: ViewState, app: ViewApp, ask: Ask, now_us: int) -> PendingReason | None:
    """Return until when an ask backs off, or None if it does not.

    Args:
        state: The view.
        app: Its application.
        ask: The pending ask.
        now_us: The present instant, in microseconds.
    """
    if ask.name not in app.backing_off:
        return None
    times, until_us = app.in_a_row[ask.name].times, state.back_offs.until_us(app, ask.name)
    left_us = max(until_us - now_us, 0)
    failed = f"its last {times} binds failed" if times > 1 else "its last bind failed"
    when = f"{seconds(until_us)}, {seconds(left_us)} from now"
    message = f"{failed}, so it is not tried before {when}"
    facts = {"failures": times, "until_us": until_us, "left_us": left_us}
    return PendingReason(_BACKING_OFF, message, facts)


def bind_failed(app: ViewApp, ask: Ask) -> PendingReason | None:
    """Return where and why the last bind of an ask failed, if it has held no node since."""
    failed, node, why = app.failed_on.get(ask.name, (None, "", None))
    if failed is not ask:
        return None
    said = "" if why is None else f": {why}"
    message = f"its last bind, on {node}, failed{said}; it has held no node since"
    return PendingReason(_BIND_FAILED, message, {"node": node})
