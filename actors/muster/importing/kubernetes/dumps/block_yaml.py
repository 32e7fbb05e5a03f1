"""The YAML that kubectl prints, read without a YAML parser where it is as plain as it mostly is.

A pod of a List has some 160 lines, and a parser takes longer for them than everything else that an
import does. kubectl prints maps and lists as blocks, one value a line. A text of such lines, and
of no others, is read here; for any other text the caller asks the parser, which reads the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, final

from muster.feeds._encodings.raw import Block, Located, Plain, Raw, Series

_LINE: Final = re.compile(
    r"( *)((?:- )*)(?:([A-Za-z0-9_][A-Za-z0-9_./-]*):(?: ([\x20-\x7e]+))?|([\x20-\x7e]+))", re.ASCII
)
_PLAIN: Final = re.compile(r"(?:[A-Za-z0-9_/.]|-(?=[^ ]))(?:[^:#]|:(?=[^ ])|(?<=[^ ])#)*(?<! )")
_QUOTED: Final = re.compile(r'"([^"\\]*)"')
_SINGLE: Final = re.compile(r"'((?:[^']|'')*)'")
_NULL: Final = Plain("")
_INDENT: Final = "  "
_DASH: Final = "- "
_EMPTY: Final = frozenset({"{}", "[]"})

_Open = tuple[int, dict[str, Raw] | list[Raw]]
"""The column of a map or list that is not complete, and the map or list."""


def parse_item(lines: list[str], line: int) -> dict[str, Raw] | None:
    """Return the map that an item of a list is, or None if a parser has to read it.

    Args:
        lines: The lines of the item, without their ends; the first begins with ``- ``.
        line: The number of the first line.
    """
    reader = _Reader(line)
    lines[0] = _INDENT + lines[0].removeprefix("- ")
    for text in lines:
        match = _LINE.fullmatch(text)
        if match is None or not reader.read(*match.groups()):
            return None
    return reader.whole


@final
class _Reader:
    """Builds the map of an item line by line.

    Attributes:
        whole: The map.
    """

    def __init__(self, line: int) -> None:
        self.whole: Final = Block(line)
        self._line = line
        self._stack: list[_Open] = [(len(_INDENT), self.whole)]
        #: The key of the innermost map whose value begins on the next line, if it has one.
        self._key: str | None = None

    def read(
        self, blanks: str, dashes: str, key: str | None, value: str | None, item: str | None
    ) -> bool:
        """Read a line; return whether it is one that can be read here.

        Args:
            blanks: The blanks at its start.
            dashes: The ``- `` behind them.
            key: The key behind these, or None.
            value: The value behind the key, or None.
            item: What stands there if no key does.
        """
        column = len(blanks)
        at, node = self._stack[-1]
        if at != column or dashes or isinstance(node, list):  # else it is the usual case
            placed = self._place(column, is_list=bool(dashes))
            if placed is None:
                return False
            node = placed
        self._key = None
        inner: dict[str, Raw] | list[Raw] | None = node
        if isinstance(node, list):
            if key is None:
                return self._append(node, dashes, item or "")
            inner = self._begin(node, column, dashes)
        if not isinstance(inner, dict) or key is None or key in inner:
            return False
        if value is None:
            inner[key] = _NULL
            self._key = key
            return True
        found = self._empty(value) if value in _EMPTY else _scalar(value)
        if found is not None:
            inner[key] = found
        return found is not None

    def _place(self, column: int, *, is_list: bool) -> dict[str, Raw] | list[Raw] | None:
        """Return the map or list of which something begins in a column, or None."""
        stack = self._stack
        while stack and stack[-1][0] > column:
            stack.pop()
            self._key = None
        if stack and stack[-1][0] == column and not is_list and isinstance(stack[-1][1], list):
            stack.pop()  # a list may begin in the column of the key whose value it is
            self._key = None
        if not stack:
            return None
        at, node = stack[-1]
        if self._key is not None and isinstance(node, dict) and (at < column or is_list):
            made: dict[str, Raw] | list[Raw] = Series(self._line) if is_list else Block(self._line)
            node[self._key] = made
            stack.append((column, made))
            return made
        return node if at == column and isinstance(node, list) is is_list else None

    def _append(self, node: list[Raw], dashes: str, item: str) -> bool:
        """Append a text to a list."""
        found = _scalar(item)
        if found is None or dashes != _DASH:
            return False
        node.append(found)
        return True

    def _begin(self, node: list[Raw], column: int, dashes: str) -> dict[str, Raw] | None:
        """Begin a map in a list; None if it is a list in a list."""
        if dashes != _DASH:
            return None
        made = Block(self._line)
        node.append(made)
        self._stack.append((column + len(dashes), made))
        return made

    def _empty(self, text: str) -> Raw:
        """Return an empty map or list."""
        return Block(self._line) if text == "{}" else Series(self._line)


@lru_cache(1 << 14)
def _scalar(text: str) -> str | None:
    """Return a text, or None if a parser has to read it."""
    if _PLAIN.fullmatch(text):
        return Plain(text)
    if match := _QUOTED.fullmatch(text):
        return Located(match[1])
    if match := _SINGLE.fullmatch(text):
        return Located(match[1].replace("''", "'"))
    return None
