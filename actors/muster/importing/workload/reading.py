"""Dumps: their lines, from files, gzip-compressed or not, or from standard input."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final

from muster.feeds import FeedError
from muster.feeds._encodings.source import Input, Source

LONGEST_LINE: Final = 4 << 20
"""The longest line of a dump, in bytes."""

Opener = Callable[[str], Source]
"""Gives for the name of a file what is to be read; the name itself, or a stream that counts."""


@contextmanager
def opened(name: str, opener: Opener = str) -> Generator[Input]:
    """Open a dump.

    Raises:
        FeedError: If it cannot be opened.
    """
    source = Input(opener(name))
    try:
        yield source
    finally:
        source.close()


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
