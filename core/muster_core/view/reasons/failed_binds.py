"""The reasons that follow from binds that have failed (BACKOFF-6, FEED-34, FEED-36)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster_core.values.reasons import Code, PendingReason
from muster_core.view.reasons.words import seconds

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.tree.application import ViewApp


def backing_off(app: ViewApp, ask: Ask, now_us: int) -> PendingReason | None:
    """Return until when an ask backs off, or None if it does not.

    Args:
        app: Its application.
        ask: The pending ask.
        now_us: The present instant, in microseconds.
    """
    if ask.name not in app.backing_off:
        return None
    failed = app.in_a_row[ask.name]
    left_us = max(failed.until_us - now_us, 0)
    many = f"its last {failed.times} binds" if failed.times > 1 else "its last bind"
    message = f"{many} failed, so it is not tried before {seconds(failed.until_us)}, {seconds(left_us)} from now"
    facts = {"failures": failed.times, "until_us": failed.until_us, "left_us": left_us}
    return PendingReason(Code.BACKING_OFF, message, facts)


def bind_failed(app: ViewApp, ask: Ask) -> PendingReason | None:
    """Return where the last bind of an ask failed, if it has held no node since."""
    failed, node = app.failed_on.get(ask.name, (None, ""))
    if failed is not ask:
        return None
    message = f"its last bind, on {node}, failed; it has held no node since"
    return PendingReason(Code.BIND_FAILED, message, {"node": node})
