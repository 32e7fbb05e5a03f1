"""Items: the events of a feed in typed form, each with its instant.

An item is an event, a refusal, or an ``expect`` with the state that the feed expects. Nothing is
compared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, TypeAlias, final

import attrs

from muster.feeds._fields import NUMBERS, Field, field, record
from muster.feeds._kinds import (
    ASK,
    BOOLEAN,
    INT32,
    NAME,
    RESOURCES,
    SECONDS,
    SEEN_USAGE,
    SHARE,
    TALLY,
    TEXT,
    TEXTS,
    Kind,
    listed,
    mapped,
    one_of,
    set_of,
)
from muster.feeds._raw import Raw
from muster_core.config.tree import is_null
from muster_core.events import Event
from muster_core.resources import Resources


@final
class Unset(Enum):
    """The type of :data:`UNSET`."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""The value of a field that ``expect`` does not name, if null is a value that it may name."""


@final
@attrs.frozen
class ExpectedQueue:
    """The expected state of a queue; None and :data:`UNSET` are not compared.

    Attributes:
        priority: Its priority; None if it must have none.
        allocated: The resources allocated in it, of all types.
        pending: The resources pending in it, of all types.
        share: Its fair share; ``math.inf`` for an infinite one.
        state: ``active`` or ``draining``.
        exists: Whether it must exist.
    """

    priority: int | Literal[Unset.UNSET] | None = UNSET
    allocated: Resources | None = None
    pending: Resources | None = None
    share: float | None = None
    state: str | None = None
    exists: bool | None = None


@final
@attrs.frozen
class ExpectedApp:
    """The expected state of an application; None and :data:`UNSET` are not compared.

    Attributes:
        state: Its state, such as ``Running``.
        priority: Its priority; None if none of its asks must be pending.
    """

    state: str | None = None
    priority: int | Literal[Unset.UNSET] | None = UNSET


@final
@attrs.frozen
class ExpectedGang:
    """The expected state of a gang; None is not compared.

    Attributes:
        waiting: How many members wait.
        bound: How many members are bound.
        satisfied: Whether it is satisfied.
        timed_out: Whether it is marked as timed out.
        cycle_valid: Whether its schedule cycle is valid.
    """

    waiting: int | None = None
    bound: int | None = None
    satisfied: bool | None = None
    timed_out: bool | None = None
    cycle_valid: bool | None = None


@final
@attrs.frozen
class ExpectedReservation:
    """What is expected to be reserved for an ask; None is not compared.

    Attributes:
        start_us: When it starts, in microseconds since the start, or :data:`UNKNOWN_START`.
        node: The node.
    """

    start_us: int | Literal["unknown"] | None = None
    node: str | None = None


@final
@attrs.frozen
class Expect:
    """The expected state; None is not compared. Asks are written ``app/ask``.

    Attributes:
        order: The asks bound since the last ``expect``, in order.
        bound: Exactly the bound asks.
        waiting: Exactly the waiting asks.
        pending: Exactly the pending asks.
        parked: Exactly the parked asks.
        placed: The nodes of some asks.
        queues: Some queues, by path as written.
        apps: Some applications, by name.
        gangs: Some gangs, by name as written.
        preempted: The victims of preemption since the last ``expect``, in order.
        reclaimed: The victims of reclaim since the last ``expect``, in order.
        rejected: A part of the message of each refusal since the last ``expect``, in order.
        warnings: A part of each warning since the last ``expect``, in order.
        reasons: A part of a reason why an ask is pending, for some asks.
        devices: The numbers of the devices that some asks hold, of all types.
        reservations: What is reserved for some asks; None for an ask without a reservation.
        usage: What some queues and users have used lately, by path or ``path/user`` as written.
    """

    order: tuple[str, ...] | None = None
    bound: frozenset[str] | None = None
    waiting: frozenset[str] | None = None
    pending: frozenset[str] | None = None
    parked: frozenset[str] | None = None
    placed: Mapping[str, str] | None = None
    queues: Mapping[str, ExpectedQueue] | None = None
    apps: Mapping[str, ExpectedApp] | None = None
    gangs: Mapping[str, ExpectedGang] | None = None
    preempted: tuple[str, ...] | None = None
    reclaimed: tuple[str, ...] | None = None
    rejected: tuple[str, ...] | None = None
    warnings: tuple[str, ...] | None = None
    reasons: Mapping[str, str] | None = None
    devices: Mapping[str, Mapping[str, tuple[int, ...]]] | None = None
    reservations: Mapping[str, ExpectedReservation | None] | None = None
    usage: Mapping[str, Resources] | None = None


def _parse_priority(value: Raw) -> int | None:
    return None if is_null(value) else INT32.parse(value)


UNKNOWN_START: Final = "unknown"
"""The ``start`` of a reservation that begins with the end of an ask of which no end is known."""


def _parse_start(value: Raw) -> int | Literal["unknown"]:
    return UNKNOWN_START if value == UNKNOWN_START else SECONDS.parse(value)


_START: Final = Kind("seconds, duration or `unknown`", _parse_start, SECONDS.normal)

