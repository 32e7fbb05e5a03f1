"""Nodes and partitions of a slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.feeds import FeedError
from muster.importing.nodes import NodeFields
from muster.importing.slurm import nodes_of_slurm
from tests.actors.cli.helpers import written
from tests.actors.importing.slurm.dumps import CONF

_MIB = 1 << 20


def _nodes(folder: Path, text: str) -> list[NodeFields]:
    return nodes_of_slurm(str(written(folder / "slurm.conf", text)))


def test_nodes_with_defaults_ranges_and_partitions(tmp_path: Path) -> None:
    *compute, gpu = _nodes(tmp_path, CONF)
    assert [node.name for node in compute] == ["c01", "c02", "c03"]
    assert compute[0].capacity == {"vcore": 6, "memory": 15_000 * _MIB}
    assert list(compute[0].attributes) == [
        "partition.all", "partition.batch", "feature.ib", "feature.avx512",
    ]  # fmt: skip
    assert gpu.capacity == {"vcore": 8, "memory": 32_000 * _MIB, "nvidia.com/gpu": 2}
    assert list(gpu.attributes) == ["partition.all", "partition.gpu", "gpu.a100"]
    assert (compute[0].schedulable, gpu.schedulable) == (True, False)


def test_files_that_are_included(tmp_path: Path) -> None:
    written(tmp_path / "nodes.conf", "NodeName=n[1-2] CPUs=4 # small ones\n")
    nodes = _nodes(tmp_path, "ClusterName=c\nInclude nodes.conf\nDownNodes=n2 State=DOWN\n")
    assert [(node.name, node.schedulable) for node in nodes] == [("n1", True), ("n2", False)]
    assert nodes[0].capacity == {"vcore": 4}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ClusterName=c\n", "has no line with NodeName"),
        ("NodeName=n1 CPUs=many\n", "slurm.conf:1: cpus: 'many' is not a whole number"),
        ("NodeName=n1 CPUs=1\nNodeName=n[1-2] CPUs=1\n", "slurm.conf:2: NodeName: n1 is there"),
        ("NodeName=n[1 CPUs=1\n", "slurm.conf:1: NodeName: 'n[1' is no list of nodes"),
        (
            "NodeName=node1 CPUs=1\nPartitionName=p Nodes=node2\n",
            "slurm.conf:2: Nodes: node2 is no",
        ),
        ("Include missing.conf\n", "missing.conf: cannot be read"),
        ("Include slurm.conf\n", "too deep"),
    ],
)
def test_errors_have_their_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FeedError) as caught:
        _nodes(tmp_path, text)
    assert said in str(caught.value)
