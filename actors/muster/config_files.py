"""Read configurations from YAML files.

All scalars stay texts, as the core reads them (:mod:`muster_core.config.document`): ``off``
stays ``off`` and ``010`` stays ``010``. ``<<`` merges maps as in YAML 1.1, which real
``queues.yaml`` files use. An error names the line.

YuniKorn reads its configuration from a ConfigMap, whose ``data`` has it as the text of the key
``queues.yaml``. So a file may be that ConfigMap as it is, a List of objects, or several manifests.
It is unwrapped, and lines are still those of the file.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, assert_never, final

import attrs

from muster._depth_warnings import with_depth_warnings
from muster._yaml import LITERAL, NotYamlError, Sign, Token, check_characters, read_tokens
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
from muster_core.values.names import did_you_mean

if TYPE_CHECKING:
    from muster_core.config.model import Configuration


QUEUES: Final = "queues.yaml"
"""The key in the ``data`` of a ConfigMap; its other keys configure what is not the queues."""

_PARTITIONS: Final = "partitions"
_MOST_NAMED: Final = 5
"""How many objects a message names."""


@final
@attrs.frozen
class Embedded:
    """A configuration that is a text in a ConfigMap.

    Attributes:
        text: The text.
    """

    text: Scalar


# CONFIG-6
def find_configuration(documents: Sequence[Node], file: str | None) -> Node | Embedded:
    """Return the only configuration in the documents of a file.

    Args:
        documents: The documents, without empty ones.
        file: The name of the file, for messages.

    Raises:
        ConfigError: If there are several configurations, or only Kubernetes objects without one.
    """
    found: Node | Embedded | None = None
    objects: list[Table] = []
    for document in documents:
        for part in _parts(document):
            candidate = _candidate(part, file)
            if candidate is None:
                assert isinstance(part, Table), "only an object can be without a configuration"
                objects.append(part)
            elif found is None:
                found = candidate
            else:
                raise _refusal(_second(found), _line_of(candidate), file)
    if found is not None:
        return found
    if objects:
        raise _refusal(_without(objects), objects[0].line, file)
    return Scalar("", 1)


def _parts(document: Node, depth: int = 0) -> Iterator[Node]:
    """Yield a document, or the items of a List of objects."""
    items = _field(document, "items") if _is_object(document) else None
    kind = _text(document, "kind")
    if kind is not None and kind.endswith("List") and isinstance(items, Listing):
        for item in items.items:
            yield from _parts(item, depth + 1)
    elif depth == 0 or _is_object(document):
        yield document


# CONFIG-80
def _candidate(part: Node, file: str | None) -> Node | Embedded | None:
    """Return the configuration that a document is or contains; None for any other object.

    Raises:
        ConfigError: If it is a ConfigMap in which something else stands for the text.
    """
    if not _is_object(part):
        return part
    text = _field(_field(part, "data"), QUEUES) if _text(part, "kind") == "ConfigMap" else None
    if text is None:
        return None
    if not isinstance(text, Scalar):
        message = f"{describe(text)} stands where a text is expected: write | behind {QUEUES}:"
        raise ConfigError([Problem(message, f"data.{QUEUES}", file, text.line)])
    return Embedded(text)


def _is_object(node: Node) -> bool:
    """Return whether a document is a Kubernetes object, and no configuration."""
    return _text(node, "kind") is not None and _field(node, _PARTITIONS) is None


def _field(node: Node | None, name: str) -> Node | None:
    """Return the value of a field, or None."""
    for key, value in node.entries if isinstance(node, Table) else ():
        if isinstance(key, Scalar) and key.text == name:
            return value
    return None


def _text(node: Node | None, name: str) -> str | None:
    """Return the text of a field, or None."""
    value = _field(node, name)
    return value.text if isinstance(value, Scalar) else None


def _line_of(found: Node | Embedded) -> int | None:
    return found.text.line if isinstance(found, Embedded) else found.line


def _second(first: Node | Embedded) -> str:
    line = _line_of(first)
    place = "" if line is None else f" in line {line}"
    return f"a second configuration starts here, after the first{place}: leave out one of them"


def _without(objects: Sequence[Table]) -> str:
    """Return the message that none of the objects has a configuration."""
    named = ", ".join(_name_of(one) for one in objects[:_MOST_NAMED])
    more = f" and {len(objects) - _MOST_NAMED} more" if len(objects) > _MOST_NAMED else ""
    keys = [
        key.text
        for one in objects
        if _text(one, "kind") == "ConfigMap"
        for part in ("data", "binaryData")
        for key in _keys(_field(one, part))
    ]
    packed = f"{QUEUES}.gz" in keys
    hint = f"; unpack {QUEUES}.gz" if packed else did_you_mean(QUEUES, keys)
    return f"there is no ConfigMap with the key {QUEUES} in its data, only {named}{more}{hint}"


def _keys(node: Node | None) -> list[Scalar]:
    entries = node.entries if isinstance(node, Table) else ()
    return [key for key, _ in entries if isinstance(key, Scalar)]


def _name_of(one: Table) -> str:
    name = _text(_field(one, "metadata"), "name")
    kind = (_text(one, "kind") or "")[:80]
    return f"the {kind}" if name is None else f"the {kind} {name[:80]!r}"


def _refusal(message: str, line: int | None, file: str | None) -> ConfigError:
    return ConfigError([Problem(message, file=file, line=line)])


_MOST_ALIASED: Final = 200_000
"""How many nodes aliases may add to the nodes of the file; more could fill the memory."""

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""The largest file that is read, so that a wrong file does not fill the memory."""

