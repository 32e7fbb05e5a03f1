"""What Slurm prints, recorded from real daemons: jobs and nodes; their comments and amounts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from muster import EventError, Resources
from muster.slurm import DEFAULT_RESOURCES, SilentError, SlurmError
from muster.slurm._commands import JobPhase, JobRecord, phase_of, read_jobs
from muster.slurm._nodes import Amounts, Share, SlurmNode, fields_of, node_specs, read_nodes
from muster.slurm._sbatch import JobComment, JobTag, read_comment

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


RECORDED_NODES = (Path(__file__).parent / "recorded" / "nodes-22.05.8.txt").read_text("utf-8")
AMOUNTS = Amounts(DEFAULT_RESOURCES, counts_memory=True)
MIB = 2**20


def a_node(more: str) -> SlurmNode:
    (node,) = read_nodes(f"NodeName=n9 CPUTot=8 RealMemory=1000 Partitions=p {more}")
    return node


def test_recorded_nodes() -> None:
    nodes = {node.name: node for node in read_nodes(RECORDED_NODES)}
    assert {name: sorted(node.states) for name, node in nodes.items()} == {
        "n1": ["DRAIN", "MIXED"],
        "n2": ["ALLOCATED"],
        "n3": ["DOWN", "NOT_RESPONDING"],
    }
    assert fields_of(RECORDED_NODES.splitlines()[0])["Reason"].startswith("a disk = broken")
    assert nodes["n3"].gres == {"gpu": 2}
    assert nodes["n1"].features == ("fast",)


@pytest.mark.parametrize("printed", ["", "\n", "No nodes in the system\n"])
def test_no_nodes_are_no_answer(printed: str) -> None:
    with pytest.raises(SlurmError, match="scontrol: expected nodes"):
        read_nodes(printed)


def test_drained_node_is_closed_and_one_that_is_down_is_gone() -> None:
    wanted = node_specs(read_nodes(RECORDED_NODES), "muster", None, AMOUNTS)
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
    nodes = read_nodes(RECORDED_NODES.replace("State=DOWN+NOT_RESPONDING", "State=IDLE"))
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


def test_comment_of_a_job() -> None:
    tag = JobTag("muster", "a b", "x%1", (17,))
    assert tag.text == "muster:a%20b/x%251/17"
    assert tag.job_name == "muster:a%20b/x%251"
    assert read_comment(tag.text) == JobComment(tag, {})


def test_comment_of_a_leader() -> None:
    # REPLICA-16
    tag = JobTag("muster", "a", "x@2", (17,), 3)
    assert (tag.text, tag.job_name) == ("muster:a/x@2/17@3", "muster:a/x@2")
    assert read_comment("muster:a/x@2/17@3") == JobComment(tag, {})
    assert read_comment("muster:a/x@2/17") == JobComment(JobTag("muster", "a", "x@2", (17,), 1), {})


def test_comment_of_a_gang() -> None:
    tag = JobTag("muster", "default/ring", None, (3, 4, 5, 9))
    assert tag.text == "muster:default%2Fring/*/3-5,9"
    assert tag.job_name == "muster:default%2Fring/*/3"
    assert read_comment(f"{tag.text} 0,,143,") == JobComment(tag, {3: 0, 5: 143})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a job of mine",
        "muster:a/b",
        "muster:a/b/c",
        "muster:a/b/3-",
        "muster:a/b/3,2",
        "a/b/3",
        "muster:a/b/3@",
        "muster:a/b/3@x",
    ],
)
def test_other_comments_are_not_ours(text: str) -> None:
    assert read_comment(text) is None


@given(
    st.text(min_size=1, max_size=20),
    st.none() | st.text(min_size=1, max_size=20),
    st.sets(st.integers(0, 10**9), min_size=1, max_size=20),
    st.integers(1, 10**9),
)
def test_comments_are_read_as_they_were_written(
    app: str, ask: str | None, numbers: set[int], term: int
) -> None:
    try:
        (app + (ask or "")).encode()
    except UnicodeEncodeError:
        return  # no name can be that
    tag = JobTag("muster", app, ask, tuple(sorted(numbers)), term)
    assert read_comment(tag.text) == JobComment(tag, {})


def test_what_is_too_long_for_a_comment_is_refused() -> None:
    JobTag("muster", "default/ring", None, tuple(range(200))).check()
    with pytest.raises(EventError, match="gang: 'g': 300 members are too many"):
        JobTag("muster", "g", None, tuple(range(300))).check()
    with pytest.raises(EventError, match=r"app, ask: .*too long"):
        JobTag("muster", "g" * 2000, "x", (1,)).check()


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
