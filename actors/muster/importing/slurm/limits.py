"""How long jobs of Slurm were expected to run: what Slurm itself plans with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from muster.importing.slurm.cluster.setup import Partition
from muster.importing.slurm.lines import JOB
from muster.importing.slurm.records import Record
from muster.importing.workload.account import Account

YEAR_S: Final = 365 * 24 * 3600
"""As long as Slurm's backfill plans a job that has no limit, in a partition without one."""


# IMPORT-14
@final
class Limits:
    """Gives the estimates of jobs.

    Args:
        partitions: The time limits of partitions, by their names, so far as they are known.
        account: Counts the jobs that did not say a time limit.
    """

    def __init__(self, partitions: Mapping[str, Partition], account: Account) -> None:
        self._partitions = partitions
        self._change = account.change

    def of(self, record: Record, place: str) -> int | None:
        """Return the estimate of a job in seconds; None if nothing says it."""
        if record.limit_s is not None:
            return record.limit_s
        name = record.wants.partition
        partition = self._partitions.get(name)
        if partition is not None:
            limit = None if record.is_unlimited else partition.default_s
            limit = limit or partition.most_s
            if limit is not None:
                text = "says no time limit: its estimate is that of its partition"
                self._change(JOB, text, place, f"{name}, {limit} s")
                return limit
        if record.is_unlimited or partition is not None:
            text = "has no time limit: its estimate is a year, as Slurm plans it"
            self._change(JOB, text, place, record.job)
            return YEAR_S
        text = "says no time limit: a backfill plans with the time that it really ran"
        self._change(JOB, text, place, record.job)
        return None