_MERGE: Final = "<<"
_STANDARD_TAGS: Final = "tag:yaml.org,2002:"

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, as it begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_configuration(path: str | PathLike[str], *, partition: str | None = None) -> Configuration:
    """Read a configuration from a file in YuniKorn's ``queues.yaml`` form.

    Args:
        path: The file.
        partition: The partition to run; None for ``default``, or else the only one.

    Raises:
        OSError: If the file cannot be read.
        ConfigError: If the configuration is refused; it lists everything that is wrong.
    """
    with Path(path).open("rb") as stream:
        content = read_content(stream)
    return parse_configuration(content, file=str(path), partition=partition)


# CONFIG-82
def read_content(stream: BinaryIO) -> bytes:
    """Read a file that has a configuration; of one that is too large no more than shows it.

    Raises:
        OSError: If it cannot be read.
    """
    return stream.read(MAX_FILE_BYTES + 1)


def parse_configuration(
    text: str | bytes, *, file: str | None = None, partition: str | None = None
) -> Configuration:
    """Read a configuration from the content of a file.

    Args:
        text: The content; bytes are UTF-8, unless a byte order mark says otherwise.
        file: The name of the file, for error messages.
        partition: The partition to run; None for ``default``, or else the only one.

    Raises:
        ConfigError: If the configuration is refused; it lists everything that is wrong.
    """
    document = parse_document(text, file=file)
    configuration = load_configuration(document, file=file, partition=partition)
    return with_depth_warnings(configuration, document, file=file)


# CONFIG-6, CONFIG-35
def parse_document(text: str | bytes, *, file: str | None = None) -> Node:
    """Read the one configuration of a file; an empty file is an empty text.

    Args:
        text: The content of the file.
        file: The name of the file, for error messages.

    Raises:
        ConfigError: If the text is not YAML, has no configuration or several, or uses YAML that
            a configuration must not use; with the line.
    """
    # CONFIG-82
    if len(text) > MAX_FILE_BYTES:
        message = f"a configuration has at most {MAX_FILE_BYTES} bytes, and this is larger"
        raise ConfigError([Problem(message, file=file)])
    if isinstance(text, bytes):
        text = _decode(text, file)
    return _opened(find_configuration(_parsed(text, _Builder(file)), file), file)


# CONFIG-80
def unwrap(document: Node) -> Node:
    """Return the configuration in a document that may be a ConfigMap or a List of objects.

    Raises:
        ConfigError: If it is an object without a configuration, or has several.
    """
    return _opened(find_configuration([document], None), None)


# CONFIG-81
def _opened(found: Node | Embedded, file: str | None) -> Node:
    """Return a configuration; if it is a text in a ConfigMap, read it."""
    if not isinstance(found, Embedded):
        return found
    documents = _parsed(found.text.text, _Builder(file, found.text))
    if len(documents) > 1:
        message = f"a second document starts here: {QUEUES} is one"
        raise ConfigError([Problem(message, file=file, line=documents[1].line)])
    return documents[0] if documents else Scalar("", found.text.line)


def _parsed(text: str, builder: _Builder) -> list[Node]:
    """Read all documents of a text, without empty ones.

    Raises:
        ConfigError: If the text is not YAML, or uses YAML that a configuration must not use.
    """
    try:
        check_characters(text)
        for token in read_tokens(text):
            builder.feed(token)
    except NotYamlError as error:
        raise builder.error(str(error), error.line) from None
    return builder.documents


