"""The nodes of ``scontrol show node --oneliner``, as nodes of Muster.

This form is the same in all versions of Slurm; the JSON of ``sinfo`` is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, final

import attrs

from muster.slurm._errors import SlurmError
from muster.slurm._texts.amounts import Amounts
from muster_core.resources import Resources

PARTITION: Final = "slurm/partition"
"""The attribute of a node of Muster by which it is a node of Slurm: the partition."""

CLOSED: Final = "slurm/closed"
"""The attribute of a node on which Slurm starts nothing now: the state, such as ``drain``."""

FEATURE: Final = "feature.slurm/"
"""How the attribute of a feature begins: ``feature.slurm/fast`` is ``yes``."""

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
class Node:
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
class Wanted:
    """What a node of Muster is to be like.

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


def read_nodes(printed: str) -> tuple[Node, ...]:
    """Read what ``scontrol show node --oneliner`` has printed.

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


def wanted_nodes(
    nodes: tuple[Node, ...], partition: str, only: frozenset[str] | None, amounts: Amounts
) -> dict[str, Wanted]:
    """Return the nodes that Muster is to have, by name.

    Args:
        nodes: The nodes of Slurm.
        partition: Only nodes of this partition.
        only: Only nodes of these names; None for all.
        amounts: Translates their resources.
    """
    found: dict[str, Wanted] = {}
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
        found[node.name] = Wanted(capacity, attributes)
    return found


def node_of(fields: Mapping[str, str]) -> Node | None:
    """Return the node that the fields of ``scontrol show node`` describe; None if they do not."""
    name = fields.get("NodeName", "")
    cpus = _int(fields.get("CPUEfctv", "")) or _int(fields.get("CPUTot", ""))
    if not name or not cpus:
        return None
    memory = _int(fields.get("RealMemory", "")) - _int(fields.get("MemSpecLimit", ""))
    return Node(
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
