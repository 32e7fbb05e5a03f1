"""How an ask ended: the events that may end it, in words."""

from __future__ import annotations

from typing import Final

from muster.feeds import FeedItem
from muster_core.decisions import Reason
from muster_core.events import (
    Apply,
    BindFailed,
    Delete,
    Outcome,
    PodObject,
    Release,
    RemoveApp,
    RemoveAsk,
)

# Looking up a member of an enum takes ten times as long.
_COMPLETED: Final = Reason.COMPLETED
_REASONS: Final = {outcome: Reason(outcome.value) for outcome in Outcome}


def may_end(item: FeedItem, app: str, ask: str) -> bool:
    """Return whether an event ends an ask, if the ask exists and the event is not refused."""
    match item.content:
        case RemoveApp():
            return item.content.app == app
        case Release() | RemoveAsk():
            return (item.content.app, item.content.ask) == (app, ask)
        case Delete(objects):
            return any((one.content.app, one.content.name) == (app, ask) for one in objects)
        case Apply(objects):
            pods = (one.content for one in objects if isinstance(one.content, PodObject))
            return any(pod.finished and (pod.app, pod.name) == (app, ask) for pod in pods)
        case _:
            return False


def may_end_for(item: FeedItem, reason: Reason | None) -> bool:
    """Return whether an event that may end an ask ends it for this reason."""
    match item.content:
        case Release():
            return reason is _REASONS[item.content.outcome]
        case Apply():
            return reason is _COMPLETED
        case _:
            return reason is Reason.REMOVED


def gives_up(item: FeedItem | None, failed: FeedItem | None) -> BindFailed | None:
    """Return the failure for which an event that ends an ask gives it up, if it does.

    Args:
        item: The event, or None.
        failed: The last `bind_failed` of the ask, or None.
    """
    # A scheduler with `bind_attempts` lets the two in one behind the other.
    if (
        item is not None
        and failed is not None
        and isinstance(item.content, RemoveAsk)
        and (item.index, item.at_us) == (failed.index + 1, failed.at_us)
        and isinstance(failed.content, BindFailed)
    ):
        return failed.content
    return None


def how_it_ended(
    item: FeedItem | None, *, completed: bool, given_up: BindFailed | None = None
) -> str:
    """Return what ended an ask, in words.

    Args:
        item: The event that ended it, or None if no event did.
        completed: Whether the ask has completed, and was not removed.
        given_up: The failure for which it was given up, as its work could not be started; None if
            it was not.
    """
    match None if item is None else item.content:
        case Release(message=str(message)):
            return f"by `release`: {message}"
        case Release():
            return "by `release`"
        case RemoveAsk() if given_up is not None:
            why = "" if given_up.message is None else f": {given_up.message}"
            return f"by `remove_ask`, given up as its work could not be started{why}"
        case RemoveAsk():
            return "by `remove_ask`"
        case RemoveApp():
            return "with its application, by `remove_app`"
        case Delete():
            return "by `delete`"
        case Apply():
            return "by `apply` of its Pod, which has finished"
        case _:
            return "when its `run_for` was over" if completed else ""
