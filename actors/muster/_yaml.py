"""The YAML reader: from a text to tokens, and from these to trees; for configurations and feeds.

The parser is libyaml's, by way of PyYAML. The library that YuniKorn reads its configurations
with began as a translation of libyaml. No scalar is resolved here: all of them are texts.

An alias stands for its node, and ``<<`` merges maps as in YAML 1.1, which real ``queues.yaml`` files
use. An anchor exists once its node is complete, so no node can contain itself. The nodes that aliases
repeat are counted, so a short text cannot expand to a tree of any size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, cast, final

import attrs
import yaml

from muster_core.config.tree import (
    MAX_DEPTH,
    Literal,
    LocatedList,
    LocatedMap,
    LocatedText,
    Plain,
    Tree,
    describe,
    is_unicode,
    line_of,
)

_FORBIDDEN: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
"""The characters that YAML does not allow."""

_NOT_YAML: Final = "not YAML: "

_LOADER: Final[Any] = getattr(yaml, "CLoader", yaml.Loader)
"""The parser in C; PyYAML has only the one in Python where it was built without libyaml."""


@final
class YamlError(ValueError):
    """A text is not YAML, or must not be read.

    Attributes:
        line: The line, from 1, or None if it is not known.
    """

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(problem)
        self.line = line


class Stream(Protocol):
    """A stream of text."""

    def read(self, size: int, /) -> str:
        """Return some text, at least one character unless the end is reached."""
        ...


@final
class Sign(Enum):
    """The kind of a token."""

    DOCUMENT = "a document starts"
    LIST = "a list starts"
    MAP = "a map starts"
    END = "the list or map ends"
    ALIAS = "what an anchor names stands here, too"
    SCALAR = "a text"


@final
class Token(NamedTuple):
    """One step of the parser; a tuple, because reading makes one for each value of a feed.

    Attributes:
        sign: Its kind.
        line: Its line, from 1.
        text: The text of a scalar, or the name of an alias.
        tag: Its tag in full, or None.
        anchor: The name of its anchor, or None.
        style: How a scalar is written: empty without quotes, else a quote, ``|`` or ``>``.
    """

    sign: Sign
    line: int
    text: str = ""
    tag: str | None = None
    anchor: str | None = None
    style: str = ""


_LITERAL: Final = "|"
"""The style of a block whose lines stand in the file as they are in the text."""


def check_characters(text: str, line: int = 1) -> None:
    """Refuse characters that YAML does not allow.

    Args:
        text: The text.
        line: The line on which it starts.

    Raises:
        YamlError: If it has such a character; with its line.
    """
    bad = _FORBIDDEN.search(text)
    if bad is not None:
        problem = f"the character U+{ord(bad[0]):04X} must not stand there"
        raise YamlError(_NOT_YAML + problem, line + text.count("\n", 0, bad.start()))


def read_tokens(source: str | Stream, above: int = 0) -> Iterator[Token]:
    """Parse a text step by step; :func:`check_characters` has to come first.

    Args:
        source: The text.
        above: How many lines of its file stand above it.

    Raises:
        YamlError: If it is not YAML.
    """
    line = 1 + above
    try:
        for token in _tokens(source, line):
            line = token.line
            yield token
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        parts = [part.strip() for part in (error.context, error.problem) if part]
        if parts[-1].endswith("cannot start any token"):  # It does not say which one.
            parts.append("(a tab, %, @ or `)")
        place = None if mark is None else mark.line + 1 + above
        raise YamlError(_NOT_YAML + " ".join(parts), place) from error
    except yaml.YAMLError as error:  # The place is at the last token or soon after.
        raise YamlError(_NOT_YAML + " ".join(str(error).split()), line) from error
    except ValueError as error:
        if type(error) is not ValueError:  # The source has raised it.
            raise
        # The parser in Python does not catch the error of an escape that is out of range.
        raise YamlError(_NOT_YAML + str(error), line) from error


_SIGNS: Final[dict[type[object], Sign]] = {
    yaml.DocumentStartEvent: Sign.DOCUMENT,
    yaml.SequenceStartEvent: Sign.LIST,
    yaml.MappingStartEvent: Sign.MAP,
    yaml.SequenceEndEvent: Sign.END,
    yaml.MappingEndEvent: Sign.END,
    yaml.AliasEvent: Sign.ALIAS,
}
_WITHOUT_TEXT: Final = (Sign.DOCUMENT, Sign.END)


def _tokens(source: str | Stream, first: int) -> Iterator[Token]:
    """Ask the parser for one event after the other, as ``yaml.parse`` does."""
    parser = _LOADER(source)
    more, following = parser.check_event, parser.get_event
    try:
        while more():
            event = following()
            kind = cast("type[object]", type(event))
            line: int = event.start_mark.line + first
            if kind is yaml.ScalarEvent:
                style: str = event.style or ""
                yield Token(Sign.SCALAR, line, event.value, event.tag, event.anchor, style)
                continue
            sign = _SIGNS.get(kind)
            if sign is None:
                continue
            if sign in _WITHOUT_TEXT:
                yield Token(sign, line)
            elif sign is Sign.ALIAS:
                yield Token(sign, line, event.anchor)
            else:
                yield Token(sign, line, "", event.tag, event.anchor)
    finally:
        parser.dispose()


_STANDARD: Final = "tag:yaml.org,2002:"
_PLAIN_TAGS: Final = frozenset(_STANDARD + name for name in ("int", "float", "bool", "null"))
_TEXT_TAGS: Final = frozenset({"!", _STANDARD + "str", *_PLAIN_TAGS})
_CONTAINER_TAGS: Final = frozenset({"!", _STANDARD + "map", _STANDARD + "seq"})

_TOO_DEEP: Final = 2 * MAX_DEPTH
"""The nesting at which reading ends in any case, because the parser becomes too slow."""


@final
@attrs.frozen(kw_only=True)
class YamlRules:
    """What differs between the readers of YAML.

    A configuration is in force as a whole or not at all: its first problem ends the reading. A
    problem with an event of a feed refuses only that event. A configuration keeps entries with keys
    that no map may have, and they are refused with all else that is wrong in its fields. And its
    fields alone say what a text means: the tags that YAML defines have no effect.

    Attributes:
        is_whole: Whether it is a configuration that is read, not a feed.
        most_values: How many values one tree may have, also those that aliases repeat; of a
            configuration, how many more than are written.
        unknown_tag: The message about a tag; the tag replaces ``{}``.
        no_unicode: The message about a text with half a surrogate pair.
        too_deep: The message about what is nested too deep.
        too_many: The message about too many values.
        unknown_alias: The message about an alias that names no node.
        no_merge: The message about a ``<<`` of something that is no map.
    """

    is_whole: bool
    most_values: int
    unknown_tag: str
    no_unicode: str
    too_deep: str
    too_many: str
    unknown_alias: str
    no_merge: str


@final
@attrs.frozen
class _Measure:
    """The size of a node; a node counts each time that an alias repeats it.

    Attributes:
        values: How many values it has, itself included.
        height: How deep it is nested; 0 for a text.
    """

    values: int = 1
    height: int = 0


_TEXT_MEASURE: Final = _Measure()


@final
@attrs.define
class _Frame:
    """A list or map that is not complete.

    Attributes:
        node: The value that is being filled.
        anchor: The name of its anchor, or None.
        values: How many values it has so far, itself included.
        height: How deep it is nested so far.
        key: The key whose value comes next, or None if a key comes next.
        is_other: Whether this key is no text, or is in the map already.
        others: The entries with such keys.
        merged: The maps that ``<<`` merges; the first takes precedence.
    """

    node: LocatedMap | LocatedList
    anchor: str | None
    values: int = 1
    height: int = 1
    key: Tree = None
    is_other: bool = False
    others: list[tuple[Tree, Tree]] = attrs.field(factory=list[tuple[Tree, Tree]])
    merged: list[LocatedMap] = attrs.field(factory=list[LocatedMap])


@final
class TreeBuilder:
    """Builds the trees of a text one after the other.

    Args:
        tokens: The tokens.
        rules: How they are read.
    """

    def __init__(self, tokens: Iterator[Token], rules: YamlRules) -> None:
        self._tokens = tokens
        self._rules = rules
        self._anchors: dict[str, tuple[Tree, _Measure]] = {}
        self._stack: list[_Frame] = []
        self._problem: str | None = None
        self._written = 0

    def forget_anchors(self) -> None:
        """Start a document: its aliases cannot name anchors of an earlier one."""
        self._anchors.clear()

    def build(self, first: Token) -> tuple[Tree, str | None]:
        """Return the whole tree that starts with ``first``, and what is wrong with it.

        Raises:
            YamlError: If it is not YAML, or must not be read.
        """
        self._problem = None
        value = self._step(first)
        stack, step, tokens = self._stack, self._step, self._tokens
        while stack:
            value = step(next(tokens))
        return value, self._problem

    def _step(self, token: Token) -> Tree:
        """Process one token; return the node that it completes, or None."""
        sign = token.sign
        if sign is Sign.SCALAR:
            return self._scalar(token)
        if sign is Sign.END:
            return self._close(token)
        if sign is Sign.ALIAS:
            return self._alias(token)
        self._open(token)  # no document starts inside a node
        return None

    def _open(self, token: Token) -> None:
        self._check_tag(token, _CONTAINER_TAGS)
        if token.anchor is not None:
            # An alias inside the node must not find an earlier anchor of this name.
            self._anchors.pop(token.anchor, None)
        node = LocatedMap(token.line) if token.sign is Sign.MAP else LocatedList(token.line)
        self._stack.append(_Frame(node, token.anchor))
        if len(self._stack) > MAX_DEPTH:
            self._complain(token.line, self._rules.too_deep)
        if len(self._stack) > _TOO_DEEP:
            msg = f"nested deeper than {_TOO_DEEP} levels"
            raise YamlError(msg, token.line)

    def _close(self, token: Token) -> Tree:
        frame = self._stack.pop()
        if isinstance(frame.node, LocatedMap) and (frame.others or frame.merged):
            self._complete(frame.node, frame)
        self._put(token, frame.node, _Measure(frame.values, frame.height), frame.anchor)
        return frame.node

    def _complete(self, node: LocatedMap, frame: _Frame) -> None:
        """Give a map what ``<<`` merges, and the entries whose keys no map may have."""
        if not self._rules.is_whole:  # none of the values of a repeated key counts
            for key, _ in frame.others:
                if isinstance(key, str):
                    node.pop(key, None)
            frame.others.clear()
        for part in frame.merged:
            frame.others += [pair for pair in part.others if not _has(node, pair[0])]
            node.update([pair for pair in part.items() if pair[0] not in node])
        node.others = frame.others

    def _scalar(self, token: Token) -> Tree:
        _, line, text, tag, anchor, style = token
        is_plain = not style
        if tag is not None:
            self._check_tag(token, _TEXT_TAGS)
            if not self._rules.is_whole:
                is_plain = tag in _PLAIN_TAGS
        if not is_unicode(text):
            self._complain(line, self._rules.no_unicode, ascii(text))
        if is_plain:
            value: LocatedText = Plain(text, line)
        else:
            value = (Literal if style == _LITERAL else LocatedText)(text, line)
        self._put(token, value, _TEXT_MEASURE, anchor)
        return value

    def _check_tag(self, token: Token, known: frozenset[str]) -> None:
        tag = token.tag
        if tag is None or tag in known or (self._rules.is_whole and tag.startswith(_STANDARD)):
            return
        self._complain(token.line, self._rules.unknown_tag, tag)

    def _alias(self, token: Token) -> Tree:
        if token.text not in self._anchors:
            self._complain(token.line, self._rules.unknown_alias, token.text)
        value, measure = self._anchors.get(token.text, (None, _TEXT_MEASURE))
        self._put(token, value, measure, None)
        return value

    def _put(self, token: Token, value: Tree, measure: _Measure, anchor: str | None) -> None:
        """Add a complete node to the list or map around it, and store its anchor."""
        self._written += 1
        if anchor is not None:
            self._anchors[anchor] = (value, measure)
        if not self._stack:
            return
        frame = self._stack[-1]
        frame.values += measure.values
        if frame.height <= measure.height:
            frame.height = measure.height + 1
        if frame.values > self._rules.most_values and self._is_too_large(frame):
            self._complain(token.line, self._rules.too_many)
        elif len(self._stack) + measure.height > MAX_DEPTH:
            self._complain(token.line, self._rules.too_deep)
        elif isinstance(frame.node, LocatedList):
            frame.node.append(value)
        else:
            self._enter(frame, frame.node, token, value)

    def _is_too_large(self, frame: _Frame) -> bool:
        written = self._written if self._rules.is_whole else 0
        return frame.values > self._rules.most_values + written

    def _enter(self, frame: _Frame, node: LocatedMap, token: Token, value: Tree) -> None:
        """Add a key or a value to a map."""
        key = frame.key
        if key is None:
            self._begin_entry(frame, node, token, value)
            return
        frame.key = None
        if frame.is_other:
            frame.is_other = False
            frame.others.append((key, value))
        elif _merges(key):
            self._merge(frame, line_of(key), value)
        else:
            node[cast("str", key)] = value

    def _begin_entry(self, frame: _Frame, node: LocatedMap, token: Token, key: Tree) -> None:
        frame.key = "" if key is None else key
        if isinstance(key, str) and (key not in node or _merges(key)):
            return
        frame.is_other = True
        if self._rules.is_whole:
            return
        if isinstance(key, str):
            self._complain(token.line, "the key {} stands twice", repr(key))
        else:
            self._complain(token.line, "a key is no text")

    def _merge(self, frame: _Frame, line: int | None, value: Tree) -> None:
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, LocatedMap):
                frame.merged.append(part)
            else:
                self._complain(line, self._rules.no_merge, describe(part))

    def _complain(self, line: int | None, message: str, shown: str = "") -> None:
        """Record a problem of the tree, unless an earlier one is recorded; or end the reading."""
        problem = message.format(shown if len(shown) <= 80 else f"{shown[:60]}…")
        if self._rules.is_whole:
            raise YamlError(problem, line)
        if self._problem is None:
            self._problem = f"line {line}: {problem}"


def _merges(key: Tree) -> bool:
    return isinstance(key, Plain) and key == "<<"


def _has(node: LocatedMap, key: Tree) -> bool:
    return isinstance(key, str) and key in node
