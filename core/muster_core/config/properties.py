"""The properties of queues: values, defaults, inheritance (CONFIG-39 to CONFIG-56, CONFIG-88).

There is one :class:`Property` for each name; :func:`resolve` fills in what a queue inherits.
Names are case-sensitive; values are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

import attrs

from muster_core.values.configuration.partition import (
    DeadlockPolicy,
    PreemptionPolicy,
    SchedulingOrder,
    Settings,
    SortPolicy,
)
from muster_core.values.errors import QuantityError
from muster_core.values.nearest import did_you_mean
from muster_core.values.quantities import (
    MAX_INT32,
    MIN_INT32,
    parse_duration,
    parse_go_int32,
    parse_integer,
    shown,
)

if TYPE_CHECKING:
    from muster_core.config.fields import Field

# Looking up a member of an enum takes ten times as long, and this is done for each queue.
_DISABLED: Final = PreemptionPolicy.DISABLED
_DEFAULT: Final = PreemptionPolicy.DEFAULT

# CONFIG-49
SYSTEM_CLASSES: Final = 1_000_000_000
"""The offset with which a user's priority can reach the system classes."""

# BACKFILL-1
MAX_DEPTH: Final = 100
"""The most reservations of a scope that may be in force at a time."""

T = TypeVar("T")


@final
@attrs.frozen
class Property(Generic[T]):
    """One property: its name, and the parser of its values."""

    name: str
    parse: Callable[[str], T]

    # CONFIG-41
    def of(self, own: Mapping[str, str], otherwise: T) -> T:
        """Return the queue's own value, or ``otherwise`` if it has none."""
        text = own.get(self.name)
        return otherwise if text is None else self.parse(text)


# CONFIG-40
def _choice(values: Mapping[str, T]) -> Callable[[str], T]:
    """Return a parser that accepts some texts, in any case."""

    def parse(text: str) -> T:
        lowered = text.lower()
        if lowered not in values:
            msg = f"{shown(text)} is not one of {', '.join(values)}"
            raise ValueError(msg)
        return values[lowered]

    return parse


# CONFIG-47
def _offset(text: str) -> int:
    """Parse a ``priority.offset``; as in YuniKorn, an invalid text counts as 0."""
    return parse_go_int32(text) or 0


# CONFIG-50
def _int32(text: str) -> int:
    return parse_integer(text, 0, MAX_INT32)


# CONFIG-88
def _signed_int32(text: str) -> int:
    return parse_integer(text, MIN_INT32, MAX_INT32)


# CONFIG-40, CONFIG-55
def _duration(text: str) -> int:
    # Only Go's form: in a YuniKorn file, a number without a unit is a mistake.
    return parse_duration(text.lower(), seconds=False)


def _duration_above_0(text: str) -> int:
    duration = _duration(text)
    if duration == 0:
        msg = f"{shown(text)} is not above 0"
        raise ValueError(msg)
    return duration


# BACKFILL-1
def _depth(text: str) -> int:
    return parse_integer(text, 1, MAX_DEPTH)


_ENABLED: Final = {"enabled": True, "disabled": False}

SORT_POLICY: Final = Property(
    "application.sort.policy", _choice({policy.value: policy for policy in SortPolicy})
)
SORT_PRIORITY: Final = Property("application.sort.priority", _choice(_ENABLED))
SORT_BLOCKING: Final = Property("application.sort.blocking", _choice(_ENABLED))
PRIORITY_FENCE: Final = Property("priority.policy", _choice({"default": False, "fence": True}))
PRIORITY_OFFSET: Final = Property("priority.offset", _offset)
QUEUE_PRIORITY: Final = Property("queue.priority", _int32)
_LIMIT: Final[Callable[[str], int | None]] = _signed_int32
PRIORITY_LIMIT: Final[Property[int | None]] = Property("priority.limit", _LIMIT)
QUEUE_RECLAIMABLE: Final = Property("queue.reclaimable", _choice({"true": True, "false": False}))
_MAY_CREATE: Final[Mapping[str, bool | None]] = _ENABLED
QUEUE_CREATE: Final[Property[bool | None]] = Property("queue.create", _choice(_MAY_CREATE))
PREEMPTION_POLICY: Final = Property(
    "preemption.policy", _choice({policy.value: policy for policy in PreemptionPolicy})
)
PREEMPTION_DELAY: Final = Property("preemption.delay", _duration)
REQUIRED_NODE: Final = Property("preemption.required.node", _choice(_ENABLED))
GANG_WAIT: Final = Property("gang.wait.time", _duration_above_0)
GANG_DEADLOCK: Final = Property(
    "gang.deadlock.policy", _choice({policy.value: policy for policy in DeadlockPolicy})
)
# BACKOFF-5
BIND_RETRY: Final = Property("bind.retry.delay", _duration)

# BACKFILL-1
SCHEDULING_ORDER: Final = Property(
    "scheduling.order", _choice({order.value: order for order in SchedulingOrder})
)
BACKFILL_DEPTH: Final = Property("backfill.depth", _depth)
_ESTIMATE: Final[Callable[[str], int | None]] = _duration_above_0
ESTIMATE: Final[Property[int | None]] = Property("estimate.default", _ESTIMATE)

