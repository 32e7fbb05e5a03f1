"""The priorities of jobs of Slurm: what the feed has of them, and what it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final, final

from muster.importing.slurm.cluster.setup import Setup
from muster.importing.slurm.records import Record
from muster.importing.workload.account import Account
from muster_core.decisions import MICROSECONDS

Priority = Callable[[Record], int]
"""Gives the priority of a job."""

_OPTION: Final = "option of slurm.conf"
_LARGEST: Final = 2**31 - 1
_BASIC_FROM: Final = 2**31
"""priority/basic counts down from 2^32; less this much, its numbers fit a feed."""

_ZERO_S: Final = 1_577_836_800
"""A job of 2020-01-01 has the priority 0 if the earliest goes first."""

_BASIC: Final = "priority/basic"
_WEIGHT: Final = "priorityweight"
_AGE: Final = "the oldest application of a queue goes first, and between queues age does not count"
_FAIR_SHARE: Final = (
    "use of the past does not count: the queue with the smaller present share goes first"
)
_NOT_COUNTED: Final[Mapping[str, str]] = {
    "fairshare": _FAIR_SHARE,
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
    TIER = "tier"
    ARRIVAL = "arrival"
    JOB = "job"
    QOS = "qos"


# IMPORT-19
def usual_source(setup: Setup) -> Source:
    """Return where priorities come from if the user does not say it: what is like Slurm's order.

    A whole ``slurm.conf`` without ``PriorityType`` means first in, first out.
    """
    if setup.scheduler is None:
        return Source.TIER
    value, _ = setup.options.get("prioritytype", (_BASIC, ""))
    return Source.ARRIVAL if value.lower() == _BASIC else Source.TIER


# IMPORT-19
def priority_of(source: Source, setup: Setup, qos: Mapping[str, int]) -> Priority:
    """Return what gives the priorities of jobs.

    Args:
        source: Where they come from.
        setup: Has the tiers of partitions.
        qos: The priority of each quality of service, by its name.
    """
    match source:
        case Source.QOS:
            return lambda record: qos.get(record.qos, 0)
        case Source.JOB:
            return _of_job
        case Source.ARRIVAL:
            return _of_arrival
        case Source.TIER if len(_tiers(setup)) > 1:
            tiers = {name: one.tier for name, one in setup.partitions.items()}
            return lambda record: tiers.get(record.wants.partition, 0)
        case _:
            return lambda _: 0


def _tiers(setup: Setup) -> set[int]:
    return {one.tier for one in setup.partitions.values()}


def _of_arrival(record: Record) -> int:
    """Return a priority that is higher the earlier a job could start; it fits a feed until 2088."""
    at_s = record.comes_us // MICROSECONDS
    return min(max(_ZERO_S - at_s, -_LARGEST), _LARGEST)


def _of_job(record: Record) -> int:
    """Return the priority that a job had when it started, or at last."""
    text = record.priority
    if not (text.isdecimal() and text.isascii() and len(text) < 20):
        return 0
    number = int(text)
    return number if number <= _LARGEST else min(number - _BASIC_FROM, _LARGEST)


# IMPORT-20
def note_priorities(source: Source, setup: Setup, account: Account) -> None:
    """Count what orders the jobs of Slurm, and is not in the feed or in another form.

    Args:
        source: Where the priorities of asks come from.
        setup: How Slurm schedules.
        account: Counts.
    """
    if source is Source.JOB:
        _change(account, setup, "prioritytype", "each priority is the one that sacct shows last")
    elif (
        source is not Source.ARRIVAL
        and "multifactor" in setup.options.get("prioritytype", ("", ""))[0].lower()
    ):
        for name, (value, place) in _weights(setup):
            if name == "age":
                _change(account, setup, _WEIGHT + name, _AGE)
            elif name == "qos" and source is Source.QOS:
                text = "the priority of the QOS goes before everything else"
                _change(account, setup, _WEIGHT + name, text)
            else:
                text = _NOT_COUNTED.get(name, "does not order jobs")
                account.note(_OPTION, text, place, f"PriorityWeight{name.capitalize()}={value}")
    elif source is Source.ARRIVAL:
        _change(account, setup, "prioritytype", "who came first has the highest priority")
    else:
        text = "jobs go first in, first out in each queue: between queues the smaller share does"
        _change(account, setup, "prioritytype", text)
    if len(_tiers(setup)) > 1:
        _note_tiers(source, setup, account)
    value, place = setup.options.get("preempttype", ("", ""))
    if value and value.lower() != "preempt/none":
        account.note(_OPTION, "no job is preempted", place, f"PreemptType={value}")


def _note_tiers(source: Source, setup: Setup, account: Account) -> None:
    for name, one in setup.partitions.items():
        if source is Source.TIER:
            text = "its PriorityTier is the priority of its jobs"
            account.change("partition", text, one.place, f"{name}, {one.tier}")
        else:
            text = "has a PriorityTier, which does not count: see --priority tier"
            account.note("partition", text, one.place, f"{name}, {one.tier}")


def _change(account: Account, setup: Setup, option: str, text: str) -> None:
    if option in setup.options:
        value, place = setup.options[option]
        account.change(_OPTION, text, place, value)


def _weights(setup: Setup) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the end of the name of each weight that counts, with its value and its place."""
    for option, placed in setup.options.items():
        if option.startswith(_WEIGHT) and placed[0] not in ("0", "NONE"):
            yield option.removeprefix(_WEIGHT), placed
