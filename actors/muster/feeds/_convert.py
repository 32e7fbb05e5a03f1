"""Converting a feed between encodings, one event at a time, without loss of meaning.

What YAML leaves to the field (a number, a boolean, a text) is decided here by the table of
operations, so that the feed replays the same. What would be refused is still refused
afterwards, and at the same time. ``file`` in a ``configure`` event stays as it is, relative
to the feed: whoever moves the feed moves the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from muster.feeds._encodings.encode import ENCODERS
from muster.feeds._encodings.raw import Encoding, Raw, RawEvent
from muster.feeds._encodings.read import encoding_of, read_raw, suffix_of
from muster.feeds._encodings.source import Source
from muster.feeds._encodings.target import Output, Target
from muster.feeds._errors import FeedError
from muster.feeds._fields.kinds import FieldError, as_written
from muster.feeds._fields.table import normal_fields
from muster.feeds._ops import AT, OP, OPS

_COMMON: Final = {OP.name: OP, AT.name: AT}


def convert(
    source: Source,
    target: Target,
    *,
    source_encoding: Encoding | None = None,
    target_encoding: Encoding | None = None,
) -> int:
    """Write a feed in another encoding.

    Args:
        source: A path, ``-`` for standard input, or a stream of bytes.
        target: A path, ``-`` for standard output, or a stream of bytes. A name that ends in
            ``.gz`` is compressed.
        source_encoding: How the source is written; None to find out.
        target_encoding: How to write; None to take it from the name, or JSON Lines for
            what has none.

    Returns:
        The number of events.

    Raises:
        FeedError: If the source cannot be opened or read on, or the target cannot be
            written, or its name does not say how. A file stays as it was then.
    """
    encode = ENCODERS[target_encoding or target_encoding_of(target)]
    _check_apart(source, target)
    events = 0
    raws = read_raw(source, encoding=source_encoding)
    first = next(raws, None)  # a source that is not there must not cost the target its content
    with Output(target, whole=True) as output:
        if first is not None:
            output.write(encode(normal(first)))
            events = 1
        for raw in raws:
            output.write(encode(normal(raw)))
            events += 1
    return events


def target_encoding_of(target: Target) -> Encoding:
    """Say how to write to a target.

    Raises:
        FeedError: If its name does not say.
    """
    if not isinstance(target, (str, os.PathLike)) or target == "-":
        return Encoding.JSON_LINES
    name = str(Path(target))
    encoding = Encoding.JSON_LINES if suffix_of(name) == ".json" else encoding_of(name)
    if encoding is None:
        msg = "the name has no known ending: use .yaml, .jsonl or .msgpack"
        raise FeedError(name, msg)
    return encoding


def _check_apart(source: Source, target: Target) -> None:
    paths = [
        Path(place)
        for place in (source, target)
        if isinstance(place, (str, os.PathLike)) and place != "-"
    ]
    if len(paths) == 2 and all(path.exists() for path in paths) and paths[0].samefile(paths[1]):
        raise FeedError(str(paths[1]), "is also the source: write to another file")


def normal(raw: RawEvent) -> Raw:
    """Give an event in the form that every encoding can write."""
    value = raw.value
    if raw.problem is not None:
        return _refused(raw)
    if not isinstance(value, dict):
        return as_written(value)
    written = value.get(OP.name)
    op = OPS.get(written) if isinstance(written, str) else None
    return normal_fields({**(op.fields if op is not None else {}), **_COMMON}, value)


def _refused(raw: RawEvent) -> Raw:
    """Give an event that is refused for the same reason, at the same time."""
    made: dict[str, Raw] = {OP.name: f"refused: {raw.problem}"}
    if isinstance(raw.value, dict) and AT.name in raw.value:
        at = AT.kind.normal(raw.value[AT.name])
        try:
            AT.kind.parse(at)
        except FieldError:
            return made
        made[AT.name] = at
    return made
