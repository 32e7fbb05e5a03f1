"""Kinds of texts: names, asks, words."""

from __future__ import annotations

from typing import Final

from muster.feeds._encodings.raw import Raw, is_null
from muster.feeds._fields.kinds import Kind, as_written, refused, told
from muster_core.values.event_fields import is_owned_name
from muster_core.values.nearest import did_you_mean


def _text_normal(value: Raw) -> Raw:
    if isinstance(value, bool | float):
        # Not a text, but YAML would write it like one. Inside a list it is still refused.
        return [as_written(value)]
    return str(value) if isinstance(value, int) else as_written(value)


def _word_normal(value: Raw) -> Raw:
    return told(value) if isinstance(value, bool) else _text_normal(value)


def _parse_text(value: Raw) -> str:
    if isinstance(value, str) and not is_null(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise refused(value, "is not a text" + _quotes(value))


def _quotes(value: Raw) -> str:
    return ": put it in quotes" if isinstance(value, bool | float) else ""


# FEED-5
def _parse_name(value: Raw) -> str:
    name = _parse_text(value)
    if not name:
        raise refused(value, "is empty: a name has at least one character")
    return name


def _parse_owned_name(value: Raw) -> str:
    name = _parse_name(value)
    if not is_owned_name(name):
        raise refused(value, "has a '/', which the name of an application or ask must not have")
    return name


# EXPECT-1
def _parse_ask(value: Raw) -> str:
    name = _parse_text(value)
    app, slash, ask = name.partition("/")
    if not (app and slash and ask and is_owned_name(ask)):
        raise refused(value, "is not an ask: write 'application/ask'")
    return name


def _parse_word(value: Raw) -> str:
    """Accept a text, or a boolean as the text that YAML writes for it."""
    return told(value) if isinstance(value, bool) else _parse_text(value)


TEXT: Final = Kind("text", _parse_text, _text_normal)
NAME: Final = Kind("name", _parse_name, _text_normal)
OWNED_NAME: Final = Kind("name without `/`", _parse_owned_name, _text_normal)
ASK: Final = Kind("`app/ask`", _parse_ask, _text_normal)
WORD: Final = Kind("text", _parse_word, _word_normal)


def one_of(*words: str) -> Kind[str]:
    """Return the kind of a text that is one of ``words``."""

    def parse(value: Raw) -> str:
        text = _parse_text(value)
        if text not in words:
            raise refused(value, f"is none of {', '.join(words)}{did_you_mean(text, words)}")
        return text

    return Kind(" or ".join(f"`{word}`" for word in words), parse, _text_normal)
