"""What each event, and each Kubernetes object, does to the naive model.

A bad one is refused before anything is changed.
"""

from __future__ import annotations

import copy
from typing import assert_never

import attrs

from muster_core.decisions import Decision, Kind, Reason
from muster_core.errors import RefusedError
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
    FailBind,
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
    SetUsage,
    UpdateNode,
)
from muster_core.snapshots import AskPlace
from tests.naive import (
    directory,
    directory as lifecycle,
    directory as placement,
    gangs,
    gangs as permits,
    order,
    state,
    usage,
)
from tests.naive.picture import INT32_MAX, INT32_MIN, Picture, fits_limits, some_held
from tests.naive.state import BUILT_IN_CLASSES, App, Ask, AskShape, Node, PriorityClass, World

MAX_CLASS_VALUE = 1_000_000_000

Single = (
    Configure
    | AddNode
    | UpdateNode
    | RemoveNode
    | AddApp
    | RemoveApp
    | AddAsk
    | RemoveAsk
    | Release
    | BindFailed
    | AddPriorityClass
    | FailBind
    | SetUsage
    | AddGang
    | RemoveGang
)
"""The events that are about one thing."""


def arrive(world: World, event: Single, now_us: int) -> None:  # noqa: C901, PLR0912 - one case per event
    """Apply an event.

    Raises:
        RefusedError: If it makes no sense now; nothing was changed.
    """
    match event:
        case Configure():
            _configure(world, event)
        case AddNode():
            _add_node(world, event)
        case UpdateNode():
            _update_node(world, event)
        case RemoveNode():
            _remove_node(world, event, now_us)
        case AddApp():
            _add_app(world, event)
        case RemoveApp():
            _remove_app(world, event)
        case AddAsk():
            add_ask(world, event, now_us)
            mark_if_said(world, event)
        case RemoveAsk():
            _remove_ask(world, event, now_us)
        case Release():
            _release(world, event, now_us)
        case BindFailed():
            _bind_failed(world, event, now_us)
        case AddPriorityClass():
            _add_priority_class(world, event)
        case FailBind():
            _fail_bind(world, event)
        case SetUsage():
            usage.set_usage(world, event)
        case AddGang():
            _add_gang(world, event)
        case RemoveGang():
            remove_gang(world, event.gang)
        case _:
            assert_never(event)


def run_out(world: World, now_us: int) -> None:
    """Release the asks that have run for as long as they may, in the order of their binds."""
    for ask in world.bound():
        if limit_end(ask) == now_us:
            world.reached["run limits"] += 1
            world.reached["run limits of members"] += ask.gang is not None
            _end(world, ask, now_us, Reason.RUN_LIMIT, None)


def limit_end(ask: Ask) -> int | None:
    """Return when a bound ask has run for as long as it may, in microseconds; None if never."""
    return None if ask.limit_us is None else ask.bound_at_us + ask.limit_us


def expire(world: World, now_us: int) -> None:
    """Let those go that are not bound when they had to be, with their gangs if unsatisfied."""
    late = [ask for ask in world.asks() if ask.place is not AskPlace.BOUND]
    late = [ask for ask in late if ask.start_by_us == now_us]
    gone = set(late)
    for ask in late:
        gang = gangs.constrained(world, ask)
        if gang is not None:
            there = gangs.members(world, gang)
            gone.update(one for one in there if one.place is not AskPlace.BOUND)
    for ask in sorted(gone, key=lambda ask: _age(world, ask)):
        world.reached["expired"] += 1
        world.reached[f"expired, {ask.place.value}"] += 1
        world.reached["expired with its gang"] += ask not in late
        _end(world, ask, now_us, Reason.EXPIRED, None)


def _age(world: World, ask: Ask) -> tuple[object, ...]:
    """Return the place of an ask among all asks, whatever their priorities."""
    gang = None if ask.gang is None else world.gangs[ask.gang]
    creation = ask.creation[0] if gang is None or gang.creation is None else gang.creation
    return (creation, ask.gang or "", ask.creation, ask.number)


