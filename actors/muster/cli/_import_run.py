"""The run of an import, the same for all formats: options, reading, checks, writing of the feed.

A format gives a :class:`DumpFormat`; :func:`run` does the rest, with a progress line on a terminal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, Protocol, Self, final

import attrs
import click
import yaml
from rich.console import Console, RenderableType

from muster.cli._import_report import (
    calibrate,
    check_target,
    instant_of,
    instant_text,
    print_calibrated,
    summary_lines,
    summary_map,
)
from muster.cli._inputs import Instant, as_time, exit_on_feed_error
from muster.cli._options import (
    FILE,
    STDOUT,
    Format,
    complain,
    format_option,
    print_json,
    warning_line,
)
from muster.cli._progress import CountedFile, bar_line, is_measured, live, opened_counted
from muster.config_files import read_configuration
from muster.feeds import FeedError, Output
from muster.feeds._files import Source
from muster.feeds._output import target_encoding_of
from muster.figures.text import counted
from muster.importing import (
    FeedSummary,
    ImportAccount,
    Queues,
    Workload,
    default_queues,
    read_queues,
)
from muster.importing.calibration import CalibrationResult, as_map as calibration_map
from muster.importing.dumps import Opener
from muster.importing.nodes import NodeFields, nodes_of
from muster.importing.workload import Starts, configuration_of, parents_with_jobs
from muster_core.config.model import QueueConfig
from muster_core.values.configuration import USAGE_USERS, lack_of_usage


@final
@attrs.frozen(kw_only=True)
class ImportRequest:
    """The options of an import.

    Attributes:
        files: The dumps.
        target: Where the feed goes.
        queues: The mapping file, or None.
        nodes: The nodes as a text or the name of a file, or None.
        config: The configuration with which the feed begins, or None.
        make_config: Where a configuration with the queues goes, or None.
        since: Jobs before this are left out, or None.
        until: Jobs after this are left out, or None.
        progress: Whether progress is shown on a terminal.
        output: The format of the summary.
        calibrate: Whether the feed is replayed, and its starts compared with the real ones.
    """

    files: tuple[str, ...]
    target: str
    queues: str | None
    nodes: str | None
    config: str | None
    make_config: str | None
    since: Instant | None
    until: Instant | None
    progress: bool
    output: Format
    calibrate: bool = False

    def exit_on_error(self) -> AbstractContextManager[None]:
        """Return the context in which an error of a file ends the command."""
        return exit_on_feed_error(self.output, err=self.target == STDOUT)


_NODES_HELP = (
    "The nodes: such as '32x vcore=64,memory=256Gi', or the name of a file: a list of maps with "
    "`node` and `capacity` (and `count`, `attributes`, `taints`)."
)


_OPTIONS: Final = (
    click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE..."),
    click.option(
        "-o",
        "--output",
        "target",
        type=FILE,
        metavar="FEED",
        required=True,
        help="The feed: .jsonl, .yaml or .msgpack, and .gz behind; `-` is standard output.",
    ),
    click.option("--nodes", metavar="NODES", help=_NODES_HELP),
    click.option(
        "--config",
        type=FILE,
        metavar="FILE",
        help="The configuration with which the feed begins. [default: one with the queues "
        "of the jobs, without limits]",
    ),
    click.option(
        "--make-config",
        type=FILE,
        metavar="FILE",
        help="Write the default configuration to this file, which the feed names, so that "
        "you can edit it.",
    ),
    click.option(
        "--since", callback=as_time, metavar="TIME", help="Leave out jobs that came before."
    ),
    click.option(
        "--until", callback=as_time, metavar="TIME", help="Leave out jobs that came after."
    ),
    click.option("--progress/--no-progress", default=True, help="Show progress on a terminal."),
)


_NAMES: Final = frozenset(field.name for field in attrs.fields(ImportRequest))


def import_options(*queues: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what gives a command the arguments and options of :class:`ImportRequest`.

    The command gets them as one, its first argument; those of its own come by their names.

    Args:
        *queues: The names of the option for the file that maps jobs to queues; the default is
            that of a kind whose mapping file says nothing else.
    """
    names = queues or ("--mapping", "--queues")
    other = f" {names[-1]} is the same." if len(names) > 1 else ""
    mapping = click.option(
        *names,
        "queues",
        type=FILE,
        metavar="FILE",
        help=f"The mapping file: which jobs go to which queues, in YAML.{other}",
    )
    return partial(_with_options, (*_OPTIONS[:2], mapping, *_OPTIONS[2:]))


def _with_options(
    options: Sequence[Callable[[Callable[..., None]], Callable[..., None]]],
    function: Callable[..., None],
) -> Callable[..., None]:
    """Give a command options; those of a request as one."""

    @wraps(function)
    def command(**options: Any) -> None:  # noqa: ANN401 - from click
        shared = {name: value for name, value in options.items() if name in _NAMES}
        own = {name: value for name, value in options.items() if name not in _NAMES}
        function(ImportRequest(**shared), **own)

    made: Callable[..., None] = format_option(command)
    for option in reversed(options):
        made = option(made)
    return made


