"""The lock of a state directory: one process writes, and others are told which.

STORE-14. The operating system holds the lock, so it ends with the process, however that ends. The
file stays, with the facts of who has it or had it last.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, final

from muster._errors import StoreError
from muster.store._trouble import telling

NAME: Final = "lock"
"""The name of the file in the directory."""

_LONGEST: Final = 4096
"""The most bytes of the facts that are read."""

if sys.platform == "win32":
    import msvcrt

    _BEYOND: Final = 1 << 30
    """The byte that is locked: others can still read those before it."""

    def _take(file: int) -> None:
        os.lseek(file, _BEYOND, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _give(file: int) -> None:
        os.close(file)

else:
    import fcntl

    def _take(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give(file: int) -> None:
        # A process that was forked meanwhile has the file open as well, so closing is not enough.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


@final
class Lock:
    """The right to write to a directory, until :meth:`release` or the end of the process.

    Args:
        directory: The directory, which exists.

    Raises:
        StoreError: If a process has it already, this one included; or if there can be no lock.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._process = os.getpid()
        with telling(self._path, "lock the directory"):
            self._file = self._taken()

    def _taken(self) -> int:
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                try:
                    _take(file)
                except (BlockingIOError, PermissionError) as error:
                    raise StoreError(self._refusal(), self._path.parent) from error
                if _is_there(file, self._path):
                    _write_holder(file)
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # somebody has removed the file in between

    # STORE-14
    def _refusal(self) -> str:
        facts = holder_of(self._path.parent)
        if facts is None:
            return "another process has the directory open for writing: end it, or use another directory"
        whom = f"process {facts.get('pid')} on {facts.get('host')}"
        if facts.get("pid") == os.getpid() and facts.get("host") == socket.gethostname():
            whom = f"this process ({facts.get('pid')})"
        return (
            f"{whom} has had the directory open for writing since {facts.get('since')} "
            f"(command: {facts.get('command')}): end it, or use another directory"
        )

    def release(self) -> None:
        """Give the right back; in a process that was forked meanwhile, only forget it."""
        if self._file < 0:
            return
        file, self._file = self._file, -1
        if os.getpid() == self._process:
            _give(file)
        else:
            os.close(file)


def holder_of(directory: Path) -> dict[str, object] | None:
    """Return who has the lock of a directory or had it last, or None if it is not known.

    Args:
        directory: The directory.
    """
    try:
        with (directory / NAME).open("rb") as file:
            facts: object = json.loads(file.read(_LONGEST))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None  # pyright: ignore[reportUnknownVariableType] - shown, no more


def _is_there(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _write_holder(file: int) -> None:
    facts = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": shlex.join(sys.orig_argv)[: _LONGEST // 8],
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(file, 0)
    os.write(file, json.dumps(facts).encode() + b"\n")
