"""The output of ``muster replay``: the live view of queues, and the summary as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import attrs
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from muster.cli._output import Column, Unit, console_of, print_parts, tables_of
from muster.cli._progress import clock, instant
from muster.feeds import FeedOrigin, date_text
from muster.figures.text import cause, counted, measured, percent, resource_time, seconds_text
from muster.replay import JobGroup, LostRuns, Summary
from muster.replay._measures import titled
from muster.report import Board, QueueNow, as_words

WIDE: Final = 88
"""The width in columns from which there is room for bars."""

NARROW: Final = 56
"""The width in columns below which there is room only for running and pending asks."""


def moment(board: Board, origin: FeedOrigin, console: Console) -> tuple[int, RenderableType]:
    """Draw the view of one moment; also return its instant, in microseconds.

    Args:
        board: The board to show; it does not change meanwhile.
        origin: The origin of time, as far as it is known.
        console: The terminal, as for :func:`live_view`.
    """
    with board.at_rest():
        return board.at_us, live_view(board, console, origin.us)


def live_view(board: Board, console: Console, origin_us: int | None = None) -> RenderableType:
    """Draw the view, as large as the terminal allows.

    Args:
        board: The board to show.
        console: The terminal; one line below the view and two lines above it stay free.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
    """
    rows = max(console.height - 3, 3)
    recent = list(board.recent)[-max(min(rows // 4, 6), 1) :] if rows > 6 else []
    room = rows - 2 - (len(recent) + 1 if recent else 0)
    parts: list[RenderableType] = [_tree(board, max(room, 1), console.width)]
    if recent:
        parts.append(Text(""))
        for announced in recent:
            when = instant(announced.at_us, origin_us)
            line = Text(f"{when}  ", style="dim", no_wrap=True, overflow="ellipsis")
            line.append(plain(as_words(announced.as_map())), style="default not dim")
            parts.append(line)
    return Group(*parts)


def _tree(board: Board, room: int, width: int) -> Table:
    queues = board.queues()
    shown = _chosen(queues, room)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=width < WIDE)
    table.add_column("queue", no_wrap=True, overflow="ellipsis", ratio=1 if width < WIDE else None)
    table.add_column("running", justify="right", no_wrap=True)
    table.add_column("pending", justify="right", no_wrap=True)
    if width >= NARROW:
        table.add_column("waiting", justify="right", no_wrap=True)
        table.add_column("priority", justify="right", no_wrap=True)
        table.add_column("used", justify="right", no_wrap=True)
    if width >= WIDE:
        table.add_column("", no_wrap=True)
    for path, queue in shown:
        table.add_row(*_cells(board, path, queue, width))
    if len(shown) < len(queues):
        table.add_row(Text(f"… {len(queues) - len(shown):,} more", style="dim"))
    return table


def _chosen(queues: Sequence[tuple[str, QueueNow]], room: int) -> list[tuple[str, QueueNow]]:
    """Choose the busiest queues, in tree order; if some are left out, keep one line free."""
    if len(queues) <= room:
        return list(queues)
    busiest = sorted(queues, key=lambda found: -(found[1].running + found[1].pending))
    chosen = {path for path, _ in busiest[: max(room - 1, 1)]}
    return [found for found in queues if found[0] in chosen]


def _cells(board: Board, path: str, queue: QueueNow, width: int) -> list[RenderableType]:
    depth = path.count(".")
    name = Text("  " * min(depth, 6) + plain(path.rpartition(".")[2]))
    pending = Text(f"{queue.pending:,}", style="yellow" if queue.pending else "dim")
    cells: list[RenderableType] = [name, Text(f"{queue.running:,}"), pending]
    if width >= NARROW:
        priority = "-" if queue.priority is None else f"{queue.priority:,}"
        share = board.share(queue)
        cells += [Text(f"{queue.waiting:,}"), Text(priority), Text(f"{share:.0%}")]
        if width >= WIDE:
            cells.append(ProgressBar(total=1.0, completed=share, width=24))
    return cells


def plain(text: str) -> str:
    """Replace the characters of a text that could control a terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def as_map(summary: Summary, origin_us: int | None, *, interrupted: bool) -> dict[str, object]:
    """Return a summary for JSON.

    Args:
        summary: The summary.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
        interrupted: Whether Ctrl-C ended the replay.
    """
    return {
        "origin": None if origin_us is None else date_text(origin_us),
        **attrs.asdict(summary),
        "decisions_per_s": summary.decisions_per_s,
        "interrupted": interrupted,
    }


