"""What a job of Slurm asks for, as asks of a feed: one for each node, with a selector."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, final

import attrs

from muster.importing.slurm.records import Wants
from muster.importing.slurm.values import MIB, count_of, memory_of, tres_of
from muster.importing.workload.nodes import TOO_LARGE, NodeFields, largest_of
from muster.importing.workload.texts import name_of

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
class Shape:
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
class Shapes:
    """Makes shapes for nodes: asks get only resources and selectors that some node has.

    Args:
        nodes: The nodes of the feed.
    """

    def __init__(self, nodes: Sequence[NodeFields]) -> None:
        self._known: dict[Wants, Shape] = {}
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

    def of(self, wants: Wants) -> Shape:
        """Return what jobs become that want this."""
        shape = self._known.get(wants)
        if shape is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            shape = self._known[wants] = self._made(wants)
        return shape

    def _made(self, wants: Wants) -> Shape:
        asked, had = tres_of(wants.req_tres), tres_of(wants.alloc_tres)
        main = asked or had
        cpus = main.get("cpu", 0) or count_of(wants.cpus) or had.get("cpu", 0)
        nodes = had.get("node", 0) or count_of(wants.nodes) or asked.get("node", 0) or 1
        if not cpus:
            said = f"ReqTRES {wants.req_tres!r}, AllocTRES {wants.alloc_tres!r}"
            return Shape(problem=("it is not known how many CPUs it asked for", said))
        if nodes > MOST_NODES:
            return Shape(problem=(f"more than {MOST_NODES:,} nodes", str(nodes)))
        notes: list[tuple[str, str]] = []
        if had.get("cpu", 0) > cpus:
            notes.append(
                ("held more CPUs than it asked for, such as a whole node or whole cores",
                 f"{had['cpu']} instead of {cpus}")
            )  # fmt: skip
        totals = {VCORE: max(cpus, nodes)}
        totals[MEMORY] = _memory_mib(wants, main, had, cpus, nodes)
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
        members = tuple(_divided(kept, nodes))
        selector = dict(self._selector(wants, types, notes))
        notes += self._too_large(members[0][0])
        return Shape(members, selector, tuple(notes), count=nodes)

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
        self, wants: Wants, types: Sequence[str], notes: list[tuple[str, str]]
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
    wants: Wants, main: Mapping[str, int], had: Mapping[str, int], cpus: int, nodes: int
) -> int:
    """Return the memory of the whole job, in MiB; what stands for a whole node is what it had."""
    amount = main.get("mem", 0)
    if not amount:
        parsed = memory_of(wants.memory)
        if parsed is not None:
            each = {"n": nodes, "c": cpus}.get(parsed[1], 1)
            amount = parsed[0] * each
    return -(-(amount or had.get("mem", 0)) // MIB)


def _divided(totals: Mapping[str, int], nodes: int) -> Iterator[tuple[Mapping[str, int], int]]:
    """Divide amounts over nodes as evenly as whole numbers allow, the larger shares first."""
    shares = {name: divmod(amount, nodes) for name, amount in totals.items()}
    places = sorted({more for _, more in shares.values()} | {0, nodes})
    for first, end in pairwise(places):
        resources: dict[str, int] = {}
        for name, (least, more) in shares.items():
            amount = least + (first < more)
            if amount:
                resources[name] = amount * MIB if name == MEMORY else amount
        yield resources, end - first
