"""The progress line of a command: events, virtual time, decisions per second."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from threading import Event, Thread
from typing import Final, Protocol, final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from muster.feeds import FeedItem, FeedOrigin, RawEvent, date_text, parse, read_events, read_feed
from muster.figures.text import counted, measured, percent
from muster_core.decisions import MICROSECONDS

LINES_S: Final = 10.0
"""How often a line of progress is printed where there is no terminal, in seconds."""

NARROW: Final = 72
"""The width in columns below which a terminal has no room for the bar."""


def clock(seconds: float) -> str:
    """Return the text of a time, such as ``12.5 s`` or ``3d 04:05:06``."""
    if seconds < 60:
        return f"{seconds:.6g} s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days}d ' if days else ''}{hours:02}:{minutes:02}:{whole_seconds:02}"


def instant(at_us: int, origin_us: int | None) -> str:
    """Return the text of an instant: a date if the origin of time is known.

    Args:
        at_us: The instant, in microseconds since the start.
        origin_us: When that was, in microseconds since 1970 in UTC, or None.
    """
    return clock(at_us / MICROSECONDS) if origin_us is None else date_text(origin_us + at_us)


class _Readable(Protocol):
    def read1(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class ProgressCounters(Protocol):
    """The counters that the line shows; another thread reads them."""

    @property
    def events(self) -> int:
        """How many events were read."""
        ...

    @property
    def at_us(self) -> int:
        """The current instant, in microseconds since the start."""
        ...

    @property
    def decisions(self) -> int:
        """How many decisions were announced."""
        ...

    @property
    def took_s(self) -> float:
        """How long it has taken so far, in seconds."""
        ...


@final
class CountedFile:
    """A file that counts the bytes read from it.

    Attributes:
        name: Its name.
        size: Its length in bytes.
        done: How many bytes were read.
    """

    def __init__(self, name: str, stream: _Readable, size: int) -> None:
        self.name = name
        self.size = size
        self.done = 0
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes."""
        chunk = self._stream.read1(size)
        self.done += len(chunk)
        return chunk

    def close(self) -> None:
        """Close it."""
        self._stream.close()


def live(console: Console, view: Callable[[], RenderableType]) -> Live:
    """Return a context in which a view is drawn on a terminal again and again."""
    return Live(
        get_renderable=view,
        console=console,
        refresh_per_second=8,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def bar_line(console: Console, done: int, size: int, cells: Sequence[str]) -> Table:
    """Return a line with a bar, if the size is known and there is room for one."""
    line = Table.grid(padding=(0, 2))
    has_bar = size and console.width >= NARROW
    line.add_row(*([ProgressBar(total=size, completed=done, width=24)] if has_bar else []), *cells)
    return line


def is_measured(file: str) -> bool:
    """Return whether a file has a length and can be read."""
    return Path(file).is_file() and os.access(file, os.R_OK)


def opened_counted(file: str) -> CountedFile:
    """Open a file whose bytes are counted; close it by its ``close``."""
    path = Path(file)
    return CountedFile(file, path.open("rb"), path.stat().st_size)


@final
class ProgressLine:
    """A line on standard error that shows progress.

    On a terminal it is drawn again and again. Elsewhere, such as in the log of a batch job, a new
    line follows every few seconds.

    Args:
        counters: The counters to show, such as a tally.
        shown: False for no line.
        below: Draws the part below the line, or None. It also returns the instant that this part
            shows, in microseconds, so that the line shows the same instant: reading is ahead of
            the decisions.
        every_s: How often a line is printed where there is no terminal, in seconds.
    """

    def __init__(
        self,
        counters: ProgressCounters,
        *,
        shown: bool,
        below: Callable[[Console], tuple[int, RenderableType]] | None = None,
        every_s: float = LINES_S,
    ) -> None:
        self._counters = counters
        self._below = below
        self._console = Console(stderr=True)
        self._shown = shown
        self._every_s = every_s
        self._files: list[CountedFile] = []

    def line(self) -> AbstractContextManager[object]:
        """Return a context in which the line is shown; another thread draws it."""
        if not self._shown:
            return nullcontext()
        if not self._console.is_terminal:
            return self._lines()
        return live(self._console, self._view)

    # COMMAND-31
    @contextmanager
    def _lines(self) -> Generator[None]:
        over = Event()

        def print_lines() -> None:
            while not over.wait(self._every_s):
                click.echo(", ".join([*self._cells(self._counters.at_us), *self._part()]), err=True)

        thread = Thread(target=print_lines, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def read(self, feed: str, origin: FeedOrigin | None = None) -> Iterator[FeedItem]:
        """Read a feed, and show on the line how much of it is read.

        Args:
            feed: Its name.
            origin: Gets the origin of its time, or None.
        """
        if self._measures(feed):
            return parse(self.read_raw(feed), base=Path(feed).parent, origin=origin)
        return read_feed(feed, origin=origin, only_feeds=True)

    def read_raw(self, file: str, *, logs: bool = False) -> Generator[RawEvent]:
        """Read the raw events of a feed, or with ``logs`` of a decision log, likewise."""
        if not self._measures(file):
            yield from read_events(
                file, logs=logs
            )  # also raises the error if the file cannot be read
            return
        with closing(opened_counted(file)) as measured:
            self._files.append(measured)
            yield from read_events(measured, logs=logs)

    def _measures(self, file: str) -> bool:
        return self._shown and is_measured(file)

    def _view(self) -> RenderableType:
        if self._below is None:
            return self._drawn(self._counters.at_us)
        at_us, below = self._below(self._console)
        return Group(self._drawn(at_us), "", below)

    def _drawn(self, at_us: int) -> Table:
        files = list(self._files)
        done, size = (sum(one.done for one in files), sum(one.size for one in files))
        return bar_line(self._console, done, size, self._cells(at_us))

    def _cells(self, at_us: int) -> Sequence[str]:
        counters = self._counters
        speed = counters.decisions / counters.took_s
        return (
            counted(counters.events, "event"),
            clock(at_us / 1e6),
            f"{measured(speed)} decisions/s",
        )

    def _part(self) -> Iterator[str]:
        """Yield how much of the files is read, if their length is known."""
        files = list(self._files)
        size = sum(one.size for one in files)
        if size:
            yield f"{percent(sum(one.done for one in files) / size)} read"
