"""Events: the inputs of the scheduler, as types.

An event with a value that no event can have (an empty name, a negative duration) raises
:class:`~muster_core.values.errors.EventError` when it is created. Whether an event is possible
now (the queue exists, the name is free) is checked when the scheduler admits it. Times are in
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar, cast, final

import attrs

from muster_core.enumerations import quick_members
from muster_core.gangs import NO_FIELDS, GangFields
from muster_core.values.affinity import Affinity, Taint, Toleration
from muster_core.values.configuration import Configuration, Limits
from muster_core.values.devices import (
    NO_NEEDS,
    NO_STOCKS,
    DeviceNeed,
    DeviceStock,
    with_needs,
    with_stocks,
)
from muster_core.values.errors import EventError
from muster_core.values.event_fields import (
    A_PRIORITY,
    A_QUEUE_PRIORITY,
    A_QUEUE_WEIGHT,
    A_USERS_PRIORITY,
    AT_LEAST_ONE,
    NOT_NEGATIVE,
    PRIORITIES,
    Exit,
    Work,
    are_all,
    are_terms,
    check_affinity,
    check_amounts,
    check_definition,
    check_gang,
    check_member_fields,
    check_name,
    check_needs,
    check_owned_name,
    check_stocks,
    check_taints,
    check_text,
    check_tolerations,
    check_users_class,
    no_words,
    type_check,
    written_amounts,
)
from muster_core.values.names import DEFAULT_NAMESPACE
from muster_core.values.resources import DEVICE_PREFIX, Resources, UnitSeconds

_optional = attrs.validators.optional
_LOWEST, _HIGHEST = PRIORITIES

# OBJECT-28
USER_INFO: Final = "yunikorn.apache.org/user.info"
"""The annotation of a Pod with the user and the groups of its application."""

# OBJECT-30
ASK_ANNOTATION: Final = "muster/ask"
"""The annotation of a Pod with what its manifest cannot say of its ask otherwise."""

T_co = TypeVar("T_co", covariant=True)


@final
@attrs.frozen
class Configure:
    """Replace the configuration.

    Attributes:
        config: The configuration, already checked by itself.
        field: The field of the event that has the configuration, for messages.
    """

    config: Configuration
    field: str = "config"


# FEED-19
@final
@attrs.frozen
class AddNode:
    """Add a node with ``capacity``, and with the attributes that selectors refer to.

    Attributes:
        lease_us: How long a service keeps it without a renewal, or None. No decision depends on
            it: a lease that runs out ends with :class:`RemoveNode`.
        devices: Its devices by type; the capacity does not contain them.
        taints: Its taints, which keep asks away that do not tolerate them.
    """

    node: str = attrs.field(validator=check_name)
    capacity: Resources = attrs.field(validator=written_amounts)
    attributes: Mapping[str, str] = attrs.field(factory=no_words)
    schedulable: bool = True
    # FEED-84
    lease_us: int | None = attrs.field(default=None, validator=_optional(AT_LEAST_ONE))
    devices: Mapping[str, DeviceStock] = attrs.field(default=NO_STOCKS, validator=check_stocks)
    # AFFINITY-1
    taints: tuple[Taint, ...] = attrs.field(default=(), validator=check_taints)

    # DEVICE-4
    @property
    def room(self) -> Resources:
        """Its capacity together with its devices."""
        return (
            Resources(with_stocks(self.capacity, self.devices)) if self.devices else self.capacity
        )


@final
@attrs.frozen
class UpdateNode:
    """Replace the fields of a node that are not None here.

    Attributes:
        reserved: What others use on the node that are no asks.
    """

    node: str = attrs.field(validator=check_name)
    capacity: Resources | None = attrs.field(default=None, validator=_optional(written_amounts))
    attributes: Mapping[str, str] | None = None
    schedulable: bool | None = None
    devices: Mapping[str, DeviceStock] | None = attrs.field(
        default=None, validator=_optional(check_stocks)
    )
    # RESERVED-1
    reserved: Resources | None = attrs.field(default=None, validator=_optional(written_amounts))
    taints: tuple[Taint, ...] | None = attrs.field(default=None, validator=_optional(check_taints))


@final
@attrs.frozen
class RemoveNode:
    """Remove a node; everything that runs on it is lost."""

    node: str = attrs.field(validator=check_name)


@final
@attrs.frozen
class AddApp:
    """Submit an application to ``queue``, a path as the user wrote it.

    Attributes:
        queue: The path, or None where placement rules choose the queue.
    """

    app: str = attrs.field(validator=check_owned_name)
    queue: str | None = attrs.field(default=None, validator=_optional(check_name))
    user: str | None = None
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = attrs.field(factory=no_words)


@final
@attrs.frozen
class RemoveApp:
    """Remove an application with all its asks."""

    app: str = attrs.field(validator=check_owned_name)


@final
@attrs.frozen
class AddAsk:
    """Ask for ``resources`` for an application, once or ``count`` times.

    Attributes:
        priority: The priority as a number, or None.
        priority_class: The name of a priority class, or None.
        count: None for one ask of this name; otherwise the asks are ``ask-0``, ``ask-1``, ….
        node: The only node on which it may run, or None for any.
        selector: The attributes that the node must have.
        run_for_us: How long after its bind it completes by itself, or None.
        gang: The full name of the gang whose members these asks are, or None.
        says: The fields of that gang in the annotations on the members.
        timed_out: Whether the annotations on the members say that the gang has timed out.
        retries: How often each ask is tried again after its work has failed.
        work: The work of each ask, or None if the event has none.
        devices: The devices that each ask needs, by type; the resources do not contain them.
        estimate_us: How long it is expected to take after its bind, or None. This only plans: it
            ends nothing.
        run_limit_us: How long after its bind it is released and gone, or None.
        start_by_us: The instant at which it is gone if it is not bound by then, or None.
        once: Whether each ask is gone after it was bound, whatever takes its node from it.
        tolerations: The taints that it tolerates.
        affinity: Terms of which the node must match one, or None if any node will do.
    """

    app: str
    ask: str
    resources: Resources
    priority: int | None = None
    priority_class: str | None = None
    count: int | None = None
    node: str | None = None
    selector: Mapping[str, str] = attrs.field(factory=no_words)
    run_for_us: int | None = None
    gang: str | None = None
    says: GangFields = NO_FIELDS
    timed_out: bool = False
    retries: int = 0
    work: Work | None = None
    devices: Mapping[str, DeviceNeed] = NO_NEEDS
    estimate_us: int | None = None
    run_limit_us: int | None = None
    start_by_us: int | None = None
    # ONCE-1
    once: bool = False
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None

    def __attrs_post_init__(self) -> None:
        """Check the fields.

        Most asks are plain, and for them the calls of eight validators would take longer than
        everything that they check.
        """
        app, ask, priority = self.app, self.ask, self.priority
        run_us, estimate_us = self.run_for_us, self.estimate_us
        resources: object = self.resources
        is_plain = (
            type(app) is str
            and type(ask) is str
            and app
            and ask
            and "/" not in app + ask
            and type(resources) is Resources
            and resources.amounts
            and (priority is None or (type(priority) is int and _LOWEST <= priority <= _HIGHEST))
            and self.count is None
            and (run_us is None or (type(run_us) is int and run_us > 0))
            and self.gang is None
            and self.says is NO_FIELDS
            and self.retries == 0
            and self.work is None
            and self.devices is NO_NEEDS
            and DEVICE_PREFIX not in "".join(resources.amounts)
            and (estimate_us is None or (type(estimate_us) is int and estimate_us > 0))
            and self.run_limit_us is None
            and self.start_by_us is None
            and self.once is False
            and (not self.tolerations or are_all(Toleration, self.tolerations))
            and (self.affinity is None or are_terms(self.affinity))
        )
        if not is_plain and not attrs.validators.get_disabled():
            for field in attrs.fields(AddAsk):
                check = _ASK_CHECKS.get(field.name)
                if check is not None:
                    check(self, field, getattr(self, field.name))

    # DEVICE-4
    @property
    def wanted(self) -> Resources:
        """The resources that each ask needs together with its devices."""
        return with_needs(self.resources, self.devices) if self.devices else self.resources

    # FEED-26
    def names(self, first: int = 0, end: int | None = None) -> list[str]:
        """Return the names of the new asks in order, from one position up to another."""
        if self.count is None:
            return [self.ask]
        return [f"{self.ask}-{number}" for number in range(self.count)[first:end]]


# ONCE-6
def _comes_once(event: object, attribute: attrs.Attribute[bool], value: bool) -> None:
    """Check that an ask that does not come back has no retries."""
    type_check(bool)(event, attribute, value)
    retries = getattr(event, "retries", 0)
    if value and retries:
        msg = f"once: true: an ask with `retries` {retries} comes back; leave one of them out"
        raise EventError(msg)


_ASK_CHECKS: Final[Mapping[str, Callable[[object, Any, Any], None]]] = {
    "app": check_owned_name,
    "ask": check_owned_name,
    "resources": check_amounts,
    "priority": _optional(A_PRIORITY),
    "count": _optional(AT_LEAST_ONE),
    "run_for_us": _optional(AT_LEAST_ONE),
    "gang": _optional(check_gang),
    "says": check_member_fields,
    "retries": NOT_NEGATIVE,
    "work": _optional(type_check(Work)),
    "devices": check_needs,
    # BACKFILL-9
    "estimate_us": _optional(AT_LEAST_ONE),
    # TIME-2
    "run_limit_us": _optional(AT_LEAST_ONE),
    # TIME-7
    "start_by_us": _optional(NOT_NEGATIVE),
    "once": _comes_once,
    # AFFINITY-3
    "tolerations": check_tolerations,
    # AFFINITY-5
    "affinity": _optional(check_affinity),
}


@final
@attrs.frozen
class RemoveAsk:
    """Remove an ask that is not bound."""

    app: str = attrs.field(validator=check_owned_name)
    ask: str = attrs.field(validator=check_owned_name)


@final
@quick_members
class Outcome(StrEnum):
    """The outcome of the work of a bound ask: it has completed, failed, or is not wanted any more."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@final