def print_summary(
    summary: Summary, dates: tuple[str, str] | None, *, interrupted: bool, err: bool
) -> None:
    """Print a summary as text.

    Args:
        summary: The summary.
        dates: The dates of the beginning and of the end, or None if they are not known.
        interrupted: Whether Ctrl-C ended the replay.
        err: Whether to print to standard error.
    """
    console = console_of(err=err)
    parts: list[RenderableType] = [_headline(summary, dates, interrupted=interrupted)]
    parts.append(_counts(summary))
    if summary.queues:
        parts += _waits(console, summary)
    if len(summary.measures.by_size) > 1:
        parts += _jobs(console, summary)
    if summary.parts:
        parts += _parts(console, summary)
    if summary.lost:
        parts += _lost(console, summary)
    if summary.utilisation:
        parts += _utilisation(console, summary)
    print_parts(parts, console, err=err)


def _headline(summary: Summary, dates: tuple[str, str] | None, *, interrupted: bool) -> str:
    events, decisions = counted(summary.events, "event"), counted(summary.decisions, "decision")
    span = "" if dates is None else f"From {dates[0]} to {dates[1]}\n"
    return (
        f"{'Interrupted after' if interrupted else 'Replayed'} {events}, "
        f"{clock(summary.virtual_s)} of virtual time: {decisions} in "
        f"{measured(summary.real_s)} s ({measured(summary.decisions_per_s)} a second)\n"
        f"{span}"
    )


def _counts(summary: Summary) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row("asks bound", f"{summary.asks_bound:,}")
    if summary.asks_unbound:
        table.add_row("asks ended without a node", f"{summary.asks_unbound:,}")
    table.add_row("asks pending at the end", f"{summary.asks_pending:,}")
    if summary.asks_reclaimed or summary.asks_preempted:
        table.add_row("asks reclaimed", f"{summary.asks_reclaimed:,}")
        table.add_row("asks preempted", f"{summary.asks_preempted:,}")
    if summary.asks_run_limit:
        table.add_row("asks ended by their run limit", f"{summary.asks_run_limit:,}")
    if summary.gangs_satisfied or summary.gangs_timed_out or summary.asks_waiting:
        table.add_row("asks waiting at the end", f"{summary.asks_waiting:,}")
        table.add_row("gangs satisfied", f"{summary.gangs_satisfied:,}")
        table.add_row("gangs timed out", f"{summary.gangs_timed_out:,}")
    reserved = summary.reserved
    if reserved.asks:
        table.add_row("asks with a reservation", f"{reserved.asks:,}")
        table.add_row("bound by their first known start", f"{reserved.kept:,}")
        table.add_row("bound later", f"{reserved.late:,}")
        table.add_row("bound without a known start", f"{reserved.open_ended:,}")
        if reserved.unbound:
            table.add_row("not bound with a reservation", f"{reserved.unbound:,}")
    table.add_row("events refused", f"{summary.refused:,}")
    fairness, slowdown = summary.fairness, summary.measures.bounded_slowdown
    for what, value, write in (
        ("makespan", summary.makespan_s, seconds_text),
        ("mean bounded slowdown", slowdown.mean, measured),
        ("fairness of queues", fairness.queues, measured),
        ("fairness of users", fairness.users, measured),
    ):
        if value is not None:
            table.add_row(what, write(value))
    return table


def _waits(console: Console, summary: Summary) -> Iterator[Table]:
    names = [queue.queue for queue in summary.queues]
    rows = [
        (
            f"{queue.jobs:,}",
            f"{queue.asks_bound:,}",
            f"{queue.asks_unbound:,}",
            *_texts(titled(queue.wait).values(), seconds_text),
            f"{queue.asks_reclaimed:,}",
            f"{queue.asks_preempted:,}",
        )
        for queue in summary.queues
    ]
    jobs = sum(queue.jobs for queue in summary.queues)
    evicted = (f"{summary.asks_reclaimed:,}", f"{summary.asks_preempted:,}")
    of_all_asks = (f"{summary.asks_bound:,}", f"{summary.asks_unbound:,}")
    footers = (
        f"{jobs:,}",
        *of_all_asks,
        *_texts(titled(summary.wait).values(), seconds_text),
        *evicted,
    )
    if len(rows) == 1:
        footers = ("",) * len(footers)
    without = "ended without a node" if summary.asks_unbound else ""
    titles = ["jobs", "asks bound", without, *titled(summary.wait)]
    titles.append("reclaimed" if summary.asks_reclaimed else "")
    titles.append("preempted" if summary.asks_preempted else "")
    units = [
        [Column(title, cells, footer)]
        for title, footer, cells in zip(titles, footers, zip(*rows, strict=True), strict=True)
        if title
    ]
    of_all = "all" if len(rows) > 1 else ""
    return tables_of(console, [Column("queue", names, of_all, folds=True)], units)


