"""``muster import slurm``: its options, lines, columns, documents and values of sacct, and
``--calibrate``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from muster.importing.slurm.jobs import KnownRuns
from muster.importing.slurm.values import TimeReader, count_of, duration_s, memory_of, tres_of
from tests.actors.cli.helpers import run, run_json, written
from tests.actors.importing.helpers import events_of, imported, refusal
from tests.actors.importing.slurm.samples import (
    FEED_NODES,
    NEW_JSON,
    QOS,
    SACCT,
    ask_of,
    causes,
    dump_of,
    of_rows,
    of_text,
    row,
)


def test_priorities_come_from_where_the_user_says(tmp_path: Path) -> None:
    qos = written(tmp_path / "qos.txt", QOS)
    rows = [
        row(1, QOS="urgent", Priority="4294967295"), row(2, QOS="normal", Priority="x"),
        row(3, QOS="gone", Priority="7"),
    ]  # fmt: skip

    def priorities(*options: object) -> list[int]:
        events, _ = of_rows(tmp_path, *rows, options=options)
        return [ask.get("priority", 0) for ask in events_of(events, "add_ask")]

    assert priorities() == [0, 0, 0]
    assert priorities("--priority", "job") == [2**31 - 1, 0, 7]
    assert priorities("--priority", "qos", "--qos", qos) == [100, 0, 0]


def test_a_time_zone(tmp_path: Path) -> None:
    events, _ = of_rows(tmp_path, row(1), options=("--timezone", "America/New_York"))
    assert events[0]["at"] == "2026-01-31T15:00:00Z"


def test_what_is_missing_is_reported(tmp_path: Path) -> None:
    source = written(tmp_path / "sacct.txt", dump_of(row(1)))
    assert "give --nodes" in refusal("slurm", source)
    assert "give --nodes" in refusal("slurm", source, "--nodes", "2x memory=4Gi")
    bad = written(tmp_path / "qos.txt", "Name|Priority\nnormal|high\n")
    message = refusal("slurm", source, "--nodes", FEED_NODES, "--priority", "qos", "--qos", bad)
    assert "qos.txt:2: Priority: 'high' is not a whole number" in message
    for options, said in (
        (("--priority", "qos"), "go together"),
        (("--qos", str(bad)), "go together"),
        (("--timezone", "Mars/Olympus"), "is no time zone"),
        (("--timezone", "../etc"), "is no time zone"),
    ):
        result = run("import", "slurm", source, "-o", "x.jsonl", "--nodes", FEED_NODES, *options)
        assert result.exit_code == 2
        assert said in result.stderr


def test_steps_are_parts_of_their_jobs(tmp_path: Path) -> None:
    rows = [row(7), row("7.batch"), row("7.extern"), row("7.0")]
    events, summary = of_rows(tmp_path, *rows)
    assert len(events_of(events, "add_ask")) == 1
    assert summary["read"] == {"job": 1, "step": 3}
    assert causes(summary) == {"part of a job": 3}


def test_a_line_of_other_columns_is_counted_with_its_place(tmp_path: Path) -> None:
    _, summary = of_text(tmp_path, dump_of(row(7)) + "8|what|is\n|||||||||||\n")
    (cause,) = summary["left_out"]
    assert (cause["what"], cause["count"], cause["example"]) == ("line", 2, "8|what|is")
    assert cause["first"].endswith("sacct.txt:3")


def test_how_long_a_job_ran_is_elapsed_or_from_its_start_to_its_end(tmp_path: Path) -> None:
    assert ask_of(tmp_path, ElapsedRaw="77")["run_for"] == 77
    assert ask_of(tmp_path, ElapsedRaw="", Elapsed="1-00:00:01")["run_for"] == 86_401
    assert ask_of(tmp_path, ElapsedRaw="")["run_for"] == 100


# IMPORT-13: How long a job was expected to run
def test_the_limit_of_time_is_the_estimate(tmp_path: Path) -> None:
    assert ask_of(tmp_path, TimelimitRaw="90")["estimate"] == 5400
    assert ask_of(tmp_path, TimelimitRaw="", Timelimit="1-00:00:00")["estimate"] == 86_400
    assert ask_of(tmp_path, TimelimitRaw="90", Timelimit="1-00:00:00")["estimate"] == 5400
    for none in ("", "Partition_Limit", "00:00:00"):
        assert "estimate" not in ask_of(tmp_path, TimelimitRaw="", Timelimit=none)


def test_a_state_may_have_more_words(tmp_path: Path) -> None:
    _, summary = of_rows(
        tmp_path, row(1), row(2, State="CANCELLED by 1000", Start="None", ElapsedRaw="0")
    )
    assert causes(summary) == {"was cancelled before it started": 1}


def test_a_mixed_dump(tmp_path: Path) -> None:
    _, summary = of_text(tmp_path, SACCT)
    assert summary["read"] == {"job": 10, "step": 1}
    assert summary["taken"] == {"job": 8}
    assert (summary["apps"], summary["asks"], summary["gangs"]) == (6, 9, 2)


def test_columns_may_stand_in_any_order_and_case(tmp_path: Path) -> None:
    text = dump_of(row(7))
    names, values = (line.split("|") for line in text.splitlines())
    mixed = "|".join(name.upper() for name in reversed(names)) + "\n" + "|".join(reversed(values))
    assert of_text(tmp_path, mixed)[0] == of_text(tmp_path, text)[0]


def test_the_columns_of_parsable_end_with_one_more_bar(tmp_path: Path) -> None:
    text = dump_of(row(7), row(8))
    with_bars = "".join(f"{line}|\n" for line in text.splitlines())
    assert of_text(tmp_path, with_bars)[0] == of_text(tmp_path, text)[0]


def test_another_delimiter_is_found(tmp_path: Path) -> None:
    text = dump_of(row(7))
    assert of_text(tmp_path, text.replace("|", ";"))[0] == of_text(tmp_path, text)[0]


def test_names_of_jobs_and_constraints_may_have_bars_in_them(tmp_path: Path) -> None:
    names = {"JobID": "7", "JobName": "a|b||c"}
    events, summary = of_text(
        tmp_path, dump_of(names | row(7), names | row(8, JobName="x", Constraints="a|b"))
    )
    assert [app["user"] for app in events_of(events, "add_app")] == ["al", "al"]
    assert summary["taken"] == {"job": 2}
    assert summary["not_in_feed"][0]["example"] == "a|b"


def test_an_unknown_column_is_named_once(tmp_path: Path) -> None:
    rows = [row(job, Colour="red") for job in (1, 2)]
    _, summary = of_text(tmp_path, dump_of(*rows))
    (note,) = summary["not_in_feed"]
    assert (note["what"], note["count"]) == ("column", 1)
    assert "'Colour'" in note["cause"]


def test_columns_without_which_jobs_lack_something_are_named(tmp_path: Path) -> None:
    text = "JobID|State|Submit|Start|Elapsed|NCPUS|User\n"
    row_of = "7|COMPLETED|2026-01-31T10:00:00|2026-01-31T10:00:00|00:01:00|2|al\n"
    _, summary = of_text(tmp_path, text + row_of)

    assert summary["taken"] == {"job": 1}
    assert sorted(note["cause"].partition(": ")[2] for note in summary["not_in_feed"]) == [
        "each job has one node",
        "jobs ask for no memory",
    ]
    assert [note["cause"].partition(": ")[2] for note in summary["in_another_form"]] == [
        "a backfill plans with the time that it really ran"
    ]


def test_several_dumps_may_stand_in_one_file(tmp_path: Path) -> None:
    other = dump_of({"State": "COMPLETED"} | row(8, QOS="normal"))
    events, summary = of_text(tmp_path, dump_of(row(7)) + other)
    assert [app["app"] for app in events_of(events, "add_app")] == ["7", "8"]
    assert not summary["left_out"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7|2026-01-31T10:00:00|COMPLETED\n", "leave out --noheader"),
        ("JobID|State\n", "no column Submit or Eligible"),
        ("JobName|State\n", "no column JobID"),
        ("JobID|State|Submit|Elapsed|User\n", "no column ReqTRES or AllocTRES or ReqCPUS"),
        ("JobID           JobName  Partition\n------------ ---------- ----------\n", "padded"),
        ("\n", "is empty"),
        ("", "is empty"),
    ],
)
def test_what_is_no_such_dump_is_refused(tmp_path: Path, text: str, message: str) -> None:
    refused = refusal("slurm", written(tmp_path / "sacct.txt", text), "--nodes", FEED_NODES)
    assert message in refused
    assert "sacct --parsable2 --duplicates" in refused


_CLUSTER = Path(__file__).parents[4] / "examples" / "slurm" / "cluster"


def test_the_new_layout(tmp_path: Path) -> None:
    events, summary = of_text(
        tmp_path, NEW_JSON, "--priority", "job", nodes="4x vcore=8,memory=16Gi,nvidia.com/gpu=4"
    )
    assert summary["read"] == {"job": 2, "step": 2}
    ended, running = events_of(events, "add_ask")
    assert ended["resources"] == {"vcore": 2, "memory": 1 << 30, "nvidia.com/gpu": 1}
    assert (ended["count"], ended["run_for"], ended["priority"]) == (2, 60, 4000)
    assert (running["app"], running["ask"], running["resources"]) == ("8", "3", {"vcore": 1})
    assert "run_for" not in running
    # IMPORT-13: How long a job was expected to run
    assert (ended["estimate"], running.get("estimate")) == (3600, None)


def test_the_lines_and_the_json_of_the_same_jobs_give_the_same(tmp_path: Path) -> None:
    """These are of Slurm 22.05, which has the old layout."""
    nodes = _CLUSTER / "slurm.conf"
    document = json.loads((_CLUSTER / "sacct.json").read_text(encoding="utf-8"))
    names = {job["name"] for job in document["jobs"]}
    lines = (_CLUSTER / "sacct.txt").read_text(encoding="utf-8").splitlines()
    same = [line for line in lines[1:] if line.split("|")[1] in names and "." not in line[:8]]
    from_lines, _ = of_text(tmp_path, "\n".join([lines[0], *same]), nodes=nodes)
    text = json.dumps(document)
    from_json, summary = of_text(tmp_path, text, nodes=nodes)

    def asks(events: list[dict[str, Any]]) -> list[str]:
        return sorted(json.dumps(events_of([event], "add_ask")) for event in map(_bare, events))

    assert summary["taken"]["job"] == len(same)
    assert asks(from_json) == asks(from_lines)


def _bare(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without its instant, and without what the lines have no column for."""
    return {name: value for name, value in event.items() if name not in ("at", "estimate")}


