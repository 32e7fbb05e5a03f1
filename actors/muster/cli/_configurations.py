"""Configurations that are named on the command line, and what they replace in a feed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TextIO

import attrs
import click

from muster.cli._options import STDIN, name_of
from muster.compare import LeftOut, Warned
from muster.config_files import parse_configuration, read_content
from muster.feeds import FeedError, is_feed, word_of
from muster.figures.text import counted
from muster_core.config.model import Configuration
from muster_core.errors import ConfigError

_MOST_LEFT_OUT: Final = 10
"""The most left-out `configure` events that are printed."""


def read_configuration_text(source: str) -> bytes | None:
    """Read the text of a configuration; None if the process has no standard input.

    Raises:
        OSError: If it cannot be read.
    """
    if source != STDIN:
        with Path(source).open("rb") as file:
            return read_content(file)
    stream: TextIO | None = sys.stdin
    return None if stream is None else read_content(stream.buffer)


# COMMAND-21
def told_as_feed(name: str, content: bytes) -> str | None:
    """Return what to say of a file that is no configuration because it is a feed, or None.

    Args:
        name: Its name for messages.
        content: Its content.
    """
    if not is_feed(content):
        return None
    return f"is a feed, not a configuration: run it with `muster replay {word_of(name)}`"


def read_configuration(name: str, partition: str | None) -> Configuration:
    """Read a configuration that is in force from the start of a feed.

    Raises:
        FeedError: If it cannot be read, or is wrong.
    """
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


def warned_of(name: str, configuration: Configuration) -> Iterable[Warned]:
    """Return the warnings about a configuration."""
    return [
        Warned(name_of(name), told.line, told.path, told.message) for told in configuration.told
    ]


def tell_warned(warnings: Iterable[Warned]) -> None:
    """Print warnings about configurations to standard error."""
    for warned in warnings:
        place = warned.file if warned.line is None else f"{warned.file}:{warned.line}"
        parts = (place, "warning", warned.path, warned.message)
        click.echo(": ".join(part for part in parts if part), err=True)


def base_of(feed: str) -> Path:
    """Return the folder to which the files are relative that a feed names."""
    return Path() if feed == STDIN else Path(feed).parent


def tell_left_out(feed: str, left_out: Sequence[LeftOut]) -> None:
    """Print the left-out `configure` events to standard error."""
    for event in left_out[:_MOST_LEFT_OUT]:
        place = f"event {event.index}" if event.line is None else event.line
        named = "" if event.partition is None else f" (of partition {event.partition!r})"
        click.echo(f"{name_of(feed)}:{place}: `configure` is left out{named}", err=True)
    if len(left_out) > _MOST_LEFT_OUT:
        told = counted(len(left_out), "`configure` event")
        click.echo(f"{name_of(feed)}: … {told} left out in all", err=True)
