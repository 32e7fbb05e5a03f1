"""A ``slurm.conf``: nodes, partitions and the options of the scheduler, as its manual page describes them.

Lists of nodes have the form ``n[01-04,07],login``. Nothing here knows of jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.importing.dumps import file_text
from muster.importing.nodes import MAX_NODES
from muster.importing.slurm.values import is_unlimited, minutes_s
from muster.slurm._nodes import SlurmNode, fields_of, gres_of
from muster_core.values.names import did_you_mean

_PARTS: Final = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def names_of(text: str) -> list[str]:
    """Return the names in a list of nodes, in order.

    Raises:
        ValueError: If it is none, or has more than a million names.
    """
    found: list[str] = []
    for item in _items(text):
        found += _expanded(item)
        if len(found) > MAX_NODES:
            raise _too_many(text)
    return found


def _items(text: str) -> Iterator[str]:
    """Yield the parts between the commas that are not in brackets."""
    depth, begin = 0, 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and not depth:
            yield text[begin:place].strip()
            begin = place + 1
    yield text[begin:].strip()


def _expanded(item: str) -> Iterator[str]:
    parts: list[list[str]] = []
    end, count = 0, 1
    while end < len(item):
        match = _PARTS.match(item, end)
        if match is None:
            msg = f"{item!r} is no list of nodes, such as n[01-04,07]"
            raise ValueError(msg)
        parts.append([match[2]] if match[2] is not None else list(_numbers(match[1])))
        count *= len(parts[-1])
        if count > MAX_NODES:
            raise _too_many(item)
        end = match.end()
    return ("".join(words) for words in product(*parts)) if parts else iter(())


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            msg = f"[{text}] is no list of numbers, such as [01-04,07]"
            raise ValueError(msg)
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= MAX_NODES:
            raise _too_many(text)
        for number in range(first, last + 1):
            yield f"{number:0{len(match[1])}}"


def _too_many(text: str) -> ValueError:
    return ValueError(f"{text[:60]!r} has more than {MAX_NODES:,} names")


_WORD: Final = re.compile(r'([A-Za-z_0-9]+)\s*=\s*("[^"]*"|\S*)')
_INCLUDE: Final = re.compile(r"include\s*[=\s]\s*(\S+)", re.IGNORECASE)
_COMMENT: Final = re.compile(r"(?<!\\)#.*")
_DEFAULT: Final = "DEFAULT"
_DEEPEST: Final = 20
"""How deep files may include files."""

_NUMBERS: Final = (
    "boards", "corespeccount", "corespersocket", "cpus", "memspeclimit", "procs", "realmemory",
    "sockets", "socketsperboard", "threadspercore", "weight",
)  # fmt: skip
_CLOSED: Final = re.compile(r"down|drain|fail|future", re.IGNORECASE)


def read_conf(file: str) -> list[SlurmNode]:
    """Return the nodes of a configuration and of the files that it includes.

    Raises:
        FeedError: If it cannot be read, or a line of a node is wrong.
    """
    conf = Conf()
    conf.read(file)
    return conf.nodes(file)


@final
class Conf:
    """The content of a slurm.conf: nodes, sets of nodes, partitions, and how jobs are scheduled.

    Attributes:
        partitions: By their names the options of partitions, in lower case, with file and line.
        options: By its name, in lower case, each option with a line of its own, with file
            and line.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[dict[str, str], str, int]] = {}
        self._sets: dict[str, dict[str, str]] = {}
        self.partitions: dict[str, tuple[dict[str, str], str, int]] = {}
        self.options: dict[str, tuple[str, str, int]] = {}
        self._node_defaults: dict[str, str] = {}
        self._partition_defaults: dict[str, str] = {}
        self._down: list[tuple[dict[str, str], str, int]] = []

    def read(self, file: str, depth: int = 0) -> None:
        """Read a file."""
        for number, line in _lines(file):
            include = _INCLUDE.fullmatch(line)
            if include is not None:
                if depth >= _DEEPEST:
                    raise FeedError(file, f"includes {include[1]} too deep", number)
                self.read(str(Path(file).parent / include[1]), depth + 1)
                continue
            words = {name.lower(): value.strip('"') for name, value in _WORD.findall(line)}
            self._take(words, file, number)

    def _take(self, words: dict[str, str], file: str, number: int) -> None:
        match next(iter(words), ""):
            case "nodename":
                self._node(words, file, number)
            case "partitionname":
                name = words["partitionname"]
                if name.upper() == _DEFAULT:
                    self._partition_defaults |= words
                else:
                    whole = self._partition_defaults | words
                    self.partitions[name] = (whole, file, number)
            case "nodeset":
                self._sets[words["nodeset"]] = words
            case "downnodes":
                self._down.append((words, file, number))
            case name if name:
                self.options[name] = (words[name], file, number)
            case _:
                pass  # No option is set.

    def _node(self, words: dict[str, str], file: str, number: int) -> None:
        for name in _NUMBERS:
            value = words.get(name)
            if value is not None and not re.fullmatch(r"[0-9]{1,12}", value):
                msg = f"{name}: {value!r} is not a whole number"
                raise FeedError(file, msg, number)
        if words["nodename"].upper() == _DEFAULT:
            self._node_defaults |= words
            return
        for name in _names(words["nodename"], "NodeName", file, number):
            if name in self._nodes:
                raise FeedError(file, f"NodeName: {name} is there already", number)
            self._nodes[name] = (self._node_defaults | words, file, number)

    def nodes(self, file: str) -> list[SlurmNode]:
        """Return the nodes; to be called when everything is read."""
        if not self._nodes:
            raise FeedError(file, "has no line with NodeName")
        partitions: dict[str, list[str]] = {name: [] for name in self._nodes}
        for partition, (words, where, number) in self.partitions.items():
            for name in self._members(words.get("nodes", ""), where, number):
                partitions[name].append(partition)
        down: dict[str, str] = {}
        for words, where, number in self._down:
            for name in _names(words["downnodes"], "DownNodes", where, number):
                down[name] = words.get("state", "DOWN")
        return [
            _node(name, words, partitions[name], down.get(name))
            for name, (words, _, _) in self._nodes.items()
        ]

    def _members(self, written: str, file: str, number: int) -> list[str]:
        """Return the nodes of a partition."""
        if written.upper() == "ALL":
            return list(self._nodes)
        found: dict[str, None] = {}
        for name in _names(written, "Nodes", file, number):
            if name in self._sets:
                found |= dict.fromkeys(self._of_set(self._sets[name], file, number))
            elif name in self._nodes:
                found[name] = None
            else:
                hint = did_you_mean(name, self._nodes) if len(self._nodes) < 10_000 else ""
                msg = f"Nodes: {name} is no node and no set of nodes{hint}"
                raise FeedError(file, msg, number)
        return list(found)

    def _of_set(self, words: Mapping[str, str], file: str, number: int) -> Iterator[str]:
        feature = words.get("feature")
        for name, (node, _, _) in self._nodes.items():
            if feature and feature in _features(node):
                yield name
        for name in _names(words.get("nodes", ""), "Nodes", file, number):
            if name in self._nodes:
                yield name


