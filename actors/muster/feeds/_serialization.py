"""Serialization: typed events and objects in the form of a feed, where they mean the same.

Amounts and times have their shortest form. A configuration is the text from which it comes, as far as
that has an effect: names are in lower case, and comments, empty fields, and fields that Muster
reads and does not obey are left out. Nothing here knows what an event does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar, assert_never, cast

import attrs

from muster.feeds._annotations import KOORDINATOR
from muster.feeds._items import Refused
from muster.feeds._manifests import APPLICATION_LABEL, QUEUE_LABELS
from muster.feeds._parser import parse
from muster.feeds._raw import Raw, RawEvent, problem_of_value
from muster_core.config.model import Configuration, Limits, QueueConfig
from muster_core.decisions import MICROSECONDS, seconds
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
    NodeObject,
    ObjectKind,
    ObjectName,
    Outcome,
    PodObject,
    QueueObject,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
    Work,
)
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from muster_core.values.configuration import (
    Acl,
    LimitEntry,
    NodeSortPolicy,
    PlacementRule,
    Template,
    TypicalAsk,
)
from muster_core.values.devices import DeviceNeed, DeviceStock
from muster_core.values.events import USER_INFO
from muster_core.values.names import DEFAULT_NAMESPACE
from muster_core.values.resources import format_quantity

_EXACT: Final = 10**15
"""Times below it, in microseconds, are exact as floats of seconds, which have 15 digits."""

EventFields: TypeAlias = dict[str, Raw]
"""An event, or a part of one, as written in a feed."""


def quantity(name: str, amount: int) -> int | str:
    """Return an amount of a resource type in its shortest form in a feed."""
    text = format_quantity(name, amount)
    return int(text) if text.isdigit() else text


def amounts(resources: Mapping[str, int]) -> EventFields:
    """Return amounts of several types in their shortest form in a feed."""
    return {name: quantity(name, amount) for name, amount in resources.items()}


def duration(length_us: int) -> int | float | str:
    """Return an instant or a duration: in seconds if that is exact, else in microseconds."""
    written = seconds(length_us)
    if isinstance(written, int):
        return written
    return written if round(written * MICROSECONDS) == length_us < _EXACT else f"{length_us}us"


def without_missing(fields: Mapping[str, Raw]) -> EventFields:
    """Return fields without those that are None, an empty list or an empty map."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def words(texts: Mapping[str, str]) -> EventFields:
    """Return a map of texts."""
    return dict(texts)


def stocks(devices: Mapping[str, DeviceStock]) -> EventFields:
    """Return the devices of a node."""
    return {
        kind: stock.count if stock.model is None else {"count": stock.count, "model": stock.model}
        for kind, stock in sorted(devices.items())
    }


def needs(devices: Iterable[tuple[str, DeviceNeed]]) -> EventFields:
    """Return what an ask needs of devices."""
    return {kind: _need(need) for kind, need in sorted(devices)}


def _need(need: DeviceNeed) -> Raw:
    written: EventFields = {"milli": need.milli} if need.is_share else {"count": need.count}
    if need.models is not None:
        written["models"] = [*need.models]
        return written
    return written if need.is_share else need.count


NAME = f"{KOORDINATOR}/name"
TIMEOUT = f"{KOORDINATOR}/timeout"


def member_annotations(event: AddAsk) -> EventFields:
    """Return the annotations on a member, without the one that names the gang."""
    marks = object_annotations(event.says)
    if event.says.min_member is not None:
        marks[f"{KOORDINATOR}/min-available"] = str(event.says.min_member)
    if event.says.wait_us is not None:
        marks[f"{KOORDINATOR}/waiting-time"] = f"{event.says.wait_us}us"
    if event.timed_out:
        marks[TIMEOUT] = "true"
    return marks


def object_annotations(says: GangFields) -> EventFields:
    """Return the annotations that members and PodGroups have in common."""
    marks: EventFields = {}
    if says.total is not None:
        marks[f"{KOORDINATOR}/total-number"] = str(says.total)
    if says.mode is not None:
        marks[f"{KOORDINATOR}/mode"] = says.mode.value
    if says.groups is not None:
        marks[f"{KOORDINATOR}/groups"] = json.dumps(says.groups)
    return marks


_EVERYBODY = "*"


