"""The summary of a replay, for people and for programs."""

from __future__ import annotations

import os
from typing import Final

import attrs
import click
from rich import box
from rich.console import Console
from rich.table import Table

from muster.cli._options import counted
from muster.cli._progress import clock
from muster.replay import Summary, WaitSummary

_WIDE: Final = 250
"""The width of what does not go to a terminal, in columns, so that nothing is folded."""


def as_map(summary: Summary, *, interrupted: bool) -> dict[str, object]:
    """Give a summary as JSON knows it."""
    return {
        **attrs.asdict(summary),
        "decisions_per_s": summary.decisions_per_s,
        "interrupted": interrupted,
    }


def print_summary(summary: Summary, *, interrupted: bool, err: bool) -> None:
    """Write a summary for people.

    Args:
        summary: What was done.
        interrupted: Whether the replay was ended before its end.
        err: Write to standard error.
    """
    console = Console(stderr=err, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    # rich has an end of its own for a closed pipe, so it does not write itself.
    with console.capture() as capture:
        console.print(_headline(summary, interrupted=interrupted))
        console.print(_counts(summary))
        if summary.queues:
            console.print(_waits(summary))
        if summary.utilisation:
            console.print(_utilisation(summary))
    text = "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
    click.echo(text, nl=False, err=err, color=True)


def _headline(summary: Summary, *, interrupted: bool) -> str:
    events, decisions = counted(summary.events, "event"), counted(summary.decisions, "decision")
    return (
        f"{'Interrupted after' if interrupted else 'Replayed'} {events}, "
        f"{clock(summary.virtual_s)} of virtual time: {decisions} in {summary.real_s:,.3g} s "
        f"({summary.decisions_per_s:,.0f} a second)\n"
    )


def _counts(summary: Summary) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row("asks bound", f"{summary.asks_bound:,}")
    table.add_row("asks pending at the end", f"{summary.asks_pending:,}")
    if summary.asks_reclaimed or summary.asks_preempted:
        table.add_row("asks reclaimed", f"{summary.asks_reclaimed:,}")
        table.add_row("asks preempted", f"{summary.asks_preempted:,}")
    if summary.gangs_satisfied or summary.gangs_timed_out or summary.asks_waiting:
        table.add_row("asks waiting at the end", f"{summary.asks_waiting:,}")
        table.add_row("gangs satisfied", f"{summary.gangs_satisfied:,}")
        table.add_row("gangs timed out", f"{summary.gangs_timed_out:,}")
    table.add_row("events refused", f"{summary.refused:,}")
    return table


def _waits(summary: Summary) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_footer=len(summary.queues) > 1, pad_edge=False)
    table.add_column("queue", "all", overflow="fold")
    jobs = sum(queue.jobs for queue in summary.queues)
    totals = (f"{jobs:,}", f"{summary.wait.count:,}", *_times(summary.wait))
    names = ("jobs", "asks bound", "mean wait (s)", "median", "95 %", "longest")
    for name, total in zip(names, totals, strict=True):
        table.add_column(name, total, justify="right")
    for queue in summary.queues:
        cells = (f"{queue.jobs:,}", f"{queue.wait.count:,}", *_times(queue.wait))
        table.add_row(queue.queue, *cells)
    return table


def _times(wait: WaitSummary) -> tuple[str, ...]:
    times_s = (wait.mean_s, wait.median_s, wait.p95_s, wait.longest_s)
    return tuple("-" if time_s is None else f"{time_s:,.3f}" for time_s in times_s)


def _utilisation(summary: Summary) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("resource", overflow="fold")
    table.add_column("used", justify="right")
    for name, used in summary.utilisation.items():
        table.add_row(name, "-" if used is None else f"{used:.1%}")
    return table
