"""The properties of queues: values, defaults, inheritance (CONFIG-39 to CONFIG-56, CONFIG-88).

There is one :class:`Property` for each name, with the form of its values, its inheritance and its
meaning. The reader, :func:`resolve`, the page of a queue and the reference go by the table
:data:`PROPERTIES`. Names are case-sensitive; values are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar, assert_never, final

import attrs

from muster_core.config.document import Field
from muster_core.enumerations import quick_members
from muster_core.values.configuration import (
    DeadlockPolicy,
    PreemptionPolicy,
    QueueConfig,
    SchedulingOrder,
    Settings,
    SortPolicy,
)
from muster_core.values.errors import QuantityError
from muster_core.values.names import did_you_mean
from muster_core.values.records import MAP
from muster_core.values.resources import (
    MAX_INT32,
    MIN_INT32,
    format_duration,
    parse_duration,
    parse_go_int32,
    parse_integer,
    shown,
)

T = TypeVar("T")

_DEFAULTS: Final = Settings()


# CONFIG-39, CONFIG-46 to CONFIG-54
@final
@quick_members
class Inheritance(StrEnum):
    """The queue whose value of a property counts in a queue without a value of its own."""

    YES = "yes"
    NO = "no"
    NOT_ROOT = "no; not on `root`"
    DISABLED = "only `disabled`"
    RULES = "no: it rules all queues below"
    ROOT = "for `root`"


@final
@attrs.frozen
class Form(Generic[T]):
    """How the values of a property are written.

    Attributes:
        parse: Reads a value.
        write: Writes a value, so that ``parse`` returns it.
        words: Which values there are, in Markdown.
    """

    parse: Callable[[str], T]
    write: Callable[[T], str]
    words: str


@final
@attrs.frozen
class Property(Generic[T]):
    """One property of queues: all about it except its effect.

    Attributes:
        attribute: The attribute of :class:`Settings` that has its value.
        form: How its values are written.
        inheritance: The queue whose value counts in a queue without a value of its own.
        about: Its meaning: a part of a sentence that goes on after "It says".
        meanings: The meanings of its values, by value as written; empty if ``about`` says enough.
        unset: The text for None, if that is the default.
    """

    name: str
    attribute: str
    form: Form[T]
    inheritance: Inheritance
    about: str
    meanings: Mapping[str, str] = attrs.field(factory=MAP)
    unset: str = ""

    @property
    def default(self) -> T:
        """Its value where no queue has one."""
        return self.in_force(_DEFAULTS)

    def parse(self, text: str) -> T:
        """Parse a text.

        Raises:
            ValueError: If it is not a value of the property.
            QuantityError: Likewise.
        """
        return self.form.parse(text)

    # CONFIG-41
    def of(self, own: Mapping[str, str], otherwise: T) -> T:
        """Return the queue's own value, or ``otherwise`` if it has none."""
        text = own.get(self.name)
        return otherwise if text is None else self.parse(text)

    def in_force(self, settings: Settings) -> T:
        """Return the value that settings have."""
        value: T = getattr(settings, self.attribute)
        return value

    def text(self, value: T) -> str:
        """Return a value as a configuration has it, or the text for none."""
        return self.unset if value is None else self.form.write(value)

    def meaning(self, text: str) -> str:
        """Return the meaning of a value."""
        return self.meanings.get(text, self.about)

    def counts_on(self, *, is_root: bool) -> bool:
        """Return whether a value of its own counts in a queue."""
        match self.inheritance:
            # CONFIG-54
            case Inheritance.ROOT:
                return is_root
            # CONFIG-48
            case Inheritance.NOT_ROOT:
                return not is_root
            case Inheritance.YES | Inheritance.NO | Inheritance.DISABLED | Inheritance.RULES:
                return True
            case _:
                assert_never(self.inheritance)

    def is_handed_down(self, value: T) -> bool:
        """Return whether a queue without a value of its own has the value of its parent."""
        match self.inheritance:
            case Inheritance.YES | Inheritance.ROOT:
                return True
            # CONFIG-52
            case Inheritance.DISABLED:
                return self.text(value) == "disabled"
            # CONFIG-46, BACKFILL-1
            case Inheritance.NO | Inheritance.NOT_ROOT | Inheritance.RULES:
                return False
            case _:
                assert_never(self.inheritance)


