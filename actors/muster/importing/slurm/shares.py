"""Shares and usage of accounts and users, as ``sshare`` prints them, for fair share over time.

Slurm's decayed usage has the form of a queue's usage: amounts times seconds, of which half is left
after a half-life. So a feed begins with what accounts and users have used, and goes on from there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set as AbstractSet
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.feeds._kinds import as_written
from muster.importing.dumps import file_text
from muster.importing.nodes import event_fields
from muster.importing.queues import name_of
from muster.importing.slurm.accounts import (
    LARGEST,
    AccountTree,
    PrioritySource,
    printed_accounts,
    resource_of,
    tree_of,
)
from muster.importing.slurm.conf import SchedulerOptions
from muster.importing.slurm.resources import MEMORY, VCORE
from muster.importing.slurm.scheduler import YEAR_S, set_properties
from muster.importing.slurm.values import MIB, Row, minutes_s, rows_of
from muster.importing.workload import ImportAccount, Workload
from muster_core.decisions import MICROSECONDS
from muster_core.values.resources import format_duration

RIGHT: Final = "sshare -a -l -P -o Account,User,RawShares,RawUsage,GrpTRESRaw"
"""A command that prints what is needed."""

_ACCOUNT: Final = "account"
_USER: Final = "user"
_PARENT: Final = "parent"
_WEEK_S: Final = 7 * 24 * 3600
_HALF_LIFE: Final = "prioritydecayhalflife"
_OPTION: Final = "option of slurm.conf"
_BILLED: Final = "RawUsage as vcore-seconds"
_EACH: Final = "GrpTRESRaw in seconds of each resource"
_NOT_TAKEN: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "PriorityUsageResetPeriod": ("usage is halved with time, and never reset", ("NONE",)),
    "PriorityFlags": ("shares count as with FAIR_TREE alone", ("FAIR_TREE", "0")),
}
"""What a feed has in place of options, with the values that say the same."""

_NUMBER: Final = re.compile(r"([0-9]{1,25})(?:\.[0-9]*)?", re.ASCII)


@final
@attrs.frozen
class ShareRow:
    """A line of ``sshare``.

    Attributes:
        account: The account.
        user: A user of it, or nothing for the account itself.
        shares: Its shares among those beside it.
        usage: What it has used, in unit-seconds by the names of resources; memory in bytes.
        place: Where it stands, such as ``sshare.txt:12``.
        raw: ``RawUsage`` as it was printed, if the usage is made of that; else None.
    """

    account: str
    user: str
    shares: int
    usage: Mapping[str, int]
    place: str
    raw: str | None = None

    @property
    def what(self) -> str:
        """Whether it is an account or a user."""
        return _USER if self.user else _ACCOUNT


@final
@attrs.frozen
class Shares:
    """All that ``sshare`` has printed.

    Attributes:
        rows: The lines of accounts, but the root, and of users.
        tree: The accounts as queues.
    """

    rows: Sequence[ShareRow]
    tree: AccountTree

    # IMPORT-29, IMPORT-30, IMPORT-33
    def take(
        self,
        queues: QueuesOfAccounts,
        setup: SchedulerOptions,
        workload: Workload,
        priority: PrioritySource,
        *,
        usage: bool,
    ) -> None:
        """Write weights and half-life into the configuration that is made, and usage into the feed.

        Args:
            queues: The queues of accounts, as they count for jobs.
            setup: How Slurm schedules.
            workload: Has all jobs; gets the settings and the events.
            priority: Where the priorities of asks come from.
            usage: Whether the feed begins with what was used.
        """
        has_users = any(row.user for row in self.rows)
        _take_half_life(setup, workload, priority, has_users=has_users)
        _note_options(setup, workload.account)
        for path, weight in self._weights(queues):
            set_properties(workload, path, {"queue.weight": str(weight)})
        if usage:
            self._take_usage(queues, workload)
            return
        workload.remarks.append("nobody has used anything at the start (--no-usage)")
        for row in self.rows:
            queues.count(row, workload.account)

    def _take_usage(self, queues: QueuesOfAccounts, workload: Workload) -> None:
        types = {name for node in workload.nodes for name in node.capacity}
        for row in self.rows:
            queue = queues.of(row, workload.account)
            if queue is not None:
                _add_usage(workload, types, queue, row.usage, row.user)
                if row.raw is not None:
                    text = "has no GrpTRESRaw: its RawUsage is taken as vcore-seconds"
                    workload.account.change(row.what, text, row.place, row.raw)
        for account, used in self._of_own_jobs(queues).items():
            leaves = queues.leaves(account)
            if len(leaves) == 1:
                _add_usage(workload, types, leaves[0], used)
        units = {_BILLED if row.raw is not None else _EACH for row in self.rows}
        units_text = " or ".join(sorted(units))
        workload.remarks.append(
            f"usage at the start: {units_text}, as it was when sshare printed it: give --no-usage if "
            "that was after the first jobs came, which are in it already"
        )

    def _of_own_jobs(self, queues: QueuesOfAccounts) -> Mapping[str, Mapping[str, int]]:
        """Return what the users of accounts with others below them have used, by account."""
        found: dict[str, Counter[str]] = {}
        for row in self.rows:
            if row.user and queues.has_others(row.account):
                found.setdefault(row.account, Counter()).update(row.usage)
        return found

    def _weights(self, queues: QueuesOfAccounts) -> Iterator[tuple[str, int]]:
        """Yield the weights of queues that are not 1."""
        own: dict[str, int] = {}
        for row in self.rows:
            if row.user:
                own[row.account] = own.get(row.account, 0) + row.shares
            elif row.shares != 1:
                yield from ((path, row.shares) for path in queues.places(row.account))
        for account, shares in own.items():
            if queues.has_others(account) and shares != 1:
                yield from ((path, min(shares, LARGEST)) for path in queues.leaves(account))


@final
class QueuesOfAccounts:
    """Which queues of the feed accounts have; an account has one for each scope of its jobs."""

    def __init__(self, tree: AccountTree, scopes: Collection[str], workload: Workload) -> None:
        self._tree = tree
        self._prefixes = ["root.", *(f"root.{scope}." for scope in sorted(scopes))]
        self._known = {
            ".".join(names[:depth])
            for names in (path.split(".") for path in workload.queues)
            for depth in range(1, len(names) + 1)
        }

    def places(self, account: str) -> Sequence[str]:
        """Return the queues of an account itself."""
        return self._found(self._tree.queues.get(account))

    def leaves(self, account: str) -> Sequence[str]:
        """Return the queues of its jobs."""
        return self._found(self._tree.paths.get(account))

    def has_others(self, account: str) -> bool:
        """Return whether there are accounts below it, so that its jobs have another queue."""
        return self._tree.queues.get(account) != self._tree.paths.get(account)

    def of(self, row: ShareRow, account: ImportAccount) -> str | None:
        """Return the queue for the usage of an account or a user; count why there is none."""
        found = self._queues_of(row)
        if len(found) < 2:
            return next(iter(found)) if self.count(row, account) else None
        account.read[row.what] += 1
        text = "has jobs in several scopes: its usage is left out, as nothing says of which"
        account.leave_out(row.what, text, row.place, row.user or row.account)
        return None

    def count(self, row: ShareRow, account: ImportAccount) -> bool:
        """Count a line, and return whether it has a queue."""
        account.read[row.what] += 1
        if self._queues_of(row):
            account.taken[row.what] += 1
            return True
        text = "has no queue in the feed: its usage is left out"
        account.leave_out(row.what, text, row.place, row.user or row.account)
        return False

    def _queues_of(self, row: ShareRow) -> Sequence[str]:
        return self.leaves(row.account) if row.user else self.places(row.account)

    def _found(self, path: str | None) -> Sequence[str]:
        if path is None:
            return ()
        return [place for prefix in self._prefixes if (place := f"{prefix}{path}") in self._known]


def _add_usage(
    workload: Workload,
    types: AbstractSet[str],
    queue: str,
    usage: Mapping[str, int],
    user: str = "",
) -> None:
    """Let the feed begin with the usage of some resources by a queue or a user."""
    event = event_fields(
        op="set_usage",
        queue=queue,
        user=name_of(user) or None,
        usage={name: as_written(amount) for name, amount in usage.items() if name in types},
    )
    workload.head.append(event)


def _take_half_life(
    setup: SchedulerOptions, workload: Workload, priority: PrioritySource, *, has_users: bool
) -> None:
    """Order the queues, and users if there are any, by their usage."""
    text, place = setup.options.get(_HALF_LIFE, ("", ""))
    half_life_s = minutes_s(text) if text else _WEEK_S
    if half_life_s is None:
        file, _, line = place.rpartition(":")
        msg = f"PriorityDecayHalfLife: {text!r} is no time, such as 7-0 or 12:00:00"
        raise FeedError(file, msg, int(line))
    why = f"PriorityDecayHalfLife is {text} ({place})" if text else "Slurm's default"
    if not half_life_s:
        half_life_s = YEAR_S
        cause = "forgets nothing, while a queue has forgotten half of its usage in a year"
        workload.account.change(_OPTION, cause, place, f"PriorityDecayHalfLife={text}")
    half_life = format_duration(half_life_s * MICROSECONDS)
    properties = {"usage.half.life": half_life}
    subjects = "queues"
    if has_users:
        properties |= {"usage.users": "enabled", "application.sort.policy": "fair"}
        subjects = "queues and users"
    set_properties(workload, "root", properties)
    workload.comments.append(f"usage.half.life: {half_life}, {why}.")
    equal = ""
    if priority is not PrioritySource.NONE:
        equal = f" among those of the same priority (--priority {priority})"
    remark = f"{subjects}: who had less lately, for its weight, goes first{equal} (--sshare)"
    workload.remarks.append(remark)


# IMPORT-33
def _note_options(setup: SchedulerOptions, account: ImportAccount) -> None:
    """Count the options that change shares or usage in Slurm, and are not in the feed."""
    for name, (text, usual) in _NOT_TAKEN.items():
        value, place = setup.options.get(name.lower(), ("", ""))
        if value and value.upper() not in usual:
            account.note(_OPTION, text, place, f"{name}={value}")
    for name, partition in setup.partitions.items():
        if partition.billing:
            text = "its TRESBillingWeights do not count: the largest part of the cluster does"
            account.note("partition", text, partition.place, f"{name}, {partition.billing}")


# IMPORT-29
def read_shares(file: str) -> Shares:
    """Read the output of ``sshare --parsable2``.

    Args:
        file: Its name.

    Raises:
        FeedError: If it cannot be used.
    """
    text = file_text(file)
    rows = rows_of(text, file, (_ACCOUNT, _USER, "rawshares", "rawusage"), RIGHT)
    accounts = (attrs.evolve(entry, fields={}) for entry in printed_accounts(text, file, RIGHT))
    tree = tree_of(list(accounts), file, ImportAccount())
    made = [_row(row, file) for row in rows if row[1][_ACCOUNT].strip() not in ("", "root")]
    return Shares(made, tree)


def _row(row: Row, file: str) -> ShareRow:
    number, fields = row
    raw = fields.get("grptresraw", "").strip()
    if raw:
        usage = _usage(raw, file, number)
    else:
        usage = {VCORE: _amount("RawUsage", fields["rawusage"], file, number)}
    return ShareRow(
        account=fields[_ACCOUNT].strip(),
        user=fields[_USER].strip(),
        shares=_shares(fields["rawshares"].strip(), file, number),
        usage=usage,
        place=f"{file}:{number}",
        raw=None if raw else fields["rawusage"].strip(),
    )


def _shares(text: str, file: str, number: int) -> int:
    """Return a number of shares; those of the parent, or none, count as 1."""
    if text.lower() in ("", _PARENT):
        return 1
    return min(max(_amount("RawShares", text, file, number), 1), LARGEST)


def _usage(text: str, file: str, number: int) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for part in text.split(","):
        tres, _, written = part.strip().partition("=")
        name = resource_of(tres)
        if name is not None:
            amount = _amount(f"GrpTRESRaw: {tres}", written, file, number)
            found[name] = amount * MIB if name == MEMORY else amount
    return found


def _amount(field: str, text: str, file: str, number: int) -> int:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise FeedError(file, f"{field}: {text!r} is not a number", number)
    return int(match[1])
