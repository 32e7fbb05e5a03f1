"""Messages to applications, and their reports: the actions of an epoch.

Messages are a closed union, :data:`ToApplication`. All of them are frozen. The coordinator sends
them directly; reports go upward, from child to parent.
"""

from __future__ import annotations

from typing import final

from muster_core.owners.asks import Allocation, AppIdentity, Ask, FailedBinds, Origin, Totals
from muster_core.values.application_states import AppState
from muster_core.values.decisions import Decision, Kind, Reason
from muster_core.values.devices import DeviceNeeds
from muster_core.values.events import AddAsk
from muster_core.values.records import record
from muster_core.values.resources import Resources
from muster_core.values.snapshots import AskPlace


@final
@record
class DecisionMade:
    """A decision for the log; ``order`` is its place among the decisions of the batch."""

    order: tuple[int, int, int]
    decision: Decision


# DECISION-5, FEED-15
def rejection(origin: Origin, message: str) -> DecisionMade:
    """Return the decision that refuses the event of an origin."""
    decision = Decision(Kind.REJECTED, message=message, index=origin.index, line=origin.line)
    return DecisionMade((origin.seq, 0, 0), decision)


@final
@record
class AsksPending:
    """Asks have become pending: they are new, or left another place.

    Attributes:
        was_bound: Whether they were bound before, so that their ``preemption.delay`` restarts.
    """

    asks: tuple[Ask, ...]
    was_bound: bool = False


@final
@record
class AskWithdrawn:
    """An ask is no longer pending."""

    ask: Ask


@final
@record
class AllocationEnded:
    """An allocation has ended; if its ask is pending again, a :class:`AsksPending` follows."""

    allocation: Allocation


@final
@record
class AllocationAdded:
    """An ask was added that is bound from the start."""

    allocation: Allocation


@final
@record
class AskParked:
    """An ask was parked.

    Attributes:
        was_bound: Whether it was bound before, so that its ``preemption.delay`` restarts.
    """

    ask: Ask
    was_bound: bool = False


@final
@record
class AskUnparked:
    """An ask is no longer parked; if it is pending now, a :class:`AsksPending` follows."""

    ask: Ask


@final
@record
class MemberMoved:
    """A request has moved a member of a gang to another place.

    Attributes:
        order: The place of the change among all changes of the batch.
        place: Its new place, or None if it has ended.
        lost: Whether it lost its node with a removed node, or its bind has failed.
    """

    order: tuple[int, int, int]
    ask: Ask
    place: AskPlace | None
    lost: bool = False


@final
@record
class StateEntered:
    """The application has entered another state."""

    state: AppState


@final
@record
class BindsWillFail:
    """The next ``times`` binds of an ask will fail."""

    ask: str
    times: int


@final
@record
class FailureCount:
    """Other binds of an ask have failed in a row than before; None if the row has ended.

    It comes before the :class:`AsksPending` or :class:`AskParked` of an ask whose bind has failed.
    """

    ask: str
    failed: FailedBinds | None


@final
@record
class GroupChanged:
    """The application counts for another group in limits, or for none."""

    group: str | None


@final
@record
class AppLoaded:
    """The application was loaded: it is in this state, without an event.

    Its asks follow, as if all had come at once.
    """

    state: AppState


@final
@record
class WaitingLoaded:
    """An ask was loaded that waits with an allocation."""

    allocation: Allocation


AppAction = (
    DecisionMade
    | AsksPending
    | AskWithdrawn
    | AllocationEnded
    | AllocationAdded
    | AskParked
    | AskUnparked
    | StateEntered
    | BindsWillFail
    | FailureCount
    | MemberMoved
    | GroupChanged
    | AppLoaded
    | WaitingLoaded
)
"""An action of an application in response to a message."""


@final
@record
class Values:
    """The values that an application or a queue adds to its parent.

    Attributes:
        priority: Its priority if anything is pending in it, otherwise None.
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
        credits: How many requests the report answers.
        came: The needs of new asks with devices, wherever these are now: their devices, their
            resources, and how many there were.
        direct: Whether it is for the coordinator instead of the leaf.
    """

    identity: AppIdentity
    epoch: int
    credits: int
    actions: tuple[AppAction, ...]
    values: Values
    gone: bool
    came: tuple[tuple[DeviceNeeds, Resources, int], ...] = ()
    direct: bool = False


@final
@record
class Enlist:
    """Start the application."""

    origin: Origin
    group: str | None = None


@final
@record
class Regroup:
    """Change the group for which the application counts in limits."""

    origin: Origin
    group: str | None


@final
@record
class AddAsks:
    """Add asks.

    Attributes:
        priority: The priority from the event's number or class.
        parked: Whether they are members of a gang that has timed out.
        preempts: Whether their priority class has ``PreemptLowerPriority``.
    """

    origin: Origin
    event: AddAsk
    priority: int
    parked: bool = False
    preempts: bool = False


@final
@record
class AddPlaced:
    """Add an ask that runs already.

    Attributes:
        priority: The priority from the event's number or class.
        number: Its place in the order of all binds.
        preempts: Whether its priority class has ``PreemptLowerPriority``.
        limit_us: The ``run.limit`` of its leaf, in microseconds; 0 is off.
    """

    origin: Origin
    event: AddAsk
    priority: int
    node: str
    number: int
    preempts: bool = False
    limit_us: int = 0


