"""``--nodes``: the nodes of a feed, as a text or as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.feeds import FeedError
from muster.importing.nodes import NodeFields, nodes_of


def test_a_text() -> None:
    nodes = nodes_of("2x vcore=64,memory=256Gi; 1x vcore=8, nvidia.com/gpu=4")

    assert nodes == [
        NodeFields("node-a-00", {"vcore": 64, "memory": "256Gi"}),
        NodeFields("node-a-01", {"vcore": 64, "memory": "256Gi"}),
        NodeFields("node-b-00", {"vcore": 8, "nvidia.com/gpu": 4}),
    ]


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("""\
- {node: fat, capacity: {vcore: 500m}, attributes: {rack: "1", ssd: true}}
- {node: thin, count: 2, capacity: {vcore: 2}}
- {op: settle}
- {op: add_node, node: own, capacity: {memory: 1Gi}}
""")

    assert [node.event() for node in nodes_of(str(file))] == [
        {
            "op": "add_node",
            "node": "fat",
            "capacity": {"vcore": "500m"},
            "attributes": {"rack": "1", "ssd": "true"},
        },
        {"op": "add_node", "node": "thin-00", "capacity": {"vcore": 2}},
        {"op": "add_node", "node": "thin-01", "capacity": {"vcore": 2}},
        {"op": "add_node", "node": "own", "capacity": {"memory": "1Gi"}},
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("4x", "'4x' is no number of nodes with their resources: write"),
        ("4", "No such file"),
        ("4x vcore", "'vcore' is no resource with its amount"),
        ("4x vcore=many", "many"),
        ("4x vcore=1; none", "'none' is no number of nodes"),
    ],
)
def test_a_text_that_is_wrong(text: str, problem: str) -> None:
    with pytest.raises((ValueError, FeedError), match=problem):
        nodes_of(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- {node: a}\n", "1: has no `capacity`"),
        ("- {node: a, capacity: {vcore: x}}\n", "1: .*x"),
        (
            "- {node: a, capasity: {vcore: 1}}\n",
            "'capasity' is no field of a node; did you mean capacity",
        ),
        ("- {node: a, count: 0, capacity: {vcore: 1}}\n", "count: '0' is not a whole number"),
        ("- {node: a, attributes: [b], capacity: {vcore: 1}}\n", "attributes: "),
        ("- {op: settle}\n", "has no node"),
    ],
)
def test_a_file_that_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(text)

    with pytest.raises(FeedError, match=problem):
        nodes_of(str(file))
