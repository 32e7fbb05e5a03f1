"""What comes of a comparison, for people."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

from muster.cli._compare_first import words_of
from muster.cli._options import counted, name_of
from muster.compare import (
    Compared,
    Figures,
    JobChange,
    JobChanges,
    Movement,
)

_WIDE: Final = 250
"""The width of what does not go to a terminal, in columns, so that nothing is folded."""

_LONG_S: Final = 1000
"""From how many seconds on fractions of them are not shown."""

_NONE: Final = "-"
_SAME: Final = "="

Number: TypeAlias = "int | float | None"


def print_compared(compared: Compared, sides: tuple[str, str], inputs: Sequence[str]) -> None:
    """Write what a comparison found.

    Args:
        compared: What it found.
        sides: What the two sides are called.
        inputs: The names of the feeds or logs that lines are of; of one, that of both.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    # rich has an end of its own for a closed pipe, so it does not write itself.
    with console.capture() as capture:
        for part in _parts(compared, sides, inputs):
            console.print(part, soft_wrap=isinstance(part, str))
    text = "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
    click.echo(text, nl=False, color=True)


def _parts(
    compared: Compared, sides: tuple[str, str], inputs: Sequence[str]
) -> Iterator[RenderableType]:
    names = (name_of(inputs[0]), name_of(inputs[-1]))
    yield f"A  {sides[0]}"
    yield f"B  {sides[1]}\n"
    first, priority = compared.first, compared.first_priority
    if compared.same:
        yield f"Both decide the same: {counted(compared.decisions, 'decision')}.\n"
    if first is not None:
        yield "\n".join(words_of("The decisions part", "decision", first, names)) + "\n"
    # What parts later is likely to follow from what parted first.
    if priority is not None and (first is None or priority.at_us < first.at_us):
        what = "The priorities of queues part"
        yield "\n".join(words_of(what, "change", priority, names)) + "\n"
    yield _whole(compared.a, compared.b)
    if compared.queues:
        yield _groups("queue", [(row.queue, row.a, row.b) for row in compared.queues])
        if any(row.a.utilisation or row.b.utilisation for row in compared.queues):
            yield _utilisation(compared)
    if compared.priorities:
        rows = [(_range(row.lowest, row.highest), row.a, row.b) for row in compared.priorities]
        yield _groups("priority", rows)
    yield from _jobs(compared.jobs)


# Figures

_ALWAYS: Final = frozenset({"jobs", "asks bound"})
"""The counts that are always shown."""

_Reader: TypeAlias = Callable[[Figures], Number]
_Writer: TypeAlias = Callable[[float], str]
_Figure: TypeAlias = tuple[str, _Reader, _Writer]
"""What a figure is called, where it is, and how it is written."""


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _time(value: float) -> str:
    return f"{value:,.3f}" if abs(value) < _LONG_S else f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{value * 100:,.1f}"


def _wait(part: str) -> _Reader:
    """Give what reads a part of how long asks waited; of a log, jobs."""

    def read(figures: Figures) -> Number:
        wait = figures.job_wait if figures.wait is None else figures.wait
        value: float | None = getattr(wait, part, None)
        return value

    return read


_COUNTS: Final[Sequence[_Figure]] = (
    ("jobs", lambda figures: figures.jobs, _count),
    ("asks bound", lambda figures: figures.asks_bound, _count),
    ("pending", lambda figures: figures.asks_pending, _count),
    ("preempted", lambda figures: figures.asks_preempted, _count),
    ("reclaimed", lambda figures: figures.asks_reclaimed, _count),
)


def _waits(figures: Figures) -> list[_Figure]:
    """Give what there is to say of waits."""
    of_jobs = " of jobs" if figures.wait is None else ""
    return [
        (f"mean wait{of_jobs} (s)", _wait("mean_s"), _time),
        ("median", _wait("median_s"), _time),
        ("95 %", _wait("p95_s"), _time),
        ("longest", _wait("longest_s"), _time),
    ]


def _three(a: Number, b: Number, write: _Writer) -> tuple[str, str, str]:
    """Write a figure of both sides, and how much more the second is."""
    texts = [_NONE if value is None else write(value) for value in (a, b)]
    if a is None or b is None:
        more = _SAME if a is b else _NONE
    else:
        more = _SAME if a == b else _more(b - a, write)
    return texts[0], texts[1], more


