"""Targets of feeds and logs: a file, a stream or standard output, gzip-compressed or not."""

from __future__ import annotations

import gzip
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self, TypeAlias, cast, final

from muster.feeds._errors import FeedError


class ByteSink(Protocol):
    """An object with a ``write`` that accepts bytes."""

    def write(self, data: bytes, /) -> object:
        """Write the bytes."""
        ...


Target: TypeAlias = "str | os.PathLike[str] | ByteSink"
"""A path, ``-`` for standard output, or a stream of bytes."""


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
            return "standard output", sys.stdout.buffer
        path = Path(target)
        try:
            return str(path), self._stack.enter_context(self._beside(path).open("wb"))
        except (OSError, ValueError) as error:  # ValueError: a null byte in the name
            raise _unwritable(str(path), error) from error

    def _beside(self, path: Path) -> Path:
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