def test_numbers_that_are_not_set_are_not_known(tmp_path: Path) -> None:
    unset = {"set": False, "infinite": False, "number": 5}
    job = json.loads(NEW_JSON)["jobs"][0] | {"priority": unset, "allocation_nodes": unset}
    text = json.dumps({"jobs": [job, 5]})
    _, summary = of_text(tmp_path, text, "--priority", "job")
    assert causes(summary)["not a map of fields"] == 1


def test_half_of_a_character_is_written_as_an_escape(tmp_path: Path) -> None:
    job = json.loads(NEW_JSON)["jobs"][0] | {"user": "a\ud800"}
    events, _ = of_text(tmp_path, json.dumps({"jobs": [job, "\ud800"]}))
    assert events_of(events, "add_app")[0]["user"] == "a\\ud800"


def test_a_document_is_read_in_pieces_however_it_is_laid_out(tmp_path: Path) -> None:
    job = json.loads(NEW_JSON)["jobs"][0]
    jobs = [job | {"job_id": number} for number in range(1, 800)]
    text = json.dumps({"meta": {"jobs": []}, "jobs": jobs, "warnings": []}, indent=2)
    assert len(text) > 1 << 20
    file = written(tmp_path / "sacct.json", text)
    events, _ = imported("slurm", file, "--nodes", FEED_NODES)
    assert [app["app"] for app in events_of(events, "add_app")] == [str(n) for n in range(1, 800)]


