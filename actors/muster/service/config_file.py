"""Whether the configuration in force is from the file of ``--config``, or was applied since."""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import attrs

from muster._runtime.clock import WallClock
from muster.service.input.configuring import shown
from muster.service.input.differing import difference_of
from muster.service.input.looking_back import iso_date
from muster_core.config import default_configuration

if TYPE_CHECKING:
    from muster_core.config.model import Configuration

_LOG: Final = logging.getLogger("muster.service")

_CHANGE: Final = {"fields": {"what": "change"}}

_RECORD: Final = "configuration.json"
"""The file of the state directory that says what the file of ``--config`` said last."""

_REPLACED: Final = "replaced-configuration.yaml"
"""The file of the state directory with the last configuration that was applied and replaced."""

_MOST_NAMES: Final = 10


@final
class Holds(Enum):
    """Which of two configurations holds, and why."""

    #: They are the same.
    SAME = auto()
    #: The file: nothing was applied since it was read, as far as is known.
    FILE = auto()
    #: The file: it has changed since it was read, and replaces what was applied.
    FILE_REPLACES = auto()
    #: What was applied: the file is what it was when it was read.
    APPLIED = auto()


@final
@attrs.frozen
class Origin:
    """Where the configuration in force is from.

    Attributes:
        kind: ``file``, ``applied``, or ``default`` if there is only ``root``.
        since_us: When it was read or applied, in microseconds since 1970; None if nobody knows.
        file: The file that the service was started with, or None.
        differs: Whether that file said something else when it was read last.
    """

    kind: str
    since_us: int | None
    file: Path | None
    differs: bool

    def as_map(self) -> dict[str, object]:
        """Return it as a map."""
        return {
            "kind": self.kind,
            "since": None if self.since_us is None else iso_date(self.since_us),
            "file": None if self.file is None else str(self.file),
            "differs": self.differs,
        }


@final
class ConfigFile:
    """The file of ``--config``: what it said when it was read last, and when that was.

    Args:
        path: The file, or None without one.
        state: The state directory, where this is kept; None to keep nothing.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path | None, state: Path | None) -> None:
        self.path = path
        self._state = state
        self._checksum: str | None = None
        self._read_us: int | None = None
        if state is not None:
            with suppress(OSError, ValueError):
                found: dict[str, Any] = json.loads((state / _RECORD).read_bytes())
                self._checksum, self._read_us = found["checksum"], found["read_us"]

    # ACCESS-40
    def compared(self, kept: Configuration, read: Configuration) -> Holds:
        """Return which configuration holds.

        Args:
            kept: The one in force.
            read: What the file says now.
        """
        if kept == read:
            return Holds.SAME
        if self._checksum is None or _checksum(kept) == self._checksum:
            return Holds.FILE
        return Holds.APPLIED if _checksum(read) == self._checksum else Holds.FILE_REPLACES

    def tell(
        self, kept: Configuration, read: Configuration, applied_us: int | None
    ) -> tuple[bool, str]:
        """Say in the log if something that was applied stays or is replaced, and keep the latter.

        Args:
            kept: The configuration in force.
            read: What the file says now.
            applied_us: When the one in force came, in microseconds since 1970; None if nobody
                knows.

        Returns:
            Whether the file comes in, and in words what becomes of it.
        """
        holds = self.compared(kept, read)
        changed = "" if holds is Holds.SAME else names_of_changes(kept, read)
        applied = f"the configuration applied{_at(applied_us)}"
        match holds:
            case Holds.SAME:
                return False, "nothing has changed"
            case Holds.FILE:
                return True, f"in force; it changed {changed}"
            case Holds.APPLIED:
                _LOG.warning(
                    "configuration: %s says what it said%s: %s stays in force, and differs in %s. "
                    "Change the file, too; or go back to it with: muster config apply %s",
                    self.path,
                    _at(self._read_us),
                    applied,
                    changed,
                    self.path,
                    extra=_CHANGE,
                )
                return False, f"it has not changed; {applied} stays in force"
            case Holds.FILE_REPLACES:
                back = self._keep(kept)
                _LOG.warning(
                    "configuration: %s has changed, and replaces %s in %s%s",
                    self.path,
                    applied,
                    changed,
                    "" if back is None else f". To go back: muster config apply {back}",
                    extra=_CHANGE,
                )
                return True, f"in force; it changed {changed}"

    def note(self, read: Configuration) -> None:
        """Note what the file says, which is in force now.

        Args:
            read: What it says.
        """
        self._checksum, self._read_us = _checksum(read), WallClock.now_us()
        if self._state is not None:
            record = {"file": str(self.path), "checksum": self._checksum, "read_us": self._read_us}
            _write(self._state / _RECORD, json.dumps(record))

    def _keep(self, replaced: Configuration) -> Path | None:
        """Write down a configuration that was applied and is replaced; return where."""
        if self._state is None:
            return None
        path = self._state / _REPLACED
        return path if _write(path, shown(replaced).as_yaml()) else None

    # ACCESS-41
    def origin_of(self, configuration: Configuration, applied_us: int | None) -> Origin:
        """Return where the configuration in force is from.

        Args:
            configuration: The configuration in force.
            applied_us: When it came, in microseconds since 1970; None if nobody knows.
        """
        is_read = self._checksum is not None and _checksum(configuration) == self._checksum
        differs = self.path is not None and not is_read
        if is_read:
            return Origin("file", self._read_us, self.path, differs)
        if configuration == default_configuration():
            return Origin("default", None, self.path, differs)
        return Origin("applied", applied_us, self.path, differs)


def names_of_changes(before: Configuration, after: Configuration) -> str:
    """Return which queues differ between two configurations, for the log."""
    difference: dict[str, Any] = difference_of(before, after)
    names: list[str] = ["the partition"] if difference["partition"] else []
    names += [one["queue"] for one in difference["queues"]]
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f", and {more} more" if more > 0 else "")


def _checksum(configuration: Configuration) -> str:
    return shown(configuration).checksum


def _at(unix_us: int | None) -> str:
    return "" if unix_us is None else f" at {iso_date(unix_us - unix_us % 1_000_000)}"


def _write(path: Path, text: str) -> bool:
    """Replace a file that only the user of the service may read; return whether that was done."""
    new = path.with_suffix(".new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        new.replace(path)
    except OSError as error:
        _LOG.warning("%s: cannot be written: %s", path, error.strerror, extra=_CHANGE)
        return False
    return True
