"""examples/philly/to_feed.py: a table of jobs becomes a feed."""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path
from typing import cast

import click
import pytest
import yaml
from click.testing import CliRunner, Result

PHILLY = Path(__file__).parents[2] / "examples" / "philly"
GPU = "nvidia.com/gpu"
TABLE = """\
job_id,submit_s,vc,gpus,duration_s,in_window,vc_source
10,5,aa,1,60,0,M
11,4062780,bb,8,7,1,M
12,4062780,,2,0,1,
13,4062781,aa,20,9,1,M
"""
Events = list[dict[str, object]]


@pytest.fixture(scope="module")
def command() -> click.Command:
    return cast(click.Command, runpy.run_path(str(PHILLY / "to_feed.py"))["main"])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def run(command: click.Command, *words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def events_of(command: click.Command, *words: object) -> Events:
    result = run(command, *words)

    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def events_of_one(command: click.Command, folder: Path, gpus: int, job: str = "a") -> Events:
    """Give the feed of a table of one job."""
    table = folder / "one.csv"
    table.write_text(f"job_id,submit_s,gpus,duration_s\n{job},0,{gpus},5\n", encoding="utf-8")
    return events_of(command, table, "--nodes", 4, "--wide", "gang", "--priority", "sjf")


def jobs_in(events: Events) -> list[object]:
    return [event["app"] for event in events if event["op"] == "add_app"]


def test_a_job_is_an_application_with_one_ask(command: click.Command, table: Path) -> None:
    events = events_of(command, table, "--nodes", 2, "--vc", "aa")

    gpus = "nvidia.com/gpu"
    assert events == [
        {"op": "add_node", "node": "node-0000", "capacity": {gpus: 8}},
        {"op": "add_node", "node": "node-0001", "capacity": {gpus: 8}},
        {"op": "add_app", "at": 5, "app": "10", "queue": "root.aa"},
        {"op": "add_ask", "app": "10", "ask": "gpus", "resources": {gpus: 1}, "run_for": 60},
    ]


def test_jobs_of_one_second_stay_in_the_order_of_the_table(
    command: click.Command, tmp_path: Path
) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("submit_s,gpus,duration_s\n7,1,1\n3,1,1\n7,1,1\n3,1,1\n", encoding="utf-8")

    events = events_of(command, table, "--nodes", 1)

    assert jobs_in(events) == ["1", "3", "0", "2"]


def test_a_job_without_a_cluster_is_unknown(command: click.Command, table: Path) -> None:
    events = events_of(command, table, "--nodes", 1, "--vc", "unknown")

    assert events[1]["queue"] == "root.unknown"


def test_a_job_of_no_duration_runs_one_second_and_that_is_said(
    command: click.Command, table: Path
) -> None:
    result = run(command, table, "--nodes", 1, "--vc", "unknown")

    assert json.loads(result.stdout.splitlines()[-1])["run_for"] == 1
    assert "run 1 s instead of none: 1 jobs" in result.stderr


def test_shortest_first_is_minus_the_duration(command: click.Command, table: Path) -> None:
    events = events_of(command, table, "--nodes", 1, "--vc", "unknown", "--vc", "aa")
    sjf = events_of(command, table, "--nodes", 1, "--priority", "sjf")

    assert all("priority" not in event for event in events)
    assert [event["priority"] for event in sjf if event["op"] == "add_ask"] == [-60, -7, 0]


def test_only_the_published_window(command: click.Command, table: Path) -> None:
    result = run(command, table, "--nodes", 1, "--window")

    assert jobs_in([json.loads(line) for line in result.stdout.splitlines()]) == ["11", "12"]
    assert "2 jobs\n" in result.stderr
    assert "left out: 1 jobs submitted outside the published window" in result.stderr


def test_a_wide_job_is_left_out_and_that_is_said(command: click.Command, table: Path) -> None:
    result = run(command, table, "--nodes", 1)

    assert '"13"' not in result.stdout
    assert "left out: 1 jobs of more than 8 GPUs" in result.stderr


def test_a_wide_job_can_be_split_into_asks_of_one_node(command: click.Command, table: Path) -> None:
    events = events_of(command, table, "--nodes", 3, "--wide", "split", "--priority", "sjf")

    worker, rest = events[-2:]
    assert (worker["ask"], worker["count"], worker["resources"]) == (
        "worker",
        2,
        {"nvidia.com/gpu": 8},
    )
    assert (rest["ask"], rest["resources"]) == ("rest", {"nvidia.com/gpu": 4})
    assert worker["priority"] == rest["priority"] == -9


def test_jobs_that_were_split_are_counted(command: click.Command, table: Path) -> None:
    result = run(command, table, "--nodes", 3, "--wide", "split")

    assert "1 jobs of more than 8 GPUs split, and not all-or-nothing\n" in result.stderr


def test_a_wide_job_can_be_a_gang_of_full_nodes_and_the_rest(
    command: click.Command, table: Path
) -> None:
    events = events_of(command, table, "--nodes", 3, "--wide", "gang", "--vc", "aa")

    assert events[-4:] == [
        {"op": "add_app", "at": 4062781, "app": "13", "queue": "root.aa"},
        {"op": "add_gang", "gang": "job-13", "min_member": 3},
        {
            "op": "add_ask",
            "app": "13",
            "ask": "worker",
            "resources": {GPU: 8},
            "run_for": 9,
            "count": 2,
            "gang": "job-13",
        },
        {
            "op": "add_ask",
            "app": "13",
            "ask": "rest",
            "resources": {GPU: 4},
            "run_for": 9,
            "gang": "job-13",
        },
    ]


@pytest.mark.parametrize(
    ("gpus", "members", "asks"),
    [
        (9, 2, [("worker", 1, 8), ("rest", None, 1)]),
        (15, 2, [("worker", 1, 8), ("rest", None, 7)]),
        (16, 2, [("worker", 2, 8)]),
        (17, 3, [("worker", 2, 8), ("rest", None, 1)]),
        (32, 4, [("worker", 4, 8)]),
    ],
)
def test_a_gang_has_as_many_members_as_its_job_has_nodes(
    command: click.Command,
    tmp_path: Path,
    gpus: int,
    members: int,
    asks: list[tuple[str, int | None, int]],
) -> None:
    events = events_of_one(command, tmp_path, gpus)

    assert [event["min_member"] for event in events if event["op"] == "add_gang"] == [members]
    assert [
        (event["ask"], event.get("count"), cast(dict[str, int], event["resources"])[GPU])
        for event in events
        if event["op"] == "add_ask" and event["gang"] == "job-a"
    ] == asks


@pytest.mark.parametrize("gpus", [1, 8])
def test_a_job_of_one_node_is_no_gang(command: click.Command, tmp_path: Path, gpus: int) -> None:
    *_, ask = events_of_one(command, tmp_path, gpus)

    assert ask == {"op": "add_ask", "app": "a", "ask": "gpus", "resources": {GPU: gpus}} | {
        "priority": -5,
        "run_for": 5,
    }


@pytest.mark.parametrize(
    ("job", "gang"),
    [
        ("application_1506638472019_10258", "job-application-1506638472019-10258"),
        ("Train.A_", "job-train-a"),
        ("__", "job"),
    ],
)
def test_the_name_of_a_gang_is_one_that_kubernetes_takes(
    command: click.Command, tmp_path: Path, job: str, gang: str
) -> None:
    events = events_of_one(command, tmp_path, 16, job)

    assert [event.get("gang") for event in events[-3:]] == [None, gang, gang]


def test_members_are_as_urgent_as_their_job_and_on_nodes_of_its_cluster(
    command: click.Command, table: Path, tmp_path: Path
) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("vc,nodes\naa,3\n", encoding="utf-8")
    options = ("--wide", "gang", "--priority", "sjf")

    *_, worker, rest = events_of(command, table, "--nodes", nodes, *options)

    assert worker["priority"] == rest["priority"] == -9
    assert worker["selector"] == rest["selector"] == {"vc": "aa"}


def test_gangs_are_counted_and_nothing_is_left_out(command: click.Command, table: Path) -> None:
    result = run(command, table, "--nodes", 3, "--wide", "gang", "--vc", "aa", "--vc", "bb")

    assert result.stderr == "3 jobs\n1 jobs of more than 8 GPUs as gangs\n"


def test_each_cluster_can_have_nodes_of_its_own(
    command: click.Command, table: Path, tmp_path: Path
) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("vc,nodes,gpus_per_node\naa,1,8\nbb,2,8\ncc,1,8\n", encoding="utf-8")

    result = run(command, table, "--nodes", nodes, "--vc", "bb", "--vc", "unknown")

    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["node"] for event in events[:2]] == ["bb-node-0000", "bb-node-0001"]
    assert events[0]["attributes"] == events[-1]["selector"] == {"vc": "bb"}
    assert jobs_in(events) == ["11"]
    assert "left out: 1 jobs of a virtual cluster for which" in result.stderr


