"""The objects of a dump one by one, from YAML and JSON; a List of any length needs little memory.

A pod of a List has some 160 lines, and a YAML parser takes longer for them than everything else that
an import does. kubectl prints maps and lists as blocks, one value a line. A text of such lines, and
of no others, is read here without the parser; it reads any other text, with the same result. Nothing
here knows what the objects mean.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import BinaryIO, Final, cast, final

import attrs

from muster.feeds import FeedError
from muster.feeds._files import Input
from muster.feeds._json import JsonText
from muster.feeds._raw import Raw, RawEvent, problem_of_value
from muster.feeds._yaml import read_objects
from muster_core.config.tree import LocatedList, LocatedMap, LocatedText, Plain

_BLOCK_LINE: Final = re.compile(
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
    reader = _BlockReader(line)
    lines[0] = _INDENT + lines[0].removeprefix("- ")
    for text in lines:
        match = _BLOCK_LINE.fullmatch(text)
        if match is None or not reader.read(*match.groups()):
            return None
    return reader.whole


@final
class _BlockReader:
    """Builds the map of an item line by line.

    Attributes:
        whole: The map.
    """

    def __init__(self, line: int) -> None:
        self.whole: Final = LocatedMap(line)
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
            item: The kind of item there if there is no key.
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
            made: dict[str, Raw] | list[Raw] = (
                LocatedList(self._line) if is_list else LocatedMap(self._line)
            )
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
        made = LocatedMap(self._line)
        node.append(made)
        self._stack.append((column + len(dashes), made))
        return made

    def _empty(self, text: str) -> Raw:
        """Return an empty map or list."""
        return LocatedMap(self._line) if text == "{}" else LocatedList(self._line)


@lru_cache(1 << 14)
def _scalar(text: str) -> str | None:
    """Return a text, or None if a parser has to read it."""
    if _PLAIN.fullmatch(text):
        return Plain(text)
    if match := _QUOTED.fullmatch(text):
        return LocatedText(match[1])
    if match := _SINGLE.fullmatch(text):
        return LocatedText(match[1].replace("''", "'"))
    return None


_KIND: Final = "kind"
_ITEMS: Final = "items"


def read_json(stream: BinaryIO, name: str) -> Iterator[tuple[RawEvent, str]]:
    """Read objects: each value of the stream, each value of a list, or each item of a List.

    With each comes the kind of the List, if that is before the items, or an empty text.

    Raises:
        FeedError: If the stream is not JSON.
    """
    text = JsonText(stream, name)
    index = 0
    while text.next():
        for line, value, kind in _top(text):
            yield (
                RawEvent(
                    index, line, value, problem_of_value(value) if text.may_trouble() else None
                ),
                kind,
            )
            index += 1


def _top(text: JsonText) -> Iterator[tuple[int, Raw, str]]:
    match text.next():
        case "{":
            yield from _map(text)
        case "[":
            for line in text.parts("[", "]"):
                yield line, text.value(), ""
        case _:
            text.next()
            yield text.line, text.value(), ""


def _map(text: JsonText) -> Iterator[tuple[int, Raw, str]]:
    """Yield the items of a List as they come; or else the object itself, at its end."""
    whole: dict[str, Raw] = {}
    first: int | None = None
    has_items = False
    for line in text.parts("{", "}"):
        first = line if first is None else first
        key = text.value()
        if not isinstance(key, str):
            raise text.no_json("a key of a map has to be a text")
        text.take(":")
        if key == _ITEMS and text.next() == "[":
            has_items = True
            for place in text.parts("[", "]"):
                yield place, text.value(), str(whole.get(_KIND, ""))
        else:
            whole[key] = text.value()
    if not has_items:
        yield first or text.line, whole, ""


LONGEST_ITEM: Final = 16 << 20
"""The longest text of one object, in bytes; a longer text is no dump."""

_HEAD: Final = re.compile(rb"(?:---\n)?apiVersion: v1\n(?:kind: List\n)?items:\n- ")
_HEAD_BYTES: Final = 64
_REST: Final = re.compile(
    rb"(?:apiVersion|kind|metadata):.*\n?|  (?:resourceVersion|selfLink):.*\n?"
)
_ITEMS_LINE: Final = b"items:\n"
_DOCUMENT: Final = b"---\n"


def read_yaml(source: Input) -> Iterator[tuple[RawEvent, str]]:
    """Read objects: each document, each value of a list, or each item of a List.

    With each comes the kind of the List, if that is before the items, or an empty text.

    Raises:
        FeedError: If the stream is not YAML.
    """
    stream = cast("io.BufferedReader", source.stream)  # which is what an Input has
    if _HEAD.match(stream.peek(_HEAD_BYTES)):
        return _Items(stream, source.name).read()
    return read_objects(stream, source.name)


@final
class _Items:
    """Reads Lists as kubectl prints them: each item begins with ``- `` at the start of a line."""

    def __init__(self, stream: io.BufferedReader, name: str) -> None:
        self._stream = stream
        self._name = name
        self._line = 0
        self._index = 0

    def read(self) -> Iterator[tuple[RawEvent, str]]:
        """Yield the items, and the objects after the List."""
        item: list[bytes] = []
        size, first = 0, 0
        for text in self._stream:
            self._line += 1
            if item and text.startswith(b" "):
                item.append(text)
                size += len(text)
                if size > LONGEST_ITEM:
                    msg = f"an object is longer than {LONGEST_ITEM >> 20} MiB: this is no dump"
                    raise FeedError(self._name, msg, first)
                continue
            if item:
                yield from self._item(item, first)
                item = []
            if text.startswith(b"- "):
                item, size, first = [text], len(text), self._line
            elif text == _DOCUMENT:
                yield from self._others()
            elif not _REST.fullmatch(text) and text != _ITEMS_LINE and text.strip():
                msg = "not YAML: neither an item of a List nor what ends one stands here"
                raise FeedError(self._name, msg, self._line)
        if item:
            yield from self._item(item, first)

    def _item(self, lines: list[bytes], first: int) -> Iterator[tuple[RawEvent, str]]:
        text = b"".join(lines)
        if text.isascii():
            value = parse_item(text.decode().removesuffix("\n").split("\n"), first)
            if value is not None:
                self._index += 1
                yield RawEvent(self._index - 1, first, value), ""
                return
        yield from self._parsed(io.BytesIO(text), first - 1)

    def _others(self) -> Iterator[tuple[RawEvent, str]]:
        """Yield the objects of the documents behind a List."""
        if _HEAD.match(self._stream.peek(_HEAD_BYTES)):
            return
        yield from self._parsed(self._stream, self._line)

    def _parsed(
        self, stream: io.BytesIO | io.BufferedReader, above: int
    ) -> Iterator[tuple[RawEvent, str]]:
        """Yield objects as the parser reads them, with the number of lines above them."""
        for raw, kind in read_objects(stream, self._name, above):
            self._index += 1
            yield attrs.evolve(raw, index=self._index - 1), kind


_LIST: Final = "List"


@final
@attrs.frozen
class DumpedObject:
    """An object of a dump.

    Attributes:
        kind: Its kind, such as ``Pod``; empty if it has none.
        value: The object as written.
        place: Its place, such as ``pods.yaml:17``.
        problem: Why it cannot be read, or None.
    """

    kind: str
    value: dict[str, Raw]
    place: str
    problem: str | None = None


# KUBERNETES-1
def objects_of(source: Input) -> Iterator[DumpedObject]:
    """Yield the objects of a dump, those of a List one by one.

    Raises:
        FeedError: If it is neither YAML nor JSON.
    """
    is_json = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    objects = read_json(source.stream, source.name) if is_json else read_yaml(source)
    for raw, outer in objects:
        place = f"{source.name}:{raw.line}"
        value = raw.value
        if not isinstance(value, dict):
            if not raw.index:
                msg = (
                    "is no Kubernetes object: a map with `kind` and `metadata` should stand here; "
                    "print it with kubectl get --output=yaml, or =json"
                )
                raise FeedError(source.name, msg, raw.line)
            yield DumpedObject("", {}, place, raw.problem or "is not a map")
            continue
        yield from _objects_in(value, outer, place, raw.problem)


def _objects_in(
    value: dict[str, Raw], outer: str, place: str, problem: str | None, *, is_inner: bool = False
) -> Iterator[DumpedObject]:
    """Yield an object, or the items of a List that is part of a list."""
    kind = value.get("kind")
    items = value.get("items")
    if isinstance(items, list) and not is_inner:
        for item in items:
            if isinstance(item, dict):
                yield from _objects_in(item, _text(kind), place, problem, is_inner=True)
            else:
                yield DumpedObject("", {}, place, "is not a map")
        return
    named = _text(kind) or _text(outer).removesuffix(_LIST)
    yield DumpedObject(named, value, place, problem)


def _text(value: Raw) -> str:
    return str(value) if isinstance(value, str) else ""
