"""What an application does, and what it reports to its leaf."""

from __future__ import annotations

from typing import final

from muster_core.owners.messages.asks import Allocation, AppIdentity, Ask, Totals
from muster_core.values.application_states import AppState
from muster_core.values.decisions import Decision
from muster_core.values.records import record
from muster_core.values.snapshots import AskPlace


@final
@record
class Say:
    """A decision for the log; ``order`` is its place among those of the batch."""

    order: tuple[int, int, int]
    decision: Decision


@final
@record
class Pending:
    """Asks are pending now: they are new, or they lost their places.

    Attributes:
        asks: The asks.
        was_bound: They were bound before, so that their ``preemption.delay`` begins anew.
    """

    asks: tuple[Ask, ...]
    was_bound: bool = False


@final
@record
class Withdrawn:
    """A pending ask is gone."""

    ask: Ask


@final
@record
class Freed:
    """An allocation is gone; its ask is pending again only if that is said too."""

    allocation: Allocation


@final
@record
class Placed:
    """An ask is bound that came so."""

    allocation: Allocation


@final
@record
class Parked:
    """An ask is parked now.

    Attributes:
        ask: The ask.
        was_bound: It was bound before, so that its ``preemption.delay`` begins anew.
    """

    ask: Ask
    was_bound: bool = False


@final
@record
class Unparked:
    """An ask is no longer parked; it is pending only if that is said too."""

    ask: Ask


@final
@record
class Moved:
    """A member of a gang is in another place now, because of a request.

    Attributes:
        order: When, among all that happened in the batch.
        ask: The member.
        place: Where it is now; None: it is gone.
        lost: It was taken from its gang.
    """

    order: tuple[int, int, int]
    ask: Ask
    place: AskPlace | None
    lost: bool = False


@final
@record
class Entered:
    """The application is in another state now."""

    state: AppState


@final
@record
class Spoilt:
    """This many of the next binds of an ask will fail."""

    ask: str
    times: int


AppAction = (
    Say | Pending | Withdrawn | Freed | Placed | Parked | Unparked | Entered | Spoilt | Moved
)
"""What an application did in answer to a message."""


@final
@record
class Values:
    """What counts of a child in its queue.

    Attributes:
        priority: The priority of the child where something is pending in it, else None.
        pending: What is pending in it.
        allocated: What is allocated in it.
    """

    priority: int | None
    pending: Totals
    allocated: Totals


NO_VALUES = Values(None, {}, {})
"""The values of a child in which there is nothing."""


@final
@record
class AppReport:
    """All that an epoch changed in an application, at once.

    Attributes:
        identity: Which application.
        epoch: The epoch.
        credits: How many requests it answers.
        actions: What it did, in order.
        values: What counts of it in its queue.
        gone: It has ceased to exist.
    """

    identity: AppIdentity
    epoch: int
    credits: int
    actions: tuple[AppAction, ...]
    values: Values
    gone: bool
