"""Events in the form of a feed."""

from __future__ import annotations

from typing import Final, assert_never, cast

import attrs

from muster.feeds._encodings.raw import Raw, RawEvent, trouble
from muster.feeds._items import Refused
from muster.feeds._parse import parse
from muster.feeds._written.amounts import Written, amounts, duration, without, words
from muster.feeds._written.configurations import configuration
from muster.feeds._written.devices import needs, stocks
from muster.feeds._written.gangs import member_marks
from muster.feeds._written.objects import applied, deleted
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    AppliedObject,
    Apply,
    BindFailed,
    Configure,
    Delete,
    Event,
    Exit,
    FailBind,
    Manifest,
    Outcome,
    PodObject,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
    Work,
)
from muster_core.gangs.definition import GangFields

# Looking up a member of an enum takes ten times as long.
_COMPLETED: Final = Outcome.COMPLETED


def write_event(event: Event) -> Written:
    """Return an event as written in a feed.

    Raises:
        ValueError: If no feed can say it; the message says why.
    """
    return written_and_read(event)[0]


def written_and_read(event: Event) -> tuple[Written, Event]:
    """Return an event as written in a feed, and what a reader makes of that.

    The two mean the same; see :func:`meaning`.

    Raises:
        ValueError: If no feed can say it; the message says why.
    """
    written = _write(event)
    problem = trouble(written)
    if problem is not None:
        raise ValueError(problem)
    (item,) = parse([RawEvent(0, None, written)])
    if isinstance(item.content, Refused):
        raise ValueError(item.content.message)
    found = cast("Event", item.content)
    if meaning(found) != meaning(event):
        msg = f"it would become {found!r}, and it is {event!r}"
        raise ValueError(msg)
    return written, found


def meaning(event: Event) -> Event:
    """Return an event without what only its messages depend on.

    These are the fields that objects and configurations have in the event, the order of the gangs
    of a group, and the warnings of a configuration about fields that are not obeyed.
    """
    match event:
        case Configure(config):
            return Configure(attrs.evolve(config, warnings=()))
        case AddAsk(says=says):
            return attrs.evolve(event, says=_sorted(says))
        case AddGang(gang, says):
            return AddGang(gang, _sorted(says))
        case Apply(objects):
            return Apply(tuple(Manifest(_plain(one.content), "") for one in objects))
        case Delete(objects):
            return Delete(tuple(attrs.evolve(one, field="") for one in objects))
        case _:
            return event


def _plain(content: AppliedObject) -> AppliedObject:
    match content:
        case AddGang(gang, says):
            return AddGang(gang, _sorted(says))
        case PodObject(ask=AddAsk() as ask):
            return attrs.evolve(content, ask=attrs.evolve(ask, says=_sorted(ask.says)))
        case _:
            return content


def _sorted(says: GangFields) -> GangFields:
    groups = says.groups
    return says if groups is None else attrs.evolve(says, groups=tuple(sorted(set(groups))))


def _write(event: Event) -> Written:
    match event:
        case AddAsk():
            return add_ask(event)
        case AddNode() | UpdateNode():
            return node(event)
        case AddApp():
            return _add_app(event)
        case AddGang():
            return _add_gang(event)
        case Configure(config):
            return {"op": "configure", "config": configuration(config)}
        case AddPriorityClass(name, value, preempts):
            policy = {"preemption_policy": "PreemptLowerPriority"} if preempts else {}
            return {"op": "add_priority_class", "name": name, "value": value, **policy}
        case Apply():
            return {"op": "apply", "manifest": applied(event)}
        case Delete():
            return {"op": "delete", "manifest": deleted(event)}
        case _:
            return _about_one(event)


_Named = RemoveNode | RemoveApp | RemoveAsk | Release | BindFailed | FailBind | RemoveGang


