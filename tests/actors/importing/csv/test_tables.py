"""``muster import csv``: tables of jobs, with a mapping file.

Their cells, and amounts that are divided.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from muster.importing.tables.rows import divide_within
from muster.importing.workload import divide_evenly
from tests.actors.cli.helpers import run
from tests.actors.importing.helpers import events_of, imported, refusal, written

NODES = "2x vcore=8,memory=64Gi,nvidia.com/gpu=8"
PLAIN = """\
job: id
submit: submitted
duration: took
resources: {vcore: cpus}
"""
TABLE = "id,submitted,took,cpus,team,kind\na,5,60,4,red,x\nb,0,90,2,blue,y\n"


def options(folder: Path, mapping: str = PLAIN, *more: object) -> tuple[object, ...]:
    return "--mapping", written(folder / "mapping.yaml", mapping), "--nodes", NODES, *more


def test_a_row_is_an_application_with_an_ask(tmp_path: Path) -> None:
    events, summary = imported("csv", written(tmp_path / "a.csv", TABLE), *options(tmp_path))

    assert events_of(events, "add_app") == [
        {"at": 5, "app": "a", "queue": "root.default"}
        if app == "a"
        else {"app": "b", "queue": "root.default"}
        for app in ("b", "a")
    ]
    assert events_of(events, "add_ask")[1] == {
        "app": "a",
        "ask": "task",
        "resources": {"vcore": 4},
        "run_for": 60,
    }
    assert (summary["read"], summary["taken"]) == ({"row": 2}, {"row": 2})


def test_columns_say_the_queue_the_user_the_priority_and_the_nodes(tmp_path: Path) -> None:
    mapping = (
        PLAIN
        + """\
user: kind
group: team
queue: root.{team}.{kind}
priority: {column: took, times: -1}
selector: {rack: team}
"""
    )
    nodes = written(tmp_path / "nodes.yaml", "- {capacity: {vcore: 8}, attributes: {rack: red}}\n")
    path = written(tmp_path / "a.csv", TABLE)
    events, summary = imported("csv", path, *options(tmp_path, mapping), "--nodes", nodes)

    assert events_of(events, "add_app") == [
        {"app": "a", "queue": "root.red.x", "user": "x", "groups": ["red"]}
    ]
    assert [(ask["priority"], ask["selector"]) for ask in events_of(events, "add_ask")] == [
        (-60, {"rack": "red"})
    ]
    assert summary["left_out"][0]["cause"] == "no node has this rack"
    assert summary["left_out"][0]["example"] == "blue"

    events, _ = imported("csv", path, *options(tmp_path, mapping, "--no-priority"))
    assert all(
        "priority" not in ask and "selector" not in ask for ask in events_of(events, "add_ask")
    )


@pytest.mark.parametrize(
    ("clock", "cells", "instants"),
    [
        ("{unit: ms}", ("1500", "2000"), [1.5, 2]),
        (
            "{origin: 2026-01-01T00:00:00Z, unit: h}",
            ("1.5", "2"),
            ["2026-01-01T01:30:00Z", "2026-01-01T02:00:00Z"],
        ),
        (
            "{zone: Europe/Berlin}",
            ("2026-07-01 12:00", "2026-12-01T12:00:00+00:00"),
            ["2026-07-01T10:00:00Z", "2026-12-01T12:00:00Z"],
        ),
        (
            "{format: '%d.%m.%Y %H:%M'}",
            ("31.1.2026 18:30", "1.2.2026 00:00"),
            ["2026-01-31T18:30:00Z", "2026-02-01T00:00:00Z"],
        ),
    ],
)
def test_instants_are_written_in_many_ways(
    tmp_path: Path, clock: str, cells: tuple[str, str], instants: list[object]
) -> None:
    table = "id,submitted,took,cpus\n" + "".join(f"{cell},{cell},60,1\n" for cell in cells)
    mapping = PLAIN + f"time: {clock}\n"
    events, _ = imported("csv", written(tmp_path / "a.csv", table), *options(tmp_path, mapping))

    assert [event["at"] for event in events if "at" in event] == instants


def test_a_job_runs_from_its_start_to_its_end_or_for_a_time(tmp_path: Path) -> None:
    mapping = "submit: came\nstart: began\nend: ended\nresources: {vcore: cpus}\n"
    table = (
        "came,began,ended,cpus\n"
        "2026-01-01,2026-01-02,2026-01-02 01:00,1\n"
        "2026-01-01,2026-01-02,2026-01-01,1\n"
        "2026-01-01,,,1\n"
    )
    path = written(tmp_path / "a.csv", table)
    events, summary = imported("csv", path, *options(tmp_path, mapping))

    assert [ask["run_for"] for ask in events_of(events, "add_ask")] == [3600]
    assert {cause["cause"].partition(":")[0] for cause in summary["left_out"]} == {
        "it ended before it started",
        "began is no instant",
    }
    table = "id,submitted,took,cpus\na,0,1-00:00:10,1\nb,0,90:00.5,1\nc,0,00:00:01.5,1\n"
    events, _ = imported("csv", written(tmp_path / "b.csv", table), *options(tmp_path))
    assert [ask["run_for"] for ask in events_of(events, "add_ask")] == [86410, 1.5]


# IMPORT-13: How long a job was expected to run
def test_a_column_says_the_estimates(tmp_path: Path) -> None:
    table = "id,submitted,took,cpus,limit\na,0,60,1,90\nb,1,60,1,01:00:00\nc,2,60,1,0\nd,3,60,1,?\n"
    path = written(tmp_path / "a.csv", table)
    events, summary = imported("csv", path, *options(tmp_path, PLAIN + "estimate: limit\n"))

    assert [ask.get("estimate") for ask in events_of(events, "add_ask")] == [90, 3600, None, None]
    (note,) = summary["not_in_feed"]
    assert (note["cause"], note["count"]) == ("limit is no time above 0: no estimate", 2)


def test_amounts_have_units_and_defaults(tmp_path: Path) -> None:
    mapping = """\
