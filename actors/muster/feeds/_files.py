"""Files: sources and targets of feeds and logs, which may be files, streams or compressed by gzip.

A feed is never read as a whole. Every failure to read or write (a missing file, a broken gzip
stream) is raised as a :class:`FeedError`::

    MusterError
    └── FeedError       the rest of the feed cannot be read: correct or replace the feed

A single invalid event is no error: it is refused, and the feed goes on.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Protocol, Self, TextIO, TypeAlias, cast, final

from typing_extensions import Buffer, override

from muster_core.errors import MusterError


@final
class FeedError(MusterError):
    """A feed cannot be opened, or cannot be read beyond a certain place.

    All events before that place have been yielded.

    Attributes:
        file: The name of the feed, as the caller wrote it.
        line: The line of the error, from 1, or None if it is not known.
        problem: The error.
    """

    def __init__(self, file: str, problem: str, line: int | None = None) -> None:
        self.file = file
        self.line = line
        self.problem = problem
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {problem}")


GZIP: Final = b"\x1f\x8b"
"""The first bytes of every gzip file."""

CHUNK_BYTES: Final = 64 * 1024
"""How much is read at once."""

KEPT_BYTES: Final = 8 * 1024
"""How much of what is written may wait to be passed on."""

HEAD_BYTES: Final = 64 * 1024
"""The longest part of a feed that is read to detect its encoding."""


class ByteStream(Protocol):
    """An object with a ``read`` that returns bytes, from which a feed can be read."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; none at the end."""
        ...


Source: TypeAlias = "str | os.PathLike[str] | ByteStream"
"""A path, ``-`` for standard input, or a stream of bytes."""


@final
class Input:
    """An open feed.

    Attributes:
        name: Its name for messages.
        stream: Its bytes, decompressed.
        head: Its first bytes, which ``stream`` returns again.
        base: The folder to which ``file`` in a ``configure`` event is relative.
    """

    def __init__(self, source: Source) -> None:
        """Open a feed and read its first bytes.

        Raises:
            FeedError: If it cannot be opened, or its first bytes cannot be read.
        """
        self._stack = ExitStack()
        self.name, self.base, opened = _opened(source, self._stack)
        try:
            raw = _Checked(opened, self.name)
            # FEED-4
            if raw.look(2) == GZIP:
                raw = _Checked(gzip.GzipFile(fileobj=io.BufferedReader(raw)), self.name)
            self.head = raw.look_at_line(HEAD_BYTES)
            self.stream: BinaryIO = io.BufferedReader(raw, CHUNK_BYTES)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file that this object opened; a stream from the caller stays open."""
        self._stack.close()


# COMMAND-7
def _opened(source: Source, stack: ExitStack) -> tuple[str, Path, ByteStream]:
    if not isinstance(source, (str, os.PathLike)):
        return str(getattr(source, "name", "feed")), Path(), source
    if source == "-":
        return "standard input", Path(), _standard_input()
    path = Path(source)
    try:
        return str(path), path.parent, stack.enter_context(path.open("rb"))
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise FeedError(str(path), _error_text(error)) from error


def _standard_input() -> ByteStream:
    stream: TextIO | None = sys.stdin  # None if the process was started without one
    if stream is None:
        raise FeedError("standard input", "is closed")
    return stream.buffer


def _error_text(error: Exception) -> str:
    """Return the message of an error, without the number and file name of an OSError."""
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


@final
class _Checked(io.RawIOBase):
    """A stream that raises :class:`FeedError` and lets its first bytes be read ahead."""

    def __init__(self, stream: ByteStream, name: str) -> None:
        super().__init__()
        # `read` of a buffered stream waits for all the bytes that were asked for. That would
        # block on a pipe whose writer waits for us; `read1` returns the bytes that have come.
        self._read = getattr(stream, "read1", stream.read)
        self._name = name
        self._head = b""

    def look(self, size: int) -> bytes:
        """Return the first ``size`` bytes, fewer at the end, without consuming them."""
        while len(self._head) < size and self._more():
            pass
        return self._head[:size]

    def look_at_line(self, limit: int) -> bytes:
        """Return the start, to the end of the first line that is not blank, without consuming it.

        Data that starts with a non-ASCII byte is returned at once: it has no lines to wait for.
        """
        while len(self._head) < limit and not self._has_line() and self._more():
            pass
        return self._head

    def _has_line(self) -> bool:
        start = self._head.lstrip()
        return b"\n" in start or start[:1] > b"\x7f"

    def _more(self) -> bool:
        chunk = self._pull(CHUNK_BYTES)
        self._head += chunk
        return bool(chunk)

    def _pull(self, size: int) -> bytes:
        try:
            chunk: bytes = self._read(size)
        except (OSError, EOFError, zlib.error) as error:
            msg = f"cannot be read: {_error_text(error)}"
            raise FeedError(self._name, msg) from error
        return chunk

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        if self._head:
            chunk, self._head = self._head[: len(view)], self._head[len(view) :]
        else:
            chunk = self._pull(len(view))
        view[: len(chunk)] = chunk
        return len(chunk)


class ByteSink(Protocol):
    """An object with a ``write`` that accepts bytes."""

    def write(self, data: bytes, /) -> object:
        """Write the bytes."""
        ...


Target: TypeAlias = "str | os.PathLike[str] | ByteSink"
"""A path, ``-`` for standard output, or a stream of bytes."""


# By itself Python 3.14 would buffer 128 KiB, which a reader that follows a replay would miss.
@final
class _StandardOutput:
    """Standard output, which is passed on each time when :data:`KEPT_BYTES` have been written."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._kept = 0

    def write(self, data: bytes, /) -> None:
        self._stream.write(data)
        self._kept += len(data)
        if self._kept >= KEPT_BYTES:
            self._stream.flush()
            self._kept = 0


