"""The values of a list in a JSON document, one by one: the document may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from muster.feeds import FeedError
from muster.feeds._encodings.json_text import JsonText


def values_of(stream: BinaryIO, file: str, key: str) -> Iterator[tuple[int, object]]:
    """Yield the values of the list that a JSON object has under a key, each with its line.

    Args:
        stream: The document.
        file: Its name for messages.
        key: The key.

    Raises:
        FeedError: If it is no JSON, or has no such list.
    """
    text = JsonText(stream, file, errors="backslashreplace")
    found = False
    for _ in text.parts("{", "}"):
        name = text.value()
        text.take(":")
        if name == key and text.next() == "[":
            found = True
            for line in text.parts("[", "]"):
                yield line, text.value()
        else:
            text.value()
    if not found:
        msg = f"has no list under {key!r}"
        raise FeedError(file, msg)
