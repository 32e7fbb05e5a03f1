"""``muster replay``: run a feed in virtual time; write its decisions, a report and a summary.

Ctrl-C ends a replay at once, but cleanly: what was decided so far is written.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from types import FrameType
from typing import Any, Self, TypeVar, final

import attrs
import click
import trio
from rich.console import Console

from muster.cli._inputs import (
    Instant,
    Source,
    as_time,
    base_of,
    check_order,
    exit_on_feed_error,
    open_source,
    print_left_out,
    print_refused,
    print_warnings,
    read_configuration,
    since_option,
    uncounted_warning,
    warnings_of,
)
from muster.cli._options import (
    DIFFERENT,
    FILE,
    INTERRUPTED,
    STDIN,
    STDOUT,
    Format,
    complain,
    example,
    format_option,
    name_of,
    print_json,
    progress_option,
    warning_text,
)
from muster.cli._progress import ProgressLine
from muster.cli._replay_output import as_map, moment, print_summary
from muster.compare import LeftOut, is_uncounted, noting, others, unconfigured
from muster.feeds import (
    DecisionLog,
    FeedError,
    FeedItem,
    FeedOrigin,
    Output,
    date_text,
    is_directory,
)
from muster.replay import Tally, Watcher, begun_at, configured, replay
from muster.report import Board, Content, Ending, Recorder, page
from muster_core.config.model import Configuration
from muster_core.errors import RefusedError


def check_apart(
    feed: str, decisions: str | None, report: str | None, jobs: str | None = None
) -> None:
    """Make sure that the feed, the log, the report and the table of jobs are different files.

    Raises:
        FeedError: If two of the files are the same one.
    """
    files = [("the feed", feed), ("the log", decisions), ("the report", report)]
    files.append(("the table of jobs", jobs))
    named = [(what, name) for what, name in files if name is not None and name != STDIN]
    for other, name in named[1:] if named and is_directory(feed) else ():
        if Path(name).resolve().parent == Path(feed).resolve():
            raise FeedError(name, f"is in the state directory: write {other} to another folder")
    for (what, one), (other, another) in combinations(named, 2):
        if _is_same_file(Path(one), Path(another)):
            raise FeedError(another, f"is also {what}: write {other} to another file")


def _is_same_file(one: Path, another: Path) -> bool:
    if one.exists() and another.exists():
        # A device, such as /dev/null, can take both.
        return one.samefile(another) and one.is_file()
    return one.resolve() == another.resolve()


def opened_whole(report: str) -> AbstractContextManager[Output]:
    """Open the file of a report or a table of jobs; an older one stays to the end of the context.

    Raises:
        FeedError: If it cannot be written.
    """
    path = Path(report)
    if report != STDIN and path.is_file() and not os.access(path, os.W_OK):
        raise FeedError(report, "cannot be written: it is read-only")
    return Output(report, whole=True)


def write_report(
    output: Output,
    feed: str,
    recorder: Recorder,
    tally: Tally,
    ending: Ending,
    origin_us: int | None,
) -> None:
    """Write a report.

    Args:
        output: Where to.
        feed: The name of the feed.
        recorder: The recorder of the replay.
        tally: Its counts.
        ending: Why the replay ended.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.

    Raises:
        FeedError: If it cannot be written.
    """
    recorder.close(tally.at_us)
    content = Content(recorder, tally.summary(), shown_name(feed), ending, origin_us)
    output.write(page(content).encode("utf-8"))


def shown_name(feed: str) -> str:
    """Return the name of a feed without its folder."""
    return name_of(feed) if feed == STDIN else Path(feed).name


T = TypeVar("T")


@final
class InterruptHandler:
    """Watches for Ctrl-C, in a ``with`` statement around ``trio.run``.

    Attributes:
        hit: Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.hit = False
        self._reading = False
        self._scope: trio.CancelScope | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        # Only the main thread can handle signals. Where Ctrl-C is ignored, as in a job that a
        # script starts in the background, it is meant for others.
        is_main = threading.current_thread() is threading.main_thread()
        self._is_ours = is_main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN

    def scope(self) -> trio.CancelScope:
        """Return the scope that Ctrl-C cancels; enter it inside ``trio.run``."""
        self._token = trio.lowlevel.current_trio_token()
        self._scope = trio.CancelScope()
        if self.hit:
            self._scope.cancel()
        return self._scope

    def reads(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the same items; after Ctrl-C, raise KeyboardInterrupt instead of the next one."""
        iterator = iter(items)
        while True:
            self._reading = True
            try:
                # Pressed since the last read; the cancellation might take effect too late.
                if self.hit:
                    raise KeyboardInterrupt
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self._reading = False
            yield item

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        self.hit = True
        if self._reading:
            raise KeyboardInterrupt
        if self._scope is None or self._token is None:
            return  # `scope` looks at `hit`
        if self._scope.cancel_called:
            os._exit(128 + signal.SIGINT)  # pressed again: exit without cleaning up
        with suppress(trio.RunFinishedError):  # The replay has already ended.
            self._token.run_sync_soon(self._scope.cancel)

    def __enter__(self) -> Self:
        if self._is_ours:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._before)


@final
@attrs.frozen
class ReplayArguments:
    """The arguments of a replay.

    Attributes:
        feed: The name of the feed.
        decisions: The name of the decision log, or None.
        report: The name of the report, or None.
        jobs: The name of the table of jobs, or None.
        live: Whether to show the queues while the replay runs.
        since: Where to begin, or None.
        start: From when on to count, or None.
        until: When to end, or None.
        strict: Whether to stop at the first refusal.
        config: The name of the configuration that is in force from the start, or None.
        partition: The partition of it to run, or None.
        progress: Whether to show progress.
    """

    feed: str
    decisions: str | None
    report: str | None
    jobs: str | None
    live: bool
    since: Instant | None
    start: Instant | None
    until: Instant | None
    strict: bool
    config: str | None
    partition: str | None
    progress: bool

    @property
    def takes_stdout(self) -> bool:
        """Whether the decision log, the report or the table of jobs takes standard output."""
        return STDOUT in {self.decisions, self.report, self.jobs}

    def check(self) -> None:
        """Refuse combinations of options that are not possible.

        Raises:
            click.UsageError: If the combination is not possible.
        """
        named = {"--decisions": self.decisions, "--report": self.report, "--jobs": self.jobs}
        first, *others = [option for option, name in named.items() if name == STDOUT] or [""]
        if others:
            raise click.UsageError(f"{first} and {others[0]} cannot both be standard output")
        if self.partition is not None and self.config is None:
            msg = "--partition needs --config: it names a partition of the configuration"
            raise click.UsageError(msg)
        if self.feed == self.config == STDIN:
            raise click.UsageError("Standard input can be read only once: name a file.")
        if not self.live:
            return
        if not self.progress:
            raise click.UsageError("--live shows progress: leave --no-progress away")
        if not Console(stderr=True).is_terminal:
            raise click.UsageError("--live needs a terminal, and standard error is not one")
        if self.takes_stdout and sys.stdout.isatty():
            raise click.UsageError("--live needs the terminal to which standard output goes")


# COMMAND-1
@click.command("replay", epilog=example("muster replay feed.yaml --decisions decisions.jsonl"))
@click.argument("feed", type=FILE)
@click.option(
    "--decisions",
    type=FILE,
    metavar="FILE",
    help="Write every decision to FILE: as JSON Lines, or as msgpack if the name ends in .msgpack; "
    "add .gz for gzip. `-` is standard output; the summary then goes to standard error.",
)
@click.option(
    "--report",
    type=FILE,
    metavar="FILE",
    help="Write a report to FILE, as HTML: what happened in queues and on nodes over time, and why "
    "asks waited. `-` is standard output; the summary then goes to standard error.",
)
@click.option(
    "--jobs",
    type=FILE,
    metavar="FILE",
    help="Write a table of all jobs to FILE: as CSV with the columns of Batsim and evalys, or in the "
    "Standard Workload Format if the name ends in .swf; add .gz for gzip. `-` is standard output; "
    "the summary then goes to standard error.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Show the queues during the replay. Standard error must be a terminal.",
)
@since_option("Begin with the state at this time.")
@click.option(
    "--start",
    callback=as_time,
    metavar="TIME",
    help="Count from this time on: what comes before is replayed, and is in no figure, log or "
    "report. A time since the start, or a date.",
)
@click.option(
    "--until",
    callback=as_time,
    metavar="TIME",
    help="End at this time since the start, in seconds or like 1h30m, or at a date such as "
    "2026-01-31T18:30:00Z. [default: when the feed has ended and no timer is left]",
)
@click.option("--strict", is_flag=True, help="Stop at the first refused event.")
@click.option(
    "--config",
    type=FILE,
    metavar="FILE",
    help="A configuration that is in force from the start; the `configure` events of the feed are "
    "left out.",
)
@click.option(
    "--partition",
    metavar="NAME",
    help="The partition of the FILE of --config to run. [default: `default`, or the only one]",
)
@progress_option
@format_option
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    output: Format,
    **options: Any,  # noqa: ANN401 - from click
) -> None:
    """Replay a feed in virtual time, and print a summary.

    FEED is YAML, JSON Lines or msgpack, gzip-compressed or not; `-` is standard input. It may be a
    state directory, also one in use. In the summary a job is an application, and an ask waits from its creation until it is bound for
    the first time. Ctrl-C ends the replay and prints the summary so far. It also writes the
    report, which says that the replay was interrupted. If the feed cannot be read, there is no
    report.

    Exit status: 0 if there was no error, 1 if an event was refused, 2 if the feed cannot be
    read, or the log or the report cannot be written, 130 after Ctrl-C.
    """
    arguments = ReplayArguments(**options)
    arguments.check()
    counts_settles, keeps_jobs = not is_directory(arguments.feed), arguments.jobs is not None
    tally, origin = Tally(counts_settles=counts_settles, keeps_jobs=keeps_jobs), FeedOrigin()
    interrupt = InterruptHandler()
    report: str | None = None
    # Ctrl-C before anything was read writes no report.
    with exit_on_feed_error(output, err=arguments.takes_stdout), suppress(KeyboardInterrupt):
        _run(arguments, tally, origin, interrupt)
        report = arguments.report
    result = ReplayResult(tally, origin, output, report)
    _report(arguments, result, interrupted=interrupt.hit)
    context.exit(INTERRUPTED if interrupt.hit else DIFFERENT if tally.refused else 0)


def _run(
    arguments: ReplayArguments, tally: Tally, origin: FeedOrigin, interrupt: InterruptHandler
) -> None:
    """Open the files, replay the feed, and write the report.

    Raises:
        FeedError: If a file cannot be used.
        KeyboardInterrupt: After Ctrl-C before anything was read.
    """
    terminal_is_taken = arguments.takes_stdout and sys.stdout.isatty()
    board = Board() if arguments.live else None
    below = None if board is None else partial(moment, board, origin)
    progress = ProgressLine(tally, shown=arguments.progress and not terminal_is_taken, below=below)
    with ExitStack() as stack:
        stack.enter_context(interrupt)
        # Read before the log is opened: a feed that cannot be read must not empty an older log.
        left_out = LeftOutItems()
        source = stack.enter_context(_open_feed(arguments, progress, origin, left_out))
        source.items = iter(_read_first(interrupt.reads(source.items)))
        start_us, until_us = _span(arguments, source)
        check_apart(arguments.feed, arguments.decisions, arguments.report, arguments.jobs)
        report, jobs = (
            None if name is None else stack.enter_context(opened_whole(name))
            for name in (arguments.report, arguments.jobs)
        )
        journals: list[DecisionLog] = []
        if arguments.decisions is not None:
            journals.append(stack.enter_context(DecisionLog(arguments.decisions)))
        recorder = None if report is None else Recorder()
        with progress.line():
            ending = _ending(
                arguments,
                interrupt,
                _started(source, start_us),
                until_us,
                journals=journals,
                watchers=[watcher for watcher in (recorder, board) if watcher is not None],
                tally=tally,
            )
        if report is not None and recorder is not None:
            write_report(report, arguments.feed, recorder, tally, ending, origin.us)
        if jobs is not None:
            table = tally.table(shown_name(arguments.feed), origin.us)
            is_swf = str(arguments.jobs).lower().removesuffix(".gz").endswith(".swf")
            jobs.write((table.swf() if is_swf else table.csv()).encode("utf-8", "replace"))
        print_left_out(arguments.feed, left_out.configures)
        if arguments.config is not None and left_out.uncounted:
            print_warnings([uncounted_warning(arguments.config, left_out.uncounted)])


@final
@attrs.define
class LeftOutItems:
    """What is left out of a feed, as another configuration is in force than its own.

    Attributes:
        configures: Its ``configure`` events.
        uncounted: How many ``set_usage`` this configuration does not count.
    """

    configures: list[LeftOut] = attrs.field(factory=list[LeftOut])
    uncounted: int = 0

    # COMMAND-35
    def counted(
        self, items: Iterable[FeedItem], configuration: Configuration
    ) -> Iterator[FeedItem]:
        """Yield the items but for usage that a configuration does not count."""
        for item in items:
            if is_uncounted(item.content, configuration):
                self.uncounted += 1
            else:
                yield item


# COMMAND-15, COMMAND-30, COMMAND-35
@contextmanager
def _open_feed(
    arguments: ReplayArguments, progress: ProgressLine, origin: FeedOrigin, left_out: LeftOutItems
) -> Generator[Source]:
    """Open the feed; a configuration that is given replaces those of the feed.

    Raises:
        FeedError: If a file cannot be used, or the configuration cannot come into force.
    """
    feed, config = arguments.feed, arguments.config
    if config is None:
        with open_source(feed, progress.read, origin=origin, since=arguments.since) as source:
            yield source
        return
    configuration = read_configuration(config, arguments.partition)
    print_warnings(warnings_of(config, configuration))

    def read(name: str, origin: FeedOrigin) -> Iterator[FeedItem]:
        raws, shown = progress.read_raw(name), name_of(name)
        noted = left_out.configures
        return unconfigured(raws, name=shown, base=base_of(name), left_out=noted, origin=origin)

    with open_source(feed, read, origin=origin, since=arguments.since) as source:
        items = source.items
        if source.state_directory is not None:
            items = others(noting(items, left_out.configures))
        items = left_out.counted(items, configuration)
        try:
            source.facts, source.items = configured(items, configuration, source.facts)
        except RefusedError as error:
            raise FeedError(config, f"cannot come into force: {error}") from error
        yield source


def _span(arguments: ReplayArguments, source: Source) -> tuple[int | None, int | None]:
    """Return the begin of the count and the end, each in microseconds since the start, or None.

    Raises:
        FeedError: If the source cannot be read, or what came then was removed.
        click.UsageError: If an instant is not possible.
    """
    since_us = source.us(arguments.since, "--since")
    start_us = source.us(arguments.start, "--start")
    until_us = source.us(arguments.until, "--until")
    check_order(("--since", since_us), ("--start", start_us), ("--until", until_us))
    if source.state_directory is not None:
        source.state_directory.check_span(since_us, until_us)
        source.state_directory.check_span(start_us, None)
    return start_us, until_us


# COMMAND-16
def _started(source: Source, start_us: int | None) -> Source:
    """Return the source from an instant on, with the state there.

    Raises:
        FeedError: If it cannot be read up to there.
    """
    if start_us is None:
        return source
    facts, items = begun_at(source.items, start_us, source.facts)
    return attrs.evolve(source, items=items, facts=facts)


def _ending(
    arguments: ReplayArguments,
    interrupt: InterruptHandler,
    source: Source,
    until_us: int | None,
    *,
    journals: Sequence[DecisionLog],
    watchers: Sequence[Watcher],
    tally: Tally,
) -> Ending:
    """Replay the feed, with all files open; return why it ended.

    Raises:
        FeedError: If the feed cannot be read, or the log cannot be written.
    """

    async def run() -> bool:
        with interrupt.scope():
            return await replay(
                source.items,
                facts=source.facts,
                journals=journals,
                watchers=watchers,
                tally=tally,
                until_us=until_us,
                strict=arguments.strict,
            )
        return False

    try:
        went_through = trio.run(run)
    except KeyboardInterrupt:  # while the feed was read
        return Ending.INTERRUPTED
    if interrupt.hit:
        return Ending.INTERRUPTED
    if not went_through:
        return Ending.STOPPED
    return Ending.COMPLETE if until_us is None else Ending.UNTIL


def _read_first(items: Iterator[T]) -> Iterable[T]:
    """Read the first item; return all items."""
    for first in items:
        return chain([first], items)
    return ()


@final
@attrs.frozen
class ReplayResult:
    """The results of a replay.

    Attributes:
        tally: Its counts.
        origin: The origin of its time.
        output: The format.
        report: The name of the report that was written, or None.
    """

    tally: Tally
    origin: FeedOrigin
    output: Format
    report: str | None

    def dates(self) -> tuple[str, str] | None:
        """Return the dates of the beginning and of the end, or None if they are not known."""
        if self.origin.us is None:
            return None
        tally = self.tally
        return date_text(self.origin.us + tally.began_us), date_text(self.origin.us + tally.at_us)


def _report(arguments: ReplayArguments, result: ReplayResult, *, interrupted: bool) -> None:
    """Print the summary."""
    summary, report = result.tally.summary(), result.report
    err = arguments.takes_stdout
    if result.output is Format.JSON:
        shown = as_map(summary, result.origin.us, interrupted=interrupted)
        print_json({**shown, "report": report}, err=err)
        return
    feed = name_of(arguments.feed)
    for warning in summary.first_warnings:
        complain(warning_text(arguments.feed, warning))
    if len(summary.first_warnings) < summary.warnings:
        complain(f"{feed}: warning: … {summary.warnings:,} in all")
    print_refused(arguments.feed, summary.first_refusals, summary.refused)
    print_summary(summary, result.dates(), interrupted=interrupted, err=err)
    if report is not None and report != STDOUT:
        click.echo(f"Report written to {click.format_filename(report)}", err=err)
