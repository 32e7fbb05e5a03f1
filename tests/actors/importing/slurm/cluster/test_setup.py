"""How jobs are scheduled: slurm.conf, and what scontrol prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.feeds import FeedError
from muster.importing.slurm.conf import Partition, SchedulerOptions, read_setup
from tests.actors.cli.helpers import written

# As scontrol of Slurm 22.05 prints it.
_SHOWN = """\
Configuration data as of 2026-01-31T10:00:00
SchedulerParameters     = bf_interval=1
SchedulerTimeSlice      = 30 sec
SchedulerType           = sched/backfill
ScronParameters         = (null)

Slurmctld(primary) at cluster is UP
PartitionName=batch
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=00:10:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=2-01:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED

PartitionName=free
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED
"""


def _read(folder: Path, text: str) -> SchedulerOptions:
    return read_setup(str(written(folder / "conf.txt", text)))


def test_what_scontrol_prints(tmp_path: Path) -> None:
    setup = _read(tmp_path, _SHOWN)
    assert setup.partitions == {
        "batch": Partition(default_s=600, most_s=49 * 3600, place=f"{tmp_path}/conf.txt:8"),
        "free": Partition(default_s=None, most_s=None, place=f"{tmp_path}/conf.txt:14"),
    }
    assert setup.scheduler == ("sched/backfill", f"{tmp_path}/conf.txt:4")
    assert setup.options["schedulerparameters"] == ("bf_interval=1", f"{tmp_path}/conf.txt:2")
    assert "scronparameters" not in setup.options
    # In one line for each, and without anything else.
    lines = _SHOWN[_SHOWN.index("PartitionName") :].replace("\n   ", " ")
    again = _read(tmp_path, lines)
    assert list(again.partitions) == ["batch", "free"]
    assert again == SchedulerOptions(again.partitions)


@pytest.mark.parametrize(
    ("written_as", "seconds"),
    [
        ("30", 1800),
        ("1:30", 120),  # minutes and seconds, rounded up
        ("1:30:00", 5400),
        ("1-12", 36 * 3600),
        ("1-12:30", 36 * 3600 + 1800),
        ("1-00:00:01", 86_460),
        ("UNLIMITED", None),
    ],
)
def test_forms_of_time_limits(tmp_path: Path, written_as: str, seconds: int | None) -> None:
    setup = _read(tmp_path, f"PartitionName=p MaxTime={written_as}\n")
    assert setup.partitions["p"].most_s == seconds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PartitionName=p\nPartitionName=q MaxTime=1h\n", "conf.txt:2: MaxTime: '1h' is no time"),
        ("PartitionName=p AllowGroups=ALL\n   DefaultTime=x\n", "DefaultTime: 'x' is no time"),
        ("hello\n", "says neither SchedulerType nor partitions"),
        ("", "says neither SchedulerType nor partitions"),
    ],
)
def test_errors_have_their_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FeedError) as caught:
        _read(tmp_path, text)
    assert said in str(caught.value)
