"""Fields of events and of the maps inside them: a declarative table for each.

Here are the fields of priority classes, commands, outcomes, devices, gangs and topologies. They do
not know the operations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar, cast, final

import attrs

from muster.feeds._kinds import (
    NAME,
    TALLY,
    TEXT,
    WORD,
    EventFields,
    FieldError,
    Kind,
    as_written,
    display_value,
    integer,
    listed,
    long_enough,
    mapped,
    one_of,
    refused,
)
from muster.feeds._raw import Raw
from muster_core.config.tree import Plain, is_null
from muster_core.errors import QuantityError
from muster_core.events import Exit, Outcome, Work
from muster_core.gangs import GangMode, Topology, TopologyRule
from muster_core.values.devices import (
    MOST_DEVICES,
    MOST_WANTED,
    WHOLE,
    DeviceNeed,
    DeviceStock,
    is_device_type,
)
from muster_core.values.event_fields import (
    LEAST,
    MOST_SIGNAL,
    MOST_STATUS,
    SYSTEM_PREFIX,
    USERS_PRIORITIES,
    is_users_class,
    text_problem,
)
from muster_core.values.names import DEFAULT_NAMESPACE, canonical_gang, did_you_mean
from muster_core.values.resources import MAX_INT32, parse_duration, parse_integer

T = TypeVar("T")

Values: TypeAlias = Mapping[str, object]
"""Typed values by attribute."""


@final
@attrs.frozen
class Field:
    """One field of a map.

    Attributes:
        name: Its name as written.
        kind: The values that it accepts.
        doc: What it means, for the reference.
        required: Whether it is required.
        attribute: The name of the value in the typed event; by default ``name``.
        beside: The name of another field, beside which this one is optional, and what it then
            accepts; None if there is no such field.
    """

    name: str
    kind: Kind[object]
    doc: str
    required: bool = False
    attribute: str = attrs.field(
        default=attrs.Factory(lambda self: self.name, takes_self=True), kw_only=True
    )
    beside: tuple[str, Kind[object]] | None = None

    def rule(self, written: Mapping[str, Raw]) -> tuple[Kind[object], bool]:
        """Return what the field accepts in a map, and whether it is required there."""
        if self.beside is not None and not is_null(written.get(self.beside[0])):
            return self.beside[1], False
        return self.kind, self.required


def field(
    name: str,
    kind: Kind[T],
    doc: str,
    *,
    required: bool = False,
    attribute: str | None = None,
    beside: tuple[str, Kind[T]] | None = None,
) -> Field:
    """Make a field; the type of its kind is widened to ``Kind[object]``."""
    other = None if beside is None else (beside[0], beside[1].general)
    return Field(name, kind.general, doc, required, attribute=attribute or name, beside=other)


# FEED-14
def parse_fields(
    fields: Mapping[str, Field],
    written: Mapping[str, Raw],
    problems: list[FieldError],
    *,
    null_is_absent: bool,
) -> dict[str, object]:
    """Parse every field of a map; add the problems to ``problems``.

    Args:
        fields: The known fields, by name.
        written: The map as written.
        problems: Gets every problem, in the order of the map, missing fields last.
        null_is_absent: Whether null in an optional field is the same as no field.

    Returns:
        The typed values by attribute, without the invalid ones.
    """
    values: dict[str, object] = {}
    for name, value in written.items():
        known = fields.get(name)
        if known is None:
            problems.append(_unknown(name, value, fields))
            continue
        kind, required = (
            (known.kind, known.required) if known.beside is None else known.rule(written)
        )
        if required or not (is_null(value) and null_is_absent):
            try:
                values[known.attribute] = kind.parse(value)
            except FieldError as error:
                problems.append(error.inside(name))
    problems.extend(
        FieldError("is missing", known.name)
        for known in fields.values()
        if known.required and known.name not in written and known.rule(written)[1]
    )
    return values


# FEED-80
@lru_cache(maxsize=256)  # a mistake is repeated in each event
def guessed(name: str, known: tuple[str, ...]) -> str:
    """Return which of the known names may have been meant, for the end of a message."""
    return did_you_mean(name, known)


def _unknown(name: str, value: Raw, fields: Mapping[str, Field]) -> FieldError:
    names = f"the fields are: {', '.join(fields)}" if fields else "there are no fields here"
    guess = guessed(str(name), tuple(fields))
    return FieldError(f"unknown field (with {display_value(value)}); {names}{guess}", name[:80])


def normal_fields(fields: Mapping[str, Field], written: Mapping[str, Raw]) -> dict[str, Raw]:
    """Return every field in the form that every encoding can write; see :class:`Kind`."""
    return {
        str(name): fields[name].kind.normal(value) if name in fields else as_written(value)
        for name, value in written.items()
    }


@lru_cache
def _defaults(kind: Any) -> Mapping[str, object]:  # noqa: ANN401 - any class of attrs
    found = {known.name: known.default for known in attrs.fields(kind)}
    return {
        name: default.factory() if hasattr(default, "factory") else default
        for name, default in found.items()
    }


def attributes_of(value: object) -> dict[str, object]:
    """Return the attributes of a typed value that differ from their defaults, in their order."""
    kind: Any = type(value)
    defaults = _defaults(kind).items()
    return {name: own for name, default in defaults if (own := getattr(value, name)) != default}


def write_fields(fields: Mapping[str, Field], values: Values) -> EventFields:
    """Return the fields of a map that has these values by attribute."""
    known = {field.attribute: field for field in fields.values()}
    return {known[name].name: known[name].kind.write(value) for name, value in values.items()}


def record(fields: Sequence[Field], build: Callable[..., T], name: str) -> Kind[T]:
    """Return the kind of a map with named fields."""
    table = {known.name: known for known in fields}

    def parse(value: Raw) -> T:
        if not isinstance(value, dict):
            msg = f"{display_value(value)} is not a map"
            raise FieldError(msg)
        problems: list[FieldError] = []
        values = parse_fields(table, value, problems, null_is_absent=False)
        if problems:
            raise problems[0].inside(".")
        return build(**values)

    def normal(value: Raw) -> Raw:
        return normal_fields(table, value) if isinstance(value, dict) else as_written(value)

    return Kind(name, parse, normal, lambda value: write_fields(table, attributes_of(value)))


_NEVER: Final = "Never"
_PREEMPTS: Final = "PreemptLowerPriority"


def _parse_class_name(value: Raw) -> str:
    name = NAME.parse(value)
    if not is_users_class(name):
        msg = f"{display_value(value)} starts with '{SYSTEM_PREFIX}', which is for the built-in classes"
        raise FieldError(msg)
    return name


CLASS_NAME: Final = Kind("name, not starting with `system-`", _parse_class_name, NAME.normal)
CLASS_VALUE: Final = integer(*USERS_PRIORITIES, f"int32, at most {USERS_PRIORITIES[1]}")
_POLICY: Final = one_of(_NEVER, _PREEMPTS)
# PRIORITY-8
CLASS_PREEMPTS: Final = Kind(
    _POLICY.name,
    lambda value: _POLICY.parse(value) == _PREEMPTS,
    _POLICY.normal,
    lambda preempts: _PREEMPTS if preempts else _NEVER,
)


WORK_FIELDS: Final = ("command", "env", "workdir")
"""The fields of ``add_ask`` that become its :class:`Work`."""


def _given(kind: Kind[str]) -> Kind[str]:
    """Return the kind of those texts of a kind that a process can be given."""

    def parse(value: Raw) -> str:
        text = kind.parse(value)
        problem = text_problem(text)
        if problem is not None:
            raise refused(value, problem)
        return text

    return Kind(kind.name, parse, kind.normal)


def _parse_variable(value: Raw) -> str:
    name = _given(NAME).parse(value)
    if "=" in name:
        raise refused(value, "has a '=', which the name of a variable must not have")
    return name


_ARGUMENTS: Final = listed(_given(TEXT), "list of texts")
_SCRIPT: Final = _given(TEXT)


# FEED-83
def _parse_command(value: Raw) -> tuple[str, ...] | str:
    if isinstance(value, list):
        arguments = _ARGUMENTS.parse(value)
        if not arguments or not arguments[0]:
            raise refused(value, "names no program: the first text of a command is its program")
        return arguments
    script = _SCRIPT.parse(value)
    if not script:
        raise refused(value, "is empty: a command has at least one character")
    return script


def _command_normal(value: Raw) -> Raw:
    if isinstance(value, list):
        return _ARGUMENTS.normal(value)
    if isinstance(value, bool | float):
        # Not a command, and in a list YAML would write it like a text: two lists are refused.
        return [[as_written(value)]]
    return _SCRIPT.normal(value)


def _write_command(command: tuple[str, ...] | str) -> Raw:
    return command if isinstance(command, str) else [*command]


COMMAND: Final = Kind(
    "text, or list of texts",
    _parse_command,
    _command_normal,
    _write_command,
)
ENV: Final = mapped(
    Kind("name without `=`", _parse_variable, NAME.normal), _given(WORD), "map of texts"
)
WORKDIR: Final = _given(NAME)


def work_of(values: Values) -> Work | None:
    """Return the work that the fields of an event describe, or None if they are all empty."""
    command = cast("tuple[str, ...] | str | None", values.get("command"))
    env = cast("Mapping[str, str]", values.get("env", {}))
    workdir = cast("str | None", values.get("workdir"))
    if command is None and not env and workdir is None:
        return None
    if isinstance(command, str):
        return Work(shell=command, env=env, workdir=workdir)
    return Work(command or (), env=env, workdir=workdir)


def parts_of_work(work: Work) -> Values:
    """Return the fields of an event that describe work."""
    parts = {"command": work.argv or work.shell, "env": work.env or None, "workdir": work.workdir}
    return {name: value for name, value in parts.items() if value is not None}


EXIT_FIELDS: Final = ("status", "signal", "cpu_us", "memory")
"""The attributes of :class:`Exit`, which the fields of ``release`` become."""

EXIT_STATUS: Final = integer(0, MOST_STATUS, f"0 … {MOST_STATUS}")
SIGNAL: Final = integer(1, MOST_SIGNAL, f"1 … {MOST_SIGNAL}")
BYTES: Final = attrs.evolve(TALLY, name="bytes")

_OUTCOME: Final = one_of(*(outcome.value for outcome in Outcome))
# BACKOFF-11
OUTCOME: Final = Kind(
    _OUTCOME.name,
    lambda value: Outcome(_OUTCOME.parse(value)),
    _OUTCOME.normal,
    str,
)


def exit_of(values: Values) -> Exit | None:
    """Return the exit of a process that the fields of an event describe; None without them."""
    found = {name: cast("int | None", values.get(name)) for name in EXIT_FIELDS}
    return None if all(value is None for value in found.values()) else Exit(**found)


def _parse_type(value: Raw) -> str:
    name = NAME.parse(value)
    if not is_device_type(name):
        raise refused(value, "is no RFC 1123 label, as the name of a type of devices must be")
    return name


def _parse_models(value: Raw) -> tuple[str, ...]:
    models = _NAMES.parse(value)
    if not models:
        raise FieldError("the list is empty: leave it out for any model")
    return models


def _need(
    milli: int | None = None, count: int | None = None, models: tuple[str, ...] | None = None
) -> DeviceNeed:
    if (milli is None) == (count is None):
        raise FieldError("one of milli and count says how much of the devices is needed")
    if milli == WHOLE:
        milli, count = None, 1
    return DeviceNeed(milli or 0, count or 0, models)


def _share(value: Raw) -> int | None:
    """Return a number between 0 and 1 in thousandths, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | Plain):
        return None
    try:
        part = Decimal(str(value))
        return max(1, int(part * WHOLE)) if 0 < part < 1 else None
    except InvalidOperation:  # No number, or one that has no order, such as nan.
        return None


