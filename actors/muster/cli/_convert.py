"""``muster convert``: write a feed in another encoding."""

from __future__ import annotations

import click

from muster.cli._inputs import Instant, as_time, exit_on_feed_error, since_option, span_of
from muster.cli._options import (
    FILE,
    STDOUT,
    Format,
    complain,
    example,
    format_option,
    name_of,
    print_json,
)
from muster.export import Exported, export
from muster.feeds import Encoding, convert, is_directory, origin_of
from muster.figures.text import counted

ENCODING = click.Choice([encoding.value for encoding in Encoding])


# COMMAND-6
@click.command("convert", epilog=example("muster convert feed.yaml feed.msgpack.gz"))
@click.argument("source", type=FILE, metavar="IN")
@click.argument("target", type=FILE, metavar="OUT")
@click.option(
    "--from",
    "source_encoding",
    type=ENCODING,
    help="The encoding of IN. [default: detected from its name and its first bytes]",
)
@click.option(
    "--to",
    "target_encoding",
    type=ENCODING,
    help="The encoding of OUT. [default: detected from its name; jsonl for standard output]",
)
@since_option("Begin with the state at this time, as events that lead to it.")
@click.option(
    "--until",
    callback=as_time,
    metavar="TIME",
    help="Write what came in up to this time. Needs a state directory.",
)
@click.option(
    "--expect",
    "expects",
    is_flag=True,
    help="Write what happened as `expect` after each batch. Needs a state directory.",
)
@format_option
def command(
    *,
    source: str,
    target: str,
    source_encoding: str | None,
    target_encoding: str | None,
    since: Instant | None,
    until: Instant | None,
    expects: bool,
    output: Format,
) -> None:
    """Write a feed in another encoding; it replays the same.

    IN may be a state directory: the events that were let in are written as a feed. If the feed cannot
    say something as it was, which happens only with --since, standard error says what.

    The name of OUT determines its encoding: .yaml, .json (one list), .jsonl (a line for each event)
    or .msgpack; add .gz for gzip. `-` is standard input or output. The field `file` of a `configure`
    event is relative to the feed: it is written anew if OUT is in another folder. OUT is replaced
    when the conversion is complete; after a failure it is unchanged.

    Exit status: 0, or 2 if IN cannot be read or OUT cannot be written.
    """
    to_stdout = target == STDOUT
    to = None if target_encoding is None else Encoding(target_encoding)
    notes: tuple[str, ...] = ()
    with exit_on_feed_error(output, err=to_stdout):
        if is_directory(source):
            if source_encoding is not None:
                raise click.UsageError("--from: a state directory has no encoding")
            exported = _export(source, target, to, since, until, expects=expects)
            events, notes = exported.events, exported.notes
        else:
            _check(since, until, expects=expects)
            given = None if source_encoding is None else Encoding(source_encoding)
            events = convert(
                source, target, source_encoding=given, target_encoding=to, only_feeds=True
            )
    for note in notes:
        complain(f"{source}: {note}")
    if output is Format.JSON:
        summary = {"in": name_of(source), "out": target, "events": events}
        print_json(summary | ({"notes": [*notes]} if is_directory(source) else {}), err=to_stdout)
    elif not to_stdout:
        click.echo(f"{target}: {counted(events, 'event')} from {name_of(source)}")


def _check(since: Instant | None, until: Instant | None, *, expects: bool) -> None:
    """Refuse options that only a state directory can have.

    Raises:
        click.UsageError: If one is given.
    """
    given = (("--since", since is not None), ("--until", until is not None), ("--expect", expects))
    for option, is_given in given:
        if is_given:
            raise click.UsageError(f"{option} needs a state directory")


def _export(
    directory: str,
    target: str,
    encoding: Encoding | None,
    since: Instant | None,
    until: Instant | None,
    *,
    expects: bool,
) -> Exported:
    """Write a state directory as a feed.

    Raises:
        FeedError: If it cannot be read or written.
        click.UsageError: If an instant is not possible.
    """
    since_us, until_us = span_of(since, until, origin_of(directory))
    return export(
        directory, target, since_us=since_us, until_us=until_us, expects=expects, encoding=encoding
    )
