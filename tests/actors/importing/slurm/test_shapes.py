"""What jobs ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.importing.helpers import of, written
from tests.actors.importing.slurm.dumps import NODES as SHOWN
from tests.actors.importing.slurm.helpers import ask_of, causes, of_rows, row

_GPUS = "2x vcore=64,memory=256Gi,nvidia.com/gpu=8,mps=100"
GIB = 1 << 30


@pytest.mark.parametrize(
    ("values", "resources"),
    [
        ({"ReqTRES": "cpu=4,mem=16G,gres/gpu=2,gres/gpu:a100=2"},
         {"vcore": 4, "memory": 16 * GIB, "nvidia.com/gpu": 2}),
        ({"ReqTRES": "cpu=4,gres/gpu:a100=1,gres/gpu:h100=2"}, {"vcore": 4, "nvidia.com/gpu": 3}),
        ({"ReqTRES": "cpu=4,gres/mps=50"}, {"vcore": 4, "mps": 50}),
        ({"ReqTRES": "", "AllocTRES": "cpu=8,mem=2G,node=1"}, {"vcore": 8, "memory": 2 * GIB}),
        ({"ReqTRES": "", "ReqCPUS": "4", "ReqMem": "2Gc"}, {"vcore": 4, "memory": 8 * GIB}),
        ({"ReqTRES": "", "NCPUS": "4", "ReqMem": "2Gn"}, {"vcore": 4, "memory": 2 * GIB}),
        ({"ReqTRES": "", "AllocCPUS": "4", "ReqMem": "3G"}, {"vcore": 4, "memory": 3 * GIB}),
        ({"ReqTRES": "cpu=4,mem=0", "AllocTRES": "cpu=4,mem=9G"}, {"vcore": 4, "memory": 9 * GIB}),
    ],
)  # fmt: skip
def test_resources(tmp_path: Path, values: dict[str, str], resources: dict[str, int]) -> None:
    assert ask_of(tmp_path, nodes=_GPUS, **values)["resources"] == resources


def test_what_was_asked_for_counts_and_not_the_whole_node(tmp_path: Path) -> None:
    job = row(7, ReqTRES="cpu=1,mem=1G", AllocTRES="cpu=8,mem=1G,node=1")
    events, summary = of_rows(tmp_path, job)
    assert of(events, "add_ask")[0]["resources"] == {"vcore": 1, "memory": GIB}
    (cause,) = summary["not_in_feed"]
    assert cause["cause"].startswith("held more CPUs than it asked for")
    assert cause["example"] == "8 instead of 1"


def test_a_job_of_several_nodes_is_a_gang_whose_members_are_alike(tmp_path: Path) -> None:
    job = row(7, ReqTRES="cpu=8,mem=3G,node=1", AllocTRES="cpu=8,node=3", NNodes="3")
    events, _ = of_rows(tmp_path, job)
    assert of(events, "add_gang") == [{"gang": "job-7", "min_member": 3}]
    assert [
        (ask["ask"], ask["resources"], ask.get("count", 1), ask["gang"])
        for ask in of(events, "add_ask")
    ] == [
        ("large", {"vcore": 3, "memory": GIB}, 2, "job-7"),
        ("task", {"vcore": 2, "memory": GIB}, 1, "job-7"),
    ]


def test_sums_stay_the_same_when_they_are_divided(tmp_path: Path) -> None:
    job = row(7, ReqTRES="cpu=9,mem=10M,gres/gpu=5", NNodes="4")
    events, _ = of_rows(tmp_path, job, nodes=_GPUS)
    asks = of(events, "add_ask")
    for name, total in (("vcore", 9), ("memory", 10 << 20), ("nvidia.com/gpu", 5)):
        sizes = [ask["resources"].get(name, 0) for ask in asks for _ in range(ask.get("count", 1))]
        assert sum(sizes) == total
        assert sizes == sorted(sizes, reverse=True)
    assert [ask["ask"] for ask in asks] == ["size-1", "size-2", "size-3"]


def test_partitions_features_and_types_are_selectors_where_nodes_have_them(tmp_path: Path) -> None:
    nodes = written(tmp_path / "nodes.txt", SHOWN)
    ask = ask_of(tmp_path, nodes, Partition="batch", Constraints="ib&avx512")
    assert ask["selector"] == {
        "partition.batch": "true", "feature.ib": "true", "feature.avx512": "true",
    }  # fmt: skip
    ask = ask_of(tmp_path, nodes, Partition="gpu", ReqTRES="cpu=1,gres/gpu=1,gres/gpu:a100=1")
    assert ask["selector"] == {"partition.gpu": "true", "gpu.a100": "true"}
    assert "selector" not in ask_of(tmp_path, Partition="batch")


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"Constraints": "a100|ib"}, "its constraint is not a list of features with &"),
        ({"Constraints": "[rack1*2]"}, "its constraint is not a list of features with &"),
        ({"Constraints": "tape"}, "asked for a feature that no node has"),
        ({"Partition": "old"}, "in a partition that no node has"),
        ({"Partition": "batch,gpu"}, "in a partition that no node has"),
        ({"ReqTRES": "cpu=1,gres/gpu:v100=1"}, "asked for a type of GPU that no node has"),
        ({"ReqTRES": "cpu=1,gres/gpu:v100=1,gres/gpu:a100=1"}, "asked for several types of GPU"),
        ({"ReqTRES": "cpu=1,gres/fpga=1"}, "asked for fpga, which no node has"),
        ({"ReqTRES": "cpu=1,license/matlab=2"}, "asked for what is not of a node, such as licences"),
        ({"ReqTRES": "cpu=64"}, "asks for more than any node has: it never starts"),
    ],
)  # fmt: skip
def test_what_cannot_be_modelled_is_noted(
    tmp_path: Path, values: dict[str, str], cause: str
) -> None:
    nodes = written(tmp_path / "nodes.txt", SHOWN)
    _, summary = of_rows(tmp_path, row(7, **values), nodes=nodes)
    assert causes(summary, "not_in_feed") == {cause: 1}


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"ReqTRES": "mem=4G"}, "it is not known how many CPUs it asked for"),
        ({"NNodes": "70000"}, "more than 65,536 nodes"),
    ],
)
def test_a_job_that_says_too_little_or_too_much_is_left_out(
    tmp_path: Path, values: dict[str, str], cause: str
) -> None:
    _, summary = of_rows(tmp_path, row(7), row(8, **values))
    assert causes(summary) == {cause: 1}


@pytest.mark.parametrize("share", ["shard", "mps"])
def test_shares_of_gpus_that_take_no_gpu_are_counted(tmp_path: Path, share: str) -> None:
    tres = f"cpu=1,gres/{share}=4,node=1"
    both = f"2x vcore=8,nvidia.com/gpu=2,{share}=8"
    cause = f"asked for {share}, which takes nothing of the GPUs in the feed"
    _, summary = of_rows(tmp_path, row(1, ReqTRES=tres), row(2), nodes=both)
    assert causes(summary, "not_in_feed")[cause] == 1
    _, summary = of_rows(tmp_path, row(1, ReqTRES=tres), nodes=f"2x vcore=8,{share}=8")
    assert cause not in causes(summary, "not_in_feed")
