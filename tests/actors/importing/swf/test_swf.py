"""``muster import swf``: the Standard Workload Format."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tests.actors.cli.helpers import run
from tests.actors.importing.helpers import events_of, imported, refusal, written

HEADER = """\
; Version: 2.2
; MaxNodes: 4 (of them one is large)
; MaxProcs: 32
; Queue: 1 batch (the usual one)
; Partition: 2 gpu
"""
DATED = HEADER + "; UnixStartTime: 1767225600\n"


def line(job: int = 1, **values: int) -> str:
    """Return the line of a job of one processor that came at once and ran for 100 s."""
    names = (
        "job", "submit", "wait", "run", "allocated", "cpu", "used_memory", "processors", "time",
        "memory", "status", "user", "group", "executable", "queue", "partition", "after", "think",
    )  # fmt: skip
    known = {"job": job, "submit": 0, "run": 100, "processors": 1, "status": 1, "queue": 1} | values
    return " ".join(str(known.get(name, -1)) for name in names) + "\n"


def test_a_job_of_one_node_is_one_ask(tmp_path: Path) -> None:
    text = HEADER + line(7, submit=5, processors=8, user=3, group=2)
    events, summary = imported("swf", written(tmp_path / "a.swf", text))

    assert events_of(events, "add_app") == [
        {"app": "7", "queue": "root.batch", "user": "user-3", "groups": ["group-2"]}
    ]
    assert events_of(events, "add_ask") == [
        {"app": "7", "ask": "task", "resources": {"vcore": 8}, "run_for": 100}
    ]
    assert events[0]["at"] == 5
    assert (summary["read"], summary["taken"]) == ({"job": 1}, {"job": 1})


# IMPORT-13: How long a job was expected to run
def test_the_requested_time_is_the_estimate(tmp_path: Path) -> None:
    text = HEADER + line(1, time=3600) + line(2, time=-1) + line(3, time=0)
    events, _ = imported("swf", written(tmp_path / "a.swf", text))

    assert [ask.get("estimate") for ask in events_of(events, "add_ask")] == [3600, None, None]


def test_the_header_has_the_nodes(tmp_path: Path) -> None:
    text = HEADER.replace("32", "31") + "; MaxMemory: 1024\n" + line()
    events, _ = imported("swf", written(tmp_path / "a.swf", text))

    assert [node["capacity"] for node in events_of(events, "add_node")] == [
        {"vcore": 8, "memory": 1 << 20},
        {"vcore": 8, "memory": 1 << 20},
        {"vcore": 8, "memory": 1 << 20},
        {"vcore": 7, "memory": 1 << 20},
    ]


def test_a_job_of_several_nodes_is_a_gang_whose_members_are_alike(tmp_path: Path) -> None:
    text = HEADER + line(4, processors=20)
    events, _ = imported("swf", written(tmp_path / "a.swf", text))

    assert events_of(events, "add_gang") == [{"gang": "job-4", "min_member": 3}]
    assert [
        (ask["ask"], ask["resources"], ask.get("count", 1), ask["gang"])
        for ask in events_of(events, "add_ask")
    ] == [("large", {"vcore": 7}, 2, "job-4"), ("task", {"vcore": 6}, 1, "job-4")]


def test_memory_counts_where_nodes_have_some(tmp_path: Path) -> None:
    text = HEADER + line(processors=2, memory=1024)
    nodes = "2x vcore=8,memory=1Gi"
    events, _ = imported("swf", written(tmp_path / "a.swf", text), "--nodes", nodes)

    assert events_of(events, "add_ask")[0]["resources"] == {"vcore": 2, "memory": 2 << 20}


# IMPORT-4: Queues
def test_a_rule_that_gives_no_job_its_queue_is_reported(tmp_path: Path) -> None:
    log = written(tmp_path / "a.swf", HEADER + line())
    rules = "queues:\n- {queue_name: batch, queue: b}\n- {user: 'al*', queue: a}\nothers: c\n"
    queues = written(tmp_path / "queues.yaml", rules)
    result = run("import", "swf", log, "--queues", queues, "-o", tmp_path / "feed.jsonl")

    assert result.exit_code == 0
    warning = f"{queues}:3: warning: no job goes to a by this rule (user: al*)"
    assert [text for text in result.stderr.splitlines() if "warning" in text] == [warning]


def test_dates_come_from_the_header(tmp_path: Path) -> None:
    path = written(tmp_path / "a.swf", DATED + line(1, submit=60) + line(2, submit=3600))
    events, summary = imported("swf", path)

    assert [event["at"] for event in events if "at" in event] == [
        "2026-01-01T00:01:00Z",
        "2026-01-01T01:00:00Z",
    ]
    assert (summary["first"], summary["last"]) == ("2026-01-01T00:01:00Z", "2026-01-01T01:00:00Z")

    events, summary = imported("swf", path, "--since", "2026-01-01T00:30:00Z")
    assert [app["app"] for app in events_of(events, "add_app")] == ["2"]
    assert [cause["cause"] for cause in summary["left_out"]] == ["outside --since and --until"]
    assert run("import", "swf", path, "-o", tmp_path / "b.jsonl", "--until", "5").exit_code == 2


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"run": -1, "status": 5}, "cancelled before it started"),
        ({"run": -1}, "it is not known how long it ran"),
        ({"submit": -1}, "it is not known when it was submitted"),
        ({"processors": -1}, "it is not known how many processors it used"),
        ({"status": 3}, "part of a job that has a line of its own"),
    ],
)
def test_what_is_left_out_is_counted(tmp_path: Path, values: dict[str, int], cause: str) -> None:
    path = written(tmp_path / "a.swf", HEADER + line(1) + line(2, **values) + line(3, **values))
    events, summary = imported("swf", path)

    assert [app["app"] for app in events_of(events, "add_app")] == ["1"]
    [left] = summary["left_out"]
    assert (left["what"], left["cause"], left["count"]) == ("job", cause, 2)
    assert left["first"] == f"{path}:7"


def test_lines_that_are_no_jobs_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.swf", HEADER + line() + "1 2 3\n")
    _, summary = imported("swf", path)

    assert summary["left_out"][0] == {
        "what": "job",
        "cause": "not 18 numbers",
        "count": 1,
        "first": f"{path}:7",
        "example": "1 2 3",
    }


def test_job_numbers_that_do_not_rise_get_names_of_their_own(tmp_path: Path) -> None:
    events, _ = imported("swf", written(tmp_path / "a.swf", HEADER + line(2) + line(2) + line(1)))

    assert [app["app"] for app in events_of(events, "add_app")] == ["2", "2-line-7", "1-line-8"]


def test_a_mapping_file_chooses_queues(tmp_path: Path) -> None:
    rules = written(
        tmp_path / "queues.yaml",
        "queues:\n- {user: user-1, queue: root.one}\n- {partition: 'g*', queue: 'root.{partition}'}\n",
    )
    text = HEADER + line(1, user=1) + line(2, user=2, partition=2) + line(3, user=2)
    events, summary = imported("swf", written(tmp_path / "a.swf", text), "--queues", rules)

    assert [app["queue"] for app in events_of(events, "add_app")] == ["root.one", "root.gpu"]
    assert summary["left_out"][0]["cause"] == "no queue for it: see --mapping"


def test_a_feed_that_replays(tmp_path: Path) -> None:
    path = tmp_path / "a.swf.gz"
    path.write_bytes(gzip.compress((HEADER + line(1) + line(2, processors=32)).encode()))
    feed = tmp_path / "feed.yaml.gz"

    assert run("import", "swf", path, "-o", feed).exit_code == 0
    replayed = run("replay", feed, "--strict")
    assert replayed.exit_code == 0, replayed.output
    assert re.search(r"^asks bound +5$", replayed.stdout, re.MULTILINE), replayed.stdout


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty: it has neither a header nor a job"),
        ("hello\n", ":1: is no Standard Workload Format"),
        (HEADER + line(status=3), "has no job that a feed can have: 1 job: part of a job"),
        (line(), "its header has no usable MaxNodes and MaxProcs: say with --nodes"),
        (HEADER.replace("32", "9" * 17) + line(), "no usable MaxNodes and MaxProcs"),
    ],
)
def test_what_is_no_such_log_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in refusal("swf", written(tmp_path / "a.swf", text))
