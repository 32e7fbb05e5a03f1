"""JSON: objects of a List one by one, so that a List of any length needs little memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from muster.feeds._encodings.json_text import JsonText
from muster.feeds._encodings.raw import Raw, RawEvent, trouble

_KIND: Final = "kind"
_ITEMS: Final = "items"


def read_json(stream: BinaryIO, name: str) -> Iterator[tuple[RawEvent, str]]:
    """Read objects: each value of the stream, each value of a list, or each item of a List.

    With each comes the kind of the List, if that stands before the items, or an empty text.

    Raises:
        FeedError: If the stream is not JSON.
    """
    text = JsonText(stream, name)
    index = 0
    while text.next():
        for line, value, kind in _top(text):
            yield RawEvent(index, line, value, trouble(value) if text.may_trouble() else None), kind
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
