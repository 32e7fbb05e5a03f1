"""What ``scontrol show node`` prints, recorded from real daemons, as nodes of Muster."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.slurm import DEFAULT_RESOURCES, SlurmError
from muster.slurm._nodes import Amounts, SlurmNode, fields_of, node_specs, read_nodes

RECORDED = (Path(__file__).parent / "recorded" / "nodes-22.05.8.txt").read_text("utf-8")
AMOUNTS = Amounts(DEFAULT_RESOURCES, counts_memory=True)
MIB = 2**20


def a_node(more: str) -> SlurmNode:
    (node,) = read_nodes(f"NodeName=n9 CPUTot=8 RealMemory=1000 Partitions=p {more}")
    return node


def test_recorded_nodes() -> None:
    nodes = {node.name: node for node in read_nodes(RECORDED)}
    assert {name: sorted(node.states) for name, node in nodes.items()} == {
        "n1": ["DRAIN", "MIXED"],
        "n2": ["ALLOCATED"],
        "n3": ["DOWN", "NOT_RESPONDING"],
    }
    assert fields_of(RECORDED.splitlines()[0])["Reason"].startswith("a disk = broken")
    assert nodes["n3"].gres == {"gpu": 2}
    assert nodes["n1"].features == ("fast",)


@pytest.mark.parametrize("printed", ["", "\n", "No nodes in the system\n"])
def test_no_nodes_are_no_answer(printed: str) -> None:
    with pytest.raises(SlurmError, match="scontrol: expected nodes"):
        read_nodes(printed)


def test_drained_node_is_closed_and_one_that_is_down_is_gone() -> None:
    wanted = node_specs(read_nodes(RECORDED), "muster", None, AMOUNTS)
    assert {name: (node.is_closed, dict(node.attributes)) for name, node in wanted.items()} == {
        "n1": (
            True,
            {
                "slurm/partition": "muster",
                "feature.slurm/fast": "yes",
                "slurm/closed": "drain",
            },
        ),
        "n2": (False, {"slurm/partition": "muster"}),
    }
    assert dict(wanted["n1"].capacity) == {"vcore": 4000, "memory": 2000 * MIB}


def test_only_nodes_of_the_partition_and_the_reservation() -> None:
    nodes = read_nodes(RECORDED.replace("State=DOWN+NOT_RESPONDING", "State=IDLE"))
    assert list(node_specs(nodes, "muster", None, AMOUNTS)) == ["n1", "n2", "n3"]
    assert list(node_specs(nodes, "other", None, AMOUNTS)) == ["n1", "n2"]
    assert list(node_specs(nodes, "muster", frozenset({"n2"}), AMOUNTS)) == ["n2"]


@pytest.mark.parametrize(
    ("state", "closed", "gone"),
    [
        ("IDLE", None, False),
        ("IDLE+PLANNED", None, False),
        ("ALLOCATED+RESERVED", None, False),
        ("IDLE+CLOUD+POWERED_DOWN", None, False),
        ("IDLE*", "not_responding", False),
        ("MIXED+DRAIN", "drain", False),
        ("UNKNOWN", "unknown", False),
        ("IDLE+DRAIN+INVALID_REG", "drain", False),
        ("IDLE+MAINTENANCE", "maintenance", False),
        ("DOWN", None, True),
        ("DOWN*+DRAIN", "drain", True),
        ("FUTURE", None, True),
    ],
)
def test_states(state: str, closed: str | None, *, gone: bool) -> None:
    node = a_node(f"State={state}")
    assert (node.closed, node.is_gone) == (closed, gone)


def test_what_slurm_keeps_for_itself_is_not_given_out() -> None:
    node = a_node("CPUEfctv=6 MemSpecLimit=100")
    assert (node.cpus, node.memory_mib) == (6, 900)


@pytest.mark.parametrize(
    ("gres", "found"),
    [
        ("(null)", {}),
        ("gpu:2", {"gpu": 2}),
        ("gpu:a100:2(S:0-1),gpu:v100:1,fpga", {"gpu:a100": 2, "gpu:v100": 1, "fpga": 1}),
        ("gpu:tesla:4(S:0,1),license:2K", {"gpu:tesla": 4, "license": 2048}),
    ],
)
def test_gres(gres: str, found: dict[str, int]) -> None:
    assert a_node(f"Gres={gres}").gres == found
