"""What ``squeue --json`` prints, recorded from real daemons, and as later versions write it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.slurm import SilentError, SlurmError
from muster.slurm._commands import JobPhase, JobRecord, phase_of, read_jobs

RECORDED = Path(__file__).parent / "recorded"


def recorded() -> dict[int, JobRecord]:
    return read_jobs((RECORDED / "squeue-22.05.8.json").read_text("utf-8"))


def test_recorded_jobs_of_22_05() -> None:
    jobs = recorded()
    assert {
        number: (job.phase.value, job.state, job.status, job.nodes) for number, job in jobs.items()
    } == {
        1: ("ended", "COMPLETED", 0, "n1"),
        2: ("ended", "FAILED", 7, "n1"),
        3: ("ended", "FAILED", -9, "n1"),
        4: ("running", "RUNNING", 0, "n1"),
        5: ("ended", "CANCELLED", -15, "n1"),
        6: ("running", "RUNNING", 0, "n2"),
        7: ("waiting", "PENDING", 0, ""),
        8: ("ended", "NODE_FAIL", 0, "n3"),
        9: ("waiting", "PENDING", 0, ""),
        10: ("waiting", "PENDING", 0, ""),
    }
    assert jobs[2].reason == "NonZeroExitCode"
    assert jobs[1].comment == "muster:a/x/1"
    assert [(jobs[number].leader, jobs[number].offset) for number in (8, 9, 10)] == [
        (0, 0),
        (9, 0),
        (9, 1),
    ]
    assert jobs[4].first_node == "n1"
    assert {job.user for job in jobs.values()} == {0}


def test_empty_list_of_a_controller_that_is_away_is_no_list() -> None:
    printed = (RECORDED / "squeue-silent-22.05.8.json").read_text("utf-8")
    assert json.loads(printed)["jobs"] == []
    with pytest.raises(SilentError, match="slurm_load_jobs"):
        read_jobs(printed)


@pytest.mark.parametrize("printed", ["", "slurm_load_jobs error", "[]", '{"jobs": 3}', "3"])
def test_what_is_no_list_of_jobs_is_refused(printed: str) -> None:
    with pytest.raises(SlurmError, match="expected a map with a list of jobs"):
        read_jobs(printed)


def number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}


def test_forms_of_later_versions() -> None:
    """Made from the documentation of these versions: no daemons of them were at hand."""
    later = {
        "jobs": [
            {
                "job_id": 17,
                "job_state": ["RUNNING", "CONFIGURING"],
                "exit_code": {"status": ["PENDING"], "return_code": UNSET, "signal": {"id": UNSET}},
                "comment": "muster:a/x/1",
                "het_job_id": number(0),
                "het_job_offset": UNSET,
                "batch_host": "n1",
            },
            {
                "job_id": 18,
                "job_state": ["FAILED"],
                "exit_code": {"status": ["ERROR"], "return_code": number(3)},
                "comment": {"administrator": "see me", "job": "muster:a/x/2", "system": ""},
                "user_id": number(1000),
            },
            {
                "job_id": 19,
                "job_state": "CANCELLED",
                "exit_code": {
                    "status": "SIGNALED",
                    "return_code": 0,
                    "signal": {"signal_id": 15, "name": "TERM"},
                },
                "het_job_id": number(18),
                "het_job_offset": number(1),
            },
            {"job_id": 20, "job_state": ["CANCELLED", "COMPLETING"], "exit_code": None},
            {"job_id": "odd"},
            "odd",
        ],
        "errors": [],
        "warnings": [],
    }
    jobs = read_jobs(json.dumps(later))
    assert {one: (job.phase, job.state, job.status) for one, job in jobs.items()} == {
        17: (JobPhase.WAITING, "RUNNING", None),
        18: (JobPhase.ENDED, "FAILED", 3),
        19: (JobPhase.ENDED, "CANCELLED", -15),
        20: (JobPhase.ENDING, "CANCELLED", None),
    }
    assert [job.comment for job in jobs.values()] == ["muster:a/x/1", "muster:a/x/2", "", ""]
    assert (jobs[17].user, jobs[18].user) == (None, 1000)
    assert (jobs[17].leader, jobs[19].leader, jobs[19].offset) == (0, 18, 1)


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        (("PENDING",), JobPhase.WAITING),
        (("CONFIGURING",), JobPhase.WAITING),
        (("RUNNING",), JobPhase.RUNNING),
        (("SUSPENDED",), JobPhase.RUNNING),
        (("COMPLETING",), JobPhase.ENDING),
        (("COMPLETED",), JobPhase.ENDED),
        (("FAILED",), JobPhase.ENDED),
        (("TIMEOUT",), JobPhase.ENDED),
        (("NODE_FAIL",), JobPhase.ENDED),
        (("BOOT_FAIL",), JobPhase.ENDED),
        (("PREEMPTED",), JobPhase.ENDED),
        (("CANCELLED",), JobPhase.ENDED),
        (("OUT_OF_MEMORY",), JobPhase.ENDED),
        (("SOMETHING_NEW",), JobPhase.UNKNOWN),
        ((), JobPhase.UNKNOWN),
    ],
)
def test_phases(states: tuple[str, ...], phase: JobPhase) -> None:
    assert phase_of(states) is phase
