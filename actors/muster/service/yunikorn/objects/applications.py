"""Applications, live and completed, with their asks and allocations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, final

from muster.service.yunikorn.objects.forms import Made, Seen, priority, shown, without_empty
from muster_core.admission.application_reasons import application_reasons
from muster_core.structures.steps import in_order, in_pieces
from muster_core.values.gang_names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from muster.service.ledger.entries import AppEntry, AskEntry
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.steps import Steps
    from muster_core.values.reasons import PendingReason
    from muster_core.view.tree.application import ViewApp

NAMESPACE: Final = "kubernetes.io/meta/namespace"
POD_NAME: Final = "kubernetes.io/meta/podName"

_NUMBER: Final = attrgetter("number")

_EXPLAINED: Final = 100
"""For how many asks of an answer all reasons are told; for others only the dominant one."""


def application(seen: Seen, app: ViewApp) -> Steps[Made]:
    """Return an application that has not completed."""
    identity = app.identity
    entry = seen.ledger.app(identity.name)
    user, groups = identity.user
    requests: list[Made] = []
    reasons = _Reasons(seen, app)
    for piece in in_pieces((yield from in_order(_without_node(app), _came)), 16):
        yield
        requests.extend(_request(seen, app, ask, reasons) for ask in piece)
    allocations: list[Made] = []
    held = chain(app.bound.values(), app.waiting.values())
    for some in in_pieces((yield from in_order((one for one, _ in held), _NUMBER))):
        yield
        allocations += [
            allocation(seen, app, one.ask, one.node, waits=one.ask.name in app.waiting)
            for one in some
        ]
    return {
        "applicationID": identity.name,
        "partition": seen.partition,
        "queueName": identity.path,
        "applicationState": app.state.value,
        **without_empty({"user": user, "groups": list(groups)}),
        **_times(seen, entry),
        "usedResource": shown(app.allocated),
        "maxUsedResource": shown(app.allocated if entry is None else entry.most),
        "pendingResource": shown(app.pending_total),
        "maxRequestPriority": priority(app.tally.top()),
        "allocations": allocations,
        "requests": requests,
        "resourceHistory": {},
    }


def completed(seen: Seen, entry: AppEntry) -> Made:
    """Return an application that has completed, as it was at the end."""
    event = entry.event
    return {
        "applicationID": event.app,
        "partition": seen.partition,
        "queueName": entry.queue,
        "applicationState": entry.state,
        **without_empty({"user": event.user, "groups": list(event.groups)}),
        **_times(seen, entry),
        "usedResource": shown({}),
        "maxUsedResource": shown(entry.most),
        "pendingResource": shown({}),
        "maxRequestPriority": priority(None),
        "allocations": [],
        "requests": [],
        "resourceHistory": {},
    }


# REST-9
def _times(seen: Seen, entry: AppEntry | None) -> Made:
    """Return when an application came, first ran, changed, and ended, as far as known."""
    if entry is None:
        return {"submissionTime": seen.ns(0), "stateLog": []}
    came_us = 0 if entry.came_us is None else entry.came_us
    made: Made = {
        "submissionTime": seen.ns(came_us),
        "stateLog": [
            {"time": seen.ns(at_us), "applicationState": state} for at_us, state in entry.states
        ],
    }
    if entry.ran_us is not None:
        made["startTime"] = seen.ns(entry.ran_us) // 1_000_000
    if entry.ended_us is not None:
        made["finishedTime"] = seen.ns(entry.ended_us)
    return made


def _without_node(app: ViewApp) -> Iterator[Ask]:
    """Return the asks that hold no node; their order is not that after a restart."""
    return chain(app.each_pending(), app.parked.values())


def _came(ask: Ask) -> tuple[int, int]:
    """Return the place of an ask in the order in which they came."""
    return ask.seq, ask.number


@final
class _Reasons:
    """Tells why asks of an application are not running: all reasons of the first few.

    Args:
        seen: The state.
        app: The application.
    """

    def __init__(self, seen: Seen, app: ViewApp) -> None:
        self._seen = seen
        self._app = app
        self._notes = tuple(application_reasons(seen.machine.registry, app.identity))
        self._left = _EXPLAINED

    def of(self, ask: str) -> list[str]:
        """Return the reasons of an ask that holds no node, the dominant one first."""
        view, now_us = self._seen.view, self._seen.machine.now_us
        if not self._left:
            return [view.dominant(self._app, ask, now_us).value]
        self._left -= 1
        found = view.explain(self._app.identity.key, ask, now_us, self._notes)
        reasons: tuple[PendingReason, ...] = () if found is None else found.reasons
        return [str(reason) for reason in reasons]


# REST-10
def _request(seen: Seen, app: ViewApp, ask: Ask, reasons: _Reasons) -> Made:
    entry = seen.ledger.ask(app.identity.name, ask.name)
    since_us = _since_us(app, ask, entry)
    made: Made = {
        "allocationKey": ask.name,
        "allocationTags": _tags(ask, entry),
        "requestTime": seen.ns(ask.came_us),
        "resource": dict(ask.resources.amounts),
        "priority": str(ask.priority),
        "applicationId": app.identity.name,
        "allocationLog": [
            {"message": said, "lastOccurrence": seen.ns(since_us), "count": 1}
            for said in reasons.of(ask.name)
        ],
    }
    if ask.name not in app.parked:
        made["schedulingAttempted"] = True
    if ask.shape.node is not None:
        made["requiredNodeId"] = ask.shape.node
    if ask.gang is not None:
        made["taskGroupName"] = ask.gang
    return made


def _since_us(app: ViewApp, ask: Ask, entry: AskEntry | None) -> int:
    """Return since when an ask holds no node."""
    if entry is not None and entry.since_us is not None:
        return entry.since_us
    return app.pending_since_us(ask)


# REST-11
def allocation(seen: Seen, app: ViewApp, ask: Ask, node: str, *, waits: bool) -> Made:
    """Return the allocation of an ask that holds a node."""
    entry = seen.ledger.ask(app.identity.name, ask.name)
    made: Made = {
        "allocationKey": ask.name,
        "allocationTags": _tags(ask, entry),
        "requestTime": seen.ns(ask.came_us),
        "resource": dict(ask.resources.amounts),
        "priority": str(ask.priority),
        "nodeId": node,
        "applicationId": app.identity.name,
    }
    at_us = None if entry is None else entry.taken_us if waits else entry.bound_us
    if at_us is not None:
        made["allocationTime"] = seen.ns(at_us)
        made["allocationDelay"] = (at_us - ask.came_us) * 1_000
    if ask.gang is not None:
        made["taskGroupName"] = ask.gang
    if waits:
        made["placeholder"] = True
    return made


# REST-12
def _tags(ask: Ask, entry: AskEntry | None) -> dict[str, str]:
    """Return the tags by which the web UI names an allocation: its namespace and its name."""
    namespace = None if entry is None else entry.namespace
    if namespace is None:
        gang = ask.gang
        namespace = DEFAULT_NAMESPACE if gang is None else gang.partition("/")[0]
    return {NAMESPACE: namespace, POD_NAME: ask.name}
