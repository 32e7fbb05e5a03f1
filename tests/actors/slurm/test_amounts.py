"""Amounts of Muster and of Slurm: exact, or refused."""

from __future__ import annotations

import pytest

from muster import EventError, Resources
from muster.slurm import DEFAULT_RESOURCES
from muster.slurm._nodes import Amounts, Share

MIB = 2**20
AMOUNTS = Amounts(DEFAULT_RESOURCES, counts_memory=True)


def test_share_of_an_ask() -> None:
    share = AMOUNTS.share(
        Resources({"vcore": 2000, "memory": 64 * MIB, "nvidia.com/gpu": 1, "fpga": 2})
    )
    assert share == Share(2, 64, (("fpga", 2), ("gpu", 1)))
    assert share.options == ("--cpus-per-task=2", "--mem=64M", "--gres=fpga:2,gpu:1")


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ({"vcore": 500, "memory": MIB}, r"vcore: 0\.5: Slurm gives whole CPUs only"),
        ({"memory": MIB}, r"vcore: 0: Slurm gives each job at least one CPU"),
        ({"vcore": 1000, "memory": 1}, r"memory: .*: Slurm gives whole mebibytes only"),
        ({"vcore": 1000}, r"memory: 0: Slurm gives a job all memory of its node"),
        ({"vcore": 1000, "memory": MIB, "gpu": 1}, r"gpu: Slurm's gpu is called 'nvidia.com/gpu'"),
    ],
)
def test_what_slurm_cannot_count_is_refused(amounts: dict[str, int], message: str) -> None:
    with pytest.raises(EventError, match=message):
        AMOUNTS.share(Resources(amounts))


def test_memory_need_not_be_said_where_slurm_does_not_count_it() -> None:
    amounts = Amounts(DEFAULT_RESOURCES, counts_memory=False)
    assert amounts.share(Resources({"vcore": 1000})).options == ("--cpus-per-task=1",)


def test_types_of_gpus() -> None:
    gres = {"gpu:a100": 2, "gpu:v100": 1}
    assert AMOUNTS.capacity(1, 1, gres)["nvidia.com/gpu"] == 3
    apart = Amounts({**DEFAULT_RESOURCES, "gpu:a100": "a100"}, counts_memory=True)
    capacity = apart.capacity(1, 1, gres)
    assert (capacity["nvidia.com/gpu"], capacity["a100"]) == (1, 2)
    share = apart.share(Resources({"vcore": 1000, "memory": MIB, "a100": 1}))
    assert share.gres == (("gpu:a100", 1),)


def test_two_resources_of_one_name_are_refused() -> None:
    with pytest.raises(EventError, match="two resources of Slurm have one name"):
        Amounts({"cpu": "x", "mem": "x"}, counts_memory=True)


def test_shares_of_one_node_add_up() -> None:
    one = Share(1, 10, (("gpu", 1),))
    assert one + Share(2, None, (("fpga", 1), ("gpu", 1))) == Share(
        3, 10, (("fpga", 1), ("gpu", 2))
    )
