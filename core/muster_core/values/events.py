"""Events: everything that can come in, typed, checked for form, not yet for sense.

One closed union. What no event can have (an empty name, a negative duration) raises
:class:`~muster_core.values.errors.EventError` when the event is made; whether an event makes
sense now (does the queue exist, is the name free) is for the machine that owns what it
speaks of. Times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar, final

import attrs

from muster_core.gangs.definition import NOTHING_SAID, GangFields
from muster_core.values.configuration import Configuration, Limits
from muster_core.values.event_fields import (
    A_PRIORITY,
    A_QUEUE_PRIORITY,
    A_USERS_PRIORITY,
    AT_LEAST_ONE,
    a_gang,
    a_name,
    a_users_class,
    amounts,
    an_owned_name,
    no_words,
    some_amounts,
    that_define,
    that_make_sense,
)
from muster_core.values.resources import Resources

_optional = attrs.validators.optional

T_co = TypeVar("T_co", covariant=True)


@final
@attrs.frozen
class Configure:
    """Replace the configuration.

    Attributes:
        config: The configuration, which has been checked by itself already.
        field: The field of the event that it came in, for the message of a refusal.
    """

    config: Configuration
    field: str = "config"


@final
@attrs.frozen
class AddNode:
    """A node comes with ``capacity`` and the attributes that selectors look at."""

    node: str = attrs.field(validator=a_name)
    capacity: Resources = attrs.field(validator=amounts)
    attributes: Mapping[str, str] = attrs.field(factory=no_words)
    schedulable: bool = True


@final
@attrs.frozen
class UpdateNode:
    """The fields of a node that are not None replace the present ones."""

    node: str = attrs.field(validator=a_name)
    capacity: Resources | None = attrs.field(default=None, validator=_optional(amounts))
    attributes: Mapping[str, str] | None = None
    schedulable: bool | None = None


@final
@attrs.frozen
class RemoveNode:
    """A node is lost, with everything on it."""

    node: str = attrs.field(validator=a_name)


@final
@attrs.frozen
class AddApp:
    """An application is submitted to ``queue``, a path as the user wrote it."""

    app: str = attrs.field(validator=an_owned_name)
    queue: str = attrs.field(validator=a_name)
    user: str | None = None
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = attrs.field(factory=no_words)


@final
@attrs.frozen
class RemoveApp:
    """An application goes, with everything it asked for and holds."""

    app: str = attrs.field(validator=an_owned_name)


@final
@attrs.frozen
class AddAsk:
    """An application asks for ``resources``, once or ``count`` times.

    Attributes:
        priority: The priority as a number, or None.
        priority_class: The name of a priority class, or None.
        count: None for one ask of this name; else the members ``ask-0``, ``ask-1``, ….
        node: The only node on which it may run, or None for any.
        selector: Attributes that the node must have, as text.
        run_for_us: It completes by itself this long after it was bound, or None.
        gang: The full name of the gang whose members come, or None.
        says: What annotations on the members say of that gang.
        timed_out: Annotations on the members say that it has timed out.
    """

    app: str = attrs.field(validator=an_owned_name)
    ask: str = attrs.field(validator=an_owned_name)
    resources: Resources = attrs.field(validator=some_amounts)
    priority: int | None = attrs.field(default=None, validator=_optional(A_PRIORITY))
    priority_class: str | None = None
    count: int | None = attrs.field(default=None, validator=_optional(AT_LEAST_ONE))
    node: str | None = None
    selector: Mapping[str, str] = attrs.field(factory=no_words)
    run_for_us: int | None = attrs.field(default=None, validator=_optional(AT_LEAST_ONE))
    gang: str | None = attrs.field(default=None, validator=_optional(a_gang))
    says: GangFields = attrs.field(default=NOTHING_SAID, validator=that_make_sense)
    timed_out: bool = False

    def names(self) -> list[str]:
        """Give the names of the asks that come, in order."""
        if self.count is None:
            return [self.ask]
        return [f"{self.ask}-{number}" for number in range(self.count)]


@final
@attrs.frozen
class RemoveAsk:
    """A pending ask is withdrawn."""

    app: str = attrs.field(validator=an_owned_name)
    ask: str = attrs.field(validator=an_owned_name)


@final
@attrs.frozen
class Release:
    """A bound ask has finished."""

    app: str = attrs.field(validator=an_owned_name)
    ask: str = attrs.field(validator=an_owned_name)


@final
@attrs.frozen
class BindFailed:
    """The work of a bound ask could not be started after all; it is pending again.

    Whoever starts the work says so, some time after the ask was bound. :class:`FailBind`
    is something else: it makes a bind fail that is still to come.
    """

    app: str = attrs.field(validator=an_owned_name)
    ask: str = attrs.field(validator=an_owned_name)


@final
@attrs.frozen
class AddPriorityClass:
    """A user's priority class; ``preempts`` is its policy ``PreemptLowerPriority``."""

    name: str = attrs.field(validator=a_users_class)
    value: int = attrs.field(validator=A_USERS_PRIORITY)
    preempts: bool = False


