"""The directory: which names there are, and who owns what they stand for.

Requests are admitted one after the other, in the order of their entry, and what
a later one may name depends on the earlier ones: whether a queue exists, whether
an application's name is free, what a priority class is worth. All of that is
known here, without asking anybody: which applications a queue has changes only
by requests and by the timer that completes an application, never by a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, final

import attrs

from muster_core.admission.latest_names import LatestNames
from muster_core.config.acl import admits, has_acl
from muster_core.config.dynamic import dynamic_queue
from muster_core.config.names import canonical_path
from muster_core.config.queue_objects import as_parent, check_object, inheriting, with_object
from muster_core.owners.messages.asks import AppIdentity, Origin
from muster_core.owners.messages.queues import Retire, SetQueue
from muster_core.owners.messages.to_applications import (
    AddAsks,
    AppRequest,
    Dismiss,
    Enlist,
    ReleaseAsk,
    SpoilBinds,
    WithdrawAsk,
)
from muster_core.values.configuration import Configuration, QueueConfig, Template
from muster_core.values.errors import RefusedError
from muster_core.values.events import (
    AddApp,
    AddAsk,
    AddPriorityClass,
    Configure,
    FailBind,
    QueueObject,
    Release,
    RemoveApp,
    RemoveAsk,
)
from muster_core.values.lifecycle import KEPT_COMPLETED, SKIP_STARTING_TAG
from muster_core.values.priority import BUILT_IN_CLASSES, PriorityClass, priority_of
from muster_core.values.quantities import shown
from muster_core.values.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@final
@record
class StartQueue:
    """A queue begins to exist."""

    key: int
    parent: int | None
    config: QueueConfig


@final
@record
class TellQueue:
    """A queue is to be told something."""

    key: int
    message: SetQueue | Retire


@final
@record
class StartApp:
    """An application begins to exist."""

    identity: AppIdentity


@final
@record
class TellApp:
    """An application is to be told something."""

    key: int
    message: AppRequest


Route = StartQueue | TellQueue | StartApp | TellApp
"""What the admission of a request leads to, in this order."""

Admissible = (
    Configure | AddApp | RemoveApp | AddAsk | RemoveAsk | Release | AddPriorityClass | FailBind
)
"""The events that the directory admits; those of nodes are the node index's."""


@final
@attrs.define(eq=False)
class QueueEntry:
    """What the directory knows of a queue.

    Attributes:
        key: Its number.
        parent: The entry of its parent, or None for the root.
        config: Its settings.
        dynamic: It was made on the fly.
        applied: It was made by an object that was applied; no configuration lets it go.
        draining: It takes no new applications.
        children: Its children by name.
        apps: How many applications it has.
    """

    key: int
    parent: QueueEntry | None
    config: QueueConfig
    dynamic: bool = False
    draining: bool = False
    applied: bool = False
    children: dict[str, QueueEntry] = attrs.field(factory=dict[str, "QueueEntry"])
    apps: int = 0

    def upward(self) -> Iterator[QueueEntry]:
        """Give the queue and its ancestors, nearest first."""
        entry: QueueEntry | None = self
        while entry is not None:
            yield entry
            entry = entry.parent

    def in_use(self) -> bool:
        """Say whether something in the queue or below keeps it where it is."""
        kept = bool(self.apps) or self.applied
        return kept or any(child.in_use() for child in self.children.values())


@final
@record
class Saved:
    """The directory as it was; see there."""

    apps: dict[str, tuple[int, QueueEntry]]
    names: dict[int, str]
    completed: LatestNames
    classes: dict[str, PriorityClass]
    queues: dict[str, QueueEntry]


