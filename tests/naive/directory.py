"""The queues of the naive model: finding, making, draining and replacing them.

States of applications, and placement rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from muster_core.config.model import Acl, Configuration, Limits, QueueConfig
from muster_core.decisions import Decision, Kind
from muster_core.errors import RefusedError
from muster_core.events import AddApp
from muster_core.resources import NOTHING
from muster_core.values.configuration import PlacementFilter, PlacementRule, RuleName
from tests.naive.picture import inherit, resolve
from tests.naive.state import RECOVERY, ROOT, App, Queue, World, lineage, parent_path

_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")


def canonical(text: str) -> str:
    """Return a path as written by a user in lower case and from the root.

    Raises:
        RefusedError: If a part of it is no name of a queue.
    """
    path = text.lower()
    if path != ROOT and not path.startswith(ROOT + "."):
        path = f"{ROOT}.{path}"
    for name in path.split("."):
        if not _NAME.fullmatch(name):
            msg = f"queue: {text!r} is no path of a queue"
            raise RefusedError(msg)
    return path


def is_name(text: str) -> bool:
    """Return whether a text is a legal name of a queue."""
    return _NAME.fullmatch(text) is not None


def configured(config: QueueConfig) -> Queue:
    """Make a queue as the configuration has it."""
    return Queue(
        path=config.path,
        is_parent=config.is_parent,
        guaranteed=config.guaranteed,
        limits=dict(config.max.amounts),
        max_applications=config.max_applications,
        settings=config.settings,
        template=config.template,
        acls=tuple(acl for acl in (config.submit_acl, config.admin_acl) if acl is not None),
        entries=config.limits,
    )


def flatten(config: QueueConfig) -> Iterator[QueueConfig]:
    """Yield a configured queue and all below it."""
    yield config
    for child in config.children:
        yield from flatten(child)


def check_place(world: World, path: str) -> None:
    """Check that an application may come to ``path``, which need not exist yet.

    Raises:
        RefusedError: If that is no leaf, drains, or cannot be made.
    """
    nearest = next(world.queues[prefix] for prefix in lineage(path) if prefix in world.queues)
    if any(world.queues[prefix].draining for prefix in lineage(nearest.path)):
        msg = f"queue: {path!r} is draining"
        raise RefusedError(msg)
    if nearest.path == path:
        if nearest.is_parent:
            msg = f"queue: {path!r} is no leaf"
            raise RefusedError(msg)
    elif not nearest.is_parent or not _may_create(world, nearest):
        msg = f"queue: {path!r} does not exist and cannot be made below {nearest.path!r}"
        raise RefusedError(msg)


def _may_create(world: World, queue: Queue) -> bool:
    """Return whether queues may be made on the fly below a parent."""
    if queue.settings.create is not None:
        return queue.settings.create
    if any(world.queues[prefix].template is not None for prefix in lineage(queue.path)):
        return True
    return not world.config.root.children


def check_admitted(world: World, path: str, user: str | None, groups: tuple[str, ...]) -> None:
    """Check the access lists on the path of an application.

    Raises:
        RefusedError: If there are such lists and none on the path admits the user.
    """
    lists = [
        acl
        for config in flatten(world.config.root)
        for acl in (config.submit_acl, config.admin_acl)
        if acl is not None
    ]
    on_path = [
        acl
        for prefix in lineage(path)
        if prefix in world.queues
        for acl in world.queues[prefix].acls
    ]
    if lists and not any(_admits(acl, user, groups) for acl in on_path):
        msg = f"user: {user!r} may not submit to {path!r}"
        raise RefusedError(msg)


def _admits(acl: Acl, user: str | None, groups: tuple[str, ...]) -> bool:
    if acl.everybody:
        return True
    return user is not None and (user in acl.users or not acl.groups.isdisjoint(groups))


def make_missing(world: World, path: str) -> None:
    """Make the queues on ``path`` that do not exist, the last one as a leaf."""
    missing = [prefix for prefix in lineage(path) if prefix not in world.queues]
    for prefix in reversed(missing):
        world.queues[prefix] = _made_on_the_fly(world, prefix, is_leaf=prefix == path)


def _made_on_the_fly(world: World, path: str, *, is_leaf: bool) -> Queue:
    above = world.queues[parent_path(path) or ROOT]
    templates = [world.queues[prefix].template for prefix in lineage(above.path)]
    template = next((found for found in templates if found is not None), None)
    if template is None or not is_leaf or path == RECOVERY:
        return Queue(
            path=path,
            is_parent=not is_leaf,
            guaranteed=NOTHING,
            limits={},
            max_applications=0,
            settings=inherit(above.settings),
            dynamic=True,
        )
    limits: Limits = template.max
    return Queue(
        path=path,
        is_parent=False,
        guaranteed=template.guaranteed,
        limits=dict(limits.amounts),
        max_applications=template.max_applications,
        settings=attrs.evolve(
            resolve(dict(template.properties), above.settings), quota_preemption_us=0
        ),
        dynamic=True,
    )


def remove_empty(world: World) -> None:
    """Remove the queues that stay only while they are used: draining ones and dynamic ones."""
    while True:
        empty = [
            queue.path
            for queue in world.queues.values()
            if (queue.dynamic or queue.draining)
            and not world.below(queue.path)
            and not world.children(queue.path)
        ]
        if not empty:
            return
        for path in empty:
            del world.queues[path]
            for holder in [one for one in world.usage if one[0] == path]:
                del world.usage[holder]


def check_replacement(world: World, config: Configuration) -> None:
    """Check that the queues in use can become what the new configuration says.

    Raises:
        RefusedError: If a leaf with applications would become a parent, or a parent
            with a child in use a leaf.
    """
    for new in flatten(config.root):
        old = world.queues.get(new.path)
        if old is None or old.is_parent == new.is_parent:
            continue
        if new.is_parent and world.below(old.path):
            msg = f"config: {new.path!r} has applications and cannot become a parent"
            raise RefusedError(msg)
        if not new.is_parent and world.below(old.path):
            msg = f"config: {new.path!r} has a child in use and cannot become a leaf"
            raise RefusedError(msg)


def replace(world: World, config: Configuration) -> None:
    """Put a configuration in force; what vanishes drains, or goes if it is not used."""
    new = {queue.path: configured(queue) for queue in flatten(config.root)}
    for path, queue in world.queues.items():
        if path not in new and not queue.dynamic:
            queue.draining = True
    world.queues.update(new)
    world.config = config
    remove_empty(world)


STARTING_US = 300_000_000
"""A Starting application runs after five minutes, in microseconds."""

COMPLETING_US = 30_000_000
"""A Completing application has completed after 30 seconds, in microseconds."""


def enter(world: World, app: App, state: str, deadline: int | None = None) -> None:
    """Change the state of an application, and say so."""
    app.state = state
    app.deadline = deadline
    world.log.append(Decision(Kind.APP_STATE, app=app.name, queue=app.queue, state=state))


def ask_came(world: World, app: App) -> None:
    """An ask was added."""
    if app.state == "New":
        enter(world, app, "Accepted")
    elif app.state == "Completing":
        enter(world, app, "Running")


def ask_bound(world: World, app: App, now_us: int) -> None:
    """An ask was bound."""
    if app.state == "Accepted" and not app.skips_starting:
        enter(world, app, "Starting", now_us + STARTING_US)
    elif app.state in {"Accepted", "Starting"}:
        enter(world, app, "Running")


def undo_bound(world: World, app: App, now_us: int) -> None:
    """An ask that the rounds of this batch had bound is not: it did not count."""
    rounds = world.rounds
    lines = [
        index
        for index, one in enumerate(world.log)
        if index >= rounds.log_length and one.kind is Kind.APP_STATE and one.app == app.name
    ]
    app.state, app.deadline = rounds.states[app.name]
    length = len(world.log)
    for ask in rounds.bound:
        if ask.app is app:
            ask_bound(world, app, now_us)
    hold = len(world.log) - length
    del world.log[length:]
    for index in reversed(lines[hold:]):
        del world.log[index]


def ask_gone(world: World, app: App, now_us: int) -> None:
    """An ask completed or was removed."""
    if not app.asks and app.state in {"Accepted", "Starting", "Running"}:
        enter(world, app, "Completing", now_us + COMPLETING_US)


def timers(world: World, now_us: int) -> None:
    """Fire the timers of applications that are due."""
    for app in world.in_queues():
        if app.deadline is None or app.deadline > now_us:
            continue
        if app.state == "Starting":
            enter(world, app, "Running")
        else:
            enter(world, app, "Completed")
            remove_empty(world)


DEFAULT: Final = "root.default"
FORCE: Final = "application.create.force"
_EXPRESSION: Final = re.compile(r"[$^*+?()\[{}|]")
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")


def queue_for(world: World, event: AddApp) -> str:
    """Return the path of the queue to which an application comes; it need not exist yet.

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
    """Return the path of the queue to which the rules let an application come.

    Raises:
        RefusedError: If no rule gives a queue that may be used, or one gives an illegal name.
    """
    for rule in world.config.placement_rules:
        path = path_of_rule(world, rule, event)
        if path is not None and _may_be_used(world, path, event):
            return path
    if event.tags.get(FORCE) == "true":
        return RECOVERY
    if DEFAULT in world.queues and _may_be_used(world, DEFAULT, event):
        return DEFAULT
    msg = f"app: {event.app!r}: no placement rule matched"
    raise RefusedError(msg)


def path_of_rule(world: World, rule: PlacementRule, event: AddApp) -> str | None:
    """Return the path of the queue that a rule gives; None if it does not match.

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
        above = path_of_rule(world, rule.parent, event)
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
    same = [tag for tag in event.tags if tag.lower() == rule.value.lower()]
    return event.tags[min(same)] if same else ""


def passes(who: PlacementFilter, event: AddApp) -> bool:
    """Return whether a filter lets a rule be for an application."""
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
    """Return whether an application may come to a queue, which need not exist yet."""
    if RECOVERY in lineage(path):
        return False
    nearest = next(world.queues[prefix] for prefix in lineage(path) if prefix in world.queues)
    if any(world.queues[prefix].draining for prefix in lineage(nearest.path)):
        return False
    try:
        check_admitted(world, path, event.user, event.groups)
    except RefusedError:
        return False
    if nearest.path == path:
        return not nearest.is_parent
    return nearest.is_parent and nearest.settings.create is not False
