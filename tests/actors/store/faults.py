"""A disk that fails: SQLite's own file system layer, with an error in place of some calls.

SQLite reaches the disk through a table of functions, its VFS. A copy of the usual one becomes the
default here, and in each file that it opens the functions that write, sync, cut and map are replaced
by ones that count, fail on request, and otherwise call the usual ones. So the code under test and
SQLite itself are as always. It needs SQLite as a shared library, in which ``sqlite3`` is the same one.
"""

from __future__ import annotations

import _sqlite3
import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from typing import Any, ClassVar, Final, final

FULL: Final = 13
IOERR_WRITE: Final = 10 | 3 << 8
IOERR_FSYNC: Final = 10 | 4 << 8
IOERR_TRUNCATE: Final = 10 | 6 << 8
READONLY: Final = 8

_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)


class _Methods(ctypes.Structure):
    """``sqlite3_io_methods``: the functions of an open file."""

    _fields_: ClassVar[Any] = (
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", _WRITE),
        ("truncate", _TRUNCATE),
        ("sync", _SYNC),
        ("others", c_void_p * 13),
    )


class _File(ctypes.Structure):
    """``sqlite3_file``: an open file begins with its functions."""

    _fields_: ClassVar[Any] = (("methods", POINTER(_Methods)),)


# The name is a pointer: SQLite keeps it, and what follows it are the parameters of the URI.
_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(_File), c_int, POINTER(c_int))


class _Vfs(ctypes.Structure):
    """``sqlite3_vfs``."""

    _fields_: ClassVar[Any] = (
        ("version", c_int),
        ("size_of_file", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _OPEN),
        ("others", c_void_p * 15),
    )


_ALIVE: Final[list[object]] = []
"""What SQLite may still point to: a connection that a test has left open."""


def library() -> ctypes.CDLL | None:
    """Return the SQLite that the module ``sqlite3`` uses, or None if it is no shared library."""
    place = getattr(_sqlite3, "__file__", None)  # it may be a part of Python itself
    found = ctypes.CDLL(place)
    return found if hasattr(found, "sqlite3_vfs_register") else None


@final
class Disk:
    """A disk that fails on request.

    Attributes:
        calls: Which functions were called, in order: ``write``, ``sync``, ``truncate``.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._fails: Callable[[str, int], int] = lambda _name, _number: 0
        self._stops: Callable[[], None] | None = None
        self._stops_at = 0
        self._stops_after = False
        self._kept: list[object] = []

    def fail(self, at: int, code: int, *, name: str | None = None, forever: bool = True) -> None:
        """Let calls fail from now on.

        Args:
            at: How many calls (of that name) succeed before.
            code: The error of SQLite.
            name: The function that fails, or None for all of them.
            forever: Whether those after it fail, too.
        """
        left = at

        def fails(called: str, _: int) -> int:
            nonlocal left
            if name not in {None, called}:
                return 0
            left -= 1
            return code if left == -1 or (forever and left < 0) else 0

        self.calls.clear()
        self._fails = fails

    def stop(self, at: int, stop: Callable[[], None], *, after: bool) -> None:
        """Let a call end the process.

        Args:
            at: How many calls come before.
            stop: Ends the process.
            after: Whether the call is done before.
        """
        self._stops, self._stops_at, self._stops_after = stop, len(self.calls) + at + 1, after

    def mend(self) -> None:
        """Let all calls succeed."""
        self._fails = lambda _name, _number: 0

    def wrap(self, methods: _Methods) -> Any:  # noqa: ANN401 - a pointer
        """Return the functions of a file, which fail on request."""
        copy = _Methods()
        ctypes.memmove(ctypes.byref(copy), ctypes.byref(methods), ctypes.sizeof(_Methods))

        def replaced(name: str, kind: Any, usual: Any) -> Any:  # noqa: ANN401 - functions of C
            def call(*args: Any) -> int:  # noqa: ANN401 - as above
                self.calls.append(name)
                number = len(self.calls)
                stop = self._stops if number == self._stops_at else None
                if stop is not None and not self._stops_after:
                    stop()
                code = self._fails(name, number) or usual(*args)
                if stop is not None:
                    stop()
                return code

            made = kind(call)
            self._kept.append(made)
            return made

        copy.write = replaced("write", _WRITE, methods.write)
        copy.truncate = replaced("truncate", _TRUNCATE, methods.truncate)
        copy.sync = replaced("sync", _SYNC, methods.sync)
        self._kept.append(copy)
        return ctypes.pointer(copy)


@contextmanager
def failing_disk(sqlite: ctypes.CDLL) -> Generator[Disk]:
    """Let SQLite use a disk that can fail, for files that are opened meanwhile.

    Args:
        sqlite: The library.
    """
    sqlite.sqlite3_vfs_find.restype = POINTER(_Vfs)
    sqlite.sqlite3_vfs_register.argtypes = (POINTER(_Vfs), c_int)
    usual = sqlite.sqlite3_vfs_find(None)
    disk, vfs = Disk(), _Vfs()
    ctypes.memmove(ctypes.byref(vfs), usual, ctypes.sizeof(_Vfs))
    usual_open, wrapped = usual.contents.open, dict[int, Any]()

    def opened(_vfs: int, path: int, file: Any, flags: int, out: Any) -> int:  # noqa: ANN401 - pointers
        code: int = usual_open(ctypes.addressof(usual.contents), path, file, flags, out)
        if code == 0 and file.contents.methods:
            address = ctypes.addressof(file.contents.methods.contents)
            if address not in wrapped:
                wrapped[address] = disk.wrap(file.contents.methods.contents)
            file.contents.methods = wrapped[address]
        return code

    vfs.name, vfs.open = b"failing", _OPEN(opened)
    _ALIVE.append((vfs, disk))
    sqlite.sqlite3_vfs_register(vfs, 1)
    try:
        yield disk
    finally:
        sqlite.sqlite3_vfs_register(usual, 1)
        sqlite.sqlite3_vfs_unregister(ctypes.byref(vfs))