@final
class Directory:
    """The names that are in use.

    Args:
        configuration: The first configuration.
    """

    def __init__(self, configuration: Configuration) -> None:
        #: The configuration in force.
        self.configuration = configuration
        #: Every application that has not completed, by name.
        self._apps: dict[str, tuple[int, QueueEntry]] = {}
        #: The name of each application in ``_apps``, by key.
        self._names: dict[int, str] = {}
        #: The names of the latest applications that have completed and did not come again.
        self.completed = LatestNames(KEPT_COMPLETED)
        self._classes = {known.name: known for known in BUILT_IN_CLASSES}
        #: Every queue by its path.
        self.queues: dict[str, QueueEntry] = {}
        self._next_key = 0
        self._any_acl = has_acl(configuration)
        self.first_routes = tuple(self._make_tree(None, configuration.root))

    def handle(self, event: Admissible, origin: Origin) -> list[Route]:
        """Admit an event.

        Args:
            event: The event.
            origin: Its place in the input.

        Returns:
            Who is to be told what, in order.

        Raises:
            RefusedError: If it makes no sense now; then nothing was changed.
        """
        match event:
            case Configure():
                return list(self._configure(event))
            case AddApp():
                return list(self._add_app(event, origin))
            case RemoveApp():
                return list(self._remove_app(event, origin))
            case AddPriorityClass():
                self._add_class(event)
                return []
            case _:
                return [self.tell(event, origin)]

    def save(self) -> Saved:
        """Give everything as it is now, for :meth:`restore`."""
        entries = {
            path: attrs.evolve(entry, children=dict[str, QueueEntry]())
            for path, entry in self.queues.items()
        }
        for path, entry in self.queues.items():
            twin = entries[path]
            twin.parent = None if entry.parent is None else entries[entry.parent.config.path]
            twin.children.update(
                (name, entries[child.config.path]) for name, child in entry.children.items()
            )
        apps = {name: (key, entries[leaf.config.path]) for name, (key, leaf) in self._apps.items()}
        completed = self.completed.copy()
        return Saved(apps, dict(self._names), completed, dict(self._classes), entries)

    def restore(self, saved: Saved) -> None:
        """Make everything what it was; keys that were given since are not given again."""
        self._apps, self._names = saved.apps, saved.names
        self.completed, self._classes, self.queues = saved.completed, saved.classes, saved.queues

    def save_class(self, name: str) -> Callable[[], None]:
        """Give what makes a priority class what it is now."""
        before = self._classes.get(name)

        def restore() -> None:
            self._classes.pop(name, None)
            if before is not None:
                self._classes[name] = before

        return restore

    def save_app(self, name: str) -> Callable[[], None]:
        """Give what makes an application go again that comes next, and nobody was told of."""
        completed = name in self.completed

        def restore() -> None:
            if name in self._apps:
                list(self._leave(self._apps[name][0]))
            if completed:
                self.completed.add(name)

        return restore

    def complete(self, key: int) -> list[Route]:
        """Let an application's name go, as it completes now."""
        self.completed.add(self._names[key])
        return list(self._leave(key))

    def locate(self, app: str) -> int | None:
        """Give the key of an application by its name, or None."""
        found = self._apps.get(app)
        return None if found is None else found[0]

    def has_app(self, app: str) -> bool:
        """Say whether there is an application of this name that has not completed."""
        return app in self._apps

    def app_key(self, app: str) -> int:
        """Give the key of an application by its name.

        Raises:
            RefusedError: If there is none, or it has completed.
        """
        return self._app(app)[0]

    def leaf_of(self, key: int) -> QueueEntry:
        """Give the queue of an application."""
        return self._apps[self._names[key]][1]

    def apps(self) -> dict[str, int]:
        """Give the key of every application that has neither been removed nor completed."""
        return {name: key for name, (key, _) in self._apps.items()}

    def knows(self, key: int) -> bool:
        """Say whether an application has neither been removed nor completed."""
        return key in self._names

    def tell(self, event: AddAsk | RemoveAsk | Release | FailBind, origin: Origin) -> TellApp:
        """Give what an event amounts to that concerns one application alone.

        Raises:
            RefusedError: If there is no such application, or no such priority class.
        """
        key, _ = self._app(event.app)
        match event:
            case AddAsk():
                priority, preempts = self.priority(event)
                return TellApp(key, AddAsks(origin, event, priority, preempts=preempts))
            case RemoveAsk():
                return TellApp(key, WithdrawAsk(origin, event.ask))
            case Release():
                return TellApp(key, ReleaseAsk(origin, event.ask))
            case FailBind():
                return TellApp(key, SpoilBinds(origin, event.ask, event.times))
            case _:
                assert_never(event)

    # Applications

    def _app(self, name: str) -> tuple[int, QueueEntry]:
        found = self._apps.get(name)
        if found is None:
            state = "has completed" if name in self.completed else "is unknown"
            msg = f"app: {name!r} {state}"
            raise RefusedError(msg)
        return found

    def _add_app(self, event: AddApp, origin: Origin) -> Iterator[Route]:
        if event.app in self._apps:
            msg = f"app: {event.app!r} is already an application"
            raise RefusedError(msg)
        nearest, missing = self._locate(event)
        path = [entry.config for entry in nearest.upward()]
        if not admits(path, event.user, event.groups, any_acl=self._any_acl):
            who = "nobody in particular" if event.user is None else repr(event.user)
            field = "user" if event.user is not None else "queue"
            msg = f"{field}: {event.queue!r} does not admit {who}; no queue on its path names it"
            raise RefusedError(msg)
        for position, name in enumerate(missing):
            nearest, route = self._make_dynamic(nearest, name, leaf=position == len(missing) - 1)
            yield route
        nearest.apps += 1
        self._apps[event.app] = (origin.seq, nearest)
        self._names[origin.seq] = event.app
        self.completed.discard(event.app)
        skip = event.tags.get(SKIP_STARTING_TAG) == "true"
        path_there, user = nearest.config.path, (event.user, event.groups)
        identity = AppIdentity(origin.seq, event.app, nearest.key, path_there, skip, user)
        yield StartApp(identity)
        yield TellApp(origin.seq, Enlist(origin))

    def _remove_app(self, event: RemoveApp, origin: Origin) -> Iterator[Route]:
        if event.app in self.completed:  # It has nothing left but its name.
            self.completed.discard(event.app)
            return
        key, _ = self._app(event.app)
        yield TellApp(key, Dismiss(origin))
        yield from self._leave(key)

    def _leave(self, key: int) -> Iterator[Route]:
        """Take an application out of its queue, and queues that only it kept out of the tree."""
        _, entry = self._apps.pop(self._names.pop(key))
        entry.apps -= 1
        yield from self._collect(entry)

    def priority(self, event: AddAsk) -> tuple[int, bool]:
        """Give what an event's number or class amounts to.

        Returns:
            The priority, and whether the class says ``PreemptLowerPriority``.

        Raises:
            RefusedError: If the class is unknown, or the two differ.
        """
        return priority_of(event.priority, event.priority_class, self._classes)

    def set_class(self, event: AddPriorityClass) -> None:
        """Let a user's priority class come, or have another value for later asks."""
        self._classes[event.name] = PriorityClass(event.name, event.value, event.preempts)

    def remove_class(self, name: str) -> None:
        """Let a user's priority class go.

        Raises:
            RefusedError: If it is unknown, or built in.
        """
        if name not in self._classes or name in {known.name for known in BUILT_IN_CLASSES}:
            msg = f"name: {name!r} is no priority class of a user"
            raise RefusedError(msg)
        del self._classes[name]

    def _add_class(self, event: AddPriorityClass) -> None:
        if event.name in self._classes:
            msg = f"name: {event.name!r} is already a priority class"
            raise RefusedError(msg)
        self.set_class(event)

    # Queues

    def _locate(self, event: AddApp) -> tuple[QueueEntry, list[str]]:
        """Find where an application belongs: the nearest queue and the names still missing."""
        try:
            names = canonical_path(event.queue).split(".")[1:]
        except ValueError as error:
            msg = f"queue: {shown(event.queue)}: {error}"
            raise RefusedError(msg) from error
        entry = self.queues["root"]
        while names and names[0] in entry.children:
            entry = entry.children[names.pop(0)]
        if any(above.draining for above in entry.upward()):
            msg = f"queue: {event.queue!r} is draining and takes no new application"
            raise RefusedError(msg)
        if not names:
            if entry.config.is_parent:
                msg = f"queue: {event.queue!r} is a parent; name a leaf below it"
                raise RefusedError(msg)
            return entry, names
        self._check_dynamic(event.queue, entry)
        return entry, names

    @staticmethod
    def _check_dynamic(written: str, entry: QueueEntry) -> None:
        if not entry.config.is_parent:
            msg = f"queue: {written!r} is unknown, and {entry.config.path!r} above it is a leaf"
            raise RefusedError(msg)
        if not entry.config.settings.create:
            msg = (
                f"queue: {written!r} is unknown, and queue.create is disabled "
                f"for {entry.config.path!r}"
            )
            raise RefusedError(msg)

    def _make_dynamic(
        self, parent: QueueEntry, name: str, *, leaf: bool
    ) -> tuple[QueueEntry, Route]:
        templates = (above.config.template for above in parent.upward())
        template: Template | None = next((found for found in templates if found), None)
        config = dynamic_queue(parent.config, template if leaf else None, name, is_parent=not leaf)
        entry = self._enter(parent, config, dynamic=True)
        return entry, StartQueue(entry.key, parent.key, config)

    def _enter(
        self, parent: QueueEntry | None, config: QueueConfig, *, dynamic: bool = False
    ) -> QueueEntry:
        self._next_key += 1
        entry = QueueEntry(self._next_key, parent, config, dynamic)
        self.queues[config.path] = entry
        if parent is not None:
            parent.children[config.name] = entry
        return entry

    def _make_tree(self, parent: QueueEntry | None, config: QueueConfig) -> Iterator[Route]:
        entry = self._enter(parent, config)
        yield StartQueue(entry.key, None if parent is None else parent.key, config)
        for child in config.children:
            yield from self._make_tree(entry, child)

    def _collect(self, entry: QueueEntry) -> Iterator[Route]:
        """Remove a queue that only lasts while it is in use, then its parent likewise."""
        for queue in list(entry.upward()):
            lasting = queue.applied or not (queue.dynamic or queue.draining)
            if queue.parent is None or lasting or queue.apps or queue.children:
                return
            yield self._remove(queue, queue.parent)

    def _remove(self, entry: QueueEntry, parent: QueueEntry) -> Route:
        del parent.children[entry.config.name]
        del self.queues[entry.config.path]
        return TellQueue(entry.key, Retire())

    # Queues that objects speak of

    def set_queue(
        self, event: QueueObject, target: QueueEntry | None, parent: QueueEntry
    ) -> list[Route]:
        """Give a queue the settings that an object has, and make it if it is unknown.

        Args:
            event: The object.
            target: The queue of that name, or None if there is none.
            parent: The queue that a new one is made below.

        Returns:
            Who is to be told what, in order.

        Raises:
            RefusedError: If no queue can be what it says; then something may have changed.
        """
        return list(self._set_queue(event, target, parent))

    def _set_queue(
        self, event: QueueObject, target: QueueEntry | None, parent: QueueEntry
    ) -> Iterator[Route]:
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
        check_object(target.config, self.queues["root"])

    def _become_parent(self, entry: QueueEntry) -> Iterator[Route]:
        if entry.apps:
            msg = f"parent: {entry.config.path!r} has applications and cannot become a parent"
            raise RefusedError(msg)
        above = None if entry.parent is None else entry.parent.config.settings
        entry.config = as_parent(entry.config, above)
        yield TellQueue(entry.key, SetQueue(entry.config, draining=entry.draining))

    def _inherit(self, entry: QueueEntry) -> Iterator[Route]:
        """Let queues below inherit what has changed; those made on the fly keep what they have."""
        for child in entry.children.values():
            if child.dynamic:
                continue
            config = inheriting(child.config, entry.config.settings)
            if config != child.config:
                child.config = config
                yield TellQueue(child.key, SetQueue(config, draining=child.draining))
                yield from self._inherit(child)

    def remove_queue(self, entry: QueueEntry) -> list[Route]:
        """Let a queue go, or drain while it is in use.

        Raises:
            RefusedError: If it is the root.
        """
        if entry.parent is None:
            msg = "name: 'root' cannot go"
            raise RefusedError(msg)
        parent = entry.parent
        entry.dynamic = entry.applied = False
        return [*self._vanish(entry, parent), *self._collect(parent)]

    # Configuration

    def _configure(self, event: Configure) -> Iterator[Route]:
        root, configuration = self.queues["root"], event.config
        self._check_kinds(root, configuration.root, event.field)
        self.configuration = configuration
        self._any_acl = has_acl(configuration)
        yield from self._reconfigure(root, configuration.root)

    def _check_kinds(self, entry: QueueEntry, config: QueueConfig, field: str) -> None:
        """Refuse a configuration that turns a leaf in use into a parent, or the reverse."""
        if config.is_parent and not entry.config.is_parent and entry.apps:
            msg = f"{field}: {config.path!r} has applications and cannot become a parent"
            raise RefusedError(msg)
        if not config.is_parent and entry.children:
            msg = f"{field}: {config.path!r} has children and cannot become a leaf"
            raise RefusedError(msg)
        for child in config.children:
            if child.name in entry.children:
                self._check_kinds(entry.children[child.name], child, field)

    def _reconfigure(self, entry: QueueEntry, config: QueueConfig) -> Iterator[Route]:
        changed = entry.draining or entry.config != config
        entry.config, entry.draining, entry.dynamic = config, False, False
        entry.applied = False
        if changed:
            yield TellQueue(entry.key, SetQueue(config, draining=False))
        named = {child.name for child in config.children}
        for name in sorted(set(entry.children) - named):
            yield from self._vanish(entry.children[name], entry)
        for child in config.children:
            if child.name in entry.children:
                yield from self._reconfigure(entry.children[child.name], child)
            else:
                yield from self._make_tree(entry, child)

    def _vanish(self, entry: QueueEntry, parent: QueueEntry) -> Iterator[Route]:
        """Let a queue that the configuration no longer names go, or drain while it is in use."""
        for child in sorted(entry.children.values(), key=lambda child: child.config.name):
            yield from self._vanish(child, entry)
        if entry.dynamic or entry.applied:
            return
        if not entry.in_use():
            yield self._remove(entry, parent)
        elif not entry.draining:
            entry.draining = True
            yield TellQueue(entry.key, SetQueue(entry.config, draining=True))

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # Every queue is below its parent, under its name, and has a path of its own.
        for path, entry in self.queues.items():
            assert entry.config.path == path
            above = entry.parent
            if above is not None:
                assert self.queues[above.config.path] is above
                assert above.children[entry.config.name] is entry
                assert above.config.is_parent
            # What only lasts while it is in use is in use.
            assert entry.in_use() or not (entry.dynamic or entry.draining)
        assert sum(len(entry.children) for entry in self.queues.values()) == len(self.queues) - 1
        # Every application has one name, one key and one leaf, which counts it.
        assert self._names == {key: name for name, (key, _) in self._apps.items()}
        assert not self.completed.seen() & self._apps.keys()
        self.completed.check()
        for path, entry in self.queues.items():
            assert entry.apps == sum(leaf is entry for _, leaf in self._apps.values())
            assert not (entry.apps and entry.config.is_parent), f"applications in {path}"
