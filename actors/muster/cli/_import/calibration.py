"""``--calibrate``: replay the feed that an import has made, and say how far off its starts are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import click
import trio
from rich.console import Console
from rich.table import Table

from muster.cli._options import INTERRUPTED, STDOUT, complain
from muster.cli._progress import Progress
from muster.cli._tables import Column, Unit, console_of, tables_of
from muster.feeds import FeedOrigin
from muster.figures.text import counted, percent, seconds_text
from muster.importing.calibration import Agreement, Calibrated, Calibration
from muster.importing.workload.jobs import Starts
from muster.replay import Tally, replay


# IMPORT-22
def calibrated(
    feed: str, starts: Starts, date: Callable[[int], str], *, progress: bool
) -> Calibrated:
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
    shown = Progress(tally, shown=progress)

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


def print_calibrated(result: Calibrated) -> None:
    """Print a result as text."""
    console = console_of()
    with console.capture() as capture:
        console.print(_headline(result))
        for table in _tables(console, result):
            console.print(table, crop=False)
        if result.most_apart:
            for table in _jobs(console, result):
                console.print(table, crop=False)
    click.echo("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()), nl=False)
    for job in result.most_apart:
        if job.held is not None:
            click.echo(f"{job.app}/{job.ask}: {job.held}")
    click.echo(f"\n{result.sentence()}")


def _headline(result: Calibrated) -> str:
    lines = [
        f"\nCalibration: the real starts of {counted(result.all.jobs, 'job')} against a replay"
    ]
    if result.unknown:
        lines.append(f"{counted(result.unknown, 'job')}: no real start is known; not compared")
    if result.waiting:
        lines.append(f"{counted(result.waiting, 'job')}: never started in the replay; not compared")
    return "\n".join(lines)


def _tables(console: Console, result: Calibrated) -> Iterator[Table]:
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


def _whole(console: Console, result: Calibrated) -> Iterator[Table]:
    names = ["makespan", *(f"{kind} used" for kind in result.used)]
    real = [_time(result.real_makespan_s), *(percent(one) for one, _ in result.used.values())]
    again = [
        _time(result.replayed_makespan_s),
        *(percent(other) for _, other in result.used.values()),
    ]
    units: list[Unit] = [[Column("real", real), Column("replayed", again)]]
    return tables_of(console, [Column("all nodes", names, folds=True)], units)


def _jobs(console: Console, result: Calibrated) -> Iterator[Table]:
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