def test_what_is_no_such_document_is_refused_with_its_line(tmp_path: Path) -> None:
    for text, said in (
        ('{"meta": 1}', "has no list under 'jobs'"),
        ('{"jobs": [\n{"job_id": 1},\n{"job_id": }]}', "sacct.json:3: not JSON"),
        ('{"jobs": [\n', "sacct.json:2: not JSON"),
        ('{"jobs": [1e5' + "[" * 50_000, "not JSON"),
        ('{"jobs": [NaN]}', "NaN is no number"),
    ):
        message = refusal("slurm", written(tmp_path / "sacct.json", text), "--nodes", FEED_NODES)
        assert said in message


_TEN_US = 1769853600 * 1_000_000
"""2026-01-31T10:00:00Z."""


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T10:00:00",
        "2026-01-31T10:00:00Z",
        "2026-01-31T11:00:00+0100",
        "2026-01-31T11:00:00+01:00",
        "2026-01-31 10:00:00",
        "2026-01-31T10:00",
        "2026-01-31T10:00:00.5",
        "1769853600",
    ],
)
def test_times_in_all_their_forms(text: str) -> None:
    assert TimeReader().of(text) == _TEN_US


@pytest.mark.parametrize(
    "text", ["", "Unknown", "None", "N/A", "0", "2026-02-30T10:00:00", "2026-01-31T1x:00:00",
             "10:00:00", "-5", "9" * 30, "2026-01-31T10:0é:00", "1950-01-01T00:00:00"]
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    assert TimeReader().of(text) is None


def test_times_that_were_read_before_are_read_alike() -> None:
    times = TimeReader()
    for minute in range(10):
        assert times.of(f"2026-01-31T10:0{minute}:07") == _TEN_US + (minute * 60 + 7) * 1_000_000
    assert times.of("2026-01-31T10:0x:07") is None
    assert times.of("2026-01-31T10:00:077") is None


def test_times_without_an_offset_are_in_the_zone_that_is_given() -> None:
    times = TimeReader(ZoneInfo("Europe/Berlin"))
    assert times.of("2026-01-31T11:00:00") == _TEN_US
    assert times.of("2026-01-31T10:00:00Z") == _TEN_US
    # In summer it is two hours.
    assert times.of("2026-07-01T12:00:00") == TimeReader().of("2026-07-01T10:00:00")
    # Of an hour that is there twice the first one is meant.
    assert times.of("2026-10-25T02:30:00") == TimeReader().of("2026-10-25T00:30:00")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("01:02:03", 3723), ("2-00:00:01", 172_801), ("02:03", 123), ("00:00:00", 0), ("75", 75),
     ("02:03.123", 123), ("", None), ("x", None), ("1:2", None), ("9" * 12, None)],
)  # fmt: skip
def test_durations(text: str, seconds: int | None) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "amount"),
    [("4Gn", (4 << 30, "n")), ("2000Mc", (2000 << 20, "c")), ("16G", (16 << 30, "")),
     ("1.50G", (3 << 29, "")), ("100", (100 << 20, "")), ("0n", (0, "n")), ("", None),
     ("x", None), ("999999999P", None)],
)  # fmt: skip
def test_memory(text: str, amount: tuple[int, str] | None) -> None:
    assert memory_of(text) == amount


