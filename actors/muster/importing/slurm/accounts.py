"""Accounts, qualities of service, and the priorities of jobs.

``sacctmgr show associations tree`` prints the tree of accounts, or ``sacctmgr dump`` writes it;
``sacctmgr show qos`` prints the priorities of qualities of service. What the feed cannot have of
the priorities of jobs is noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.importing.dumps import file_text
from muster.importing.queues import name_of, queue_name_of
from muster.importing.slurm.conf import SchedulerOptions
from muster.importing.slurm.records import JobRecord
from muster.importing.slurm.resources import GPU, MEMORY, VCORE
from muster.importing.slurm.scheduler import set_properties
from muster.importing.slurm.values import minutes_s, rows_of, tres_of
from muster.importing.workload import ImportAccount, Workload
from muster_core.config.properties import AGING, AGING_LIMIT
from muster_core.decisions import MICROSECONDS
from muster_core.values.resources import format_duration

_RIGHT: Final = "sacctmgr --parsable2 show qos"
LARGEST: Final = 2**31 - 1
"""The largest priority, and the largest weight of a queue."""


def read_qos(file: str) -> Mapping[str, int]:
    """Return the priority of each quality of service, by its name.

    Raises:
        FeedError: If the file cannot be used.
    """
    found: dict[str, int] = {}
    for number, row in rows_of(file_text(file), file, ("name", "priority"), _RIGHT):
        written = row["priority"].strip()
        if not (written.isdecimal() and written.isascii() and len(written) < 20):
            msg = f"Priority: {written!r} is not a whole number"
            raise FeedError(file, msg, number)
        found[row["name"].strip()] = min(int(written), LARGEST)
    return found


RIGHT: Final = "sacctmgr --parsable2 show associations tree"
"""A command that prints the tree."""

_ROOT: Final = "root"
_DUMPED: Final = re.compile(r"^(Cluster|Parent|Account|User) - '([^']*)'(.*)$", re.MULTILINE)
_OPTION: Final = re.compile(r":([A-Za-z]+)=('[^']*'|[^:]*)")
_LIMITS: Final = re.compile(r"(grp|max)(?!tres$)[a-z]+")
_TYPES: Final = {"cpu": VCORE, "mem": MEMORY, "gres/gpu": GPU}


def resource_of(tres: str) -> str | None:
    """Return the name of the resource that is a trackable resource; None for another one."""
    called = _TYPES.get(tres)
    if called is None and tres.startswith("gres/") and ":" not in tres:
        called = name_of(tres.removeprefix("gres/"))
    return called


@final
@attrs.frozen
class DumpedAccount:
    """An account as it was read.

    Attributes:
        name: Its name.
        parent: The account above it.
        line: Its line, from 1.
        fields: Its settings, by names in lower case.
    """

    name: str
    parent: str
    line: int
    fields: Mapping[str, str]


@final
@attrs.frozen
class AccountTree:
    """The tree of accounts as queues.

    Attributes:
        paths: Of each account the path of the queue of its jobs, without ``root``.
        queues: Of each account the path of its own queue, without ``root``: the one above that
            of its jobs if there are accounts below it.
        settings: The settings of the queues of accounts in the configuration, by path.
    """

    paths: Mapping[str, str] = attrs.Factory(dict[str, str])
    queues: Mapping[str, str] = attrs.Factory(dict[str, str])
    settings: Mapping[str, Mapping[str, object]] = attrs.Factory(dict[str, Mapping[str, object]])


# IMPORT-12
def read_accounts(file: str, account: ImportAccount) -> AccountTree:
    """Read a tree of accounts; settings that a configuration cannot have are noted.

    Args:
        file: The file.
        account: Counts the noted settings.

    Raises:
        FeedError: If it cannot be used.
    """
    text = file_text(file)
    entries = list(_dumped(text) if _DUMPED.search(text) else printed_accounts(text, file, RIGHT))
    return tree_of(entries, file, account)


def tree_of(entries: Sequence[DumpedAccount], file: str, account: ImportAccount) -> AccountTree:
    """Return accounts as queues.

    An account with accounts below it may have jobs in Slurm. They go to a queue of its own name
    below its queue: only leaves have jobs.

    Args:
        entries: The accounts; of a repeated one the first entry counts.
        file: The name of the file.
        account: Counts the settings that a configuration cannot have.

    Raises:
        FeedError: If they make no tree.
    """
    known: dict[str, DumpedAccount] = {}
    for entry in entries:
        other = known.setdefault(entry.name, entry)
        if other.parent != entry.parent:
            msg = (
                f"the account {entry.name} is below {other.parent} and below {entry.parent}: "
                "give the accounts of one cluster"
            )
            raise FeedError(file, msg, entry.line)
    parents = {entry.parent for entry in entries}
    paths: dict[str, str] = {}
    queues: dict[str, str] = {}
    limits: dict[str, Mapping[str, int]] = {}
    for entry in known.values():
        path = queues[entry.name] = _path(entry, known, file)
        name = path.rpartition(".")[2]
        paths[entry.name] = f"{path}.{name}" if entry.name in parents else path
        limits[f"root.{path}"] = _limit(entry, file, account)
    settings = {path: _setting(path, limits) for path, limit in limits.items() if limit}
    return AccountTree(paths, queues, settings)


def _setting(path: str, limits: Mapping[str, Mapping[str, int]]) -> Mapping[str, object]:
    """Return the settings of a queue: it gets no more than the queues above it."""
    most = dict(limits[path])
    above = path
    while "." in above:
        above = above.rpartition(".")[0]
        for name, amount in limits.get(above, {}).items():
            if name in most:
                most[name] = min(amount, most[name])
    return {"resources": {"max": {name: _amount_text(name, most[name]) for name in most}}}


def _amount_text(name: str, amount: int) -> int | str:
    """Return an amount as people write it: memory in GiB or MiB where that is exact."""
    if name == MEMORY and amount:
        for suffix, factor in (("Gi", 1 << 30), ("Mi", 1 << 20)):
            if not amount % factor:
                return f"{amount // factor}{suffix}"
    return amount


def _path(entry: DumpedAccount, known: Mapping[str, DumpedAccount], file: str) -> str:
    names = [queue_name_of(entry.name)]
    above = entry
    while above.parent != _ROOT:
        parent = known.get(above.parent)
        if parent is None or len(names) > len(known):
            problem = "is not there" if parent is None else "is below itself"
            msg = f"the account {above.parent} above {above.name} {problem}"
            raise FeedError(file, msg, above.line)
        above = parent
        names.append(queue_name_of(above.name))
    return ".".join(reversed(names))


def _dumped(text: str) -> Iterator[DumpedAccount]:
    """Yield the accounts of a file that ``sacctmgr dump`` has written."""
    parent = _ROOT
    for match in _DUMPED.finditer(text):
        kind, name, rest = match.groups()
        if kind == "Parent":
            parent = name
        elif kind == "Account" and name != _ROOT:
            fields = {key.lower(): value.strip("'") for key, value in _OPTION.findall(rest)}
            line = text.count("\n", 0, match.start()) + 1
            yield DumpedAccount(name, fields.get("parent", parent), line, fields)


def printed_accounts(text: str, file: str, right: str) -> Iterator[DumpedAccount]:
    """Yield the accounts of a table; blanks before a name show how deep it is.

    Args:
        text: The output of the command.
        file: Its name for messages.
        right: The command that prints such a table.

    Raises:
        FeedError: If it is no such table, or does not show which account is below which.
    """
    rows = rows_of(text, file, ("account",), right)
    has_parents = bool(rows) and "parentname" in rows[0][1]
    above: list[str] = []
    is_tree = has_parents or any(row["account"].startswith(" ") for _, row in rows)
    for number, row in rows:
        name, user = row["account"].strip(), row.get("user", "").strip()
        if user or not name:
            continue
        depth = len(row["account"]) - len(row["account"].lstrip())
        above[depth:] = [name]
        if name == _ROOT:
            continue
        if not is_tree:
            msg = f"does not say which account is below which: make it with {right}"
            raise FeedError(file, msg, number)
        parent = row["parentname"].strip() if has_parents else (above[-2:-1] or [_ROOT])[0]
        yield DumpedAccount(name, parent or _ROOT, number, row)


def _limit(entry: DumpedAccount, file: str, account: ImportAccount) -> Mapping[str, int]:
    """Return the ``max`` of an account's queue, and note limits that are not modelled."""
    place = f"{file}:{entry.line}"
    share = entry.fields.get("share") or entry.fields.get("fairshare") or "1"
    if share != "1":
        account.note("account", "has a share, which counts only with --sshare", place, share)
    for name, value in entry.fields.items():
        if _LIMITS.fullmatch(name) and value.strip():
            text = "has a limit other than GrpTRES, which its queue does not get"
            account.note("account", text, place, f"{name}={value}")
    limit: dict[str, int] = {}
    for name, amount in tres_of(entry.fields.get("grptres", "")).items():
        called = resource_of(name)
        if called:
            limit[called] = amount
        else:
            text = f"limits {name} in its GrpTRES, which its queue does not"
            account.note("account", text, place, str(amount))
    return limit


