"""Run an importer: read, write the feed, and say what became of what was read."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final

import attrs
import click
import yaml

from muster.cli._import.calibration import calibrated, check_target, print_calibrated
from muster.cli._import.progress import Reading
from muster.cli._import.summary import as_map, instant_of, lines
from muster.cli._options import STDOUT, UNUSABLE, Format, complain, error_map, print_json
from muster.config_files import read_configuration
from muster.feeds import FeedError, Output
from muster.feeds._convert import target_encoding_of
from muster.figures.text import counted
from muster.importing import Queues, Workload, Written, default_queues, read_queues
from muster.importing.calibration import Calibrated, as_map as calibration_map
from muster.importing.workload.jobs import Starts
from muster.importing.workload.nodes import NodeFields, nodes_of
from muster.importing.workload.reading import Opener
from muster.importing.workload.workload import configuration_of, parents_with_jobs
from muster_core.config.model import QueueConfig
from muster_core.errors import ConfigError

if TYPE_CHECKING:
    from muster.cli._import.request import Request
    from muster.cli._sources import Instant


class Read(Protocol):
    """Reads dumps into a workload; raises :class:`FeedError`."""

    def __call__(
        self, files: Sequence[str], workload: Workload, queues: Queues, *, opener: Opener
    ) -> None:
        """Read them."""
        ...


@final
@attrs.frozen
class Kind:
    """A kind of dumps.

    Attributes:
        read: Reads them.
        fields: The fields of its jobs that a mapping file can look at.
        queues: The queues of jobs where there is no mapping file.
        nodes: Reads what ``--nodes`` says.
        rest_of_mapping: What else stands in a mapping file beside the queues.
    """

    read: Read
    fields: Collection[str]
    queues: Sequence[str]
    nodes: Callable[[str], list[NodeFields]] = nodes_of
    rest_of_mapping: Collection[str] = ()


# IMPORT-1
def run(request: Request, kind: Kind) -> None:
    """Import dumps as the user asked; exit with 2 if that cannot be done."""
    with said(request), Workload() as workload:
        _import(request, kind, workload)


@contextmanager
def said(request: Request) -> Generator[None]:
    """Say why files cannot be used, and exit with 2."""
    to_stdout = request.target == STDOUT
    try:
        yield
    except FeedError as error:
        complain(str(error))
        if request.output is Format.JSON:
            print_json({"error": error_map(error)}, err=to_stdout)
    except ConfigError as error:
        for problem in error.problems:
            complain(str(problem))
        if request.output is Format.JSON:
            told = [
                {"file": one.file, "line": one.line, "path": one.path, "message": one.message}
                for one in error.problems
            ]
            print_json({"problems": told}, err=to_stdout)
    else:
        return
    click.get_current_context().exit(UNUSABLE)


def _import(request: Request, kind: Kind, workload: Workload) -> None:
    if request.calibrate:
        check_target(request.target)
        workload.starts = Starts()
    target_encoding_of(request.target)  # a wrong name is told before everything is read
    queues = _queues(request, kind)
    if request.nodes is not None:
        workload.nodes = _nodes(request.nodes, kind)
    workload.since_us = None if request.since is None else request.since.us
    workload.until_us = None if request.until is None else request.until.us
    reading = Reading(workload.account, request.files, shown=request.progress)
    with reading:
        kind.read(request.files, workload, queues, opener=reading.open)
    _tell_unused(request, queues)
    _check(request, workload)
    fields = _configuration(request, workload)
    written = workload.write(request.target, fields)
    if request.config is not None:
        workload.remarks.clear()  # They are about the configuration that is made.
    _tell(request, workload, written)


def _queues(request: Request, kind: Kind) -> Queues:
    if request.queues is None:
        return default_queues(kind.queues, kind.fields)
    return read_queues(request.queues, kind.fields, kind.rest_of_mapping)


def _tell_unused(request: Request, queues: Queues) -> None:
    """Warn of rules of the mapping file that no job has got its queue from."""
    if request.queues is None:
        return
    for rule in queues.unused:
        place = request.queues if rule.line is None else f"{request.queues}:{rule.line}"
        wanted = ", ".join(f"{name}: {pattern}" for name, pattern in rule.patterns)
        complain(f"{place}: warning: no job goes to {rule.path} by this rule ({wanted})")


def _nodes(text: str, kind: Kind) -> list[NodeFields]:
    try:
        return kind.nodes(text)
    except ValueError as error:
        msg = f"--nodes: {error}"
        raise click.UsageError(msg) from None


def _check(request: Request, workload: Workload) -> None:
    """Refuse to write a feed that says nothing, or that a replay would refuse.

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
def _configuration(request: Request, workload: Workload) -> dict[str, object]:
    """Return the fields of the event that loads the configuration."""
    if request.config is not None and request.make_config is not None:
        msg = "--config names a configuration that is there, --make-config makes one: give one"
        raise click.UsageError(msg)
    if request.config is not None:
        _look_for_queues(request.config, workload)
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


def _look_for_queues(config: str, workload: Workload) -> None:
    """Say which queues of jobs a configuration does not have; its jobs would be refused.

    Raises:
        ConfigError: If it is refused.
        FeedError: If it cannot be read.
    """
    try:
        configuration = read_configuration(config)
    except OSError as error:
        raise FeedError(config, f"cannot be read: {error.strerror}") from None
    for told in configuration.told:
        place = ":".join(str(part) for part in (told.file or config, told.line) if part is not None)
        complain(": ".join(part for part in (place, "warning", told.path, told.message) if part))
    if configuration.placement_rules:
        return
    leaves = set(_leaves(configuration.root, "root"))
    for path in workload.queues:
        if path not in leaves:
            complain(f"{config}: warning: has no queue {path}, to which jobs go: see --mapping")


def _leaves(queue: QueueConfig, path: str) -> Iterator[str]:
    if not queue.children:
        yield path
    for child in queue.children:
        yield from _leaves(child, f"{path}.{child.name}")


def _tell(request: Request, workload: Workload, written: Written) -> None:
    to_stdout = request.target == STDOUT
    if request.output is Format.JSON:
        told = as_map(workload, written, request.target)
        result = _calibrated(request, workload, written)
        if result is not None:
            told["calibration"] = calibration_map(result, instant_of(written))
        print_json(told, err=to_stdout)
        return
    for line in lines(workload, written, request.target):
        click.echo(line, err=to_stdout)
    result = _calibrated(request, workload, written)
    if result is not None:
        print_calibrated(result)
    if not to_stdout:
        click.echo(f"next: muster replay {request.target} --report report.html")


def _calibrated(request: Request, workload: Workload, written: Written) -> Calibrated | None:
    """Return how far off the starts of the feed are; None if nobody asked."""
    if workload.starts is None:
        return None
    at = instant_of(written)
    return calibrated(
        request.target,
        workload.starts,
        lambda at_us: str(at(at_us)),
        progress=request.progress,
    )
