"""``configure``: load a configuration that is written in the feed or in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias, cast, final

import attrs

from muster._depths import with_depth_warnings
from muster.config_files import parse_configuration, read_content, unwrap
from muster.feeds._encodings.raw import Block, Literal, Located, Plain, Raw, Series, is_null
from muster.feeds._fields.kinds import FieldError, Kind, as_written, told
from muster.feeds._fields.table import field
from muster.feeds._fields.texts import NAME
from muster_core.config import load_configuration
from muster_core.config.document import Listing, Node, Scalar, Table
from muster_core.config.model import Configuration
from muster_core.errors import ConfigError, Problem
from muster_core.events import Configure

Values: TypeAlias = Mapping[str, object]
"""The typed values of the fields of one event."""

_TEXTS: Final = frozenset({"adminacl", "checksum", "name", "submitacl"})
_MAPS_OF_TEXTS: Final = frozenset(
    {"capability", "guaranteed", "max", "properties", "resourceweights"}
)
"""The fields of a configuration in which ``null`` and ``~`` are texts."""


@final
@attrs.frozen
class Origin:
    """The place that an event comes from.

    Attributes:
        base: The folder to which file names are relative.
        line: The line of the event, or None.
    """

    base: Path
    line: int | None


def _parse_config(value: Raw) -> Raw:
    if not isinstance(value, dict):
        msg = f"{told(value)} is not a map"
        raise FieldError(msg)
    return value


def _config_normal(value: Raw, *, is_text: bool = False, has_texts: bool = False) -> Raw:
    """Return a configuration with its texts as written; see :func:`_node`."""
    match value:
        case Plain():
            return None if is_null(value) and not (is_text and value) else str(value)
        case list():
            return [_config_normal(part) for part in value]
        case dict():
            return {
                str(key): _config_normal(
                    part, is_text=has_texts or key in _TEXTS, has_texts=key in _MAPS_OF_TEXTS
                )
                for key, part in value.items()
            }
        case _:
            return as_written(value)


CONFIGURE_FIELDS: Final = (
    field(
        "config",
        Kind("map", _parse_config, _config_normal),
        "the configuration, in the form of a configuration file",
    ),
    field("file", NAME, "the name of a configuration file, relative to the feed"),
    field("partition", NAME, "which partition runs; default: `default`, or the only one"),
)
"""The fields of ``configure``; an event has either ``config`` or ``file``."""


# FEED-18
def configure(values: Values, origin: Origin) -> Configure:
    """Load the configuration of a ``configure`` event.

    Raises:
        FieldError: If the event does not have exactly one of ``config`` and ``file``, or
            the configuration is refused.
    """
    partition = values.get("partition")
    assert partition is None or isinstance(partition, str)
    if ("config" in values) == ("file" in values):
        problem = "is missing, or file"
        if "config" in values:
            problem = f"leave it out, or the file {str(values['file'])!r}: one of them is in force"
        raise FieldError(problem, "config")
    if "file" in values:
        return Configure(_from_file(origin.base, str(values["file"]), partition), "file")
    return Configure(_inline(cast("Raw", values["config"]), origin.line, partition))


# CONFIG-35
def _from_file(base: Path, name: str, partition: str | None) -> Configuration:
    # Messages show the name as written, so that they do not depend on the folder of the feed.
    try:
        with (base / name).open("rb") as stream:
            content = read_content(stream)
        return parse_configuration(content, file=name, partition=partition)
    except ConfigError as error:
        raise FieldError("; ".join(str(problem) for problem in error.problems), "file") from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise FieldError(f"{name!r} cannot be read: {reason}", "file") from error


def _inline(written: Raw, line: int | None, partition: str | None) -> Configuration:
    try:
        document = unwrap(_node(written, line, count()))
        configuration = load_configuration(document, partition=partition)
        return _placed(with_depth_warnings(configuration, document))
    except ConfigError as error:
        raise FieldError("; ".join(_said(problem, line) for problem in error.problems)) from error


def _placed(configuration: Configuration) -> Configuration:
    """Return a configuration whose warnings have their paths in the event."""
    return attrs.evolve(
        configuration,
        told=tuple(attrs.evolve(one, path=_path(one.path)) for one in configuration.told),
        types=tuple(attrs.evolve(one, path=_path(one.path)) for one in configuration.types),
    )


def _path(path: str) -> str:
    return f"config.{path}" if path else "config"


def _said(problem: Problem, event_line: int | None) -> str:
    """Return the message of a problem, with its path in the event."""
    place = "" if problem.line in {None, event_line} else f" (line {problem.line})"
    return f"{_path(problem.path)}: {problem.message}{place}"


# CONFIG-7
def _node(value: Raw, line: int | None, order: Iterator[int]) -> Node:
    """Build a configuration node from a raw value; a value with a line of its own keeps it."""
    place = next(order)
    if isinstance(value, Block | Series | Located):
        line = value.line
    match value:
        case dict():
            entries = tuple(
                (_node(key, line, order), _node(part, line, order)) for key, part in value.items()
            )
            return Table(entries, line, place)
        case list():
            return Listing(tuple(_node(part, line, order) for part in value), line, place)
        case str():
            quoted, literal = not isinstance(value, Plain), isinstance(value, Literal)
            return Scalar(str(value), line, place, quoted=quoted, literal=literal)
        case None:
            return Scalar("", line, place)
        case bool():
            return Scalar("true" if value else "false", line, place)
        case _:
            return Scalar(repr(value), line, place)