def _decode(data: bytes, file: str | None) -> str:
    """Decode the bytes of a file.

    Raises:
        ConfigError: If the bytes are invalid in the encoding that their mark names.
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


@final
@attrs.define
class _Open:
    """A map or list whose end event is still to come."""

    anchor: str | None
    line: int | None
    order: int
    is_table: bool
    parts: list[Node] = attrs.field(factory=list[Node])
    size: int = 1


# CONFIG-6
@final
class _Builder:
    """Builds the trees of documents from parser events.

    Args:
        file: The name of the file, for messages.
        inside: The text of the file that is read, if it is not the whole file.

    Attributes:
        documents: The documents, without empty ones.
        line: The line of the last event in the text that is read, from 1.
    """

    def __init__(self, file: str | None, inside: Scalar | None = None) -> None:
        self._file = file
        self._inside = inside
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._written = 0
        self.documents: list[Node] = []
        self.line = 1

    def error(self, message: str, line: int | None) -> ConfigError:
        """Create the error that refuses the file."""
        if self._inside is not None and line is not None and not self._inside.literal:
            message = f"{message} (line {line} of the text that begins here)"
        return ConfigError([Problem(message, file=self._file, line=self._place(line))])

    # CONFIG-81
    def _place(self, line: int | None) -> int | None:
        """Return the line of the file on which a line of the text stands, as far as it is known."""
        if self._inside is None:
            return line
        begins = self._inside.line
        if line is None or begins is None or not self._inside.literal:
            return begins
        return begins + line

    def feed(self, token: Token) -> None:
        """Process the next token.

        Raises:
            ConfigError: If a configuration must not contain it.
        """
        self.line = token.line
        self._written += 1
        sign = token.sign
        if sign is Sign.SCALAR:
            node = self._scalar(token)
            self._remember(token.anchor, node, 1)
            self._add(node, 1)
        elif sign is Sign.MAP or sign is Sign.LIST:
            self._start(token)
        elif sign is Sign.END:
            self._end()
        elif sign is Sign.ALIAS:
            self._add(*self._aliased(token.text))
        elif sign is Sign.DOCUMENT:
            self._anchors.clear()
        else:
            assert_never(sign)

    # CONFIG-7
    def _scalar(self, token: Token) -> Scalar:
        """Create the node of a scalar."""
        self._check_tag(token.tag)
        if unprintable(token.text):
            raise self.error("half a surrogate pair cannot stand in a configuration", self.line)
        literal = token.style == LITERAL
        line = self._place(self.line)
        return Scalar(token.text, line, self._written, quoted=bool(token.style), literal=literal)

    def _check_tag(self, tag: str | None) -> None:
        """Refuse tags other than the standard ones; the standard tags have no effect."""
        if tag not in (None, "!") and not tag.startswith(_STANDARD_TAGS):
            raise self.error(f"the tag {tag} has no meaning in a configuration", self.line)

    def _start(self, token: Token) -> None:
        """Start a map or list."""
        self._check_tag(token.tag)
        if len(self._open) == MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels", self.line)
        if token.anchor is not None:
            # An alias inside the collection must not find an earlier anchor of this name.
            self._anchors.pop(token.anchor, None)
        is_table = token.sign is Sign.MAP
        line = self._place(self.line)
        self._open.append(_Open(token.anchor, line, self._written, is_table))

    def _end(self) -> None:
        """Create the node of the map or list that ends."""
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
        """Add a node to the innermost open collection, or to the documents."""
        if not self._open:
            if not (isinstance(node, Scalar) and node.is_null):
                self.documents.append(node)
            return
        parent = self._open[-1]
        parent.parts.append(node)
        parent.size += size
        if parent.size > self._written + _MOST_ALIASED:
            raise self.error("the aliases stand for too much", self.line)

    def _remember(self, anchor: str | None, node: Node, size: int) -> None:
        """Keep a node for the aliases that may name it."""
        if anchor is not None:
            self._anchors[anchor] = (node, size)

    def _aliased(self, anchor: str) -> tuple[Node, int]:
        """Return the node that an alias names, and its size in nodes."""
        known = self._anchors.get(anchor)
        if known is None:
            message = f"the alias *{anchor} names nothing that stands before it"
            raise self.error(message, self.line)
        return known

    def _merged(self, pairs: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        """Append the entries that ``<<`` merges into a map, except for keys that it has."""
        own = [pair for pair in pairs if not _is_merge(pair[0])]
        names = {key.text for key, _ in own if isinstance(key, Scalar)}
        for key, value in pairs:
            if not _is_merge(key):
                continue
            for table in value.items if isinstance(value, Listing) else (value,):
                if not isinstance(table, Table):
                    message = f"<< takes a map or a list of maps, not {describe(table)}"
                    raise ConfigError([Problem(message, file=self._file, line=key.line)])
                own.extend(pair for pair in table.entries if _name(pair[0]) not in names)
                names.update(name for part, _ in table.entries if (name := _name(part)) is not None)
        return own


def _is_merge(key: Node) -> bool:
    """Return whether a key is ``<<``, without quotes."""
    return isinstance(key, Scalar) and key.text == _MERGE and not key.quoted


def _name(key: Node) -> str | None:
    """Return the text of a scalar key, or None."""
    return key.text if isinstance(key, Scalar) else None