# COMMAND-33
def _parts(console: Console, summary: Summary) -> Iterator[Table]:
    """Yield the parts that queues below a half-life had, and those that their weights gave them."""
    rows = [
        (
            f"{part.weight:,}",
            percent(part.due),
            *_texts((part.had, part.furthest_had, part.wanted, part.had_wanting), percent),
        )
        for part in summary.parts
    ]
    titles = ("weight", "due", "had", "furthest", "time pending", "had then")
    names = Column("part of its siblings", [part.queue for part in summary.parts], folds=True)
    return tables_of(console, [names], _units(titles, rows))


def _units(titles: Iterable[str], rows: Iterable[Sequence[str]]) -> list[Unit]:
    """Return the columns of a table, each of which may go to another table."""
    return [[Column(*column)] for column in zip(titles, zip(*rows, strict=True), strict=True)]


def _texts(values: Iterable[float | None], write: Callable[[float], str]) -> list[str]:
    return ["-" if value is None else write(value) for value in values]


# COMMAND-36
def _jobs(console: Console, summary: Summary) -> Iterator[Table]:
    """Yield the waits and bounded slowdowns of jobs by size."""
    measures = summary.measures
    groups = {**measures.by_size, "all": JobGroup(measures.wait, measures.bounded_slowdown)}
    rows = [
        (
            f"{group.wait.count:,}",
            *_texts(titled(group.wait).values(), seconds_text),
            *_texts(titled(group.bounded_slowdown).values(), measured),
        )
        for group in groups.values()
    ]
    of_slowdown = (title.removeprefix("bounded ") for title in titled(measures.bounded_slowdown))
    titles = ("jobs", *titled(measures.wait), *of_slowdown)
    names = Column(f"jobs by {measures.size_resource}", list(groups), folds=True)
    return tables_of(console, [names], _units(titles, rows))


def _utilisation(console: Console, summary: Summary) -> Iterator[Table]:
    until, weighted = summary.utilisation_to_last_arrival, summary.measures.weighted_wait_s
    kinds = list(summary.utilisation)
    columns = [Column("used", _texts(summary.utilisation.values(), percent))]
    if any(share is not None for share in until.values()):
        columns.append(Column("before the drain", _texts(map(until.get, kinds), percent)))
    if weighted:
        columns.append(Column("weighted wait", _texts(map(weighted.get, kinds), seconds_text)))
    names = Column("resource", kinds, folds=True)
    return tables_of(console, [names], [[column] for column in columns])


# COMMAND-22
def _lost(console: Console, summary: Summary) -> Iterator[Table]:
    """Yield tables of the runs that were cut short and have to be run again."""
    rows = [
        (queue.queue, why, lost) for queue in summary.queues for why, lost in queue.lost.items()
    ]
    several = len(rows) > 1
    if several:
        rows += [("all", *one) for one in summary.lost.items()]
    runs = [lost for *_, lost in rows]
    names = [
        Column("queue", [queue for queue, *_ in rows], folds=True),
        Column("cut short", [cause(why) for _, why, _ in rows], folds=True),
    ]
    units: list[Unit] = [
        [Column("runs", [f"{lost.runs:,}" for lost in runs])],
        [Column("lost run time", [seconds_text(lost.run_s) for lost in runs])],
    ]
    units += [
        [Column(kind, [_held(lost, kind) for lost in runs])]
        for kind in sorted({kind for lost in runs for kind in lost.resource_s})
    ]
    return tables_of(console, names, units)


def _held(lost: LostRuns, kind: str) -> str:
    held = lost.resource_s.get(kind)
    return "-" if held is None else resource_time(kind, held)
