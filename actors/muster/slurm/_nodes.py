"""The nodes of Slurm as nodes of a scheduler: their states, their amounts, and what changes.

Nodes are read from ``scontrol show node --oneliner``. Amounts are translated exactly, or refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol, final

import attrs

from muster.slurm._commands import SlurmError
from muster_core.errors import EventError, RefusedError
from muster_core.events import AddNode, Event, RemoveNode, UpdateNode
from muster_core.resources import Resources
from muster_core.snapshots import Snapshot

DEFAULT_RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {"cpu": "vcore", "mem": "memory", "gpu": "nvidia.com/gpu"}
)
"""The names in Muster of Slurm's resources; all others have the same name in both.

A type of a gres, such as ``gpu:a100``, is counted under the name of the gres, or, if it is named
here, under a name of its own.
"""

_MILLI: Final = "vcore"
_MIB: Final = 2**20


@final
@attrs.frozen
class Share:
    """The amounts that a job, or one member of a gang, takes of a node.

    Attributes:
        cpus: CPUs.
        memory_mib: Memory, in mebibytes; None to take what the partition gives by default.
        gres: How many of each gres, in the order of the names.
    """

    cpus: int
    memory_mib: int | None
    gres: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: Share) -> Share:
        """Add, for two members on one node."""
        memory = None
        if self.memory_mib is not None or other.memory_mib is not None:
            memory = (self.memory_mib or 0) + (other.memory_mib or 0)
        gres = dict(self.gres)
        for name, count in other.gres:
            gres[name] = gres.get(name, 0) + count
        return Share(self.cpus + other.cpus, memory, tuple(sorted(gres.items())))

    @property
    def options(self) -> tuple[str, ...]:
        """The options of sbatch and srun that ask for it."""
        found = [f"--cpus-per-task={self.cpus}"]
        if self.memory_mib is not None:
            found.append(f"--mem={self.memory_mib}M")
        if self.gres:
            found.append("--gres=" + ",".join(f"{name}:{count}" for name, count in self.gres))
        return tuple(found)


@final
class Amounts:
    """Translates between Slurm and Muster.

    Args:
        names: The names in Muster of the resources of Slurm.
        counts_memory: Whether Slurm counts memory, so that jobs share a node only if they say how
            much they need.

    Raises:
        EventError: If two have the same name.
    """

    def __init__(self, names: Mapping[str, str], *, counts_memory: bool) -> None:
        self._to_muster = dict(names)
        self._to_slurm = {muster: slurm for slurm, muster in names.items()}
        self._counts_memory = counts_memory
        if len(self._to_slurm) < len(self._to_muster):
            msg = f"resources: {dict(names)!r}: two resources of Slurm have one name in Muster"
            raise EventError(msg)

    def capacity(self, cpus: int, memory_mib: int, gres: Mapping[str, int]) -> Resources:
        """Return the resources of a node.

        Args:
            cpus: Its CPUs.
            memory_mib: Its memory, in mebibytes.
            gres: Its other resources, by ``name`` or ``name:type``.
        """
        cpu = self._muster("cpu")
        found = {cpu: cpus * _unit(cpu), self._muster("mem"): memory_mib * _MIB}
        for name, count in gres.items():
            known = name if name in self._to_muster else name.partition(":")[0]
            muster = self._muster(known)
            found[muster] = found.get(muster, 0) + count
        return Resources(found)

    def share(self, resources: Resources) -> Share:
        """Return the share of a node that a job with these resources asks Slurm for.

        Raises:
            EventError: If Slurm cannot count an amount; the message names the resource.
        """
        cpus, memory = 0, None
        gres: dict[str, int] = {}
        for name, amount in resources.items():
            slurm = self._to_slurm.get(name, name)
            if slurm == "cpu":
                cpus = _whole(name, amount, _unit(name), "whole CPUs")
            elif slurm == "mem":
                memory = _whole(name, amount, _MIB, "whole mebibytes")
            elif name not in self._to_slurm and name in self._to_muster:
                msg = f"{name}: Slurm's {name} is called {self._to_muster[name]!r} here"
                raise EventError(msg)
            else:
                gres[slurm] = amount
        if cpus == 0:
            msg = f"{self._muster('cpu')}: 0: Slurm gives each job at least one CPU: ask for it"
            raise EventError(msg)
        if memory is None and self._counts_memory:
            msg = (
                f"{self._muster('mem')}: 0: Slurm gives a job all memory of its node if it does "
                "not say how much it needs: ask for some"
            )
            raise EventError(msg)
        return Share(cpus, memory, tuple(sorted(gres.items())))

    def _muster(self, slurm: str) -> str:
        return self._to_muster.get(slurm, slurm)


def _unit(name: str) -> int:
    """Return the base units of Muster in one CPU."""
    return 1000 if name == _MILLI else 1


def _whole(name: str, amount: int, unit: int, what: str) -> int:
    if amount % unit:
        msg = f"{name}: {amount / unit:g}: Slurm gives {what} only"
        raise EventError(msg)
    return amount // unit


PARTITION: Final = "slurm/partition"
"""The attribute of a node of Muster by which it is a node of Slurm: the partition."""

CLOSED: Final = "slurm/closed"
"""The attribute of a node on which Slurm starts nothing now: the state, such as ``drain``."""

FEATURE: Final = "feature.slurm/"
"""The prefix of the attributes for features: ``feature.slurm/fast`` is ``yes``."""

_FIELD: Final = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]*)=")
_COUNTED: Final = re.compile(r"([^:()]+)(?::([^:()]+))?:(\d+)([KMGT]?)(?:\(.*\))?|([^:()]+)")
_FACTORS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

# What ran on a node in one of these states is lost.
_GONE: Final = frozenset({"DOWN", "FUTURE", "ERROR"})
# Slurm starts nothing on a node in one of these states; what runs there goes on.
_CLOSED: Final = (
    "DRAIN",
    "DRAINED",
    "DRAINING",
    "FAIL",
    "FAILING",
    "NOT_RESPONDING",
    "UNKNOWN",
    "INVALID_REG",
    "INVAL",
    "MAINT",
    "MAINTENANCE",
    "REBOOT_ISSUED",
    "REBOOT_REQUESTED",
    "BLOCKED",
)


@final
@attrs.frozen
class SlurmNode:
    """A node of Slurm.

    Attributes:
        name: Its name.
        states: Its state with all flags: ``IDLE``, ``DRAIN``, ….
        cpus: The CPUs that jobs may have.
        memory_mib: The memory that jobs may have, in mebibytes.
        gres: Its other resources, by ``name`` or ``name:type``.
        features: Its active features.
        partitions: Its partitions.
        weight: Its weight: nodes of the lowest get jobs first.
    """

    name: str
    states: frozenset[str]
    cpus: int
    memory_mib: int
    gres: Mapping[str, int]
    features: tuple[str, ...]
    partitions: frozenset[str]
    weight: int = 1

    @property
    def is_gone(self) -> bool:
        """Whether what ran on it is lost."""
        return not _GONE.isdisjoint(self.states)

    @property
    def closed(self) -> str | None:
        """Why Slurm starts nothing on it: the state in lower case; None if it does."""
        return next((state.lower() for state in _CLOSED if state in self.states), None)


@final
@attrs.frozen
class NodeSpec:
    """The wanted state of a node of Muster.

    Attributes:
        capacity: Its resources.
        attributes: Its attributes.
    """

    capacity: Resources
    attributes: Mapping[str, str]

    @property
    def is_closed(self) -> bool:
        """Whether no work may begin on it."""
        return CLOSED in self.attributes


def read_nodes(printed: str) -> tuple[SlurmNode, ...]:
    """Read the output of ``scontrol show node --oneliner``.

    Raises:
        SlurmError: If it has no nodes: a Slurm without nodes does not run.
    """
    found = (node_of(fields_of(line)) for line in printed.splitlines() if "NodeName=" in line)
    nodes = tuple(node for node in found if node is not None)
    if not nodes:
        msg = f"scontrol: expected nodes, one in a line, but got {printed[:60]!r}"
        raise SlurmError(msg)
    return nodes


def fields_of(line: str) -> dict[str, str]:
    """Read a line of ``Key=value Key=value``; values may have blanks. Other lines have no fields."""
    keys = list(_FIELD.finditer(line))
    ends = [*(key.start() for key in keys[1:]), len(line)] if keys else []
    return {key[1]: line[key.end() : end].strip() for key, end in zip(keys, ends, strict=True)}


def node_specs(
    nodes: tuple[SlurmNode, ...], partition: str, only: frozenset[str] | None, amounts: Amounts
) -> dict[str, NodeSpec]:
    """Return the nodes that Muster is to have, by name.

    Args:
        nodes: The nodes of Slurm.
        partition: Only nodes of this partition.
        only: Only nodes of these names; None for all.
        amounts: Translates their resources.
    """
    found: dict[str, NodeSpec] = {}
    for node in nodes:
        if partition not in node.partitions or node.is_gone:
            continue
        if only is not None and node.name not in only:
            continue
        attributes = {PARTITION: partition}
        attributes |= {FEATURE + feature: "yes" for feature in node.features}
        if node.closed is not None:
            attributes[CLOSED] = node.closed
        capacity = amounts.capacity(node.cpus, node.memory_mib, node.gres)
        found[node.name] = NodeSpec(capacity, attributes)
    return found


def node_of(fields: Mapping[str, str]) -> SlurmNode | None:
    """Return the node that the fields of ``scontrol show node`` describe; None if they do not."""
    name = fields.get("NodeName", "")
    cpus = _int(fields.get("CPUEfctv", "")) or _int(fields.get("CPUTot", ""))
    if not name or not cpus:
        return None
    memory = _int(fields.get("RealMemory", "")) - _int(fields.get("MemSpecLimit", ""))
    return SlurmNode(
        name=name,
        states=frozenset(fields.get("State", "UNKNOWN").replace("*", "+NOT_RESPONDING").split("+")),
        cpus=cpus,
        memory_mib=max(memory, 0),
        gres=gres_of(fields.get("Gres", "")),
        features=tuple(_listed(fields.get("ActiveFeatures", ""))),
        partitions=frozenset(_listed(fields.get("Partitions", ""))),
        weight=_int(fields.get("Weight", "1")),
    )


def _int(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _listed(text: str) -> list[str]:
    return [part for part in text.split(",") if part and part != "(null)"]


def gres_of(text: str) -> dict[str, int]:
    """Read ``gpu:a100:2(S:0-1),fpga:1``."""
    found: dict[str, int] = {}
    for part in re.split(r",(?![^(]*\))", text):
        match = _COUNTED.fullmatch(part)
        if match is None or part == "(null)":
            continue
        name, kind, count, factor, alone = match.groups()
        key = alone or (f"{name}:{kind}" if kind else name)
        amount = 1 if alone else int(count) * _FACTORS[factor]
        found[key] = found.get(key, 0) + amount
    return found


_LOG: Final = logging.getLogger("muster.slurm")


class NodeScheduler(Protocol):
    """The part of a scheduler that this module needs."""

    async def submit_many(self, events: Iterable[Event], /) -> tuple[RefusedError | None, ...]:
        """Submit events in one batch; see :meth:`muster.Scheduler.submit_many`."""
        ...

    async def snapshot(self) -> Snapshot:
        """Return the state; see :meth:`muster.Scheduler.snapshot`."""
        ...


@final
class SlurmNodeFollower:
    """Makes the nodes of one scheduler those of Slurm.

    Nodes that do not come from here, which have no attribute ``slurm/partition``, stay as they are.

    Args:
        scheduler: The scheduler.
    """

    def __init__(self, scheduler: NodeScheduler) -> None:
        self._scheduler = scheduler
        #: The nodes that the scheduler has from here; None before the first look.
        self._held: dict[str, NodeSpec] | None = None
        self._refused: dict[str, str] = {}

    async def follow(self, wanted: Mapping[str, NodeSpec]) -> None:
        """Submit the changes to the scheduler, in one batch."""
        if self._held is None:
            self._held = await self._known_nodes()
        held = self._held
        events: list[AddNode | UpdateNode | RemoveNode] = [
            RemoveNode(name) for name in held if name not in wanted
        ]
        for name, node in wanted.items():
            change = _event(name, held.get(name), node)
            if change is not None:
                events.append(change)
        if not events:
            return
        refusals = await self._scheduler.submit_many(events)
        for event, refusal in zip(events, refusals, strict=True):
            if isinstance(event, RemoveNode):
                held.pop(event.node, None)
            elif refusal is None:
                held[event.node] = wanted[event.node]
                self._refused.pop(event.node, None)
            else:
                # Another client has removed the node, or has one of this name.
                held.pop(event.node, None)
                if self._refused.get(event.node) != str(refusal):
                    self._refused[event.node] = str(refusal)
                    _LOG.warning("node %s of Slurm: %s", event.node, refusal)

    async def _known_nodes(self) -> dict[str, NodeSpec]:
        """Return the nodes that the scheduler has from an earlier program."""
        nodes = (await self._scheduler.snapshot()).nodes
        return {
            name: NodeSpec(Resources(node.capacity), dict(node.attributes))
            for name, node in nodes.items()
            if PARTITION in node.attributes
        }


def _event(name: str, held: NodeSpec | None, node: NodeSpec) -> AddNode | UpdateNode | None:
    """Return the event that brings a node to its wanted state, if it needs one."""
    if held is None:
        return AddNode(name, node.capacity, node.attributes, not node.is_closed)
    if held == node:
        return None
    # An operator of Muster may have closed a node that is open in Slurm: it stays so.
    changes = (CLOSED in held.attributes) != node.is_closed
    return UpdateNode(
        name,
        None if held.capacity == node.capacity else node.capacity,
        None if held.attributes == node.attributes else node.attributes,
        not node.is_closed if changes else None,
    )
