"""``muster convert``: write a feed in another encoding."""

from __future__ import annotations

import click

from muster.cli._options import (
    FILE,
    STDOUT,
    UNUSABLE,
    Format,
    complain,
    counted,
    error_map,
    example,
    format_option,
    name_of,
    print_json,
)
from muster.feeds import Encoding, FeedError, convert

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
@format_option
@click.pass_context
def command(
    context: click.Context,
    source: str,
    target: str,
    source_encoding: str | None,
    target_encoding: str | None,
    output: Format,
) -> None:
    """Write a feed in another encoding; it replays the same.

    The name of OUT determines its encoding: .yaml, .jsonl or .msgpack; add .gz for gzip. `-` is
    standard input or output. The field `file` of a `configure` event does not change: it is
    relative to the feed. OUT is replaced when the conversion is complete; after a failure it is
    unchanged.

    Exit status: 0, or 2 if IN cannot be read or OUT cannot be written.
    """
    to_stdout = target == STDOUT
    try:
        events = convert(
            source,
            target,
            source_encoding=None if source_encoding is None else Encoding(source_encoding),
            target_encoding=None if target_encoding is None else Encoding(target_encoding),
        )
    except FeedError as error:
        complain(str(error))
        if output is Format.JSON:
            print_json({"error": error_map(error)}, err=to_stdout)
        context.exit(UNUSABLE)
    if output is Format.JSON:
        print_json({"in": name_of(source), "out": target, "events": events}, err=to_stdout)
    elif not to_stdout:
        click.echo(f"{target}: {counted(events, 'event')} from {name_of(source)}")
