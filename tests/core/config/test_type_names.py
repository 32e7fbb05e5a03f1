"""Names of resource types that look like a slip. CONFIG-83."""

from __future__ import annotations

import pytest

from muster_core.config.loader import MOST_COMPARED, similar_type, type_name_warning


@pytest.mark.parametrize("name", ["cpu", "CPU", "cpus", "cores", "vcores", "vCPU"])
def test_what_means_vcore(name: str) -> None:
    assert (
        type_name_warning(name)
        == f"the type {name!r} is not vcore, but one of its own: write vcore"
    )


@pytest.mark.parametrize("name", ["mem", "MEM", "ram"])
def test_what_means_memory(name: str) -> None:
    assert "write memory" in (type_name_warning(name) or "")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("gpus", "gpu"),
        ("GPU", "gpu"),
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("nvidia.com/GPU", "nvidia.com/gpu"),
        ("nvdia.com/gpu", "nvidia.com/gpu"),
        ("memry", "memory"),
        ("memroy", "memory"),
        ("Memory", "memory"),
        ("ephemeral_storage", "ephemeral-storage"),
        ("licence", "licences"),
    ],
)
def test_names_that_differ_little(name: str, other: str) -> None:
    assert similar_type(name, ["pods", other]) == other
    assert similar_type(other, ["pods", name]) == name
    assert type_name_warning(name, [other]) is not None


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("gpu", "gpu"),
        ("gpu", "tpu"),
        ("gpu", "vgpu"),
        ("nvidia.com/gpu", "nvidia.com/vgpu"),
        ("nvidia.com/gpu", "amd.com/gpu"),
        ("hugepages-1Gi", "hugepages-2Mi"),
        ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"),
        ("a10", "a100"),
        ("rtx4090", "rtx4090s"),
        ("rtx4090", "rtx4090d"),
        ("hdd", "ssd"),
        ("pods", "ports"),
        ("memory", "memories"),
    ],
)
def test_names_of_two_types(name: str, other: str) -> None:
    assert similar_type(name, [other]) is None
    assert similar_type(other, [name]) is None


def test_only_some_are_compared() -> None:
    known = [*(f"type{number}" for number in range(MOST_COMPARED)), "gpu"]

    assert similar_type("gpus", known) is None
    assert similar_type("gpus", known[1:]) == "gpu"
