"""``muster compare``: compare configurations, feeds or decision logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from time import perf_counter
from typing import Any, Final, final

import attrs
import click

from muster.cli._compare_output import print_compared, print_refused
from muster.cli._inputs import (
    Instant,
    as_time,
    base_of,
    exit_on_feed_error,
    open_source,
    print_left_out,
    print_warnings,
    read_configuration,
    since_option,
    uncounted_warning,
    warnings_of,
)
from muster.cli._options import (
    DIFFERENT,
    FILE,
    STDIN,
    Format,
    example,
    format_option,
    name_of,
    print_json,
    progress_option,
)
from muster.cli._progress import ProgressLine
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
from muster.feeds import FeedError, FeedOrigin, KeptFeed, RawEvent, date_text, is_directory, parse
from muster_core.config.model import Configuration
from muster_core.errors import RefusedError

_MOST_CONFIGS: Final = 26
"""The most configurations: each side has a letter."""


@final
@attrs.frozen
class CompareArguments:
    """The inputs of a comparison.

    Attributes:
        inputs: The names of the feeds or logs, one or two.
        configs: The names of the configurations.
        partition: The partition to run, or None.
        since: Where to begin, or None.
        until: Where to end, or None.
    """

    inputs: tuple[str, ...]
    configs: tuple[str, ...]
    partition: str | None
    since: Instant | None
    until: Instant | None
    progress: bool

    @property
    def sides(self) -> list[tuple[int, int | None]]:
        """For each side the number of its input, and that of its configuration, or None."""
        configs = range(len(self.configs))
        last = len(self.inputs) - 1
        if len(configs) > 1:
            return [(0, 0), *((last, config) for config in configs[1:])]
        return [(0, None), (last, 0 if configs else None)]

    @property
    def names(self) -> list[str]:
        """The names of all sides."""
        inputs, configs = map(name_of, self.inputs), [name_of(name) for name in self.configs]
        feeds = list(inputs)
        return [self._name(feeds[feed], configs, config) for feed, config in self.sides]

    def _name(self, feed: str, configs: Sequence[str], config: int | None) -> str:
        if len(self.inputs) == 1:
            return f"{feed} as it is" if config is None else configs[config]
        return feed if config is None else f"{feed} with {configs[config]}"


@final
class ComparisonProgress:
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
        """How many decisions all sides have made."""
        return 0 if self.comparison is None else self.comparison.decisions

    @property
    def took_s(self) -> float:
        """How long the comparison has taken so far, in seconds."""
        return perf_counter() - self._began_s


# COMMAND-5, COMMAND-29
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
    "the feed are left out. Given once: compare with the feed as it is. Given several times: compare "
    "the first with each of the others. Beside two feeds: the first of several is for the first feed, and "
    "all others, or a single one, are for the second.",
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
@progress_option
@format_option
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    summary: bool,
    output: Format,
    **options: Any,  # noqa: ANN401 - from click
) -> None:
    """Compare configurations on a feed, two feeds, or two decision logs.

    Replays all sides, A, B and so on, in virtual time, and compares A with each of the others.
    Prints the first decision that differs, and the state of its ask on the other side. Then
    prints the results by queue, by priority and by job (application). Decision logs are
    recognised by their content. `-` is standard input. A feed may be a state directory; if it
    begins with a state, each FILE comes into force right then.

    Exit status: 0 if all sides decide the same, 1 if not, 2 if the arguments or a file cannot
    be used, 130 after Ctrl-C.
    """
    arguments = CompareArguments(**options)
    _check(arguments)
    left_out: dict[str, list[LeftOut]] = {}
    warnings: list[Warned] = []
    with exit_on_feed_error(output):
        compared, origin_us = _run(arguments, left_out, warnings)
    if output is Format.JSON:
        origin = None if origin_us is None else date_text(origin_us)
        print_json(as_map(compared, arguments.names, left_out, warnings, origin))
    else:
        print_warnings(warnings)
        for name, events in left_out.items():
            print_left_out(name, events)
        print_refused(compared[0].refusals, [name_of(name) for name in arguments.inputs])
        print_compared(compared, arguments.names, arguments.inputs, origin_us, summary=summary)
    context.exit(0 if all(one.same for one in compared) else DIFFERENT)


def _check(arguments: CompareArguments) -> None:
    """Refuse combinations of arguments that are not possible.

    Raises:
        click.UsageError: If the combination is not possible.
    """
    inputs, configs = arguments.inputs, arguments.configs
    if len(inputs) > 2:
        msg = f"There are {len(inputs)} feeds; compare two."
    elif len(inputs) == 1 and not configs:
        msg = "There is only one feed: name a second one, or a configuration with --config."
    elif len(configs) > _MOST_CONFIGS:
        msg = f"There are {len(configs)} configurations; compare {_MOST_CONFIGS} at most."
    elif arguments.partition is not None and not configs:
        msg = "--partition needs --config: it names a partition of the configurations."
    elif [*inputs, *configs].count(STDIN) > 1:
        msg = "Standard input can be read only once: name a file."
    else:
        return
    raise click.UsageError(msg)


def _run(
    arguments: CompareArguments, left_out: dict[str, list[LeftOut]], warnings: list[Warned]
) -> tuple[Sequence[Compared], int | None]:
    """Open the files, and compare; also return the origin of time of all sides, if they share it.

    Raises:
        FeedError: If a file cannot be used.
    """
    meter = ComparisonProgress()
    progress = ProgressLine(meter, shown=arguments.progress)
    configurations = [read_configuration(name, arguments.partition) for name in arguments.configs]
    for name, configuration in dict(zip(arguments.configs, configurations, strict=True)).items():
        warnings += warnings_of(name, configuration)
    with ExitStack() as stack:
        opening = ComparisonInputs(arguments, progress, stack)
        if configurations:
            comparison = _compare_configurations(opening, configurations, left_out)
        else:
            comparison = _compare_two(opening)
        meter.comparison = comparison
        with progress.line():
            compared = comparison.run_all()
        warnings += opening.past_left_out()
        return compared, opening.shared_origin_us()


@final
@attrs.frozen
class ComparisonInputs:
    """Opens the inputs of a comparison.

    Attributes:
        arguments: The arguments.
        progress: Shows how much was read.
        stack: Closes what was opened.
        origins: The origins of the inputs that are no logs.
        found: The sides of feeds under configurations.
    """

    arguments: CompareArguments
    progress: ProgressLine
    stack: ExitStack
    origins: list[FeedOrigin] = attrs.field(factory=list[FeedOrigin])
    found: list[FeedSide] = attrs.field(factory=list[FeedSide])

    # COMMAND-35
    def past_left_out(self) -> Iterator[Warned]:
        """Yield how much usage each configuration does not count."""
        for (_, config), side in zip(self.arguments.sides, self.found, strict=False):
            if config is not None and side.usage_left_out:
                yield uncounted_warning(self.arguments.configs[config], side.usage_left_out)

    def shared_origin_us(self) -> int | None:
        """Return the origin of all inputs, in microseconds since 1970; None if they differ."""
        found = {origin.us for origin in self.origins}
        return found.pop() if len(found) == 1 else None

    def origin(self) -> FeedOrigin:
        """Return what gets the origin of an input."""
        self.origins.append(FeedOrigin())
        return self.origins[-1]

    def begin(self, name: str) -> tuple[RawEvent | None, Iterator[RawEvent]]:
        """Read the first event of a file; return it, and all events."""
        raws = self.stack.enter_context(closing(self.progress.read_raw(name, logs=True)))
        first = next(raws, None)
        return first, raws if first is None else chain([first], raws)

    def kept(self, name: str) -> KeptFeed | None:
        """Open a state directory; return None for a file.

        Raises:
            FeedError: If it cannot be read.
        """
        since, until = self.arguments.since, self.arguments.until
        if not is_directory(name) and since is None and until is None:
            return None
        source = self.stack.enter_context(open_source(name, since=since, until=until))
        self.origins.append(source.origin)
        return source.state_directory


def _compare_configurations(
    opening: ComparisonInputs,
    configurations: list[Configuration],
    left_out: dict[str, list[LeftOut]],
) -> Comparison:
    inputs, sides = opening.arguments.inputs, opening.arguments.sides
    found = opening.found
    for number, name in enumerate(inputs):
        mine = [config for feed, config in sides if feed == number]
        chosen = [None if config is None else configurations[config] for config in mine]
        found += _sides_of_feed(opening, name, chosen, left_out.setdefault(name, []))
    return Comparison(*found, in_step=len(inputs) == 1)


def _sides_of_feed(
    opening: ComparisonInputs,
    feed: str,
    configurations: Sequence[Configuration | None],
    left_out: list[LeftOut],
) -> Sequence[FeedSide]:
    """Return the sides of a feed under several configurations; None is the feed as it is.

    Raises:
        FeedError: If it cannot be read, or a configuration cannot come into force.
    """
    if all(one is None for one in configurations):
        left_out = []  # nothing is left out of a feed as it is
    kept = opening.kept(feed)
    if kept is not None:
        try:
            return sides_of_kept(kept, configurations, left_out)
        except RefusedError as error:
            raise FeedError(feed, f"no configuration given can come into force: {error}") from error
    first, raws = opening.begin(feed)
    if first is not None and is_decision(first):
        raise FeedError(name_of(feed), "is a decision log: a configuration cannot change it")
    return sides_of(
        raws,
        configurations,
        name=name_of(feed),
        base=base_of(feed),
        left_out=left_out,
        origin=opening.origin(),
    )


def _compare_two(opening: ComparisonInputs) -> Comparison:
    names = opening.arguments.inputs
    kept = [opening.kept(name) for name in names]
    opened = [
        (None, iter(())) if one is not None else opening.begin(name)
        for name, one in zip(names, kept, strict=True)
    ]
    # An empty file may be a feed or a log.
    logs = {is_decision(first) for first, _ in opened if first is not None}
    logs |= {False for one in kept if one is not None}
    if len(logs) > 1:
        (log,) = (
            name
            for name, (first, _) in zip(names, opened, strict=True)
            if first and is_decision(first)
        )
        raise FeedError(name_of(log), "is a decision log, and the other is a feed")
    if True in logs:
        return Comparison(
            *(
                LogSide(read_decisions(raws, name_of(name)))
                for name, (_, raws) in zip(names, opened, strict=True)
            )
        )
    a, b = (
        FeedSide(events_of(parse(raws, base=base_of(name), origin=opening.origin()), name_of(name)))
        if one is None
        else FeedSide(one.items(), facts=one.facts)
        for name, (_, raws), one in zip(names, opened, kept, strict=True)
    )
    return Comparison(a, b)
