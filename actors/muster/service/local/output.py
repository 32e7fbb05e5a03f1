"""The output of commands: the files ``logs/APP/ASK/N.log``.

The names of applications and asks may have any character but ``/``, so they are written with ``%``
as in addresses. The starts of an ask are counted from 1, as long as its files are there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import quote

import attrs

_LONGEST: Final = 180
"""The longest name of a folder; file systems take 255 bytes."""

_NUMBERED: Final = re.compile(r"([0-9]{1,9})\.log")


# LOCAL-5
def folder_name(name: str) -> str:
    """Return the name of the folder for an application or an ask; no two have the same one."""
    written = quote(name, safe="", errors="surrogatepass")
    if written.startswith("."):
        written = f"%2E{written[1:]}"
    if len(written) <= _LONGEST:
        return written
    # "%~" is in no name that is written as a whole.
    whole = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{written[: _LONGEST - 34]}%~{whole[:32]}"


@final
@attrs.frozen
class Attempt:
    """The files of one start of an ask.

    Attributes:
        number: Which start it is, from 1.
        output: The file with its output.
        told: The file that says how it ended.
    """

    number: int
    output: Path
    told: Path

    def about(self) -> dict[str, Any]:
        """Return what is known of it: when it started, and if it has ended how and when."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(self.told.read_bytes())
            return found
        return {}


# PAGE-86
def earlier_of(attempts: Sequence[Attempt], came_us: int | None) -> Sequence[Attempt]:
    """Return those starts that were of earlier asks of the same name, the latest last.

    Args:
        attempts: All starts of asks of that name, the latest last.
        came_us: When the present ask came, in microseconds since 1970; None if nobody knows.
    """
    if came_us is None:
        return ()
    # A start that has just begun says nothing of itself yet.
    for at in range(len(attempts), 0, -1):
        if attempts[at - 1].about().get("started_us", came_us) < came_us:
            return attempts[:at]
    return ()


@final
class OutputFiles:
    """The files of all jobs.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _of(self, app: str, ask: str) -> Path:
        return self._folder / folder_name(app) / folder_name(ask)

    def attempts(self, app: str, ask: str) -> list[Attempt]:
        """Return the starts of an ask whose files are there, the latest last."""
        folder = self._of(app, ask)
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        numbers = sorted(int(found[1]) for found in map(_NUMBERED.fullmatch, names) if found)
        return [_attempt(folder, number) for number in numbers]

    def begin(self, app: str, ask: str) -> Attempt:
        """Return the files for the next start of an ask; there is an empty one for its output.

        Raises:
            OSError: If it cannot be written.
        """
        folder = self._of(app, ask)
        for one in (self._folder, folder.parent, folder):
            one.mkdir(exist_ok=True, parents=True, mode=0o700)
        before = self.attempts(app, ask)
        made = _attempt(folder, before[-1].number + 1 if before else 1)
        made.output.touch(mode=0o600)
        return made

    # LOCAL-6
    def prune(self, before_us: int) -> None:
        """Remove the files of jobs that ended before an instant, in microseconds since 1970."""
        for app in _folders(self._folder):
            for ask in _folders(app):
                for name in os.listdir(ask):
                    found = _NUMBERED.fullmatch(name)
                    attempt = _attempt(ask, int(found[1])) if found else None
                    if attempt and attempt.about().get("ended_us", before_us) < before_us:
                        attempt.output.unlink(missing_ok=True)
                        attempt.told.unlink(missing_ok=True)
                _remove_empty(ask)
            _remove_empty(app)


def _attempt(folder: Path, number: int) -> Attempt:
    return Attempt(number, folder / f"{number}.log", folder / f"{number}.json")


def _folders(folder: Path) -> list[Path]:
    return [one for one in sorted(folder.iterdir()) if one.is_dir()]


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # it is not empty
        folder.rmdir()