def configuration(config: Configuration) -> EventFields:
    """Return a configuration in the form of a configuration file."""
    partition: EventFields = {"name": config.partition}
    node_sort: EventFields = {"type": config.node_sort.value}
    if config.node_weights != attrs.fields(Configuration).node_weights.default:
        node_sort["resourceweights"] = dict(config.node_weights)
    if config.typical:
        node_sort["typical"] = [_typical(one) for one in config.typical]
    if len(node_sort) > 1 or config.node_sort is not NodeSortPolicy.FAIR:
        partition["nodesortpolicy"] = node_sort
    if not config.preemption_enabled:
        partition["preemption"] = {"enabled": False}
    if config.placement_rules:
        partition["placementrules"] = [_rule(rule) for rule in config.placement_rules]
    partition["queues"] = [_queue_settings(config.root)]
    return {"partitions": [partition]}


def _typical(one: TypicalAsk) -> EventFields:
    more = without_missing({"resources": amounts(one.resources)})
    return {"devices": needs(one.devices), **more, "weight": one.weight}


def _queue_settings(queue: QueueConfig) -> EventFields:
    written: EventFields = {"name": queue.name}
    # A queue with children is a parent anyway, and so is the root.
    if queue.is_parent and not queue.children and queue.name != queue.path.partition(".")[0]:
        written["parent"] = True
    children: list[Raw] = [_queue_settings(child) for child in queue.children]
    limits: list[Raw] = [_limit(entry) for entry in queue.limits]
    return written | without_missing(
        {
            "submitacl": None if queue.submit_acl is None else _acl(queue.submit_acl),
            "adminacl": None if queue.admin_acl is None else _acl(queue.admin_acl),
            "resources": _resources(queue.guaranteed, queue.max),
            "maxapplications": queue.max_applications or None,
            "properties": words(dict(queue.own_properties)),
            "childtemplate": None if queue.template is None else _template(queue.template),
            "limits": limits,
            "queues": children,
        }
    )


def _resources(guaranteed: Resources, most: Limits) -> EventFields:
    return without_missing({"guaranteed": amounts(guaranteed), "max": amounts(dict(most.amounts))})


def _template(template: Template) -> EventFields:
    return without_missing(
        {
            "maxapplications": template.max_applications or None,
            "properties": words(dict(template.properties)),
            "resources": _resources(template.guaranteed, template.max),
        }
    )


def _acl(acl: Acl) -> str:
    users = ",".join(sorted(acl.users)) or (_EVERYBODY if acl.everybody else "")
    # A text that begins with a blank has only groups.
    groups = ",".join(sorted(acl.groups)) or (_EVERYBODY if acl.everybody and acl.users else "")
    return f"{users} {groups}" if groups else users


def _limit(entry: LimitEntry) -> EventFields:
    return without_missing(
        {
            "users": [*entry.users],
            "groups": [*entry.groups],
            "maxresources": amounts(dict(entry.max.amounts)),
            "maxapplications": entry.max_applications or None,
        }
    )


def _rule(rule: PlacementRule) -> EventFields:
    one = rule.filter
    names: EventFields = without_missing({"users": [*one.users], "groups": [*one.groups]})
    if one.deny:
        names = {"type": "deny", **names}
    return without_missing(
        {
            "name": rule.name.value,
            "value": rule.value or None,
            "create": True if rule.create else None,
            "filter": names,
            "parent": None if rule.parent is None else _rule(rule.parent),
        }
    )


# Looking up a member of an enum takes ten times as long.
_NODE: Final = ObjectKind.NODE
_POD: Final = ObjectKind.POD
_POD_GROUP: Final = ObjectKind.POD_GROUP
_PRIORITY_CLASS: Final = ObjectKind.PRIORITY_CLASS
_QUEUE: Final = ObjectKind.QUEUE

T = TypeVar("T")

_ALONE = "manifest"
_VERSIONS = {
    ObjectKind.PRIORITY_CLASS: "scheduling.k8s.io/v1",
    ObjectKind.POD_GROUP: "scheduling.x-k8s.io/v1alpha1",
    ObjectKind.QUEUE: "scheduling.volcano.sh/v1beta1",
}


def applied(event: Apply) -> Raw:
    """Return the manifest of ``apply``."""
    return _manifest(event.objects, [_object(one.content) for one in event.objects])


