"""Nodes of Slurm: what ``scontrol show node`` prints, or a ``slurm.conf``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from muster.feeds import FeedError
from muster.importing.slurm.cluster.conf import read_conf
from muster.importing.slurm.shapes import FEATURE, GPU, GPU_TYPE, MEMORY, PARTITION, VCORE, YES
from muster.importing.slurm.values import MIB
from muster.importing.workload.nodes import NodeFields, nodes_of
from muster.importing.workload.texts import name_of
from muster.slurm._texts.nodes import Node, fields_of, node_of

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
    file = Path(text)
    if not file.is_file():
        return nodes_of(text)
    try:
        written = file.read_bytes().decode("utf-8", "backslashreplace")
    except OSError as error:
        raise FeedError(text, f"cannot be read: {error.strerror}") from None
    if _CPUS in written and _SHOWN.search(written):
        return _made(text, _shown(written))
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
        written = Path(text).read_bytes().decode("utf-8", "backslashreplace")
    except (OSError, ValueError):
        return None
    is_conf = _CONF.search(written) and not (_CPUS in written and _SHOWN.search(written))
    return text if is_conf else None


def _shown(written: str) -> Iterator[Node]:
    """Yield the nodes of ``scontrol show node``; each begins with its name."""
    lines: list[str] = []
    for line in [*written.splitlines(), "NodeName="]:
        if line.lstrip().startswith("NodeName=") and lines:
            node = node_of(fields_of(" ".join(lines)))
            if node is not None:
                yield node
            lines = []
        lines.append(line)


def _made(file: str, nodes: Iterable[Node]) -> list[NodeFields]:
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


def _capacity(node: Node) -> Mapping[str, int]:
    capacity = {VCORE: node.cpus}
    if node.memory_mib:
        capacity[MEMORY] = node.memory_mib * MIB
    for key, amount in node.gres.items():
        kind = key.partition(":")[0]
        name = GPU if kind == "gpu" else name_of(kind)
        if amount and name:
            capacity[name] = capacity.get(name, 0) + amount
    return capacity


def _attributes(node: Node) -> Mapping[str, str]:
    types = [key.partition(":")[2] for key in node.gres if key.startswith("gpu:")]
    names = [
        *(PARTITION + name for name in sorted(node.partitions)),
        *(FEATURE + name for name in node.features),
        *(GPU_TYPE + name for name in types),
    ]
    return dict.fromkeys(names, YES)