def test_trackable_resources() -> None:
    assert tres_of("billing=4,cpu=4,mem=16G,node=2,gres/gpu=2,gres/gpu:a100=2,license/x=1") == {
        "billing": 4, "cpu": 4, "mem": 16 << 30, "node": 2, "gres/gpu": 2, "gres/gpu:a100": 2,
        "license/x": 1,
    }  # fmt: skip
    assert tres_of("") == tres_of("cpu=x,=3,mem=,cpu") == {}


@pytest.mark.parametrize(("text", "count"), [("4", 4), ("2K", 2048), ("1.5K", 1536), ("x", 0)])
def test_counts(text: str, count: int) -> None:
    assert count_of(text) == count


def test_runs_are_counted_and_known_again() -> None:
    seen = KnownRuns()
    assert [seen.add(0, 7, run) for run in ("a", "b", "a", "b", "c")] == [1, 2, 0, 0, 3]
    assert [seen.add(0, number, "a") for number in (6, 8, 7 + 64, 10**9)] == [1, 1, 1, 1]
    assert seen.add("another", 7, "a") == 1
    assert seen.has(0, 7)
    assert not seen.has(0, 9)
    assert not seen.has("nothing", 7)


_DAY = "2026-01-31T"
_NODE = "1x vcore=4,memory=16Gi"


