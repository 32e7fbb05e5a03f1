"""The records of the ledger: applications, asks and nodes that exist, and asks that have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, final

import attrs

from muster._pod_identity import PodFilter, PodIdentity
from muster.figures.usage import UsageAccount
from muster_core.decisions import Decision, Reason

if TYPE_CHECKING:
    from muster_core.config.model import QueueConfig
    from muster_core.events import AddApp, AddAsk, AddNode, Exit


@final
@attrs.define(eq=False, weakref_slot=False)
class AskEntry:
    """An ask that exists. All instants are in microseconds since the origin.

    Attributes:
        event: The event that added it, perhaps with others (``count``).
        came_us: When it came, or None if unknown.
        since_us: Since when it wants a node; it came then, or lost its node; None if unknown.
        retries: How often it is still tried again after its work has failed.
        node: The node that it holds, or None.
        taken_us: When it took that node; None if it holds none, or if unknown.
        bound_us: When it was bound there; None while it waits, or if unknown.
        namespace: The namespace of its Pod, or None if it is none.
        is_bound: Whether it is bound, and does not only wait on its node.
        earlier: What was before it got the node that it holds, or None for nothing.
    """

    event: AddAsk
    came_us: int | None
    since_us: int | None
    retries: int = 0
    node: str | None = None
    taken_us: int | None = None
    bound_us: int | None = None
    namespace: str | None = None
    is_bound: bool = False
    earlier: PreviousAllocation | None = None

    @property
    def pod(self) -> PodIdentity | None:
        """The pod of a cluster for which it stands, or None."""
        return PodIdentity.of(self.event.work)

    def before(self) -> PreviousAllocation:
        """Return what was before, to be changed."""
        if self.earlier is None:
            self.earlier = PreviousAllocation()
        return self.earlier


@final
@attrs.define(weakref_slot=False)
class PreviousAllocation:
    """What was before an ask got the node that it holds, and how its process ended last.

    Most asks run once, and have none.

    Attributes:
        started_us: When it was bound last, in microseconds since the origin, or None.
        ran_us: How long it was bound in all, in microseconds.
        held_us: How long it held nodes in all, likewise.
        exited: How its process has ended last, or None.
        unstarted: Why its work could not be started, if it was removed for that; empty without a
            reason, and None if it was not.
    """

    started_us: int | None = None
    ran_us: int = 0
    held_us: int = 0
    exited: Exit | None = None
    unstarted: str | None = None


@final
@attrs.frozen
class StartFailure:
    """Where and why the work of an ask could not be started.

    Attributes:
        node: The node.
        message: The message of the error.
    """

    node: str
    message: str

    def text(self) -> str:
        """Return it in words."""
        return f"its last start, on the node {self.node}, failed: {self.message}"


@final
@attrs.define(eq=False, weakref_slot=False)
class AppEntry:
    """An application that exists, or one that has completed, as it was at the end.

    Attributes:
        event: The event that added it; for a Pod's application, the one that would have.
        came_us: When it came, in microseconds since the origin, or None if unknown.
        queue: The path of its queue.
        state: Its state.
        states: When it entered which state, oldest first, as far as known.
        ran_us: When its first ask was bound, or None.
        used: The resources of its asks that hold a node; no zeros.
        most: The highest of each type in ``used`` so far.
        asks: Its asks, by name.
        is_gone: Whether its end was announced.
        account: The account of its user.
    """

    event: AddApp
    came_us: int | None
    queue: str
    state: str = "New"
    states: list[tuple[int, str]] = attrs.field(factory=list[tuple[int, str]])
    ran_us: int | None = None
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    most: dict[str, int] = attrs.field(factory=dict[str, int])
    asks: dict[str, AskEntry] = attrs.field(factory=dict[str, AskEntry])
    is_gone: bool = False
    account: UsageAccount = attrs.field(factory=UsageAccount)

    @property
    def ended_us(self) -> int | None:
        """When it completed, in microseconds since the origin, or None."""
        return self.states[-1][0] if self.state == "Completed" and self.states else None


@final
@attrs.define(eq=False, weakref_slot=False)
class NodeEntry:
    """A node that exists.

    Attributes:
        event: The event that added it, with what was changed since.
        came_us: When it came, in microseconds since the origin, or None if unknown.
    """

    event: AddNode
    came_us: int | None


@final
@attrs.frozen
class RefusedEvent:
    """An event that was refused.

    Attributes:
        seq: The number of the decision.
        at_us: When, in microseconds since the origin.
        op: What the event is: ``add_ask``.
        message: Why it was refused.
    """

    seq: int
    at_us: int
    op: str
    message: str


@final
@attrs.frozen
class QueueObservation:
    """A queue at the last comparison.

    Attributes:
        config: Its settings.
        is_dynamic: Whether it is a dynamic queue.
    """

    config: QueueConfig
    is_dynamic: bool


KEPT: Final = 10_000
"""How many lives are kept in memory, the latest ones."""


# LISTS-15
@final
class AskEnding(StrEnum):
    """How an ask has ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    # TIME-3, TIME-8
    RUN_LIMIT = "run_limit"
    EXPIRED = "expired"
    # ONCE-2
    LOST = "lost"


