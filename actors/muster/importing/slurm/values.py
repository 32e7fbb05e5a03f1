"""Values as ``sacct`` prints them, and tables as ``sacctmgr --parsable2`` prints them.

Values are times, durations, sizes of memory and trackable resources. Their forms are those that the
manual page of sacct describes, and those that sacct printed in the examples in
``examples/slurm/cluster``. A table has a line that names the columns, and rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, final

from muster.feeds import FeedError
from muster_core.decisions import MICROSECONDS

MIB: Final = 1 << 20
_LATEST_S: Final = 253_402_300_800
"""The first second of the year 10000, since 1970."""

_LONGEST_S: Final = 10**10
_LARGEST: Final = 10**12
"""No job has as many of anything, nor as many MiB: the text is broken."""

_MOST_KNOWN: Final = 50_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d)(\d)(?::(\d\d))?(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_ELAPSED: Final = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,8}):)?(\d{1,8}):(\d\d)(?:\.\d+)?", re.ASCII)
_MINUTES: Final = re.compile(r"(?:(\d{1,6})-)?(\d{1,8})(?::(\d{1,8})(?::(\d{1,8}))?)?", re.ASCII)
_MEMORY: Final = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?([KMGTPE]?)(?:i?B)?([nc]?)", re.ASCII)
_COUNT: Final = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?([KMGTP]?)", re.ASCII)
_BYTES: Final[Mapping[str, int]] = {
    "": MIB,  # Slurm's own unit
    "K": 1 << 10,
    "M": MIB,
    "G": 1 << 30,
    "T": 1 << 40,
    "P": 1 << 50,
    "E": 1 << 60,
}
_UNITS: Final[Mapping[str, int]] = {**_BYTES, "": 1}
"""Slurm divides counts of nodes by 1024, too."""


@final
class TimeReader:
    """Reads times; by default sacct prints local time without an offset.

    Args:
        zone: The time zone of times without an offset. Of an hour that a change of the clock
            repeats, the first one is meant.
    """

    def __init__(self, zone: tzinfo = UTC) -> None:
        self._zone = zone
        #: When the ten minutes begin whose times begin so.
        self._usual: dict[str, int] = {}

    def of(self, text: str) -> int | None:
        """Return a time in microseconds since 1970 in UTC.

        It is ISO 8601 with or without an offset, or seconds since 1970.

        Returns:
            None for ``Unknown``, ``None``, nothing, and any other text that is no time.
        """
        begin = self._usual.get(text[:15])
        if begin is not None and len(text) == 19 and text[16] == ":":
            rest = text[15] + text[17:]
            if rest.isdecimal():
                return (begin + int(rest[0]) * 60 + int(rest[1:])) * MICROSECONDS
        match = _ISO.fullmatch(text)
        if match is None:
            is_number = text.isdecimal() and text.isascii() and len(text) < 13
            second = int(text) if is_number else 0
            return second * MICROSECONDS if 0 < second < _LATEST_S else None
        start, minute, seconds_text, offset = match.groups()
        begin = self._begin(start, offset)
        if begin is None:
            return None
        if offset is None and begin >= 0:
            if len(self._usual) > _MOST_KNOWN:
                self._usual.clear()
            self._usual[start] = begin
        seconds = begin + int(minute) * 60 + int(seconds_text or 0)
        return seconds * MICROSECONDS if seconds >= 0 else None

    def _begin(self, start: str, offset: str | None) -> int | None:
        """Return when ten minutes begin, in seconds since 1970: no clock changes within them."""
        try:
            date = datetime.fromisoformat(f"{start}0{offset or ''}")
            if date.tzinfo is None:
                date = date.replace(tzinfo=self._zone)
            return (date - _EPOCH) // _SECOND
        except (ValueError, OverflowError):
            return None


def duration_s(text: str) -> int | None:
    """Return ``[days-][hours:]minutes:seconds``, or a number of seconds, in seconds; or None."""
    if text.isdecimal() and text.isascii():
        return int(text) if len(text) < 11 else None
    match = _ELAPSED.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return total if total < _LONGEST_S else None


def limit_s(minutes: str, text: str) -> int | None:
    """Return a limit of time in seconds; None if it is not known, or without limit.

    Args:
        minutes: A number of minutes, or an empty text.
        text: ``[days-][hours:]minutes:seconds``, which counts if there are no minutes.
    """
    if minutes.isdecimal() and minutes.isascii():
        limit = int(minutes) * 60 if len(minutes) < 11 else None
    else:
        limit = duration_s(text) if ":" in text else None
    return limit if limit and limit < _LONGEST_S else None


def is_unlimited(text: str) -> bool:
    """Return whether a limit of time is none."""
    return text.upper() in ("UNLIMITED", "INFINITE")


def minutes_s(text: str) -> int | None:
    """Return a limit of time of a ``slurm.conf`` in seconds, in whole minutes; None if it is none.

    It is ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours``,
    ``days-hours:minutes`` or ``days-hours:minutes:seconds``; seconds are rounded up.
    """
    match = _MINUTES.fullmatch(text)
    if match is None:
        return None
    days, *parts = match.groups()
    if days is None and parts[2] is None:
        parts = ["0", *parts[:2]]  # without days two numbers are minutes and seconds
    hours, minutes, seconds = (int(part or 0) for part in parts)
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return -(-total // 60) * 60 if total < _LONGEST_S else None


def memory_of(text: str) -> tuple[int, str] | None:
    """Return an amount of memory such as ``16G``.

    Returns:
        The bytes, and what they are for: ``n`` for each node, ``c`` for each CPU, or nothing for
        the job; None if it is no amount.
    """
    match = _MEMORY.fullmatch(text)
    if match is None:
        return None
    whole, part, unit, each = match.groups()
    amount = int(whole) * _BYTES[unit]
    if part:
        amount += int(part) * _BYTES[unit] // 10 ** len(part)
    return (amount, each) if amount < _LARGEST * MIB else None


def tres_of(text: str) -> dict[str, int]:
    """Return trackable resources such as ``cpu=4,mem=16G,gres/gpu:a100=2``; memory is in bytes.

    What cannot be read is left out.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, written = part.strip().partition("=")
        if name in ("mem", "vmem"):
            memory = memory_of(written)
            if memory is not None:
                found[name] = memory[0]
            continue
        if name and _COUNT.fullmatch(written):
            amount = count_of(written)
            found[name if "/" in name else name.lower()] = amount
    return found


