"""Messages to applications: a closed union, :data:`ToApplication`."""

from __future__ import annotations

from typing import final

from muster_core.owners.messages.asks import Allocation, AppIdentity, Ask, Origin
from muster_core.owners.messages.failed_binds import FailedBinds
from muster_core.values.application_states import AppState
from muster_core.values.decisions import Reason
from muster_core.values.events import AddAsk
from muster_core.values.records import record


@final
@record
class Enlist:
    """Start the application.

    Attributes:
        group: The group for which it counts in limits, or None.
    """

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
        node: Its node.
        number: Its place in the order of all binds.
        preempts: Whether its priority class has ``PreemptLowerPriority``.
    """

    origin: Origin
    event: AddAsk
    priority: int
    node: str
    number: int
    preempts: bool = False


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
        message: What the log says about the end, or None.
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
        message: What the log says about the end, or None.
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
        timed_out: The gang of the ask if it has timed out: then the ask becomes parked.
        message: What the log says about the failure, or None.
    """

    origin: Origin
    ask: str
    timed_out: str | None = None
    message: str | None = None


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
class TimeUp:
    """End ``state``, whose timer is due, if the application is still in it."""

    origin: Origin
    state: AppState


@final
@record
class Dismiss:
    """Remove the application with all its asks."""

    origin: Origin


@final
@record
class AppFacts:
    """What an application owns and cannot compute, between two batches.

    Attributes:
        identity: The part of it that never changes.
        state: Its state.
        group: The group for which it counts in limits, or None.
        pending: Its pending asks, in the order in which it lists them.
        parked: Its parked asks, likewise.
        waiting: The allocations of its waiting asks, likewise.
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
    """

    bound: tuple[Allocation, ...] = ()
    failed: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    waiting: tuple[Allocation, ...] = ()
    parked: tuple[str, ...] = ()
    in_a_row: tuple[tuple[str, FailedBinds | None], ...] = ()


@final
@record
class Close:
    """Report the changes of an epoch, whose input is complete."""

    epoch: int


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


WideRequest = Enlist | Regroup | RollBack | ParkAsks | UnparkAsks | LoseNode | TimeUp | Dismiss
"""Requests about the whole application, or about several of its asks."""


AppRequest = AskRequest | WideRequest
"""Requests with a credit: the next report answers them."""


ToApplication = AppRequest | LoadApp | CommitApp | Close
"""All messages to an application."""
