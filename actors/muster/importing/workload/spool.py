"""Records in the order of their instants, more of them than memory holds.

A dump has its jobs in any order, and a feed has them in the order in which they came. Sorted runs
of records go to temporary files, which are merged at the end.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Any, Final, Self, cast, final

import msgpack

FULL_BYTES: Final = 16 << 20
"""How much of the records waits in memory to be sorted."""

_BEFORE: Final = 1 << 48
"""What is taken from the number of a record that stands before others of its instant."""

Record = tuple[Any, ...]
"""What msgpack can write."""

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.close()

    def __len__(self) -> int:
        return self._last

    def add(self, at_us: int, record: Record, *, before: bool = False) -> None:
        """Add a record.

        Args:
            at_us: Its instant, in microseconds.
            record: The record.
            before: Whether it stands before all records of its instant that are not added so.
        """
        packed: bytes = msgpack.packb(record)
        self._last += 1
        self._waiting.append((at_us, self._last - (_BEFORE if before else 0), packed))
        self._bytes += len(packed) + 100  # about what Python needs around them
        if self._bytes > self._full:
            self._write()

    def _write(self) -> None:
        """Write what waits as a sorted run; behind the last run, if it is all later."""
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