def complete(world: World, ask: Ask, now_us: int, message: str | None = None) -> None:
    """An ask has finished."""
    _end(world, ask, now_us, Reason.COMPLETED, message)


def _end(world: World, ask: Ask, now_us: int, reason: Reason, message: str | None) -> None:
    decision = ask.say(Kind.RELEASED, ask.node, reason)
    world.log.append(decision._replace(message=message))
    _gone(world, ask, now_us)


def _gone(world: World, ask: Ask, now_us: int) -> None:
    del ask.app.asks[ask.name]
    gangs.tidy(world)
    lifecycle.ask_gone(world, ask.app, now_us)


def _refuse_if(refused: object, message: str) -> None:
    if refused:
        raise RefusedError(message)


def _configure(world: World, event: Configure) -> None:
    directory.check_replacement(world, event.config)
    directory.replace(world, event.config)
    usage.tidy(world)
    order.look_up_anew(world)
    world.log.append(Decision(Kind.CONFIG, message=event.config.partition))
    for warning in event.config.warnings:
        world.log.append(Decision(Kind.WARNING, message=warning))


def _add_node(world: World, event: AddNode) -> None:
    _refuse_if(event.node in world.nodes, f"node: {event.node!r} is there already")
    world.nodes[event.node] = Node(
        *(event.node, event.capacity, dict(event.attributes), event.schedulable),
        stock=event.devices,
        taints=event.taints,
    )


def _node(world: World, name: str) -> Node:
    _refuse_if(name not in world.nodes, f"node: {name!r} is unknown")
    return world.nodes[name]


def _update_node(world: World, event: UpdateNode) -> None:
    node = _node(world, event.node)
    held = some_held(world.asks(), node)
    world.reached["devices replaced"] += event.devices is not None and not held
    world.reached["devices held"] += event.devices is not None and held
    _refuse_if(event.devices is not None and held, "devices: one is held")
    if event.devices is not None:
        node.equip(node.written, event.devices)
    if event.capacity is not None:
        node.equip(event.capacity, node.stock)
    if event.attributes is not None:
        node.attributes = dict(event.attributes)
    if event.schedulable is not None:
        node.schedulable = event.schedulable
    if event.reserved is not None:
        node.reserved = dict(event.reserved)
    if event.taints is not None:
        node.taints = event.taints


def _remove_node(world: World, event: RemoveNode, now_us: int) -> None:
    node = _node(world, event.node)
    lost = [ask for ask in world.asks() if ask.node == node.name]
    lost.sort(key=lambda ask: max(ask.held_order, ask.bound_order))
    for ask in lost:
        if ask.place is AskPlace.BOUND and ask.once:
            world.reached["once, lost with its node"] += 1
            world.log.append(ask.say(Kind.RELEASED, ask.node, Reason.NODE_LOST))
            del ask.app.asks[ask.name]
            lifecycle.ask_gone(world, ask.app, now_us)
            continue
        if ask.place is AskPlace.BOUND:
            state.lost(ask, now_us)
        gangs.release(world, [ask], Reason.NODE_LOST)
    for gang in world.gangs.values():
        if gang.name in {ask.gang for ask in lost}:
            gangs.unsatisfy_if_lost(world, gang)
    gangs.tidy(world)
    del world.nodes[node.name]


def _add_app(world: World, event: AddApp) -> None:
    known = world.apps.get(event.app)
    _refuse_if(known and known.state != "Completed", f"app: {event.app!r} is there already")
    path = placement.queue_for(world, event)
    directory.make_missing(world, path)
    skips = event.tags.get("application.stateaware.disable") == "true"
    app = App(event.app, path, world.event_position, skips, event.user, event.groups)
    app.counts_for = order.group_for(world, app)
    world.apps[event.app] = app
    lifecycle.enter(world, app, "New")


def _app(world: World, name: str) -> App:
    _refuse_if(name not in world.apps, f"app: {name!r} is unknown")
    return world.apps[name]


