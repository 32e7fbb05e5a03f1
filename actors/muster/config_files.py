"""Read configurations from YAML files.

All scalars stay texts, as the core reads them (:mod:`muster_core.config.document`): ``off``
stays ``off`` and ``010`` stays ``010``. ``<<`` merges maps as in YAML 1.1, which real
``queues.yaml`` files use. An error names the line.
"""

# The tree is built from the parser's events, because these resolve no scalars. It is built
# without recursion, and an alias shares the node that it names.

from __future__ import annotations

import codecs
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import attrs

from muster._yaml import NotYamlError, Sign, Token, check_characters, read_tokens
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
"""How many nodes aliases may add to the nodes of the file; more could fill the memory."""

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
    return parse_configuration(Path(path).read_bytes(), file=str(path), partition=partition)


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
    return load_configuration(parse_document(text, file=file), file=file, partition=partition)


# CONFIG-6, CONFIG-35
def parse_document(text: str | bytes, *, file: str | None = None) -> Node:
    """Read one YAML document; an empty document is an empty text.

    Args:
        text: The content of the file.
        file: The name of the file, for error messages.

    Raises:
        ConfigError: If the text is not YAML, has more than one document, or uses YAML that
            a configuration must not use; with the line.
    """
    if isinstance(text, bytes):
        text = _decode(text, file)
    builder = _Builder(file)
    try:
        check_characters(text)
        for token in read_tokens(text):
            builder.feed(token)
    except NotYamlError as error:
        raise builder.error(str(error), error.line) from None
    return builder.document


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
    line: int
    order: int
    is_table: bool
    parts: list[Node] = attrs.field(factory=list[Node])
    size: int = 1


# CONFIG-6
@final
class _Builder:
    """Builds the tree of one document from parser events.

    Attributes:
        document: The document; an empty text before the first node.
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
        """Create the error that refuses the file."""
        return ConfigError([Problem(message, file=self._file, line=line)])

    def feed(self, token: Token) -> None:
        """Process the next token.

        Raises:
            ConfigError: If a configuration must not contain it.
        """
        self.line = token.line
        self._written += 1
        match token.sign:
            case Sign.SCALAR:
                node = self._scalar(token)
                self._remember(token.anchor, node, 1)
                self._add(node, 1)
            case Sign.ALIAS:
                self._add(*self._aliased(token.text))
            case Sign.MAP | Sign.LIST:
                self._start(token)
            case Sign.END:
                self._end()
            case Sign.DOCUMENT:
                self._start_document()

    def _start_document(self) -> None:
        """Refuse a second document."""
        self._documents += 1
        if self._documents > 1:
            raise self.error("a second document starts here: a configuration is one", self.line)

    # CONFIG-7
    def _scalar(self, token: Token) -> Scalar:
        """Create the node of a scalar."""
        self._check_tag(token.tag)
        if unprintable(token.text):
            raise self.error("half a surrogate pair cannot stand in a configuration", self.line)
        return Scalar(token.text, self.line, self._written, quoted=bool(token.style))

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
        self._open.append(_Open(token.anchor, self.line, self._written, is_table))

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
        """Add a node to the innermost open collection, or make it the document."""
        if not self._open:
            self.document = node
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
                    raise self.error(message, key.line)
                own.extend(pair for pair in table.entries if _name(pair[0]) not in names)
                names.update(name for part, _ in table.entries if (name := _name(part)) is not None)
        return own


def _is_merge(key: Node) -> bool:
    """Return whether a key is ``<<``, without quotes."""
    return isinstance(key, Scalar) and key.text == _MERGE and not key.quoted


def _name(key: Node) -> str | None:
    """Return the text of a scalar key, or None."""
    return key.text if isinstance(key, Scalar) else None
