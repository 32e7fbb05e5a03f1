"""The estimates of jobs that say no time limit of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.actors.importing.helpers import Event, of, written
from tests.actors.importing.slurm.helpers import causes, of_rows, of_text, row

_CONF = """\
ClusterName=c
NodeName=n[1-2] CPUs=8 RealMemory=16000
PartitionName=DEFAULT Nodes=ALL MaxTime=2:00:00
PartitionName=short DefaultTime=30
PartitionName=long MaxTime=1-12
PartitionName=free MaxTime=UNLIMITED
PartitionName=odd DefaultTime=NONE MaxTime=INFINITE
"""
_OF_PARTITION = "says no time limit: its estimate is that of its partition"
_A_YEAR = "has no time limit: its estimate is a year, as Slurm plans it"
_UNKNOWN = "says no time limit: a backfill plans with the time that it really ran"
_YEAR_S = 365 * 86_400


def _estimate(asks: list[Event]) -> object:
    (ask,) = asks
    return ask.get("estimate")


# IMPORT-14: Time limits that jobs of Slurm do not say
@pytest.mark.parametrize(
    ("partition", "limit", "estimate", "cause"),
    [
        ("short", "5", 300, None),
        ("short", "Partition_Limit", 1800, _OF_PARTITION),
        ("short", "UNLIMITED", 7200, _OF_PARTITION),
        ("long", "", 129_600, _OF_PARTITION),
        ("free", "", _YEAR_S, _A_YEAR),
        ("free", "UNLIMITED", _YEAR_S, _A_YEAR),
        ("odd", "", _YEAR_S, _A_YEAR),
        ("gone", "UNLIMITED", _YEAR_S, _A_YEAR),
        ("gone", "", None, _UNKNOWN),
    ],
)
def test_the_partition_says_the_limit(
    tmp_path: Path, partition: str, limit: str, estimate: int | None, cause: str | None
) -> None:
    conf = written(tmp_path / "slurm.conf", _CONF)
    job = row(1, Partition=partition, TimelimitRaw=limit)
    # As --slurm-conf, and as --nodes, which then needs no --slurm-conf.
    for nodes, options in (("2x vcore=8,memory=16Gi", ("--slurm-conf", conf)), (conf, ())):
        events, summary = of_rows(tmp_path, job, nodes=nodes, options=options)
        assert _estimate(of(events, "add_ask")) == estimate
        told = causes(summary, "in_another_form").keys() & {_OF_PARTITION, _A_YEAR, _UNKNOWN}
        assert told == ({cause} if cause else set())


def test_without_the_partition_a_limit_is_not_known(tmp_path: Path) -> None:
    events, summary = of_rows(
        tmp_path,
        row(1, TimelimitRaw="", Timelimit="UNLIMITED"),
        row(2, TimelimitRaw="", Partition="short"),
    )
    assert [ask.get("estimate") for ask in of(events, "add_ask")] == [_YEAR_S, None]
    assert causes(summary, "in_another_form") == {_A_YEAR: 1, _UNKNOWN: 1}


@pytest.mark.parametrize(
    ("limit", "estimate"),
    [
        (None, _YEAR_S),  # as Slurm 22.05 writes it
        (0, None),
        ({"set": False, "infinite": True, "number": 0}, _YEAR_S),
        ({"set": True, "infinite": False, "number": 3}, 180),
        ({"set": False, "infinite": False, "number": 0}, None),
    ],
)
def test_a_document_says_that_there_is_no_limit(
    tmp_path: Path, limit: object, estimate: int | None
) -> None:
    job = {
        "job_id": 1,
        "state": {"current": "COMPLETED"},
        "required": {"CPUs": 1},
        "time": {
            "submission": 1769853600,
            "eligible": 1769853600,
            "start": 1769853600,
            "elapsed": 9,
            "limit": limit,
        },
    }
    events, _ = of_text(tmp_path, json.dumps({"jobs": [job]}))
    assert _estimate(of(events, "add_ask")) == estimate
