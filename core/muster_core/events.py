"""Events: everything that can come in, typed, checked for form, not yet for sense.

One closed union. What no event can have (an empty name, a negative duration) raises
:class:`~muster_core.errors.EventError` when the event is made; whether an event makes
sense now (does the queue exist, is the name free) is for the machine that owns what it
speaks of. Times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs

from muster_core.config.model import Configuration
from muster_core.forms import (
    A_PRIORITY,
    A_USERS_PRIORITY,
    AT_LEAST_ONE,
    a_name,
    a_users_class,
    amounts,
    an_owned_name,
    some_amounts,
)
from muster_core.resources import Resources

_optional = attrs.validators.optional


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
    attributes: Mapping[str, str] = attrs.field(factory=dict[str, str])
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
    tags: Mapping[str, str] = attrs.field(factory=dict[str, str])


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
    """

    app: str = attrs.field(validator=an_owned_name)
    ask: str = attrs.field(validator=an_owned_name)
    resources: Resources = attrs.field(validator=some_amounts)
    priority: int | None = attrs.field(default=None, validator=_optional(A_PRIORITY))
    priority_class: str | None = None
    count: int | None = attrs.field(default=None, validator=_optional(AT_LEAST_ONE))
    node: str | None = None
    selector: Mapping[str, str] = attrs.field(factory=dict[str, str])
    run_for_us: int | None = attrs.field(default=None, validator=_optional(AT_LEAST_ONE))


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
    | AddPriorityClass
    | FailBind
)
"""Everything that can come in and change the state."""
