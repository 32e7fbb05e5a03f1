"""Messages between the owners of state: one closed union for each receiver.

All are frozen. The coordinator talks to applications and queues directly; what
they have to say travels upward, from child to parent, as reports.

Every application and every queue has a number of its own (``key``), since a name can come again
while its last bearer is leaving. An application's is the position of the event that created it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast, final

from muster_core.config.model import QueueConfig
from muster_core.decisions import Decision, Reason
from muster_core.events import AddAsk
from muster_core.lifecycle import AppState
from muster_core.records import record
from muster_core.resources import Resources
from muster_core.shapes import Shape
from muster_core.snapshots import AskPlace

Totals = Mapping[str, int]
"""Sums over many asks, by type; unlike one quantity they have no upper limit."""

AskOrder = tuple[int, int, str, int, int]
"""The place of an ask among those of its application, best first."""


@final
@record
class Origin:
    """Where a request comes from.

    Attributes:
        seq: Its position in the input; all order among requests is by it.
        index: The index of the event in its feed, from 0, or None.
        line: The line of the event in its feed, from 1, or None.
        event: The position of the event that it is only a part of, or None.
        at_us: When it comes, in microseconds.
    """

    seq: int
    index: int | None = None
    line: int | None = None
    event: int | None = None
    at_us: int = 0

    @property
    def creation(self) -> int:
        """The position that counts as the creation of what comes: that of the whole event."""
        return self.seq if self.event is None else self.event


@final
class Ask(NamedTuple):
    """One ask, as long as it exists.

    It begins with its place among the asks of its application, so that asks compare as they
    are tried, and a heap of them needs nothing else: there may be a million.

    Attributes:
        rank: Its priority, negated, as the highest comes first.
        creation: The position of the event that counts as its creation. Of a member of a gang
            the creation counts that its gang has, not the one here.
        group: The full name of its gang, or nothing.
        submission: The position at which it came.
        number: Its number in a ``count``, which tells it from all others of its submission.
        name: Its name within its application.
        resources: What it asks for.
        shape: What it needs of a node.
        priority: Its priority, an int32.
        gang: The full name of the gang that it is a member of, or None.
        run_for_us: It completes by itself this long after it was bound, or None.
        preempts: The class that it named when it came says ``PreemptLowerPriority``.
        came_us: When it came, in microseconds.
    """

    rank: int
    creation: int
    group: str
    submission: int
    number: int
    name: str
    resources: Resources
    shape: Shape
    priority: int
    gang: str | None = None
    run_for_us: int | None = None
    preempts: bool = False
    came_us: int = 0

    @property
    def order(self) -> AskOrder:
        """Its place: the ask itself stands for that, as nothing after the number ever counts."""
        return cast("AskOrder", self)


@final
@record
class Allocation:
    """A bound or waiting ask.

    Attributes:
        ask: The ask.
        node: The name of its node.
        number: Its place in the order in which asks were bound, or began to wait.
        assigned: Its place in the order in which nodes were chosen: of a bound member of a
            gang the number with which it began to wait. 0 stands for ``number``.
    """

    ask: Ask
    node: str
    number: int
    assigned: int = 0

    @property
    def age(self) -> int:
        """Its place in the order in which nodes were chosen; the highest is the newest."""
        return self.assigned or self.number


@final
@record
class AppIdentity:
    """What about an application never changes.

    Attributes:
        key: Its number, the position of the event that created it.
        name: Its name.
        leaf: The key of its queue.
        path: The path of its queue.
        skip_starting: It goes from Accepted to Running.
        user: Who submitted it, or None, and the groups of that user.
    """

    key: int
    name: str
    leaf: int
    path: str
    skip_starting: bool = False
    user: tuple[str | None, tuple[str, ...]] = (None, ())


# What an application is told.


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


# What an application does, and says of it.


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


@final
@record
class QueueSummary:
    """What a queue publishes of itself.

    Attributes:
        key: Its number.
        parent: The number of its parent, or None for the root.
        config: Its settings.
        draining: It takes no new applications.
        values: What counts of it in its parent.
        priority: Its ``currentPriority``, or None.
        gone: It has ceased to exist.
    """

    key: int
    parent: int | None
    config: QueueConfig
    draining: bool
    values: Values
    priority: int | None
    gone: bool


@final
@record
class QueueReport:
    """All that an epoch changed in a queue and below, at once.

    Attributes:
        key: Which queue.
        epoch: The epoch.
        credits: How many requests to applications it answers.
        queues: The queues that it speaks of, each parent before its children.
        apps: The applications that it speaks of.
    """

    key: int
    epoch: int
    credits: int
    queues: tuple[QueueSummary, ...]
    apps: tuple[AppReport, ...]


# What a queue is told.


@final
@record
class SetQueue:
    """The queue's settings, from now on."""

    config: QueueConfig
    draining: bool


@final
@record
class Retire:
    """The queue is empty and is to go."""


@final
@record
class CommitQueue:
    """What the rounds changed in the children of a queue, by their keys."""

    children: Mapping[int, Values]


@final
@record
class Expect:
    """So many children will report for an epoch; then the queue is to report itself."""

    epoch: int
    children: int


ToQueue = SetQueue | Retire | CommitQueue | Expect | AppReport | QueueReport
"""Everything that a queue is told."""
