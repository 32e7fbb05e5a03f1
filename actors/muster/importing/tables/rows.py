"""The jobs and nodes of a table, row by row, plain or gzip-compressed.

The amounts of a job are divided among its asks; no amount becomes more or less by that.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.feeds._files import Input
from muster.feeds._kinds import write_quantity
from muster.importing.dumps import Opener, lines_of, open_dump
from muster.importing.nodes import TOO_LARGE, NodeFields, largest_of, nodes_of
from muster.importing.queues import Queues, name_of
from muster.importing.tables.mapping import AmountColumn, JobMapping, NodeMapping, Wide
from muster.importing.workload import AskGroup, Job, Sizes, Workload, divide_evenly
from muster_core.errors import QuantityError
from muster_core.values.event_fields import PRIORITIES
from muster_core.values.names import did_you_mean
from muster_core.values.resources import parse_quantity

Row = tuple[int, Sequence[str]]
"""The line of a row, and its cells."""


def rows_of(
    source: Input, delimiter: str, needed: Collection[str], says: str
) -> tuple[list[str], Iterator[Row]]:
    """Return the columns of a table, and its rows.

    Args:
        source: The table.
        delimiter: The delimiter of its cells.
        needed: The columns that it must have.
        says: The mapping file, which names them.

    Raises:
        FeedError: If it cannot be read, or lacks a column.
    """
    place = _LineCounter()
    reader = csv.reader(place.texts(lines_of(source)), delimiter=delimiter, strict=True)
    rows = _rows(reader, place, source.name)
    first = next(rows, None)
    if first is None:
        raise FeedError(source.name, "is empty: its first line has to name the columns")
    columns = [cell.strip() for cell in first[1]]
    twice = [name for name in needed if columns.count(name) > 1]
    if twice:
        msg = f"names the column {twice[0]!r} twice: give one of them another name"
        raise FeedError(source.name, msg, first[0])
    for name in needed:
        if name not in columns:
            hint = _delimiter_hint(columns, delimiter, says) or did_you_mean(name, columns)
            msg = f"has no column {name!r}, which {says} names: {', '.join(columns)[:200]}{hint}"
            raise FeedError(source.name, msg, first[0])
    return columns, rows


def _delimiter_hint(columns: Sequence[str], delimiter: str, says: str) -> str:
    """Return the hint about another delimiter of cells."""
    if len(columns) != 1:
        return ""
    other = max((mark for mark in ";\t|," if mark != delimiter), key=columns[0].count)
    if other not in columns[0]:
        return ""
    word = "tab" if other == "\t" else f"'{other}'"
    return f"; if {word} parts the cells, write `delimiter: {word}` in {says}"


class _LineCounter:
    """The line at which a reader is; a quoted cell may span several lines."""

    def __init__(self) -> None:
        self.line = 0

    def texts(self, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
        for number, line in lines:
            self.line = number
            yield line.replace("\x00", "\ufffd") + "\n"


def _rows(reader: Iterator[list[str]], place: _LineCounter, name: str) -> Iterator[Row]:
    line = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                msg = "a cell begins with a quotation mark, and none ends it: write two for one"
                raise FeedError(name, msg, line) from None
            raise FeedError(name, f"is no table from here on: {error}", place.line) from None
        if row is None:
            return
        if row:
            yield line, row
        line = place.line + 1


def divide_within(amounts: Mapping[str, int], limits: Mapping[str, int]) -> Sizes:
    """Divide amounts so that none is above its limit: full ones, then one with the rest.

    What is not limited is divided evenly.
    """
    members = max(
        [-(-amounts[name] // limit) for name, limit in limits.items() if name in amounts] or [1]
    )
    if members == 1:
        return [(amounts, 1)]
    full: dict[str, int] = {}
    rest: dict[str, int] = {}
    few: dict[str, int] = {}
    for name, amount in amounts.items():
        limit = limits.get(name)
        is_binding = limit is not None and -(-amount // limit) == members
        each = limit if is_binding and limit is not None else -(-amount // members)
        if each * (members - 1) > amount:
            few[name] = amount  # rounded up, there would be more than the job needs
        else:
            full[name], rest[name] = each, amount - each * (members - 1)
    wholes: Sizes = [(full, members)] if rest == full else [(full, members - 1), (rest, 1)]
    return list(_joined(wholes, _shared(few, members)))


def _shared(amounts: Mapping[str, int], members: int) -> Sizes:
    """Divide amounts evenly, with the members that get nothing."""
    sizes = divide_evenly(amounts, members)
    left = members - sum(count for _, count in sizes)
    return [*sizes, ({}, left)] if left else sizes


def _joined(one: Sizes, other: Sizes) -> Iterator[tuple[Mapping[str, int], int]]:
    """Yield the sizes of members with the amounts of both, member by member."""
    first, second = iter(one), iter(other)
    size, count = next(first)
    more, times = next(second)
    while True:
        both = min(count, times)
        joined = {name: amount for name, amount in {**size, **more}.items() if amount}
        if joined:
            yield joined, both
        count, times = count - both, times - both
        if not count:
            following = next(first, None)
            if following is None:
                return
            size, count = following
        if not times:
            more, times = next(second)


_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_COUNT: Final = re.compile("[0-9]{1,6}", re.ASCII)
_TABLES: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


def read_table_of_nodes(text: str, mapped: JobMapping) -> list[NodeFields]:
    """Return the nodes of ``--nodes``: of a table, as the mapping file says, or as anywhere else.

    Raises:
        FeedError: If a file cannot be read, or a row in it is wrong.
        ValueError: If the text says no nodes.
    """
    if not text.lower().endswith(_TABLES):
        return nodes_of(text)
    form = mapped.nodes
    if form is None:
        raise FeedError(mapped.file, f"has no `nodes`, which says what the columns of {text} mean")
    needed = [
        *_PLACE.findall(form.name),
        *([form.count] if form.count else []),
        *(amount.column for amount in form.capacity.values()),
        *form.attributes.values(),
    ]
    nodes: list[NodeFields] = []
    with open_dump(text) as source:
        columns, rows = rows_of(source, mapped.delimiter, needed, mapped.file)
        for line, cells in rows:
            if len(cells) != len(columns):
                msg = f"has {len(cells)} cells, and not {len(columns)} as the first line"
                raise FeedError(text, msg, line)
            row = {name: cell.strip() for name, cell in zip(columns, cells, strict=True)}
            try:
                nodes += _nodes(form, row)
            except ValueError as error:
                raise FeedError(text, str(error), line) from None
    return nodes


def _nodes(form: NodeMapping, row: Mapping[str, str]) -> list[NodeFields]:
    name = name_of(_PLACE.sub(lambda match: row[match[1]], form.name))
    capacity = {kind: _amount(row, kind, amount) for kind, amount in form.capacity.items()}
    attributes = {kind: row[column] for kind, column in form.attributes.items()}
    if form.count is None:
        return [NodeFields(name, capacity, attributes)]
    count = row[form.count]
    if not _COUNT.fullmatch(count):
        msg = f"{form.count} is {count!r}, not a number of nodes"
        raise ValueError(msg)
    # Equally full nodes are taken in the order of their names, as texts.
    return [NodeFields(f"{name}-{number:04}", capacity, attributes) for number in range(int(count))]


def _amount(row: Mapping[str, str], kind: str, amount: AmountColumn) -> int | str:
    text = row[amount.column]
    written = f"{text}{amount.unit}" if text else amount.default
    try:
        parse_quantity(kind, written)
    except QuantityError as error:
        msg = f"{amount.column}: {error}"
        raise ValueError(msg) from None
    assert written is not None
    return int(written) if written.isdigit() else written


_ROW: Final = "row"
_SECOND: Final = 1_000_000
_MOST_TASKS: Final = 1_000_000
_WHOLE: Final = re.compile("[0-9]{1,15}", re.ASCII)


@final
@attrs.frozen
class ImportOptions:
    """The options of the user besides the mapping file.

    Attributes:
        wide: How to import jobs of several asks; None for the choice of the mapping file.
        priority: Whether the priority of the mapping counts.
        where: Further patterns that columns must match.
    """

    wide: Wide | None = None
    priority: bool = True
    where: Mapping[str, Sequence[str]] = attrs.Factory(dict[str, Sequence[str]])


class _LeftOutError(Exception):
    """A row cannot be taken.

    Attributes:
        cause: Why.
        example: The value.
    """

    def __init__(self, cause: str, example: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.example = example


# IMPORT-9
def read_table(
    files: Sequence[str],
    workload: Workload,
    queues: Queues,
    *,
    opener: Opener = str,
    mapped: JobMapping,
    choice: ImportOptions,
) -> None:
    """Put the jobs of tables into a workload.

    Args:
        files: The names of the tables.
        workload: Where the jobs go.
        queues: Chooses the queues.
        opener: Opens a file.
        mapped: The meaning of the columns.
        choice: The other options of the user.

    Raises:
        FeedError: If a file cannot be read, lacks a column, or has numbers for instants where
            other rows have dates.
    """
    rows = _Rows(workload, queues, mapped, choice)
    for file in files:
        with open_dump(file, opener) as source:
            needed = dict.fromkeys((*mapped.names, *choice.where))
            columns, cells = rows_of(source, mapped.delimiter, needed, mapped.file)
            for line, row in cells:
                rows.read(file, line, dict(zip(columns, row, strict=False)), len(row), len(columns))


@final
class _Rows:
    """Reads rows."""

    def __init__(
        self, workload: Workload, queues: Queues, mapped: JobMapping, choice: ImportOptions
    ) -> None:
        self._workload = workload
        self._account = workload.account
        self._queues = queues
        self._mapped = mapped
        self._wide = choice.wide or mapped.wide
        self._priority = mapped.priority if choice.priority else None
        self._filters = [*mapped.where.items(), *choice.where.items()]
        self._is_dated: bool | None = None
        self._largest = largest_of(workload.nodes)
        #: The values of attributes that nodes have, of those that jobs may select.
        self._attributes: dict[str, set[str]] = {name: set() for name in mapped.selector}
        for node in workload.nodes:
            for name in mapped.selector.keys() & node.attributes.keys():
                self._attributes[name].add(node.attributes[name])

    def read(self, file: str, line: int, row: dict[str, str], cells: int, columns: int) -> None:
        """Read a row."""
        self._account.read[_ROW] += 1
        place = f"{file}:{line}"
        try:
            if cells != columns:
                msg = f"not {columns} cells, as the first line has"
                raise _LeftOutError(msg, f"{cells} cells")
            job = self._job(row, place)
        except _LeftOutError as error:
            self._account.leave_out(_ROW, error.cause, place, error.example[:80])
            return
        self._account.taken[_ROW] += 1
        self._workload.submit(job)

    def _job(self, row: dict[str, str], place: str) -> Job:
        mapped = self._mapped
        for column, instead in mapped.missing.items():
            if not row.get(column, "").strip():
                row[column] = instead
        for column, patterns in self._filters:
            value = row[column].strip()
            if not any(fnmatchcase(value, pattern) for pattern in patterns):
                raise _LeftOutError(f"{column} is not {' or '.join(patterns)}", value)
        at_us = self._instant(row, mapped.submit, place)
        if not self._workload.is_wanted(at_us):
            raise _LeftOutError("outside --since and --until", row[mapped.submit])
        queue = self._queues.of({name: row[name].strip() for name in mapped.names})
        if queue is None:
            named = {name: row[name].strip() for name in mapped.names[:4]}
            values = ", ".join(f"{name} {value}" for name, value in named.items() if value)
            raise _LeftOutError("no queue for it: see --mapping", values)
        app = self._name(row)
        parts = self._parts(row, self._run_us(row, place), app, place)
        tasks = sum(part.count for part in parts)
        if tasks > 1 and self._wide == "skip":
            raise _LeftOutError("of several asks (see --wide)", f"{tasks} asks")
        if tasks > 1 and self._wide == "split":
            self._account.change(_ROW, "of several asks, which start one by one", place)
        group = row[mapped.group].strip() if mapped.group else ""
        return Job(
            at_us=at_us,
            app=app,
            queue=queue,
            parts=parts,
            user=row[mapped.user].strip() if mapped.user else "",
            groups=(group,) if group else (),
            is_gang=tasks > 1 and self._wide == "gang",
        )

    @property
    def _row(self) -> str:
        """A name for the row, by its number in all tables."""
        return f"row-{self._account.read[_ROW]}"

    def _name(self, row: Mapping[str, str]) -> str:
        name = row[self._mapped.job].strip() if self._mapped.job else ""
        return name_of(name) or self._row

    def _instant(self, row: Mapping[str, str], column: str, place: str) -> int:
        text = row[column].strip()
        found = self._mapped.clock.instant(text)
        if found is None:
            right = self._mapped.clock.right
            raise _LeftOutError(f"{column} is no instant: {right}", text)
        at_us, is_dated = found
        if self._is_dated is None:
            self._is_dated = self._workload.is_dated = is_dated
        elif self._is_dated is not is_dated:
            kinds = ("a number", "a date") if is_dated else ("a date", "a number")
            msg = f"{column} is {kinds[1]}, {text!r}, but {kinds[0]} in the rows before"
            file, _, line = place.rpartition(":")
            raise FeedError(file, msg, int(line))
        return at_us

    def _run_us(self, row: Mapping[str, str], place: str) -> int:
        mapped = self._mapped
        if mapped.duration is not None:
            text = row[mapped.duration].strip()
            run_us = mapped.clock.time(text)
            if run_us is None or run_us < 0:
                raise _LeftOutError(f"{mapped.duration} is no length of time", text)
        else:
            assert mapped.start is not None
            assert mapped.end is not None
            start, end = (
                self._instant(row, column, place) for column in (mapped.start, mapped.end)
            )
            run_us = end - start
            if run_us < 0:
                span = f"{row[mapped.start]} to {row[mapped.end]}"
                raise _LeftOutError("it ended before it started", span)
        if run_us < _SECOND:
            self._account.change(_ROW, "shorter than 1 s, which it runs in the feed", place)
        return max(run_us, _SECOND)

    def _estimate_us(self, row: Mapping[str, str], place: str) -> int | None:
        """Return how long a job was expected to run; None for what is no time above 0."""
        column = self._mapped.estimate
        if column is None:
            return None
        text = row[column].strip()
        estimate_us = self._mapped.clock.time(text)
        if estimate_us is None or estimate_us <= 0:
            self._account.note(_ROW, f"{column} is no time above 0: no estimate", place, text)
            return None
        return estimate_us

    def _parts(self, row: Mapping[str, str], run_us: int, app: str, place: str) -> list[AskGroup]:
        mapped = self._mapped
        amounts = {
            name: self._amount(row, name, amount) for name, amount in mapped.resources.items()
        }
        amounts = {name: amount for name, amount in amounts.items() if amount}
        if not amounts:
            raise _LeftOutError("it needs nothing", "")
        tasks = self._tasks(row)
        sizes: Sizes
        if mapped.is_total and tasks > 1:
            sizes = divide_evenly(amounts, tasks)
            asks = sum(count for _, count in sizes)
            if asks < tasks:
                text = "of more tasks than there is to divide: the others would need nothing"
                self._account.note(_ROW, text, place, f"{asks} of {tasks} tasks")
        else:
            sizes = [
                (size, count * tasks) for size, count in divide_within(amounts, mapped.per_node)
            ]
        self._note_too_large(sizes, place)
        selector = self._selector(row)
        priority = self._value(row)
        estimate_us = self._estimate_us(row, place)
        names = _names(len(sizes))
        if self._workload.is_known(app):  # rows of one job: their asks need names of their own
            names = [f"{self._row}-{name}" for name in names]
        return [
            AskGroup(
                ask=name,
                resources={kind: write_quantity(kind, amount) for kind, amount in size.items()},
                count=count,
                selector=selector,
                run_us=run_us,
                priority=priority,
                estimate_us=estimate_us,
            )
            for name, (size, count) in zip(names, sizes, strict=True)
        ]

    def _note_too_large(self, sizes: Sizes, place: str) -> None:
        for size, _ in sizes:
            for kind, amount in size.items():
                if self._largest and amount > self._largest.get(kind, 0):
                    example = f"{kind} {write_quantity(kind, amount)}"
                    self._account.note(_ROW, TOO_LARGE, place, example)
                    return

    def _selector(self, row: Mapping[str, str]) -> dict[str, str]:
        """Return the attributes that the nodes must have; those that no node has do not count."""
        selector: dict[str, str] = {}
        for name, column in self._mapped.selector.items():
            known, value = self._attributes[name], row[column].strip()
            if known and value not in known:
                raise _LeftOutError(f"no node has this {name}", value)
            if known:
                selector[name] = value
        return selector

    def _tasks(self, row: Mapping[str, str]) -> int:
        if self._mapped.tasks is None:
            return 1
        text = row[self._mapped.tasks].strip()
        if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= _MOST_TASKS:
            raise _LeftOutError(f"{self._mapped.tasks} is no number of tasks", text)
        return int(text)

    def _amount(self, row: Mapping[str, str], name: str, amount: AmountColumn) -> int:
        text = row[amount.column].strip()
        written = f"{text}{amount.unit}" if text else amount.default
        if written is None:
            raise _LeftOutError(f"{amount.column} is empty", "")
        try:
            return parse_quantity(name, written)
        except QuantityError:
            raise _LeftOutError(f"{amount.column} is no amount", text) from None

    def _value(self, row: Mapping[str, str]) -> int:
        if self._priority is None:
            return 0
        text = row[self._priority].strip()
        try:
            value = int(Decimal(text) * Decimal(str(self._mapped.factor)))
        except (InvalidOperation, ValueError, OverflowError):
            raise _LeftOutError(f"{self._priority} is no number", text) from None
        least, most = PRIORITIES
        return min(max(value, least), most)


def _names(sizes: int) -> Sequence[str]:
    """Return the names of the asks of a job, by the number of their sizes."""
    if sizes == 1:
        return ("task",)
    return ("worker", "rest") if sizes == 2 else [f"size-{number + 1}" for number in range(sizes)]
