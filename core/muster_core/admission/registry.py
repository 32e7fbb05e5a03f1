"""The directory: which names there are, and who owns what they stand for.

Requests are admitted one after the other, in the order of their entry, and what
a later one may name depends on the earlier ones: whether a queue exists, whether
an application's name is free, what a priority class is worth. All of that is
known here, without asking anybody: which applications a queue has changes only
by requests and by the timer that completes an application, never by a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, final

from muster_core.admission.completed_names import LatestNames
from muster_core.admission.priority_classes import PriorityClasses
from muster_core.admission.queue_tree import QueueEntry, QueueTree
from muster_core.admission.routes import Route, StartApp, TellApp
from muster_core.config.acl import admits, has_acl
from muster_core.owners.messages.asks import AppIdentity, Origin
from muster_core.owners.messages.to_applications import (
    AddAsks,
    Dismiss,
    Enlist,
    ReleaseAsk,
    SpoilBinds,
    WithdrawAsk,
)
from muster_core.values.application_states import KEPT_COMPLETED, SKIP_STARTING_TAG
from muster_core.values.configuration import Configuration
from muster_core.values.errors import RefusedError
from muster_core.values.events import (
    AddApp,
    AddAsk,
    AddPriorityClass,
    Configure,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


Admissible = (
    Configure | AddApp | RemoveApp | AddAsk | RemoveAsk | Release | AddPriorityClass | FailBind
)
"""The events that the directory admits; those of nodes are the node index's."""


@final
class Registry:
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
        self.classes = PriorityClasses()
        self.tree = QueueTree(configuration)
        self._any_acl = has_acl(configuration)

    @property
    def queues(self) -> Mapping[str, QueueEntry]:
        """Every queue by its path."""
        return self.tree.entries

    @property
    def first_routes(self) -> Sequence[Route]:
        """The queues of the first configuration, which are to be started."""
        return self.tree.first_routes

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
                routes = list(self.tree.configure(event))
                self.configuration = event.config
                self._any_acl = has_acl(event.config)
                return routes
            case AddApp():
                return list(self._add_app(event, origin))
            case RemoveApp():
                return list(self._remove_app(event, origin))
            case AddPriorityClass():
                self.classes.add(event)
                return []
            case _:
                return [self.tell(event, origin)]

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
                priority, preempts = self.classes.priority(event)
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
        nearest, missing = self.tree.find(event.queue)
        path = [entry.config for entry in nearest.upward()]
        if not admits(path, event.user, event.groups, any_acl=self._any_acl):
            who = "nobody in particular" if event.user is None else repr(event.user)
            field = "user" if event.user is not None else "queue"
            msg = f"{field}: {event.queue!r} does not admit {who}; no queue on its path names it"
            raise RefusedError(msg)
        for position, name in enumerate(missing):
            nearest, route = self.tree.make_dynamic(
                nearest, name, leaf=position == len(missing) - 1
            )
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
        yield from self.tree.collect(entry)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self.tree.check()
        # Every application has one name, one key and one leaf, which counts it.
        assert self._names == {key: name for name, (key, _) in self._apps.items()}
        assert not self.completed.seen() & self._apps.keys()
        self.completed.check()
        for entry in self.queues.values():
            assert entry.apps == sum(leaf is entry for _, leaf in self._apps.values())