def _more(by: float, write: _Writer) -> str:
    return f"{'+' if by > 0 else '-'}{write(abs(by))}"


def _whole(a: Figures, b: Figures) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("all")
    for name in ("A", "B", "B - A"):
        table.add_column(name, justify="right", overflow="fold")
    for name, read, write in (*_COUNTS, *_waits(a)):
        if name in _ALWAYS or read(a) is not None or read(b) is not None:
            table.add_row(name, *_three(read(a), read(b), write))
    if a.wait is not None:
        table.add_row("mean wait of jobs (s)", *_three(_mean_of_jobs(a), _mean_of_jobs(b), _time))
    table.add_row("makespan (s)", *_three(a.makespan_s, b.makespan_s, _time))
    for kind in sorted({*a.utilisation, *b.utilisation}):
        used = _three(a.utilisation.get(kind), b.utilisation.get(kind), _percent)
        table.add_row(f"{kind} used (%)", *used)
    return table


def _mean_of_jobs(figures: Figures) -> Number:
    return None if figures.job_wait is None else figures.job_wait.mean_s


def _groups(what: str, rows: Iterable[tuple[str, Figures, Figures]]) -> Table:
    """Make a table with a line for each side, and one for the difference."""
    rows = list(rows)
    sides = [side for _, *both in rows for side in both]
    # A count that is zero or unknown everywhere is left out.
    told = [
        (name, read, write)
        for name, read, write in _COUNTS
        if name in _ALWAYS or any(read(side) for side in sides)
    ]
    told += _waits(sides[0])
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(what, overflow="fold")
    table.add_column("")
    for name, _, _ in told:
        table.add_column(name, justify="right", overflow="fold")
    for name, a, b in rows:
        lines = zip(*(_three(read(a), read(b), write) for _, read, write in told), strict=True)
        of_a, of_b, more = lines
        if of_a == of_b:
            table.add_row(name, "A = B", *of_a)
        else:
            table.add_row(name, "A", *of_a)
            table.add_row("", "B", *of_b)
            table.add_row("", "B - A", *more)
    return table


def _utilisation(compared: Compared) -> Table:
    """Make a table of how much of the nodes each queue used."""
    kinds = sorted({*compared.a.utilisation, *compared.b.utilisation})
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("queue", overflow="fold")
    for kind in kinds:
        table.add_column(f"{kind} used (%): A", justify="right", overflow="fold")
        table.add_column("B", justify="right", overflow="fold")
        table.add_column("B - A", justify="right", overflow="fold")
    for row in compared.queues:
        cells = (
            _three(row.a.utilisation.get(kind), row.b.utilisation.get(kind), _percent)
            for kind in kinds
        )
        table.add_row(row.queue, *(cell for three in cells for cell in three))
    return table


def _range(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


# Jobs


def _jobs(jobs: JobChanges) -> Iterator[RenderableType]:
    alike = jobs.wait == jobs.end
    movements = (("wait", "less", "longer", jobs.wait), ("end", "earlier", "later", jobs.end))
    for what, less, more, movement in movements[: 1 if alike else 2]:
        if not (movement.gained or movement.lost):
            continue
        also = " As many end earlier, and as many later." if alike else ""
        yield (
            f"Of {counted(jobs.compared, 'job')}, {movement.gained:,} {what} {less} in B and "
            f"{movement.lost:,} {what} {more}.{also}\n"
        )
        yield _movement(what, less, more, movement)
    for side, number in (("A", jobs.only_a), ("B", jobs.only_b)):
        if number:
            yield f"Only in {side}: {counted(number, 'job')}.\n"


def _movement(what: str, less: str, more: str, movement: Movement) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("job", overflow="fold")
    for name in ("wait (s): A", "B", "B - A", "end (s): A", "B", "B - A"):
        table.add_column(name, justify="right", overflow="fold")
    for title, changes in (
        (f"{what} {less}", movement.most_gained),
        (f"{what} {more}", movement.most_lost),
    ):
        if changes:
            table.add_row(f"{title}:")
            for change in changes:
                table.add_row(f"  {change.app}", *_times(change))
    return table


def _times(change: JobChange) -> Iterator[str]:
    for a, b in ((change.a.wait_s, change.b.wait_s), (change.a.end_s, change.b.end_s)):
        yield from _three(a, b, _time)
