"""msgpack: a stream of maps, one after the other, with nothing between them.

There are no lines that mark the next event, so bytes that are not msgpack end the feed.
Valid msgpack that is no event (another type, a repeated key, text that is not UTF-8) is
refused, and the feed goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgpack

from muster.feeds._encodings.raw import Raw, RawEvent, trouble
from muster.feeds._encodings.source import CHUNK_BYTES
from muster.feeds._errors import FeedError

MAX_EVENT_BYTES: Final = 256 * 1024 * 1024
"""The largest event that is read."""

MAX_ITEMS: Final = 1_000_000
"""The most items that one list or map may announce: memory is reserved before they are read."""


def read_msgpack(stream: BinaryIO, name: str) -> Iterator[RawEvent]:
    """Read events one by one.

    Raises:
        FeedError: If the stream is not msgpack, or ends within an event.
    """
    problems: list[str] = []
    unpacker = _unpacker(problems)
    index, fed, taken = 0, 0, 0
    try:
        while chunk := _read(stream):
            unpacker.feed(chunk)
            fed += len(chunk)
            for value in unpacker:
                taken = unpacker.tell()
                yield RawEvent(index, None, value, problems[0] if problems else trouble(value))
                problems.clear()
                index += 1
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        problem = (
            f"event {index} at byte {taken}: not msgpack: {str(error) or type(error).__name__}"
        )
        raise FeedError(name, problem) from error
    if fed > taken:
        raise FeedError(name, f"event {index} at byte {taken}: the feed ends within it")


def _read(stream: BinaryIO) -> bytes:
    chunk: bytes = getattr(stream, "read1", stream.read)(CHUNK_BYTES)
    return chunk


def _unpacker(problems: list[str]) -> Any:  # noqa: ANN401 - the stubs are not always installed
    def as_map(pairs: list[tuple[object, Raw]]) -> dict[str, Raw]:
        made: dict[str, Raw] = {}
        twice: set[str] = set()
        for key, value in pairs:
            if not isinstance(key, str):
                problems.append(f"the key {ascii(key)[:80]} is no text")
            elif key in made:
                problems.append(f"the key {ascii(key)[:80]} stands twice")
                twice.add(key)
            else:
                made[key] = value
        return {key: made[key] for key in made if key not in twice} if twice else made

    return msgpack.Unpacker(
        object_pairs_hook=as_map,
        strict_map_key=False,
        unicode_errors="surrogateescape",  # `trouble` refuses it; later events are read
        max_buffer_size=MAX_EVENT_BYTES,
        max_array_len=MAX_ITEMS,
        max_map_len=MAX_ITEMS,
    )
