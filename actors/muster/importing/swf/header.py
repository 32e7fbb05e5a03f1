"""The header of a file in the Standard Workload Format: comments of the form ``; Label: value``."""

from __future__ import annotations

import re
from typing import Final, final

_LABEL: Final = re.compile(r";\s*([A-Za-z]+)\s*:\s*(.*)")
_NUMBER: Final = re.compile(r"-?[0-9]+")
_DIGITS: Final = 15
"""The most digits that count: more millicores or bytes than these are no amount."""
_NAMED: Final = re.compile(r"(-?[0-9]+)[\s:=,]+(\S+)")


@final
class Header:
    """What the header says that a feed needs.

    Attributes:
        start_s: When the log starts, in seconds since 1970 in UTC, or None.
        nodes: How many nodes there are, or None.
        processors: How many processors they have together, or None.
        memory_kib: How much memory a node has, in KiB, or None.
        queues: The names of the queues by number.
        partitions: The names of the partitions by number.
    """

    def __init__(self) -> None:
        self.start_s: int | None = None
        self.nodes: int | None = None
        self.processors: int | None = None
        self.memory_kib: int | None = None
        self.queues: dict[int, str] = {}
        self.partitions: dict[int, str] = {}

    def read(self, line: str) -> None:
        """Read a line that starts with ``;``; one that says nothing else is a comment."""
        match = _LABEL.match(line)
        if match is None:
            return
        label, value = match[1].lower(), match[2].strip()
        number = _NUMBER.match(value)
        first = int(number[0]) if number is not None and len(number[0]) <= _DIGITS else -1
        known = first if first > 0 else None
        match label:
            case "unixstarttime":
                self.start_s = first if first >= 0 else None
            case "maxnodes":
                self.nodes = known
            case "maxprocs":
                self.processors = known
            case "maxmemory":
                self.memory_kib = known
            case "queue":
                _name(self.queues, value)
            case "partition":
                _name(self.partitions, value)
            case _:
                pass


def _name(names: dict[int, str], value: str) -> None:
    match = _NAMED.match(value)
    if match is not None and len(match[1]) < 19:
        names[int(match[1])] = match[2].strip("\"'.,;:()")