def _explained(number: Kind[int], explain: Callable[[int | None], str]) -> Kind[int]:
    """Return the same kind of number, whose refusal says what would be right.

    Args:
        number: The kind.
        explain: Gets the thousandths of a number below 1, else None, and returns the message.
    """

    def parse(value: Raw) -> int:
        try:
            return number.parse(value)
        except FieldError:
            if isinstance(value, str) and not isinstance(value, Plain):
                raise  # The quotes are what is wrong.
            raise FieldError(f"{display_value(value)} {explain(_share(value))}") from None

    return Kind(number.name, parse, number.normal)


def _about_number(share: int | None) -> str:
    if share is not None:
        return f"is not a whole number: write {{milli: {share}}} for this share of one device"
    return f"{_NO_COUNT}, or {{milli: 500}} for half of one"


def _about_count(share: int | None) -> str:
    if share is not None:
        return f"is not a whole number: write milli: {share} in place of count for this share"
    return f"{_NO_COUNT}, or milli in place of count for a share of one"


def _about_milli(share: int | None) -> str:
    bounds = f"is not a whole number between 1 and {WHOLE}"
    if share is not None:
        return f"{bounds}, the thousandths of one device: write {share} for this share"
    return f"{bounds}, the thousandths of one device: whole ones are written with count"


