"""Decisions: the results of the scheduler, for the decision log.

DECISION-1 to DECISION-10. A decision is announced once, in the order of ``seq``, and is final.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, final

from muster_core.enumerations import quick_members

MICROSECONDS = 1_000_000
"""Microseconds in a second; every instant inside Muster is a whole number of them."""


# DECISION-6
@final
@quick_members
class Kind(StrEnum):
    """The kind of a decision."""

    ASSIGNED = "assigned"
    WAITING = "waiting"
    BOUND = "bound"
    RELEASED = "released"
    REJECTED = "rejected"
    GANG_SATISFIED = "gang_satisfied"
    GANG_TIMED_OUT = "gang_timed_out"
    GANG_RETRY = "gang_retry"
    APP_STATE = "app_state"
    QUEUE_PRIORITY = "queue_priority"
    CONFIG = "config"
    WARNING = "warning"
    # BACKFILL-30
    RESERVED = "reserved"


# DECISION-7
@final
@quick_members
class Reason(StrEnum):
    """Why an ask was released."""

    COMPLETED = "completed"
    REMOVED = "removed"
    NODE_LOST = "node_lost"
    GANG_ROLLBACK = "gang_rollback"
    GANG_TIMEOUT = "gang_timeout"
    BIND_FAILED = "bind_failed"
    DEADLOCK = "deadlock"
    RECLAIMED = "reclaimed"
    PREEMPTED = "preempted"
    FAILED = "failed"
    # DECISION-11
    CANCELLED = "cancelled"
    # TIME-3
    RUN_LIMIT = "run_limit"
    # TIME-8
    EXPIRED = "expired"


GONE: Final = frozenset(
    {
        Reason.COMPLETED,
        Reason.REMOVED,
        Reason.FAILED,
        Reason.CANCELLED,
        Reason.RUN_LIMIT,
        Reason.EXPIRED,
    }
)
"""The reasons after which a released ask is gone; after `failed` only if it had no retry left."""

EVICTIONS: Final = frozenset({Reason.PREEMPTED, Reason.RECLAIMED})
"""The reasons for which an ask loses its node to another ask."""


_TRIED_AGAIN: Final = frozenset({Reason.BIND_FAILED, Reason.GANG_ROLLBACK})
"""The reasons after which even a bound ask that does not come back is pending again."""


# ONCE-1
def ends_ask(reason: Reason | None, retries: int, *, once: bool = False) -> bool:
    """Return whether an ask is gone after a release, or else wants a node again.

    Args:
        reason: Why it was released.
        retries: How many retries it had left.
        once: Whether it was bound and does not come back.
    """
    if once and reason not in _TRIED_AGAIN:
        return True
    return reason in GONE and not (retries and reason is Reason.FAILED)


@final
class Decision(NamedTuple):
    """One decision, before it has its number and its time.

    Attributes:
        kind: The kind of decision.
        app: The application concerned.
        ask: The name of the ask concerned, without its application.
        node: The node concerned.
        queue: The full path of the queue concerned.
        gang: The full name of the gang concerned, or of the gang of the ask.
        reason: Why an ask was released.
        state: The application's new state.
        priority: The queue's new priority; None in a ``queue_priority`` decision: it has none.
        message: A message for a person.
        index: The index of the event in the feed, from 0.
        line: The line of the event in the feed, from 1, if it is known.
        devices: In ``assigned``, the numbers of the devices that the ask takes of each type, in
            the order of the types; None if it takes none.
        start_us: When a reservation starts, in microseconds since the start; None if that is not
            known, and in all decisions that are not ``reserved``.
        over_max: In ``released``, the path of the queue that has more than its ``max``, if this is
            why the ask is preempted; None if another ask takes its place.
    """

    kind: Kind
    app: str | None = None
    ask: str | None = None
    node: str | None = None
    queue: str | None = None
    gang: str | None = None
    reason: Reason | None = None
    state: str | None = None
    priority: int | None = None
    message: str | None = None
    # No decision is searched for a value, so the field may hide the method of a tuple.
    index: int | None = None  # type: ignore[assignment]
    line: int | None = None
    devices: Mapping[str, tuple[int, ...]] | None = None
    start_us: int | None = None
    # QUOTA-13
    over_max: str | None = None


SHOWN: Final = -2
"""Up to this one a log line has the fields of a decision as they are, in their order."""

_FIELDS: Final = Decision._fields[1:SHOWN]
"""These fields, after the kind."""

_new: Final = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - makes any tuple
"""Creates a decision of all its fields, in two thirds of the time of ``Decision(…)``."""

_NO_REASON: Final = (None,) * 9
"""The last fields of a decision, from its reason."""


def decision_on_ask(
    kind: Kind,
    app: str,
    ask: str,
    node: str | None,
    queue: str,
    gang: str | None,
    *,
    reason: Reason | None = None,
    devices: Mapping[str, tuple[int, ...]] | None = None,
) -> Decision:
    """Create a decision about an ask, faster than ``Decision(…)`` does."""
    fields = (
        kind, app, ask, node, queue, gang, reason, None, None, None, None, None, devices, None, None
    )  # fmt: skip
    return _new(Decision, fields)


def decisions_on_bind(
    app: str, ask: str, node: str, queue: str, gang: str | None
) -> list[Decision]:
    """Create the decisions that an ask is assigned and bound, as fast."""
    assigned = (Kind.ASSIGNED, app, ask, node, queue, gang) + _NO_REASON  # noqa: RUF005 - quicker
    bound = (Kind.BOUND, app, ask, node, queue, gang) + _NO_REASON  # noqa: RUF005 - quicker
    return [_new(Decision, assigned), _new(Decision, bound)]


def decision_on_app(app: str, queue: str, state: str) -> Decision:
    """Create a decision about the new state of an application, as fast."""
    fields = (Kind.APP_STATE, app, None, None, queue, None, None, state, *_NO_REASON[2:])
    return _new(Decision, fields)


@final
class Announced(NamedTuple):
    """A decision with its number and its time in the decision log.

    Attributes:
        seq: Its number, from 1, without gaps.
        at_us: The instant of its batch, in microseconds since the start.
        decision: The decision.
    """

    seq: int
    at_us: int
    decision: Decision

    # DECISION-1, DECISION-4
    def as_map(self) -> dict[str, object]:
        """Return the log line as a map, without fields that are None except a queue's priority."""
        decision = self.decision
        line: dict[str, object] = {"seq": self.seq, "at": seconds(self.at_us)}
        line["kind"] = str(decision.kind)
        fields = zip(_FIELDS, decision[1:SHOWN])  # noqa: B905 - quicker
        line.update([field for field in fields if field[1] is not None])
        if decision.reason is not None:
            line["reason"] = str(decision.reason)
        if decision.priority is None and decision.kind is Kind.QUEUE_PRIORITY:
            line["priority"] = None
        # DEVICE-12
        if decision.devices is not None:
            line["devices"] = {kind: [*numbers] for kind, numbers in decision.devices.items()}
        # BACKFILL-30
        if decision.kind is Kind.RESERVED:
            start_us = decision.start_us
            line["start"] = None if start_us is None else seconds(start_us)
        return line


def announce(decisions: Iterable[Decision], first: int, at_us: int) -> list[Announced]:
    """Return decisions with their numbers and their time in the decision log.

    Args:
        decisions: The decisions, in order.
        first: The number of the first one.
        at_us: The instant of the batch, in microseconds.
    """
    numbered = enumerate(decisions, first)
    return [_new(Announced, (number, at_us, decision)) for number, decision in numbered]


# DECISION-3
def seconds(at_us: int) -> int | float:
    """Convert an instant to seconds: an int if it is whole, otherwise a float."""
    whole, fraction = divmod(at_us, MICROSECONDS)
    return at_us / MICROSECONDS if fraction else whole