# CONFIG-49
SYSTEM_CLASSES: Final = 1_000_000_000
"""The offset with which a user's priority can reach the system classes."""

# BACKFILL-1
MAX_DEPTH: Final = 100
"""The most reservations of a scope that may be in force at a time."""


# CONFIG-40
def _choice(values: Mapping[str, T]) -> Form[T]:
    """Return the form of values that are some texts, in any case."""
    written = {value: text for text, value in values.items()}

    def parse(text: str) -> T:
        lowered = text.lower()
        if lowered not in values:
            msg = f"{shown(text)} is not one of {', '.join(values)}"
            raise ValueError(msg)
        return values[lowered]

    return Form(parse, written.__getitem__, ", ".join(f"`{text}`" for text in values))


# CONFIG-47
def _offset(text: str) -> int:
    """Parse a ``priority.offset``; as in YuniKorn, an invalid text counts as 0."""
    return parse_go_int32(text) or 0


# CONFIG-50
def _int32(text: str) -> int:
    return parse_integer(text, 0, MAX_INT32)


# CONFIG-88
def _positive_int32(text: str) -> int:
    return parse_integer(text, 1, MAX_INT32)


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


# USAGE-1
def _half_life(text: str) -> int:
    duration = _duration(text)
    if 0 < duration < 1_000_000:
        msg = f"{shown(text)} is neither 0 nor at least 1s"
        raise ValueError(msg)
    return duration


# BACKFILL-1
def _depth(text: str) -> int:
    return parse_integer(text, 1, MAX_DEPTH)


_SWITCH: Final = _choice({"enabled": True, "disabled": False})
_DURATION: Final = Form(_duration, format_duration, "a duration, may be 0")
_ABOVE_0: Final = "a duration above 0"