def _number_or(number: Kind[int], parts: Kind[T], make: Callable[[int], T], name: str) -> Kind[T]:
    """Return the kind of a map, or of a number in its place."""

    def parse(value: Raw) -> T:
        return parts.parse(value) if isinstance(value, dict) else make(number.parse(value))

    def normal(value: Raw) -> Raw:
        return parts.normal(value) if isinstance(value, dict) else number.normal(value)

    def write(value: T) -> Raw:
        match parts.write(value):
            case {"count": count, **others} if not others:
                return count
            case written:
                return written

    return Kind(name, parse, normal, write)


def _by_type(parts: Kind[T], name: str) -> Kind[Mapping[str, T]]:
    """Return the kind of a map from types of devices, which is read in the order of the types."""
    table = mapped(Kind("type of devices", _parse_type, NAME.normal), parts, name)

    def in_order(value: Mapping[str, T]) -> Mapping[str, T]:
        return dict(sorted(value.items()))

    return Kind(
        name,
        lambda value: in_order(table.parse(value)),
        table.normal,
        lambda value: table.write(in_order(value)),
    )


_NAMES: Final = listed(NAME, "list of names")
_MODELS: Final = attrs.evolve(_NAMES, parse=_parse_models)
_THERE: Final = integer(1, MOST_DEVICES, f"1 … {MOST_DEVICES}")
_NO_COUNT: Final = "is not a whole number of 1 or more: write how many whole devices are needed"
_WANTED: Final = integer(1, MOST_WANTED, "whole number, 1 or more")
_COUNT: Final = _explained(_WANTED, _about_count)
_MILLI: Final = _explained(integer(1, WHOLE, f"1 … {WHOLE}"), _about_milli)

