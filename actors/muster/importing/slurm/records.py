"""Records of ``sacct``: a run of a job, or a job that never ran, from either form of its output.

``--parsable2`` prints a line that names the columns, and a line for each record. ``--json`` has the
layouts of Slurm 22.05 to 25.05: newer versions write ``{"set": true, "infinite": false, "number": 4}``
for many numbers, a list of words for a state, and objects for what had been a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, cast, final

import attrs

from muster.feeds import FeedError
from muster.feeds._files import Input
from muster.importing.dumps import lines_of, values_of
from muster.importing.slurm.values import TimeReader, duration_s, is_unlimited, limit_s
from muster.importing.workload import ImportAccount
from muster_core.decisions import MICROSECONDS

_ID: Final = re.compile(r"(\d{1,10})(?:_(\d{1,10})|_\[.*\])?(?:\+(\d{1,5}))?", re.ASCII)

RUNNING: Final = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "STOPPED"}
)
"""The states of jobs that have not ended."""

WAITING: Final = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
"""The states of jobs that wait, also for a further run."""


@final
@attrs.frozen
class JobId:
    """What names a job.

    Attributes:
        base: The number of the job, of the array, or of the first of jobs that start together.
        task: The number of the task of an array, or None.
        component: The number of the component of a heterogeneous job, or None.
    """

    base: int
    task: int | None = None
    component: int | None = None


def id_of(text: str) -> JobId | None:
    """Return what ``100``, ``100_3`` or ``100+1`` names; None if it names no single job.

    The rest of an array that waits, ``100_[4-9%2]``, has the number of the array.
    """
    match = _ID.fullmatch(text)
    if match is None:
        return None
    base, task, component = match.groups()
    return JobId(
        int(base),
        None if task is None else int(task),
        None if component is None else int(component),
    )


@final
@attrs.frozen
class JobRequest:
    """What a job asks for, as texts; jobs that are alike have equal ones.

    Attributes:
        req_tres: The trackable resources that it asked for.
        alloc_tres: Those that it had.
        memory: The memory that it asked for, such as ``4Gn``.
        cpus: The CPUs that it asked for, or had.
        nodes: On how many nodes it ran.
        partition: Its partition, or several, separated by commas.
        constraints: The features that its nodes had to have.
    """

    req_tres: str = ""
    alloc_tres: str = ""
    memory: str = ""
    cpus: str = ""
    nodes: str = ""
    partition: str = ""
    constraints: str = ""


@final
@attrs.frozen
class JobRecord:
    """A run of a job, or a job that never ran.

    Attributes:
        job: What names it, as it was printed.
        cluster: Its cluster; may be empty.
        state: Its state, in capital letters and without what may follow, such as ``CANCELLED``.
        submit_us: When it was submitted, in microseconds since 1970; None if that is not known.
        eligible_us: When it could start, so far as its dependencies and its begin time allowed
            it; None if that is not known.
        start_us: When it started; None if it did not, or nothing was printed.
        is_over: Whether it has ended.
        run_s: How long it ran, in seconds; None if that is not known.
        suspended_s: How long it was suspended, in seconds.
        wants: What it asks for.
        user: Who submitted it.
        group: The group of the user.
        account: Its account.
        qos: Its quality of service.
        name: Its name.
        reservation: The reservation in which it ran.
        wckey: Its workload characterisation key.
        priority: Its priority at the time it started, as it was printed.
        submit: The time at which it was submitted, as it was printed, for messages.
        limit_s: How long it may run, in seconds; None if that is not known, or without limit.
        is_unlimited: Whether it may run without limit.
    """

    job: str
    cluster: str
    state: str
    submit_us: int | None
    eligible_us: int | None
    start_us: int | None
    is_over: bool
    run_s: int | None
    suspended_s: int
    wants: JobRequest
    user: str
    group: str
    account: str
    qos: str
    name: str
    reservation: str
    wckey: str
    priority: str
    submit: str
    limit_s: int | None = None
    is_unlimited: bool = False

    @property
    def comes_us(self) -> int:
        """When a job comes: when it was submitted, or could start, if that was later."""
        submit_us, eligible_us = self.submit_us, self.eligible_us
        if submit_us is None or eligible_us is None or eligible_us <= submit_us:
            return submit_us if submit_us is not None else eligible_us or 0
        if self.start_us is not None and submit_us <= self.start_us < eligible_us:
            return self.start_us
        return eligible_us


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


JOB: Final = "job"
STEP: Final = "step"
_MOST_KNOWN: Final = 50_000


def read_lines(
    source: Input, times: TimeReader, account: ImportAccount
) -> Iterator[tuple[JobRecord, int]]:
    """Yield each job of a dump with its line; steps and broken lines are counted.

    Raises:
        FeedError: If it is no such dump.
    """
    reader = _Lines(source.name, times, account)
    try:
        for number, line in lines_of(source):
            record = reader.record(number, line)
            if record is not None:
                yield record, number
    finally:
        reader.count_steps()
    reader.finish()


@final
class _Lines:
    """Reads the lines of one file."""

    def __init__(self, file: str, times: TimeReader, account: ImportAccount) -> None:
        self._file = file
        self._times = times
        self._account = account
        self._columns: Columns | None = None
        self._steps = 0
        self._first_step = 0
        self._wants: dict[tuple[str, ...], JobRequest] = {}

    def finish(self) -> None:
        """Check what was read.

        Raises:
            FeedError: If there was nothing.
        """
        if self._columns is None:
            raise FeedError(self._file, f"is empty: make it with {RIGHT}")

    def count_steps(self) -> None:
        """Count the steps: they are parts of their jobs."""
        if self._steps:
            self._account.read[STEP] += self._steps
            place = f"{self._file}:{self._first_step}"
            self._account.leave_out(STEP, "part of a job", place, count=self._steps)
            self._steps = 0

    def record(self, number: int, line: str) -> JobRecord | None:
        """Return the job of a line, or None."""
        if self._columns is None:
            if line.strip():
                self._read_header(line, number)
            return None
        values = self._columns.values(line)
        if values is None or not values[0][:1].isdigit():
            if self._columns.is_header(line):
                self._read_header(line, number)
            else:
                self._broken(number, line)
            return None
        if "." in values[0]:
            self._steps += 1
            self._first_step = self._first_step or number
            return None
        self._account.read[JOB] += 1
        return self._record(values)

    def _read_header(self, line: str, number: int) -> None:
        self._columns = columns_of(line, self._file, number)
        for name in self._columns.unknown:
            text = f"no column of sacct that is known here is {name!r}: it is passed over"
            self._account.note("column", text, f"{self._file}:{number}")
        for text in self._columns.missing():
            self._account.note("dump", text, f"{self._file}:{number}")

    def _broken(self, number: int, line: str) -> None:
        if line.strip():
            self._account.read["line"] += 1
            place = f"{self._file}:{number}"
            text = "not the columns that the header names, or no job ID"
            self._account.leave_out("line", text, place, line[:80])

    def _record(self, values: tuple[str, ...]) -> JobRecord:
        (
            job, cluster, state, submit, eligible, start, end, elapsed_raw, elapsed, suspended,
            req_tres, alloc_tres, memory, req_cpus, alloc_cpus, nodes, partition, constraints,
            user, group, account, qos, name, reservation, wckey, priority,
            minutes, limit,
        ) = values  # fmt: skip
        word = state.partition(" ")[0].rstrip("+").upper()
        time = self._times.of
        submit_us = time(submit)
        eligible_us = submit_us if eligible == submit else time(eligible)
        start_us = time(start)
        end_us = time(end)
        run_s = duration_s(elapsed_raw or elapsed)
        if run_s is None and start_us is not None and end_us is not None and end_us >= start_us:
            run_s = (end_us - start_us) // MICROSECONDS
        key = (req_tres, alloc_tres, memory, req_cpus or alloc_cpus, nodes, partition, constraints)
        wants = self._wants.get(key)
        if wants is None:
            if len(self._wants) > _MOST_KNOWN:
                self._wants.clear()
            wants = self._wants[key] = JobRequest(*key)
        return JobRecord(
            job, cluster, word, submit_us, eligible_us, start_us,
            word not in RUNNING,
            run_s, duration_s(suspended) or 0 if suspended else 0,
            wants, user, group, account, qos, name, reservation, wckey, priority, submit,
            limit_s(minutes, limit), is_unlimited(minutes or limit),
        )  # fmt: skip


_LATEST_S: Final = 253_402_300_800
_LONGEST_S: Final = 10**10
_NOTHING: Final[Mapping[str, Any]] = {}
_FLAGS: Final = frozenset({"COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"})


def is_document(source: Input) -> bool:
    """Return whether a dump is JSON."""
    return source.head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def read_documents(source: Input, account: ImportAccount) -> Iterator[tuple[JobRecord, int]]:
    """Yield each job of a dump with its line; its steps are counted.

    Raises:
        FeedError: If it is no such dump.
    """
    for line, value in values_of(source.stream, source.name, "jobs"):
        account.read[JOB] += 1
        if not isinstance(value, dict):
            place = f"{source.name}:{line}"
            account.leave_out(JOB, "not a map of fields", place, repr(value)[:80])
            continue
        job = cast("Mapping[str, Any]", value)
        steps = job.get("steps")
        if isinstance(steps, list) and steps:
            count = len(cast("list[object]", steps))
            account.read[STEP] += count
            account.leave_out(STEP, "part of a job", f"{source.name}:{line}", count=count)
        yield _record(job), line


def _record(job: Mapping[str, Any]) -> JobRecord:
    times = _map(job, "time")
    state = _state(_map(job, "state").get("current", job.get("state")))
    return JobRecord(
        job=_job_id(job),
        cluster=_text(job.get("cluster")),
        state=state,
        submit_us=_instant(times.get("submission")),
        eligible_us=_instant(times.get("eligible")),
        start_us=_instant(times.get("start")),
        is_over=state not in RUNNING,
        run_s=_seconds(times.get("elapsed")),
        suspended_s=_seconds(times.get("suspended")) or 0,
        wants=_wants(job),
        user=_text(job.get("user")) or _text(_map(job, "association").get("user")),
        group=_text(job.get("group")),
        account=_text(job.get("account")),
        qos=_text(job.get("qos")),
        name=_text(job.get("name")),
        reservation=_text(_map(job, "reservation").get("name")),
        wckey=_text(_map(job, "wckey").get("wckey")),
        priority=str(_number(job.get("priority")) or ""),
        submit=str(times.get("submission", "")),
        limit_s=_limit(times.get("limit")),
        is_unlimited=_is_infinite(times),
    )


def _job_id(job: Mapping[str, Any]) -> str:
    """Return what sacct prints as JobID."""
    array, het = _map(job, "array"), _map(job, "het")
    base = _number(array.get("job_id"))
    if base:
        task = _number(array.get("task_id"))
        return f"{base}_{task}" if task is not None else f"{base}_[{_text(array.get('task'))}]"
    base, component = _number(het.get("job_id")), _number(het.get("job_offset"))
    if base and component is not None:
        return f"{base}+{component}"
    return str(_number(job.get("job_id")) or "")


def _wants(job: Mapping[str, Any]) -> JobRequest:
    tres, required = _map(job, "tres"), _map(job, "required")
    per_cpu = _number(required.get("memory_per_cpu"))
    memory = _number(required.get("memory_per_node")) or _number(required.get("memory"))
    return JobRequest(
        req_tres=_tres(tres.get("requested")),
        alloc_tres=_tres(tres.get("allocated")),
        memory=f"{per_cpu}Mc" if per_cpu else f"{memory}Mn" if memory else "",
        cpus=str(_number(required.get("CPUs")) or ""),
        nodes=str(_number(job.get("allocation_nodes")) or ""),
        partition=_text(job.get("partition")),
        constraints=_text(job.get("constraints")),
    )


def _tres(value: object) -> str:
    """Return trackable resources as sacct prints them; memory is in MiB in both."""
    if not isinstance(value, list):
        return ""
    found: list[str] = []
    for part in cast("list[object]", value):
        if isinstance(part, dict):
            entry = cast("Mapping[str, Any]", part)
            name, count = _text(entry.get("name")), _number(entry.get("count"))
            if count is not None and count > 0:
                kind = _text(entry.get("type"))
                found.append(f"{kind}/{name}={count}" if name else f"{kind}={count}")
    return ",".join(found)


def _state(value: object) -> str:
    """Return the state among the words that newer versions list."""
    words = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = [_text(word).partition(" ")[0].upper() for word in words]
    running = [text for text in texts if text in _FLAGS]
    return next((text for text in texts if text not in _FLAGS), running[0] if running else "")


def _map(job: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = job.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else _NOTHING


def _text(value: object) -> str:
    r"""Return a text; half of a character, which JSON can have, becomes ``\udNNN``."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


def _number(value: object) -> int | None:
    """Return a number in the old or in the new layout; None if it is not set, or infinite."""
    if isinstance(value, dict):
        form = cast("Mapping[str, Any]", value)
        if form.get("set") is not True or form.get("infinite") is True:
            return None
        value = form.get("number")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 10**18 else None


def _instant(value: object) -> int | None:
    number = _number(value)
    return number * MICROSECONDS if number is not None and 0 < number < _LATEST_S else None


def _limit(value: object) -> int | None:
    """Return a limit in seconds; it is in minutes, and 0 if it is not known."""
    number = _number(value)
    return number * 60 if number and number * 60 < _LONGEST_S else None


def _is_infinite(times: Mapping[str, Any]) -> bool:
    """Return whether there is no limit; Slurm 22.05 writes ``null`` then."""
    if "limit" in times and times["limit"] is None:
        return True
    return _map(times, "limit").get("infinite") is True


def _seconds(value: object) -> int | None:
    number = _number(value)
    return number if number is not None and number < _LONGEST_S else None
