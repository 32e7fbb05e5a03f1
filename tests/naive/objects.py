"""Kubernetes objects: each is what an event would have said, but what is there is updated."""

from __future__ import annotations

import copy
from typing import assert_never

import attrs

from muster_core.decisions import Decision, Kind
from muster_core.errors import RefusedError
from muster_core.events import (
    AddApp,
    AddGang,
    AddPriorityClass,
    AppliedObject,
    Apply,
    Delete,
    Event,
    NodeObject,
    ObjectKind,
    ObjectName,
    PodObject,
    QueueObject,
    RemoveNode,
    UpdateNode,
)
from tests.naive import arrivals, gangs, permits
from tests.naive.picture import Picture, within
from tests.naive.state import BUILT_IN_CLASSES, Ask, Node, PriorityClass, World


def take(world: World, event: Event, now_us: int) -> None:
    """Apply an event, or the objects that it brings or takes away.

    Raises:
        RefusedError: If it makes no sense now; nothing was changed.
    """
    if not isinstance(event, Apply | Delete):
        arrivals.arrive(world, event, now_us)
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
        update = UpdateNode(name, content.capacity, attributes, content.schedulable)
        arrivals.arrive(world, update, 0)
        return
    if content.capacity is None:
        msg = f"manifest.status: the node {name!r} has no capacity"
        raise RefusedError(msg)
    world.nodes[name] = Node(name, content.capacity, attributes, content.schedulable)


def _apply_pod(world: World, content: PodObject, now_us: int) -> None:
    app = world.apps.get(content.app)
    known = None if app is None else app.asks.get(content.name)
    if known is not None and content.finished:
        arrivals.complete(world, known, now_us)
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
        arrivals.arrive(world, made, now_us)
    (ask,) = arrivals.add_ask(world, content.ask, now_us)
    if content.node is not None:
        _start(world, ask, content.node, now_us)
    arrivals.mark_if_said(world, content.ask)


def _start(world: World, ask: Ask, node_name: str, now_us: int) -> None:
    """Bind a pod where it runs already; that satisfies its gang."""
    node = world.nodes.get(node_name)
    picture = Picture(world)
    room = node is not None and within(ask.wants, picture.used[node.name], _all_of(node, ask))
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
    return {name: node.capacity[name] for name in ask.wants}


def _delete(world: World, name: ObjectName, now_us: int) -> None:
    match name.kind:
        case ObjectKind.PRIORITY_CLASS:
            if name.name in BUILT_IN_CLASSES or name.name not in world.classes:
                msg = f"manifest.metadata.name: there is no class {name.name!r} to delete"
                raise RefusedError(msg)
            del world.classes[name.name]
        case ObjectKind.POD_GROUP:
            arrivals.remove_gang(world, name.name)
        case ObjectKind.NODE:
            arrivals.arrive(world, RemoveNode(name.name), now_us)
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
    arrivals.remove_ask(world, ask, now_us)