def count_of(text: str) -> int:
    """Return a count such as ``4`` or ``1.5K``; 0 for any other text."""
    match = _COUNT.fullmatch(text)
    if match is None:
        return 0
    whole, part, unit = match.groups()
    amount = int(whole) * _UNITS[unit]
    if part:
        amount += int(part) * _UNITS[unit] // 10 ** len(part)
    return amount if amount < _LARGEST else 0


Row = tuple[int, Mapping[str, str]]
"""The line of a row, from 1, and its values by the names of the columns, without blanks."""


def rows_of(text: str, file: str, needed: Sequence[str], right: str) -> list[Row]:
    """Return the rows of a table.

    Args:
        text: The output of the command.
        file: Its name for messages.
        needed: The columns that must be there, in lower case.
        right: The command that prints such a table.

    Raises:
        FeedError: If it is no such table.
    """
    lines = text.splitlines()
    names = [name.strip().replace(" ", "").lower() for name in lines[0].split("|")] if lines else []
    lacks = [name for name in needed if name not in names]
    if lacks:
        msg = f"has no column {lacks[0]!r} in its first line: make it with {right}"
        raise FeedError(file, msg, 1)
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], start=2):
        values = line.split("|")
        if not line.strip():
            continue
        if len(values) < len(names):
            msg = f"has {len(values)} columns where {len(names)} are named"
            raise FeedError(file, msg, number)
        rows.append((number, dict(zip(names, values, strict=False))))
    return rows