@final
@record
class FinishAsk:
    """End an ask, in any place, for a ``reason``."""

    origin: Origin
    ask: str
    reason: Reason


@final
@record
class RollBack:
    """Release the nodes of waiting asks.

    Attributes:
        asks: Their names, each with its place in the order in which their group began to wait.
        reason: Why they are released.
        park: Whether they become parked, not pending.
    """

    origin: Origin
    asks: tuple[tuple[int, str], ...]
    reason: Reason
    park: bool = False


@final
@record
class ParkAsks:
    """Park pending asks."""

    origin: Origin
    asks: tuple[str, ...]


@final
@record
class UnparkAsks:
    """Make parked asks pending again."""

    origin: Origin
    asks: tuple[str, ...]


@final
@record
class WithdrawAsk:
    """Remove an ask that is not bound."""

    origin: Origin
    ask: str


@final
@record
class ReleaseAsk:
    """Release a bound ask, which has finished or is cancelled.

    Attributes:
        message: The message about the end in the log, or None.
        reason: Why it is released.
    """

    origin: Origin
    ask: str
    message: str | None = None
    reason: Reason = Reason.COMPLETED


@final
@record
class FailAsk:
    """Release a bound ask whose work has failed: it is pending again if it has a retry left.

    Attributes:
        message: The message about the end in the log, or None.
        timed_out: The gang of the ask if it has timed out: then the ask becomes parked.
    """

    origin: Origin
    ask: str
    message: str | None = None
    timed_out: str | None = None


@final
@record
class UndoBind:
    """Undo the bind of an ask, whose work could not be started.

    Attributes:
        message: The message about the failure in the log, or None.
        timed_out: The gang of the ask if it has timed out: then the ask becomes parked.
    """

    origin: Origin
    ask: str
    message: str | None = None
    timed_out: str | None = None


@final
@record
class SpoilBinds:
    """Make the next ``times`` binds of an ask fail."""

    origin: Origin
    ask: str
    times: int


@final
@record
class LoseNode:
    """End all allocations on a removed node.

    Attributes:
        timed_out: The gangs that have timed out: their members become parked, not pending.
    """

    origin: Origin
    node: str
    timed_out: frozenset[str] = frozenset()


@final
@record
class Complete:
    """Complete a bound ask, whose ``run_for`` is over."""

    origin: Origin
    ask: str


@final
@record
class EnterState:
    """Be in this state: the time in another one was up, and there is nothing to report.

    Attributes:
        key: The application.
        state: The state that it is in now. A completed application ends.
    """

    key: int
    state: AppState


@final
@record
class Dismiss:
    """Remove the application with all its asks."""

    origin: Origin


@final
@record
class AppFacts:
    """The facts that an application owns and cannot compute, between two batches.

    Attributes:
        pending: Its pending asks, in the order in which it lists them.
        parked: Its parked asks, in the same order.
        waiting: The allocations of its waiting asks, in the same order.
        bound: The allocations of its bound asks, in the order of their binds.
        spoilt: How many of the next binds of an ask will fail, by name; no zeros.
        in_a_row: The binds of an ask that have failed in a row, by name.
        guesses: For how many more refusals it guesses which of its asks was meant.
    """

    identity: AppIdentity
    state: AppState
    group: str | None
    pending: tuple[Ask, ...]
    parked: tuple[Ask, ...]
    waiting: tuple[Allocation, ...]
    bound: tuple[Allocation, ...]
    spoilt: tuple[tuple[str, int], ...]
    in_a_row: tuple[tuple[str, FailedBinds], ...]
    guesses: int


@final
@record
class LoadApp:
    """Be as these facts say; the first message to an application that is loaded."""

    facts: AppFacts


@final
@record
class CommitApp:
    """The result of the rounds for the application.

    Attributes:
        bound: The new bound allocations, in the order of their binds.
        failed: The asks whose bind failed, once for each failure.
        released: The waiting or bound asks that lost their node; some hold another one now.
        waiting: The new waiting allocations, in the order in which they began to wait.
        parked: The released asks that are parked, not pending.
        in_a_row: The asks of which other binds have failed in a row than before the rounds; None
            if the row has ended.
        ended: The asks that are gone, since they do not come back; ``released`` has none of them.
    """

    bound: tuple[Allocation, ...] = ()
    failed: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    waiting: tuple[Allocation, ...] = ()
    parked: tuple[str, ...] = ()
    in_a_row: tuple[tuple[str, FailedBinds | None], ...] = ()
    ended: tuple[str, ...] = ()


@final
@record
class Close:
    """Report the changes of an epoch, whose input is complete.

    Attributes:
        direct: Whether an application reports to the coordinator instead of its leaf, because no
            queue got a message.
    """

    epoch: int
    direct: bool = False


AskRequest = (
    AddAsks
    | AddPlaced
    | FinishAsk
    | WithdrawAsk
    | ReleaseAsk
    | FailAsk
    | UndoBind
    | SpoilBinds
    | Complete
)
"""Requests about a single ask, or about the new asks of one event."""


WideRequest = Enlist | Regroup | RollBack | ParkAsks | UnparkAsks | LoseNode | Dismiss
"""Requests about the whole application, or about several of its asks."""


AppRequest = AskRequest | WideRequest
"""Requests with a credit: the next report answers them."""


ToApplication = AppRequest | LoadApp | CommitApp | EnterState | Close
"""All messages to an application."""
