"""Jobs of sacct as applications with asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.importing.helpers import of, written
from tests.actors.importing.slurm.dumps import TREE
from tests.actors.importing.slurm.helpers import ask_of, causes, dump_of, of_rows, of_text, row


def test_a_job_of_one_node_is_one_ask(tmp_path: Path) -> None:
    events, summary = of_rows(tmp_path, row(7, Group="users"))
    assert events[0]["at"] == "2026-01-31T10:00:00Z"
    assert of(events, "add_app") == [
        {"app": "7", "queue": "root.phys", "user": "al", "groups": ["users"]}
    ]
    assert of(events, "add_ask") == [
        {
            "app": "7",
            "ask": "task",
            "resources": {"vcore": 2, "memory": 4 << 30},
            "run_for": 100,
            "estimate": 3600,
        }
    ]
    assert (summary["left_out"], summary["not_in_feed"], summary["in_another_form"]) == ([], [], [])


def test_a_job_comes_when_it_can_start(tmp_path: Path) -> None:
    events, summary = of_rows(tmp_path, row(7, Eligible="2026-01-31T10:00:03"))
    assert events[0]["at"] == "2026-01-31T10:00:03Z"
    assert causes(summary, "in_another_form") == {
        "could start later than it was submitted, and comes then": 1
    }
    # It cannot have started before.
    events, _ = of_rows(tmp_path, row(7, Eligible="2026-02-01T10:00:03"))
    assert events[0]["at"] == "2026-01-31T10:00:05Z"
    events, _ = of_rows(tmp_path, row(7, Submit="Unknown"))
    assert events[0]["at"] == "2026-01-31T10:00:00Z"


@pytest.mark.parametrize(
    ("state", "start", "elapsed", "cause"),
    [
        ("PENDING", "Unknown", "0", "waited when the dump was made"),
        ("CANCELLED by 5", "None", "0", "was cancelled before it started"),
        ("CANCELLED", "2026-01-31T10:00:05", "0", "was cancelled before it started"),
        ("DEADLINE", "Unknown", "0", "ended before it started"),
        ("COMPLETED", "2026-01-31T10:00:05", "", "it is not known how long it ran"),
    ],
)
def test_a_job_that_never_ran_is_left_out(
    tmp_path: Path, state: str, start: str, elapsed: str, cause: str
) -> None:
    end = "2026-01-31T10:00:01"
    bad = row(8, State=state, Start=start, ElapsedRaw=elapsed, End=end)
    _, summary = of_rows(tmp_path, row(7), bad)
    assert causes(summary) == {cause: 1}


@pytest.mark.parametrize(
    "state", ["FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED by 1", "DEADLINE"]
)
def test_a_job_that_ran_is_taken_however_it_ended(tmp_path: Path, state: str) -> None:
    assert ask_of(tmp_path, State=state)["run_for"] == 100


def test_a_job_that_has_not_ended_holds_its_room(tmp_path: Path) -> None:
    events, summary = of_rows(tmp_path, row(7, State="RUNNING", End="Unknown"))
    assert "run_for" not in of(events, "add_ask")[0]
    assert causes(summary, "in_another_form") == {"had not ended: it holds its room to the end": 1}


def test_a_job_that_has_ended_ends_even_if_its_end_is_not_known(tmp_path: Path) -> None:
    assert ask_of(tmp_path, State="FAILED", End="Unknown")["run_for"] == 100


def test_each_run_of_a_job_is_a_job(tmp_path: Path) -> None:
    first = row(7, State="REQUEUED", ElapsedRaw="10")
    second = row(7, Submit="2026-01-31T10:00:15", Start="2026-01-31T10:02:15", Eligible="")
    events, summary = of_rows(tmp_path, first, second, row(8))
    assert [app["app"] for app in of(events, "add_app")] == ["7", "8", "7-run-2"]
    assert [ask["run_for"] for ask in of(events, "add_ask")] == [10, 100, 100]
    assert causes(summary, "in_another_form") == {"a further run of a job, as a job of its own": 1}


def test_a_record_that_stands_there_twice_counts_once(tmp_path: Path) -> None:
    _, summary = of_rows(tmp_path, row(7), row(8), row(7), row(8))
    assert causes(summary) == {"there already: the first record counts": 2}


def test_an_array_is_one_application_with_an_ask_for_each_task(tmp_path: Path) -> None:
    rows = [row("9_0"), row("9_3", ElapsedRaw="7"), row("9_[4-9%2]", State="PENDING"), row(10)]
    events, summary = of_rows(tmp_path, *rows)
    assert [app["app"] for app in of(events, "add_app")] == ["9", "10"]
    assert [
        (ask["app"], ask["ask"], ask["run_for"]) for ask in of(events, "add_ask")
    ] == [("9", "0", 100), ("9", "3", 7), ("10", "task", 100)]  # fmt: skip
    assert causes(summary) == {"waited when the dump was made": 1}


def test_components_of_a_heterogeneous_job_are_one_gang(tmp_path: Path) -> None:
    rows = [row("5+0"), row("5+0.batch"), row("5+1", ReqTRES="cpu=4,mem=1G"), row(6)]
    events, _ = of_rows(tmp_path, *rows)
    assert [app["app"] for app in of(events, "add_app")] == ["5", "6"]
    assert of(events, "add_gang") == [{"gang": "job-5", "min_member": 2}]
    assert [(ask["ask"], ask.get("gang")) for ask in of(events, "add_ask")] == [
        ("0", "job-5"),
        ("1", "job-5"),
        ("task", None),
    ]


def test_a_number_that_both_a_job_and_an_array_have_names_two_applications(tmp_path: Path) -> None:
    events, _ = of_rows(tmp_path, row(5), row("5_1"), row("6_1"), row(6))
    names = [app["app"] for app in of(events, "add_app")]
    assert names == ["5", "5-tasks", "6", "6-job"]


def test_a_number_that_both_an_array_and_components_have_names_two_applications(
    tmp_path: Path,
) -> None:
    events, _ = of_rows(tmp_path, row("5_0"), row("5+0"), row("6+0"), row("6_0"), row(5))
    assert {(ask["app"], ask["ask"]) for ask in of(events, "add_ask")} == {
        ("5", "0"),
        ("5-parts", "0"),
        ("6", "0"),
        ("6-tasks", "0"),
        ("5-job", "task"),
    }


def test_jobs_of_two_clusters_may_have_the_same_number(tmp_path: Path) -> None:
    events, _ = of_rows(tmp_path, row(5, Cluster="a"), row(5, Cluster="b"), row(6))
    assert [app["app"] for app in of(events, "add_app")] == ["5", "b-1-5", "6"]


def test_since_and_until(tmp_path: Path) -> None:
    later = row(8, Submit="2026-02-01T10:00:00", Eligible="2026-02-01T10:00:00")
    _, summary = of_rows(tmp_path, row(7), later, options=("--since", "2026-02-01T00:00:00Z"))
    assert causes(summary) == {"outside --since and --until": 1}


@pytest.mark.parametrize("name", ["--mapping", "--queues"])
def test_fields_choose_queues(tmp_path: Path, name: str) -> None:
    fields = {
        "Partition": "batch", "QOS": "high", "JobName": "train", "WCKey": "w", "Cluster": "c1",
        "Reservation": "class", "Group": "users",
    }  # fmt: skip
    path = ".".join(
        f"{{{name}}}"
        for name in (
            "account_path", "partition", "qos", "user", "group", "name", "reservation", "wckey",
            "cluster",
        )
    )  # fmt: skip
    mapping = written(
        tmp_path / "queues.yaml",
        f"queues:\n- {{account: other, queue: root.other}}\n- {{account: ph*, queue: 'root.{path}'}}\n",
    )
    tree = written(tmp_path / "tree.txt", TREE)
    events, summary = of_text(
        tmp_path,
        dump_of(row(7, **fields), row(8, Account="other", **fields), row(9, Account="")),
        "--queues", mapping, "--accounts", tree,
    )  # fmt: skip
    assert [app["queue"] for app in of(events, "add_app")] == [
        "root.science.phys.batch.high.al.users.train.class.w.c1",
        "root.other",
    ]
    assert causes(summary) == {"no queue for it: see --mapping": 1}


def test_jobs_without_an_account_go_to_the_queue_of_their_partition(tmp_path: Path) -> None:
    events, _ = of_rows(tmp_path, row(7, Account="", Partition="batch"), row(8, Account=""))
    assert [app["queue"] for app in of(events, "add_app")] == ["root.batch", "root.default"]


def test_what_the_feed_does_not_say_is_noted(tmp_path: Path) -> None:
    _, summary = of_rows(tmp_path, row(7, Suspended="00:00:10", Reservation="class"))
    assert causes(summary, "not_in_feed") == {"ran in a reservation, which the feed has not": 1}
    assert causes(summary, "in_another_form") == {"was suspended: it holds its room meanwhile": 1}
