"""The progress bar of a replay: events, virtual time, decisions a second."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol, final

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from muster.feeds import FeedItem, parse, read_feed, read_raw
from muster.replay import Tally


def clock(seconds: float) -> str:
    """Write a time for people, such as ``12.5 s`` or ``3d 04:05:06``."""
    if seconds < 60:
        return f"{seconds:.6g} s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days}d ' if days else ''}{hours:02}:{minutes:02}:{whole_seconds:02}"


class _Readable(Protocol):
    def read1(self, size: int, /) -> bytes: ...


@final
class Measured:
    """A file that is read, and how far.

    Attributes:
        name: Its name.
        size: Its length in bytes, or 0 where it has none, as a pipe.
        done: How many bytes were read.
    """

    def __init__(self, name: str, stream: _Readable, size: int) -> None:
        self.name = name
        self.size = size
        self.done = 0
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """Give at most ``size`` bytes."""
        chunk = self._stream.read1(size)
        self.done += len(chunk)
        return chunk


@final
class Progress:
    """A line on standard error that says how far a replay is, if that is a terminal.

    Args:
        tally: What to tell of.
        shown: False for no line, wherever standard error goes.
    """

    def __init__(self, tally: Tally, *, shown: bool) -> None:
        self._tally = tally
        self._console = Console(stderr=True)
        self._shown = shown and self._console.is_terminal
        self._file: Measured | None = None

    def line(self) -> AbstractContextManager[object]:
        """Show the line for the time of a ``with`` statement; another thread draws it."""
        if not self._shown:
            return nullcontext()
        return Live(
            get_renderable=self._drawn,
            console=self._console,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def read(self, feed: str) -> Iterator[FeedItem]:
        """Read a feed so that its line knows how much is left."""
        path = Path(feed)
        if not (self._shown and path.is_file() and os.access(path, os.R_OK)):
            yield from read_feed(feed)  # or say why it cannot be read
            return
        with path.open("rb") as stream:
            self._file = Measured(feed, stream, path.stat().st_size)
            yield from parse(read_raw(self._file), base=path.parent)

    def _drawn(self) -> Table:
        tally = self._tally
        speed = tally.decisions / tally.took_s
        line = Table.grid(padding=(0, 2))
        cells = (f"{tally.events:,} events", clock(tally.at_us / 1e6), f"{speed:,.0f} decisions/s")
        if self._file is not None and self._file.size:
            bar = ProgressBar(total=self._file.size, completed=self._file.done, width=24)
            line.add_row(bar, *cells)
        else:
            line.add_row(*cells)
        return line