def _about_one(event: _Named) -> Written:
    match event:
        case RemoveNode(node):
            return {"op": "remove_node", "node": node}
        case RemoveApp(app):
            return {"op": "remove_app", "app": app}
        case RemoveAsk(app, ask):
            return {"op": "remove_ask", "app": app, "ask": ask}
        case Release(app, ask, outcome, message, exited):
            told: Written = {} if outcome is _COMPLETED else {"outcome": outcome.value}
            if message is not None:
                told["message"] = message
            if exited is not None:
                told |= _exit(exited)
            return {"op": "release", "app": app, "ask": ask, **told}
        case BindFailed(app, ask, message):
            why: Written = {} if message is None else {"message": message}
            return {"op": "bind_failed", "app": app, "ask": ask, **why}
        case FailBind(app, ask, times):
            more: Written = {} if times == 1 else {"times": times}
            return {"op": "fail_bind", "app": app, "ask": ask, **more}
        case RemoveGang(gang):
            return {"op": "remove_gang", "gang": gang}
        case _:
            assert_never(event)


def node(event: AddNode | UpdateNode) -> Written:
    """Return the event that adds or changes a node."""
    is_new = isinstance(event, AddNode)
    written: Written = {"op": "add_node" if is_new else "update_node", "node": event.node}
    if event.capacity is not None:
        written["capacity"] = amounts(event.capacity)
    # An empty map takes all attributes away from a node.
    if event.attributes is not None and (event.attributes or not is_new):
        written["attributes"] = words(event.attributes)
    if event.schedulable is not None and not (is_new and event.schedulable):
        written["schedulable"] = event.schedulable
    if isinstance(event, AddNode) and event.lease_us is not None:
        written["lease"] = duration(event.lease_us)
    if event.devices is not None and (event.devices or not is_new):
        written["devices"] = stocks(event.devices)
    return written


def _add_app(event: AddApp) -> Written:
    written: Written = {"op": "add_app", "app": event.app}
    if event.queue is not None:
        written["queue"] = event.queue
    if event.user is not None:
        written["user"] = event.user
    return written | without({"groups": [*event.groups], "tags": words(event.tags)})


def add_ask(event: AddAsk) -> Written:
    """Return the event that adds an ask."""
    written: Written = {"op": "add_ask", "app": event.app, "ask": event.ask, **_wanted(event)}
    for name in ("priority", "priority_class", "count", "node"):
        value: Raw = getattr(event, name)
        if value is not None:
            written[name] = value
    if event.selector:
        written["selector"] = words(event.selector)
    if event.run_for_us is not None:
        written["run_for"] = duration(event.run_for_us)
    if event.estimate_us is not None:
        written["estimate"] = duration(event.estimate_us)
    if event.retries:
        written["retries"] = event.retries
    if event.work is not None:
        written |= _work(event.work)
    if event.gang is not None:
        written["gang"] = event.gang
        marks = member_marks(event)
        if marks:
            written["annotations"] = marks
    return written


def _wanted(event: AddAsk) -> Written:
    if not event.devices:
        return {"resources": amounts(event.resources)}
    resources = {"resources": amounts(event.resources)} if event.resources else {}
    return {**resources, "devices": needs(event.devices.items())}


def _work(work: Work) -> Written:
    command: Raw = [*work.argv] if work.argv else work.shell
    return without({"command": command, "env": words(work.env), "workdir": work.workdir})


def _exit(exited: Exit) -> Written:
    cpu = None if exited.cpu_us is None else duration(exited.cpu_us)
    return without(
        {
            "exit_status": exited.status,
            "signal": exited.signal,
            "cpu_time": cpu,
            "max_memory": exited.memory,
        }
    )


def _add_gang(event: AddGang) -> Written:
    says = event.says
    written: Written = {"op": "add_gang", "gang": event.gang, "min_member": says.min_member}
    if says.total is not None:
        written["total"] = says.total
    if says.mode is not None:
        written["mode"] = says.mode.value
    if says.wait_us is not None:
        written["wait_time"] = duration(says.wait_us)
    if says.groups is not None:
        written["groups"] = [*says.groups]
    if says.topology is not None:
        written["topology"] = {**says.topology.written()}
    if says.user is not None:
        written["user"] = says.user
    return written