# DEVICE-1
STOCK_FIELDS: Final = (
    field("count", _THERE, "how many there are", required=True),
    field("model", NAME, "their model"),
)
"""The fields of the devices of one type on a node."""

# DEVICE-2
NEED_FIELDS: Final = (
    field("milli", _MILLI, "a share of one device, in thousandths; 1000 is a whole one"),
    field("count", _COUNT, "how many whole ones"),
    field("models", _MODELS, "the models that will do; default: any"),
)
"""The fields of what an ask needs of one type; it has one of ``milli`` and ``count``."""

STOCKS: Final = _by_type(
    _number_or(
        _THERE, record(STOCK_FIELDS, DeviceStock, "devices"), DeviceStock, "number, or a map"
    ),
    "map from types of devices",
)
NEEDS: Final = _by_type(
    _number_or(
        _explained(_WANTED, _about_number),
        record(NEED_FIELDS, _need, "need of devices"),
        lambda count: DeviceNeed(count=count),
        "number, or a map",
    ),
    "map from types of devices",
)
NUMBERS: Final = mapped(
    Kind("type of devices", _parse_type, NAME.normal),
    listed(integer(0, MOST_DEVICES - 1, f"0 … {MOST_DEVICES - 1}"), "list of numbers"),
    "map from types of devices to lists of numbers",
)
"""The devices that an ask is expected to hold."""


_MODES: Final = {mode.lower(): mode for mode in GangMode}


# OBJECT-10
def full_name(value: Raw, namespace: str = DEFAULT_NAMESPACE) -> str:
    """Return the full name of a gang.

    Raises:
        FieldError: If it is not a valid name of a gang.
    """
    try:
        return canonical_gang(NAME.parse(value), namespace)
    except ValueError as error:
        raise FieldError(str(error)) from None


GANG: Final = Kind("name of a gang", full_name, NAME.normal)
_GANGS: Final = listed(GANG, "list of names of gangs")


# OBJECT-12
def _parse_groups(value: Raw) -> tuple[str, ...]:
    """Accept a list, or a JSON list in a text; its order means nothing."""
    if isinstance(value, str) and not is_null(value):
        value = _from_json(value) if value else []
    if not isinstance(value, list):
        raise refused(value, _NO_GROUPS)
    return tuple(sorted(set(_GANGS.parse(value))))