def _remove_app(world: World, event: RemoveApp) -> None:
    app = _app(world, event.app)
    for ask in sorted(app.asks.values(), key=lambda ask: (ask.creation, ask.number)):
        world.log.append(ask.say(Kind.RELEASED, ask.node, Reason.REMOVED))
    del world.apps[app.name]
    gangs.tidy(world)
    directory.remove_empty(world)


def add_ask(world: World, event: AddAsk, now_us: int, *, is_bound: bool = False) -> list[Ask]:
    """Add the asks of an event; return them."""
    app = _app(world, event.app)
    _refuse_if(app.state == "Completed", f"app: {event.app!r} has completed")
    _refuse_if(not event.resources and not event.devices, "resources: there is nothing in it")
    _refuse_if(event.count is not None and event.count < 1, f"count: {event.count}")
    _refuse_if(event.run_for_us is not None and event.run_for_us < 1, "run_for: must be above 0")
    estimate_us = event.estimate_us
    _refuse_if(estimate_us is not None and estimate_us < 1, "estimate: must be above 0")
    start_by_us = event.start_by_us
    is_late = start_by_us is not None and start_by_us < now_us and not is_bound
    _refuse_if(is_late, "start_by: is in the past")
    priority = _priority(world, event)
    names = [event.ask]
    if event.count is not None:
        names = [f"{event.ask}-{number}" for number in range(event.count)]
    for name in names:
        _refuse_if(name in app.asks, f"ask: {name!r} is there already")
    if event.gang is not None:
        gangs.check_joining(world, event.gang, event.says)
    asks = [
        Ask(
            app=app,
            name=name,
            resources=event.resources,
            priority=priority,
            creation=world.event_position,
            number=number,
            required=event.node,
            selector=dict(event.selector),
            tolerations=event.tolerations,
            affinity=event.affinity,
            run_for_us=event.run_for_us,
            preempts=_preempts(world, event),
            since_us=now_us,
            gang=event.gang,
            says=event.says,
            retries=event.retries,
            needs=event.devices,
            estimate_us=event.estimate_us,
            run_limit_us=event.run_limit_us,
            start_by_us=event.start_by_us,
            once=event.once,
        )
        for number, name in enumerate(names)
    ]
    gangs.join(world, asks)
    app.asks.update((ask.name, ask) for ask in asks)
    if event.devices:
        world.shapes += [AskShape.of(event.devices, event.resources) for _ in asks]
    lifecycle.ask_came(world, app)
    return asks


def mark_if_said(world: World, event: AddAsk) -> None:
    """Mark the gang of members whose annotations say that it has timed out."""
    if event.gang is None or not event.timed_out:
        return
    gang = world.gangs[event.gang]
    if not gang.satisfied:
        gangs.release(world, gangs.waiting(world, gang), Reason.GANG_TIMEOUT)
        gangs.mark(world, gang)


def _priority(world: World, event: AddAsk) -> int:
    number = event.priority
    if number is not None:
        _refuse_if(not INT32_MIN <= number <= INT32_MAX, f"priority: {number}")
    if event.priority_class is None:
        return number or 0
    _refuse_if(
        event.priority_class not in world.classes,
        f"priority_class: {event.priority_class!r} is unknown",
    )
    value = world.classes[event.priority_class].value
    _refuse_if(number not in {None, value}, f"priority: {number} is not that of the class")
    return value


def _preempts(world: World, event: AddAsk) -> bool:
    return event.priority_class is not None and world.classes[event.priority_class].preempts


def _ask(world: World, app_name: str, name: str) -> Ask:
    app = _app(world, app_name)
    _refuse_if(name not in app.asks, f"ask: {name!r} is unknown")
    return app.asks[name]


def _remove_ask(world: World, event: RemoveAsk, now_us: int) -> None:
    ask = _ask(world, event.app, event.ask)
    _refuse_if(ask.place is AskPlace.BOUND, f"ask: {event.ask!r} is bound")
    remove_ask(world, ask, now_us)


