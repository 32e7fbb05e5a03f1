"""Convert a feed from one encoding to another, one event at a time, without loss of meaning.

In YAML the field decides whether a plain scalar is a number, a boolean or a text. The table
of operations decides it here, so the converted feed replays the same. An event that would
be refused is still refused, at the same instant. ``file`` in a ``configure`` event is relative to the
feed, so it is written anew if the new feed is in another folder.
"""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import Final, Self, final

import attrs

from muster.feeds._encodings.encode import Encoder
from muster.feeds._encodings.raw import Encoding, Raw, RawEvent
from muster.feeds._encodings.read import encoding_of, read_raw, suffix_of
from muster.feeds._encodings.source import Source
from muster.feeds._encodings.target import Output, Target
from muster.feeds._errors import FeedError
from muster.feeds._fields.kinds import FieldError, as_written
from muster.feeds._fields.table import normal_fields
from muster.feeds._ops import AT, OP, OPS
from muster.feeds._other_files import read_events

_COMMON: Final = {OP.name: OP, AT.name: AT}


def convert(
    source: Source,
    target: Target,
    *,
    source_encoding: Encoding | None = None,
    target_encoding: Encoding | None = None,
    only_feeds: bool = False,
) -> int:
    """Write a feed in another encoding.

    Args:
        source: A path, ``-`` for standard input, or a stream of bytes.
        target: A path, ``-`` for standard output, or a stream of bytes. A name that ends in
            ``.gz`` is compressed.
        source_encoding: The encoding of the source; None to detect it.
        target_encoding: The encoding to write; None to take it from the name of the target,
            or JSON Lines if the target has no name.
        only_feeds: See :func:`muster.feeds.read_feed`.

    Returns:
        The number of events.

    Raises:
        FeedError: If the source cannot be opened or read, or the target cannot be written,
            or its name does not tell its encoding. An existing file is then unchanged.
    """
    encoder = Encoder(target_encoding or target_encoding_of(target))
    _check_apart(source, target)
    moved = _Moved.between(source, target)
    events = 0
    raws = (read_events if only_feeds else read_raw)(source, encoding=source_encoding)
    first = next(raws, None)  # before the target is opened: a missing source must not empty it
    with Output(target, whole=True) as output:
        for raw in () if first is None else chain([first], raws):
            output.write(encoder.event(moved.normal(raw)))
            events += 1
        output.write(encoder.end())
    return events


def target_encoding_of(target: Target) -> Encoding:
    """Return the encoding in which to write to a target.

    Raises:
        FeedError: If its name does not tell it.
    """
    if not isinstance(target, (str, os.PathLike)) or target == "-":
        return Encoding.JSON_LINES
    name = str(Path(target))
    encoding = Encoding.JSON if suffix_of(name) == ".json" else encoding_of(name)
    if encoding is None:
        msg = "the name has no known ending: use .yaml, .json, .jsonl or .msgpack"
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


# COMMAND-20
@final
@attrs.frozen
class _Moved:
    """Where a feed was, and where it goes: ``file`` of ``configure`` is relative to it.

    Attributes:
        before: The folder to which names of files were relative.
        after: The folder to which they will be. Both are without symbolic links.
    """

    before: Path
    after: Path

    @classmethod
    def between(cls, source: Source, target: Target) -> Self:
        """Return the folders of a source and a target; the working folder if one is a stream."""
        return cls(_folder(source).resolve(), _folder(target).resolve())

    def normal(self, raw: RawEvent) -> Raw:
        """Return an event in the form that every encoding can write; see :func:`normal`."""
        value = normal(raw)
        if self.before == self.after or not isinstance(value, dict):
            return value
        name = value.get("file")
        if value.get(OP.name) != "configure" or not isinstance(name, str) or not name:
            return value
        return {**value, "file": self._renamed(name)}

    def _renamed(self, name: str) -> str:
        if Path(name).is_absolute():
            return name
        try:
            # Without links, so that `..` means the same to whoever opens the file.
            found = (self.before / name).parent.resolve() / Path(name).name
        except ValueError:  # a null byte: the event is refused
            return name
        return Path(os.path.relpath(found, self.after)).as_posix()


def _folder(place: Source | Target) -> Path:
    if isinstance(place, (str, os.PathLike)) and place != "-":
        return Path(place).parent
    return Path()


# COMMAND-6
def normal(raw: RawEvent) -> Raw:
    """Return an event in the form that every encoding can write."""
    value = raw.value
    if raw.problem is not None:
        return _refused(raw)
    if not isinstance(value, dict):
        return as_written(value)
    written = value.get(OP.name)
    op = OPS.get(written) if isinstance(written, str) else None
    return normal_fields({**(op.fields if op is not None else {}), **_COMMON}, value)


def _refused(raw: RawEvent) -> Raw:
    """Return an event that is refused for the same reason, at the same instant."""
    made: dict[str, Raw] = {OP.name: f"refused: {raw.problem}"}
    if isinstance(raw.value, dict) and AT.name in raw.value:
        at = AT.kind.normal(raw.value[AT.name])
        try:
            AT.kind.parse(at)
        except FieldError:
            return made
        made[AT.name] = at
    return made