Priority = Callable[[JobRecord], int]
"""Gives the priority of a job."""

_CONF_OPTION: Final = "option of slurm.conf"
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
"""The factors of priority/multifactor that a feed does not have, by the end of the name of the weight."""


@final
class PrioritySource(StrEnum):
    """Where the priorities of asks come from."""

    NONE = "none"
    ARRIVAL = "arrival"
    JOB = "job"
    QOS = "qos"


_PAST: Final = "the queue with the smaller past share goes first"
_GOES_FIRST: Final[Mapping[PrioritySource, str]] = {
    PrioritySource.JOB: "each priority is the one that sacct shows last",
    PrioritySource.ARRIVAL: "who came first has the highest priority",
    PrioritySource.QOS: "the priority of the QOS goes first",
    PrioritySource.NONE: "the queue with the smaller present share goes first",
}
"""The order of the jobs of the feed, in place of ``PriorityType``."""

_IN_FEED: Final = frozenset({("age", PrioritySource.ARRIVAL), ("qos", PrioritySource.QOS)})
"""The weights of which a feed has something, each with where its priorities come from."""


# IMPORT-19
def priority_of(
    source: PrioritySource, setup: SchedulerOptions, qos: Mapping[str, int]
) -> Priority:
    """Return the function for the priorities of jobs.

    Args:
        source: Where they come from.
        setup: Has the tiers of partitions.
        qos: The priority of each quality of service, by its name.
    """
    match source:
        case PrioritySource.QOS:
            return lambda record: qos.get(record.qos, 0)
        case PrioritySource.JOB:
            return _of_job
        case PrioritySource.ARRIVAL if len(_tiers(setup)) > 1:
            return _of_tiers(setup)
        case PrioritySource.ARRIVAL:
            return lambda record: _clamped(_ZERO_S - record.comes_us // MICROSECONDS)
        case PrioritySource.NONE:
            return lambda _: 0


def usual_source(setup: SchedulerOptions, *, has_shares: bool) -> PrioritySource:
    """Return the default source of priorities.

    Args:
        setup: How Slurm schedules.
        has_shares: Whether past shares order jobs, which count only among equal priorities.
    """
    if has_shares or setup.scheduler is None:
        return PrioritySource.NONE
    return PrioritySource.ARRIVAL


def _tiers(setup: SchedulerOptions) -> Sequence[int]:
    return sorted({one.tier for one in setup.partitions.values()})


def _of_tiers(setup: SchedulerOptions) -> Priority:
    """Return the function that puts jobs of a higher tier first, and then those that came first."""
    ranks = {tier: rank for rank, tier in enumerate(_tiers(setup)[-_MOST_TIERS:])}
    steps = {name: ranks.get(one.tier, 0) * _STEP for name, one in setup.partitions.items()}

    def priority(record: JobRecord) -> int:
        age = (record.comes_us // MICROSECONDS - _TIERS_FROM_S) // 2
        return steps.get(record.wants.partition, 0) - LARGEST - 1 + _STEP - 1 - _within(age)

    return priority


def _within(age: int) -> int:
    return min(max(age, 0), _STEP - 1)


def _clamped(number: int) -> int:
    return min(max(number, -LARGEST), LARGEST)


def _of_job(record: JobRecord) -> int:
    """Return the priority that a job had when it started, or at last."""
    text = record.priority
    if not (text.isdecimal() and text.isascii() and len(text) < 20):
        return 0
    number = int(text)
    return number if number <= LARGEST else min(number - _BASIC_FROM, LARGEST)


_WEEK_S: Final = 7 * 24 * 3600
"""The default ``PriorityMaxAge``."""

_AGES: Final = "jobs age by `priority.aging` of root, in steps"


# IMPORT-26
def take_age(
    source: PrioritySource | None,
    setup: SchedulerOptions,
    qos: Mapping[str, int],
    workload: Workload,
) -> bool:
    """Let the jobs of the feed age by ``PriorityWeightAge``, beside their QOS.

    Returns:
        Whether they do; without the QOS the worth of their age is unknown.
    """
    weights, highest = dict(_weights(setup)), max(qos.values(), default=0)
    flags = setup.options.get("priorityflags", ("", ""))[0].upper().split(",")
    if source is not PrioritySource.QOS or not highest or "NO_NORMAL_QOS" in flags:
        return False
    age, place = weights.get("age", ("", ""))
    beside = weights.get("qos", ("", ""))[0]
    most_s = minutes_s(setup.options.get("prioritymaxage", ("", ""))[0]) or _WEEK_S
    if not (_is_number(age) and _is_number(beside)):
        return False
    # Of both weights, the priorities of asks have only that of the QOS in them.
    limit = min(max(int(age) * highest // int(beside), 1), LARGEST)
    step_us = max(most_s * MICROSECONDS // limit, 1)
    properties = {AGING.name: format_duration(step_us), AGING_LIMIT.name: f"{limit}"}
    set_properties(workload, "root", properties)
    workload.account.change(_CONF_OPTION, _AGES, place, f"PriorityWeightAge={age}")
    return True


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 11


# IMPORT-20
def note_priorities(
    source: PrioritySource,
    setup: SchedulerOptions,
    workload: Workload,
    *,
    has_shares: bool,
    ages: bool,
) -> None:
    """Say what orders jobs, and count what orders the jobs of Slurm, and is not in the feed or in another form.

    Args:
        source: Where the priorities of asks come from.
        setup: How Slurm schedules.
        workload: Gets a comment and a remark; its account counts.
        has_shares: Whether past shares order jobs.
        ages: Whether the age of jobs counts in the feed.
    """
    account = workload.account
    if source is PrioritySource.ARRIVAL:
        first = "the higher PriorityTier, then " if len(_tiers(setup)) > 1 else ""
        order = f"jobs: {first}who came first goes first, over all queues"
        workload.remarks.append(f"{order} (--priority arrival)")
        workload.comments += [f"{order}: the feed gives them such priorities.", _DISABLED]
    if "prioritytype" in setup.options:
        value, place = setup.options["prioritytype"]
        first = _PAST if has_shares and source is PrioritySource.NONE else _GOES_FIRST[source]
        account.change(_CONF_OPTION, first, place, value)
    if source is not PrioritySource.JOB:
        for name, (value, place) in _weights(setup):
            others = {"fairshare": has_shares, "age": ages}
            if (name, source) not in _IN_FEED and not others.get(name, False):
                text = _NOT_COUNTED.get(name, "does not order jobs")
                account.note(
                    _CONF_OPTION, text, place, f"PriorityWeight{name.capitalize()}={value}"
                )
    if len(_tiers(setup)) > 1:
        _note_tiers(source, setup, account)
    value, place = setup.options.get("preempttype", ("", ""))
    if value and value.lower() != "preempt/none":
        account.note(_CONF_OPTION, "no job is preempted", place, f"PreemptType={value}")


def _note_tiers(source: PrioritySource, setup: SchedulerOptions, account: ImportAccount) -> None:
    for name, one in setup.partitions.items():
        if source is PrioritySource.ARRIVAL:
            text = "the priority of its jobs has its PriorityTier in it"
            account.change("partition", text, one.place, f"{name}, {one.tier}")
        else:
            text = "has a PriorityTier, which does not count: see --priority arrival"
            account.note("partition", text, one.place, f"{name}, {one.tier}")


def _weights(setup: SchedulerOptions) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the end of the name of each weight that counts, with its value and its place."""
    if "multifactor" not in setup.options.get("prioritytype", ("", ""))[0].lower():
        return
    for option, placed in setup.options.items():
        if option.startswith(_WEIGHT) and placed[0] not in ("0", "NONE"):
            yield option.removeprefix(_WEIGHT), placed
