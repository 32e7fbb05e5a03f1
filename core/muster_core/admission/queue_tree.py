"""The tree of queues for admission, and the groups for which its applications count.

Configurations and objects create queues; applications that name unknown queues create dynamic
ones. A queue that a new configuration no longer contains is removed at once if it is not in use;
otherwise it drains.

OBJECT-23 to OBJECT-27: Volcano's Queue gives the settings of a queue. The checks are those of a
configuration: an object is refused if a file with the resulting tree of queues would be refused.

LIMIT-7, LIMIT-8: the group for which an application counts in the limits of groups is found when
the application comes. It stays as long as a queue on the path limits it, whatever other groups a
new configuration limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import final

import attrs

from muster_core.admission.routes import AdmissionFacts, Route, StartQueue, TellQueue
from muster_core.config.properties import (
    QUEUE_PRIORITY,
    QUEUE_RECLAIMABLE,
    QUEUE_WEIGHT,
    QUOTA_PREEMPTION,
    resolve,
)
from muster_core.config.queues import (
    ROOT,
    QuotaTree,
    canonical_path,
    check_queue_name,
    check_quotas,
)
from muster_core.owners.queue import QueueFacts, Retire, SetQueue
from muster_core.values.configuration import (
    EVERY_NAME,
    Configuration,
    QueueConfig,
    Settings,
    Template,
)
from muster_core.values.errors import RefusedError
from muster_core.values.events import Configure, QueueObject
from muster_core.values.names import Guesses
from muster_core.values.records import MAP
from muster_core.values.resources import format_quantity, shown


@final
@attrs.define(eq=False)
class QueueEntry:
    """A queue in the tree.

    Attributes:
        applied: Whether it comes from an applied object, so that no configuration removes it.
    """

    key: int
    parent: QueueEntry | None
    config: QueueConfig
    dynamic: bool = False
    draining: bool = False
    applied: bool = False
    children: dict[str, QueueEntry] = attrs.field(factory=MAP)
    apps: int = 0

    def upward(self) -> Iterator[QueueEntry]:
        """Yield the queue and its ancestors, nearest first."""
        entry: QueueEntry | None = self
        while entry is not None:
            yield entry
            entry = entry.parent

    def become(self, other: QueueEntry) -> None:
        """Restore everything that can change from an earlier copy."""
        self.config, self.children, self.apps = other.config, other.children, other.apps
        self.dynamic, self.draining = other.dynamic, other.draining
        self.applied = other.applied

    # QUEUE-19
    def in_use(self) -> bool:
        """Return whether an application or an applied object in or below it keeps the queue."""
        kept = bool(self.apps) or self.applied
        return kept or any(child.in_use() for child in self.children.values())


# QUEUE-14, QUEUE-15
def dynamic_queue(
    parent: QueueConfig, template: Template | None, name: str, *, is_parent: bool
) -> QueueConfig:
    """Create the settings of a dynamic queue.

    It inherits from its parent like any other queue. A leaf gets all settings of the template, as
    if they were its own settings in the file; a parent gets none of them. Only a configured queue
    can have a ``quota.preemption.delay``.

    Args:
        parent: Its parent.
        template: The nearest ``childtemplate`` above, or None.
        name: The new queue's own name.
        is_parent: Whether it is a parent on the path to the new leaf.

    Raises:
        ValueError: If the name is invalid.
    """
    lowered = check_queue_name(name)
    path = f"{parent.path}.{lowered}"
    if is_parent or template is None:
        settings = resolve({}, parent.settings)
        return QueueConfig(name=lowered, path=path, is_parent=is_parent, settings=settings)
    # QUOTA-2
    properties = {name: text for name, text in template.properties if name != QUOTA_PREEMPTION.name}
    return QueueConfig(
        name=lowered,
        path=path,
        is_parent=False,
        guaranteed=template.guaranteed,
        max=template.max,
        max_applications=template.max_applications,
        settings=resolve(properties, parent.settings),
        own_properties=tuple(properties.items()),
    )


# OBJECT-23
def with_object(config: QueueConfig, event: QueueObject, above: Settings | None) -> QueueConfig:
    """Return the settings of a queue, changed by those of an object."""
    properties = dict(config.own_properties)
    if event.priority is not None:
        properties[QUEUE_PRIORITY.name] = str(event.priority)
    if event.weight is not None:
        properties[QUEUE_WEIGHT.name] = str(event.weight)
    if event.reclaimable is not None:
        properties[QUEUE_RECLAIMABLE.name] = "true" if event.reclaimable else "false"
    return attrs.evolve(
        config,
        max=config.max if event.max is None else event.max,
        guaranteed=config.guaranteed if event.guaranteed is None else event.guaranteed,
        own_properties=tuple(properties.items()),
        settings=resolve(properties, above),
    )


def with_inherited_settings(config: QueueConfig, above: Settings) -> QueueConfig:
    """Return the settings of a queue whose parent has new settings."""
    properties = dict(config.own_properties)
    return attrs.evolve(config, settings=resolve(properties, above))


def as_parent(config: QueueConfig) -> QueueConfig:
    """Return the settings of a leaf that becomes a parent."""
    return attrs.evolve(config, is_parent=True)


def _refuse(quota: str, _: str, message: str) -> None:
    msg = f"{quota}: {message}"
    raise RefusedError(msg)


def _quotas_of(entry: QueueEntry) -> QuotaTree:
    # Dynamic queues are not checked against their siblings.
    children = [_quotas_of(child) for child in entry.children.values() if not child.dynamic]
    config = entry.config
    return QuotaTree(dict(config.guaranteed), dict(config.max.amounts), children, _refuse)


# OBJECT-26
def check_object(config: QueueConfig, root: QueueEntry) -> None:
    """Check the tree of queues that results from an object.

    Raises:
        RefusedError: If a configuration with this tree would be refused.
    """
    # CONFIG-28
    for name, most in config.max.amounts:
        amount = config.guaranteed[name]
        if amount > most:
            msg = (
                f"guaranteed: {format_quantity(name, amount)} of {name} is over "
                f"max {format_quantity(name, most)}"
            )
            raise RefusedError(msg)
    # Volcano's queues have no limit of applications: the limits above them still apply.
    check_quotas(_quotas_of(root))


@final
class QueueTree:
    """All queues, by their paths."""

    def __init__(self, configuration: Configuration) -> None:
        #: Every queue by its path.
        self.entries: dict[str, QueueEntry] = {}
        #: The key of the queue that was made last.
        self.last_key = 0
        self._config = configuration.root
        #: Guesses for unknown paths.
        self.guesses = Guesses()
        self.first_routes = tuple(self._make_tree(None, configuration.root))

    @property
    def root(self) -> QueueEntry:
        """The queue above all others."""
        return self.entries["root"]

    # CHECKPOINT-5
    def load(self, queues: Iterable[QueueFacts], facts: AdmissionFacts) -> dict[int, QueueEntry]:
        """Replace all queues; return them by key."""
        dynamic, applied = set(facts.dynamic), set(facts.applied)
        by_key: dict[int, QueueEntry] = {}
        self.entries.clear()
        for one in queues:
            parent = None if one.parent is None else by_key[one.parent]
            entry = by_key[one.key] = QueueEntry(
                one.key, parent, one.config, one.key in dynamic, one.draining, one.key in applied
            )
            self.entries[one.config.path] = entry
            if parent is not None:
                parent.children[one.config.name] = entry
        self.last_key, self.guesses.left = facts.last_queue, facts.guesses.queues
        return by_key

    def save(self) -> Callable[[], None]:
        """Return a function that restores the tree; keys are never used again."""
        saved = [
            (entry, attrs.evolve(entry, children=dict(entry.children)))
            for entry in self.entries.values()
        ]

        def restore() -> None:
            for entry, before in saved:
                entry.become(before)
            self.entries = {entry.config.path: entry for entry, _ in saved}

        return restore

    # QUEUE-11
    def find(self, written: str) -> tuple[QueueEntry, list[str]]:
        """Find the queue for an application.

        Returns:
            The nearest existing queue, and the names of the missing queues below it.

        Raises:
            RefusedError: If no application can be submitted there.
        """
        # QUEUE-12
        try:
            names = canonical_path(written).split(".")[1:]
        except ValueError as error:
            msg = f"queue: {shown(written)}: {error}"
            raise RefusedError(msg) from error
        entry, names = self.nearest((ROOT, *names))
        # QUEUE-20
        if any(above.draining for above in entry.upward()):
            msg = f"queue: {written!r} is draining and takes no new application"
            raise RefusedError(msg)
        if not names:
            # QUEUE-13
            if entry.config.is_parent:
                msg = f"queue: {written!r} is a parent; name a leaf below it"
                raise RefusedError(msg)
            return entry, names
        self._check_dynamic(written, entry)
        return entry, names

    # USAGE-15
    def entry_of(self, written: str) -> QueueEntry:
        """Return the queue of a path as a user wrote it.

        Raises:
            RefusedError: If there is none.
        """
        try:
            path = canonical_path(written)
        except ValueError as error:
            msg = f"queue: {shown(written)}: {error}"
            raise RefusedError(msg) from error
        entry = self.entries.get(path)
        if entry is None:
            msg = f"queue: {written!r} is unknown{self.guesses.about(path, self.entries)}"
            raise RefusedError(msg)
        return entry

    def nearest(self, path: Sequence[str]) -> tuple[QueueEntry, list[str]]:
        """Return the last queue of a path that exists, and the names of those that are missing.

        Args:
            path: The names of the queues from ``root`` on, in lower case.
        """
        entry, missing = self.root, list(path[1:])
        while missing and missing[0] in entry.children:
            entry = entry.children[missing.pop(0)]
        return entry, missing

    # QUEUE-11, QUEUE-12
    def _check_dynamic(self, written: str, entry: QueueEntry) -> None:
        path = entry.config.path
        if not entry.config.is_parent:
            msg = f"queue: {written!r} is unknown, and {path!r} above it is a leaf"
        elif not self._may_create_below(entry):
            msg = f"queue: {written!r} is unknown, and queue.create is disabled for {path!r}"
        else:
            return
        # What all leaves below the queue begin with would make all of them look alike.
        before = f"{path}."
        known = (leaf.removeprefix(before) for leaf in self._leaves_below(entry))
        wanted = canonical_path(written).removeprefix(before)
        raise RefusedError(msg + self.guesses.about(wanted, known, before=before))

    # QUEUE-28
    def _may_create_below(self, entry: QueueEntry) -> bool:
        """Return whether an application may create queues below a parent."""
        create = entry.config.settings.create
        if create is not None:
            return create
        has_template = any(above.config.template is not None for above in entry.upward())
        return has_template or not self._config.children

    def _leaves_below(self, entry: QueueEntry) -> Iterator[str]:
        """Yield the paths of the leaves below a queue that take applications."""
        for _, child in sorted(entry.children.items()):
            if not (child.draining or child.config.is_parent):
                yield child.config.path
            if not child.draining:
                yield from self._leaves_below(child)

    def make_dynamic(
        self, parent: QueueEntry, name: str, *, leaf: bool, has_template: bool = True
    ) -> tuple[QueueEntry, Route]:
        """Create a dynamic queue below a parent.

        Args:
            parent: The queue above it.
            name: Its own name.
            leaf: Whether it is a leaf.
            has_template: Whether a leaf gets the nearest ``childtemplate``.

        Returns:
            The queue, and the message that starts it.
        """
        # QUEUE-14
        templates = (above.config.template for above in parent.upward())
        nearest: Template | None = next((found for found in templates if found), None)
        template = nearest if leaf and has_template else None
        config = dynamic_queue(parent.config, template, name, is_parent=not leaf)
        entry = self._enter(parent, config, dynamic=True)
        return entry, StartQueue(entry.key, parent.key, config)

    def _enter(
        self, parent: QueueEntry | None, config: QueueConfig, *, dynamic: bool = False
    ) -> QueueEntry:
        self.last_key += 1
        entry = QueueEntry(self.last_key, parent, config, dynamic)
        self.entries[config.path] = entry
        if parent is not None:
            parent.children[config.name] = entry
        return entry

    def _make_tree(self, parent: QueueEntry | None, config: QueueConfig) -> Iterator[Route]:
        entry = self._enter(parent, config)
        yield StartQueue(entry.key, None if parent is None else parent.key, config)
        for child in config.children:
            yield from self._make_tree(entry, child)

    # QUEUE-16, QUEUE-22
    def collect(self, entry: QueueEntry) -> Iterator[Route]:
        """Remove a dynamic or draining queue that is not in use, then its parent in the same way."""
        for queue in list(entry.upward()):
            lasting = queue.applied or not (queue.dynamic or queue.draining)
            if queue.parent is None or lasting or queue.apps or queue.children:
                return
            yield self._remove(queue, queue.parent)

    def _remove(self, entry: QueueEntry, parent: QueueEntry) -> Route:
        del parent.children[entry.config.name]
        del self.entries[entry.config.path]
        return TellQueue(entry.key, Retire())

    # Queues of objects

    # OBJECT-25
    def set_queue(
        self, event: QueueObject, target: QueueEntry | None, parent: QueueEntry
    ) -> Iterator[Route]:
        """Set the settings of a queue from an object, and create the queue if it is unknown.

        Yields:
            The messages to queues, in order.

        Raises:
            RefusedError: If the settings are invalid; then part of the tree may have changed.
        """
        if target is None:
            if not parent.config.is_parent:
                yield from self._become_parent(parent)
            try:
                config = dynamic_queue(parent.config, None, event.name, is_parent=False)
            except ValueError as error:
                msg = f"name: {error}"
                raise RefusedError(msg) from error
            target = self._enter(parent, with_object(config, event, parent.config.settings))
            target.applied = True
            yield StartQueue(target.key, parent.key, target.config)
        else:
            above = target.parent
            # CONFIG-27
            if above is None and (event.max is not None or event.guaranteed is not None):
                msg = "name: 'root' takes no resources"
                raise RefusedError(msg)
            if target.dynamic or target.draining:
                target.dynamic, target.draining, target.applied = False, False, True
            target.config = with_object(
                target.config, event, None if above is None else above.config.settings
            )
            yield TellQueue(target.key, SetQueue(target.config, draining=False))
            yield from self._inherit(target)
        check_object(target.config, self.root)

    # OBJECT-25, OBJECT-26
    def _become_parent(self, entry: QueueEntry) -> Iterator[Route]:
        if entry.apps:
            msg = f"parent: {entry.config.path!r} has applications and cannot become a parent"
            raise RefusedError(msg)
        entry.config = as_parent(entry.config)
        yield TellQueue(entry.key, SetQueue(entry.config, draining=entry.draining))

    def _inherit(self, entry: QueueEntry) -> Iterator[Route]:
        """Update inherited settings of the queues below; dynamic and draining ones keep theirs."""
        for child in entry.children.values():
            # QUEUE-21, QUEUE-26
            if child.dynamic or child.draining:
                continue
            config = with_inherited_settings(child.config, entry.config.settings)
            if config != child.config:
                child.config = config
                yield TellQueue(child.key, SetQueue(config, draining=child.draining))
                yield from self._inherit(child)

    # OBJECT-27
    def remove_queue(self, entry: QueueEntry) -> list[Route]:
        """Remove a queue, or drain it if it is in use.

        Raises:
            RefusedError: If it is the root.
        """
        if entry.parent is None:
            msg = "name: 'root' cannot go"
            raise RefusedError(msg)
        parent = entry.parent
        entry.dynamic = entry.applied = False
        return [*self._remove_or_drain(entry, parent), *self.collect(parent)]

    # Configuration

    def configure(self, event: Configure) -> Iterator[Route]:
        """Change the tree to a new configuration.

        Raises:
            RefusedError: If the configuration is not possible now; then nothing has changed.
        """
        self._check_kinds(self.root, event.config.root, event.field)
        self._config = event.config.root
        yield from self._reconfigure(self.root, event.config.root)

    def _check_kinds(self, entry: QueueEntry, config: QueueConfig, field: str) -> None:
        """Refuse a configuration that turns a leaf in use into a parent, or the other way round."""
        # QUEUE-24
        if config.is_parent and not entry.config.is_parent and entry.apps:
            msg = f"{field}: {config.path!r} has applications and cannot become a parent"
            raise RefusedError(msg)
        # QUEUE-25
        used = [child.config.path for child in entry.children.values() if child.in_use()]
        if used and not config.is_parent:
            msg = f"{field}: {config.path!r} cannot become a leaf: {min(used)!r} below it is in use"
            raise RefusedError(msg)
        for child in config.children:
            if child.name in entry.children:
                self._check_kinds(entry.children[child.name], child, field)

    # QUEUE-17
    def _reconfigure(self, entry: QueueEntry, config: QueueConfig) -> Iterator[Route]:
        changed = entry.draining or entry.config != config
        # QUEUE-23, QUEUE-27
        entry.config, entry.draining, entry.dynamic = config, False, False
        entry.applied = False
        if changed:
            yield TellQueue(entry.key, SetQueue(config, draining=False))
        named = {child.name for child in config.children}
        for name in sorted(set(entry.children) - named):
            yield from self._remove_or_drain(entry.children[name], entry)
        for child in config.children:
            if child.name in entry.children:
                yield from self._reconfigure(entry.children[child.name], child)
            else:
                yield from self._make_tree(entry, child)

    def _remove_or_drain(self, entry: QueueEntry, parent: QueueEntry) -> Iterator[Route]:
        """Remove a queue that is no longer in the configuration, or drain it if it is in use."""
        for child in sorted(entry.children.values(), key=lambda child: child.config.name):
            yield from self._remove_or_drain(child, entry)
        # OBJECT-25, QUEUE-26
        if entry.dynamic or entry.applied:
            return
        # QUEUE-19
        if not entry.in_use():
            yield self._remove(entry, parent)
        elif not entry.draining:
            # QUEUE-20
            entry.draining = True
            # QUEUE-21
            yield TellQueue(entry.key, SetQueue(entry.config, draining=True))

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # Every queue has a path of its own, and is a child of its parent under its name.
        for path, entry in self.entries.items():
            assert entry.config.path == path
            above = entry.parent
            if above is not None:
                assert self.entries[above.config.path] is above
                assert above.children[entry.config.name] is entry
                assert above.config.is_parent
            # Dynamic and draining queues are in use.
            assert entry.in_use() or not (entry.dynamic or entry.draining)
            assert not (entry.apps and entry.config.is_parent), f"applications in {path}"
        children = sum(len(entry.children) for entry in self.entries.values())
        assert children == len(self.entries) - 1


@final
class UserGroups:
    """The groups of all applications."""

    def __init__(self) -> None:
        #: The groups of the user of each application, and the one for which it counts, by key.
        self._of: dict[int, tuple[tuple[str, ...], str | None]] = {}
        #: The groups that a queue limits, in the order of the file, by the key of the queue.
        self._named: dict[int, tuple[QueueConfig, dict[str, None]]] = {}

    def enter(self, key: int, leaf: QueueEntry, groups: tuple[str, ...]) -> str | None:
        """Find the group of a new application.

        Returns:
            The group, ``*`` for that of all users, or None.
        """
        group = self._find(leaf, groups)
        self._of[key] = groups, group
        return group

    # CHECKPOINT-5
    def load(self, key: int, groups: tuple[str, ...], group: str | None) -> None:
        """Record the group of an application, which was found when the application came."""
        self._of[key] = groups, group

    def leave(self, key: int) -> None:
        """Forget an application."""
        del self._of[key]

    # LIMIT-8
    def find_again(
        self, apps: Iterable[tuple[int, QueueEntry]]
    ) -> Iterator[tuple[int, str | None]]:
        """Look at all applications again, after a new configuration.

        Yields:
            The applications whose group has changed, with the new one.
        """
        self._named.clear()
        for key, leaf in apps:
            groups, before = self._of[key]
            if before is not None and any(before in self._limited(one) for one in leaf.upward()):
                continue
            after = self._find(leaf, groups)
            if after != before:
                self._of[key] = groups, after
                yield key, after

    # LIMIT-7
    def _find(self, leaf: QueueEntry, groups: tuple[str, ...]) -> str | None:
        for queue in leaf.upward():
            limited = self._limited(queue)
            if limited:
                own = next((name for name in limited if name in groups), None)
                if own is not None:
                    return own
                if EVERY_NAME in limited:
                    return EVERY_NAME
        return None

    def _limited(self, queue: QueueEntry) -> dict[str, None]:
        """Return the groups that a queue limits, in the order of the file."""
        config = queue.config
        if not config.limits:
            return {}
        known = self._named.get(queue.key)
        if known is None or known[0] is not config:
            names = dict.fromkeys(name for entry in config.limits for name in entry.groups)
            known = self._named[queue.key] = config, names
        return known[1]

    def check(self, apps: Iterable[int]) -> None:
        """Assert the invariants, given the keys of all applications; for tests."""
        assert self._of.keys() == set(apps)
