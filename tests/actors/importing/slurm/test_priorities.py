"""Where the priorities of asks come from, and what of Slurm's order is not in the feed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.importing.helpers import of, written
from tests.actors.importing.slurm.helpers import causes, of_rows, row

_MULTI = """\
ClusterName=c
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=0
PriorityWeightQOS=5
"""


def _priorities(folder: Path, conf: str, *options: str) -> tuple[list[int], dict[str, int]]:
    """Import three jobs; return their priorities, and what is counted."""
    file = written(folder / "slurm.conf", conf)
    rows = [
        row(1, Partition="a", Priority="7"),
        row(2, Partition="b", Priority="4294901000", Eligible="2026-01-31T10:00:03"),
        row(3, Partition="c", Priority="4294901001"),
    ]
    events, summary = of_rows(folder, *rows, options=("--slurm-conf", file, *options))
    asks = {ask["app"]: ask.get("priority", 0) for ask in of(events, "add_ask")}
    counted = causes(summary, "not_in_feed") | causes(summary, "in_another_form")
    return [asks[name] for name in "123"], counted


# IMPORT-19: The priorities of jobs of Slurm
def test_first_in_first_out_is_the_order_of_arrival(tmp_path: Path) -> None:
    for conf in ("ClusterName=c\n", _MULTI):
        priorities, _ = _priorities(tmp_path, conf)
        assert priorities == [-192_016_800, -192_016_803, -192_016_800]
    assert _priorities(tmp_path, conf, "--priority", "none")[0] == [0, 0, 0]
    # A part of a slurm.conf does not say the order.
    assert _priorities(tmp_path, "PartitionName=a MaxTime=5\n")[0] == [0, 0, 0]


# IMPORT-19
def test_a_higher_tier_goes_before_who_came_first(tmp_path: Path) -> None:
    conf = f"{_MULTI}PartitionName=a\nPartitionName=b PriorityTier=3\nPartitionName=c\n"
    (first, second, third), counted = _priorities(tmp_path, conf)
    assert second > first == third
    assert counted["the priority of its jobs has its PriorityTier in it"] == 3
    tiers = "".join(f"PartitionName={name} PriorityTier={10 - number}\n" for number, name in
                    enumerate("abcdefghij"))  # fmt: skip
    first, second, third = _priorities(tmp_path, _MULTI + tiers)[0]
    assert 2**31 > first > second > third >= -(2**31)
    same = f"{_MULTI}PartitionName=DEFAULT PriorityTier=3\nPartitionName=a\nPartitionName=b\n"
    assert _priorities(tmp_path, same)[0][0] == -192_016_800
    _, counted = _priorities(tmp_path, conf, "--priority", "job")
    assert counted["has a PriorityTier, which does not count: see --priority arrival"] == 3


# IMPORT-19
def test_the_numbers_of_priority_basic_keep_their_order(tmp_path: Path) -> None:
    priorities, counted = _priorities(tmp_path, _MULTI, "--priority", "job")
    assert priorities == [7, 2_147_417_352, 2_147_417_353]
    assert counted["each priority is the one that sacct shows last"] == 1


# IMPORT-20: What of Slurm's order is not in the feed
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("arrival", {"fairshare", "qos"}),
        ("none", {"age", "fairshare", "qos"}),
        ("job", set[str]()),  # the number that sacct shows has all of them
    ],
)
def test_each_weight_of_a_job_is_counted(tmp_path: Path, source: str, expected: set[str]) -> None:
    texts = {
        "age": "age does not count",
        "fairshare": "use of the past does not count",
        "qos": "the QOS of a job does not count: see --priority qos",
    }
    _, counted = _priorities(tmp_path, _MULTI, "--priority", source)
    assert {name for name, text in texts.items() if text in counted} == expected
    assert not any("size" in text for text in counted)  # its weight is 0


# IMPORT-20
@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ("PreemptType=preempt/qos", "no job is preempted"),
        ("PriorityType=priority/basic", "who came first has the highest priority"),
    ],
)
def test_what_else_is_counted(tmp_path: Path, conf: str, text: str) -> None:
    assert _priorities(tmp_path, f"ClusterName=c\n{conf}\n")[1][text] == 1
    assert (
        "no job is preempted"
        not in _priorities(tmp_path, "ClusterName=c\nPreemptType=preempt/none\n")[1]
    )


# IMPORT-20
def test_the_priority_of_the_qos_can_count(tmp_path: Path) -> None:
    qos = written(tmp_path / "qos.txt", "Name|Priority\nhigh|50\n")
    conf = written(tmp_path / "slurm.conf", _MULTI)
    options = ("--slurm-conf", conf, "--priority", "qos", "--qos", qos)
    events, summary = of_rows(tmp_path, row(1, QOS="high"), options=options)
    assert of(events, "add_ask")[0]["priority"] == 50
    assert causes(summary, "in_another_form")["the priority of the QOS goes first"]
