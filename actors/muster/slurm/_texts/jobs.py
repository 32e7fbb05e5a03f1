"""The jobs of ``squeue --json``, of which each version of Slurm writes some fields in another way.

22.05 writes a state as a text and an exit status as a wait status; later versions write lists of
states, and maps of numbers with flags. What cannot be read says nothing: the job stays as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, cast, final

import attrs

from muster.slurm._errors import SilentError, SlurmError


class Phase(StrEnum):
    """Where a job is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"
    UNKNOWN = "unknown"


_ENDED: Final = frozenset(
    {
        "COMPLETED",
        "FAILED",
        "TIMEOUT",
        "CANCELLED",
        "PREEMPTED",
        "NODE_FAIL",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "REVOKED",
    }
)
_ENDING: Final = frozenset({"COMPLETING", "STAGE_OUT"})
_WAITING: Final = frozenset(
    {
        "PENDING",
        "CONFIGURING",
        "POWER_UP_NODE",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
    }
)
_RUNNING: Final = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"})


@final
@attrs.frozen
class Job:
    """A job, or one component of a heterogeneous job.

    Attributes:
        id: Its number.
        phase: Where it is in its life.
        state: Slurm's state: ``RUNNING``, ``NODE_FAIL``, ….
        reason: Slurm's reason for this state.
        status: The exit status of the script, or minus the number of the signal that ended it.
        comment: Its comment.
        nodes: Its nodes, as Slurm writes them: ``n[1-3]``.
        first_node: The node on which the script runs.
        leader: The number of the first component, for a heterogeneous job; else 0.
        offset: The place among the components.
        user: The number of its user; None if it is not known.
    """

    id: int
    phase: Phase
    state: str
    reason: str = ""
    status: int | None = None
    comment: str = ""
    nodes: str = ""
    first_node: str = ""
    leader: int = 0
    offset: int = 0
    user: int | None = None


def read_jobs(printed: str) -> dict[int, Job]:
    """Read what ``squeue --json`` has printed.

    Raises:
        SilentError: If it says that there was an error. When slurmctld is away, squeue 22.05 prints
            an empty list beside the error, and its exit status is 0.
        SlurmError: If it is not a list of jobs.
    """
    try:
        whole: Any = json.loads(printed)
    except ValueError:
        whole = None
    known = cast("dict[str, Any]", whole) if isinstance(whole, dict) else {}
    jobs: Any = known.get("jobs")
    if not isinstance(jobs, list):
        start = printed[:60]
        msg = f"squeue: expected a map with a list of jobs, as --json prints it, but got {start!r}"
        raise SlurmError(msg)
    if known.get("errors"):
        msg = f"squeue: {json.dumps(known['errors'])}"
        raise SilentError(msg)
    read = (
        _job(cast("Mapping[str, Any]", one))
        for one in cast("list[object]", jobs)
        if isinstance(one, dict)
    )
    return {job.id: job for job in read if job is not None}


def _job(written: Mapping[str, Any]) -> Job | None:
    number = _number(written.get("job_id"))
    if number is None:
        return None
    states = _states(written.get("job_state"))
    return Job(
        id=number,
        phase=phase_of(states),
        state=next((state for state in states if state in _ENDED), states[0] if states else ""),
        reason=_text(written.get("state_reason")),
        status=_status(written.get("exit_code")),
        comment=_text(written.get("comment")),
        nodes=_text(written.get("nodes")),
        first_node=_text(written.get("batch_host")),
        leader=_number(written.get("het_job_id")) or 0,
        offset=_number(written.get("het_job_offset")) or 0,
        user=_number(written.get("user_id")),
    )


def phase_of(states: tuple[str, ...]) -> Phase:
    """Return where a job with these states is in its life."""
    for names, phase in (
        (_ENDING, Phase.ENDING),
        (_ENDED, Phase.ENDED),
        (_WAITING, Phase.WAITING),
        (_RUNNING, Phase.RUNNING),
    ):
        if not names.isdisjoint(states):
            return phase
    return Phase.UNKNOWN


def _states(written: object) -> tuple[str, ...]:
    if isinstance(written, str):
        return tuple(written.upper().split("+"))
    if isinstance(written, list):
        return tuple(str(one).upper() for one in cast("list[object]", written))
    return ()


def _text(written: object) -> str:
    if isinstance(written, dict):  # some versions: {"administrator": …, "job": …, "system": …}
        written = cast("dict[str, object]", written).get("job")
    return written if isinstance(written, str) else ""


def _number(written: object) -> int | None:
    if isinstance(written, dict):
        found = cast("dict[str, object]", written)
        return _number(found.get("number")) if found.get("set", True) else None
    if isinstance(written, int) and not isinstance(written, bool):
        return written
    return None


def _status(written: object) -> int | None:
    """Return an exit status, or minus the number of a signal."""
    if not isinstance(written, dict):
        wait_status = _number(written)
        return None if wait_status is None else _of_wait_status(wait_status)
    found = cast("dict[str, object]", written)
    signal: object = found.get("signal")
    if isinstance(signal, dict):
        named = cast("dict[str, object]", signal)
        signal = named.get("id", named.get("signal_id"))
    number = _number(signal)
    if number:
        return -number
    return _number(found.get("return_code"))


def _of_wait_status(wait_status: int) -> int | None:
    try:
        return os.waitstatus_to_exitcode(wait_status & 0xFFFF)
    except ValueError:
        return None
