"""The content of a YAML or JSON text: texts, maps and lists that know their lines.

The encodings say different things about a scalar. JSON and msgpack say whether it is a number. YAML
does not, for a scalar without quotes: ``12:30``, ``off`` and ``010`` are names in one field and
something else in another. CONFIG-7 requires the original text of every name, property value and
quantity. So a scalar of YAML stays the text as written, :class:`Plain` if it has no quotes, and the
reader of its field decides what it means.

Values of YAML know their line. Values of JSON and msgpack, and of programs, are plain Python values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, TypeAlias, cast, final

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"
"""A value, with all that is in it."""

MAX_DEPTH: Final = 200
"""How deep lists and maps may be nested: recursive functions walk them."""

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""The plain texts that mean null in YAML."""

_LONGEST_SHOWN: Final = 80


class LocatedText(str):
    """A text that knows its line, from 1.

    Attributes:
        line: The line; None if it is not known.
        quoted: Whether it was written in quotes or as a block.
        literal: Whether it is a block whose lines follow the line of its ``|`` as they are.
    """

    __slots__ = ("line",)

    line: int | None
    quoted: ClassVar[bool] = True
    literal: ClassVar[bool] = False

    def __new__(cls, text: str, line: int = 1) -> LocatedText:
        """Make a text that is at ``line``."""
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
class LocatedMap(dict[str, Tree]):
    """A map that knows its line, from 1.

    Attributes:
        line: The line.
        others: The entries whose keys are no texts, or are in the map already.
    """

    __slots__ = ("line", "others")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line: int | None = line
        self.others: Sequence[tuple[Tree, Tree]] = ()


@final
class LocatedList(list[Tree]):
    """A list that knows its line, from 1."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line: int | None = line


def line_of(value: object, default: int | None = None) -> int | None:
    """Return the line of a value, or a default if it knows none."""
    line: int | None = getattr(value, "line", None)
    return default if line is None else line


def is_null(value: object) -> bool:
    """Return whether a value is null, or a plain text that means null in YAML."""
    return value is None or (isinstance(value, Plain) and value in _NULLS)


def is_unicode(text: str) -> bool:
    """Return whether a text is free of lone surrogates, which UTF-8 cannot encode."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# CONFIG-7
def text_of(value: object) -> str | None:
    """Return the text of a scalar; None for anything else, and for what cannot be printed.

    Numbers count as their shortest text, booleans as ``true`` and ``false``, None as an empty text.
    """
    match value:
        case str():
            return str(value) if is_unicode(value) else None
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= 10**4300:  # longer than Python prints
            return None
        case int() | float():
            return repr(value)
        case _:
            return None


def entries_of(value: object) -> Sequence[tuple[object, object]] | None:
    """Return the entries of a map, also those with keys that it has already; None if it is none."""
    if not isinstance(value, Mapping):
        return None
    entries = cast("Mapping[object, object]", value).items()
    return [*entries, *value.others] if isinstance(value, LocatedMap) else [*entries]


def items_of(value: object) -> Sequence[object] | None:
    """Return the items of a list, or None if it is none."""
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else None


def describe(value: object) -> str:
    """Describe a value for a message."""
    if isinstance(value, Mapping):
        return "a map"
    if items_of(value) is not None:
        return "a list"
    text = text_of(value)
    if text is None:
        return ascii(value)[:_LONGEST_SHOWN] if isinstance(value, str) else type(value).__name__
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"{text[:60]!r}…"
