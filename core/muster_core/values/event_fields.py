"""Values in the fields of events, and the checks of these fields.

:class:`Work` is what is to run for an ask, and :class:`Exit` is how it has ended: both are kept and
shown, and no decision depends on them.

The reader of feeds checks by the same rules, with messages for the author of the feed. A program
creates events itself, perhaps without a type checker: these checks refuse a value that no event
can have when the event is created, before it reaches any state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeAlias, TypeVar, cast, final

import attrs

from muster_core.gangs import NO_FIELDS, GangFields, Topology, TopologyRule
from muster_core.values.affinity import Affinity, Requirement, Taint, Toleration
from muster_core.values.devices import DeviceNeed, DeviceStock, check_device_type, names_devices
from muster_core.values.errors import EventError
from muster_core.values.names import canonical_gang
from muster_core.values.priority import HIGHEST_USER_PRIORITY, MAX_PRIORITY, MIN_PRIORITY
from muster_core.values.records import MAP
from muster_core.values.resources import MAX_INT32, Resources

__all__ = ["Exit", "Work", "text_problem"]


# FEED-83
@final
@attrs.frozen
class Work:
    """What is to run for an ask; no decision depends on it.

    Attributes:
        argv: The command as a program with its arguments; empty if it is a text for the shell, or
            if there is none.
        shell: The command as a text for the shell, or None.
        env: Environment variables that are added to those of the program that runs it.
        workdir: The working folder, or None.

    Raises:
        EventError: If no process can be started with these.
    """

    argv: tuple[str, ...] = ()
    shell: str | None = None
    env: Mapping[str, str] = attrs.field(factory=MAP, hash=False)
    workdir: str | None = None

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        if self.argv and self.shell is not None:
            msg = f"command: {self.argv!r} and {self.shell!r}: there is one"
            raise EventError(msg)
        for field, texts in (
            ("command", self.argv[:1] if self.shell is None else (self.shell,)),
            ("workdir", () if self.workdir is None else (self.workdir,)),
            ("env", self.env),
        ):
            if not all(texts):
                msg = f"{field}: '' is not a text of at least one character"
                raise EventError(msg)
        for field, text in self._texts():
            problem = text_problem(text)
            if problem is not None:
                msg = f"{field}: {text!r:.100} {problem}"
                raise EventError(msg)
        for name in self.env:
            if "=" in name:
                msg = f"env: {name!r:.100} has a '=', which the name of a variable must not have"
                raise EventError(msg)

    def _texts(self) -> list[tuple[str, object]]:
        """Return all texts, each with the field in which it is."""
        texts: list[tuple[str, object]] = [("command", text) for text in self.argv]
        if self.shell is not None:
            texts.append(("command", self.shell))
        texts += [("env", text) for pair in self.env.items() for text in pair]
        if self.workdir is not None:
            texts.append(("workdir", self.workdir))
        return texts

    @property
    def command(self) -> tuple[str, ...] | str | None:
        """A program with its arguments, a text for the shell, or None if nothing is to run."""
        return self.argv or self.shell


def text_problem(text: object) -> str | None:
    """Return why a text cannot be a part of a command or an environment, or None if it can."""
    if not isinstance(text, str):
        return "is not a text"
    return "has a NUL character, which no process can be given" if "\0" in text else None


MOST_STATUS: Final = 255
MOST_SIGNAL: Final = 64
MOST_USED: Final = 2**63 - 1


# LISTS-17
@final
@attrs.frozen
class Exit:
    """How the process of an ask has ended, and what it has used; no decision depends on it.

    Attributes:
        status: Its exit status, or None if a signal ended it, or it is unknown.
        signal: The number of the signal that ended it, or None.
        cpu_us: The time that it and its children ran on CPUs, in microseconds, or None.
        memory: The most memory that one of them had at a time, in bytes, or None.

    Raises:
        EventError: If a value is out of range, or there is none.
    """

    status: int | None = None
    signal: int | None = None
    cpu_us: int | None = None
    memory: int | None = None

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        for name, value, least, most in (
            ("exit_status", self.status, 0, MOST_STATUS),
            ("signal", self.signal, 1, MOST_SIGNAL),
            ("cpu_time", self.cpu_us, 0, MOST_USED),
            ("max_memory", self.memory, 0, MOST_USED),
        ):
            if value is not None and not (type(value) is int and least <= value <= most):
                msg = f"{name}: {value!r} is not a whole number between {least} and {most}"
                raise EventError(msg)
        if attrs.astuple(self) == (None,) * 4:
            msg = "exited: nothing is said of how the process has ended"
            raise EventError(msg)
        if self.status is not None and self.signal is not None:
            msg = f"signal: {self.signal}: a process that has an exit status was not ended by one"
            raise EventError(msg)

    @classmethod
    def of(cls, status: int) -> Exit:
        """Return the end of a process, from its exit status, or minus the number of a signal."""
        return cls(status) if status >= 0 else cls(signal=-status)


T = TypeVar("T")

Check: TypeAlias = "Callable[[object, attrs.Attribute[T], T], None]"

SYSTEM_PREFIX: Final = "system-"
"""The prefix of built-in priority classes; the name of a user's class must not have it."""

