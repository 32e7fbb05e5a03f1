"""Raw events: what stands in a feed, before anybody asks what it means.

The three encodings know different things about a scalar. JSON and msgpack say whether
it is a number; YAML, for what stands without quotes, does not: ``12:30``, ``off`` and
``010`` are names in one field and something else in another. So plain text of YAML
stays the text that stands there, marked as :class:`Plain`, and the field decides.

What comes from YAML knows its line (for the messages about a configuration that is
written in a feed); what comes from JSON or msgpack is made of the plain types.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias, final

import attrs

Raw: TypeAlias = "bool | int | float | str | list[Raw] | dict[str, Raw] | None"
"""A value in a feed: what JSON knows, and the marked kinds below."""

MAX_DEPTH: Final = 200
"""How deep the lists and maps of one event may be nested; what walks them is recursive."""

MAX_NODES: Final = 1_000_000
"""How many values one event may have, each as often as YAML's aliases repeat it."""

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""The plain texts of YAML that say that there is nothing."""


@final
class Encoding(StrEnum):
    """How a feed is written."""

    YAML = "yaml"
    JSON_LINES = "jsonl"
    MSGPACK = "msgpack"


class Located(str):
    """A text that knows its line, from 1."""

    __slots__ = ("line",)

    line: int

    def __new__(cls, text: str, line: int = 1) -> Located:
        """Mark ``text`` as what stands at ``line``."""
        self = super().__new__(cls, text)
        self.line = line
        return self


@final
class Plain(Located):
    """What stands in YAML without quotes: the field decides what it means."""

    __slots__ = ()


@final
class Block(dict[str, Raw]):
    """A map that knows its line, from 1."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


@final
class Series(list[Raw]):
    """A list that knows its line, from 1."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


@final
@attrs.frozen
class RawEvent:
    """One event as it stands in a feed.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line in the feed, from 1; None in msgpack, which has no lines.
        value: What stands there; if it has a problem, what could be understood of it.
        problem: Why it can be no event, whatever it says, or None.
    """

    index: int
    line: int | None
    value: Raw
    problem: str | None = None


def is_null(value: Raw) -> bool:
    """Say whether nothing stands there: null, or one of the texts that say so in YAML."""
    return value is None or (isinstance(value, Plain) and value in NULLS)


def is_unicode(text: str) -> bool:
    """Say whether a text has no half of a surrogate pair, which no UTF-8 can carry."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def trouble(value: object) -> str | None:
    """Say why a value from outside is no :data:`Raw`, or None if it is.

    Looks for nesting beyond :data:`MAX_DEPTH`, for text that is not Unicode, and for
    types that a feed does not have (bytes, dates). Iterative, as depth is what it is about.
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
