"""The reasons why an ask is not running, and the explanation that a reader gets."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias, final

import attrs
from typing_extensions import override

from muster_core.enumerations import quick_members
from muster_core.values.records import MAP
from muster_core.values.snapshots import AskPlace

Fact: TypeAlias = str | int | float | bool | tuple[str, ...] | Mapping[str, int] | None
"""A detail of a reason, for programs: a name, an amount in base units, a count."""


# REASON-1, REASON-2
@final
@quick_members
class Code(StrEnum):
    """Why an ask is not running, the most important reason first.

    If several reasons hold, the first one in this order is the dominant one.
    """

    PERMIT_WAITING = "PermitWaiting"
    GANG_TIMED_OUT = "GangTimedOut"
    GANG_UNDEFINED = "GangUndefined"
    GANG_TOO_FEW_MEMBERS = "GangTooFewMembers"
    GANG_SURPLUS = "GangSurplus"
    NEVER_FITS = "NeverFits"
    QUEUE_MAX = "QueueMax"
    USER_LIMIT = "UserLimit"
    GROUP_LIMIT = "GroupLimit"
    QUEUE_MAX_APPS = "QueueMaxApps"
    STATE_AWARE_TURN = "StateAwareTurn"
    BLOCKED = "Blocked"
    GANG_CYCLE_INVALID = "GangCycleInvalid"
    BACKING_OFF = "BackingOff"
    BIND_FAILED = "BindFailed"
    NODE_KEPT = "NodeKept"
    HELD_BACK = "HeldBack"
    FRAGMENTED = "Fragmented"
    NO_NODE_FITS = "NoNodeFits"
    NODES_TAINTED = "NodesTainted"
    AFFINITY_MISMATCH = "AffinityMismatch"
    TOPOLOGY = "Topology"
    PREEMPTION_DELAY = "PreemptionDelay"
    RECLAIM_INSUFFICIENT = "ReclaimInsufficient"
    NOT_YOUR_TURN = "NotYourTurn"
    DRAINING = "Draining"
    USER_NOT_ALLOWED = "UserNotAllowed"

    @property
    def rules(self) -> tuple[str, ...]:
        """The ids of the rules of the specification that keep the ask from running."""
        return _ABOUT[self][1]

    @property
    def summary(self) -> str:
        """The reason in a few words."""
        return _ABOUT[self][0]


_ABOUT: Final[Mapping[Code, tuple[str, tuple[str, ...]]]] = {
    Code.PERMIT_WAITING: ("holds a node and waits for the rest of its gang", ("GANG-33",)),
    Code.GANG_TIMED_OUT: ("its gang has timed out", ("GANG-44",)),
    Code.GANG_UNDEFINED: ("its gang is not defined", ("GANG-21",)),
    Code.GANG_TOO_FEW_MEMBERS: ("its gang has fewer members than min_member", ("GANG-22",)),
    Code.GANG_SURPLUS: ("its gang has enough nodes, its group is not complete", ("GANG-24",)),
    Code.NEVER_FITS: (
        "fits on no node, even an empty one, or is over a max alone",
        ("ORDER-21", "CONFIG-25"),
    ),
    Code.QUEUE_MAX: ("its queue has too little headroom under max", ("ORDER-2", "ORDER-4")),
    Code.USER_LIMIT: ("its user has reached a limit", ("LIMIT-9", "LIMIT-13")),
    Code.GROUP_LIMIT: ("its group has reached a limit", ("LIMIT-9", "LIMIT-13")),
    Code.QUEUE_MAX_APPS: (
        "its queue runs as many applications as maxapplications allows",
        ("QUEUE-7",),
    ),
    Code.STATE_AWARE_TURN: ("another application must start first", ("ORDER-15", "ORDER-17")),
    Code.BLOCKED: ("an ask before it blocks its queue", ("ROUND-13", "BACKFILL-4")),
    Code.GANG_CYCLE_INVALID: ("there was no room for its whole gang", ("GANG-25", "GANG-28")),
    Code.BACKING_OFF: ("backs off after failures", ("BACKOFF-6",)),
    Code.BIND_FAILED: ("its last bind failed", ("FEED-34", "FEED-36")),
    Code.NODE_KEPT: ("its node is kept for a node service", ("SERVICE-10",)),
    Code.HELD_BACK: ("would delay what is reserved for another ask", ("BACKFILL-28",)),
    Code.FRAGMENTED: ("enough is free, but not on one node", ("ORDER-21",)),
    Code.NO_NODE_FITS: ("no node has room now", ("ORDER-21",)),
    Code.NODES_TAINTED: ("nodes have taints that it does not tolerate", ("AFFINITY-2",)),
    Code.AFFINITY_MISMATCH: ("nodes do not match its affinity", ("AFFINITY-5",)),
    Code.TOPOLOGY: ("no node with room is where its gang may be", ("TOPOLOGY-4", "TOPOLOGY-6")),
    Code.PREEMPTION_DELAY: ("may preempt after its preemption.delay", ("EVICTION-5",)),
    Code.RECLAIM_INSUFFICIENT: ("evictions would not make enough room", ("EVICTION-26",)),
    Code.NOT_YOUR_TURN: ("another ask is tried first", ("ROUND-9",)),
    Code.DRAINING: ("its queue is draining", ("QUEUE-20",)),
    Code.USER_NOT_ALLOWED: ("the configuration admits its user no more", ("QUEUE-4", "QUEUE-6")),
}


# REASON-1
@final
@attrs.frozen
class PendingReason:
    """One reason.

    Attributes:
        message: The reason in words, with names and figures.
        facts: The names and figures, for programs.
    """

    code: Code
    message: str
    facts: Mapping[str, Fact] = attrs.field(factory=MAP)

    @override
    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


# REASON-6
@final
@attrs.frozen
class Shortfall:
    """A shortfall: an amount that an ask or its gang lacks, even if nothing else ran.

    Attributes:
        message: A sentence with what is needed and what there is.
        facts: The amounts, for programs: ``needs`` and ``has`` by type, in base units; or how many
            ``members`` need a node, and for how many there is ``room``. The path of the ``queue``
            whose ``max`` it is, or which has the limit of a ``user`` or a ``group``.
    """

    message: str
    facts: Mapping[str, Fact] = attrs.field(factory=MAP)

    @override
    def __str__(self) -> str:
        return self.message


@final
@attrs.frozen
class ComparedKey:
    """One key by which two competitors are compared.

    Attributes:
        name: The compared key, such as ``queue.priority``, ``share`` or ``creation``.
        own: The value on the path to the explained ask.
        other: The value on the path to the ask that is tried first.
        decides: Whether it is the first key in which the two differ.
    """

    name: str
    own: str
    other: str
    decides: bool


@final
@attrs.frozen
class Level:
    """How two children of the same queue, or two asks of an application, are compared.

    Attributes:
        at: The path of the queue, or the name of the application.
        own: The child on the path to the explained ask.
        other: The child on the path to the ask that is tried first; the same as ``own`` while
            the two paths are the same.
    """

    at: str
    own: str
    other: str
    keys: tuple[ComparedKey, ...]


UNKNOWN_START: Final = "unknown"
"""A start with the end of an ask of which no end is known."""

Start: TypeAlias = int | Literal["unknown"] | None
"""A start in microseconds since the origin, :data:`UNKNOWN_START`, or None for never."""


@final
@attrs.frozen
class Forecast:
    """The start of a pending ask, as a copy of the state that runs on shows it.

    Attributes:
        fits_at: The start that a reservation of its party alone would have now.
        starts_at_us: When it is bound in the copy, which runs on without further events, in
            microseconds since the origin; None if it is not.
        stopped_us: The instant at which the copy was stopped before the ask was bound, because
            there was more to do than is done for an answer; None if it ran to its end.
        fits_now: Whether its party alone fits as things are, so that something else than room
            keeps it from a node.
    """

    fits_at: Start
    starts_at_us: int | None
    stopped_us: int | None = None
    fits_now: bool = False


# OUTLOOK-6
@final
@attrs.frozen
class Reserved:
    """The reservation for the party of a pending ask.

    Attributes:
        scope: The path of the queue whose ``scheduling.order`` it belongs to.
        start_us: When it starts, in microseconds since the origin; None if that is not known.
        places: The asks of the party, as ``app/ask``, and the node that is reserved for each, in
            the order of placing. The ask itself may not be among them, if it is a member of a gang
            that needs no more.
        waits_for: The asks, as ``app/ask``, with whose end it starts, and the node of each.
    """

    scope: str
    start_us: int | None
    places: tuple[tuple[str, str], ...]
    waits_for: tuple[tuple[str, str], ...]


# OUTLOOK-8
@final
@attrs.frozen
class Passed:
    """A reservation that an ask did not delay when it got its node.

    Attributes:
        ask: The first ask of the party, as ``app/ask``.
        others: How many other members of its group the reservation is for.
        start_us: When it started, in microseconds since the origin; None if that was not known.
        ends_us: When the ask was expected to end, in microseconds, which was not after the start;
            None if it fitted beside the party.
    """

    ask: str
    others: int
    start_us: int | None
    ends_us: int | None


@final
@attrs.frozen
class Outlook:
    """When a pending ask will start.

    Attributes:
        position: Its place, from 1, if all pending asks were taken in order and none was placed.
        forecast: The forecast from a copy of the state; None if there was none.
        reserved: The reservation for its party, or None.
    """

    position: int
    forecast: Forecast | None = None
    reserved: Reserved | None = None


PAST_SHARE_KEY: Final = "pastShare"
"""The name of the key that compares past usage."""


@final
@attrs.frozen
class Explanation:
    """Why an ask is not running at the end of a batch.

    Attributes:
        place: Its place: pending, parked or waiting.
        since_us: Since when it has been pending, in microseconds since the start.
        reasons: All reasons that hold, the dominant one first; never empty.
        first: The ask that the next round would try first, as ``app/ask``, or None.
        levels: How the paths to the two asks are compared at each level, from the root; empty if
            the ask is the first one itself or does not compete.
        outlook: When it will start; None if it is not pending, or that was not asked.
        shortfalls: The amounts that it lacks, even if nothing else ran; empty if there is enough,
            or that was not asked.
    """

    app: str
    ask: str
    queue: str
    place: AskPlace
    since_us: int
    reasons: tuple[PendingReason, ...]
    first: str | None = None
    levels: tuple[Level, ...] = ()
    outlook: Outlook | None = None
    shortfalls: tuple[Shortfall, ...] = ()

    @property
    def dominant(self) -> PendingReason:
        """The most important reason."""
        return self.reasons[0]

    # REASON-11
    @property
    def past_share(self) -> PendingReason | None:
        """Why another ask is tried before it, if that is for past usage."""
        codes = (reason for reason in self.reasons if reason.code is Code.NOT_YOUR_TURN)
        return next((one for one in codes if one.facts.get("key") == PAST_SHARE_KEY), None)

    @override
    def __str__(self) -> str:
        return str(self.dominant)