def test_the_configuration_is_named_as_seen_from_the_feed(
    command: click.Command, table: Path, tmp_path: Path
) -> None:
    config = tmp_path / "conf" / "fifo.yaml"
    config.parent.mkdir()
    config.touch()
    out = tmp_path / "feeds" / "a.jsonl"
    out.parent.mkdir()

    run(command, table, "--nodes", 1, "--config", config, "-o", out)

    first = json.loads(out.read_text(encoding="utf-8").splitlines()[0])
    assert first == {"op": "configure", "at": 0, "file": "../conf/fifo.yaml"}


def test_yaml_says_the_same(command: click.Command, table: Path, tmp_path: Path) -> None:
    expected = events_of(command, table, "--nodes", 1)
    out = tmp_path / "feed.yaml"

    run(command, table, "--nodes", 1, "-o", out)

    assert yaml.safe_load(out.read_bytes()) == expected


def test_both_ends_may_be_compressed(command: click.Command, table: Path, tmp_path: Path) -> None:
    zipped = tmp_path / "jobs.csv.gz"
    zipped.write_bytes(gzip.compress(table.read_bytes()))
    out = tmp_path / "feed.jsonl.gz"

    run(command, zipped, "--nodes", 1, "-o", out)

    plain = run(command, table, "--nodes", 1).stdout
    assert gzip.decompress(out.read_bytes()).decode() == plain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("submit_s,gpus\n1,1\n", "there is no column 'duration_s'"),
        ("submit_s,gpus,duration_s\n1,x,1\n", "line 2: gpus is 'x'"),
        ("submit_s,gpus,duration_s\n1,0,1\n", "line 2: gpus is '0'"),
        ("submit_s,gpus,duration_s\n1,1\n", "line 2: duration_s is ''"),
        ("submit_s,gpus,duration_s\n", "no job of it is wanted"),
        ("submit_s,gpus,duration_s\n1,1,\ufeff1\n", "line 2: duration_s is '\\ufeff1'"),
    ],
)
def test_a_bad_table_is_refused(
    command: click.Command, tmp_path: Path, text: str, message: str
) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text(text, encoding="utf-8")

    result = run(command, table, "--nodes", 1)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"Error: {table}" in result.stderr
    assert message in result.stderr


