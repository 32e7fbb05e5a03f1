"""Output in any encoding: a feed that is converted, and the decision log.

A feed is converted one event at a time, without loss of meaning. In YAML the field decides whether
a plain scalar is a number, a boolean or a text. The table of operations decides it here, so the
converted feed replays the same. An event that would be refused is still refused, at the same instant.
``file`` in a ``configure`` event is relative to the feed, so it is written anew if the new feed is in
another folder.

A decision log has one map for each decision, as JSON Lines or msgpack.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from json.encoder import encode_basestring
from pathlib import Path
from typing import Final, Self, cast, final

import attrs

from muster.feeds._encodings import (
    Encoder,
    encoding_of,
    read_raw,
    suffix_of,
    to_json_line,
    to_msgpack,
)
from muster.feeds._fields import normal_fields
from muster.feeds._files import FeedError, Output, Source, Target
from muster.feeds._items import Refused
from muster.feeds._kinds import EventFields, FieldError, as_written
from muster.feeds._operations import AT, OP, OPS, write
from muster.feeds._parser import parse, read_events
from muster.feeds._raw import Encoding, Raw, RawEvent, problem_of_value
from muster_core.decisions import Announced, Decision, Kind, seconds
from muster_core.events import (
    AddAsk,
    AddGang,
    AppliedObject,
    Apply,
    Configure,
    Delete,
    Event,
    Manifest,
    PodObject,
)
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.decisions import SHOWN

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
    moved = _Relocation.between(source, target)
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
class _Relocation:
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
            # Without links, so that `..` means the same when the file is opened.
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


def write_event(event: Event) -> EventFields:
    """Return an event as written in a feed.

    Raises:
        ValueError: If no feed can say it; the message says why.
    """
    return write_and_read(event)[0]


def write_and_read(event: Event) -> tuple[EventFields, Event]:
    """Return an event as written in a feed, and as read from there.

    The two mean the same; see :func:`normalized`.

    Raises:
        ValueError: If no feed can say it; the message says why.
    """
    written = write(event)
    problem = problem_of_value(written)
    if problem is not None:
        raise ValueError(problem)
    (item,) = parse([RawEvent(0, None, written)])
    if isinstance(item.content, Refused):
        raise ValueError(item.content.message)
    found = cast("Event", item.content)
    if normalized(found) != normalized(event):
        msg = f"it would become {found!r}, and it is {event!r}"
        raise ValueError(msg)
    return written, found


def normalized(event: Event | AppliedObject) -> Event | AppliedObject:
    """Return an event or an object without what only its messages depend on.

    These are the fields that objects and configurations have in the event, the order of the gangs
    of a group, and the warnings of a configuration about fields that are not obeyed.
    """
    match event:
        case Configure(config):
            return Configure(attrs.evolve(config, warnings=()))
        case AddAsk(says=says) | AddGang(says=says) if says.groups is not None:
            groups = tuple(sorted(set(says.groups)))
            return attrs.evolve(event, says=attrs.evolve(says, groups=groups))
        case PodObject(ask=AddAsk() as ask):
            return attrs.evolve(event, ask=cast("AddAsk", normalized(ask)))
        case Apply(objects):
            contents = (cast("AppliedObject", normalized(one.content)) for one in objects)
            return Apply(tuple(Manifest(content, "") for content in contents))
        case Delete(objects):
            return Delete(tuple(Manifest(one.content, "") for one in objects))
        case _:
            return event


_KEYS: Final = tuple(f', "{name}": ' for name in Decision._fields[1:SHOWN])


# DECISION-1
def decision_line(announced: Announced) -> bytes:
    """Write a decision as one line of JSON.

    It is what :func:`to_json_line` makes of its map, for half the work: a replay writes millions.
    """
    decision = announced.decision
    kind = decision.kind
    if kind is Kind.QUEUE_PRIORITY or kind is Kind.RESERVED or decision.devices is not None:
        return to_json_line(announced.as_map())  # Not all of its fields are texts and numbers.
    fields = [
        key + (encode_basestring(value) if isinstance(value, str) else str(value))
        for key, value in zip(_KEYS, decision[1:SHOWN], strict=True)
        if value is not None
    ]
    head = f'{{"seq": {announced.seq}, "at": {seconds(announced.at_us)}, "kind": "{kind}"'
    return f"{head}{''.join(fields)}}}\n".encode(errors="backslashreplace")


_ENCODERS: Final[Mapping[Encoding, Callable[[Announced], bytes]]] = {
    Encoding.JSON_LINES: decision_line,
    Encoding.MSGPACK: lambda announced: to_msgpack(announced.as_map()),
}


@final
class DecisionLog:
    """Writes a decision log; the same decisions give the same bytes.

    Use it in a ``with`` statement, or call :meth:`close`.
    """

    def __init__(self, target: Target, *, encoding: Encoding | None = None) -> None:
        """Open a log.

        Args:
            target: A path, ``-`` for standard output, or a stream of bytes. A name that
                ends in ``.gz`` is compressed.
            encoding: JSON Lines or msgpack; None to take it from the name: msgpack if it
                ends in ``.msgpack`` or ``.mp``, otherwise JSON Lines.

        Raises:
            FeedError: If it cannot be opened, or its encoding is YAML.
        """
        name = str(Path(target)) if isinstance(target, (str, os.PathLike)) else ""
        encode = _ENCODERS.get(encoding or encoding_of(name) or Encoding.JSON_LINES)
        if encode is None:
            raise FeedError(name, "a decision log is JSON Lines (.jsonl) or msgpack (.msgpack)")
        self._encode = encode
        self._output = Output(target)

    def write(self, batch: Sequence[Announced]) -> None:
        """Write the decisions of one batch.

        Raises:
            BrokenPipeError: If the reader has closed the pipe.
            FeedError: If they cannot be written for another reason.
        """
        self._output.write(b"".join(map(self._encode, batch)))

    def write_in_steps(self, batch: Sequence[Announced]) -> Steps[None]:
        """Do what :meth:`write` does in steps, between which other tasks may run.

        Raises:
            BrokenPipeError: If the reader has closed the pipe.
            FeedError: If they cannot be written for another reason.
        """
        for piece in in_pieces(batch):
            self.write(piece)
            yield

    def close(self) -> None:
        """Write the decisions that are still buffered, and close the log.

        Raises:
            BrokenPipeError: If the reader has closed the pipe.
            FeedError: If it cannot be written for another reason.
        """
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