def remove_ask(world: World, ask: Ask, now_us: int) -> None:
    """Take an ask away, wherever it is."""
    world.log.append(ask.say(Kind.RELEASED, ask.node, Reason.REMOVED))
    _gone(world, ask, now_us)


def _release(world: World, event: Release, now_us: int) -> None:
    ask = _ask(world, event.app, event.ask)
    _refuse_if(ask.place is not AskPlace.BOUND, f"ask: {event.ask!r} is not bound")
    match event.outcome:
        case Outcome.COMPLETED:
            complete(world, ask, now_us, event.message)
        case Outcome.CANCELLED:
            _end(world, ask, now_us, Reason.CANCELLED, event.message)
        case Outcome.FAILED if ask.retries:
            ask.retries -= 1
            _back_to_pending(world, ask, now_us, Reason.FAILED, event.message)
        case Outcome.FAILED:
            _end(world, ask, now_us, Reason.FAILED, event.message)
        case _:
            assert_never(event.outcome)


def _bind_failed(world: World, event: BindFailed, now_us: int) -> None:
    """Take a bound ask back whose work could not be started."""
    ask = _ask(world, event.app, event.ask)
    _refuse_if(ask.place is not AskPlace.BOUND, f"ask: {event.ask!r} is not bound")
    _back_to_pending(world, ask, now_us, Reason.BIND_FAILED, event.message)


def _back_to_pending(
    world: World, ask: Ask, now_us: int, reason: Reason, message: str | None
) -> None:
    """Take a bound ask back, which counts as a failed bind for it and for its gang."""
    ask.since_us = now_us
    state.failed(ask, now_us)
    gangs.release(world, [ask], reason, message)
    if ask.gang is not None:
        gangs.unsatisfy_if_lost(world, world.gangs[ask.gang])


def _add_priority_class(world: World, event: AddPriorityClass) -> None:
    _refuse_if(event.name in world.classes, f"name: {event.name!r} is there already")
    _refuse_if(event.name.startswith("system-"), f"name: {event.name!r} is reserved")
    fine = INT32_MIN <= event.value <= MAX_CLASS_VALUE
    _refuse_if(not fine, f"value: {event.value} is more than {MAX_CLASS_VALUE}")
    world.classes[event.name] = PriorityClass(event.value, event.preempts)


def _fail_bind(world: World, event: FailBind) -> None:
    ask = _ask(world, event.app, event.ask)
    _refuse_if(event.times < 1, f"times: {event.times} is not above 0")
    ask.failures += event.times


def _add_gang(world: World, event: AddGang) -> None:
    gang = world.gangs.get(event.gang)
    there = gang is not None and gang.manifest is not None
    _refuse_if(there, f"gang: {event.gang!r} is there already")
    gangs.give_object(world, event.gang, event.says)


def remove_gang(world: World, name: str) -> None:
    """Take the definition of a gang away."""
    gang = world.gangs.get(name)
    if gang is None or gang.definition is None:
        msg = f"gang: {name!r} is not defined"
        raise RefusedError(msg)
    gangs.undefine(world, gang)


def take(world: World, event: Event, now_us: int) -> None:
    """Apply an event, or the objects that it brings or takes away.

    Raises:
        RefusedError: If it makes no sense now; nothing was changed.
    """
    if not isinstance(event, Apply | Delete):
        arrive(world, event, now_us)
        return
    before = copy.deepcopy(world, {id(world.config): world.config})
    try:
        for world.item, one in enumerate(event.objects):
            if isinstance(one.content, ObjectName):
                _delete(world, one.content, now_us)
            else:
                _apply(world, one.content, now_us)
    except RefusedError:
        for field in attrs.fields(World):
            setattr(world, field.name, getattr(before, field.name))
        raise
    finally:
        world.item = 0


