"""Errors of SQLite and the operating system as :class:`~muster.StoreError`."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from muster._errors import StoreError

# The first one whose words begin the name of an error of SQLite counts.
_KNOWN_ERRORS: Final = (
    (
        "SQLITE_FULL",
        "there is no room on the disk",
        "make room and start again; what was kept before is untouched",
    ),
    (
        "SQLITE_IOERR",
        "the disk or the file system reports an error",
        "mend it and start again; Muster has not touched what was kept before",
    ),
    (
        "SQLITE_READONLY",
        "it cannot be written",
        "mount the file system for writing, and let this user write the folder and its files",
    ),
    (
        "SQLITE_CANTOPEN",
        "it cannot be opened",
        "give this user the right to read and to write the folder and the files in it",
    ),
    ("SQLITE_PERM", "it cannot be opened", "give this user the right to read and to write it"),
    ("SQLITE_NOTADB", "it is no SQLite file, or its beginning is damaged", "restore it"),
    ("SQLITE_CORRUPT", "it is damaged", "restore it from a copy of the folder"),
    ("SQLITE_SCHEMA", "it is damaged", "restore it from a copy of the folder"),
    (
        "SQLITE_BUSY",
        "another program holds a lock on it",
        "end that program, such as a shell of sqlite3 in a transaction",
    ),
    ("SQLITE_LOCKED", "another program holds a lock on it", "end that program"),
    ("SQLITE_TOOBIG", "one value is larger than SQLite allows", "let in less at a time"),
    ("SQLITE_NOMEM", "there is no memory for it", "give the program more memory"),
)
_OTHER_ERROR: Final = ("SQLite reports an error", "restore it from a copy if it is damaged")


@contextmanager
def store_errors(path: Path, doing: str) -> Generator[None]:
    """Turn errors of SQLite and the system into ones that name the action and the file.

    Args:
        path: The file or the folder.
        doing: The action, such as ``write batch 7``.

    Raises:
        StoreError: For any of these errors, which is its cause.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(error, path, doing) from error
    except UnicodeDecodeError as error:
        raise damaged(path, f"a text is not UTF-8 ({error})") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot {doing}: {reason}", path) from error


def store_error(error: sqlite3.Error, path: Path, doing: str) -> StoreError:
    """Return the error for a user about one of SQLite."""
    name = name_of(error)
    what, right = next(
        ((what, right) for start, what, right in _KNOWN_ERRORS if name.startswith(start)),
        _OTHER_ERROR,
    )
    code = f", {name}" if name else ""
    return StoreError(f"cannot {doing}: {what} ({error}{code}): {right}", path)


def name_of(error: sqlite3.Error) -> str:
    """Return SQLite's name of an error, such as ``SQLITE_IOERR_FSYNC``; empty if it has none."""
    name = getattr(error, "sqlite_errorname", None)
    return name if isinstance(name, str) else ""


def damaged(path: Path, what: str) -> StoreError:
    """Return the error for content that cannot be what Muster has written.

    Args:
        path: The file.
        what: The damaged part and its problem.
    """
    return StoreError(f"the file is damaged: {what}: restore it from a copy of the folder", path)


# STORE-1
def not_there(directory: Path, name: str) -> StoreError:
    """Return the error for a path that is no state directory.

    Args:
        directory: The path.
        name: The name of the file that a state directory has.
    """
    if not directory.exists():
        return StoreError("No such file or directory", directory)
    if not directory.is_dir():
        return StoreError("is a file: name a state directory", directory)
    return StoreError(f"is not a state directory: it has no file {name}", directory)