submit: t
duration: d
resources:
  vcore: {column: cpus, default: "1"}
  memory: {column: mib, unit: Mi}
  nvidia.com/gpu: gpus
"""
    table = "t,d,cpus,mib,gpus\n0,1,,512,0\n1,1,0.5,1,2\n2,1,1,,0\n3,1,x,1,1\n"
    path = written(tmp_path / "a.csv", table)
    events, summary = imported("csv", path, *options(tmp_path, mapping))

    assert [ask["resources"] for ask in events_of(events, "add_ask")] == [
        {"vcore": 1, "memory": "512Mi"},
        {"vcore": "500m", "memory": "1Mi", "nvidia.com/gpu": 2},
    ]
    assert [app["app"] for app in events_of(events, "add_app")] == ["row-1", "row-2"]
    assert {(cause["cause"], cause["example"]) for cause in summary["left_out"]} == {
        ("mib is empty", ""),
        ("cpus is no amount", "x"),
    }


@pytest.mark.parametrize(
    ("mapping", "cells", "asks"),
    [
        ("tasks: n\n", "4,3", [({"vcore": 4}, 3)]),
        (
            "tasks: n\namounts: per_job\n",
            "8,3",
            [({"vcore": "2667m"}, 2), ({"vcore": "2666m"}, 1)],
        ),
        ("tasks: n\namounts: per_job\n", "9,3", [({"vcore": 3}, 3)]),
        ("per_node: {vcore: 8}\n", "20,0", [({"vcore": 8}, 2), ({"vcore": 4}, 1)]),
        ("per_node: {vcore: 8}\n", "16,0", [({"vcore": 8}, 2)]),
        ("per_node: {vcore: 8}\n", "8,0", [({"vcore": 8}, 1)]),
    ],
)
def test_a_job_of_several_asks_is_a_gang(
    tmp_path: Path, mapping: str, cells: str, asks: list[object]
) -> None:
    path = written(tmp_path / "a.csv", f"id,submitted,took,cpus,n\na,0,60,{cells}\n")
    events, _ = imported("csv", path, *options(tmp_path, PLAIN + mapping))
    found = events_of(events, "add_ask")
    members = sum(ask.get("count", 1) for ask in found)

    assert [(ask["resources"], ask.get("count", 1)) for ask in found] == asks
    assert [gang["min_member"] for gang in events_of(events, "add_gang")] == (
        [members] if members > 1 else []
    )


def test_jobs_of_several_asks_can_be_split_or_skipped(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "id,submitted,took,cpus\na,0,60,20\nb,0,60,1\n")
    mapping = options(tmp_path, PLAIN + "per_node: {vcore: 8}\n")
    events, summary = imported("csv", path, *mapping, "--wide", "split")

    assert not events_of(events, "add_gang")
    assert summary["in_another_form"][0]["count"] == 1
    events, summary = imported("csv", path, *mapping, "--wide", "skip")
    assert [app["app"] for app in events_of(events, "add_app")] == ["b"]
    assert summary["left_out"][0]["cause"] == "of several asks (see --wide)"


def test_rows_can_be_chosen(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", TABLE)
    events, summary = imported("csv", path, *options(tmp_path), "--where", "team=r*")

    assert [app["app"] for app in events_of(events, "add_app")] == ["a"]
    assert summary["left_out"][0]["cause"] == "team is not r*"
    mapping = PLAIN + "where: {kind: [y, z]}\n"
    events, _ = imported("csv", path, *options(tmp_path, mapping))
    assert [app["app"] for app in events_of(events, "add_app")] == ["b"]


def test_empty_cells_can_stand_for_something(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "id,submitted,took,cpus,team\na,0,1,1,\n")
    mapping = options(tmp_path, PLAIN + "queue: root.{team}\nmissing: {team: unknown}\n")
    events, _ = imported("csv", path, *mapping)

    assert events_of(events, "add_app")[0]["queue"] == "root.unknown"


def test_a_table_of_nodes(tmp_path: Path) -> None:
    mapping = (
        PLAIN
        + """\