def deleted(event: Delete) -> Raw:
    """Return the manifest of ``delete``."""
    return _manifest(event.objects, [_name(one.content) for one in event.objects])


def _manifest(objects: Sequence[Manifest[T]], written: Sequence[EventFields]) -> Raw:
    if len(objects) == 1 and objects[0].field == _ALONE:
        return written[0]
    return {"apiVersion": "v1", "kind": "List", "items": [*written]}


def _form(kind: ObjectKind, metadata: EventFields, **fields: Raw) -> EventFields:
    version = _VERSIONS.get(kind, "v1")
    return {
        "apiVersion": version,
        "kind": kind.value,
        "metadata": metadata,
        **without_missing(fields),
    }


def _object(content: AppliedObject) -> EventFields:
    match content:
        case AddPriorityClass(name, value, preempts):
            policy = "PreemptLowerPriority" if preempts else "Never"
            return {
                **_form(_PRIORITY_CLASS, {"name": name}),
                "value": value,
                "preemptionPolicy": policy,
            }
        case AddGang():
            return _pod_group(content)
        case NodeObject():
            return _node(content)
        case PodObject():
            return _pod(content)
        case QueueObject():
            return _queue(content)
        case _:
            assert_never(content)


def _pod_group(gang: AddGang) -> EventFields:
    spec: EventFields = {"minMember": gang.says.min_member}
    if gang.says.wait_us is not None:
        spec["scheduleTimeoutSeconds"] = _whole(gang.says.wait_us)
    marks = object_annotations(gang.says)
    if gang.says.user is not None:
        marks[USER_INFO] = json.dumps({"user": gang.says.user})
    metadata = _named(gang.gang) | without_missing({"annotations": marks})
    return _form(_POD_GROUP, metadata, spec=spec)


def _whole(time_us: int | None) -> Raw:
    if time_us is None:
        return None
    whole, rest = divmod(time_us, MICROSECONDS)
    return time_us / MICROSECONDS if rest else whole


def _named(gang: str) -> EventFields:
    namespace, _, name = gang.rpartition("/")
    return {"name": name, "namespace": namespace or DEFAULT_NAMESPACE}


def _node(node: NodeObject) -> EventFields:
    metadata: EventFields = {"name": node.node}
    return _form(
        _NODE,
        metadata | without_missing({"labels": words(node.attributes)}),
        spec=None if node.schedulable else {"unschedulable": True},
        # Without a status the capacity stays, and an empty one is none.
        status=None if node.capacity is None else {"allocatable": amounts(node.capacity)},
    )


def _pod(pod: PodObject) -> EventFields:
    ask = pod.ask
    labels: EventFields = {APPLICATION_LABEL: pod.app}
    if pod.queue is not None:
        labels[QUEUE_LABELS[0]] = pod.queue
    marks: EventFields = {}
    if pod.user is not None or pod.groups:
        user: EventFields = without_missing({"user": pod.user, "groups": [*pod.groups]})
        marks[USER_INFO] = json.dumps(user)
    if ask is not None and ask.gang is not None:
        marks |= {NAME: ask.gang, **member_annotations(ask)}
    metadata: EventFields = {"name": pod.name, "labels": labels}
    if pod.namespace != DEFAULT_NAMESPACE:
        metadata["namespace"] = pod.namespace
    spec: EventFields = without_missing({"nodeName": pod.node})
    if ask is not None:
        spec |= without_missing(
            {
                "priority": ask.priority,
                "activeDeadlineSeconds": _whole(ask.estimate_us),
                "priorityClassName": ask.priority_class,
                "nodeSelector": words(ask.selector),
                "containers": [{"resources": {"requests": amounts(ask.resources)}}],
            }
        )
    return _form(
        _POD,
        metadata | without_missing({"annotations": marks}),
        spec=spec,
        status={"phase": "Succeeded"} if pod.finished else None,
    )


def _queue(queue: QueueObject) -> EventFields:
    spec: EventFields = {
        "parent": queue.parent,
        "priority": queue.priority,
        "reclaimable": queue.reclaimable,
        "capability": None if queue.max is None else amounts(dict(queue.max.amounts)),
        "deserved": None if queue.guaranteed is None else amounts(queue.guaranteed),
    }
    return _form(
        _QUEUE,
        {"name": queue.name},
        spec={name: value for name, value in spec.items() if value is not None},
    )


