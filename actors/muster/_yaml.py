"""The YAML parser: from a text to typed tokens, for the readers of configurations and of feeds.

The parser is libyaml's, by way of PyYAML. The library that YuniKorn reads its configurations
with began as a translation of libyaml. No scalar is resolved here: all of them are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, cast, final

import yaml

_FORBIDDEN: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
"""The characters that YAML does not allow."""

_LOADER: Final[Any] = getattr(yaml, "CLoader", yaml.Loader)
"""The parser in C; PyYAML has only the one in Python where it was built without libyaml."""


@final
class NotYamlError(ValueError):
    """A text is not YAML.

    Attributes:
        problem: The message of the parser, on one line.
        line: The line, from 1, or None if it is not known.
    """

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(f"not YAML: {problem}")
        self.problem = problem
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


LITERAL: Final = "|"
"""The style of a block whose lines stand in the file as they are in the text."""


def check_characters(text: str, line: int = 1) -> None:
    """Refuse characters that YAML does not allow.

    Args:
        text: The text.
        line: The line on which it starts.

    Raises:
        NotYamlError: If it has such a character; with its line.
    """
    bad = _FORBIDDEN.search(text)
    if bad is not None:
        problem = f"the character U+{ord(bad[0]):04X} must not stand there"
        raise NotYamlError(problem, line + text.count("\n", 0, bad.start()))


def read_tokens(source: str | Stream) -> Iterator[Token]:
    """Parse a text step by step; :func:`check_characters` has to come first.

    Raises:
        NotYamlError: If it is not YAML.
    """
    line = 1
    try:
        for token in _tokens(source):
            line = token.line
            yield token
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        parts = [part.strip() for part in (error.context, error.problem) if part]
        if parts[-1].endswith("cannot start any token"):  # It does not say which one.
            parts.append("(a tab, %, @ or `)")
        raise NotYamlError(" ".join(parts), None if mark is None else mark.line + 1) from error
    except yaml.YAMLError as error:  # The place is at the last token or soon after.
        raise NotYamlError(" ".join(str(error).split()), line) from error
    except ValueError as error:
        if type(error) is not ValueError:  # The source has raised it.
            raise
        # The parser in Python does not catch the error of an escape that is out of range.
        raise NotYamlError(str(error), line) from error


_SIGNS: Final[dict[type[object], Sign]] = {
    yaml.DocumentStartEvent: Sign.DOCUMENT,
    yaml.SequenceStartEvent: Sign.LIST,
    yaml.MappingStartEvent: Sign.MAP,
    yaml.SequenceEndEvent: Sign.END,
    yaml.MappingEndEvent: Sign.END,
    yaml.AliasEvent: Sign.ALIAS,
}
_WITHOUT_TEXT: Final = (Sign.DOCUMENT, Sign.END)


def _tokens(source: str | Stream) -> Iterator[Token]:
    """Ask the parser for one event after the other, as ``yaml.parse`` does."""
    parser = _LOADER(source)
    more, following = parser.check_event, parser.get_event
    try:
        while more():
            event = following()
            kind = cast("type[object]", type(event))
            line: int = event.start_mark.line + 1
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
