"""The YAML parser: from a text to typed tokens, for the readers of configurations and of feeds.

The parser is libyaml's, by way of PyYAML. The library that YuniKorn reads its configurations
with began as a translation of libyaml. No scalar is resolved here: all of them are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, Protocol, cast, final

import attrs
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
@attrs.frozen
class Token:
    """One step of the parser.

    Attributes:
        sign: Its kind.
        line: Its line, from 1.
        text: The text of a scalar, or the name of an alias.
        tag: Its tag in full, or None.
        anchor: The name of its anchor, or None.
        plain: Whether it is a scalar without quotes.
    """

    sign: Sign
    line: int
    text: str = ""
    tag: str | None = None
    anchor: str | None = None
    plain: bool = False


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
        # The stubs want a name for the size that `read` takes.
        for event in yaml.parse(cast("Any", source), Loader=_LOADER):
            token = _token(event)
            if token is not None:
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
    yaml.ScalarEvent: Sign.SCALAR,
}


def _token(event: Any) -> Token | None:  # noqa: ANN401 - the stubs do not know the attributes
    sign = _SIGNS.get(cast("type[object]", type(event)))
    if sign is None:
        return None
    line: int = event.start_mark.line + 1
    match sign:
        case Sign.DOCUMENT | Sign.END:
            return Token(sign, line)
        case Sign.ALIAS:
            return Token(sign, line, event.anchor)
        case Sign.LIST | Sign.MAP:
            return Token(sign, line, "", event.tag, event.anchor)
        case Sign.SCALAR:
            return Token(sign, line, event.value, event.tag, event.anchor, not event.style)
