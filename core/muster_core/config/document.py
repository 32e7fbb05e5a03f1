"""A configuration as it was written: a tree of texts with their lines.

CONFIG-7 requires the original text of every name, property value and quantity, and the line of
every problem. So the reader of YAML in ``muster.config_files`` builds this tree and does not
resolve scalars; the loader decides what it expects at each place. Mappings keep the order of
their keys, and keep duplicate keys, which the loader refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, cast, final

import attrs

from muster_core.values.errors import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH: Final = 200
"""How deep a document may be nested; a deeper one is a mistake or an attack on the stack."""

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@final
@attrs.frozen
class Scalar:
    """A text.

    Attributes:
        text: The text, without quotes and escapes.
        line: Its line, from 1, or None if there are no lines.
        order: Its place in the order of the document.
        quoted: Whether it was written in quotes (or as a block), and so is never null.
        literal: Whether it is a block whose lines follow ``line`` as they are.
    """

    text: str
    line: int | None = None
    order: int = 0
    quoted: bool = False
    literal: bool = False

    @property
    def is_null(self) -> bool:
        """Whether this is null, where no text is expected."""
        return not self.quoted and self.text in _NULLS


@final
@attrs.frozen
class Table:
    """A mapping, with its entries in the order of the document; a key may occur twice."""

    entries: tuple[tuple[Node, Node], ...] = ()
    line: int | None = None
    order: int = 0


@final
@attrs.frozen
class Listing:
    """A sequence."""

    items: tuple[Node, ...] = ()
    line: int | None = None
    order: int = 0


Node = Scalar | Table | Listing
"""A document, or any part of it."""


def describe(node: Node) -> str:
    """Describe a node for a message."""
    if isinstance(node, Scalar):
        return repr(node.text) if len(node.text) <= 80 else f"{node.text[:60]!r}…"
    return "a map" if isinstance(node, Table) else "a list"


def unprintable(text: str) -> bool:
    """Return whether a text has half a surrogate pair, which no output can encode."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def from_python(value: object, *, line: int | None = None) -> Node:
    """Convert a value from a JSON or msgpack feed to a document.

    Numbers count as their shortest text, booleans as ``true`` and ``false``, None as
    an empty text. Parts that are nodes already are kept.

    Args:
        value: Maps, sequences, texts, numbers, booleans and None.
        line: The line of the whole value, or None.

    Raises:
        ConfigError: If a part has another type, or is nested deeper than 200 levels.
    """
    return _convert(value, line, count(), "", MAX_DEPTH)


def _convert(value: object, line: int | None, order: Iterator[int], path: str, depth: int) -> Node:
    """Convert the value at ``path``, which may have ``depth`` more levels."""
    place = next(order)
    if isinstance(value, Scalar | Table | Listing):
        return value
    if depth == 0:
        raise ConfigError([Problem(f"nested deeper than {MAX_DEPTH} levels", line=line)])
    if isinstance(value, Mapping):
        entries: list[tuple[Node, Node]] = []
        for key, part in cast("Mapping[object, object]", value).items():
            name = _convert(key, line, order, path, depth - 1)
            below = f"{path}.{key}" if path else f"{key}"
            entries.append((name, _convert(part, line, order, below, depth - 1)))
        return Table(tuple(entries), line, place)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        items = [
            _convert(part, line, order, f"{path}[{index}]", depth - 1)
            for index, part in enumerate(cast("Sequence[object]", value))
        ]
        return Listing(tuple(items), line, place)
    text = _text_of(value)
    if text is None or unprintable(text):
        what = "half a surrogate pair" if text else f"a {type(value).__name__}"
        raise ConfigError([Problem(f"{what} cannot stand in a configuration", path, line=line)])
    return Scalar(text, line, place)


def _text_of(value: object) -> str | None:
    """Return the text of a scalar value; None for other types and for huge integers."""
    match value:
        case str():
            return value
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= 10**1000:  # longer than Python prints
            return None
        case int() | float():
            return repr(value)
        case _:
            return None
