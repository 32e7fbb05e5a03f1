"""What an application is told: one closed union, :data:`ToApplication`."""

from __future__ import annotations

from typing import final

from muster_core.owners.messages.asks import Allocation, Origin
from muster_core.values.application_states import AppState
from muster_core.values.decisions import Reason
from muster_core.values.events import AddAsk
from muster_core.values.records import record


@final
@record
class Enlist:
    """The application begins to exist."""

    origin: Origin


@final
@record
class AddAsks:
    """Asks come.

    Attributes:
        priority: What the event's number or class amounts to.
        parked: They are members of a gang that has timed out.
        preempts: They name a class that says ``PreemptLowerPriority``.
    """

    origin: Origin
    event: AddAsk
    priority: int
    parked: bool = False
    preempts: bool = False


@final
@record
class AddPlaced:
    """An ask comes that runs already.

    Attributes:
        priority: What the event's number or class amounts to.
        node: Its node.
        number: Its place in the order of all binds.
        preempts: It names a class that says ``PreemptLowerPriority``.
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
    """An ask is over, wherever it is; ``reason`` says how."""

    origin: Origin
    ask: str
    reason: Reason


@final
@record
class RollBack:
    """Waiting asks give up their nodes.

    Attributes:
        asks: Each with its place in the order in which all of their group began to wait.
        reason: Why.
        park: They are parked then, not pending.
    """

    origin: Origin
    asks: tuple[tuple[int, str], ...]
    reason: Reason
    park: bool = False


@final
@record
class ParkAsks:
    """Pending asks are not to be tried or counted any more."""

    origin: Origin
    asks: tuple[str, ...]


@final
@record
class UnparkAsks:
    """Parked asks are pending again."""

    origin: Origin
    asks: tuple[str, ...]


@final
@record
class WithdrawAsk:
    """An ask that is not bound is to go."""

    origin: Origin
    ask: str


@final
@record
class ReleaseAsk:
    """A bound ask has finished."""

    origin: Origin
    ask: str


@final
@record
class UndoBind:
    """The work of a bound ask could not be started.

    Attributes:
        timed_out: The gang of the ask, if it has timed out: the ask is parked then, not pending.
    """

    origin: Origin
    ask: str
    timed_out: str | None = None


@final
@record
class SpoilBinds:
    """The next ``times`` binds of an ask are to fail."""

    origin: Origin
    ask: str
    times: int


@final
@record
class LoseNode:
    """A node is gone, with everything on it.

    Attributes:
        timed_out: The gangs that have timed out: their members are parked then, not pending.
    """

    origin: Origin
    node: str
    timed_out: frozenset[str] = frozenset()


@final
@record
class Complete:
    """The time of a bound ask that said how long it runs is over."""

    origin: Origin
    ask: str


@final
@record
class TimeUp:
    """The application has been in ``state`` for as long as it may."""

    origin: Origin
    state: AppState


@final
@record
class Dismiss:
    """The application is to go, with everything it asked for and holds."""

    origin: Origin


@final
@record
class CommitApp:
    """What the rounds decided about the application, as it stands in the end.

    Attributes:
        bound: What is bound now, in the order in which it was bound.
        failed: The asks whose bind failed, once for each time.
        released: Those that waited or were bound before and lost that node; some have another.
        waiting: What waits now, in the order in which it began to wait.
        parked: The asks of those released that are not pending but parked.
    """

    bound: tuple[Allocation, ...] = ()
    failed: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    waiting: tuple[Allocation, ...] = ()
    parked: tuple[str, ...] = ()


@final
@record
class Close:
    """The input of an epoch is complete: report what it changed."""

    epoch: int


AskRequest = (
    AddAsks | AddPlaced | FinishAsk | WithdrawAsk | ReleaseAsk | UndoBind | SpoilBinds | Complete
)
"""What is asked of one application about its asks alone."""


WideRequest = Enlist | RollBack | ParkAsks | UnparkAsks | LoseNode | TimeUp | Dismiss
"""What is asked of an application as a whole, or about several of its asks."""


AppRequest = AskRequest | WideRequest
"""What carries a credit: it is answered with the next report."""


ToApplication = AppRequest | CommitApp | Close
"""Everything that an application is told."""
