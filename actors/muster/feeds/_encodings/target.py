"""Where a feed or a log goes to: a file, a stream or standard output, gzip-compressed or not."""

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
    """What can be written to: anything that takes bytes."""

    def write(self, data: bytes, /) -> object:
        """Take the bytes."""
        ...


Target: TypeAlias = "str | os.PathLike[str] | ByteSink"
"""A path, ``-`` for standard output, or a stream of bytes."""


@final
class Output:
    """An open target, to be used in a ``with`` statement.

    The same bytes written give the same file: what gzip would note of the time and of the
    name is left out.

    Attributes:
        name: Its name for messages.
    """

    def __init__(self, target: Target, *, whole: bool = False) -> None:
        """Open a target; a name that ends in ``.gz`` is compressed.

        Args:
            target: Where to write to.
            whole: A file gets all that is written or, if the ``with`` statement is left by
                an exception, stays as it was.

        Raises:
            FeedError: If it cannot be opened.
        """
        self._stack = ExitStack()
        self._whole = whole
        #: What takes the place of the file in the end, and the file.
        self._part: tuple[Path, Path] | None = None
        self.name, self._sink = self._opened(target)
        if self.name.lower().endswith(".gz"):
            fileobj = cast("BinaryIO", self._sink)
            self._sink = self._stack.enter_context(
                gzip.GzipFile(filename="", mode="wb", fileobj=fileobj, mtime=0)
            )

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
        """Give the file to write to: one beside ``path`` if that is to be replaced as a whole."""
        if not self._whole or (path.exists() and not path.is_file()):
            return path  # A device or a pipe is written as it comes.
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._part = (part, path.resolve())
        return part

    def write(self, data: bytes) -> None:
        """Write some bytes.

        Raises:
            BrokenPipeError: If the reader of a pipe has gone.
            FeedError: If it cannot be written for another reason.
        """
        try:
            self._sink.write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(self.name, error) from error

    def close(self) -> None:
        """Write what is left, and close what was opened here.

        Raises:
            BrokenPipeError: If the reader of a pipe has gone.
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
        """Put the file in its place, or throw it away."""
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