def _name(name: ObjectName) -> EventFields:
    metadata: EventFields = {"name": name.name}
    if name.kind is _POD_GROUP:
        metadata = _named(name.name)
    elif name.app is not None:
        metadata["labels"] = {APPLICATION_LABEL: name.app}
    return _form(name.kind, metadata)


# Looking up a member of an enum takes ten times as long.
_COMPLETED: Final = Outcome.COMPLETED


def write_event(event: Event) -> EventFields:
    """Return an event as written in a feed.

    Raises:
        ValueError: If no feed can say it; the message says why.
    """
    return write_and_read(event)[0]


def write_and_read(event: Event) -> tuple[EventFields, Event]:
    """Return an event as written in a feed, and what a reader makes of that.

    The two mean the same; see :func:`normalized`.

    Raises:
        ValueError: If no feed can say it; the message says why.
    """
    written = _write(event)
    problem = problem_of_value(written)
    if problem is not None:
        raise ValueError(problem)
    (item,) = parse([RawEvent(0, None, written)])
    if isinstance(item.content, Refused):
        raise ValueError(item.content.message)
    found = cast("Event", item.content)
    if normalized(found) != normalized(event):
        msg = f"it would become {found!r}, and it is {event!r}"
        raise ValueError(msg)
    return written, found


def normalized(event: Event) -> Event:
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


def _write(event: Event) -> EventFields:
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


def _about_one(event: _Named) -> EventFields:
    match event:
        case RemoveNode(node):
            return {"op": "remove_node", "node": node}
        case RemoveApp(app):
            return {"op": "remove_app", "app": app}
        case RemoveAsk(app, ask):
            return {"op": "remove_ask", "app": app, "ask": ask}
        case Release(app, ask, outcome, message, exited):
            told: EventFields = {} if outcome is _COMPLETED else {"outcome": outcome.value}
            if message is not None:
                told["message"] = message
            if exited is not None:
                told |= _exit(exited)
            return {"op": "release", "app": app, "ask": ask, **told}
        case BindFailed(app, ask, message):
            why: EventFields = {} if message is None else {"message": message}
            return {"op": "bind_failed", "app": app, "ask": ask, **why}
        case FailBind(app, ask, times):
            more: EventFields = {} if times == 1 else {"times": times}
            return {"op": "fail_bind", "app": app, "ask": ask, **more}
        case RemoveGang(gang):
            return {"op": "remove_gang", "gang": gang}
        case _:
            assert_never(event)


def node(event: AddNode | UpdateNode) -> EventFields:
    """Return the event that adds or changes a node."""
    is_new = isinstance(event, AddNode)
    written: EventFields = {"op": "add_node" if is_new else "update_node", "node": event.node}
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


def _add_app(event: AddApp) -> EventFields:
    written: EventFields = {"op": "add_app", "app": event.app}
    if event.queue is not None:
        written["queue"] = event.queue
    if event.user is not None:
        written["user"] = event.user
    return written | without_missing({"groups": [*event.groups], "tags": words(event.tags)})


def add_ask(event: AddAsk) -> EventFields:
    """Return the event that adds an ask."""
    written: EventFields = {"op": "add_ask", "app": event.app, "ask": event.ask, **_request(event)}
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
        marks = member_annotations(event)
        if marks:
            written["annotations"] = marks
    return written


def _request(event: AddAsk) -> EventFields:
    if not event.devices:
        return {"resources": amounts(event.resources)}
    resources = {"resources": amounts(event.resources)} if event.resources else {}
    return {**resources, "devices": needs(event.devices.items())}


def _work(work: Work) -> EventFields:
    command: Raw = [*work.argv] if work.argv else work.shell
    return without_missing({"command": command, "env": words(work.env), "workdir": work.workdir})


def _exit(exited: Exit) -> EventFields:
    cpu = None if exited.cpu_us is None else duration(exited.cpu_us)
    return without_missing(
        {
            "exit_status": exited.status,
            "signal": exited.signal,
            "cpu_time": cpu,
            "max_memory": exited.memory,
        }
    )


def _add_gang(event: AddGang) -> EventFields:
    says = event.says
    written: EventFields = {"op": "add_gang", "gang": event.gang, "min_member": says.min_member}
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