def _job(number: int, submit: str, start: str, run_s: int, **values: str) -> dict[str, str]:
    """Return a job that wants the whole node."""
    fields = {
        "Submit": _DAY + submit,
        "Eligible": _DAY + submit,
        "Start": _DAY + start if ":" in start else start,
        "End": "",
        "ElapsedRaw": str(run_s),
        "ReqTRES": "cpu=4,mem=4G,node=1",
    }
    return row(number, **(fields | values))


# The replay starts job 1 at 10:00:00, job 2 at 10:01:40, and job 3 at 10:02:40.
_JOBS = (
    _job(1, "10:00:00", "10:00:05", 100),
    _job(2, "10:00:00", "10:02:00", 60),
    _job(3, "10:00:10", "10:00:30", 100),
)


def _calibrated(folder: Path, *rows: dict[str, str], options: tuple[object, ...] = ()) -> Any:  # noqa: ANN401 - JSON
    """Import jobs, and return the calibration as JSON."""
    dump = written(folder / "sacct.txt", dump_of(*rows))
    words = [option if isinstance(option, Path) else str(option) for option in options]
    status, summary = run_json(
        "import",
        "slurm",
        dump,
        "--nodes",
        _NODE,
        "-o",
        folder / "feed.jsonl",
        "--calibrate",
        *words,
    )
    assert status == 0, summary
    return summary["calibration"]


# IMPORT-22: Calibration
def test_the_starts_are_compared_with_those_of_sacct(tmp_path: Path) -> None:
    found = _calibrated(tmp_path, *_JOBS)
    everything = found["all"]
    assert (found["jobs"], found["compared"]) == (3, 3)
    # 5 s and 20 s earlier, 130 s later.
    assert everything["apart"]["median_s"] == 20
    assert everything["apart"]["p95_s"] == 130
    assert everything["real_wait"]["mean_s"] == pytest.approx((5 + 120 + 20) / 3)
    assert everything["replayed_wait"]["mean_s"] == pytest.approx((0 + 100 + 150) / 3)
    assert everything["within"] == {"1 min": pytest.approx(2 / 3), "10 min": 1, "1 h": 1}
    # The last job ends at 10:03:00, and in the replay at 10:04:20.
    assert found["makespan_s"] == {"real": 180, "replayed": 260}
    real = 4 * (100 + 60 + 100) / (4 * 180)
    replayed = 4 * (100 + 60 + 20) / (4 * 180)
    assert found["used"]["vcore"] == {
        "real": pytest.approx(real),
        "replayed": pytest.approx(replayed),
    }


# IMPORT-24: What holds a job
def test_the_jobs_furthest_apart_say_what_held_them(tmp_path: Path) -> None:
    late, early, first = _calibrated(tmp_path, *_JOBS)["most_apart"]
    assert (late["app"], late["ask"], late["queue"]) == ("3", "task", "root.phys")
    assert (late["real_start"], late["replayed_start"]) == (
        "2026-01-31T10:00:30Z",
        "2026-01-31T10:02:40Z",
    )
    assert late["late_s"] == 130
    assert late["held_at"] == "2026-01-31T10:00:31Z"
    assert late["held_by"].startswith("NoNodeFits: ")
    assert (early["app"], early["late_s"], early["held_by"]) == ("2", -20, None)
    assert (first["app"], first["late_s"]) == ("1", -5)


# IMPORT-22
def test_a_job_without_a_start_is_no_start(tmp_path: Path) -> None:
    found = _calibrated(
        tmp_path,
        *_JOBS,
        _job(4, "10:20:00", "Unknown", 10),
        _job(5, "10:20:00", "None", 0, State="CANCELLED by 3001"),
        # sacct may show as its start when it ended.
        _job(7, "10:20:00", "10:30:00", 0, State="DEADLINE"),
        _job(8, "10:20:00", "10:30:00", 0, State="CANCELLED by 3001"),
        # It really ran, but fits no node of the feed.
        _job(6, "10:20:00", "10:20:00", 10, ReqTRES="cpu=8,mem=4G,node=1"),
    )
    assert found["jobs"] == 5
    assert found["compared"] == 3
    assert found["without_real_start"] == 1
    assert found["not_started_in_replay"] == 1
    assert found["all"]["apart"]["count"] == 3