# CONFIG-42
SORT_POLICY: Final = Property(
    "application.sort.policy",
    "sort_policy",
    _choice({policy.value: policy for policy in SortPolicy}),
    Inheritance.YES,
    "in which order a leaf serves its applications",
    {
        "fifo": "applications in the order in which they came",
        "fair": "applications with the smallest share first",
        "stateaware": "as fifo, but only one application starts at a time",
    },
)
# CONFIG-44
SORT_PRIORITY: Final = Property(
    "application.sort.priority",
    "sort_by_priority",
    _SWITCH,
    Inheritance.YES,
    "whether priorities count in the order",
    {
        "enabled": "higher priority comes first",
        "disabled": "priorities do not count in the order",
    },
)
# CONFIG-45
SORT_BLOCKING: Final = Property(
    "application.sort.blocking",
    "blocking",
    _SWITCH,
    Inheritance.YES,
    "whether an ask that does not fit blocks the asks behind it",
    {
        "enabled": "strict order: an ask that does not fit holds up those behind it",
        "disabled": "asks behind one that does not fit are tried",
    },
)
PRIORITY_FENCE: Final = Property(
    "priority.policy",
    "fence",
    _choice({"default": False, "fence": True}),
    Inheritance.NOT_ROOT,
    "whether priorities inside the queue count outside",
    {
        "default": "priorities below it count outside as well",
        "fence": "priorities below it do not count outside",
    },
)
PRIORITY_OFFSET: Final = Property(
    "priority.offset",
    "offset",
    Form(_offset, str, "a whole number that fits 32 bits; empty is 0"),
    Inheritance.NOT_ROOT,
    "what is added to its priority, as seen outside",
)
# AGING-1
AGING: Final = Property(
    "priority.aging",
    "aging_us",
    _DURATION,
    Inheritance.YES,
    "in which time the priority of an ask that is not bound grows by one; 0 is off",
)
# AGING-1
AGING_LIMIT: Final = Property(
    "priority.aging.limit",
    "aging_limit",
    Form(_positive_int32, str, f"from 1 to {MAX_INT32}"),
    Inheritance.YES,
    "by how much the priority of an ask that is not bound may grow",
)
_LIMIT: Final[Form[int | None]] = Form(_signed_int32, str, "a whole number that fits 32 bits")
# CONFIG-88
PRIORITY_LIMIT: Final[Property[int | None]] = Property(
    "priority.limit",
    "priority_limit",
    _LIMIT,
    Inheritance.YES,
    "the highest priority that a submitter of a service with tokens may name",
    unset="1000000000",
)
QUEUE_PRIORITY: Final = Property(
    "queue.priority",
    "queue_priority",
    Form(_int32, str, "from 0 to 2147483647"),
    Inheritance.NO,
    "which of the queues below one parent is served first: the one with the higher value",
)
# SHARE-1
SHARE_POLICY: Final = Property(
    "share.policy",
    "share_by_weight",
    _choice({"guaranteed": False, "weight": True}),
    Inheritance.NO,
    "what the queues below it deserve",
    {
        "guaranteed": "each queue below it deserves its guaranteed",
        "weight": "the queues below it share what it has by their weights",
    },
)
# SHARE-1
QUEUE_WEIGHT: Final = Property(
    "queue.weight",
    "weight",
    Form(_positive_int32, str, f"from 1 to {MAX_INT32}"),
    Inheritance.NO,
    "its weight among the queues below one parent",
)
# USAGE-1
HALF_LIFE: Final = Property(
    "usage.half.life",
    "half_life_us",
    Form(_half_life, format_duration, "a duration of at least 1 s, or 0"),
    Inheritance.YES,
    "in which time half of the usage of the queues below it, or of its users, is forgotten; 0 is off",
)
# USAGE-1
USAGE_USERS: Final = Property(
    "usage.users",
    "usage_of_users",
    _SWITCH,
    Inheritance.YES,
    "whether a leaf counts the usage of its users",
    {
        "enabled": "a leaf serves the applications of users who had less before those of others",
        "disabled": "the usage of users does not count",
    },
)
# CONFIG-52
QUEUE_RECLAIMABLE: Final = Property(
    "queue.reclaimable",
    "reclaimable",
    _choice({"true": True, "false": False}),
    Inheritance.YES,
    "whether other queues may reclaim from it",
    {
        "true": "others may reclaim what it has beyond its guaranteed",
        "false": "nobody may reclaim from it",
    },
)
_MAY_CREATE: Final[Mapping[str, bool | None]] = {"enabled": True, "disabled": False}
# CONFIG-51
QUEUE_CREATE: Final[Property[bool | None]] = Property(
    "queue.create",
    "create",
    _choice(_MAY_CREATE),
    Inheritance.YES,
    "whether applications may create queues below it",
    unset="it depends",
)
# CONFIG-52
PREEMPTION_POLICY: Final = Property(
    "preemption.policy",
    "preemption_policy",
    _choice({policy.value: policy for policy in PreemptionPolicy}),
    Inheritance.DISABLED,
    "from which queues its asks may take, and which may take from it",
    {
        "default": "its asks may take from others, and others from them",
        "fence": "victims for the asks inside of it are only looked for inside of it",
        "disabled": "its asks take nothing from others, and are no victims",
    },
)
# CONFIG-53
PREEMPTION_DELAY: Final = Property(
    "preemption.delay",
    "preemption_delay_us",
    _DURATION,
    Inheritance.YES,
    "how long an ask is pending before it may reclaim or preempt",
)
# QUOTA-1
QUOTA_PREEMPTION: Final = Property(
    "quota.preemption.delay",
    "quota_preemption_us",
    _DURATION,
    Inheritance.NO,
    "how long the queue may have more than its max, then asks of it are preempted; 0 is off",
)
# RUNTIME-1
MIN_RUNTIME: Final = Property(
    "preemption.min.runtime",
    "min_runtime_us",
    _DURATION,
    Inheritance.YES,
    "how long an ask is bound before others may take its place",
)
# SERVICE-1
REQUIRED_NODE: Final = Property(
    "preemption.required.node",
    "required_node",
    _SWITCH,
    Inheritance.YES,
    "whether asks that require a node are node services",
    {
        "enabled": "an ask with a required node may take its place there",
        "disabled": "a required node gives no right to a place there",
    },
)
# BACKOFF-5
BIND_RETRY: Final = Property(
    "bind.retry.delay",
    "bind_retry_us",
    _DURATION,
    Inheritance.YES,
    "how long an ask backs off after a bind that failed",
)
# BACKFILL-1
SCHEDULING_ORDER: Final = Property(
    "scheduling.order",
    "scheduling_order",
    _choice({order.value: order for order in SchedulingOrder}),
    Inheritance.RULES,
    "whether asks may overtake those that do not fit",
    {
        "greedy": "an ask that fits starts, whoever waits before it",
        "strict": "no ask starts before those that come first in the order",
        "backfill": "an ask may overtake others if it delays none of those that have a reservation",
    },
)
BACKFILL_DEPTH: Final = Property(
    "backfill.depth",
    "backfill_depth",
    Form(_depth, str, f"from 1 to {MAX_DEPTH}"),
    Inheritance.NO,
    "how many reservations are in force at a time, where the order is backfill",
)
_ESTIMATE: Final[Form[int | None]] = Form(
    _duration_above_0, lambda span_us: format_duration(span_us or 0), _ABOVE_0
)
ESTIMATE: Final[Property[int | None]] = Property(
    "estimate.default",
    "estimate_us",
    _ESTIMATE,
    Inheritance.YES,
    "how long asks are expected to take that have neither estimate, run_for nor a run limit",
    unset="unknown",
)
# TIME-1
RUN_LIMIT: Final = Property(
    "run.limit",
    "run_limit_us",
    _DURATION,
    Inheritance.YES,
    "how long an ask may be bound, then it is released and gone; 0 is no limit",
)
# CONFIG-54
GANG_WAIT: Final = Property(
    "gang.wait.time",
    "gang_wait_us",
    Form(_duration_above_0, format_duration, _ABOVE_0),
    Inheritance.ROOT,
    "how long a gang waits for its members, in the whole partition, if it does not say so itself",
)
# CONFIG-54
GANG_DEADLOCK: Final = Property(
    "gang.deadlock.policy",
    "deadlock_policy",
    _choice({policy.value: policy for policy in DeadlockPolicy}),
    Inheritance.ROOT,
    "what happens to gangs that wait for one another, in the whole partition",
    {
        "resolve": "one of the gangs that wait for one another gives up its nodes",
        "report": "gangs that wait for one another are only reported",
    },
)
# GANG-59
GANG_RETRY: Final = Property(
    "gang.retry.delay",
    "gang_retry_us",
    _DURATION,
    Inheritance.ROOT,
    "how long a gang that has timed out backs off before it is tried again, in the whole partition",
)
# GANG-61
GANG_RETRY_LIMIT: Final = Property(
    "gang.retry.limit",
    "gang_retry_limit",
    Form(_positive_int32, str, f"from 1 to {MAX_INT32}"),
    Inheritance.ROOT,
    "how many timeouts in a row of a group of gangs are followed by another try, in the whole "
    "partition",
)
# GANG-55
SECOND_TRY: Final = Property(
    "gang.second.try",
    "second_try",
    _SWITCH,
    Inheritance.ROOT,
    "whether a Strict group of which a member fits nowhere is placed otherwise at once, in the whole "
    "partition",
    {
        "enabled": "a Strict group of which a member fits nowhere is placed otherwise at once",
        "disabled": "a Strict group of which a member fits nowhere waits for the next round",
    },
)