def test_every_unknown_cluster_is_named(command: click.Command, table: Path) -> None:
    result = run(command, table, "--nodes", 1, "--vc", "zz", "--vc", "aa", "--vc", "yy")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"Error: {table}: has no virtual cluster yy, zz" in result.stderr


def test_nodes_that_are_neither_number_nor_file(command: click.Command, table: Path) -> None:
    result = run(command, table, "--nodes", "abc")

    assert result.exit_code == 1
    assert "--nodes: 'abc' is neither a number nor a file" in result.stderr


def test_a_broken_gzip_file_is_refused(command: click.Command, tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv.gz"
    table.write_bytes(gzip.compress(TABLE.encode())[:-9])

    result = run(command, table, "--nodes", 1)

    assert result.exit_code == 1
    assert f"Error: {table}" in result.stderr


def test_an_output_that_cannot_be_written_is_an_error(
    command: click.Command, table: Path, tmp_path: Path
) -> None:
    result = run(command, table, "--nodes", 1, "-o", tmp_path / "none" / "feed.jsonl")

    assert result.exit_code == 1
    assert "No such file or directory" in result.stderr


def test_the_published_jobs_are_all_there(command: click.Command) -> None:
    single = run(command, PHILLY / "jobs-0e4a51.csv", "--nodes", 32, "--window")
    wide = run(command, PHILLY / "jobs-2869ce.csv", "--nodes", 16, "--window", "--wide", "gang")

    assert single.stderr == "2199 jobs\n"
    assert wide.stderr == "747 jobs\n70 jobs of more than 8 GPUs as gangs\n"