nodes:
  name: "{team}-node"
  count: nodes
  capacity: {vcore: {column: cores}}
  attributes: {rack: team}
"""
    )
    nodes = written(tmp_path / "nodes.csv", "team,nodes,cores\nred,2,64\n")
    path = written(tmp_path / "a.csv", TABLE)
    events, _ = imported("csv", path, *options(tmp_path, mapping), "--nodes", nodes)

    assert events_of(events, "add_node") == [
        {"node": f"red-node-000{number}", "capacity": {"vcore": 64}, "attributes": {"rack": "red"}}
        for number in range(2)
    ]


def test_a_table_may_be_compressed_quoted_and_parted_by_tabs(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(
        gzip.compress(b'\xef\xbb\xbfid\tsubmitted\ttook\tcpus\r\n"a\n/b"\t0\t1\t1\r\n')
    )
    events, _ = imported("csv", path, *options(tmp_path, PLAIN + "delimiter: tab\n"))

    assert [app["app"] for app in events_of(events, "add_app")] == ["a-b"]


def test_rows_of_one_job_are_one_application_and_their_asks_have_names(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "id,submitted,took,cpus\na,0,60,1\na,5,60,9\nb,5,60,1\n")
    mapping = options(tmp_path, PLAIN + "per_node: {vcore: 8}\n")
    events, _ = imported("csv", path, *mapping)

    assert [app["app"] for app in events_of(events, "add_app")] == ["a", "b"]
    assert [(ask["app"], ask["ask"]) for ask in events_of(events, "add_ask")] == [
        ("a", "task"),
        ("a", "row-2-worker"),
        ("a", "row-2-rest"),
        ("b", "task"),
    ]
    assert run("replay", tmp_path / "feed.jsonl", "--strict").exit_code == 0


def test_a_row_that_is_too_short_is_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", TABLE + "c,1\n\n")
    _, summary = imported("csv", path, *options(tmp_path))

    assert summary["left_out"] == [
        {
            "what": "row",
            "cause": "not 6 cells, as the first line has",
            "count": 1,
            "first": f"{path}:4",
            "example": "2 cells",
        }
    ]


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        ("", "is empty: it needs `submit`, `duration` and `resources`"),
        ("a: b\n", "1: a: is unknown"),
        ("submit: a\n", "duration: is missing"),
        ("submit: a\nduration: b\n", "resources: is missing"),
        (PLAIN + "wide: gangs\n", "5: wide: 'gangs' is none of gang, split, skip"),
        (PLAIN + "time: {zone: Nowhere/Else}\n", "time.zone: 'Nowhere/Else' is no time zone"),
        (PLAIN + "time: {origin: soon}\n", "time.origin: is no date"),
        (PLAIN + "per_node: {memory: 1Gi}\n", "per_node.memory: is unknown"),
        (PLAIN + "per_node: {vcore: 0}\n", "per_node.vcore: is not above 0"),
        (PLAIN + "queue: a b\n", "queue: 'a b' is not a name of a queue"),
        (PLAIN + "delimiter: ab\n", "delimiter: 'ab' is not one character"),
        (PLAIN + "priority: {times: 2}\n", "priority: has no `column`"),
        (PLAIN + "job: other\n", "job: stands here twice"),
    ],
)
def test_a_mapping_file_that_is_wrong(tmp_path: Path, mapping: str, problem: str) -> None:
    path = written(tmp_path / "a.csv", TABLE)
    message = refusal("csv", path, *options(tmp_path, mapping))

    assert f"{tmp_path / 'mapping.yaml'}" in message
    assert problem in message


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("", "is empty: its first line has to name the columns"),
        ("id,submitted,took\n", "1: has no column 'cpus'"),
        (TABLE.replace("0,90", "2026-01-01,90"), "3: submitted is a date, '2026-01-01', but a n"),
        ("id,submitted,took,cpus\n", "has no job that a feed can have"),
    ],
)
def test_a_table_that_cannot_be_used(tmp_path: Path, table: str, problem: str) -> None:
    assert problem in refusal("csv", written(tmp_path / "a.csv", table), *options(tmp_path))


def test_a_configuration_of_ones_own(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", TABLE)
    config = "partitions: [{name: default, queues: [{name: root, queues: [{name: other}]}]}]\n"
    (tmp_path / "own").mkdir()
    own = written(tmp_path / "own" / "queues.yaml", config)
    mapping = [str(option) for option in options(tmp_path)]
    result = run("import", "csv", path, "-o", tmp_path / "f.jsonl", *mapping, "--config", own)

    assert result.exit_code == 0
    assert f"{own}: warning: has no queue root.default, to which jobs go" in result.stderr
    assert '"file": "own/queues.yaml"' in (tmp_path / "f.jsonl").read_text()

    made = tmp_path / "made.yaml"
    result = run("import", "csv", path, "-o", tmp_path / "f.jsonl", *mapping, "--make-config", made)
    assert result.exit_code == 0
    assert run("validate", made).exit_code == 0
    assert run("replay", tmp_path / "f.jsonl", "--strict").exit_code == 0


# IMPORT-4: one mapping file
def test_the_mapping_file_also_says_which_jobs_go_to_which_queues(tmp_path: Path) -> None:
    mapping = f"{PLAIN}fields: [team, kind]\nqueues: [{{team: red, queue: 'root.{{kind}}'}}]\n"
    table = written(tmp_path / "a.csv", TABLE)
    more = (*options(tmp_path, f"{mapping}others: root.rest\n"),)
    events, summary = imported("csv", table, *more)
    assert {app["app"]: app["queue"] for app in events_of(events, "add_app")} == {
        "a": "root.x",
        "b": "root.rest",
    }
    # The old way: a file of its own.
    rules = written(tmp_path / "queues.yaml", "others: root.all\n")
    _, summary = imported("csv", table, *options(tmp_path), "--queues", rules)
    assert summary["queues"] == ["root.all"]
    elsewhere = tmp_path / "both"
    elsewhere.mkdir()
    both = (*options(elsewhere, mapping), "--queues", rules)
    assert "give them once" in refusal("csv", written(elsewhere / "a.csv", TABLE), *both)


# IMPORT-4
@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("queues: [{teem: red, queue: root.a}]\n", "queues[0].teem: is no field of these jobs"),
        ("queue: root.a\nqueues: [{queue: root.b}]\n", "queue: stands beside `queues`"),
        ("others: root.a\n", "others: stands without `queues`: write it as `queue`"),
    ],
)
def test_rules_in_the_mapping_file_that_are_wrong(tmp_path: Path, more: str, problem: str) -> None:
    table = written(tmp_path / "a.csv", TABLE)
    assert problem in refusal("csv", table, *options(tmp_path, PLAIN + more))


MAPPING = "job: id\nsubmit: came\nduration: took\nresources: {vcore: cpus}\n"
HEAD = "id,came,took,cpus\n"


def cell_options(folder: Path, nodes: str = "2x vcore=8") -> tuple[object, ...]:
    return "--mapping", written(folder / "mapping.yaml", MAPPING), "--nodes", nodes


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (HEAD.replace(",", ";"), "a.csv:1: has no column 'id'"),
        (HEAD.replace(",", ";"), "write `delimiter: ';'` in "),
        (HEAD.replace(",", "\t"), "write `delimiter: tab` in "),
        ("id,came,took,cpus,cpus\n", "a.csv:1: names the column 'cpus' twice"),
        (HEAD + 'a,0,60,1\n"b,0,60,1\nc,0,60,1\n', "a.csv:3: a cell begins with a quotation mark"),
    ],
)
def test_what_is_no_such_table_is_refused(tmp_path: Path, table: str, message: str) -> None:
    assert message in refusal("csv", written(tmp_path / "a.csv", table), *cell_options(tmp_path))


def test_a_table_in_utf_16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEAD + "a,0,60,1\n", encoding="utf-16")

    assert "a.csv:1: is in UTF-16: save it in UTF-8" in refusal(
        "csv", path, *cell_options(tmp_path)
    )


def test_a_table_of_which_nothing_can_be_taken_shows_a_value_and_what_is_right(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "a.csv", HEAD + "a,31.01.2026 18:30,60,1\n")
    message = refusal("csv", path, *cell_options(tmp_path))

    assert "1 row: came is no instant: write 2026-01-31 18:30, a number, or its form" in message
    assert "a.csv:2: 31.01.2026 18:30" in message


@pytest.mark.parametrize(("nodes", "example"), [("2x vcore=2", "vcore 3"), ("2x cpu=8", "vcore 3")])
def test_a_job_that_is_too_large_for_each_node_is_counted(
    tmp_path: Path, nodes: str, example: str
) -> None:
    path = written(tmp_path / "a.csv", HEAD + "a,0,60,3\n")
    _, summary = imported("csv", path, *cell_options(tmp_path, nodes))

    assert summary["taken"] == {"row": 1}
    (note,) = summary["not_in_feed"]
    assert note["cause"] == "asks for more than any node has: it never starts"
    assert note["example"] == example


def test_tasks_for_which_nothing_is_left_are_counted(tmp_path: Path) -> None:
    mapping = MAPPING.replace("vcore", "nvidia.com/gpu") + "tasks: took\namounts: per_job\n"
    path = written(tmp_path / "a.csv", HEAD + "a,0,4,1\n")
    _, summary = imported(
        "csv", path, *cell_options(tmp_path, "2x nvidia.com/gpu=8"),
        "--mapping", written(tmp_path / "other.yaml", mapping),
    )  # fmt: skip

    (note,) = summary["not_in_feed"]
    assert note["example"] == "1 of 4 tasks"


AMOUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 40), min_size=1)


def total(sizes: Iterable[tuple[Mapping[str, int], int]]) -> Counter[str]:
    """Return what all asks need together."""
    found: Counter[str] = Counter()
    for size, count in sizes:
        found.update({name: amount * count for name, amount in size.items()})
    return found


@given(AMOUNTS, st.integers(1, 12))
def test_tasks_need_together_what_the_job_needs(amounts: dict[str, int], tasks: int) -> None:
    sizes = divide_evenly(amounts, tasks)

    assert total(sizes) == Counter(amounts)
    assert sum(count for _, count in sizes) <= tasks
    for name, amount in amounts.items():
        assert max(size.get(name, 0) for size, _ in sizes) == -(-amount // tasks)


@given(AMOUNTS, st.integers(1, 9))
def test_asks_within_limits_need_together_what_the_job_needs(
    amounts: dict[str, int], limit: int
) -> None:
    name = min(amounts)
    sizes = divide_within(amounts, {name: limit})

    assert total(sizes) == Counter(amounts)
    assert sum(count for _, count in sizes) == -(-amounts[name] // limit)
    assert all(size and size.get(name, 0) <= limit for size, _ in sizes)


def test_two_rests_of_different_size_stay_two() -> None:
    assert divide_evenly({"gpu": 4, "memory": 8}, 3) == [
        ({"gpu": 2, "memory": 3}, 1),
        ({"gpu": 1, "memory": 3}, 1),
        ({"gpu": 1, "memory": 2}, 1),
    ]


def test_what_one_member_needs_is_not_rounded_up_for_each() -> None:
    assert divide_within({"vcore": 20, "gpu": 1}, {"vcore": 8}) == [
        ({"vcore": 8, "gpu": 1}, 1),
        ({"vcore": 8}, 1),
        ({"vcore": 4}, 1),
    ]
