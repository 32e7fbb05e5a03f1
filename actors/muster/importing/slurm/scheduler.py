"""How Slurm schedules, as a configuration: scopes of backfill, their depths, the order of nodes.

Also how long jobs were expected to run, with which Slurm itself plans.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import takewhile
from typing import Final, cast, final

from muster.figures.text import counted
from muster.importing.nodes import NodeFields
from muster.importing.queues import queue_name_of
from muster.importing.slurm.conf import Partition, SchedulerOptions
from muster.importing.slurm.records import JOB, JobRecord
from muster.importing.slurm.resources import PARTITION
from muster.importing.slurm.values import minutes_s
from muster.importing.workload import ImportAccount, Workload
from muster_core.config.properties import MAX_DEPTH, MIN_RUNTIME
from muster_core.decisions import MICROSECONDS
from muster_core.values.resources import format_duration

YEAR_S: Final = 365 * 24 * 3600
"""As long as Slurm's backfill plans a job that has no limit, in a partition without one."""


# IMPORT-14
@final
class JobEstimates:
    """Gives the estimates of jobs.

    Args:
        partitions: The time limits of partitions, by their names, so far as they are known.
        account: Counts the jobs that did not say a time limit.
    """

    def __init__(self, partitions: Mapping[str, Partition], account: ImportAccount) -> None:
        self._partitions = partitions
        self._change = account.change

    def of(self, record: JobRecord, place: str) -> int | None:
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


_ORDERS: Final[Mapping[str, str]] = {"sched/backfill": "backfill", "sched/builtin": "strict"}
_OPTION: Final = "option of slurm.conf"
_PARAMETERS: Final = "schedulerparameters"
_SELECT: Final = "selecttypeparameters"
_TESTED: Final = "bf_max_job_test"
_EACH: Final = ("bf_job_part_count_reserve", "bf_max_job_part")
_DEFAULT_TESTED: Final = 500
"""The default for how many jobs Slurm's backfill tests."""

_LONGEST: Final = 40
"""The longest name of a scope, in characters, that names all its partitions."""

_GREEDY: Final = (
    "the queues are greedy, as no file says the SchedulerType of Slurm: give --slurm-conf with a "
    "slurm.conf, or with what `scontrol show config` prints"
)


# IMPORT-15
def order_of(setup: SchedulerOptions) -> str | None:
    """Return the ``scheduling.order`` that is like Slurm's; None if none is, or nothing says it."""
    return None if setup.scheduler is None else _ORDERS.get(setup.scheduler[0].lower())


