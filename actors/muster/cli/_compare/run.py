"""``muster compare``: compare two configurations, feeds or decision logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Final, final

import attrs
import click

from muster.cli._compare.refused import tell_refused
from muster.cli._compare.text import print_compared
from muster.cli._configurations import read_configuration_text, told_as_feed
from muster.cli._options import (
    DIFFERENT,
    FILE,
    STDIN,
    UNUSABLE,
    Format,
    complain,
    error_map,
    example,
    format_option,
    name_of,
    print_json,
)
from muster.cli._progress import Progress
from muster.cli._sources import Instant, as_time, opened, since_option
from muster.compare import (
    Compared,
    Comparison,
    FeedSide,
    LeftOut,
    LogSide,
    Warned,
    as_map,
    events_of,
    is_decision,
    read_decisions,
    sides_of,
    sides_of_kept,
)
from muster.config_files import parse_configuration
from muster.feeds import (
    FeedError,
    FeedOrigin,
    KeptFeed,
    RawEvent,
    date_text,
    is_directory,
    parse,
)
from muster.figures.text import counted
from muster_core.config.model import Configuration
from muster_core.errors import ConfigError, RefusedError

_MOST_LEFT_OUT: Final = 10
"""The most left-out `configure` events that are printed."""


@final
@attrs.frozen
class Arguments:
    """The inputs of a comparison.

    Attributes:
        inputs: The names of the feeds or logs, one or two.
        configs: The names of the configurations, at most two.
        partition: The partition to run, or None.
        since: Where to begin, or None.
        until: Where to end, or None.
    """

    inputs: tuple[str, ...]
    configs: tuple[str, ...]
    partition: str | None
    since: Instant | None
    until: Instant | None

    @property
    def sides(self) -> tuple[str, str]:
        """The names of the two sides."""
        names = [name_of(name) for name in self.inputs]
        if len(names) == 2:
            return names[0], names[1]
        configs = [name_of(name) for name in self.configs]
        if len(configs) == 2:
            return configs[0], configs[1]
        return f"{names[0]} as it is", configs[0]


@final
class Meter:
    """The progress of the comparison, for the progress bar."""

    def __init__(self) -> None:
        self._began_s = perf_counter()
        #: The comparison, once it has begun.
        self.comparison: Comparison | None = None

    @property
    def events(self) -> int:
        """How many events were read."""
        return 0 if self.comparison is None else self.comparison.events

    @property
    def at_us(self) -> int:
        """The current instant, in microseconds since the start."""
        return 0 if self.comparison is None else self.comparison.at_us

    @property
    def decisions(self) -> int:
        """How many decisions both sides have made."""
        return 0 if self.comparison is None else self.comparison.decisions

    @property
    def took_s(self) -> float:
        """How long the comparison has taken so far, in seconds."""
        return perf_counter() - self._began_s


# COMMAND-5
@click.command(
    "compare", epilog=example("muster compare feed.yaml --config queues.yaml --config new.yaml")
)
@click.argument("inputs", nargs=-1, required=True, type=FILE, metavar="FEED...")
@click.option(
    "--config",
    "configs",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="A configuration that is in force from the start of the feed; the `configure` events of "
    "the feed are left out. Given once: compare with the feed as it is.",
)
@click.option(
    "--partition",
    metavar="NAME",
    help="The partition of each FILE to run. [default: `default`, or the only one]",
)
@since_option("Begin with the state at this time.")
@click.option(
    "--until",
    callback=as_time,
    metavar="TIME",
    help="Compare what came in up to this time. Needs a state directory.",
)
@click.option(
    "--summary",
    is_flag=True,
    help="Print one screen: the first decision that differs, the figures of the whole, and how many "
    "jobs gain and lose. (JSON has everything in any case.)",
)
@format_option
@click.pass_context
def command(
    context: click.Context,
    *,
    inputs: tuple[str, ...],
    configs: tuple[str, ...],
    partition: str | None,
    since: Instant | None,
    until: Instant | None,
    summary: bool,
    output: Format,
) -> None:
    """Compare a feed under two configurations, two feeds, or two decision logs.

    Replays both sides, A and B, in virtual time. Prints the first decision that differs, and the
    state of its ask on the other side. Then prints the results by queue, by priority and by job
    (application). Decision logs are recognised by their content. `-` is standard input. A feed may
    be a state directory; if it begins with a state, each FILE comes into force right then.

    Exit status: 0 if both sides decide the same, 1 if not, 2 if the arguments or a file cannot
    be used, 130 after Ctrl-C.
    """
    arguments = Arguments(inputs, configs, partition, since, until)
    _check(arguments)
    left_out: list[LeftOut] = []
    warnings: list[Warned] = []
    try:
        compared, origin_us = _run(arguments, left_out, warnings)
    except FeedError as error:
        complain(str(error))
        if output is Format.JSON:
            print_json({"error": error_map(error)})
        context.exit(UNUSABLE)
    if output is Format.JSON:
        origin = None if origin_us is None else date_text(origin_us)
        print_json(as_map(compared, arguments.sides, left_out, warnings, origin))
    else:
        for warned in warnings:
            place = warned.file if warned.line is None else f"{warned.file}:{warned.line}"
            parts = (place, "warning", warned.path, warned.message)
            click.echo(": ".join(part for part in parts if part), err=True)
        _tell(arguments.inputs[0], left_out)
        tell_refused(compared.refusals, [name_of(name) for name in arguments.inputs])
        print_compared(compared, arguments.sides, arguments.inputs, origin_us, summary=summary)
    context.exit(0 if compared.same else DIFFERENT)


def _check(arguments: Arguments) -> None:
    """Refuse combinations of arguments that are not possible.

    Raises:
        click.UsageError: If the combination is not possible.
    """
    inputs, configs = arguments.inputs, arguments.configs
    if len(inputs) > 2:
        msg = f"There are {len(inputs)} feeds; compare two."
    elif len(inputs) == 2 and configs:
        msg = "--config needs exactly one feed: leave out --config, or one of the feeds."
    elif len(inputs) == 1 and not configs:
        msg = "There is only one feed: name a second one, or a configuration with --config."
    elif len(configs) > 2:
        msg = f"There are {len(configs)} configurations; compare two."
    elif arguments.partition is not None and not configs:
        msg = "--partition needs --config: it names a partition of the configurations."
    elif [*inputs, *configs].count(STDIN) > 1:
        msg = "Standard input can be read only once: name a file."
    else:
        return
    raise click.UsageError(msg)


def _run(
    arguments: Arguments, left_out: list[LeftOut], warnings: list[Warned]
) -> tuple[Compared, int | None]:
    """Open the files, and compare; also return the origin of time of both sides, if they share it.

    Raises:
        FeedError: If a file cannot be used.
    """
    meter = Meter()
    progress = Progress(meter, shown=True)
    configurations = [_configuration(name, arguments.partition) for name in arguments.configs]
    found = zip(arguments.configs, configurations, strict=True)
    for name, configuration in dict(found).items():
        warnings += [
            Warned(name_of(name), told.line, told.path, told.message) for told in configuration.told
        ]
    with ExitStack() as stack:
        opening = Opening(arguments, progress, stack)
        if configurations:
            comparison = _of_configurations(opening, configurations, left_out)
        else:
            comparison = _of_two(opening)
        meter.comparison = comparison
        with progress.line():
            return comparison.run(), opening.shared_origin_us()


@final
@attrs.frozen
class Opening:
    """Opens the inputs of a comparison.

    Attributes:
        arguments: The arguments.
        progress: Shows how much was read.
        stack: Closes what was opened.
        origins: The origins of the inputs that are no logs.
    """

    arguments: Arguments
    progress: Progress
    stack: ExitStack
    origins: list[FeedOrigin] = attrs.field(factory=list[FeedOrigin])

    def shared_origin_us(self) -> int | None:
        """Return the origin of all inputs, in microseconds since 1970; None if they differ."""
        found = {origin.us for origin in self.origins}
        return found.pop() if len(found) == 1 else None

    def origin(self) -> FeedOrigin:
        """Return what gets the origin of an input."""
        self.origins.append(FeedOrigin())
        return self.origins[-1]

    def kept(self, name: str) -> KeptFeed | None:
        """Open a state directory; return None for a file.

        Raises:
            FeedError: If it cannot be read.
        """
        since, until = self.arguments.since, self.arguments.until
        if not is_directory(name) and since is None and until is None:
            return None
        source = self.stack.enter_context(opened(name, since=since, until=until))
        self.origins.append(source.origin)
        return source.kept


def _configuration(name: str, partition: str | None) -> Configuration:
    shown, text = name_of(name), None
    try:
        text = read_configuration_text(name)
        if text is None:
            raise FeedError(shown, "cannot be read: it is closed")
        return parse_configuration(text, file=shown, partition=partition)
    except ConfigError as error:
        feed = None if text is None else told_as_feed(shown, text)
        if feed is not None:
            raise FeedError(shown, feed) from error
        first, *others = error.problems
        told = "; ".join(map(str, [attrs.evolve(first, file=None, line=None), *others]))
        raise FeedError(shown, told, first.line) from error
    except OSError as error:
        raise FeedError(shown, f"cannot be read: {error.strerror or error}") from error


def _of_configurations(
    opening: Opening, configurations: list[Configuration], left_out: list[LeftOut]
) -> Comparison:
    (feed,) = opening.arguments.inputs
    both = (configurations[0] if len(configurations) == 2 else None, configurations[-1])
    kept = opening.kept(feed)
    if kept is not None:
        try:
            return Comparison(*sides_of_kept(kept, both, left_out), in_step=True)
        except RefusedError as error:
            raise FeedError(feed, f"no configuration given can come into force: {error}") from error
    first, raws = _begun(opening.progress.read_raw(feed, logs=True))
    if first is not None and is_decision(first):
        raise FeedError(name_of(feed), "is a decision log: a configuration cannot change it")
    sides = sides_of(
        raws,
        both,
        name=name_of(feed),
        base=_base(feed),
        left_out=left_out,
        origin=opening.origin(),
    )
    return Comparison(*sides, in_step=True)


def _of_two(opening: Opening) -> Comparison:
    names = opening.arguments.inputs
    kept = [opening.kept(name) for name in names]
    begun = [
        (None, iter(())) if one is not None else _begun(opening.progress.read_raw(name, logs=True))
        for name, one in zip(names, kept, strict=True)
    ]
    # An empty file may be a feed or a log.
    logs = {is_decision(first) for first, _ in begun if first is not None}
    logs |= {False for one in kept if one is not None}
    if len(logs) > 1:
        (log,) = (
            name
            for name, (first, _) in zip(names, begun, strict=True)
            if first and is_decision(first)
        )
        raise FeedError(name_of(log), "is a decision log, and the other is a feed")
    if True in logs:
        return Comparison(
            *(
                LogSide(read_decisions(raws, name_of(name)))
                for name, (_, raws) in zip(names, begun, strict=True)
            )
        )
    a, b = (
        FeedSide(events_of(parse(raws, base=_base(name), origin=opening.origin()), name_of(name)))
        if one is None
        else FeedSide(one.items(), facts=one.facts)
        for name, (_, raws), one in zip(names, begun, kept, strict=True)
    )
    return Comparison(a, b)


def _begun(raws: Iterator[RawEvent]) -> tuple[RawEvent | None, Iterator[RawEvent]]:
    """Read the first event; return it, and all events."""
    first = next(raws, None)
    return first, raws if first is None else chain([first], raws)


def _base(feed: str) -> Path:
    return Path() if feed == STDIN else Path(feed).parent


def _tell(feed: str, left_out: list[LeftOut]) -> None:
    """Print the left-out `configure` events to standard error."""
    for event in left_out[:_MOST_LEFT_OUT]:
        place = f"event {event.index}" if event.line is None else event.line
        named = "" if event.partition is None else f" (of partition {event.partition!r})"
        click.echo(f"{name_of(feed)}:{place}: `configure` is left out{named}", err=True)
    if len(left_out) > _MOST_LEFT_OUT:
        told = counted(len(left_out), "`configure` event")
        click.echo(f"{name_of(feed)}: … {told} left out in all", err=True)
