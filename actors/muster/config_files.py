"""Reading configuration files: YAML as it stands there, with its lines.

The tree that the core reads (:mod:`muster_core.config.document`) holds texts, so the
parser's *events* are used and nothing is resolved: ``off`` stays ``off`` and ``010``
stays ``010``. The tree is built without recursion, an alias shares the node that it
names, and ``<<`` merges maps as YAML 1.1 has it, which real ``queues.yaml`` files use.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import attrs
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from muster._yaml import UNREADABLE
from muster_core.config import load_configuration
from muster_core.config.document import (
    MAX_DEPTH,
    Listing,
    Node,
    Scalar,
    Table,
    describe,
    unprintable,
)
from muster_core.errors import ConfigError, Problem

if TYPE_CHECKING:
    from os import PathLike

    from muster_core.config.model import Configuration

_MOST_ALIASED: Final = 200_000
"""How many nodes aliases may add to those that are written; more is an attack on the memory."""

_MERGE: Final = "<<"
_STANDARD_TAGS: Final = "tag:yaml.org,2002:"

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_configuration(path: str | PathLike[str], *, partition: str | None = None) -> Configuration:
    """Read a configuration from a file in YuniKorn's ``queues.yaml`` form.

    Args:
        path: The file.
        partition: The partition that is to run; None for ``default``, or the only one.

    Raises:
        OSError: If the file cannot be read.
        ConfigError: If it is refused, with everything that is wrong with it.
    """
    return parse_configuration(Path(path).read_bytes(), file=str(path), partition=partition)


def parse_configuration(
    text: str | bytes, *, file: str | None = None, partition: str | None = None
) -> Configuration:
    """Read a configuration from what stands in a file.

    Args:
        text: What stands there; of bytes the encoding is UTF-8, unless a mark says otherwise.
        file: The name of the file, for problems.
        partition: The partition that is to run; None for ``default``, or the only one.

    Raises:
        ConfigError: If it is refused, with everything that is wrong with it.
    """
    return load_configuration(parse_document(text, file=file), file=file, partition=partition)


def parse_document(text: str | bytes, *, file: str | None = None) -> Node:
    """Read one YAML document (an empty one is an empty text).

    Args:
        text: What stands in the file.
        file: The name of the file, for problems.

    Raises:
        ConfigError: If it is not YAML, or more than one document, or uses what a
            configuration has no use for; with the line.
    """
    if isinstance(text, bytes):
        text = _decode(text, file)
    builder = _Builder(file)
    try:
        for event in _events(text):
            builder.feed(event)
    except MarkedYAMLError as error:
        raise builder.error(_complaint(error), _line_of(error)) from None
    except ReaderError as error:
        raise builder.error(*_bad_character(error, text)) from None
    except UNREADABLE as error:
        raise builder.error(f"not YAML: {error}", builder.line) from None
    return builder.document


@final
@attrs.frozen
class _Event:
    """An event of the YAML parser, with types.

    Attributes:
        kind: The parser's class.
        line: Its line, from 1.
        anchor: The name of its anchor (of an alias, the one that it names), or None.
        tag: Its tag, or an empty text.
        text: What stands in a scalar.
        quoted: It is a scalar in quotes or a block.
    """

    kind: type
    line: int
    anchor: str | None
    tag: str
    text: str
    quoted: bool


def _events(text: str) -> Iterator[_Event]:
    """Give the events of the YAML parser, which annotates next to nothing."""
    parser: Any = YAML(typ="safe", pure=True)
    for event in parser.parse(text):
        kind: type[object] = event.__class__
        yield _Event(
            kind=kind,
            line=event.start_mark.line + 1,
            anchor=getattr(event, "anchor", None),
            tag=str(getattr(event, "tag", None) or ""),
            text=getattr(event, "value", ""),
            quoted=bool(getattr(event, "style", None)),
        )


def _decode(data: bytes, file: str | None) -> str:
    """Decode the bytes of a file.

    Raises:
        ConfigError: If they are in no encoding that YAML has.
    """
    encoding = next(
        (name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8-sig"
    )
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        message = f"byte 0x{byte:02x} is not {encoding.removesuffix('-sig')}: {error.reason}"
        raise ConfigError([Problem(message, file=file, line=line)]) from None


def _complaint(error: MarkedYAMLError) -> str:
    """Say on one line what the parser complains of."""
    untyped: Any = error
    parts: tuple[str | None, ...] = (untyped.context, untyped.problem)
    return " ".join(("not YAML:", *(part.strip() for part in parts if part)))


def _line_of(error: MarkedYAMLError) -> int | None:
    """Give the line of which the parser complains."""
    untyped: Any = error
    mark = untyped.problem_mark or untyped.context_mark
    return None if mark is None else mark.line + 1


def _bad_character(error: ReaderError, text: str) -> tuple[str, int]:
    """Say which character may not stand in YAML, and give its line."""
    untyped: Any = error
    position: int = untyped.position
    code = ord(text[position]) if position < len(text) else 0
    message = f"not YAML: the character U+{code:04X} must not stand there"
    return message, text.count("\n", 0, position) + 1


@final
@attrs.define
class _Open:
    """A collection whose end has not come yet."""

    anchor: str | None
    line: int
    order: int
    is_table: bool
    parts: list[Node] = attrs.field(factory=list[Node])
    size: int = 1


@final
class _Builder:
    """Builds the tree of one document from events.

    Attributes:
        document: The document; an empty text until something comes.
        line: The line of the last event, from 1.
    """

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._documents = 0
        self._written = 0
        self.document: Node = Scalar("", 1)
        self.line = 1

    def error(self, message: str, line: int | None) -> ConfigError:
        """Make the error that refuses the file."""
        return ConfigError([Problem(message, file=self._file, line=line)])

    def feed(self, event: _Event) -> None:
        """Take the next event.

        Raises:
            ConfigError: If a configuration has no use for it.
        """
        self.line = event.line
        self._written += 1
        if event.kind is ScalarEvent:
            node = self._scalar(event)
            self._remember(event.anchor, node, 1)
            self._add(node, 1)
        elif event.kind is AliasEvent:
            self._add(*self._aliased(event.anchor))
        elif event.kind in (MappingStartEvent, SequenceStartEvent):
            self._start(event)
        elif event.kind in (MappingEndEvent, SequenceEndEvent):
            self._end()
        elif event.kind is DocumentStartEvent:
            self._start_document()

    def _start_document(self) -> None:
        """Refuse a second document."""
        self._documents += 1
        if self._documents > 1:
            raise self.error("a second document starts here: a configuration is one", self.line)

    def _scalar(self, event: _Event) -> Scalar:
        """Make the node of a scalar."""
        self._check_tag(event.tag)
        if unprintable(event.text):
            raise self.error("half a surrogate pair cannot stand in a configuration", self.line)
        return Scalar(event.text, self.line, self._written, quoted=event.quoted)

    def _check_tag(self, tag: str) -> None:
        """Refuse the tags with which YAML makes objects; the others change nothing here."""
        if tag not in ("", "!") and not tag.startswith(_STANDARD_TAGS):
            raise self.error(f"the tag {tag} has no meaning in a configuration", self.line)

    def _start(self, event: _Event) -> None:
        """Start a collection."""
        self._check_tag(event.tag)
        if len(self._open) == MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels", self.line)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)  # an alias within it would name itself
        is_table = event.kind is MappingStartEvent
        self._open.append(_Open(event.anchor, self.line, self._written, is_table))

    def _end(self) -> None:
        """Make the node of the collection that ends."""
        ended = self._open.pop()
        node: Node
        if ended.is_table:
            pairs = zip(ended.parts[::2], ended.parts[1::2], strict=True)
            entries = self._merged(list(pairs))
            node = Table(tuple(entries), ended.line, ended.order)
        else:
            node = Listing(tuple(ended.parts), ended.line, ended.order)
        self._remember(ended.anchor, node, ended.size)
        self._add(node, ended.size)

    def _add(self, node: Node, size: int) -> None:
        """Put a node where it belongs."""
        if not self._open:
            self.document = node
            return
        parent = self._open[-1]
        parent.parts.append(node)
        parent.size += size
        if parent.size > self._written + _MOST_ALIASED:
            raise self.error("the aliases stand for too much", self.line)

    def _remember(self, anchor: str | None, node: Node, size: int) -> None:
        """Keep a node for the aliases that name it."""
        if anchor is not None:
            self._anchors[anchor] = (node, size)

    def _aliased(self, anchor: str | None) -> tuple[Node, int]:
        """Give the node that an alias names."""
        known = None if anchor is None else self._anchors.get(anchor)
        if known is None:
            message = f"the alias *{anchor} names nothing that stands before it"
            raise self.error(message, self.line)
        return known

    def _merged(self, pairs: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        """Put what ``<<`` names behind a map's own entries, unless it has such a key."""
        own = [pair for pair in pairs if not _is_merge(pair[0])]
        names = {key.text for key, _ in own if isinstance(key, Scalar)}
        for key, value in pairs:
            if not _is_merge(key):
                continue
            for table in value.items if isinstance(value, Listing) else (value,):
                if not isinstance(table, Table):
                    message = f"<< takes a map or a list of maps, not {describe(table)}"
                    raise self.error(message, key.line)
                own.extend(pair for pair in table.entries if _name(pair[0]) not in names)
                names.update(name for part, _ in table.entries if (name := _name(part)) is not None)
        return own


def _is_merge(key: Node) -> bool:
    """Say whether a key merges other maps into its own."""
    return isinstance(key, Scalar) and key.text == _MERGE and not key.quoted


def _name(key: Node) -> str | None:
    """Give the text of a key that has one."""
    return key.text if isinstance(key, Scalar) else None
