"""A record of ``sacct``: a run of a job, or a job that never ran, whatever form it was printed in."""

from __future__ import annotations

import re
from typing import Final, final

import attrs

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
class Wants:
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
class Record:
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
    wants: Wants
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