@attrs.frozen
class Release:
    """Report that the work of a bound ask has ended.

    Attributes:
        outcome: Whether it completed, failed or is cancelled. An ask that failed is pending again
            if it has a retry left; one that is cancelled is gone.
        message: The message about the end in the log, or None.
        exited: How its process has ended, or None if that is not known.
    """

    app: str = attrs.field(validator=check_owned_name)
    ask: str = attrs.field(validator=check_owned_name)
    outcome: Outcome = attrs.field(default=Outcome.COMPLETED, validator=type_check(Outcome))
    message: str | None = attrs.field(default=None, validator=_optional(check_text))
    exited: Exit | None = attrs.field(
        default=None, validator=_optional(attrs.validators.instance_of(Exit))
    )


@final
@attrs.frozen
class BindFailed:
    """Report that the work of a bound ask could not be started; the ask is pending again.

    The program that starts the work reports this some time after the bind. In contrast,
    :class:`FailBind` makes a future bind fail.

    Attributes:
        message: The reason why it could not be started, for the log, or None.
    """

    app: str = attrs.field(validator=check_owned_name)
    ask: str = attrs.field(validator=check_owned_name)
    message: str | None = attrs.field(default=None, validator=_optional(check_text))


@final
@attrs.frozen
class AddPriorityClass:
    """Add a user's priority class; ``preempts`` is the policy ``PreemptLowerPriority``."""

    name: str = attrs.field(validator=check_users_class)
    value: int = attrs.field(validator=A_USERS_PRIORITY)
    preempts: bool = False