# IMPORT-16
@final
class Scopes:
    """Says which partitions have one scope, and writes the scopes into a configuration.

    With backfill these are partitions that share nodes, as a reservation of Slurm holds back the
    jobs of all partitions on its nodes. With ``sched/builtin`` each partition is on its own.

    Args:
        setup: How Slurm schedules.
        nodes: The nodes of the feed, with the partitions that they are in.

    Attributes:
        names: The names of the scopes that jobs may have: none if all partitions have one.
    """

    def __init__(self, setup: SchedulerOptions, nodes: Sequence[NodeFields]) -> None:
        self._setup = setup
        self._order = order_of(setup)
        is_strict = self._order == "strict"
        self._groups = _alone(setup, nodes) if is_strict else _sharing(nodes)
        names = frozenset(self._groups.values())
        self.names: Collection[str] = names if self._order and len(names) > 1 else ()
        #: The partitions of the jobs of each queue.
        self._uses: dict[str, set[str]] = {}
        #: How long the longest job of each queue ran, in seconds; one that has not ended, for ever.
        self._longest: dict[str, float] = {}

    def name_of(self, partition: str) -> str:
        """Return the name of the scope of a partition; empty if all partitions have one."""
        return self._groups.get(partition, "") if self.names else ""

    def use(self, queue: str, partition: str, run_s: int | None) -> None:
        """Record that a job of a partition is in a queue.

        Args:
            queue: The queue.
            partition: The partition.
            run_s: How many seconds it ran, or None if it has not ended.
        """
        self._uses.setdefault(queue, set()).add(partition)
        longest_s = self._longest.get(queue, 0)
        self._longest[queue] = max(longest_s, math.inf if run_s is None else run_s)

    def take(self, workload: Workload) -> None:
        """Write order and depth into the settings of queues, when all jobs are read.

        Args:
            workload: Gets the settings, with comments; or a remark that there are none.
        """
        if self._order is None:
            if self._setup.scheduler is None:
                workload.remarks.append(_GREEDY)
            else:
                value, place = self._setup.scheduler
                text = "no order of a queue is like it: the queues are greedy"
                workload.account.note(_OPTION, text, place, f"SchedulerType={value}")
            return
        assert self._setup.scheduler is not None
        value, place = self._setup.scheduler
        workload.comments.append(
            f"scheduling.order: {self._order}, as SchedulerType is {value} ({place})."
        )
        for path, partitions in self._tops():
            properties = {"scheduling.order": self._order}
            what = f"{path}: {self._order}"
            if self._order == "backfill":
                depth, why = depth_of(self._setup, len(partitions))
                properties["backfill.depth"] = str(depth)
                what += f" with {counted(depth, 'reservation')} at a time, {why}"
            set_properties(workload, path, properties)
            named = sorted(partition for partition in partitions if partition)
            of = f" ({_shortened(named)})" if named else ""
            workload.remarks.append(f"{what}{of}")

    # IMPORT-25
    def take_run_limits(self, workload: Workload) -> None:
        """Write ``run.limit`` into the settings of queues for which ``MaxTime`` says the same.

        Args:
            workload: Gets the settings; its account the partitions whose ``MaxTime`` it is not.
        """
        known = self._setup.partitions
        others: set[str] = set()
        for path, names in sorted(self._uses.items()):
            limits = {known[name].most_s if name in known else None for name in names}
            limit_s = limits.pop() if len(limits) == 1 else None
            if limit_s is None or self._longest[path] > limit_s:
                others |= names
            else:
                limit = format_duration(limit_s * MICROSECONDS)
                set_properties(workload, path, {"run.limit": limit})
        for name, one in known.items():
            if name in others and one.most_s is not None:
                text = "its MaxTime is not the run.limit of each queue in which it has jobs"
                workload.account.note("partition", text, one.place, f"{name}, {one.most_s} s")

    def _tops(self) -> Iterator[tuple[str, AbstractSet[str]]]:
        """Yield the queue of each scope, with its partitions."""
        groups = {
            path: {self._groups.get(name, "") for name in names}
            for path, names in self._uses.items()
        }
        for top in tops_of(groups):
            below = [names for path, names in self._uses.items() if _is_in(path, top)]
            yield top, {name for names in below for name in names}


def set_properties(workload: Workload, path: str, more: Mapping[str, str]) -> None:
    """Give a queue properties besides those that it has."""
    setting = workload.settings.get(path, {})
    properties = cast("Mapping[str, str]", setting.get("properties", {}))
    workload.settings[path] = {**setting, "properties": {**properties, **more}}


