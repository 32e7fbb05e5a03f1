"""Dumps: their lines and JSON values one by one, and records sorted by their instants.

A dump is a file, perhaps gzip-compressed, or standard input. It has its jobs in any order, and a feed
has them in the order in which they came. So sorted runs of records go to temporary files, which are
merged at the end. A dump may be larger than memory.
"""

from __future__ import annotations

import heapq
import tempfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Self, cast, final

import msgpack

from muster.feeds import FeedError
from muster.feeds._files import Input, Source
from muster.feeds._json import JsonText

LONGEST_LINE: Final = 4 << 20
"""The longest line of a dump, in bytes."""

Opener = Callable[[str], Source]
"""Returns the source for the name of a file: the name itself, or a stream that counts."""


@contextmanager
def open_dump(name: str, opener: Opener = str) -> Generator[Input]:
    """Open a dump.

    Raises:
        FeedError: If it cannot be opened.
    """
    source = Input(opener(name))
    try:
        yield source
    finally:
        source.close()


def file_text(file: str) -> str:
    r"""Return the text of a file; bytes that are no UTF-8 become ``\xNN``.

    Raises:
        FeedError: If it cannot be read.
    """
    try:
        return Path(file).read_bytes().decode("utf-8-sig", "backslashreplace")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise FeedError(file, f"cannot be read: {reason}") from None


def lines_of(source: Input) -> Iterator[tuple[int, str]]:
    r"""Yield each line with its number, from 1, without its end.

    Bytes that are no UTF-8 become ``\xNN``.

    Raises:
        FeedError: If it cannot be read, is in UTF-16, or a line has no end.
    """
    number = 0
    while line := source.stream.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE:
            msg = f"the line is longer than {LONGEST_LINE >> 20} MiB: this is no such dump"
            raise FeedError(source.name, msg, number)
        if number == 1 and line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            raise FeedError(source.name, "is in UTF-16: save it in UTF-8", number)
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", "backslashreplace")
        yield number, text.rstrip("\r\n")


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


FULL_BYTES: Final = 16 << 20
"""How much of the records waits in memory to be sorted."""

_BEFORE: Final = 1 << 48
"""The offset of the number of a record that comes before others of its instant."""

Record = tuple[Any, ...]
"""The values that msgpack can write."""

_Entry = tuple[int, int, bytes]


@final
class Spool:
    """Records with their instants; those of one instant stay in the order in which they came.

    Args:
        full_bytes: See :data:`FULL_BYTES`.
    """

    def __init__(self, full_bytes: int = FULL_BYTES) -> None:
        self._files = ExitStack()
        self._runs: list[tuple[IO[bytes], int]] = []
        self._waiting: list[_Entry] = []
        self._bytes = 0
        self._full = full_bytes
        self._last = 0
        self.first_us: int | None = None
        self.last_us: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def __len__(self) -> int:
        return self._last

    def add(self, at_us: int, record: Record, *, before: bool = False) -> None:
        """Add a record.

        Args:
            at_us: Its instant, in microseconds.
            record: The record.
            before: Whether it comes before all records of its instant that are added without this.
        """
        packed: bytes = msgpack.packb(record)
        self._last += 1
        self._waiting.append((at_us, self._last - (_BEFORE if before else 0), packed))
        self._bytes += len(packed) + 100  # about what Python needs around them
        if self._bytes > self._full:
            self._write()

    def _write(self) -> None:
        """Write the waiting records as a sorted run; behind the last run, if all are later."""
        self._waiting.sort()
        first, last = self._waiting[0][0], self._waiting[-1][0]
        self._widen(first, last)
        if self._runs and self._runs[-1][1] < first:
            stream, _ = self._runs.pop()
        else:
            temporary = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the others
            stream = cast("IO[bytes]", self._files.enter_context(temporary))
        packer = msgpack.Packer()
        stream.writelines(packer.pack(entry) for entry in self._waiting)
        self._runs.append((stream, last))
        self._waiting = []
        self._bytes = 0

    def _widen(self, first: int, last: int) -> None:
        self.first_us = first if self.first_us is None else min(first, self.first_us)
        self.last_us = last if self.last_us is None else max(last, self.last_us)

    def finish(self) -> None:
        """Sort the rest: from now on ``first_us`` and ``last_us`` count all records."""
        self._waiting.sort()
        if self._waiting:
            self._widen(self._waiting[0][0], self._waiting[-1][0])

    def in_order(self) -> Iterator[tuple[int, Record]]:
        """Yield each instant with its record, in order; to be called once, after ``finish``."""
        runs: list[Iterator[_Entry]] = [_entries(stream) for stream, _ in self._runs]
        for at_us, _, packed in heapq.merge(*runs, self._waiting):
            yield at_us, msgpack.unpackb(packed, use_list=False)


def _entries(stream: IO[bytes]) -> Iterator[_Entry]:
    stream.seek(0)
    return cast(
        "Iterator[_Entry]", msgpack.Unpacker(stream, use_list=False, max_buffer_size=1 << 20)
    )