@final
class Output:
    """An open target, for use in a ``with`` statement.

    The same bytes always give the same file: gzip's time stamp and file name are left out.

    Attributes:
        name: Its name for messages.
    """

    def __init__(self, target: Target, *, whole: bool = False) -> None:
        """Open a target; a file whose name ends in ``.gz`` is compressed.

        Args:
            target: The path or stream to write to.
            whole: Whether a file is replaced only at the end. If an exception leaves the
                ``with`` statement, the file is unchanged.

        Raises:
            FeedError: If it cannot be opened.
        """
        self._stack = ExitStack()
        self._whole = whole
        #: The temporary file, and the file that it replaces at the end.
        self._part: tuple[Path, Path] | None = None
        self.name, self._sink = self._opened(target)
        if self.name.lower().endswith(".gz"):
            fileobj = cast("BinaryIO", self._sink)
            self._sink = self._stack.enter_context(
                gzip.GzipFile(filename="", mode="wb", fileobj=fileobj, mtime=0)
            )

    # COMMAND-7
    def _opened(self, target: Target) -> tuple[str, ByteSink]:
        if not isinstance(target, (str, os.PathLike)):
            return str(getattr(target, "name", "")), target
        if target == "-":
            self._stack.callback(sys.stdout.buffer.flush)
            return "standard output", _StandardOutput(sys.stdout.buffer)
        path = Path(target)
        try:
            return str(path), self._stack.enter_context(
                self._temporary_path(path).open("wb", KEPT_BYTES)
            )
        except (OSError, ValueError) as error:  # ValueError: a null byte in the name
            raise _unwritable(str(path), error) from error

    def _temporary_path(self, path: Path) -> Path:
        """Return the file to write to: a temporary one if ``path`` is replaced at the end."""
        if not self._whole or (path.exists() and not path.is_file()):
            return path  # A device or a pipe is written directly.
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._part = (part, path.resolve())
        return part

    def write(self, data: bytes) -> None:
        """Write some bytes.

        Raises:
            BrokenPipeError: If the reader has closed the pipe.
            FeedError: If it cannot be written for another reason.
        """
        try:
            self._sink.write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(self.name, error) from error

    def close(self) -> None:
        """Write the bytes that are still buffered, and close what this object opened.

        Raises:
            BrokenPipeError: If the reader has closed the pipe.
            FeedError: If it cannot be written for another reason.
        """
        try:
            self._stack.close()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(self.name, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except BaseException as failure:
            error = failure
            raise
        finally:
            self._settle(finished=error is None)

    def _settle(self, *, finished: bool) -> None:
        """Move the temporary file to its place, or delete it."""
        if self._part is None:
            return
        part, path = self._part
        if finished:
            try:
                part.replace(path)
            except OSError as error:
                raise _unwritable(self.name, error) from error
        else:
            part.unlink(missing_ok=True)


def _unwritable(name: str, error: Exception) -> FeedError:
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return FeedError(name, f"cannot be written: {reason}")
