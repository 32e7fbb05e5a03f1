"""The queues of the naive model: finding, making, draining and replacing them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_core.config.model import Acl, Configuration, Limits, QueueConfig
from muster_core.errors import RefusedError
from muster_core.resources import NOTHING
from tests.naive.properties import inherit, resolve
from tests.naive.state import RECOVERY, ROOT, Queue, World, lineage, parent_path

_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")


def canonical(text: str) -> str:
    """Give a path as written by a user in lower case and from the root.

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
    """Say whether a text is a legal name of a queue."""
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
    """Give a configured queue and all below it."""
    yield config
    for child in config.children:
        yield from flatten(child)


def check_place(world: World, path: str) -> None:
    """Check that an application may come to ``path``, which need not exist yet.

    Raises:
        RefusedError: If that is no leaf, drains, or cannot be made.
    """
    nearest = next(world.queues[here] for here in lineage(path) if here in world.queues)
    if any(world.queues[here].draining for here in lineage(nearest.path)):
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
    """Say whether queues may be made on the fly below a parent."""
    if queue.settings.create is not None:
        return queue.settings.create
    if any(world.queues[here].template is not None for here in lineage(queue.path)):
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
        acl for here in lineage(path) if here in world.queues for acl in world.queues[here].acls
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
    missing = [here for here in lineage(path) if here not in world.queues]
    for here in reversed(missing):
        world.queues[here] = _made_on_the_fly(world, here, is_leaf=here == path)


def _made_on_the_fly(world: World, path: str, *, is_leaf: bool) -> Queue:
    above = world.queues[parent_path(path) or ROOT]
    templates = [world.queues[here].template for here in lineage(above.path)]
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
        settings=resolve(dict(template.properties), above.settings),
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
