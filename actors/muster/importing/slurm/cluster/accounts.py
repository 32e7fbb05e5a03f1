"""The tree of accounts: what ``sacctmgr show associations tree`` prints, or ``sacctmgr dump`` writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.importing.slurm.cluster.tables import rows_of, text_of
from muster.importing.slurm.shapes import GPU, MEMORY, VCORE
from muster.importing.slurm.values import tres_of
from muster.importing.workload.account import Account
from muster.importing.workload.texts import name_of, queue_name_of

RIGHT: Final = "sacctmgr --parsable2 show associations tree"
"""A command that prints the tree."""

_ROOT: Final = "root"
_DUMPED: Final = re.compile(r"^(Cluster|Parent|Account|User) - '([^']*)'(.*)$", re.MULTILINE)
_OPTION: Final = re.compile(r":([A-Za-z]+)=('[^']*'|[^:]*)")
_LIMITS: Final = re.compile(r"(grp|max)(?!tres$)[a-z]+")
_TYPES: Final = {"cpu": VCORE, "mem": MEMORY, "gres/gpu": GPU}


@final
@attrs.frozen
class Entry:
    """An account as it was read.

    Attributes:
        name: Its name.
        parent: The account above it.
        line: Where it stands, from 1.
        fields: What is set for it, by names in lower case.
    """

    name: str
    parent: str
    line: int
    fields: Mapping[str, str]


@final
@attrs.frozen
class Tree:
    """The tree of accounts as queues.

    Attributes:
        paths: Of each account the path of the queue of its jobs, without ``root``.
        settings: What the configuration says of the queues of accounts, by path.
    """

    paths: Mapping[str, str] = attrs.Factory(dict[str, str])
    settings: Mapping[str, Mapping[str, object]] = attrs.Factory(dict[str, Mapping[str, object]])


# IMPORT-12
def read_accounts(file: str, account: Account) -> Tree:
    """Read a tree of accounts; what a configuration does not have is noted.

    An account with accounts below it may have jobs in Slurm. They go to a queue of its own name
    below its queue: only leaves have jobs.

    Args:
        file: The file.
        account: Counts what is noted.

    Raises:
        FeedError: If it cannot be used.
    """
    text = text_of(file)
    entries = list(_dumped(text) if _DUMPED.search(text) else _printed(text, file))
    known: dict[str, Entry] = {}
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
    limits: dict[str, Mapping[str, int]] = {}
    for entry in known.values():
        path = _path(entry, known, file)
        name = path.rpartition(".")[2]
        paths[entry.name] = f"{path}.{name}" if entry.name in parents else path
        limits[f"root.{path}"] = _limit(entry, file, account)
    settings = {path: _setting(path, limits) for path, limit in limits.items() if limit}
    return Tree(paths, settings)


def _setting(path: str, limits: Mapping[str, Mapping[str, int]]) -> Mapping[str, object]:
    """Return what the configuration says of a queue: it gets no more than the queues above it."""
    most = dict(limits[path])
    above = path
    while "." in above:
        above = above.rpartition(".")[0]
        for name, amount in limits.get(above, {}).items():
            if name in most:
                most[name] = min(amount, most[name])
    return {"resources": {"max": {name: _written(name, most[name]) for name in most}}}


def _written(name: str, amount: int) -> int | str:
    """Return an amount as people write it: memory in GiB or MiB where that is exact."""
    if name == MEMORY and amount:
        for suffix, factor in (("Gi", 1 << 30), ("Mi", 1 << 20)):
            if not amount % factor:
                return f"{amount // factor}{suffix}"
    return amount


def _path(entry: Entry, known: Mapping[str, Entry], file: str) -> str:
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


def _dumped(text: str) -> Iterator[Entry]:
    """Yield the accounts of a file that ``sacctmgr dump`` has written."""
    parent = _ROOT
    for match in _DUMPED.finditer(text):
        kind, name, rest = match.groups()
        if kind == "Parent":
            parent = name
        elif kind == "Account" and name != _ROOT:
            fields = {key.lower(): value.strip("'") for key, value in _OPTION.findall(rest)}
            line = text.count("\n", 0, match.start()) + 1
            yield Entry(name, fields.get("parent", parent), line, fields)


def _printed(text: str, file: str) -> Iterator[Entry]:
    """Yield the accounts of a table; blanks before a name say how deep it is."""
    rows = rows_of(text, file, ("account",), RIGHT)
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
            msg = f"does not say which account is below which: make it with {RIGHT}"
            raise FeedError(file, msg, number)
        parent = row["parentname"].strip() if has_parents else (above[-2:-1] or [_ROOT])[0]
        yield Entry(name, parent or _ROOT, number, row)


def _limit(entry: Entry, file: str, account: Account) -> Mapping[str, int]:
    """Return the ``max`` of an account's queue, and note what is not modelled."""
    place = f"{file}:{entry.line}"
    share = entry.fields.get("share") or entry.fields.get("fairshare") or "1"
    if share != "1":
        account.note("account", "has a fair share, which queues do not have", place, share)
    for name, value in entry.fields.items():
        if _LIMITS.fullmatch(name) and value.strip():
            text = "has a limit other than GrpTRES, which its queue does not get"
            account.note("account", text, place, f"{name}={value}")
    limit: dict[str, int] = {}
    for name, amount in tres_of(entry.fields.get("grptres", "")).items():
        called = _TYPES.get(name)
        if called is None and name.startswith("gres/") and ":" not in name:
            called = name_of(name.removeprefix("gres/"))
        if called:
            limit[called] = amount
        else:
            text = f"limits {name} in its GrpTRES, which its queue does not"
            account.note("account", text, place, str(amount))
    return limit