def _apply(world: World, content: AppliedObject, now_us: int) -> None:
    match content:
        case AddPriorityClass():
            world.classes[content.name] = PriorityClass(content.value, content.preempts)
        case AddGang():
            gangs.give_object(world, content.gang, content.says)
        case NodeObject():
            _apply_node(world, content)
        case PodObject():
            _apply_pod(world, content, now_us)
        case QueueObject():
            msg = f"manifest.kind: {content.name!r}: the naive model has no Volcano queues"
            raise RefusedError(msg)
        case _:
            assert_never(content)


def _apply_node(world: World, content: NodeObject) -> None:
    name, attributes = content.node, dict(content.attributes)
    if name in world.nodes:
        update = UpdateNode(
            name, content.capacity, attributes, content.schedulable, taints=content.taints
        )
        arrive(world, update, 0)
        return
    if content.capacity is None:
        msg = f"manifest.status: the node {name!r} has no capacity"
        raise RefusedError(msg)
    world.nodes[name] = Node(
        name, content.capacity, attributes, content.schedulable, taints=content.taints
    )


def _apply_pod(world: World, content: PodObject, now_us: int) -> None:
    app = world.apps.get(content.app)
    known = None if app is None else app.asks.get(content.name)
    if known is not None and content.finished:
        complete(world, known, now_us)
    if known is not None or content.finished:
        return
    if content.ask is None:
        msg = f"manifest.spec.containers: the pod {content.name!r} requests nothing"
        raise RefusedError(msg)
    if app is None or app.state == "Completed":
        rules = world.config.placement_rules
        queue = content.queue or (None if rules else "root.default")
        tags = {"namespace": content.namespace}
        made = AddApp(content.app, queue, content.user, content.groups, tags)
        arrive(world, made, now_us)
    (ask,) = add_ask(world, content.ask, now_us, is_bound=content.node is not None)
    if content.node is not None:
        _start(world, ask, content.node, now_us)
    mark_if_said(world, content.ask)


def _start(world: World, ask: Ask, node_name: str, now_us: int) -> None:
    """Bind a pod where it runs already; that satisfies its gang."""
    node = world.nodes.get(node_name)
    picture = Picture(world)
    room = node is not None and fits_limits(ask.wants, picture.used[node.name], _all_of(node, ask))
    if node is None or not room or not picture.fits_headroom(ask):
        msg = f"manifest.spec.nodeName: {node_name!r} has no room"
        raise RefusedError(msg)
    permits.hold(world, ask, node)
    world.log.pop()  # Nobody chose the node, so it was not assigned.
    gang = permits.constrained(world, ask)
    if gang is not None:
        gang.satisfied = True
        gangs.unmark(world, gang)  # It constrains nothing any longer, the mark neither.
        world.log.append(Decision(Kind.GANG_SATISFIED, gang=gang.name))
    permits.bind(world, ask, now_us)


def _all_of(node: Node, ask: Ask) -> dict[str, int]:
    return {name: node.for_asks(name) for name in ask.wants}


def _delete(world: World, name: ObjectName, now_us: int) -> None:
    match name.kind:
        case ObjectKind.PRIORITY_CLASS:
            if name.name in BUILT_IN_CLASSES or name.name not in world.classes:
                msg = f"manifest.metadata.name: there is no class {name.name!r} to delete"
                raise RefusedError(msg)
            del world.classes[name.name]
        case ObjectKind.POD_GROUP:
            remove_gang(world, name.name)
        case ObjectKind.NODE:
            arrive(world, RemoveNode(name.name), now_us)
        case ObjectKind.POD:
            _delete_pod(world, name, now_us)
        case ObjectKind.QUEUE:
            msg = f"manifest.kind: {name.name!r}: the naive model has no Volcano queues"
            raise RefusedError(msg)
        case _:
            assert_never(name.kind)


def _delete_pod(world: World, name: ObjectName, now_us: int) -> None:
    app = world.apps.get(name.app or "")
    ask = None if app is None else app.asks.get(name.name)
    if ask is None:
        msg = f"manifest.metadata.name: there is no pod {name.name!r}"
        raise RefusedError(msg)
    remove_ask(world, ask, now_us)