# USAGE-14
def _over_time(amounts: Resources) -> UnitSeconds:
    """Return amounts that may be larger; the next check refuses invalid ones."""
    return UnitSeconds(amounts) if type(amounts) is Resources else cast("UnitSeconds", amounts)


@final
@attrs.frozen
class SetUsage:
    """Replace what a queue, or a user of a leaf, has used lately, for the types that are named.

    Attributes:
        queue: The path of the queue, as the user wrote it.
        usage: By type, in units times seconds: ``vcore`` 7200 is one core for two hours.
        user: The user of the leaf, ``""`` for the nameless one; None for the queue itself.
    """

    queue: str = attrs.field(validator=check_name)
    usage: UnitSeconds = attrs.field(converter=_over_time, validator=type_check(UnitSeconds))
    user: str | None = attrs.field(default=None, validator=_optional(check_text))


@final
@attrs.frozen
class FailBind:
    """Make the next ``times`` binds of an ask fail."""

    app: str = attrs.field(validator=check_owned_name)
    ask: str = attrs.field(validator=check_owned_name)
    times: int = attrs.field(default=1, validator=AT_LEAST_ONE)


@final
@attrs.frozen
class AddGang:
    """Define a gang; if annotations define it already, this adds the object."""

    gang: str = attrs.field(validator=check_gang)
    says: GangFields = attrs.field(validator=check_definition)


