"""Builders of gangs and Kubernetes objects, and summaries of what became of them."""

from __future__ import annotations

from collections.abc import Mapping

from muster_core.config.model import Limits
from muster_core.decisions import Decision, Kind
from muster_core.events import (
    AddAsk,
    AddGang,
    AppliedObject,
    Apply,
    Delete,
    Event,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    PodObject,
    QueueObject,
)
from muster_core.gangs import NO_FIELDS, GangFields, GangMode
from muster_core.resources import Resources
from tests.core.tree import Tree, make_tree

LOOSE = GangMode.NON_STRICT


def full_gang_name(name: str) -> str:
    """Return the full name of a gang."""
    return name if "/" in name else f"default/{name}"


def gang(
    name: str,
    min_member: int,
    *groups: str,
    total: int | None = None,
    mode: GangMode | None = None,
    wait_us: int | None = None,
) -> AddGang:
    """Return the event that defines a gang; also its object."""
    others = tuple(map(full_gang_name, groups)) or None
    return AddGang(full_gang_name(name), GangFields(min_member, total, mode, wait_us, others))


def members(
    gang: str,
    name: str,
    count: int | None = None,
    *,
    app: str = "p",
    priority: int | None = None,
    says: GangFields = NO_FIELDS,
    timed_out: bool = False,
    **amounts: int,
) -> AddAsk:
    """Return the event of members of a gang, of one millicore each if no amount is given."""
    return AddAsk(
        app=app,
        ask=name,
        resources=Resources(amounts or {"vcore": 1}),
        priority=priority,
        count=count,
        gang=full_gang_name(gang),
        says=says,
        timed_out=timed_out,
    )


def pod(
    name: str,
    app: str = "p",
    *,
    queue: str = "root.a",
    node: str | None = None,
    gang: str | None = None,
    says: GangFields = NO_FIELDS,
    timed_out: bool = False,
    priority_class: str | None = None,
    **amounts: int,
) -> PodObject:
    """Return a Pod, of one millicore if no amount is given."""
    ask = AddAsk(
        app=app,
        ask=name,
        resources=Resources(amounts or {"vcore": 1}),
        priority_class=priority_class,
        gang=None if gang is None else full_gang_name(gang),
        says=says,
        timed_out=timed_out,
    )
    return PodObject(app, name, queue, ask, node)


def finished(name: str, app: str = "p") -> PodObject:
    """Return a Pod that has succeeded or failed."""
    return PodObject(app, name, "root.a", finished=True)


def node(
    name: str, *, schedulable: bool = True, labels: Mapping[str, str] | None = None, **amounts: int
) -> NodeObject:
    """Return a Node; without amounts its manifest does not say what it has."""
    return NodeObject(name, Resources(amounts) if amounts else None, labels or {}, schedulable)


def volcano_queue(
    name: str,
    parent: str | None = None,
    *,
    priority: int | None = None,
    reclaimable: bool | None = None,
    max: Mapping[str, int] | None = None,  # noqa: A002
    guaranteed: Mapping[str, int] | None = None,
    weight: int | None = None,
) -> QueueObject:
    """Return a Queue."""
    return QueueObject(
        name,
        parent,
        priority,
        reclaimable,
        None if max is None else Limits.of(max),
        None if guaranteed is None else Resources(guaranteed),
        weight,
    )


def applied(*objects: AppliedObject) -> Apply:
    """Return the event that applies one object, or several as a List."""
    if len(objects) == 1:
        return Apply((Manifest(objects[0]),))
    return Apply(tuple(Manifest(one, f"manifest.items[{at}]") for at, one in enumerate(objects)))


def named(kind: ObjectKind, name: str, app: str | None = None) -> ObjectName:
    """Return the name of an object; of a Pod that of its application too."""
    return ObjectName(kind, full_gang_name(name) if kind is ObjectKind.POD_GROUP else name, app)


def gone_pod(name: str, app: str = "p") -> ObjectName:
    """Return the name of a Pod."""
    return named(ObjectKind.POD, name, app)


def deleted(*objects: ObjectName) -> Delete:
    """Return the event that deletes one object, or several as a List."""
    if len(objects) == 1:
        return Delete((Manifest(objects[0]),))
    return Delete(tuple(Manifest(one, f"manifest.items[{at}]") for at, one in enumerate(objects)))


def story(decisions: list[Decision]) -> list[str]:
    """Return decisions about asks and gangs in short; without states and priorities.

    ``waiting p/x n``, ``released p/x n gang_rollback``, ``gang_satisfied default/g``.
    """
    lines: list[str] = []
    for one in decisions:
        if one.kind in {Kind.GANG_SATISFIED, Kind.GANG_TIMED_OUT}:
            lines.append(f"{one.kind} {one.gang}")
        elif one.kind in {Kind.REJECTED, Kind.WARNING}:
            lines.append(f"{one.kind} {one.message}")
        elif one.ask is not None:
            words = (one.kind, f"{one.app}/{one.ask}", one.node, one.reason)
            lines.append(" ".join(filter(None, words)))
    return lines


def tree_with_app(*nodes: str, vcore: int = 10) -> Tree:
    """Return a tree with an application ``p`` in ``root.a``."""
    tree = make_tree(*(nodes or ("n",)), vcore=vcore)
    tree.add_app("p", "root.a")
    tree.settle()
    return tree


def places(tree: Tree, app: str = "p") -> dict[str, str]:
    return {ask.name: ask.place.value for ask in tree.snapshot().apps[app].asks}


def refusal(tree: Tree, event: Event) -> str:
    """Enter an event that must be refused and change nothing; return the message."""
    before = tree.snapshot()
    message = tree.refused(event)
    tree.check()
    assert tree.snapshot() == before
    return message


def submit(tree: Tree, event: Event) -> list[str]:
    """Submit an event that must be accepted; return what became of asks and gangs."""
    decisions = tree.settle(event)
    tree.check()
    assert Kind.REJECTED not in [one.kind for one in decisions], decisions
    return story(decisions)
