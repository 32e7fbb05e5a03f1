"""The reasons that follow from the limits of queues (QUEUE-7, ORDER-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.values.application_states import AppState
from muster_core.values.configuration.partition import SortPolicy
from muster_core.values.reasons import Code, PendingReason
from muster_core.view.reasons.words import amount, counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_QUEUE_MAX: Final = Code.QUEUE_MAX
_QUEUE_MAX_APPS: Final = Code.QUEUE_MAX_APPS
_STATE_AWARE_TURN: Final = Code.STATE_AWARE_TURN
_STATE_AWARE: Final = SortPolicy.STATE_AWARE
_RUNNING: Final = AppState.RUNNING
_STARTING: Final = AppState.STARTING


def over_max(leaf: LeafView, ask: Ask) -> Iterator[tuple[str, str, int]]:
    """Return each queue on the path, with type and ``max``, that an ask alone would exceed."""
    for queue in leaf.upward():
        for kind, most in queue.config.max.amounts:
            if ask.resources[kind] > most:
                yield queue.config.path, kind, most


def queue_max(leaf: LeafView, ask: Ask) -> PendingReason | None:
    """Return which queues on the path leave too little of their ``max``."""
    parts: list[str] = []
    rooms: dict[str, int] = {}
    for queue in leaf.upward():
        for kind, most in queue.config.max.amounts:
            wanted, used = ask.resources[kind], queue.used(kind)
            if 0 < wanted <= most < used + wanted:
                path = queue.config.path
                rooms[f"{path} {kind}"] = room = max(most - used, 0)
                parts.append(
                    f"for {amount(kind, wanted)}, and the max of {path} leaves "
                    f"{amount(kind, room)} of {amount(kind, most)}"
                )
    if not parts:
        return None
    return PendingReason(_QUEUE_MAX, f"it asks {'; '.join(parts)}", {"left": rooms})


def queue_max_apps(leaf: LeafView, app: ViewApp) -> PendingReason | None:
    """Return which queues keep an application out that does not run by their ``maxapplications``."""
    full = [] if app.running else [queue for queue in leaf.upward() if queue.is_full()]
    if not full:
        return None
    parts = listed(_applications(queue) for queue in full)
    limits = {queue.config.path: queue.config.max_applications for queue in full}
    message = f"application {app.identity.name} is not tried: {parts}"
    return PendingReason(_QUEUE_MAX_APPS, message, {"maxapplications": limits})


def _applications(queue: ViewQueue) -> str:
    others = counted(queue.running, "other runs", "others run")
    limit = queue.config.max_applications
    return f"{others} in {queue.config.path}, whose maxapplications is {limit}"


def state_aware_turn(leaf: LeafView, app: ViewApp) -> PendingReason | None:
    """Return which application must start before this one."""
    if leaf.config.settings.sort_policy is not _STATE_AWARE:
        return None
    if app.state is _RUNNING:
        return None
    one = leaf.next_to_start()
    if one is None:  # A Starting application of which no ask may be picked excludes the others.
        starting = (other for other in leaf.apps.values() if other.state is _STARTING)
        one = min(starting, key=lambda other: other.identity.key, default=None)
    # BACKOFF-6
    if one is None or one is app:
        return None
    path, before = leaf.config.path, one.identity.name
    message = (
        f"{path} is stateaware and lets one application start at a time: {before}, which is "
        f"{one.state}, is before {app.identity.name}, which is {app.state}"
    )
    facts = {"state": str(app.state), "first": before, "first_state": str(one.state)}
    return PendingReason(_STATE_AWARE_TURN, message, facts)