def _lines(file: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number: without comments, with those that continue it."""
    unfinished, first = "", 0
    for number, line in enumerate(file_text(file).splitlines(), start=1):
        first = first if unfinished else number
        unfinished += _COMMENT.sub("", line).rstrip()
        if unfinished.endswith("\\"):
            unfinished = unfinished[:-1] + " "
            continue
        if unfinished.strip():
            yield first, unfinished.strip()
        unfinished = ""
    if unfinished.strip():
        yield first, unfinished.strip()


def _names(written: str, field: str, file: str, number: int) -> list[str]:
    try:
        return names_of(written)
    except ValueError as error:
        raise FeedError(file, f"{field}: {error}", number) from None


def _features(words: Mapping[str, str]) -> tuple[str, ...]:
    written = words.get("features") or words.get("feature") or ""
    return tuple(part.strip() for part in written.split(",") if part.strip())


def _node(
    name: str, words: Mapping[str, str], partitions: list[str], down: str | None
) -> SlurmNode:
    state = down or words.get("state", "UNKNOWN")
    closed = _CLOSED.search(state)
    return SlurmNode(
        name=name,
        states=frozenset({closed[0].upper() if closed else "IDLE"}),
        cpus=_cpus(words),
        memory_mib=max(_number(words, "realmemory") - _number(words, "memspeclimit"), 0),
        gres=gres_of(words.get("gres", "")),
        features=_features(words),
        partitions=frozenset(partitions),
        weight=_number(words, "weight", 1),
    )


def _number(words: Mapping[str, str], name: str, default: int = 0) -> int:
    return int(words.get(name, default))


def _cpus(words: Mapping[str, str]) -> int:
    """Return the CPUs that jobs may have: threads, or what ``CPUs`` says, without special cores."""
    threads = _number(words, "threadspercore", 1)
    sockets = _number(words, "sockets") or (
        _number(words, "boards", 1) * _number(words, "socketsperboard", 1)
    )
    count = sockets * _number(words, "corespersocket", 1) * threads
    count = _number(words, "cpus") or _number(words, "procs") or count
    return max(count - _number(words, "corespeccount") * threads, 1)


RIGHT: Final = "`(scontrol show config; scontrol show partition) > conf.txt`"
"""A command that prints the needed text."""

_SHOWN_PARTITION: Final = re.compile(r"^PartitionName=\S+\s+AllowGroups=", re.MULTILINE)
_SHOWN_CONFIG: Final = re.compile(r"^Configuration data as of ", re.MULTILINE)
_OPTION: Final = re.compile(r"([A-Za-z_0-9]+)\s*=\s*(.*)")
_WHOLE: Final = ("clustername", "slurmctldhost", "controlmachine")
"""Options that each ``slurm.conf`` has: without them a file is a part of one."""

_DEFAULT_TYPE: Final = "sched/backfill"
_NONE: Final = ("", "none")
_UNSET: Final = (*_NONE, "(null)")

LocatedValue = tuple[str, str]
"""A value and its place, such as ``slurm.conf:12``."""


@final
@attrs.frozen
class Partition:
    """The settings of a partition for its jobs.

    Attributes:
        default_s: The time limit of jobs that have none, in seconds; None if that is
            ``most_s``.
        most_s: The longest time limit of jobs, in seconds; None if there is none.
        spreads: Whether its jobs get the least loaded nodes: ``LLN``.
        tier: ``PriorityTier``: jobs of a higher one go first.
        place: Its place, such as ``slurm.conf:12``.
        billing: ``TRESBillingWeights``; empty if it has none.
    """

    default_s: int | None
    most_s: int | None
    spreads: bool = False
    tier: int = 1
    place: str = ""
    billing: str = ""


@final
@attrs.frozen
class SchedulerOptions:
    """How jobs are scheduled.

    Attributes:
        partitions: The partitions, by their names.
        scheduler: ``SchedulerType``; None if that is unknown.
        options: All options that have a value, by their names in lower case.
    """

    partitions: Mapping[str, Partition] = attrs.Factory(dict[str, Partition])
    scheduler: LocatedValue | None = None
    options: Mapping[str, LocatedValue] = attrs.Factory(dict[str, LocatedValue])

    def words(self, option: str) -> Mapping[str, str]:
        """Return the parts of an option such as ``bf_window=60,defer``: names in lower case."""
        value, _ = self.options.get(option, ("", ""))
        parts = (part.partition("=") for part in value.split(",") if part.strip())
        return {name.strip().lower(): text.strip() for name, _, text in parts}


def read_setup(file: str) -> SchedulerOptions:
    """Read a ``slurm.conf``, or the output of ``scontrol show config`` and ``show partition``.

    Raises:
        FeedError: If it cannot be read or is none of these, or a time limit is wrong.
    """
    text = file_text(file)
    if _SHOWN_PARTITION.search(text) or _SHOWN_CONFIG.search(text):
        return _parse_scontrol(text, file)
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
    return SchedulerOptions(partitions, scheduler, options)


def _parse_scontrol(text: str, file: str) -> SchedulerOptions:
    """Read what scontrol prints: a partition begins with its name; its other lines are indented."""
    partitions: dict[str, Partition] = {}
    options: dict[str, LocatedValue] = {}
    unfinished, first = "", 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if unfinished and line[:1].isspace():
            unfinished += f" {line}"
            continue
        if unfinished:
            words = {name.lower(): value for name, value in fields_of(unfinished).items()}
            partitions[words["partitionname"]] = _partition(words, file, first)
        unfinished, first = (line, number) if line.startswith("PartitionName=") else ("", number)
        option = None if unfinished else _OPTION.match(line)
        if option is not None and option[2].strip().lower() not in ("", "(null)"):
            options[option[1].lower()] = (option[2].strip(), f"{file}:{number}")
    return SchedulerOptions(partitions, options.get("schedulertype"), options)


def _partition(words: Mapping[str, str], file: str, number: int) -> Partition:
    """Return what a partition says; one that does not say the longest time has no limit."""
    tier = words.get("prioritytier") or words.get("priority") or "1"
    if not re.fullmatch("[0-9]{1,5}", tier):
        msg = f"PriorityTier: {tier!r} is not a whole number up to 65533"
        raise FeedError(file, msg, number)
    billing = words.get("tresbillingweights", "")
    return Partition(
        default_s=_limit("DefaultTime", words, file, number),
        most_s=_limit("MaxTime", words, file, number),
        spreads=words.get("lln", "").lower() == "yes",
        tier=int(tier),
        place=f"{file}:{number}",
        billing=billing if billing.lower() not in _UNSET else "",
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