_NO_GROUPS: Final = "is not a list of names of gangs, nor a JSON list in a text"


def _from_json(text: str) -> list[Raw]:
    try:
        value: Raw = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    # In JSON a number is not a name: JSON distinguishes numbers from texts.
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise refused(text, _NO_GROUPS)
    return value


def _groups_normal(value: Raw) -> Raw:
    return _GANGS.normal(value) if isinstance(value, list) else as_written(value)


# GANG-4, OBJECT-13
def _parse_mode(value: Raw) -> GangMode:
    mode = _MODES.get(TEXT.parse(value).lower())
    if mode is None:
        raise refused(value, f"is none of {', '.join(GangMode)}")
    return mode


GROUPS: Final = Kind(
    "list of names of gangs, or a JSON list in a text", _parse_groups, _groups_normal, _GANGS.write
)
MODE: Final = Kind(
    " or ".join(f"`{mode}`" for mode in GangMode) + ", in any case",
    _parse_mode,
    TEXT.normal,
    str,
)
MEMBERS: Final = integer(LEAST, MAX_INT32, f"{LEAST} … {MAX_INT32}")


# -- kinds of annotations, whose values are texts -------------------------------------------


# OBJECT-13
def _annotation_parser(read: Callable[[str], T]) -> Callable[[Raw], T]:
    """Return the parser of an annotation's value, which is always a text."""

    def parse(value: Raw) -> T:
        try:
            return read(WORD.parse(value))
        except QuantityError as error:
            raise FieldError(str(error)) from None

    return parse


WRITTEN_NAME: Final = Kind("name of a gang", NAME.parse, NAME.normal)
WRITTEN_MEMBERS: Final = Kind(
    MEMBERS.name,
    _annotation_parser(lambda text: parse_integer(text, LEAST, MAX_INT32)),
    WORD.normal,
    str,
)
WRITTEN_WAIT: Final = Kind(
    "seconds or duration, above 0",
    _annotation_parser(lambda text: long_enough(text, parse_duration(text))),
    WORD.normal,
    lambda wait_us: f"{wait_us}us",
)
WRITTEN_MODE: Final = attrs.evolve(MODE, parse=_annotation_parser(_parse_mode), normal=WORD.normal)
WRITTEN_GROUPS: Final = attrs.evolve(GROUPS, write=json.dumps)
# OBJECT-17
WRITTEN_TRUTH: Final = Kind(
    "`true`",
    _annotation_parser(lambda text: True if text == "true" else None),
    WORD.normal,
    lambda _: "true",
)


_MAX: Final = "max"

_WHAT: Final = {
    TopologyRule.SAME: "the node attribute of which all members take nodes with one value",
    TopologyRule.PREFER: "the same, but any node if those with one value do not suffice",
    TopologyRule.SPREAD: "the node attribute over whose values the members are spread",
}

TOPOLOGY_FIELDS: Final[tuple[Field, ...]] = (
    *(field(rule.value, NAME, what) for rule, what in _WHAT.items()),
    field(_MAX, MEMBERS, "with `spread`: how many members one value has at most"),
)
"""The fields of a topology."""


# TOPOLOGY-1
def _topology(**values: object) -> Topology:
    """Return the topology of a map that has exactly one rule.

    Raises:
        FieldError: If it has no rule or several, or a ``max`` without ``spread``.
    """
    rules = [rule for rule in TopologyRule if rule.value in values]
    if len(rules) != 1:
        named = " and ".join(rules) or "none of them"
        msg = f"exactly one of {', '.join(TopologyRule)} names a node attribute, and here {named}"
        raise FieldError(msg)
    (rule,) = rules
    attribute, most = values[rule.value], values.get(_MAX)
    if most is not None and rule is not TopologyRule.SPREAD:
        msg = f"{most} is only allowed with spread, and here is {rule.value}"
        raise FieldError(msg, f".{_MAX}")
    assert isinstance(attribute, str), "a name that is no text"
    assert most is None or isinstance(most, int), "a number that is none"
    return Topology(rule, attribute, most)


def _write_topology(topology: Topology) -> Raw:
    return {**topology.written()}


TOPOLOGY: Final[Kind[Topology]] = attrs.evolve(
    record(TOPOLOGY_FIELDS, _topology, "map with one of `same`, `prefer`, `spread`"),
    write=_write_topology,
)
