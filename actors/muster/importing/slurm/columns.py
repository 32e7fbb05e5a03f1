"""The columns of ``sacct --parsable2``: their names, and where the ones that count are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Final, final

from muster.feeds import FeedError

RIGHT: Final = (
    "sacct --parsable2 --duplicates --allusers --starttime=2026-01-01 "
    "--format=JobID,JobName,User,Group,Account,Partition,QOS,Submit,Eligible,Start,End,ElapsedRaw,"
    "State,ReqTRES,AllocTRES,NNodes,Constraints,Priority,TimelimitRaw"
)
"""A command that prints all that is needed."""

_USED: Final[Sequence[tuple[str, ...]]] = (
    ("jobid", "jobidraw"),
    ("cluster",),
    ("state",),
    ("submit",),
    ("eligible",),
    ("start",),
    ("end",),
    ("elapsedraw",),
    ("elapsed",),
    ("suspended",),
    ("reqtres",),
    ("alloctres",),
    ("reqmem",),
    ("reqcpus",),
    ("alloccpus", "ncpus"),
    ("allocnodes", "nnodes", "reqnodes"),
    ("partition",),
    ("constraints",),
    ("user",),
    ("group",),
    ("account",),
    ("qos",),
    ("jobname",),
    ("reservation",),
    ("wckey",),
    ("priority",),
    ("timelimitraw",),
    ("timelimit",),
)
"""The columns that are read, in the order of :meth:`Columns.values`; the first name that is there."""

_CPUS: Final = ("ReqTRES", "AllocTRES", "ReqCPUS", "AllocCPUS", "NCPUS")
_MISSING: Final = (
    (("ReqTRES", "AllocTRES", "ReqMem"), "jobs ask for no memory"),
    (("AllocTRES", "AllocNodes", "NNodes", "ReqNodes", "ReqTRES"), "each job has one node"),
    (("User",), "jobs have no user"),
)
"""Columns of which one should be there, and what becomes of jobs otherwise."""

_FREE: Final = (
    "jobname", "constraints", "submitline", "comment", "admincomment", "systemcomment", "workdir",
    "wckey",
)  # fmt: skip
"""The columns that may have in them what parts the columns: ``a100|ib`` is a constraint."""

# The fields of sacct 22.05 to 25.05 that say nothing for a feed.
_OTHERS: Final = (
    "allocgres associd avecpu avecpufreq avediskread avediskwrite avepages averss avevmsize "
    "blockid consumedenergy consumedenergyraw container cputime cputimeraw dbindex "
    "derivedexitcode exitcode extra failednode flags gid layout licenses maxdiskread "
    "maxdiskreadnode maxdiskreadtask maxdiskwrite maxdiskwritenode maxdiskwritetask maxpages "
    "maxpagesnode maxpagestask maxrss maxrssnode maxrsstask maxvmsize maxvmsizenode "
    "maxvmsizetask mcslabel mincpu mincpunode mincputask nodelist ntasks planned plannedcpu "
    "plannedcpuraw qosraw qosreq reason reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin "
    "reqgres requeued reserved reservationid resvcpu resvcpuraw restarts sluid stderr stdin "
    "stdout "
    "segmentsize systemcpu totalcpu tresusageinave tresusageinmax "
    "tresusageinmaxnode tresusageinmaxtask tresusageinmin tresusageinminnode "
    "tresusageinmintask tresusageintot tresusageoutave tresusageoutmax tresusageoutmaxnode "
    "tresusageoutmaxtask tresusageoutmin tresusageoutminnode tresusageoutmintask "
    "tresusageouttot uid usercpu wckeyid"
)
_KNOWN: Final = frozenset(_OTHERS.split())

_NAMES: Final = {name for choice in _USED for name in choice} | _KNOWN | {*_FREE, ""}
_STATE: Final = re.compile(r"[A-Z_]+(?: by \d+)?\+?")
_TIME: Final = re.compile(r"\d{4}|Unknown|None|N/A")
_NAME: Final = re.compile(r"[A-Za-z]+")
_HEAD: Final = re.compile(r"\s*(JobID(?:Raw)?)\b", re.IGNORECASE)


@final
class Columns:
    """Where the columns of a dump are.

    Attributes:
        unknown: The names of columns that sacct does not have.
        names: The names of all columns, in lower case.
    """

    def __init__(self, names: Sequence[str], delimiter: str) -> None:
        self._delimiter = delimiter
        # sacct --parsable ends each line with what parts columns.
        self._has_end = len(names) > 1 and not names[-1]
        names = names[:-1] if self._has_end else names
        places: dict[str, int] = {}
        for place, name in enumerate(names):
            places.setdefault(name.strip().lower(), place)
        self._count = len(names)
        used = [_place(places, choice, self._count) for choice in _USED]
        self._pick: Callable[[Sequence[str]], tuple[str, ...]] = itemgetter(*used)
        self.job_place = used[0]
        self._free = [places[name] for name in _FREE if name in places]
        self._state = places.get("state", 0)
        self._submit = _place(places, ("submit", "eligible"), 0)
        self.unknown = tuple(name for name in names if name.strip().lower() not in _NAMES)
        self.names = frozenset(places)

    def missing(self) -> Iterator[str]:
        """Yield what the jobs lack, because no column says it."""
        for choice, becomes in _MISSING:
            if not any(name.lower() in self.names for name in choice):
                yield f"no column {' or '.join(choice)}: {becomes}"

    def is_header(self, line: str) -> bool:
        """Return whether a line names columns again: several dumps may stand in one file."""
        names = line.lower().split(self._delimiter)
        return "jobid" in names or "jobidraw" in names

    def values(self, line: str) -> tuple[str, ...] | None:
        """Return the values of the columns that are read; None if their number is not right.

        A name of a job, or a constraint, may have in it what parts the columns.
        """
        values = line.split(self._delimiter)
        more = len(values) - self._count
        if more:
            if more > 0 and self._has_end and not values[-1]:
                values.pop()
                more -= 1
            joined = self._joined(values, more) if more else values
            if joined is None:
                return None
            values = joined
        values.append("")
        return self._pick(values)

    def _joined(self, values: list[str], more: int) -> list[str] | None:
        """Join what belongs to one column, so that the others have what they can have."""
        if more < 0:
            return None
        for place in self._free:
            end = place + more + 1
            one = self._delimiter.join(values[place:end])
            joined = [*values[:place], one, *values[end:]]
            if _STATE.fullmatch(joined[self._state]) and _TIME.match(joined[self._submit]):
                return joined
        return None


def _place(places: dict[str, int], choice: Sequence[str], absent: int) -> int:
    return next((places[name] for name in choice if name in places), absent)


def columns_of(line: str, file: str, number: int) -> Columns:
    """Return the columns that a header names.

    Raises:
        FeedError: If it is no header, or does not name what is needed.
    """
    names, delimiter = _names(line, file, number)
    columns = Columns(names, delimiter)
    lacks = [
        " or ".join(choice)
        for choice in (("Submit", "Eligible"), ("ElapsedRaw", "Elapsed", "End"), ("State",), _CPUS)
        if not any(name.lower() in columns.names for name in choice)
    ]
    if lacks:
        msg = f"has no column {', and no column '.join(lacks)}: make it with {RIGHT}"
        raise FeedError(file, msg, number)
    return columns


def _names(line: str, file: str, number: int) -> tuple[list[str], str]:
    text = line.strip()
    first = _NAME.match(text)
    rest = text[first.end() :] if first else ""
    delimiter = re.match(r"[^A-Za-z0-9\s]+|\t", rest)
    if delimiter is None or first is None or first[0].lower() not in _NAMES:
        if _HEAD.match(text) or _looks_padded(text):
            msg = f"its columns are padded with blanks: make it with {RIGHT}"
        else:
            msg = (
                "does not begin with a line that names the columns: leave out --noheader; "
                f"make it with {RIGHT}"
            )
        raise FeedError(file, msg, number)
    names = text.split(delimiter[0])
    if not {"jobid", "jobidraw"} & {name.strip().lower() for name in names}:
        msg = f"has no column JobID: make it with {RIGHT}"
        raise FeedError(file, msg, number)
    return names, delimiter[0]


def _looks_padded(text: str) -> bool:
    names = text.split()
    return len(names) > 1 and all(name.lower() in _NAMES for name in names)
