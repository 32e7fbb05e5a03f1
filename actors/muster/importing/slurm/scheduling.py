"""The scheduler of Slurm as the order of the queue ``root``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.importing.slurm.cluster.setup import Setup
from muster.importing.workload.workload import Workload

_ORDERS: Final[Mapping[str, str]] = {"sched/backfill": "backfill", "sched/builtin": "strict"}
_WHAT: Final = "option of slurm.conf"
_BACKFILL: Final = (
    "One job has a reservation at a time. Slurm reserves nodes for each job that it tests, unless",
    "bf_job_part_count_reserve says for how many; here `backfill.depth` of this queue says it.",
)
_STRICT: Final = (
    "A job that does not fit keeps back all others; in Slurm only those of its partition.",
)


# IMPORT-15
def take_scheduler(setup: Setup, workload: Workload) -> None:
    """Give the queue ``root`` the order that Slurm has; note what the configuration does not say.

    Args:
        setup: How Slurm schedules.
        workload: Gets the setting of ``root``, with comments.
    """
    if setup.parameters is not None:
        value, place = setup.parameters
        example = f"SchedulerParameters={value}"[:80]
        workload.account.note(_WHAT, "no queue has it", place, example)
    if setup.scheduler is None:
        return
    value, place = setup.scheduler
    order = _ORDERS.get(value.lower())
    if order is None:
        text = "no order of a queue is like it: the queues are greedy"
        workload.account.note(_WHAT, text, place, f"SchedulerType={value}")
        return
    workload.settings["root"] = {"properties": {"scheduling.order": order}}
    workload.comments += [
        f"scheduling.order: {order}, as SchedulerType is {value} ({place}).",
        *(_BACKFILL if order == "backfill" else _STRICT),
    ]