# CONFIG-39
PROPERTIES: Final[Mapping[str, Property[Any]]] = {
    one.name: one for one in filter(lambda value: isinstance(value, Property), vars().values())
}
"""All properties that Muster knows, those above, by name; pages and the reference have them in this
order."""

_HANDED_DOWN: Final = [
    one
    for one in PROPERTIES.values()
    if one.inheritance in {Inheritance.YES, Inheritance.ROOT, Inheritance.DISABLED}
]


# CONFIG-39, CONFIG-41
def resolve(own: Mapping[str, str], parent: Settings | None) -> Settings:
    """Fill in defaults and inherited values.

    Args:
        own: The queue's own properties as written, already checked.
        parent: The settings of the parent, or None for the root.
    """
    values: dict[str, Any] = {}
    if parent is not None:
        for one in _HANDED_DOWN:
            value = getattr(parent, one.attribute)
            if one.inheritance is not Inheritance.DISABLED or one.is_handed_down(value):
                values[one.attribute] = value
    for name, text in own.items():
        known = PROPERTIES.get(name)
        if known is not None and known.counts_on(is_root=parent is None):
            values[known.attribute] = known.parse(text)
    return Settings(**values)


@final
@attrs.frozen
class InForce:
    """A property in a queue: its value there, and where that is from.

    Attributes:
        text: The value, as a configuration has it.
        origin: The path of the queue that sets it; None if it is the default.
        without_effect: The queue's own value, if that does not count; else None.
    """

    property: Property[Any]
    text: str
    origin: str | None
    without_effect: str | None


