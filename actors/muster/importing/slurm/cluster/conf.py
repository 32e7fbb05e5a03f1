"""Nodes, partitions and the scheduler of a ``slurm.conf``, as its manual page describes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, final

from muster.feeds import FeedError
from muster.importing.slurm.cluster.hostlists import names_of
from muster.slurm._texts.nodes import Node, gres_of
from muster_core.values.nearest import did_you_mean

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


def read_conf(file: str) -> list[Node]:
    """Return the nodes of a configuration and of the files that it includes.

    Raises:
        FeedError: If it cannot be read, or a line of a node is wrong.
    """
    conf = Conf()
    conf.read(file)
    return conf.nodes(file)


@final
class Conf:
    """What was read: nodes, sets of nodes, partitions, and how jobs are scheduled.

    Attributes:
        partitions: By their names the options of partitions, in lower case, with file and line.
        options: By its name, in lower case, each option that stands alone in a line, with file
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

    def nodes(self, file: str) -> list[Node]:
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
    try:
        text = Path(file).read_bytes().decode("utf-8", "backslashreplace")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise FeedError(file, f"cannot be read: {reason}") from None
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        first = first if begun else number
        begun += _COMMENT.sub("", line).rstrip()
        if begun.endswith("\\"):
            begun = begun[:-1] + " "
            continue
        if begun.strip():
            yield first, begun.strip()
        begun = ""
    if begun.strip():
        yield first, begun.strip()


def _names(written: str, field: str, file: str, number: int) -> list[str]:
    try:
        return names_of(written)
    except ValueError as error:
        raise FeedError(file, f"{field}: {error}", number) from None


def _features(words: Mapping[str, str]) -> tuple[str, ...]:
    written = words.get("features") or words.get("feature") or ""
    return tuple(part.strip() for part in written.split(",") if part.strip())


def _node(name: str, words: Mapping[str, str], partitions: list[str], down: str | None) -> Node:
    state = down or words.get("state", "UNKNOWN")
    closed = _CLOSED.search(state)
    return Node(
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
