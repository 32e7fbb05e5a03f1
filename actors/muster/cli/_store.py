"""``muster store``: what is in a state directory, and whether it is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from rich.console import RenderableType
from rich.table import Table

from muster import StoreError
from muster.cli._options import (
    DIFFERENT,
    UNUSABLE,
    Format,
    complain,
    example,
    format_option,
    print_json,
)
from muster.cli._output import Column, console_of, print_parts, tables_of
from muster.cli._progress import clock
from muster.feeds import FeedError, KeptFeed
from muster.figures.text import counted
from muster.replay import Check
from muster.store import Checkpoint, StateReader, Summary
from muster.store._reader import verify
from muster.store._rows import iso
from muster.store._writer import StateWriter
from muster_core.decisions import MICROSECONDS, seconds

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


# COMMAND-11
@click.command("store", epilog=example("muster store state --verify"))
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--verify",
    "verifies",
    is_flag=True,
    help="Check everything that is in it, and make all decisions again.",
)
@click.option(
    "--compact",
    "compacts",
    is_flag=True,
    help="Give the room of what was removed back to the file system; nobody else may write then.",
)
@format_option
@click.pass_context
def command(
    context: click.Context, directory: Path, *, verifies: bool, compacts: bool, output: Format
) -> None:
    """Show what is in a state directory, also while it is in use.

    Prints the first and the last instant, how many batches, events and decisions are kept, the size,
    and the checkpoints.

    Exit status: 0, or 1 if --verify finds a problem, 2 if the directory cannot be read or, with
    --compact, written.
    """
    try:
        if compacts:
            _compact(directory)
        with StateReader(directory) as reader:
            summary = reader.summary()
        problems = list(_problems(directory)) if verifies else []
    except StoreError as error:
        complain(str(error))
        if output is Format.JSON:
            message = str(error).removeprefix(f"{error.path}: ")
            print_json({"error": {"file": str(error.path), "line": None, "message": message}})
        context.exit(UNUSABLE)
    if output is Format.JSON:
        checked = {"ok": not problems, "problems": problems} if verifies else {}
        print_json({"store": str(directory), **_as_map(summary), **checked})
    else:
        _print(directory, summary)
        for problem in problems:
            click.echo(problem)
        if verifies:
            found = counted(len(problems), "problem") if problems else "ok"
            batches = counted(summary.batches, "batch", "batches")
            click.echo(f"{directory}: {found} ({batches})")
    context.exit(DIFFERENT if problems else 0)


def _compact(directory: Path) -> None:
    with StateWriter.open(directory) as writer:
        writer.compact()


def _problems(directory: Path) -> Iterator[str]:
    """Yield the problems of a directory that can be opened."""
    is_whole = True
    for problem in verify(directory):
        is_whole = False
        yield problem
    if is_whole:
        yield from _decided_otherwise(directory)


# STORE-18
def _decided_otherwise(directory: Path) -> Iterator[str]:
    """Make all decisions again, and yield the first one that differs from the kept one."""
    check = Check()
    try:
        with KeptFeed(directory) as feed:
            check.run_again(feed)
            for one in check.differences:
                yield f"{feed.path}: {one.field}: it was {one.expected}, and is now {one.found}"
    except FeedError as error:
        yield str(error)


def _print(directory: Path, summary: Summary) -> None:
    console = console_of()
    title = f"{directory}: format {summary.meta.format}, {_size(summary.file_bytes)}\n"
    parts: list[RenderableType] = [title, _facts(summary)]
    if summary.checkpoints:
        parts += tables_of(console, [], [_checkpoints(summary.checkpoints)])
    print_parts(parts, console)


def _facts(summary: Summary) -> Table:
    meta = summary.meta
    table = Table.grid(padding=(0, 2))
    table.add_row("partition", meta.partition)
    table.add_row("term", str(meta.term))
    table.add_row("written by", f"Muster {meta.written_by}")
    table.add_row("origin of time", meta.origin)
    table.add_row("first batch", _batch(summary, meta.anchor.batch + 1, summary.first_us))
    table.add_row("last batch", _batch(summary, summary.last_batch, summary.last_us))
    table.add_row("batches", f"{summary.batches:,}")
    table.add_row("events", f"{summary.events:,} ({_size(summary.events_bytes)})")
    table.add_row("decisions", f"{summary.decisions:,} ({_size(summary.decisions_bytes)})")
    table.add_row("checkpoints", f"{len(summary.checkpoints):,}")
    return table


def _batch(summary: Summary, number: int, at_us: int | None) -> str:
    if at_us is None:
        return "none"
    return f"{number:,} at {clock(at_us / MICROSECONDS)}, {iso(summary.meta.origin_us + at_us)}"


def _checkpoints(found: tuple[Checkpoint, ...]) -> list[Column]:
    return [
        Column("checkpoint after batch", [f"{one.batch:,}" for one in found]),
        Column("at", [clock(one.at_us / MICROSECONDS) for one in found]),
        Column("parts", [f"{one.parts:,}" for one in found]),
        Column("size", [_size(one.size) for one in found]),
        Column("complete", ["yes" if one.complete else "no" for one in found]),
    ]


def _size(size: int) -> str:
    left, unit = float(size), 0
    while left >= 1024 and unit < len(_UNITS) - 1:
        left, unit = left / 1024, unit + 1
    return f"{left:,.0f} {_UNITS[unit]}" if unit == 0 else f"{left:,.1f} {_UNITS[unit]}"


def _as_map(summary: Summary) -> dict[str, object]:
    meta = summary.meta
    return {
        "format": meta.format,
        "written_by": meta.written_by,
        "origin": meta.origin,
        "partition": meta.partition,
        "term": meta.term,
        "first": _instant(summary.meta.anchor.batch + 1, summary.first_us),
        "last": _instant(summary.last_batch, summary.last_us),
        "batches": summary.batches,
        "events": summary.events,
        "decisions": summary.decisions,
        "bytes": summary.file_bytes,
        "checkpoints": [
            {
                "batch": one.batch,
                "at": seconds(one.at_us),
                "parts": one.parts,
                "bytes": one.size,
                "complete": one.complete,
            }
            for one in summary.checkpoints
        ],
    }


def _instant(number: int, at_us: int | None) -> dict[str, object] | None:
    return None if at_us is None else {"batch": number, "at": seconds(at_us)}