# CONFIG-39
def in_force(path: Sequence[QueueConfig]) -> Sequence[InForce]:
    """Return all properties of a queue, with the values that count in it."""
    return [_in_force(one, path) for one in PROPERTIES.values()]


def _in_force(one: Property[Any], path: Sequence[QueueConfig]) -> InForce:
    queue = path[-1]
    own = dict(queue.own_properties).get(one.name)
    if one is SCHEDULING_ORDER or one is BACKFILL_DEPTH:
        path = _up_to_scope(path)
    text = one.text(one.in_force(path[-1].settings))
    origin = _origin(one, path)
    return InForce(one, text, origin, None if origin == queue.path else own)


def _origin(one: Property[Any], path: Sequence[QueueConfig]) -> str | None:
    """Return the queue that sets the value that counts in the last of some queues."""
    for queue in reversed(path):
        if one.name in dict(queue.own_properties) and one.counts_on(is_root=queue is path[0]):
            is_from = queue is path[-1] or one.is_handed_down(one.in_force(queue.settings))
            return queue.path if is_from else None
    return None


# BACKFILL-2
def _up_to_scope(path: Sequence[QueueConfig]) -> Sequence[QueueConfig]:
    """Return the queues down to the one whose order and depth count in the last one."""
    greedy = SchedulingOrder.GREEDY
    for at, queue in enumerate(path, start=1):
        if queue.settings.scheduling_order is not greedy:
            return path[:at]
    return path


def read_properties(field: Field, queue: str, *, is_root: bool) -> tuple[tuple[str, str], ...]:
    """Check the properties of a queue, and return them as written."""
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
    "maxtime": RUN_LIMIT.name,
    "schedulertype": SCHEDULING_ORDER.name,
    "bf_job_part_count_reserve": BACKFILL_DEPTH.name,
}
"""The properties that do what options of Slurm do, by the names of these in lower case."""


# CONFIG-87
def _guess(name: str) -> str:
    """Return which property may be meant, for the end of a warning."""
    likely = _OF_SLURM.get(name.lower())
    return did_you_mean(name, _alike(name)) if likely is None else f"; did you mean {likely}?"


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