@final
class ReadProgress:
    """Shows on standard error how much is read, if that is a terminal.

    Args:
        account: Counts what is read.
        files: The names of all files.
        shown: False for no line, even on a terminal.
    """

    def __init__(self, account: ImportAccount, files: tuple[str, ...], *, shown: bool) -> None:
        self._account = account
        self._console = Console(stderr=True)
        self._shown = shown and self._console.is_terminal
        self._streams = ExitStack()
        self._measured: list[CountedFile] = []
        self._bytes = sum(Path(file).stat().st_size for file in files if is_measured(file))

    def __enter__(self) -> Self:
        if self._shown:
            self._streams.enter_context(live(self._console, self._drawn))
        return self

    def __exit__(self, *_: object) -> None:
        self._streams.close()

    def open(self, file: str) -> Source:
        """Return what is to be read of a file: itself, or a stream that counts its bytes."""
        if not (self._shown and is_measured(file)):
            return file
        self._measured.append(self._streams.enter_context(closing(opened_counted(file))))
        return self._measured[-1]

    def _drawn(self) -> RenderableType:
        read = sum(list(self._account.read.values()))
        done = sum(measured.done for measured in list(self._measured))
        return bar_line(self._console, done, self._bytes, [f"{read:,} records"])


class DumpReader(Protocol):
    """Reads dumps into a workload; raises :class:`FeedError`."""

    def __call__(
        self, files: Sequence[str], workload: Workload, queues: Queues, *, opener: Opener
    ) -> None:
        """Read them."""
        ...


@final
@attrs.frozen
class DumpFormat:
    """A kind of dumps.

    Attributes:
        read: Reads them.
        fields: The fields of its jobs that a mapping file can look at.
        queues: The queues of jobs where there is no mapping file.
        nodes: Reads what ``--nodes`` says.
        rest_of_mapping: The other entries of a mapping file, beside the queues.
    """

    read: DumpReader
    fields: Collection[str]
    queues: Sequence[str]
    nodes: Callable[[str], list[NodeFields]] = nodes_of
    rest_of_mapping: Collection[str] = ()


# IMPORT-1
def run(request: ImportRequest, kind: DumpFormat) -> None:
    """Import dumps as the user asked; exit with 2 if that cannot be done."""
    with request.exit_on_error(), Workload() as workload:
        _import(request, kind, workload)


def _import(request: ImportRequest, kind: DumpFormat, workload: Workload) -> None:
    if request.calibrate:
        check_target(request.target)
        workload.starts = Starts()
    target_encoding_of(request.target)  # refuse a wrong name before reading anything
    queues = _queues(request, kind)
    if request.nodes is not None:
        workload.nodes = _nodes(request.nodes, kind)
    workload.since_us = None if request.since is None else request.since.us
    workload.until_us = None if request.until is None else request.until.us
    reading = ReadProgress(workload.account, request.files, shown=request.progress)
    with reading:
        kind.read(request.files, workload, queues, opener=reading.open)
    _warn_of_unused_rules(request, queues)
    _check(request, workload)
    fields = _configuration(request, workload)
    written = workload.write(request.target, fields)
    if request.config is not None:
        workload.remarks.clear()  # They are about the configuration that is made.
    _print_report(request, workload, written)


def _queues(request: ImportRequest, kind: DumpFormat) -> Queues:
    if request.queues is None:
        return default_queues(kind.queues, kind.fields)
    return read_queues(request.queues, kind.fields, kind.rest_of_mapping)


def _warn_of_unused_rules(request: ImportRequest, queues: Queues) -> None:
    """Warn of rules of the mapping file that matched no job."""
    if request.queues is None:
        return
    for rule in queues.unused:
        place = request.queues if rule.line is None else f"{request.queues}:{rule.line}"
        wanted = ", ".join(f"{name}: {pattern}" for name, pattern in rule.patterns)
        complain(f"{place}: warning: no job goes to {rule.path} by this rule ({wanted})")


def _nodes(text: str, kind: DumpFormat) -> list[NodeFields]:
    try:
        return kind.nodes(text)
    except ValueError as error:
        msg = f"--nodes: {error}"
        raise click.UsageError(msg) from None