# PRIORITY-1
PRIORITIES: Final = (MIN_PRIORITY, MAX_PRIORITY)
"""The lowest and the highest priority of an ask."""

# CONFIG-50
QUEUE_PRIORITIES: Final = (0, MAX_PRIORITY)
QUEUE_WEIGHTS: Final = (1, MAX_PRIORITY)
"""The lowest and the highest priority of a queue."""

# PRIORITY-7
USERS_PRIORITIES: Final = (MIN_PRIORITY, HIGHEST_USER_PRIORITY)
"""The lowest and the highest priority of a user's class."""

LEAST: Final = 1
"""The lowest count, and the shortest duration in microseconds."""


# FEED-5
def is_owned_name(name: str) -> bool:
    """Return whether an application or an ask can have this name: ``/`` separates the two."""
    return "/" not in name


# PRIORITY-7
def is_users_class(name: str) -> bool:
    """Return whether a user's priority class can have this name."""
    return not name.startswith(SYSTEM_PREFIX)


# FEED-5
def check_name(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """Check that a value is a string that is not empty."""
    if type(value) is not str or not value:
        _check_text(attribute.name, value)


def check_text(_: object, attribute: attrs.Attribute[str], value: object) -> None:
    """Check that a value is a string, which may be empty."""
    if not isinstance(value, str):
        _refuse(attribute.name, value, "a text")


def check_owned_name(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """Check that a value can be the name of an application or an ask."""
    if type(value) is not str or not value:
        _check_text(attribute.name, value)
    if not is_owned_name(value):
        _refuse(attribute.name, value, "without a '/'")


def check_users_class(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """Check that a value can be the name of a user's priority class."""
    _check_text(attribute.name, value)
    if not is_users_class(value):
        _refuse(attribute.name, value, f"free of {SYSTEM_PREFIX!r} at its beginning")


# DEVICE-5
def written_amounts(_: object, attribute: attrs.Attribute[Resources], value: Resources) -> None:
    """Check that a value is an amount of resources that names no devices."""
    _check_type(attribute.name, value, Resources)
    _check_names(attribute.name, value)


# DEVICE-1
def check_stocks(
    _: object,
    attribute: attrs.Attribute[Mapping[str, DeviceStock]],
    value: Mapping[str, DeviceStock],
) -> None:
    """Check that a value is the devices of a node."""
    _check_devices(attribute.name, value, DeviceStock)


# DEVICE-2
def check_needs(
    _: object,
    attribute: attrs.Attribute[Mapping[str, DeviceNeed]],
    value: Mapping[str, DeviceNeed],
) -> None:
    """Check that a value is the device needs of an ask."""
    _check_devices(attribute.name, value, DeviceNeed)


def are_all(kind: type[object], values: object) -> bool:
    """Return whether a value is a tuple of values of exactly one type."""
    if type(values) is not tuple:
        return False
    for value in cast("tuple[object, ...]", values):  # noqa: SIM110 - quicker than a generator
        if type(value) is not kind:
            return False
    return True


def are_terms(values: object) -> bool:
    """Return whether a value is the affinity of an ask."""
    if type(values) is not tuple:
        return False
    for term in cast("tuple[object, ...]", values):  # noqa: SIM110 - quicker than a generator
        if not are_all(Requirement, term):
            return False
    return True


# AFFINITY-1
def check_taints(
    _: object, attribute: attrs.Attribute[tuple[Taint, ...]], value: tuple[Taint, ...]
) -> None:
    """Check that a value is the taints of a node."""
    _check_tuple(attribute.name, value, Taint)


# AFFINITY-3
def check_tolerations(
    _: object, attribute: attrs.Attribute[tuple[Toleration, ...]], value: tuple[Toleration, ...]
) -> None:
    """Check that a value is the tolerations of an ask."""
    _check_tuple(attribute.name, value, Toleration)


# AFFINITY-5
def check_affinity(_: object, attribute: attrs.Attribute[Affinity], value: Affinity) -> None:
    """Check that a value is the affinity of an ask."""
    _check_tuple(attribute.name, value, tuple)
    for at, term in enumerate(value):
        _check_tuple(f"{attribute.name}[{at}]", term, Requirement)


# QUANTITY-18
def check_amounts(event: object, attribute: attrs.Attribute[Resources], value: Resources) -> None:
    """Check that a value is an amount of resources, with at least one type above zero."""
    written_amounts(event, attribute, value)
    # DEVICE-2
    if not value and not getattr(event, "devices", None):
        _refuse(attribute.name, value, "an amount with at least one type above zero")


def number_check(lowest: int, highest: int | None = None) -> Check[int]:
    """Return a check that a value is an integer in a range, both bounds included."""
    right = f"a whole number of at least {lowest}"
    if highest is not None:
        right = f"a whole number from {lowest} to {highest}"

    def check(_: object, attribute: attrs.Attribute[int], value: int) -> None:
        if type(value) is not int or value < lowest or (highest is not None and value > highest):
            _refuse(attribute.name, value, right)

    return check


def check_gang(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """Check that a value is the full name of a gang."""
    _check_text(attribute.name, value)
    try:
        full = canonical_gang(value)
    except ValueError as error:
        msg = f"{attribute.name}: {error}"
        raise EventError(msg) from None
    if full != value:
        _refuse(attribute.name, value, f"a full name, such as {full!r}")


# GANG-2, GANG-3, GANG-5
def check_gang_fields(_: object, attribute: attrs.Attribute[GangFields], value: GangFields) -> None:
    """Check that a gang can have these fields, as far as they are given."""
    if value is NO_FIELDS:
        return
    _check_type(attribute.name, value, GangFields)
    for field, number in (
        ("min_member", value.min_member),
        ("total", value.total),
        ("wait_us", value.wait_us),
    ):
        if number is not None and (type(number) is not int or number < LEAST):
            _refuse(f"{attribute.name}.{field}", number, "a whole number of at least 1")
    if value.topology is not None:
        _check_topology(f"{attribute.name}.topology", value.topology)
    if value.user is not None:
        _check_text(f"{attribute.name}.user", value.user)
    if value.lacks_total():
        _refuse(f"{attribute.name}.total", value.total, f"at least min_member, {value.min_member}")


# TOPOLOGY-1
def _check_topology(field: str, value: object) -> None:
    if not isinstance(value, Topology):
        _refuse(field, value, "of the type Topology")
    _check_type(f"{field}.rule", value.rule, TopologyRule)
    _check_text(f"{field}.attribute", value.attribute)
    most = value.max
    if most is None:
        return
    if value.rule is not TopologyRule.SPREAD:
        _refuse(f"{field}.max", most, f"allowed with {value.rule.value}: it is for spread only")
    if type(most) is not int or not LEAST <= most <= MAX_INT32:
        _refuse(f"{field}.max", most, f"a whole number between {LEAST} and {MAX_INT32}")


# TOPOLOGY-1
def check_member_fields(
    _: object, attribute: attrs.Attribute[GangFields], value: GangFields
) -> None:
    """Check that annotations on members can say these fields."""
    check_gang_fields(_, attribute, value)
    if value.topology is not None:
        _refuse(f"{attribute.name}.topology", value.topology, "said by members: add_gang says it")
    # GANG-53
    if value.user is not None:
        _refuse(f"{attribute.name}.user", value.user, "said by members: add_gang says it")


def check_definition(_: object, attribute: attrs.Attribute[GangFields], value: GangFields) -> None:
    """Check that these fields are valid and enough to define a gang."""
    check_gang_fields(_, attribute, value)
    if value.min_member is None:
        _refuse(f"{attribute.name}.min_member", None, "a whole number of at least 1")


def type_check(kind: type[T]) -> Check[T]:
    """Return a check that a value is of a type."""

    def check(_: object, attribute: attrs.Attribute[T], value: object) -> None:
        if not isinstance(value, kind):
            _refuse(attribute.name, value, f"of the type {kind.__name__}")

    return check


def no_words() -> dict[str, str]:
    """Return an empty map; much faster to call than ``dict[str, str]``."""
    return {}


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        _refuse(field, value, "a text of at least one character")


def _check_type(field: str, value: object, kind: type[object]) -> None:
    if not isinstance(value, kind):
        _refuse(field, value, f"of the type {kind.__name__}")


def _check_tuple(field: str, value: object, kind: type[object]) -> None:
    _check_type(field, value, tuple)
    for at, part in enumerate(cast("tuple[object, ...]", value)):
        _check_type(f"{field}[{at}]", part, kind)


def _check_devices(field: str, value: object, kind: type[object]) -> None:
    if not isinstance(value, Mapping):
        _refuse(field, value, "a map from types of devices")
    for name, part in cast("Mapping[object, object]", value).items():
        check_device_type(name)
        _check_type(f"{field}.{name}", part, kind)


# DEVICE-5
def _check_names(field: str, value: Resources) -> None:
    named = names_devices(value)
    if named is not None:
        msg = f"{field}.{named}: devices are no resources: name them in 'devices'"
        raise EventError(msg)


def _refuse(field: str, value: object, right: str) -> NoReturn:
    msg = f"{field}: {value!r} is not {right}"
    raise EventError(msg)


A_PRIORITY: Final = number_check(*PRIORITIES)
A_QUEUE_PRIORITY: Final = number_check(*QUEUE_PRIORITIES)
A_QUEUE_WEIGHT: Final = number_check(*QUEUE_WEIGHTS)
A_USERS_PRIORITY: Final = number_check(*USERS_PRIORITIES)
AT_LEAST_ONE: Final = number_check(LEAST)
NOT_NEGATIVE: Final = number_check(0)
