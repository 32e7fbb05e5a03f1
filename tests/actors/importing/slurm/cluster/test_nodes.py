"""Nodes of Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.feeds import FeedError
from muster.importing.nodes import NodeFields
from muster.importing.slurm import nodes_of_slurm
from tests.actors.cli.helpers import written
from tests.actors.importing.slurm.dumps import NODES

_MIB = 1 << 20


def _one_line(text: str) -> str:
    return "\n".join(" ".join(part.split()) for part in text.split("\n\n")) + "\n"


@pytest.mark.parametrize("text", [NODES, _one_line(NODES)])
def test_what_scontrol_shows(tmp_path: Path, text: str) -> None:
    assert nodes_of_slurm(str(written(tmp_path / "nodes.txt", text))) == [
        NodeFields(
            "c1",
            {"vcore": 7, "memory": 15_000 * _MIB},
            dict.fromkeys(
                ["partition.batch", "partition.scavenge", "feature.ib", "feature.avx512"], "true"
            ),
        ),
        NodeFields(
            "g1",
            {"vcore": 8, "memory": 32_000 * _MIB, "nvidia.com/gpu": 2, "mps": 200},
            dict.fromkeys(["partition.gpu", "partition.scavenge", "gpu.a100"], "true"),
            schedulable=False,
        ),
    ]


def test_what_stands_before_the_first_node_is_passed_over(tmp_path: Path) -> None:
    text = "slurm_load_node: a warning\n\n" + NODES
    assert [node.name for node in nodes_of_slurm(str(written(tmp_path / "n", text)))] == [
        "c1",
        "g1",
    ]


def test_a_node_of_the_future_is_not_there(tmp_path: Path) -> None:
    text = NODES.replace("State=MIXED", "State=FUTURE")
    assert [node.name for node in nodes_of_slurm(str(written(tmp_path / "n", text)))] == ["g1"]


def test_the_same_node_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="has the node c1 twice"):
        nodes_of_slurm(str(written(tmp_path / "nodes.txt", NODES + "\n" + NODES)))


def test_what_other_importers_take(tmp_path: Path) -> None:
    assert len(nodes_of_slurm("3x vcore=4")) == 3
    file = written(tmp_path / "nodes.yaml", "- {node: n, capacity: {vcore: 4}}\n")
    assert [node.name for node in nodes_of_slurm(str(file))] == ["n"]
    with pytest.raises(FeedError):
        nodes_of_slurm(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    "text", ["JobID|State\n7|COMPLETED\n", "PARTITION AVAIL\nbatch* up\n", "partitions: []\n"]
)
def test_another_file_is_refused_with_what_is_right(tmp_path: Path, text: str) -> None:
    file = str(written(tmp_path / "nodes.txt", text))
    with pytest.raises(FeedError, match="neither what `scontrol show node` prints, nor") as caught:
        nodes_of_slurm(file)
    assert str(caught.value).startswith(f"{file}:1: begins with {text.split(maxsplit=1)[0]!r}")