def _check(request: ImportRequest, workload: Workload) -> None:
    """Refuse to write a feed that is empty, or that a replay would refuse.

    Raises:
        FeedError: If there is no job, no node, or a queue with both jobs and queues below it.
        click.UsageError: If an instant is not of the kind that the dump has.
    """
    for option, instant in (("--since", request.since), ("--until", request.until)):
        _check_instant(option, instant, workload)
    name = " ".join(request.files)
    if not workload.queues:
        causes = "; ".join(
            f"{counted(cause.count, cause.what)}: {cause.text} "
            f"({cause.first}{f': {cause.example}' if cause.example else ''})"
            for cause in workload.account.left_out[:3]
        )
        raise FeedError(name, f"has no job that a feed can have{f': {causes}' if causes else ''}")
    if not workload.nodes:
        raise FeedError(name, "has no nodes: say with --nodes which nodes there are")
    for parent, child in parents_with_jobs(workload.queues)[:1]:
        source = request.queues or name
        msg = f"jobs go to the queue {parent}, which has a queue below it, {child}: see --mapping"
        raise FeedError(source, msg)


def _check_instant(option: str, instant: Instant | None, workload: Workload) -> None:
    if instant is not None and instant.is_date is not workload.is_dated:
        right = "a date such as 2026-01-31T18:30:00Z" if workload.is_dated else "a time in seconds"
        msg = f"{option}: give {right}, as the jobs have"
        raise click.UsageError(msg)


# IMPORT-5
def _configuration(request: ImportRequest, workload: Workload) -> dict[str, object]:
    """Return the fields of the event that loads the configuration."""
    if request.config is not None and request.make_config is not None:
        msg = "--config names a configuration that is there, --make-config makes one: give one"
        raise click.UsageError(msg)
    if request.config is not None:
        _check_queues(request.config, workload)
        return {"file": _from_feed(request.config, request.target)}
    made = configuration_of(workload.queues, workload.settings, workload.partition)
    if request.make_config is None:
        return {"config": made}
    text = "".join(f"# {line}\n" for line in workload.comments)
    text += yaml.safe_dump(made, sort_keys=False, allow_unicode=True)
    with Output(request.make_config, whole=True) as output:
        output.write(text.encode())
    return {"file": _from_feed(request.make_config, request.target)}


def _from_feed(config: str, target: str) -> str:
    """Return the path of a configuration as the feed has to write it: from its own folder."""
    folder = Path.cwd() if target == STDOUT else Path(target).resolve().parent
    return Path(os.path.relpath(Path(config).resolve(), folder)).as_posix()


def _check_queues(config: str, workload: Workload) -> None:
    """Report the queues of jobs that a configuration does not have: it would refuse their jobs.

    Raises:
        ConfigError: If it is refused.
        FeedError: If it cannot be read.
    """
    try:
        configuration = read_configuration(config)
    except OSError as error:
        raise FeedError(config, f"cannot be read: {error.strerror}") from None
    for warning in configuration.located_warnings:
        complain(warning_line(warning.file or config, warning.line, warning.path, warning.message))
    if configuration.placement_rules:
        return
    _check_usage(config, configuration.root, workload)
    leaves = set(_leaves(configuration.root, "root"))
    for path in workload.queues:
        if path not in leaves:
            complain(f"{config}: warning: has no queue {path}, to which jobs go: see --mapping")


# IMPORT-31
def _check_usage(config: str, root: QueueConfig, workload: Workload) -> None:
    """Refuse a configuration whose queues do not count the usage with which the feed begins.

    Raises:
        FeedError: If there is such a queue.
    """
    for event in workload.head:
        if event["op"] != "set_usage":
            continue
        lack = lack_of_usage(root, str(event["queue"]), of_user="user" in event)
        if lack is not None:
            queue, lacks = lack
            hint = ": enabled" if lacks == USAGE_USERS else ""
            msg = f"{queue} has no {lacks}{hint}, without which its usage is not counted (--sshare)"
            raise FeedError(config, msg)


def _leaves(queue: QueueConfig, path: str) -> Iterator[str]:
    if not queue.children:
        yield path
    for child in queue.children:
        yield from _leaves(child, f"{path}.{child.name}")


def _print_report(request: ImportRequest, workload: Workload, written: FeedSummary) -> None:
    to_stdout = request.target == STDOUT
    if request.output is Format.JSON:
        summary = summary_map(workload, written, request.target)
        result = _calibrated(request, workload, written)
        if result is not None:
            summary["calibration"] = calibration_map(result, instant_of(written))
        print_json(summary, err=to_stdout)
        return
    for line in summary_lines(workload, written, request.target):
        click.echo(line, err=to_stdout)
    result = _calibrated(request, workload, written)
    if result is not None:
        print_calibrated(result)
    if not to_stdout:
        until = ""
        if workload.real_until_us is not None:
            until = f" --until {instant_text(workload.real_until_us, written)}"
        click.echo(f"next: muster replay {request.target}{until} --report report.html")


def _calibrated(
    request: ImportRequest, workload: Workload, written: FeedSummary
) -> CalibrationResult | None:
    """Return how far off the starts of the feed are; None without ``--calibrate``."""
    if workload.starts is None:
        return None
    at = instant_of(written)
    return calibrate(
        request.target, workload.starts, lambda at_us: str(at(at_us)), progress=request.progress
    )