# CONFIG-39
PROPERTIES: Final[Mapping[str, Property[Any]]] = {
    known.name: known
    for known in (
        SORT_POLICY,
        SORT_BLOCKING,
        SORT_PRIORITY,
        PRIORITY_FENCE,
        PRIORITY_OFFSET,
        PRIORITY_LIMIT,
        QUEUE_PRIORITY,
        QUEUE_RECLAIMABLE,
        QUEUE_CREATE,
        PREEMPTION_POLICY,
        PREEMPTION_DELAY,
        REQUIRED_NODE,
        GANG_WAIT,
        GANG_DEADLOCK,
        BIND_RETRY,
        SCHEDULING_ORDER,
        BACKFILL_DEPTH,
        ESTIMATE,
    )
}
"""All properties that Muster knows, by name."""


# CONFIG-39
def resolve(own: Mapping[str, str], parent: Settings | None) -> Settings:
    """Fill in defaults and inherited values.

    Args:
        own: The queue's own properties as written, already checked.
        parent: The settings of the parent, or None for the root.
    """
    above = Settings() if parent is None else parent
    disabled = above.preemption_policy is _DISABLED
    nothing: Mapping[str, str] = {}
    # CONFIG-54
    of_root = own if parent is None else nothing
    # CONFIG-48
    below_root = nothing if parent is None else own
    return Settings(
        # CONFIG-42
        sort_policy=SORT_POLICY.of(own, above.sort_policy),
        # CONFIG-44
        sort_by_priority=SORT_PRIORITY.of(own, above.sort_by_priority),
        # CONFIG-45
        blocking=SORT_BLOCKING.of(own, above.blocking),
        # CONFIG-46
        fence=PRIORITY_FENCE.of(below_root, otherwise=False),
        offset=PRIORITY_OFFSET.of(below_root, 0),
        queue_priority=QUEUE_PRIORITY.of(own, 0),
        # CONFIG-88
        priority_limit=PRIORITY_LIMIT.of(own, above.priority_limit),
        # CONFIG-52
        reclaimable=QUEUE_RECLAIMABLE.of(own, above.reclaimable),
        # CONFIG-51
        create=QUEUE_CREATE.of(own, above.create),
        # CONFIG-52
        preemption_policy=PREEMPTION_POLICY.of(own, _DISABLED if disabled else _DEFAULT),
        # CONFIG-53
        preemption_delay_us=PREEMPTION_DELAY.of(own, above.preemption_delay_us),
        # SERVICE-1
        required_node=REQUIRED_NODE.of(own, above.required_node),
        gang_wait_us=GANG_WAIT.of(of_root, above.gang_wait_us),
        deadlock_policy=GANG_DEADLOCK.of(of_root, above.deadlock_policy),
        bind_retry_us=BIND_RETRY.of(own, above.bind_retry_us),
        # BACKFILL-1
        scheduling_order=SCHEDULING_ORDER.of(own, SchedulingOrder.GREEDY),
        backfill_depth=BACKFILL_DEPTH.of(own, 1),
        estimate_us=ESTIMATE.of(own, above.estimate_us),
    )


def read_properties(field: Field, queue: str, *, is_root: bool) -> tuple[tuple[str, str], ...]:
    """Check the properties of a queue, and return them as written.

    Args:
        field: The map ``properties``.
        queue: The path of the queue, for warnings.
        is_root: Whether the queue is the root.
    """
    own: list[tuple[str, str]] = []
    for name, value in field.fields().items():
        text = value.text()
        if text is None:
            continue
        own.append((name, text))
        known = PROPERTIES.get(name)
        # CONFIG-56
        if known is None:
            value.warn(
                f"{queue}: unknown property {shown(name)} is kept, without effect",
                once=f"property {name}",
                guess=_guess(name),
            )
            continue
        # CONFIG-38
        try:
            known.parse(text)
        except (ValueError, QuantityError) as error:
            value.refuse(str(error))
            continue
        # CONFIG-48
        if known is PRIORITY_OFFSET and not is_root:
            _warn_of_offset(value, queue, text)
    return tuple(own)


_OF_SLURM: Final[Mapping[str, str]] = {
    "defaulttime": ESTIMATE.name,
    "schedulertype": SCHEDULING_ORDER.name,
    "bf_job_part_count_reserve": BACKFILL_DEPTH.name,
}
"""The properties that do what options of Slurm do, by the names of these in lower case."""


# CONFIG-87
def _guess(name: str) -> str:
    """Return which property may be meant, for the end of a warning."""
    meant = _OF_SLURM.get(name.lower())
    return did_you_mean(name, _alike(name)) if meant is None else f"; did you mean {meant}?"


# CONFIG-87
def _alike(name: str) -> list[str]:
    """Return the properties that may be meant: one with more parts in front is another one."""
    return [known for known in PROPERTIES if not name.endswith(f".{known}")]


# CONFIG-47, CONFIG-49
def _warn_of_offset(field: Field, queue: str, text: str) -> None:
    """Warn if an offset is invalid, or lifts priorities into the system classes."""
    offset = parse_go_int32(text)
    if offset is None and text:
        field.warn(f"{queue}: priority.offset {shown(text)} is not an int32: 0 is taken")
    elif offset is not None and offset >= SYSTEM_CLASSES:
        field.warn(
            f"{queue}: with priority.offset {offset} a user's priority reaches the system classes"
        )
