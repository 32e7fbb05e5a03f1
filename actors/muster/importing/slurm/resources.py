"""What jobs of Slurm ask for, and what its nodes have.

A job becomes asks of a feed: one for each node, with a selector. Nodes come from the output of
``scontrol show node``, or from a ``slurm.conf``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.importing.dumps import file_text
from muster.importing.nodes import TOO_LARGE, NodeFields, largest_of, nodes_of
from muster.importing.queues import name_of
from muster.importing.slurm.conf import read_conf
from muster.importing.slurm.records import JobRequest
from muster.importing.slurm.values import MIB, count_of, memory_of, tres_of
from muster.importing.workload import divide_evenly
from muster.slurm._nodes import SlurmNode, fields_of, node_of

VCORE: Final = "vcore"
MEMORY: Final = "memory"
GPU: Final = "nvidia.com/gpu"
PARTITION: Final = "partition."
"""How the attribute of a partition begins: ``partition.batch`` is ``true`` on its nodes."""

FEATURE: Final = "feature."
"""How the attribute of a feature begins."""

GPU_TYPE: Final = "gpu."
"""How the attribute of a type of GPU begins: a node may have several."""

YES: Final = "true"
MOST_NODES: Final = 65_536
"""The most nodes of one job; no Slurm has more."""

_MOST_KNOWN: Final = 50_000
_MILLI: Final = 1000
_CONSTRAINT: Final = re.compile(r"[\w.:/-]+(&[\w.:/-]+)*")
_GRES: Final = "gres/"
# Resources of a whole cluster, and what is a consequence of the others.
_SHARES: Final = ("shard", "mps")
"""Gres that are parts of GPUs."""

_SHARED: Final = ("license/", "bb/")
_NAMES: Final = {"gpu": GPU}


@final
@attrs.frozen
class JobShape:
    """What jobs ask for that are alike.

    Attributes:
        members: The resources of their asks, the largest first, each with the number of asks.
        selector: The attributes that the nodes must have.
        notes: What the feed does not say, each with an example.
        problem: Why there are no members, with an example; None if there are.
        count: How many asks they have: as many as nodes.
    """

    members: Sequence[tuple[Mapping[str, int], int]] = ()
    selector: Mapping[str, str] = attrs.Factory(dict[str, str])
    notes: Sequence[tuple[str, str]] = ()
    problem: tuple[str, str] | None = None
    count: int = 0


# IMPORT-11
@final
class JobShapes:
    """Makes shapes for nodes: asks get only resources and selectors that some node has.

    Args:
        nodes: The nodes of the feed.
    """

    def __init__(self, nodes: Sequence[NodeFields]) -> None:
        self._known: dict[JobRequest, JobShape] = {}
        self._attributes = frozenset(key for node in nodes for key in node.attributes)
        self._has_partitions = any(key.startswith(PARTITION) for key in self._attributes)
        self._has_types = any(key.startswith(GPU_TYPE) for key in self._attributes)
        self._largest = largest_of(nodes)
        self._shares = [
            name
            for name in _SHARES
            if any(node.capacity.get(GPU) and node.capacity.get(name) for node in nodes)
        ]

    @property
    def cores(self) -> int:
        """The vcores of the largest node."""
        return self._largest.get(VCORE, 0) // _MILLI

    def of(self, wants: JobRequest) -> JobShape:
        """Return what jobs become that want this."""
        shape = self._known.get(wants)
        if shape is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            shape = self._known[wants] = self._made(wants)
        return shape

    def _made(self, wants: JobRequest) -> JobShape:
        requested, allocated = tres_of(wants.req_tres), tres_of(wants.alloc_tres)
        main = requested or allocated
        cpus = main.get("cpu", 0) or count_of(wants.cpus) or allocated.get("cpu", 0)
        nodes = allocated.get("node", 0) or count_of(wants.nodes) or requested.get("node", 0) or 1
        if not cpus:
            requests = f"ReqTRES {wants.req_tres!r}, AllocTRES {wants.alloc_tres!r}"
            return JobShape(problem=("it is not known how many CPUs it asked for", requests))
        if nodes > MOST_NODES:
            return JobShape(problem=(f"more than {MOST_NODES:,} nodes", str(nodes)))
        notes: list[tuple[str, str]] = []
        if allocated.get("cpu", 0) > cpus:
            notes.append(
                ("held more CPUs than it asked for, such as a whole node or whole cores",
                 f"{allocated['cpu']} instead of {cpus}")
            )  # fmt: skip
        totals = {VCORE: max(cpus, nodes)}
        totals[MEMORY] = _memory_mib(wants, main, allocated, cpus, nodes)
        types = self._add_gres(main, totals)
        kept = {name: amount for name, amount in totals.items() if amount and self._has(name)}
        notes += [
            (f"asked for {name}, which no node has", str(amount))
            for name, amount in totals.items()
            if amount and name not in kept
        ]
        notes += [
            ("asked for what is not of a node, such as licences", f"{name}={amount}")
            for name, amount in main.items()
            if name.startswith(_SHARED)
        ]
        notes += [
            (f"asked for {name}, which takes nothing of the GPUs in the feed", str(kept[name]))
            for name in self._shares
            if name in kept
        ]
        members = [
            ({**size, MEMORY: size[MEMORY] * MIB} if MEMORY in size else size, count)
            for size, count in divide_evenly(kept, nodes)
        ]
        selector = dict(self._selector(wants, types, notes))
        notes += self._too_large(members[0][0])
        return JobShape(members, selector, tuple(notes), count=nodes)

    def _has(self, name: str) -> bool:
        return self._largest.get(name, 0) > 0

    def _add_gres(self, tres: Mapping[str, int], totals: dict[str, int]) -> list[str]:
        """Add the gres to the totals, and return the types of GPUs."""
        typed: dict[str, int] = {}
        types: list[str] = []
        for key, amount in tres.items():
            if not key.startswith(_GRES) or not amount:
                continue
            name, colon, kind = key.removeprefix(_GRES).partition(":")
            if not name:
                continue
            called = _NAMES.get(name, name_of(name))
            if not colon:
                totals[called] = amount
                continue
            typed[called] = typed.get(called, 0) + amount
            if called == GPU:
                types.append(kind)
        for called, amount in typed.items():
            totals.setdefault(called, amount)  # the total stands beside them, but not always
        return types

    def _selector(
        self, wants: JobRequest, types: Sequence[str], notes: list[tuple[str, str]]
    ) -> Iterator[tuple[str, str]]:
        if self._has_partitions and wants.partition:
            key = PARTITION + wants.partition
            if key in self._attributes:
                yield key, YES
            else:
                notes.append(("in a partition that no node has", wants.partition))
        if len(types) == 1 and self._has_types:
            key = GPU_TYPE + types[0]
            if key in self._attributes:
                yield key, YES
            else:
                notes.append(("asked for a type of GPU that no node has", types[0]))
        elif len(types) > 1:
            notes.append(("asked for several types of GPU", ",".join(types)))
        written = wants.constraints
        if not written or written == "(null)":
            return
        if _CONSTRAINT.fullmatch(written) is None:
            notes.append(("its constraint is not a list of features with &", written))
            return
        for feature in written.split("&"):
            if FEATURE + feature in self._attributes:
                yield FEATURE + feature, YES
            else:
                notes.append(("asked for a feature that no node has", feature))

    def _too_large(self, largest: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        for name, amount in largest.items():
            scale = _MILLI if name == VCORE else 1
            if amount * scale > self._largest[name]:
                yield TOO_LARGE, f"{name} {amount}"
                return


def _memory_mib(
    wants: JobRequest, main: Mapping[str, int], had: Mapping[str, int], cpus: int, nodes: int
) -> int:
    """Return the memory of the whole job, in MiB; for a whole node, the memory that it had."""
    amount = main.get("mem", 0)
    if not amount:
        parsed = memory_of(wants.memory)
        if parsed is not None:
            each = {"n": nodes, "c": cpus}.get(parsed[1], 1)
            amount = parsed[0] * each
    return -(-(amount or had.get("mem", 0)) // MIB)


_SHOWN: Final = re.compile(r"^\s*NodeName=\S+\s[^=]*=", re.MULTILINE)
_CPUS: Final = "CPUTot="
_CONF: Final = re.compile(
    r"^\s*(?:NodeName|PartitionName|ClusterName|SlurmctldHost|ControlMachine|Include|NodeSet)\s*[=\s]",
    re.MULTILINE | re.IGNORECASE,
)
_FUTURE: Final = "FUTURE"


def nodes_of_slurm(text: str) -> list[NodeFields]:
    """Return the nodes that ``--nodes`` means.

    Args:
        text: The name of a file with what ``scontrol show node`` has printed, with or without
            ``--oneliner``, or of a ``slurm.conf``; or what other importers take.

    Raises:
        FeedError: If the file cannot be used.
        ValueError: If the text cannot be used.
    """
    if not Path(text).is_file():
        return nodes_of(text)
    written = file_text(text)
    if _CPUS in written and _SHOWN.search(written):
        return _made(text, _parse_nodes(written))
    if _CONF.search(written):
        return _made(text, read_conf(text))
    if written.strip() and "capacity" not in written:
        msg = (
            f"begins with {written.split()[0][:40]!r}: it is neither what `scontrol show node` "
            "prints, nor a slurm.conf, nor a list of maps with `node` and `capacity`"
        )
        raise FeedError(text, msg, 1)
    return nodes_of(text)


def conf_of(text: str) -> str | None:
    """Return the name of the file that ``--nodes`` names if it is a ``slurm.conf``."""
    try:
        written = file_text(text)
    except FeedError:
        return None
    is_conf = _CONF.search(written) and not (_CPUS in written and _SHOWN.search(written))
    return text if is_conf else None


def _parse_nodes(written: str) -> Iterator[SlurmNode]:
    """Yield the nodes of ``scontrol show node``; each begins with its name."""
    lines: list[str] = []
    for line in [*written.splitlines(), "NodeName="]:
        if line.lstrip().startswith("NodeName=") and lines:
            node = node_of(fields_of(" ".join(lines)))
            if node is not None:
                yield node
            lines = []
        lines.append(line)


def _made(file: str, nodes: Iterable[SlurmNode]) -> list[NodeFields]:
    made: dict[str, NodeFields] = {}
    for node in nodes:
        if _FUTURE in node.states:
            continue  # It is not there yet.
        name = name_of(node.name)
        if name in made:
            raise FeedError(file, f"has the node {node.name} twice")
        made[name] = NodeFields(
            name=name,
            capacity=_capacity(node),
            attributes=_attributes(node),
            schedulable=not node.is_gone and node.closed is None,
            weight=node.weight,
        )
    if not made:
        raise FeedError(file, "has no node with CPUs")
    return list(made.values())


def _capacity(node: SlurmNode) -> Mapping[str, int]:
    capacity = {VCORE: node.cpus}
    if node.memory_mib:
        capacity[MEMORY] = node.memory_mib * MIB
    for key, amount in node.gres.items():
        kind = key.partition(":")[0]
        name = GPU if kind == "gpu" else name_of(kind)
        if amount and name:
            capacity[name] = capacity.get(name, 0) + amount
    return capacity


def _attributes(node: SlurmNode) -> Mapping[str, str]:
    types = [key.partition(":")[2] for key in node.gres if key.startswith("gpu:")]
    names = [
        *(PARTITION + name for name in sorted(node.partitions)),
        *(FEATURE + name for name in node.features),
        *(GPU_TYPE + name for name in types),
    ]
    return dict.fromkeys(names, YES)
