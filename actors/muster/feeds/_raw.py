"""Raw events: the events of a feed as written, before they are interpreted.

They are :mod:`trees <muster_core.config.tree>`: values of YAML know their lines, for messages about a
configuration that is written in a feed, and a scalar of YAML without quotes is the text as written.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias, final

import attrs

from muster_core.config.tree import MAX_DEPTH, Tree, is_unicode

Raw: TypeAlias = Tree
"""A value in a feed."""

TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels"
"""The problem of a value that is nested too deep for functions that walk it."""


@final
class Encoding(StrEnum):
    """The encoding of a feed."""

    YAML = "yaml"
    JSON = "json"
    JSON_LINES = "jsonl"
    MSGPACK = "msgpack"


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
    return TOO_DEEP


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
