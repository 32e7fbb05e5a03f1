"""The actions of an application, and its report to its leaf."""

from __future__ import annotations

from typing import Final, final

from muster_core.owners.messages.asks import Allocation, AppIdentity, Ask, Origin, Totals
from muster_core.owners.messages.failed_binds import FailedBinds
from muster_core.values.application_states import AppState
from muster_core.values.decisions import Decision, Kind
from muster_core.values.devices import DeviceNeeds
from muster_core.values.records import record
from muster_core.values.resources import Resources
from muster_core.values.snapshots import AskPlace

# Looking up a member of an enum takes ten times as long, and this is done for each refused event.
_REJECTED: Final = Kind.REJECTED


@final
@record
class Say:
    """A decision for the log; ``order`` is its place among the decisions of the batch."""

    order: tuple[int, int, int]
    decision: Decision


# DECISION-5, FEED-15
def rejected(origin: Origin, message: str) -> Say:
    """Return the decision that refuses the event of an origin."""
    decision = Decision(_REJECTED, message=message, index=origin.index, line=origin.line)
    return Say((origin.seq, 0, 0), decision)


@final
@record
class Pending:
    """Asks have become pending: they are new, or left another place.

    Attributes:
        asks: The asks.
        was_bound: Whether they were bound before, so that their ``preemption.delay`` restarts.
    """

    asks: tuple[Ask, ...]
    was_bound: bool = False


@final
@record
class Withdrawn:
    """An ask is no longer pending."""

    ask: Ask


@final
@record
class Freed:
    """An allocation has ended; if its ask is pending again, a :class:`Pending` follows."""

    allocation: Allocation


@final
@record
class Placed:
    """An ask was added that is bound from the start."""

    allocation: Allocation


@final
@record
class Parked:
    """An ask was parked.

    Attributes:
        ask: The ask.
        was_bound: Whether it was bound before, so that its ``preemption.delay`` restarts.
    """

    ask: Ask
    was_bound: bool = False


@final
@record
class Unparked:
    """An ask is no longer parked; if it is pending now, a :class:`Pending` follows."""

    ask: Ask


@final
@record
class Moved:
    """A request has moved a member of a gang to another place.

    Attributes:
        order: The place of the change among all changes of the batch.
        ask: The member.
        place: Its new place, or None if it has ended.
        lost: Whether it lost its node with a removed node, or its bind has failed.
    """

    order: tuple[int, int, int]
    ask: Ask
    place: AskPlace | None
    lost: bool = False


@final
@record
class Entered:
    """The application has entered another state."""

    state: AppState


@final
@record
class Spoilt:
    """The next ``times`` binds of an ask will fail."""

    ask: str
    times: int


@final
@record
class InARow:
    """Other binds of an ask have failed in a row than before; None if the row has ended.

    It comes before the :class:`Pending` or :class:`Parked` of an ask whose bind has failed.
    """

    ask: str
    failed: FailedBinds | None


@final
@record
class Grouped:
    """The application counts for another group in limits, or for none."""

    group: str | None


@final
@record
class Loaded:
    """The application was loaded: it is in this state, without an event.

    Its asks follow, as if all had come at once.
    """

    state: AppState


@final
@record
class Held:
    """An ask was loaded that waits with an allocation."""

    allocation: Allocation


AppAction = (
    Say
    | Pending
    | Withdrawn
    | Freed
    | Placed
    | Parked
    | Unparked
    | Entered
    | Spoilt
    | InARow
    | Moved
    | Grouped
    | Loaded
    | Held
)
"""An action of an application in response to a message."""


@final
@record
class Values:
    """The values that an application or a queue adds to its parent.

    Attributes:
        priority: Its priority if anything is pending in it, otherwise None.
        pending: The resources of its pending asks.
        allocated: The resources of its bound and waiting asks.
    """

    priority: int | None
    pending: Totals
    allocated: Totals


NO_VALUES = Values(None, {}, {})
"""The values of an empty child."""


@final
@record
class AppReport:
    """All changes of an application in an epoch.

    Attributes:
        identity: The application.
        epoch: The epoch.
        credits: How many requests the report answers.
        actions: The actions, in order.
        values: The values that it adds to its queue.
        gone: Whether the application no longer exists.
        came: The needs of new asks with devices, wherever these are now: their devices, their
            resources, and how many there were.
    """

    identity: AppIdentity
    epoch: int
    credits: int
    actions: tuple[AppAction, ...]
    values: Values
    gone: bool
    came: tuple[tuple[DeviceNeeds, Resources, int], ...] = ()