@final
@attrs.frozen
class RemoveGang:
    """Remove the definition of a gang; its members stay."""

    gang: str = attrs.field(validator=check_gang)


# Kubernetes objects: the parts of a manifest that matter. Applying a known object updates it.


@final
@attrs.frozen
class NodeObject:
    """A Node.

    Attributes:
        capacity: Its capacity, or None if the manifest does not give it.
        schedulable: Whether it is not cordoned.
    """

    node: str = attrs.field(validator=check_name)
    capacity: Resources | None = attrs.field(default=None, validator=_optional(written_amounts))
    attributes: Mapping[str, str] = attrs.field(factory=no_words)
    schedulable: bool = True
    taints: tuple[Taint, ...] = attrs.field(default=(), validator=check_taints)


@final
@attrs.frozen
class PodObject:
    """A Pod: an ask, and its application, which is created if it is unknown.

    Attributes:
        name: The name of the pod, and of the ask.
        queue: The path of the queue that it names, or None.
        ask: The ask, of that application and name, without ``count`` and ``run_for_us``.
            None if the pod requests nothing above zero or has finished: then it cannot
            become a new ask.
        node: The node on which it runs already, or None.
        finished: Whether it has succeeded or failed.
        user: The user of the application, if it is created; None for the nameless user.
    """

    app: str = attrs.field(validator=check_owned_name)
    name: str = attrs.field(validator=check_owned_name)
    queue: str | None = attrs.field(default=None, validator=_optional(check_name))
    ask: AddAsk | None = None
    node: str | None = attrs.field(default=None, validator=_optional(check_name))
    finished: bool = False
    namespace: str = attrs.field(default=DEFAULT_NAMESPACE, validator=check_name)
    user: str | None = None
    groups: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Check that the ask needs nothing that no Pod can ask for."""
        # DEVICE-11
        if self.ask is not None and self.ask.devices:
            msg = f"ask.devices: {dict(self.ask.devices)!r}: a Pod has no devices"
            raise EventError(msg)


@final
@attrs.frozen
class QueueObject:
    """A Volcano Queue: settings of the queue of that name; None keeps a setting.

    Attributes:
        parent: The name or path of its parent if it is created, or None for the root.
    """

    name: str = attrs.field(validator=check_name)
    parent: str | None = attrs.field(default=None, validator=_optional(check_name))
    priority: int | None = attrs.field(default=None, validator=_optional(A_QUEUE_PRIORITY))
    reclaimable: bool | None = None
    max: Limits | None = None
    guaranteed: Resources | None = attrs.field(
        default=None, validator=_optional(type_check(Resources))
    )
    weight: int | None = attrs.field(default=None, validator=_optional(A_QUEUE_WEIGHT))


AppliedObject = AddPriorityClass | AddGang | NodeObject | PodObject | QueueObject
"""The objects that can be applied; a priority class and a PodGroup have the form of an event."""


@final
@quick_members
class ObjectKind(StrEnum):
    """The kind of a Kubernetes object."""

    PRIORITY_CLASS = "PriorityClass"
    POD_GROUP = "PodGroup"
    NODE = "Node"
    POD = "Pod"
    QUEUE = "Queue"


@final
@attrs.frozen
class ObjectName:
    """The name of an object to delete.

    Attributes:
        name: Its name; for a PodGroup, the full name of the gang.
        app: The application of a Pod, otherwise None.
    """

    kind: ObjectKind
    name: str = attrs.field(validator=check_name)
    app: str | None = None


@final
@attrs.frozen
class Manifest(Generic[T_co]):
    """One object of a manifest, and its place there.

    Attributes:
        field: Its place in the event, such as ``manifest.items[2]``.
    """

    content: T_co
    field: str = "manifest"


@final
@attrs.frozen
class Apply:
    """Create or change Kubernetes objects: all of them, or none if one is refused."""

    objects: tuple[Manifest[AppliedObject], ...]


@final
@attrs.frozen
class Delete:
    """Delete Kubernetes objects: all of them, or none if one is refused."""

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
    | SetUsage
    | AddGang
    | RemoveGang
    | Apply
    | Delete
)
"""Every event that can change the state."""
