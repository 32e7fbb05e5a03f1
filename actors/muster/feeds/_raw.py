"""Raw events: the events of a feed as written, before they are interpreted.

The encodings say different things about a scalar. JSON and msgpack say whether it is
a number. YAML does not, for a scalar without quotes: ``12:30``, ``off`` and ``010`` are
names in one field and something else in another. So a plain YAML scalar stays the text as
written, marked as :class:`Plain`, and the field decides.

Values from YAML know their line, for messages about a configuration that is written in a
feed. Values from JSON and msgpack are plain Python values.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final, TypeAlias, final

import attrs

Raw: TypeAlias = "bool | int | float | str | list[Raw] | dict[str, Raw] | None"
"""A value in a feed: a JSON value, or one of the marked types below."""

MAX_DEPTH: Final = 200
"""How deep the lists and maps of one event may be nested: recursive functions walk them."""

MAX_NODES: Final = 1_000_000
"""How many values one event may have; a value counts each time that a YAML alias repeats it."""

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""The plain texts that mean null in YAML."""


@final
class Encoding(StrEnum):
    """The encoding of a feed."""

    YAML = "yaml"
    JSON = "json"
    JSON_LINES = "jsonl"
    MSGPACK = "msgpack"


class LocatedText(str):
    """A text that knows its line, from 1."""

    __slots__ = ("line",)

    line: int
    quoted: ClassVar[bool] = True
    literal: ClassVar[bool] = False

    def __new__(cls, text: str, line: int = 1) -> LocatedText:
        """Make a text that knows that it stands at ``line``."""
        self = super().__new__(cls, text)
        self.line = line
        return self


@final
class Plain(LocatedText):
    """A YAML scalar without quotes: the field decides what it means."""

    __slots__ = ()

    quoted = False


@final
class Literal(LocatedText):
    """A YAML block whose lines follow the line of its ``|`` as they are."""

    __slots__ = ()

    literal = True


@final
class LocatedMap(dict[str, Raw]):
    """A map that knows its line, from 1."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


@final
class LocatedList(list[Raw]):
    """A list that knows its line, from 1."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


@final
@attrs.frozen
class RawEvent:
    """One event as written in a feed.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line in the feed, from 1; None in msgpack, which has no lines.
        value: Its value; if it has a problem, the part that could be read.
        problem: Why it cannot be an event, whatever its content; None if it can.
    """

    index: int
    line: int | None
    value: Raw
    problem: str | None = None


def is_null(value: Raw) -> bool:
    """Return whether a value is null, or a plain text that means null in YAML."""
    return value is None or (isinstance(value, Plain) and value in NULLS)


def is_unicode(text: str) -> bool:
    """Return whether a text is free of lone surrogates, which UTF-8 cannot encode."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def problem_of_value(value: object) -> str | None:
    """Return why a value from outside is no :data:`Raw`, or None if it is one.

    The problems are nesting beyond :data:`MAX_DEPTH`, text that is not Unicode, and types that
    a feed does not have (bytes, dates). The search is iterative because the depth is unknown.
    """
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[object] = []
        for item in level:
            problem = _scalar_trouble(item, below)
            if problem is not None:
                return problem
        if not below:
            return None
        level = below
    return f"is nested deeper than {MAX_DEPTH} levels"


def _scalar_trouble(item: object, below: list[object]) -> str | None:
    match item:
        case None | bool() | int() | float():
            return None
        case str():
            return None if is_unicode(item) else f"{ascii(item)[:100]} is not Unicode text"
        case list():
            below.extend(item)  # pyright: ignore[reportUnknownArgumentType] - looked at next
            return None
        case dict():
            below.extend(item)  # pyright: ignore[reportUnknownArgumentType] - looked at next
            below.extend(item.values())  # pyright: ignore[reportUnknownArgumentType] - as above
            return None
        case _:
            return f"{ascii(item)[:100]} is {type(item).__name__}, which no field of a feed is"