def tops_of(groups: Mapping[str, AbstractSet[str]]) -> Sequence[str]:
    """Return queues of which each has all jobs of its groups below it, and none is below another.

    Args:
        groups: Of each queue with jobs the groups that they are of.
    """
    common: dict[str, list[str]] = {}
    for path, found in groups.items():
        names = path.split(".")
        for group in found:
            pairs = zip(common.get(group, names), names, strict=False)
            common[group] = [mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    paths = {".".join(names) for names in common.values()}
    tops = {
        path for path in paths if not any(_is_in(path, other) for other in paths if other != path)
    }
    return sorted(_raised(top, groups) for top in tops)


def _raised(top: str, paths: Collection[str]) -> str:
    """Return the topmost queue above one that has no other jobs below it."""
    while "." in top:
        above = top.rpartition(".")[0]
        if any(_is_in(path, above) and not _is_in(path, top) for path in paths):
            break
        top = above
    return top


def _is_in(path: str, queue: str) -> bool:
    return path == queue or path.startswith(f"{queue}.")


def _alone(setup: SchedulerOptions, nodes: Sequence[NodeFields]) -> Mapping[str, str]:
    """Return each partition as a group of its own."""
    names = {*setup.partitions, *(name for node in nodes for name in _partitions(node))}
    return {name: queue_name_of(name) for name in names}


def _sharing(nodes: Sequence[NodeFields]) -> Mapping[str, str]:
    """Return the group of each partition: it and those that share nodes with it."""
    groups: dict[str, list[str]] = {}
    for together in dict.fromkeys(tuple(_partitions(node)) for node in nodes):
        found = {id(group): group for name in together if (group := groups.get(name))}
        names = [*(name for group in found.values() for name in group), *together]
        merged = sorted(set(names))
        groups |= dict.fromkeys(merged, merged)
    return {name: queue_name_of(_shortened(group, "-")) for name, group in groups.items()}


def _partitions(node: NodeFields) -> Iterator[str]:
    return (key.removeprefix(PARTITION) for key in node.attributes if key.startswith(PARTITION))


def _shortened(names: Sequence[str], between: str = ", ") -> str:
    """Return names, or the first one and the number of the others if they are long."""
    text = between.join(names)
    if len(text) <= _LONGEST or len(names) < 2:
        return text
    return (
        f"{names[0]}-and-{len(names) - 1}-more"
        if between == "-"
        else counted(len(names), "partition")
    )


# IMPORT-17
def depth_of(setup: SchedulerOptions, partitions: int) -> tuple[int, str]:
    """Return the ``backfill.depth`` of a scope, with the options that it comes from.

    Args:
        setup: How Slurm schedules.
        partitions: How many partitions have the scope.
    """
    words = setup.words(_PARAMETERS)
    tested = _number(words, _TESTED) or _DEFAULT_TESTED
    each = {name: number for name in _EACH if (number := _number(words, name))}
    depth = min(tested, *(number * partitions for number in each.values()), MAX_DEPTH)
    settings = [f"{name}={number} for each partition" for name, number in each.items()]
    settings.append(f"{_TESTED}={tested}" + ("" if _TESTED in words else ", Slurm's default"))
    most = f"; {MAX_DEPTH} is the most" if depth == MAX_DEPTH else ""
    return depth, f"from {', '.join(settings)}{most}"


def _number(words: Mapping[str, str], name: str) -> int:
    text = words.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else 0


def note_parameters(setup: SchedulerOptions, workload: Workload) -> None:
    """Count the parameters of the scheduler that no queue has."""
    others = [name for name in setup.words(_PARAMETERS) if name not in (_TESTED, *_EACH)]
    if others:
        text = "no queue has what it says of the scheduler"
        _, place = setup.options[_PARAMETERS]
        workload.account.note(_OPTION, text, place, ", ".join(others)[:80])


# IMPORT-27
def take_min_runtime(setup: SchedulerOptions, workload: Workload) -> None:
    """Give ``root`` the time for which Slurm preempts no job.

    Args:
        setup: How Slurm schedules.
        workload: Gets the setting with a comment; its account what is no time.
    """
    value, place = setup.options.get("preemptexempttime", ("", ""))
    runtime_s = minutes_s(value)
    if runtime_s:
        runtime = format_duration(runtime_s * MICROSECONDS)
        set_properties(workload, "root", {MIN_RUNTIME.name: runtime})
        origin = f"as PreemptExemptTime is {value} ({place})"
        workload.comments.append(f"{MIN_RUNTIME.name}: {runtime}, {origin}.")
    elif runtime_s is None and value.strip() not in ("", "-1"):
        text = "is no time for which jobs are not preempted"
        workload.account.note(_OPTION, text, place, f"PreemptExemptTime={value}")


# IMPORT-18
def take_nodes(setup: SchedulerOptions, workload: Workload) -> None:
    """Give the configuration the order in which Slurm fills nodes.

    Args:
        setup: How Slurm schedules.
        workload: Gets the order of nodes with a comment; its account, the options that a feed
            cannot have.
    """
    value, place = setup.options.get(_SELECT, ("", ""))
    spreading = {name: one for name, one in setup.partitions.items() if one.spreads}
    spreads = "CR_LLN" in value.upper().split(",")
    if spreads or (spreading and len(spreading) == len(setup.partitions)):
        policy = "fair"
        setting = f"SelectTypeParameters={value} ({place})" if spreads else "LLN=YES"
        why = f"the least used node first, as {setting} says"
    else:
        policy = "binpacking"
        why = (
            "the most used node first: Slurm fills up nodes unless CR_LLN or LLN=YES says otherwise"
        )
        for name, one in spreading.items():
            text = "has LLN=YES, and its jobs get the most used node first, as all do"
            workload.account.note("partition", text, one.place, name)
    workload.partition["nodesortpolicy"] = {"type": policy}
    workload.comments.append(f"nodesortpolicy: {policy}: {why}.")
    workload.remarks.append(f"nodes: {why} ({policy})")
    _note_weights(workload)


def _note_weights(workload: Workload) -> None:
    weights = {node.weight for node in workload.nodes}
    if len(weights) > 1:
        text = "has a Weight above the lowest, and gets jobs as early as the others"
        heavy = [node for node in workload.nodes if node.weight > min(weights)]
        example = f"Weight={heavy[0].weight}"
        workload.account.note("node", text, heavy[0].name, example, count=len(heavy))
