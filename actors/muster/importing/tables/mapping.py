"""The mapping file: the meaning of the columns of a table of jobs, and the form of their times.

All problems of the file are collected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal, cast, final, get_args
from zoneinfo import ZoneInfo

import attrs

from muster.feeds import parse_date
from muster.importing.queues import OTHERS, RULES
from muster.mapping_reader import MappingReader
from muster_core.config.queues import canonical_path
from muster_core.config.tree import is_null, text_of
from muster_core.errors import ConfigError, QuantityError
from muster_core.values.resources import parse_quantity

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{0,9})?", re.ASCII)
_CLOCK: Final = re.compile(
    r"(?:([0-9]{1,6})[-:])?([0-9]{1,6}):([0-5]?[0-9]):([0-5]?[0-9](?:\.[0-9]{1,9})?)"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST_US: Final = 253_402_300_800_000_000
"""The end of the year 9999, in microseconds since 1970."""

UNITS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1, "min": 60_000_000, "h": 3_600_000_000}
"""The units of numbers, in microseconds."""


@final
@attrs.frozen
class TableClock:
    """How a table writes instants and times.

    Attributes:
        unit_us: The unit of numbers, in microseconds.
        form: The form of dates, as ``strptime`` takes it; empty for ISO dates and numbers.
        origin_us: The instant from which numbers count, in microseconds since 1970; None if
            it is unknown.
        zone: The time zone of dates without an offset.
    """

    unit_us: int = UNITS["s"]
    form: str = ""
    origin_us: int | None = None
    zone: str = "UTC"

    def has_zone(self) -> bool:
        """Return whether the time zone is known."""
        try:
            _zone(self.zone)
        except (KeyError, ValueError, OSError):
            return False
        return True

    @property
    def right(self) -> str:
        """The valid forms of an instant, for messages."""
        if self.form:
            return f"`time.format` of the mapping file says {self.form!r}"
        return "write 2026-01-31 18:30, a number, or its form as `time: {format: '%d.%m.%Y %H:%M'}`"

    def instant(self, text: str) -> tuple[int, bool] | None:
        """Return an instant in microseconds, and whether it is a date; None if it is none."""
        if not self.form and _NUMBER.fullmatch(text):
            at_us = (self.origin_us or 0) + self._amount(text)
            return (at_us, self.origin_us is not None) if 0 <= at_us < _LAST_US else None
        try:
            date = (
                datetime.strptime(text, self.form)  # noqa: DTZ007 - it gets its zone below
                if self.form
                else datetime.fromisoformat(text)
            )
        except ValueError:
            return None
        try:
            if date.tzinfo is None:
                date = date.replace(tzinfo=_zone(self.zone))
            at_us = (date - _EPOCH) // _MICROSECOND
        except OverflowError:
            return None
        return (at_us, True) if at_us >= 0 else None

    def time(self, text: str) -> int | None:
        """Return a length of time in microseconds: a number, or ``d-hh:mm:ss``; None if it is none."""
        if _NUMBER.fullmatch(text):
            return self._amount(text)
        match = _CLOCK.fullmatch(text)
        if match is None:
            return None
        days, hours, minutes, rest = match.groups(default="0")
        whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60
        return whole * UNITS["s"] + int(Decimal(rest) * UNITS["s"])

    def _amount(self, text: str) -> int:
        return int(text) * self.unit_us if text.isdigit() else int(Decimal(text) * self.unit_us)


@lru_cache
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


Wide = Literal["gang", "split", "skip"]
"""How to import a job of several asks: all or nothing; one by one; it is left out."""

_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_FIELDS: Final = (
    "job", "submit", "start", "end", "duration", "estimate", "user", "group", "resources", "tasks",
    "amounts", "per_node", "wide", "priority", "selector", "queue", "fields", "missing", "where", "time",
    "nodes", "delimiter", RULES, OTHERS,
)  # fmt: skip
_SINGLE: Final = (
    "job", "submit", "start", "end", "duration", "estimate", "user", "group", "tasks",
)  # fmt: skip
"""The fields whose value is the name of a column."""


@final
@attrs.frozen
class AmountColumn:
    """A column with an amount of a resource.

    Attributes:
        column: The column.
        unit: The unit of the number, such as ``Mi``.
        default: The amount where the cell is empty; None if such a row is left out.
    """

    column: str
    unit: str = ""
    default: str | None = None


@final
@attrs.frozen
class NodeMapping:
    """The meaning of the columns of a table of nodes.

    Attributes:
        name: The name of a node, with ``{column}`` for values.
        count: The column with the number of such nodes, or None.
        capacity: Its resources.
        attributes: The column of each attribute.
    """

    name: str
    count: str | None
    capacity: Mapping[str, AmountColumn]
    attributes: Mapping[str, str]


@final
@attrs.frozen(kw_only=True)
class JobMapping:
    """The meaning of the columns of a table.

    Attributes:
        file: The name of the mapping file.
        job: The column with the name of the job, or None for the number of the row.
        submit: The column with the instant at which it was submitted.
        start: The column with the instant at which it started, or None.
        end: The column with the instant at which it ended, or None.
        duration: The column with the time that it ran, or None.
        estimate: The column with the time that it was expected to run, or None.
        user: The column with its user, or None.
        group: The column with the group of the user, or None.
        resources: The columns of its resources.
        tasks: The column with the number of its asks, or None.
        is_total: Whether amounts are those of the whole job, not of each ask.
        per_node: The most that one ask has of a type: a larger job becomes several asks.
        wide: How to import jobs of several asks.
        priority: The column whose value is the priority, or None.
        factor: The factor for that value.
        selector: The column of each attribute that the node must have.
        queue: The path of the queue, with ``{column}`` for values.
        names: All columns that are named.
        missing: The text of an empty cell, by column.
        where: The patterns of columns that rows must have, one of each column.
        clock: How instants and times are written.
        nodes: The meaning of a table of nodes, or None.
        delimiter: The delimiter of cells.
        has_rules: Whether it has rules for queues, for ``read_queues``.
        fields: All its fields.
    """

    file: str
    job: str | None
    submit: str
    start: str | None
    end: str | None
    duration: str | None
    estimate: str | None
    user: str | None
    group: str | None
    resources: Mapping[str, AmountColumn]
    tasks: str | None
    is_total: bool
    per_node: Mapping[str, int]
    wide: Wide
    priority: str | None
    factor: float
    selector: Mapping[str, str]
    queue: str
    names: tuple[str, ...]
    missing: Mapping[str, str]
    where: Mapping[str, tuple[str, ...]]
    clock: TableClock
    nodes: NodeMapping | None
    delimiter: str
    has_rules: bool
    fields: tuple[str, ...]


def read_mapping(file: str) -> JobMapping:
    """Read a mapping file.

    Raises:
        ConfigError: If it cannot be read, or something in it is wrong; with the lines.
    """
    reader = MappingReader(file)
    mapped = _mapped(reader.document(), reader)
    if mapped is None or reader.problems:
        raise ConfigError(reader.problems)
    return mapped


def _mapped(document: object, reader: MappingReader) -> JobMapping | None:
    if is_null(document):
        reader.refuse(document, "", "is empty: it needs `submit`, `duration` and `resources`")
        return None
    entries = reader.table(document, "", _FIELDS)
    if not entries:
        return None
    columns = {
        name: reader.text(entries[name], name) if name in entries else None for name in _SINGLE
    }
    _check_times(columns, document, reader)
    resources = _amounts(entries.get("resources"), "resources", reader)
    if not resources and not reader.problems:
        reader.refuse(document, "resources", "is missing: what a job needs, such as {vcore: cpus}")
    priority, factor = _priority(entries.get("priority"), reader)
    selector = _texts(entries.get("selector"), "selector", reader)
    where = reader.table(entries.get("where"), "where", None)
    queue = _queue(entries.get("queue"), reader)
    if RULES in entries and "queue" in entries:
        reader.refuse(entries["queue"], "queue", "stands beside `queues`: write it as `others`")
    if OTHERS in entries and RULES not in entries:
        reader.refuse(entries[OTHERS], OTHERS, "stands without `queues`: write it as `queue`")
    names = [
        *(column for column in columns.values() if column),
        *(amount.column for amount in resources.values()),
        *([priority] if priority else []),
        *selector.values(),
        *where,
        *_PLACE.findall(queue),
        *reader.texts(entries.get("fields"), "fields"),
    ]
    return JobMapping(
        file=reader.file,
        job=columns["job"],
        submit=columns["submit"] or "",
        start=columns["start"],
        end=columns["end"],
        duration=columns["duration"],
        estimate=columns["estimate"],
        user=columns["user"],
        group=columns["group"],
        resources=resources,
        tasks=columns["tasks"],
        is_total=reader.choice(
            entries.get("amounts"), "amounts", ("per_task", "per_job"), "per_task"
        )
        == "per_job",
        per_node=_limits(entries.get("per_node"), resources, reader),
        wide=cast("Wide", reader.choice(entries.get("wide"), "wide", get_args(Wide), "gang")),
        priority=priority,
        factor=factor,
        selector=selector,
        queue=queue,
        names=tuple(dict.fromkeys(names)),
        missing=_texts(entries.get("missing"), "missing", reader),
        where={name: reader.texts(node, f"where.{name}") for name, node in where.items()},
        clock=_clock(entries.get("time"), reader),
        nodes=_nodes(entries.get("nodes"), reader),
        delimiter=_delimiter(entries.get("delimiter"), reader),
        has_rules=RULES in entries,
        fields=tuple(entries),
    )


def _check_times(
    columns: Mapping[str, str | None], document: object, reader: MappingReader
) -> None:
    if columns["submit"] is None:
        reader.refuse(document, "submit", "is missing: the column that says when a job came")
    if columns["duration"] is None and (columns["start"] is None or columns["end"] is None):
        message = "is missing: the column that says how long a job ran; or give `start` and `end`"
        reader.refuse(document, "duration", message)


def _amounts(node: object, path: str, reader: MappingReader) -> dict[str, AmountColumn]:
    if node is None:
        return {}
    amounts: dict[str, AmountColumn] = {}
    for name, value in reader.table(node, path, None).items():
        place = f"{path}.{name}"
        if text_of(value) is not None:
            amounts[name] = AmountColumn(reader.text(value, place))
            continue
        entries = reader.table(value, place, ("column", "unit", "default"))
        if "column" not in entries:
            reader.refuse(value, place, "has no `column`")
        amount = AmountColumn(
            reader.text(entries.get("column"), f"{place}.column"),
            reader.text(entries.get("unit"), f"{place}.unit"),
            reader.text(entries["default"], f"{place}.default") if "default" in entries else None,
        )
        for key, written in (("unit", f"1{amount.unit}"), ("default", amount.default)):
            if written is not None and key in entries:
                _quantity(name, written, entries[key], f"{place}.{key}", reader)
        amounts[name] = amount
    return amounts


def _quantity(name: str, written: str, node: object, path: str, reader: MappingReader) -> int:
    try:
        return parse_quantity(name, written)
    except QuantityError as error:
        reader.refuse(node, path, str(error))
        return 0


def _limits(node: object, resources: Collection[str], reader: MappingReader) -> dict[str, int]:
    limits: dict[str, int] = {}
    for name, value in reader.table(node, "per_node", resources).items():
        path = f"per_node.{name}"
        limit = _quantity(name, reader.text(value, path), value, path, reader)
        if limit <= 0:
            reader.refuse(value, path, "is not above 0")
        limits[name] = limit
    return limits


def _priority(node: object, reader: MappingReader) -> tuple[str | None, float]:
    if node is None:
        return None, 1
    if text_of(node) is not None:
        return reader.text(node, "priority"), 1
    entries = reader.table(node, "priority", ("column", "times"))
    if "column" not in entries:
        reader.refuse(node, "priority", "has no `column`")
    column = reader.text(entries.get("column"), "priority.column")
    return column, reader.number(entries.get("times"), "priority.times", 1)


def _texts(node: object, path: str, reader: MappingReader) -> dict[str, str]:
    if node is None:
        return {}
    entries = reader.table(node, path, None)
    return {name: reader.text(value, f"{path}.{name}") for name, value in entries.items()}


def _queue(node: object, reader: MappingReader) -> str:
    path = reader.text(node, "queue", "root.default")
    try:
        canonical_path(_PLACE.sub("x", path))
    except ValueError as error:
        assert node is not None
        reader.refuse(node, "queue", str(error))
    return path


def _clock(node: object, reader: MappingReader) -> TableClock:
    if node is None:
        return TableClock()
    entries = reader.table(node, "time", ("unit", "format", "zone", "origin"))
    unit = reader.choice(entries.get("unit"), "time.unit", tuple(UNITS), "s")
    zone = reader.text(entries.get("zone"), "time.zone", "UTC")
    form = reader.text(entries.get("format"), "time.format")
    origin_us = None
    try:
        if "origin" in entries:
            origin_us = parse_date(reader.text(entries["origin"], "time.origin"))
    except ValueError:
        right = "write it like 2026-01-31T18:30:00Z"
        reader.refuse(entries["origin"], "time.origin", f"is no date: {right}")
    clock = TableClock(UNITS[unit], form, origin_us, zone)
    if not clock.has_zone():
        reader.refuse(entries.get("zone", node), "time.zone", f"{zone!r} is no time zone")
    return clock


def _nodes(node: object, reader: MappingReader) -> NodeMapping | None:
    if node is None:
        return None
    entries = reader.table(node, "nodes", ("name", "count", "capacity", "attributes"))
    capacity = _amounts(entries.get("capacity"), "nodes.capacity", reader)
    if not capacity:
        reader.refuse(node, "nodes.capacity", "is missing: what a node has")
    return NodeMapping(
        reader.text(entries.get("name"), "nodes.name", "node"),
        reader.text(entries["count"], "nodes.count") if "count" in entries else None,
        capacity,
        _texts(entries.get("attributes"), "nodes.attributes", reader),
    )


def _delimiter(node: object, reader: MappingReader) -> str:
    text = reader.text(node, "delimiter", ",")
    text = "\t" if text in {"tab", "\\t"} else text
    if len(text) != 1:
        assert node is not None
        reader.refuse(node, "delimiter", f"{text!r} is not one character, or `tab`")
        return ","
    return text