# EXPECT-15
RESERVATION_FIELDS: Final = (
    field(
        "start",
        _START,
        "when it starts; `unknown`: with an end that is not known",
        attribute="start_us",
    ),
    field("node", NAME, "the node"),
)
"""The fields of an expected reservation."""

_RESERVATION: Final = record(RESERVATION_FIELDS, ExpectedReservation, "what is reserved for an ask")


def _parse_reservation(value: Raw) -> ExpectedReservation | None:
    return None if is_null(value) else _RESERVATION.parse(value)


_MAYBE_RESERVED: Final = Kind("what is reserved, or null", _parse_reservation, _RESERVATION.normal)

_PRIORITY: Final = Kind("int32 or null", _parse_priority, INT32.normal)
_ASKS: Final = listed(ASK, "list of `app/ask`")
_ASK_SET: Final = set_of(ASK, "list of `app/ask`, in any order")

# EXPECT-5
QUEUE_FIELDS: Final = (
    field("priority", _PRIORITY, "its `currentPriority`; null: it has none"),
    field("allocated", RESOURCES, "what is allocated below it"),
    field("pending", RESOURCES, "what is pending below it"),
    field("share", SHARE, 'its fair share; an infinite one is `"inf"`'),
    field("state", one_of("active", "draining"), "whether it drains"),
    field("exists", BOOLEAN, "whether there is such a queue"),
)
"""The fields of an expected queue."""

# EXPECT-6
APP_FIELDS: Final = (
    field(
        "state",
        one_of("New", "Accepted", "Starting", "Running", "Completing", "Completed"),
        "its state",
    ),
    field("priority", _PRIORITY, "the highest priority of its pending asks; null: none is pending"),
)
"""The fields of an expected application."""

# EXPECT-7
GANG_FIELDS: Final = (
    field("waiting", TALLY, "how many members wait"),
    field("bound", TALLY, "how many members are bound"),
    field("satisfied", BOOLEAN, "whether it is satisfied"),
    field("timed_out", BOOLEAN, "whether it is marked as timed out"),
    field("cycle_valid", BOOLEAN, "whether its schedule cycle is valid"),
)
"""The fields of an expected gang."""

EXPECT_FIELDS: Final[tuple[Field, ...]] = (
    field("order", _ASKS, "the asks bound since the last `expect`, in order"),
    field("bound", _ASK_SET, "exactly the asks that are bound now"),
    field("waiting", _ASK_SET, "exactly the asks that wait now"),
    field("pending", _ASK_SET, "exactly the asks that are pending now"),
    field("parked", _ASK_SET, "exactly the asks that are parked now"),
    field(
        "placed",
        mapped(ASK, NAME, "map from `app/ask` to a node"),
        "the nodes of some asks; only the named asks are compared",
    ),
    field(
        "queues",
        mapped(
            NAME,
            record(QUEUE_FIELDS, ExpectedQueue, "what is expected of a queue"),
            "map from paths",
        ),
        "the state of some queues",
    ),
    field(
        "apps",
        mapped(
            NAME,
            record(APP_FIELDS, ExpectedApp, "what is expected of an application"),
            "map from names",
        ),
        "the state of some applications",
    ),
    field(
        "gangs",
        mapped(
            NAME, record(GANG_FIELDS, ExpectedGang, "what is expected of a gang"), "map from names"
        ),
        "the state of some gangs",
    ),
    field("preempted", _ASKS, "the victims of preemption since the last `expect`, in order"),
    field("reclaimed", _ASKS, "the victims of reclaim since the last `expect`, in order"),
    field(
        "rejected",
        TEXTS,
        "parts of the messages of the refused events since the last `expect`, in order and number",
    ),
    field("warnings", TEXTS, "parts of the warnings since the last `expect`, in order and number"),
    field(
        "reasons",
        mapped(ASK, TEXT, "map from `app/ask` to a text"),
        "a part of one of the reasons for which an ask is pending",
    ),
    field(
        "devices",
        mapped(ASK, NUMBERS, "map from `app/ask` to devices"),
        "the numbers of the devices of some asks, by type; only the named asks are compared",
    ),
    field(
        "reservations",
        mapped(ASK, _MAYBE_RESERVED, "map from `app/ask`"),
        "what is reserved for some asks; null: nothing is",
    ),
    # EXPECT-16
    field(
        "usage",
        mapped(NAME, SEEN_USAGE, "map from paths"),
        "what some queues, and users as `path/user`, have used lately, in units times seconds, "
        "rounded down",
    ),
)
"""The fields of ``expect``."""


@final
@attrs.frozen
class Settle:
    """An event that closes the batch, so that the rounds run."""


@final
@attrs.frozen
class Refused:
    """An event that is invalid; it does not change the state.

    Attributes:
        message: Names the field as written, and the invalid value.
    """

    message: str


Content: TypeAlias = Event | Settle | Expect | Refused
"""The content of an item."""


@final
@attrs.frozen
class FeedItem:
    """One event of a feed, in typed form.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line in the feed, from 1, or None if the encoding has no lines.
        at_us: Its instant, in microseconds since the start; not before that of the previous item.
        content: The event itself.
    """

    index: int
    line: int | None
    at_us: int
    content: Content
