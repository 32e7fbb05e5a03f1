"""What each event does to the naive model; a bad one is refused before anything is changed."""

from __future__ import annotations

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
    BindFailed,
    Configure,
    FailBind,
    Outcome,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)
from muster_core.snapshots import AskPlace
from tests.naive import back_off, directory, gangs, lifecycle, placement, user_limits
from tests.naive.devices.rooms import some_held
from tests.naive.properties import INT32_MAX, INT32_MIN
from tests.naive.state import App, Ask, AskShape, Node, PriorityClass, World

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
        case AddGang():
            _add_gang(world, event)
        case RemoveGang():
            remove_gang(world, event.gang)
        case _:
            assert_never(event)


def complete(world: World, ask: Ask, now_us: int, message: str | None = None) -> None:
    """An ask has finished."""
    _end(world, ask, now_us, Reason.COMPLETED, message)


def _end(world: World, ask: Ask, now_us: int, reason: Reason, message: str | None) -> None:
    said = ask.say(Kind.RELEASED, ask.node, reason)
    world.log.append(attrs.evolve(said, message=message))
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
    user_limits.look_up_anew(world)
    world.log.append(Decision(Kind.CONFIG, message=event.config.partition))
    for warning in event.config.warnings:
        world.log.append(Decision(Kind.WARNING, message=warning))


def _add_node(world: World, event: AddNode) -> None:
    _refuse_if(event.node in world.nodes, f"node: {event.node!r} is there already")
    world.nodes[event.node] = Node(
        event.node, event.capacity, dict(event.attributes), event.schedulable, event.devices
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


def _remove_node(world: World, event: RemoveNode, now_us: int) -> None:
    node = _node(world, event.node)
    lost = [ask for ask in world.asks() if ask.node == node.name]
    lost.sort(key=lambda ask: max(ask.held_order, ask.bound_order))
    for ask in lost:
        if ask.place is AskPlace.BOUND:
            back_off.lost(ask, now_us)
    gangs.release(world, lost, Reason.NODE_LOST)
    for gang in world.gangs.values():
        if gang.name in {ask.gang for ask in lost}:
            gangs.unsatisfy_if_lost(world, gang)
    del world.nodes[node.name]


def _add_app(world: World, event: AddApp) -> None:
    known = world.apps.get(event.app)
    _refuse_if(known and known.state != "Completed", f"app: {event.app!r} is there already")
    path = placement.queue_for(world, event)
    directory.make_missing(world, path)
    skips = event.tags.get("application.stateaware.disable") == "true"
    app = App(event.app, path, world.here, skips, event.user, event.groups)
    app.counts_for = user_limits.group_for(world, app)
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


def add_ask(world: World, event: AddAsk, now_us: int) -> list[Ask]:
    """Add the asks of an event; give them."""
    app = _app(world, event.app)
    _refuse_if(app.state == "Completed", f"app: {event.app!r} has completed")
    _refuse_if(not event.resources and not event.devices, "resources: there is nothing in it")
    _refuse_if(event.count is not None and event.count < 1, f"count: {event.count}")
    _refuse_if(event.run_for_us is not None and event.run_for_us < 1, "run_for: must be above 0")
    estimate_us = event.estimate_us
    _refuse_if(estimate_us is not None and estimate_us < 1, "estimate: must be above 0")
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
            creation=world.here,
            number=number,
            required=event.node,
            selector=dict(event.selector),
            run_for_us=event.run_for_us,
            preempts=_preempts(world, event),
            since_us=now_us,
            gang=event.gang,
            says=event.says,
            retries=event.retries,
            needs=event.devices,
            estimate_us=event.estimate_us,
        )
        for number, name in enumerate(names)
    ]
    gangs.join(world, asks)
    app.asks.update((ask.name, ask) for ask in asks)
    if event.devices:
        world.came += [AskShape.of(event.devices, event.resources) for _ in asks]
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
    back_off.failed(ask, now_us)
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
