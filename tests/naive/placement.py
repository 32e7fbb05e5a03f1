"""Placement rules: which queue a new application comes to, rule by rule."""

from __future__ import annotations

import re
from typing import Final

from muster_core.errors import RefusedError
from muster_core.events import AddApp
from muster_core.values.configuration import PlacementFilter, PlacementRule, RuleName
from tests.naive.directory import canonical, check_admitted, check_place, is_name
from tests.naive.state import RECOVERY, ROOT, World, lineage

DEFAULT: Final = "root.default"
FORCE: Final = "application.create.force"
_EXPRESSION: Final = re.compile(r"[$^*+?()\[{}|]")
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")


def queue_for(world: World, event: AddApp) -> str:
    """Give the path of the queue to which an application comes; it need not exist yet.

    Raises:
        RefusedError: If it may come to none.
    """
    if world.config.placement_rules:
        return place(world, event)
    if event.queue is None:
        msg = "queue: missing"
        raise RefusedError(msg)
    path = canonical(event.queue)
    check_place(world, path)
    check_admitted(world, path, event.user, event.groups)
    return path


def place(world: World, event: AddApp) -> str:
    """Give the path of the queue to which the rules let an application come.

    Raises:
        RefusedError: If no rule gives a queue that may be used, or one gives an illegal name.
    """
    for rule in world.config.placement_rules:
        path = given(world, rule, event)
        if path is not None and _may_be_used(world, path, event):
            return path
    if event.tags.get(FORCE) == "true":
        return RECOVERY
    if DEFAULT in world.queues and _may_be_used(world, DEFAULT, event):
        return DEFAULT
    msg = f"app: {event.app!r}: no placement rule matched"
    raise RefusedError(msg)


def given(world: World, rule: PlacementRule, event: AddApp) -> str | None:
    """Give the path of the queue that a rule gives; None if it does not match.

    Raises:
        RefusedError: If the name that it gives is illegal.
    """
    if not passes(rule.filter, event):
        return None
    name = _name(rule, event).lower()
    if not name:
        return None
    path = _path(world, rule, name, event)
    if path is None or not (path in world.queues or rule.create):
        return None
    return path


def _path(world: World, rule: PlacementRule, name: str, event: AddApp) -> str | None:
    fixed = rule.name is RuleName.FIXED
    whole = name.startswith(f"{ROOT}.") and rule.name is not RuleName.USER
    if whole or (fixed and name == ROOT):
        return _checked(name)
    below = _checked(name if fixed else name.replace(".", "_dot_"))
    above: str | None = ROOT
    if rule.parent is not None:
        above = given(world, rule.parent, event)
    if above is None or (above in world.queues and not world.queues[above].is_parent):
        return None
    return f"{above}.{below}"


def _checked(path: str) -> str:
    if not all(is_name(part) for part in path.split(".")):
        msg = f"queue: {path!r} is no path of a queue"
        raise RefusedError(msg)
    return path


def _name(rule: PlacementRule, event: AddApp) -> str:
    if rule.name is RuleName.PROVIDED:
        return event.queue or ""
    if rule.name is RuleName.USER:
        return event.user or ""
    if rule.name is RuleName.FIXED:
        return rule.value
    same = (text for tag, text in event.tags.items() if tag.lower() == rule.value.lower())
    return next(same, "")


def passes(who: PlacementFilter, event: AddApp) -> bool:
    """Say whether a filter lets a rule be for an application."""
    if not who.users and not who.groups:
        return not who.deny
    hit = bool(event.user) and _has(who.users, _USER, event.user or "")
    hit = hit or any(_has(who.groups, _GROUP, group) for group in event.groups)
    return hit is not who.deny


def _has(names: tuple[str, ...], legal: re.Pattern[str], name: str) -> bool:
    if len(names) == 1 and _EXPRESSION.search(names[0]):
        return re.search(names[0], name) is not None
    return any(one == name for one in names if legal.fullmatch(one))


def _may_be_used(world: World, path: str, event: AddApp) -> bool:
    """Say whether an application may come to a queue, which need not exist yet."""
    if RECOVERY in lineage(path):
        return False
    nearest = next(world.queues[here] for here in lineage(path) if here in world.queues)
    if any(world.queues[here].draining for here in lineage(nearest.path)):
        return False
    try:
        check_admitted(world, path, event.user, event.groups)
    except RefusedError:
        return False
    if nearest.path == path:
        return not nearest.is_parent
    return nearest.is_parent and nearest.settings.create is not False
