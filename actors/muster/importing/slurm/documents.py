"""Records of ``sacct --json``, in the layouts of Slurm 22.05 to 25.05.

Newer versions write ``{"set": true, "infinite": false, "number": 4}`` for many numbers, a list of
words for a state, and objects for what had been a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from muster.feeds._encodings.source import Input
from muster.importing.slurm.lines import JOB, STEP
from muster.importing.slurm.records import RUNNING, Record, Wants
from muster.importing.workload.account import Account
from muster.importing.workload.json_list import values_of
from muster_core.decisions import MICROSECONDS

_LATEST_S: Final = 253_402_300_800
_LONGEST_S: Final = 10**10
_NOTHING: Final[Mapping[str, Any]] = {}
_FLAGS: Final = frozenset({"COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"})


def is_document(source: Input) -> bool:
    """Return whether a dump is JSON."""
    return source.head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def read_documents(source: Input, account: Account) -> Iterator[tuple[Record, int]]:
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


def _record(job: Mapping[str, Any]) -> Record:
    times = _map(job, "time")
    state = _state(_map(job, "state").get("current", job.get("state")))
    return Record(
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


def _wants(job: Mapping[str, Any]) -> Wants:
    tres, required = _map(job, "tres"), _map(job, "required")
    per_cpu = _number(required.get("memory_per_cpu"))
    memory = _number(required.get("memory_per_node")) or _number(required.get("memory"))
    return Wants(
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