@final
@attrs.frozen
class FailBind:
    """The next ``times`` binds of an ask fail."""

    app: str = attrs.field(validator=an_owned_name)
    ask: str = attrs.field(validator=an_owned_name)
    times: int = attrs.field(default=1, validator=AT_LEAST_ONE)


@final
@attrs.frozen
class AddGang:
    """A gang is defined; of one that only annotations define this is the object."""

    gang: str = attrs.field(validator=a_gang)
    says: GangFields = attrs.field(validator=that_define)


@final
@attrs.frozen
class RemoveGang:
    """A gang is no longer defined; its members stay."""

    gang: str = attrs.field(validator=a_gang)


# Kubernetes objects: what of a manifest matters. Applying one that is there updates it.


@final
@attrs.frozen
class NodeObject:
    """A Node.

    Attributes:
        node: Its name.
        capacity: What it has, or None where the manifest does not say.
        attributes: Its labels.
        schedulable: It is not cordoned.
    """

    node: str = attrs.field(validator=a_name)
    capacity: Resources | None = attrs.field(default=None, validator=_optional(amounts))
    attributes: Mapping[str, str] = attrs.field(factory=no_words)
    schedulable: bool = True


@final
@attrs.frozen
class PodObject:
    """A Pod: an ask, and the application that it belongs to, made if unknown.

    Attributes:
        app: The application.
        name: The name of the pod, and of the ask.
        queue: The path of the queue of an application that is made.
        ask: The ask, of that application and name, without ``count`` and ``run_for_us``.
            None if the pod requests nothing above zero, or has finished: then it can be no
            new ask.
        node: Where it runs already, or None.
        finished: It has succeeded or failed.
    """

    app: str = attrs.field(validator=an_owned_name)
    name: str = attrs.field(validator=an_owned_name)
    queue: str = attrs.field(validator=a_name)
    ask: AddAsk | None = None
    node: str | None = attrs.field(default=None, validator=_optional(a_name))
    finished: bool = False


@final
@attrs.frozen
class QueueObject:
    """A Volcano Queue: settings of the queue of that name; None is not said.

    Attributes:
        name: Its own name.
        parent: The name or path of the queue that it is made below, or None for the root.
        priority: ``queue.priority``.
        reclaimable: ``queue.reclaimable``.
        max: ``resources.max``.
        guaranteed: ``resources.guaranteed``.
    """

    name: str = attrs.field(validator=a_name)
    parent: str | None = attrs.field(default=None, validator=_optional(a_name))
    priority: int | None = attrs.field(default=None, validator=_optional(A_QUEUE_PRIORITY))
    reclaimable: bool | None = None
    max: Limits | None = None
    guaranteed: Resources | None = attrs.field(default=None, validator=_optional(amounts))


AppliedObject = AddPriorityClass | AddGang | NodeObject | PodObject | QueueObject
"""What can be applied; of a priority class and of a PodGroup an event says all that matters."""


@final
class ObjectKind(StrEnum):
    """Which kind of Kubernetes object it is."""

    PRIORITY_CLASS = "PriorityClass"
    POD_GROUP = "PodGroup"
    NODE = "Node"
    POD = "Pod"
    QUEUE = "Queue"


@final
@attrs.frozen
class ObjectName:
    """The name of an object that is to go.

    Attributes:
        kind: Its kind.
        name: Its name; of a PodGroup the full name of the gang.
        app: The application of a Pod, else None.
    """

    kind: ObjectKind
    name: str = attrs.field(validator=a_name)
    app: str | None = None


@final
@attrs.frozen
class Manifest(Generic[T_co]):
    """One object of a manifest, and where it stands.

    Attributes:
        content: The object.
        field: Its place in the event, such as ``manifest.items[2]``.
    """

    content: T_co
    field: str = "manifest"


@final
@attrs.frozen
class Apply:
    """Kubernetes objects come or change; all of them, or none if one is refused."""

    objects: tuple[Manifest[AppliedObject], ...]


@final
@attrs.frozen
class Delete:
    """Kubernetes objects go; all of them, or none if one is refused."""

    objects: tuple[Manifest[ObjectName], ...]


Event = (
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
    | Apply
    | Delete
)
"""Everything that can come in and change the state."""
