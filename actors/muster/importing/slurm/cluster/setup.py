"""How jobs are scheduled: what a ``slurm.conf`` says of partitions, and its options."""

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
_OPTION: Final = re.compile(r"([A-Za-z_0-9]+)\s*=\s*(.*)")
_WHOLE: Final = ("clustername", "slurmctldhost", "controlmachine")
"""Options that each ``slurm.conf`` has: without them a file is a part of one."""

_DEFAULT_TYPE: Final = "sched/backfill"
_NONE: Final = ("", "none")

Placed = tuple[str, str]
"""A value, and where it stands, such as ``slurm.conf:12``."""


@final
@attrs.frozen
class Partition:
    """What a partition says of its jobs.

    Attributes:
        default_s: The time limit of jobs that do not say one, in seconds; None if that is
            ``most_s``.
        most_s: The longest time limit that jobs may say, in seconds; None if there is none.
        spreads: Whether its jobs get the least loaded nodes: ``LLN``.
        tier: ``PriorityTier``: jobs of a higher one go first.
        place: Where it stands, such as ``slurm.conf:12``.
    """

    default_s: int | None
    most_s: int | None
    spreads: bool = False
    tier: int = 1
    place: str = ""


@final
@attrs.frozen
class Setup:
    """How jobs are scheduled.

    Attributes:
        partitions: What partitions say, by their names.
        scheduler: ``SchedulerType``; None if nothing says it.
        options: All options that have a value, by their names in lower case.
    """

    partitions: Mapping[str, Partition] = attrs.Factory(dict[str, Partition])
    scheduler: Placed | None = None
    options: Mapping[str, Placed] = attrs.Factory(dict[str, Placed])

    def words(self, option: str) -> Mapping[str, str]:
        """Return the parts of an option such as ``bf_window=60,defer``: names in lower case."""
        value, _ = self.options.get(option, ("", ""))
        parts = (part.partition("=") for part in value.split(",") if part.strip())
        return {name.strip().lower(): text.strip() for name, _, text in parts}


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
    options = {
        name: (value, f"{where}:{number}")
        for name, (value, where, number) in conf.options.items()
        if value
    }
    scheduler = options.get("schedulertype")
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
    return Setup(partitions, scheduler, options)


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
        option = None if begun else _OPTION.match(line)
        if option is not None and option[2].strip().lower() not in ("", "(null)"):
            options[option[1].lower()] = (option[2].strip(), f"{file}:{number}")
    return Setup(partitions, options.get("schedulertype"), options)


def _partition(words: Mapping[str, str], file: str, number: int) -> Partition:
    """Return what a partition says; one that does not say the longest time has no limit."""
    tier = words.get("prioritytier") or words.get("priority") or "1"
    if not re.fullmatch("[0-9]{1,5}", tier):
        msg = f"PriorityTier: {tier!r} is not a whole number up to 65533"
        raise FeedError(file, msg, number)
    return Partition(
        default_s=_limit("DefaultTime", words, file, number),
        most_s=_limit("MaxTime", words, file, number),
        spreads=words.get("lln", "").lower() == "yes",
        tier=int(tier),
        place=f"{file}:{number}",
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
