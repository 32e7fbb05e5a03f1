"""The report of an import: what is in the feed, what is not and why, and how well it replays.

With ``--calibrate`` the new feed is replayed, and the starts are compared with the recorded ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import click
import trio
from rich.console import Console, RenderableType
from rich.table import Table

from muster.cli._options import INTERRUPTED, STDOUT, complain
from muster.cli._output import Column, Unit, console_of, print_parts, tables_of
from muster.cli._progress import ProgressLine
from muster.feeds import FeedOrigin, date_text
from muster.figures.text import counted, percent, seconds_text
from muster.importing import Cause, FeedSummary, Workload
from muster.importing.calibration import Agreement, Calibration, CalibrationResult
from muster.importing.workload import Starts
from muster.replay import Tally, replay
from muster_core.decisions import seconds

_MOST_QUEUES = 8
"""The most queues that are named."""


_CHANGED = "in the feed in another form"


def summary_lines(workload: Workload, written: FeedSummary, target: str) -> Iterator[str]:
    """Yield the lines of the summary."""
    account = workload.account
    read = " and ".join(counted(number, what) for what, number in sorted(account.read.items()))
    yield f"read: {read}"
    name = "standard output" if target == STDOUT else target
    gangs = f" ({counted(written.gangs, 'gang')})" if written.gangs else ""
    yield (
        f"{name}: {counted(written.apps, 'application')} with {counted(written.asks, 'ask')}"
        f"{gangs} on {counted(written.nodes, 'node')}"
    )
    if written.first_us is not None and written.last_us is not None:
        first, last = (
            instant_text(at_us, written) for at_us in (written.first_us, written.last_us)
        )
        yield f"submitted: from {first} to {last}"
    # IMPORT-32
    if workload.real_until_us is not None:
        until, end = instant_text(workload.real_until_us, written), workload.end
        yield (
            f"real until {until}: what waited then ({counted(end.waiting, 'job')}) is left out, and "
            f"what ran ({counted(end.running, 'job')}) never ends: replay it with --until {until}"
        )
    named = ", ".join(written.queues[:_MOST_QUEUES])
    more = len(written.queues) - _MOST_QUEUES
    yield f"queues: {named}" + (f" and {more:,} more" if more > 0 else "")
    if workload.remarks:
        yield "configuration:"
        yield from (f"  {remark}" for remark in workload.remarks)
    for title, causes in (
        ("left out", account.left_out),
        ("not in the feed", account.notes),
        (_CHANGED, account.changes),
    ):
        if causes:
            yield f"{title}:"
            yield from map(_cause, causes)


def instant_text(at_us: int, written: FeedSummary) -> str:
    """Return an instant of the dump as text: a date, or seconds."""
    return date_text(at_us) if written.is_dated else f"{seconds(at_us)} s"


def _cause(cause: Cause) -> str:
    example = f": {cause.example}" if cause.example else ""
    first = f"first {cause.first}" if cause.count > 1 else cause.first
    return f"  {counted(cause.count, cause.what)}: {cause.text} ({first}{example})"


def summary_map(workload: Workload, written: FeedSummary, target: str) -> dict[str, object]:
    """Return the summary as JSON."""
    account = workload.account
    return {
        "feed": target,
        "read": dict(sorted(account.read.items())),
        "taken": dict(sorted(account.taken.items())),
        "left_out": [_cause_map(cause) for cause in account.left_out],
        "not_in_feed": [_cause_map(cause) for cause in account.notes],
        "in_another_form": [_cause_map(cause) for cause in account.changes],
        "remarks": list(workload.remarks),
        "events": written.events,
        "apps": written.apps,
        "asks": written.asks,
        "gangs": written.gangs,
        "nodes": written.nodes,
        "queues": list(written.queues),
        "first": None if written.first_us is None else _json_instant(written.first_us, written),
        "last": None if written.last_us is None else _json_instant(written.last_us, written),
        "real_until": None
        if workload.real_until_us is None
        else _json_instant(workload.real_until_us, written),
    }


def instant_of(written: FeedSummary) -> Callable[[int], str | int | float]:
    """Return what writes an instant, given in microseconds since the start of a feed, for JSON."""
    origin_us = written.first_us or 0
    return lambda at_us: _json_instant(origin_us + at_us, written)


def _json_instant(at_us: int, written: FeedSummary) -> str | int | float:
    return date_text(at_us) if written.is_dated else seconds(at_us)


def _cause_map(cause: Cause) -> dict[str, object]:
    return {
        "what": cause.what,
        "cause": cause.text,
        "count": cause.count,
        "first": cause.first,
        "example": cause.example,
    }


# IMPORT-22
def calibrate(
    feed: str, starts: Starts, date: Callable[[int], str], *, progress: bool
) -> CalibrationResult:
    """Replay a feed, and return how far its starts are from the real ones.

    Ctrl-C ends the command with 130; the feed stays.

    Args:
        feed: The name of its file.
        starts: The real starts of its jobs.
        date: Writes an instant, given in microseconds since the start of the feed.
        progress: Whether progress is shown on a terminal.

    Raises:
        FeedError: If the feed cannot be read.
    """
    tally, calibration, origin = Tally(), Calibration(starts, date), FeedOrigin()
    shown = ProgressLine(tally, shown=progress)

    async def run() -> None:
        items = shown.read(feed, origin)
        await replay(items, watchers=[calibration], tally=tally)

    try:
        with shown.line():
            trio.run(run)
    except KeyboardInterrupt:
        complain(f"{feed}: is written; its calibration was interrupted")
        click.get_current_context().exit(INTERRUPTED)
    return calibration.result()


def check_target(target: str) -> None:
    """Refuse a feed that goes to standard output, where it cannot be read again.

    Raises:
        click.UsageError: If it does.
    """
    if target == STDOUT:
        msg = "--calibrate replays the feed: write it to a file, not to standard output"
        raise click.UsageError(msg)


def print_calibrated(result: CalibrationResult) -> None:
    """Print a result as text."""
    console = console_of()
    parts: list[RenderableType] = [_headline(result), *_tables(console, result)]
    if result.most_apart:
        parts += _jobs(console, result)
    print_parts(parts, console)
    for job in result.most_apart:
        if job.held is not None:
            click.echo(f"{job.app}/{job.ask}: {job.held}")
    click.echo(f"\n{result.sentence()}")


def _headline(result: CalibrationResult) -> str:
    lines = [
        f"\nCalibration: the real starts of {counted(result.all.jobs, 'job')} against a replay"
    ]
    if result.unknown:
        lines.append(f"{counted(result.unknown, 'job')}: no real start is known; not compared")
    if result.waiting:
        lines.append(f"{counted(result.waiting, 'job')}: never started in the replay; not compared")
    return "\n".join(lines)


def _tables(console: Console, result: CalibrationResult) -> Iterator[Table]:
    """Yield the table of agreement, and the one of the whole cluster."""
    rows = [*_named("partition", result.partitions), *_named("queue", result.queues)]
    rows.append(("all", result.all))
    first = Column("starts", [name for name, _ in rows], folds=True)
    units: list[Unit] = [
        [Column("jobs", [f"{one.jobs:,}" for _, one in rows])],
        [
            Column("apart: median", [_time(one.apart.median_s) for _, one in rows]),
            Column("95 %", [_time(one.apart.p95_s) for _, one in rows], alone="apart: 95 %"),
        ],
        [
            Column("mean wait: real", [_time(one.real.mean_s) for _, one in rows]),
            Column(
                "replayed",
                [_time(one.replayed.mean_s) for _, one in rows],
                alone="mean wait: replayed",
            ),
        ],
        [
            Column(
                f"{'within ' if not number else ''}{span}",
                [percent(one.within[span]) if one.jobs else "-" for _, one in rows],
                alone=f"within {span}",
            )
            for number, span in enumerate(result.all.within)
        ],
    ]
    yield from tables_of(console, [first], units)
    yield from _whole(console, result)


def _named(what: str, groups: Sequence[Agreement]) -> Iterator[tuple[str, Agreement]]:
    """Yield the rows of groups; a single one without a name says nothing."""
    if any(one.name for one in groups):
        yield from ((f"{what} {one.name}" if one.name else f"no {what}", one) for one in groups)


def _whole(console: Console, result: CalibrationResult) -> Iterator[Table]:
    names = ["makespan", *(f"{kind} used" for kind in result.used)]
    real = [_time(result.real_makespan_s), *(percent(one) for one, _ in result.used.values())]
    again = [
        _time(result.replayed_makespan_s),
        *(percent(other) for _, other in result.used.values()),
    ]
    units: list[Unit] = [[Column("real", real), Column("replayed", again)]]
    return tables_of(console, [Column("all nodes", names, folds=True)], units)


def _jobs(console: Console, result: CalibrationResult) -> Iterator[Table]:
    jobs = result.most_apart
    names = Column("most apart", [f"{job.app}/{job.ask}" for job in jobs], folds=True)
    units: list[Unit] = [
        [Column("starts in the replay", [_late(job.late_s) for job in jobs])],
        [Column("queue", [job.queue for job in jobs], folds=True)],
        [Column("held by", [(job.held or "-").partition(":")[0] for job in jobs], folds=True)],
    ]
    return tables_of(console, [names], units)


def _late(late_s: float) -> str:
    return f"{seconds_text(abs(late_s))} {'later' if late_s > 0 else 'earlier'}"


def _time(time_s: float | None) -> str:
    return "-" if time_s is None else seconds_text(time_s)