_OF_REASONS: Final[Mapping[Reason | None, str]] = {
    Reason.COMPLETED: AskEnding.COMPLETED.value,
    Reason.FAILED: AskEnding.FAILED.value,
    Reason.CANCELLED: AskEnding.CANCELLED.value,
    Reason.REMOVED: AskEnding.CANCELLED.value,
    Reason.RUN_LIMIT: AskEnding.RUN_LIMIT.value,
    Reason.EXPIRED: AskEnding.EXPIRED.value,
    **dict.fromkeys((Reason.PREEMPTED, Reason.RECLAIMED, Reason.NODE_LOST), AskEnding.LOST.value),
}
_FAILED: Final = AskEnding.FAILED.value


@final
class EndedAsk(NamedTuple):
    """An ask that has ended; all instants and durations are in microseconds.

    Attributes:
        seq: The number of the decision that ended it; no two lives have the same one.
        ended_us: When it ended.
        app: Its application.
        ask: Its name.
        user: The user of its application, or None.
        queue: The path of its queue.
        node: The node that it held at the end, or None.
        came_us: When it was added, or None if unknown.
        started_us: When it was bound last, or None.
        ran_us: How long it was bound in all.
        held_us: How long it held a node in all.
        ending: How it has ended.
        message: What the decision log says of that, or None.
        exited: How its process has ended, or None.
        amounts: What it asked for, by resource type in base units.
        pod: The pod for which it stood, or None.
    """

    seq: int
    ended_us: int
    app: str
    ask: str
    user: str | None
    queue: str
    node: str | None
    came_us: int | None
    started_us: int | None
    ran_us: int
    held_us: int
    ending: str
    message: str | None
    exited: Exit | None
    amounts: Mapping[str, int]
    pod: PodIdentity | None = None

    @property
    def wait_us(self) -> int | None:
        """How long it was not bound, or None if unknown when it came."""
        return None if self.came_us is None else self.ended_us - self.came_us - self.ran_us

    @property
    def areas(self) -> dict[str, int]:
        """What it has used: amounts times the time for which it held a node."""
        return {kind: amount * self.held_us for kind, amount in self.amounts.items()}


_made: Final[Callable[[type[EndedAsk], tuple[object, ...]], EndedAsk]] = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - of any tuple


@final
@attrs.frozen
class EndedAskFilter:
    """Which lives are listed; None for all.

    Attributes:
        queue: Those in this queue, a path in lower case, and below it.
        app: Those of this application.
        ask: Those of this name.
        user: Those of this user.
        since_us: Those that ended at this instant or later, in microseconds since the origin.
        pod: Those that stood for such a pod.
    """

    queue: str | None = None
    app: str | None = None
    ask: str | None = None
    user: str | None = None
    since_us: int | None = None
    pod: PodFilter | None = None

    def keeps(self, life: EndedAsk) -> bool:
        """Return whether a life is wanted, but for the instant."""
        return (
            (self.app is None or life.app == self.app)
            and (self.ask is None or life.ask == self.ask)
            and (self.user is None or life.user == self.user)
            and (self.queue is None or f"{life.queue}.".startswith(f"{self.queue}."))
            and (self.pod is None or self.pod.admits(life.pod))
        )

    def latest(
        self, lives: Iterable[EndedAsk], before_seq: int | None, most: int
    ) -> Iterator[EndedAsk]:
        """Yield those that are wanted.

        Args:
            lives: The lives, latest first.
            before_seq: Only those that ended before this decision; None for all.
            most: How many at most.
        """
        for life in lives:
            if not most or (self.since_us is not None and life.ended_us < self.since_us):
                return
            if (before_seq is None or life.seq < before_seq) and self.keeps(life):
                most -= 1
                yield life


# LISTS-16
@final
class EndedAsks:
    """The lives that are known.

    Args:
        most: How many are kept, the latest ones; None for all.

    Attributes:
        kept: The lives, in the order in which they ended.
        after_seq: Every ask that was ended by a later decision than this one is in ``kept``.
    """

    def __init__(self, most: int | None = KEPT) -> None:
        self.kept: deque[EndedAsk] = deque(maxlen=most)
        self.after_seq = 0

    def end(self, seq: int, at_us: int, decision: Decision, app: AppEntry, entry: AskEntry) -> None:
        """Keep an ask that has ended.

        Args:
            seq: The number of the decision.
            at_us: When.
            decision: The decision that it is released.
            app: Its application.
            entry: What is known of it, with the node that it still holds.
        """
        ending, message = _OF_REASONS[decision.reason], decision.message
        taken_us, started_us = entry.taken_us, entry.bound_us
        held_us = 0 if taken_us is None else at_us - taken_us
        ran_us = 0 if started_us is None else at_us - started_us
        exited = None
        before = entry.earlier
        if before is not None:
            held_us, ran_us = held_us + before.held_us, ran_us + before.ran_us
            started_us = before.started_us if started_us is None else started_us
            exited = before.exited
            if before.unstarted is not None:
                ending, message = _FAILED, before.unstarted or None
        ended = app.account.ended
        ended[ending] = ended.get(ending, 0) + 1
        kept, event = self.kept, entry.event
        if len(kept) == kept.maxlen:
            self.after_seq = kept[0].seq
        # A named tuple takes twice as long to make in the usual way.
        life = _made(
            EndedAsk,
            (
                seq,
                at_us,
                event.app,
                decision.ask,
                app.event.user,
                app.queue,
                decision.node,
                entry.came_us,
                started_us,
                ran_us,
                held_us,
                ending,
                message,
                exited,
                event.wanted.amounts,
                entry.pod,
            ),
        )
        kept.append(life)
