"""The priorities of jobs of Slurm: what the feed has of them, and what it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, final

from muster.importing.slurm.cluster.setup import Setup
from muster.importing.slurm.records import Record
from muster.importing.workload.account import Account
from muster.importing.workload.workload import Workload
from muster_core.decisions import MICROSECONDS

Priority = Callable[[Record], int]
"""Gives the priority of a job."""

_OPTION: Final = "option of slurm.conf"
_LARGEST: Final = 2**31 - 1
_BASIC_FROM: Final = 2**31
"""priority/basic counts down from 2^32; less this much, its numbers fit a feed."""

_ZERO_S: Final = 1_577_836_800
"""A job of 2020-01-01 has the priority 0 if the first to come goes first."""

_STEP: Final = 2**29
"""From one tier to the next; between them the instants of 34 years have room, two seconds each."""

_MOST_TIERS: Final = 8
_TIERS_FROM_S: Final = 1_104_537_600
"""The first of these years is 2005."""

_DISABLED: Final = "With `application.sort.priority: disabled` of root, the present shares of queues decide instead."
_WEIGHT: Final = "priorityweight"
_NOT_COUNTED: Final[Mapping[str, str]] = {
    "age": "age does not count",
    "fairshare": "use of the past does not count",
    "jobsize": "the size of a job does not count",
    "partition": "the PriorityJobFactor of a partition does not count",
    "qos": "the QOS of a job does not count: see --priority qos",
    "assoc": "the association of a job does not count",
    "tres": "what a job asks for does not count",
}
"""By the end of its name, what a weight of priority/multifactor counts that a feed does not."""


@final
class Source(StrEnum):
    """Where the priorities of asks come from."""

    NONE = "none"
    ARRIVAL = "arrival"
    JOB = "job"
    QOS = "qos"


_IN_FEED: Final = frozenset({("age", Source.ARRIVAL), ("qos", Source.QOS)})
"""The weights of which a feed has something, each with where its priorities come from."""


# IMPORT-19
def priority_of(source: Source | None, setup: Setup, qos: Mapping[str, int]) -> Priority:
    """Return what gives the priorities of jobs.

    Args:
        source: Where they come from; None for arrival if it is known how Slurm schedules.
        setup: Has the tiers of partitions.
        qos: The priority of each quality of service, by its name.
    """
    match source or usual_source(setup):
        case Source.QOS:
            return lambda record: qos.get(record.qos, 0)
        case Source.JOB:
            return _of_job
        case Source.ARRIVAL if len(_tiers(setup)) > 1:
            return _of_tiers(setup)
        case Source.ARRIVAL:
            return lambda record: _clamped(_ZERO_S - record.comes_us // MICROSECONDS)
        case Source.NONE:
            return lambda _: 0


def usual_source(setup: Setup) -> Source:
    """Return where priorities come from if the user does not say it."""
    return Source.NONE if setup.scheduler is None else Source.ARRIVAL


def _tiers(setup: Setup) -> Sequence[int]:
    return sorted({one.tier for one in setup.partitions.values()})


def _of_tiers(setup: Setup) -> Priority:
    """Return what puts jobs of a higher tier first, and then those that came first."""
    ranks = {tier: rank for rank, tier in enumerate(_tiers(setup)[-_MOST_TIERS:])}
    steps = {name: ranks.get(one.tier, 0) * _STEP for name, one in setup.partitions.items()}

    def priority(record: Record) -> int:
        age = (record.comes_us // MICROSECONDS - _TIERS_FROM_S) // 2
        return steps.get(record.wants.partition, 0) - _LARGEST - 1 + _STEP - 1 - _within(age)

    return priority


def _within(age: int) -> int:
    return min(max(age, 0), _STEP - 1)


def _clamped(number: int) -> int:
    return min(max(number, -_LARGEST), _LARGEST)


def _of_job(record: Record) -> int:
    """Return the priority that a job had when it started, or at last."""
    text = record.priority
    if not (text.isdecimal() and text.isascii() and len(text) < 20):
        return 0
    number = int(text)
    return number if number <= _LARGEST else min(number - _BASIC_FROM, _LARGEST)


# IMPORT-20
def note_priorities(source: Source | None, setup: Setup, workload: Workload) -> None:
    """Say what orders jobs, and count what orders the jobs of Slurm, and is not in the feed or in another form.

    Args:
        source: Where the priorities of asks come from, as for :func:`priority_of`.
        setup: How Slurm schedules.
        workload: Gets a comment and a remark; its account counts.
    """
    source, account = source or usual_source(setup), workload.account
    if source is Source.ARRIVAL:
        first = "the higher PriorityTier, then " if len(_tiers(setup)) > 1 else ""
        said = f"jobs: {first}who came first goes first, over all queues"
        workload.remarks.append(f"{said} (--priority arrival)")
        workload.comments += [f"{said}: the feed gives them such priorities.", _DISABLED]
    if source is Source.JOB:
        _change(account, setup, "prioritytype", "each priority is the one that sacct shows last")
    elif source is Source.ARRIVAL:
        _change(account, setup, "prioritytype", "who came first has the highest priority")
    elif source is Source.QOS:
        _change(account, setup, "prioritytype", "the priority of the QOS goes first")
    else:
        _change(
            account, setup, "prioritytype", "the queue with the smaller present share goes first"
        )
    if source is not Source.JOB:
        for name, (value, place) in _weights(setup):
            if (name, source) not in _IN_FEED:
                text = _NOT_COUNTED.get(name, "does not order jobs")
                account.note(_OPTION, text, place, f"PriorityWeight{name.capitalize()}={value}")
    if len(_tiers(setup)) > 1:
        _note_tiers(source, setup, account)
    value, place = setup.options.get("preempttype", ("", ""))
    if value and value.lower() != "preempt/none":
        account.note(_OPTION, "no job is preempted", place, f"PreemptType={value}")


def _note_tiers(source: Source, setup: Setup, account: Account) -> None:
    for name, one in setup.partitions.items():
        if source is Source.ARRIVAL:
            text = "the priority of its jobs has its PriorityTier in it"
            account.change("partition", text, one.place, f"{name}, {one.tier}")
        else:
            text = "has a PriorityTier, which does not count: see --priority arrival"
            account.note("partition", text, one.place, f"{name}, {one.tier}")


def _change(account: Account, setup: Setup, option: str, text: str) -> None:
    if option in setup.options:
        value, place = setup.options[option]
        account.change(_OPTION, text, place, value)


def _weights(setup: Setup) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the end of the name of each weight that counts, with its value and its place."""
    if "multifactor" not in setup.options.get("prioritytype", ("", ""))[0].lower():
        return
    for option, placed in setup.options.items():
        if option.startswith(_WEIGHT) and placed[0] not in ("0", "NONE"):
            yield option.removeprefix(_WEIGHT), placed
