"""How jobs are scheduled: the time limits of partitions, and the type of the scheduler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.importing.slurm.cluster.conf import Conf
from muster.importing.slurm.cluster.tables import text_of
from muster.importing.slurm.values import is_unlimited, minutes_s
from muster.slurm._texts.nodes import fields_of

RIGHT: Final = "`(scontrol show config; scontrol show partition) > conf.txt`"
"""A command that prints what is needed."""

_SHOWN_PARTITION: Final = re.compile(r"^PartitionName=\S+\s+AllowGroups=", re.MULTILINE)
_SHOWN_CONFIG: Final = re.compile(r"^Configuration data as of ", re.MULTILINE)
_OPTION: Final = re.compile(r"(Scheduler(?:Type|Parameters))\s*=\s*(.*)")
_WHOLE: Final = ("clustername", "slurmctldhost", "controlmachine")
"""Options that each ``slurm.conf`` has: without them a file is a part of one."""

_DEFAULT_TYPE: Final = "sched/backfill"
_NONE: Final = ("", "none")

Placed = tuple[str, str]
"""A value, and where it stands, such as ``slurm.conf:12``."""


@final
@attrs.frozen
class Partition:
    """The time limits of a partition, in seconds.

    Attributes:
        default_s: That of jobs that do not say one; None if that is ``most_s``.
        most_s: The longest that jobs may say; None if there is none.
    """

    default_s: int | None
    most_s: int | None


@final
@attrs.frozen
class Setup:
    """How jobs are scheduled.

    Attributes:
        partitions: The time limits of partitions, by their names.
        scheduler: ``SchedulerType``; None if nothing says it.
        parameters: ``SchedulerParameters``; None if there are none.
    """

    partitions: Mapping[str, Partition] = attrs.Factory(dict[str, Partition])
    scheduler: Placed | None = None
    parameters: Placed | None = None


def read_setup(file: str) -> Setup:
    """Read a ``slurm.conf``, or what ``scontrol show config`` and ``show partition`` print.

    Raises:
        FeedError: If it cannot be read or is none of these, or a time limit is wrong.
    """
    text = text_of(file)
    if _SHOWN_PARTITION.search(text) or _SHOWN_CONFIG.search(text):
        return _shown(text, file)
    conf = Conf()
    conf.read(file)
    scheduler = _placed(conf, "schedulertype")
    if scheduler is None and any(name in conf.options for name in _WHOLE):
        scheduler = (_DEFAULT_TYPE, file)
    if scheduler is None and not conf.partitions:
        msg = (
            f"says neither SchedulerType nor partitions: give a slurm.conf, or make it with {RIGHT}"
        )
        raise FeedError(file, msg)
    partitions = {
        name: _partition(words, where, number)
        for name, (words, where, number) in conf.partitions.items()
    }
    return Setup(partitions, scheduler, _placed(conf, "schedulerparameters"))


def _placed(conf: Conf, name: str) -> Placed | None:
    if name not in conf.options:
        return None
    value, file, number = conf.options[name]
    return (value, f"{file}:{number}") if value else None


def _shown(text: str, file: str) -> Setup:
    """Read what scontrol prints: a partition begins with its name; its other lines are indented."""
    partitions: dict[str, Partition] = {}
    options: dict[str, Placed] = {}
    begun, first = "", 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if begun and line[:1].isspace():
            begun += f" {line}"
            continue
        if begun:
            words = {name.lower(): value for name, value in fields_of(begun).items()}
            partitions[words["partitionname"]] = _partition(words, file, first)
        begun, first = (line, number) if line.startswith("PartitionName=") else ("", number)
        option = _OPTION.match(line)
        if option is not None and option[2].strip().lower() not in ("", "(null)"):
            options[option[1]] = (option[2].strip(), f"{file}:{number}")
    return Setup(partitions, options.get("SchedulerType"), options.get("SchedulerParameters"))


def _partition(words: Mapping[str, str], file: str, number: int) -> Partition:
    """Return the limits of a partition; one that does not say the longest time has none."""
    return Partition(
        default_s=_limit("DefaultTime", words, file, number),
        most_s=_limit("MaxTime", words, file, number),
    )


def _limit(name: str, words: Mapping[str, str], file: str, number: int) -> int | None:
    text = words.get(name.lower(), "")
    if text.lower() in _NONE or is_unlimited(text):
        return None
    limit = minutes_s(text)
    if limit is None:
        msg = f"{name}: {text!r} is no time limit, such as 30, 1:30:00, 1-12 or UNLIMITED"
        raise FeedError(file, msg, number)
    return limit or None
