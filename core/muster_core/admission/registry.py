"""The directory: the names of queues, applications and priority classes, and their owners.

Requests are admitted one after the other, in the order of their entry. The result for a later one
depends on the earlier ones: whether a queue exists, whether an application's name is free, which
value a priority class has. The directory knows all of this without the owners: the applications
of a queue change only by requests and by the timer that completes an application, never by a
round. Of the names of completed applications it keeps the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import assert_never, final

from muster_core.admission.placement import RECOVERY, PlacedQueue, Placement
from muster_core.admission.queue_tree import QueueEntry, QueueTree, UserGroups
from muster_core.admission.routes import AdmissionFacts, Route, StartApp, TellApp
from muster_core.config.queues import ROOT
from muster_core.config.users import admits, has_acl
from muster_core.owners.app_messages import (
    AddAsks,
    AppFacts,
    Dismiss,
    Enlist,
    Regroup,
    ReleaseAsk,
    SpoilBinds,
    WithdrawAsk,
)
from muster_core.owners.asks import AppIdentity, Origin
from muster_core.owners.queue import QueueFacts
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.application_states import KEPT_COMPLETED, SKIP_STARTING_TAG
from muster_core.values.configuration import Configuration
from muster_core.values.decisions import Reason
from muster_core.values.errors import RefusedError
from muster_core.values.events import (
    AddApp,
    AddAsk,
    AddPriorityClass,
    Configure,
    FailBind,
    Outcome,
    Release,
    RemoveApp,
    RemoveAsk,
)
from muster_core.values.names import Guesses, did_you_mean
from muster_core.values.priority import BUILT_IN_CLASSES, PriorityClass, priority_of
from muster_core.values.reasons import Code, PendingReason


# APP-15
@final
class RecentNames:
    """A set of names that drops old ones, so that it never holds more than twice ``kept``.

    It always has the latest ``kept`` names. It consists of two parts: when the young one is full, it
    replaces the old one. So no name has to be looked for, and the memory for them is limited.

    Args:
        kept: How many names are kept at least.
    """

    __slots__ = ("_kept", "_old", "_seen", "_young")

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._young: dict[str, None] = {}
        self._old: dict[str, None] = {}
        #: A cache for :meth:`seen`, until the names change.
        self._seen: frozenset[str] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._young or name in self._old

    def add(self, name: str) -> None:
        """Add a name, and drop the oldest ones if there are too many."""
        self._seen = None
        self._young[name] = None
        if len(self._young) == self._kept:
            self._old, self._young = self._young, {}

    def discard(self, name: str) -> None:
        """Remove a name, if it is present."""
        if name in self:
            self._seen = None
            self._young.pop(name, None)
            self._old.pop(name, None)

    def seen(self) -> frozenset[str]:
        """Return all names; the same object as long as they do not change."""
        if self._seen is None:
            self._seen = frozenset((*self._young, *self._old))
        return self._seen

    # CHECKPOINT-3
    def facts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the young names and the old ones, for :meth:`load`."""
        return tuple(self._young), tuple(self._old)

    # CHECKPOINT-5
    def load(self, facts: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
        """Replace all names."""
        self._seen = None
        self._young, self._old = map(dict.fromkeys, facts)

    def save(self, name: str) -> Callable[[], None]:
        """Return a function that undoes :meth:`discard` of a name, if no name was added since.

        It drops no other name: the name goes back to where it was.
        """
        young, old = name in self._young, name in self._old

        def restore() -> None:
            self._seen = None
            if young:
                self._young[name] = None
            if old:
                self._old[name] = None

        return restore

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert len(self._young) < self._kept
        assert len(self._old) <= self._kept
        assert self._seen is None or self._seen == self._young.keys() | self._old.keys()


@final
class PriorityClasses:
    """The priority classes that an ask may name."""

    def __init__(self) -> None:
        self._classes = {known.name: known for known in BUILT_IN_CLASSES}
        #: Guesses for unknown names.
        self.guesses = Guesses()

    def save(self, name: str) -> Callable[[], None]:
        """Return a function that restores the priority class of this name."""
        before = self._classes.get(name)

        def restore() -> None:
            self._classes.pop(name, None)
            if before is not None:
                self._classes[name] = before

        return restore

    # PREEMPTION-2, PRIORITY-5
    def priority(self, event: AddAsk) -> tuple[int, bool]:
        """Return the priority of an event from its number or its class.

        Returns:
            The priority, and whether the class says ``PreemptLowerPriority``.

        Raises:
            RefusedError: If the class is unknown, or the two differ.
        """
        return priority_of(event.priority, event.priority_class, self._classes, self.guesses)

    def value_of(self, name: str) -> int | None:
        """Return the value of a class, or None if it is unknown; this counts as no guess."""
        known = self._classes.get(name)
        return None if known is None else known.value

    # OBJECT-7
    def set(self, event: AddPriorityClass) -> None:
        """Add a user's priority class, or change it for later asks."""
        self._classes[event.name] = PriorityClass(event.name, event.value, event.preempts)

    def remove(self, name: str) -> None:
        """Remove a user's priority class.

        Raises:
            RefusedError: If it is unknown or built-in.
        """
        # PRIORITY-6
        if name not in self._classes or name in {known.name for known in BUILT_IN_CLASSES}:
            guess = self.guesses.about(name, self._classes)
            msg = f"name: {name!r} is no priority class of a user{guess}"
            raise RefusedError(msg)
        del self._classes[name]

    # CHECKPOINT-3
    def facts(self) -> tuple[PriorityClass, ...]:
        """Return the classes of users, in the order in which they are listed."""
        return tuple(one for one in self._classes.values() if one not in BUILT_IN_CLASSES)

    # CHECKPOINT-5
    def load(self, classes: Iterable[PriorityClass]) -> None:
        """Add the classes of users."""
        self._classes.update((one.name, one) for one in classes)

    # FEED-33
    def add(self, event: AddPriorityClass) -> None:
        """Add a new priority class of a user.

        Raises:
            RefusedError: If there is a class of this name.
        """
        if event.name in self._classes:
            msg = f"name: {event.name!r} is already a priority class"
            raise RefusedError(msg)
        self.set(event)


Admissible = (
    Configure | AddApp | RemoveApp | AddAsk | RemoveAsk | Release | AddPriorityClass | FailBind
)
"""The events that the directory admits."""


@final
class Registry:
    """The names that are in use."""

    def __init__(self, configuration: Configuration) -> None:
        #: Every application that has not completed, by name.
        self._apps: dict[str, tuple[int, QueueEntry]] = {}
        #: The identity of each application in ``_apps``, by key.
        self._identities: dict[int, AppIdentity] = {}
        #: The names of the latest completed applications, without names that are in use again.
        self.completed = RecentNames(KEPT_COMPLETED)
        #: For which group each application counts in the limits of groups.
        self.user_groups = UserGroups()
        self.classes = PriorityClasses()
        self.tree = QueueTree(configuration)
        #: Guesses for unknown names of applications.
        self.guesses = Guesses()
        self._obey(configuration)

    @property
    def queues(self) -> Mapping[str, QueueEntry]:
        """Every queue by its path."""
        return self.tree.entries

    @property
    def has_placement_rules(self) -> bool:
        """Whether placement rules choose the queues of new applications."""
        return self._placement.has_rules

    def handle(self, event: Admissible, origin: Origin) -> list[Route]:
        """Admit an event.

        Returns:
            The messages to owners, in order.

        Raises:
            RefusedError: If it is not possible now; then nothing has changed.
        """
        match event:
            case Configure():
                # QUEUE-18
                routes = list(self.tree.configure(event))
                self._obey(event.config)
                found = self.user_groups.find_again(self._apps.values())
                return [*routes, *(TellApp(key, Regroup(origin, group)) for key, group in found)]
            case AddApp():
                return list(self._add_app(event, origin))
            case RemoveApp():
                return list(self._remove_app(event, origin))
            case AddPriorityClass():
                self.classes.add(event)
                return []
            case _:
                return [self.message_for(event, origin)]

    # PLACEMENT-22
    def _obey(self, configuration: Configuration) -> None:
        """Put a configuration in force for the applications that come."""
        #: The configuration in force.
        self.configuration = configuration
        self._any_acl = has_acl(configuration)
        self._placement = Placement(configuration.placement_rules, any_acl=self._any_acl)

    def save_app(self, name: str) -> Callable[[], None]:
        """Return a function that undoes adding an application, before any message about it."""
        restore_completed = self.completed.save(name)

        def restore() -> None:
            if name in self._apps:
                list(self._leave(self._apps[name][0]))
            restore_completed()

        return restore

    # APP-14
    def complete(self, key: int) -> list[Route]:
        """Remove an application that completes now, and record its name as completed."""
        self.completed.add(self._identities[key].name)
        return list(self._leave(key))

    def locate(self, app: str) -> int | None:
        """Return the key of the application with this name, or None."""
        found = self._apps.get(app)
        return None if found is None else found[0]

    def has_app(self, app: str) -> bool:
        """Return whether there is an application of this name that has not completed."""
        return app in self._apps

    def app_key(self, app: str) -> int:
        """Return the key of the application with this name.

        Raises:
            RefusedError: If it is unknown or has completed.
        """
        return self._app(app)[0]

    def problem_of_app(self, app: str) -> str:
        """Return the message for a reader about an application that does not exist.

        Unlike the refusal of an event this does not count as a guess: a read must not change
        decisions.
        """
        if app in self.completed:
            return f"app: {app!r} has completed"
        return f"app: {app!r} is unknown{did_you_mean(app, self._apps)}"

    def leaf_of(self, key: int) -> QueueEntry:
        """Return the queue of an application."""
        return self._apps[self._identities[key].name][1]

    # INPUT-11
    def user_of(self, key: int) -> str | None:
        """Return the user who submitted an application, or None."""
        return self._identities[key].user[0]

    def apps(self) -> dict[str, int]:
        """Return the keys of all applications that are neither removed nor completed, by name."""
        return {name: key for name, (key, _) in self._apps.items()}

    def knows(self, key: int) -> bool:
        """Return whether an application is neither removed nor completed."""
        return key in self._identities

    def message_for(
        self, event: AddAsk | RemoveAsk | Release | FailBind, origin: Origin
    ) -> TellApp:
        """Return the message for an event that concerns only one application.

        Raises:
            RefusedError: If the application or the priority class is unknown.
        """
        key, _ = self._app(event.app)
        match event:
            case AddAsk():
                priority, preempts = self.classes.priority(event)
                return TellApp(key, AddAsks(origin, event, priority, preempts=preempts))
            case RemoveAsk():
                return TellApp(key, WithdrawAsk(origin, event.ask))
            case Release():
                # DECISION-11
                reason = (
                    Reason.CANCELLED if event.outcome is Outcome.CANCELLED else Reason.COMPLETED
                )
                return TellApp(key, ReleaseAsk(origin, event.ask, event.message, reason))
            case FailBind():
                return TellApp(key, SpoilBinds(origin, event.ask, event.times))
            case _:
                assert_never(event)

    # Applications

    def _app(self, name: str) -> tuple[int, QueueEntry]:
        found = self._apps.get(name)
        # APP-13
        if found is None:
            if name in self.completed:
                state = "has completed"
            else:
                state = "is unknown" + self.guesses.about(name, self._apps)
            msg = f"app: {name!r} {state}"
            raise RefusedError(msg)
        return found

    # FEED-23
    def _add_app(self, event: AddApp, origin: Origin) -> Iterator[Route]:
        if event.app in self._apps:
            msg = f"app: {event.app!r} is already an application"
            raise RefusedError(msg)
        place = self._place_of(event)
        nearest, missing = place.nearest, place.missing
        # QUEUE-11, PLACEMENT-14
        for position, name in enumerate(missing):
            nearest, route = self.tree.make_dynamic(
                nearest,
                name,
                leaf=position == len(missing) - 1,
                has_template=place.has_template,
            )
            yield route
        nearest.apps += 1
        self._apps[event.app] = (origin.seq, nearest)
        self.completed.discard(event.app)
        # APP-12
        skip = event.tags.get(SKIP_STARTING_TAG) == "true"
        path_there, user = nearest.config.path, (event.user, event.groups)
        identity = AppIdentity(origin.seq, event.app, nearest.key, path_there, skip, user)
        self._identities[origin.seq] = identity
        yield StartApp(identity)
        group = self.user_groups.enter(origin.seq, nearest, event.groups)
        yield TellApp(origin.seq, Enlist(origin, group))

    # PLACEMENT-1
    def _place_of(self, event: AddApp) -> PlacedQueue:
        """Return the queue of a new application.

        Raises:
            RefusedError: If it can be in none.
        """
        if self._placement.has_rules:
            return self._placement.choose(event, self.tree)
        if event.queue is None:
            msg = "queue: it is missing, and there are no placement rules to choose one"
            raise RefusedError(msg)
        nearest, missing = self.tree.find(event.queue)
        path = [entry.config for entry in nearest.upward()]
        # QUEUE-6
        if not admits(path, event.user, event.groups, any_acl=self._any_acl):
            user_text = "nobody in particular" if event.user is None else repr(event.user)
            field = "user" if event.user is not None else "queue"
            msg = f"{field}: {event.queue!r} does not admit {user_text}; no queue on its path names it"
            raise RefusedError(msg)
        return PlacedQueue(nearest, missing)

    # FEED-24
    def _remove_app(self, event: RemoveApp, origin: Origin) -> Iterator[Route]:
        # APP-15
        if event.app in self.completed:  # Only its name is left.
            self.completed.discard(event.app)
            return
        key, _ = self._app(event.app)
        yield TellApp(key, Dismiss(origin))
        yield from self._leave(key)

    # QUEUE-16
    def _leave(self, key: int) -> Iterator[Route]:
        """Remove an application from its queue, and remove queues that only it kept in use."""
        _, entry = self._apps.pop(self._identities.pop(key).name)
        self.user_groups.leave(key)
        entry.apps -= 1
        yield from self.tree.collect(entry)

    # CHECKPOINT-5
    def load(
        self, facts: AdmissionFacts, queues: Iterable[QueueFacts], apps: Iterable[AppFacts]
    ) -> Steps[None]:
        """Replace all names."""
        entries = self.tree.load(queues, facts)
        for piece in in_pieces(apps):
            yield
            for app in piece:
                identity = app.identity
                entry = entries[identity.leaf]
                entry.apps += 1
                self._apps[identity.name] = (identity.key, entry)
                self._identities[identity.key] = identity
                self.user_groups.load(identity.key, identity.user[1], app.group)
        self.completed.load(facts.completed)
        self.classes.load(facts.classes)
        self.guesses.left = facts.guesses.apps
        self.classes.guesses.left = facts.guesses.classes

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self.tree.check()
        # Every application has one name and one key, and each leaf counts its applications.
        names = {key: identity.name for key, identity in self._identities.items()}
        assert names == {key: name for name, (key, _) in self._apps.items()}
        assert not self.completed.seen() & self._apps.keys()
        self.user_groups.check(names)
        self.completed.check()
        for entry in self.queues.values():
            assert entry.apps == sum(leaf is entry for _, leaf in self._apps.values())


# REASON-3
def application_reasons(registry: Registry, identity: AppIdentity) -> Iterator[PendingReason]:
    """Yield the reasons why the application could not be submitted to its queue now."""
    path = list(registry.leaf_of(identity.key).upward())
    draining = [entry.config.path for entry in path if entry.draining]
    if draining:
        message = (
            f"{draining[-1]} is draining: it takes no new application; what is there is served"
        )
        yield PendingReason(Code.DRAINING, message, {"queue": draining[-1]})
    # PLACEMENT-15
    if identity.path == f"{ROOT}.{RECOVERY}":  # It admits all users.
        return
    user, groups = identity.user
    any_acl = has_acl(registry.configuration)
    if not admits([entry.config for entry in path], user, groups, any_acl=any_acl):
        user_text = "nobody in particular" if user is None else f"user {user}"
        message = f"{identity.path} does not admit {user_text} any more; what is there is served"
        yield PendingReason(Code.USER_NOT_ALLOWED, message, {"queue": identity.path, "user": user})