# IMPORT-22
def test_the_tasks_of_an_array_and_the_members_of_a_gang(tmp_path: Path) -> None:
    two = "cpu=4,mem=4G,node=2"
    found = _calibrated(
        tmp_path,
        _job(1, "10:00:00", "10:00:00", 100, JobID="7_0", Partition="a"),
        _job(1, "10:00:00", "10:02:00", 100, JobID="7_1", Partition="a"),
        # Its two members fit beside each other: it starts when both are bound.
        _job(8, "10:10:00", "10:10:30", 50, ReqTRES=two, NNodes="2", Partition="b"),
        _job(9, "10:10:00", "10:10:30", 50, ReqTRES="cpu=3,node=2", NNodes="2", Partition="b"),
    )
    assert found["compared"] == 4
    assert found["partitions"]["a"]["jobs"] == 2
    assert found["partitions"]["a"]["apart"]["longest_s"] == 20
    assert found["partitions"]["b"]["replayed_wait"]["longest_s"] == 50
    assert {one["app"]: one["late_s"] for one in found["most_apart"]} == {
        "7": -20,
        "8": -30,
        "9": 20,
    }


# IMPORT-23: The verdict
@pytest.mark.parametrize(
    ("wait_s", "verdict", "sentence"),
    [
        (30, "near", "near to what Slurm did: jobs wait 0 s on average instead of 30 s"),
        (500, "rough", "trust only large changes"),
        (5000, "far", "far from what Slurm did"),
    ],
)
def test_the_verdict(tmp_path: Path, wait_s: int, verdict: str, sentence: str) -> None:
    minutes, seconds = divmod(wait_s, 60)
    hours, minutes = divmod(minutes, 60)
    job = _job(1, "10:00:00", f"{10 + hours}:{minutes:02}:{seconds:02}", 100)
    found = _calibrated(tmp_path, job)
    assert found["verdict"] == verdict
    assert sentence.lower() in found["sentence"].lower()


# IMPORT-23
def test_without_any_start_there_is_no_verdict(tmp_path: Path) -> None:
    found = _calibrated(tmp_path, _job(1, "10:00:00", "Unknown", 100))
    assert found["verdict"] is None
    assert found["sentence"].startswith("There is nothing to compare")
    assert found["all"]["apart"]["median_s"] is None


# IMPORT-22
def test_a_configuration_of_the_user_is_judged(tmp_path: Path) -> None:
    config = written(
        tmp_path / "queues.yaml",
        "partitions: [{name: default, queues: [{name: root, queues: ["
        "{name: phys, resources: {max: {vcore: 3}}}]}]}]",
    )
    found = _calibrated(tmp_path, *_JOBS, options=("--config", config))
    assert found["compared"] == 0
    assert found["not_started_in_replay"] == 3


def test_text_has_tables_and_ends_with_the_verdict(tmp_path: Path) -> None:
    dump = written(tmp_path / "sacct.txt", dump_of(*_JOBS, _job(4, "10:20:00", "Unknown", 10)))
    feed = tmp_path / "feed.jsonl"
    result = run("import", "slurm", dump, "--nodes", _NODE, "-o", feed, "--calibrate")
    assert result.exit_code == 0, result.output
    output = result.stdout
    assert "Calibration: the real starts of 3 jobs against a replay" in output
    assert "1 job: no real start is known; not compared" in output
    assert "130 s later" in output
    assert "3/task: NoNodeFits: " in output
    assert (
        "\nThe replay is near to what Slurm did: jobs wait 83.3 s on average instead of " in output
    )
    assert output.endswith(f"next: muster replay {feed} --report report.html\n")


def test_a_feed_on_standard_output_cannot_be_replayed(tmp_path: Path) -> None:
    dump = written(tmp_path / "sacct.txt", dump_of(*_JOBS))
    result = run("import", "slurm", dump, "--nodes", _NODE, "-o", "-", "--calibrate")
    assert result.exit_code == 2
    assert "write it to a file, not to standard output" in result.stderr
