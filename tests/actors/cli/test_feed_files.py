"""Commands on feeds that have dates, and on files of other kinds in place of a feed."""

from __future__ import annotations

import gzip
import io
import json
import re
import sqlite3
from pathlib import Path

import msgpack
import pytest
import trio
from hypothesis import given, strategies as st

from muster.feeds import DecisionLog, Encoding, date_text, parse_date, read_feed
from muster.replay import replay
from tests.actors.cli.helpers import ASK, SETUP, run, run_json, written

START = "2026-01-31T12:00:00Z"
NUMBERS = """\
- {op: add_node, node: n, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q, at: 0}
- {op: add_ask, app: a, ask: x, count: 3, resources: {vcore: 1}, run_for: 1h}
- {op: add_ask, app: a, ask: huge, resources: {vcore: 3}, at: 30m}
- {op: add_ask, app: none, ask: y, resources: {vcore: 1}, at: 5400}
- {op: remove_app, app: a, at: 4h}
"""
AT = {"0": START, "30m": "2026-01-31T13:30:00+01:00", "5400": "'2026-01-31 13:30'"}
DATES = re.sub("at: ([0-9m]+)}", lambda found: f"at: {AT[found[1]]}}}", NUMBERS)
SLOW = """\
partitions: [{name: default, queues: [{name: root, queues: [{name: q, resources: {max: {vcore: 1}}}]}]}]
"""


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    return written(tmp_path / "dates.yaml", DATES)


def test_replay(feed: Path, tmp_path: Path) -> None:
    result = run("replay", feed, "--decisions", tmp_path / "log.jsonl")

    head, dates, *_ = result.stdout.splitlines()
    assert head.startswith("Replayed 6 events, 04:00:00 of virtual time: ")
    assert dates == f"From {START} to 2026-01-31T16:00:00Z"
    same = written(tmp_path / "numbers.yaml", NUMBERS)
    assert "From " not in run("replay", same, "--decisions", tmp_path / "same.jsonl").stdout
    assert (tmp_path / "log.jsonl").read_bytes() == (tmp_path / "same.jsonl").read_bytes()


# Which of the events' times are written as dates; before the first one, nothing has a time.
@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 10**15),
)
def test_dates_give_the_log_of_numbers(steps: list[tuple[int, bool]], origin_us: int) -> None:
    # FEED-86
    numbers = [
        "- {op: add_node, node: n, capacity: {vcore: 2}}\n",
        "- {op: add_app, app: a, queue: root.q, at: 0}\n",
    ]
    dates = [numbers[0], f"- {{op: add_app, app: a, queue: root.q, at: {date_text(origin_us)}}}\n"]
    at_s = 0
    for number, (later_s, is_date) in enumerate(steps):
        at_s += later_s
        event = f"- {{op: add_ask, app: a, ask: x{number % 9}, resources: {{vcore: 1}}, run_for: 3"
        numbers.append(f"{event}, at: {at_s}}}\n")
        at = date_text(origin_us + at_s * 1_000_000) if is_date else at_s
        dates.append(f"{event}, at: {at}}}\n")
    assert log_of("".join(dates)) == log_of("".join(numbers))


def log_of(feed: str) -> bytes:
    found = io.BytesIO()
    with DecisionLog(found, encoding=Encoding.JSON_LINES) as log:
        items = read_feed(io.BytesIO(feed.encode()), encoding=Encoding.YAML)
        trio.run(lambda: replay(items, journals=[log]))
    return found.getvalue()


def test_json(feed: Path) -> None:
    _, found = run_json("replay", feed)

    assert (found["origin"], found["virtual_s"]) == (START, 4 * 3600)


@pytest.mark.parametrize(
    ("until", "virtual_s"), [("2026-01-31T13:00:01Z", 3601), ("1h", 3600), (START, 0)]
)
@pytest.mark.parametrize("how", ["file", "gzip", "stdin"])
def test_until(feed: Path, tmp_path: Path, until: str, virtual_s: int, how: str) -> None:
    # COMMAND-14
    source: str | Path = feed
    if how == "gzip":
        source = tmp_path / "dates.yaml.gz"
        source.write_bytes(gzip.compress(DATES.encode()))
    stdin = DATES if how == "stdin" else None
    _, found = run_json("replay", "-" if stdin else source, "--until", until, stdin=stdin)

    assert found["virtual_s"] == virtual_s


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--until", "2026-01-31", f"--until: 2026-01-31T00:00:00Z is before the start, {START}"),
        ("--start", "2026-01-31T11:59:59Z", "--start: 2026-01-31T11:59:59Z is before the start"),
        ("--since", "2026-01-31T13:00:00Z", "--since needs a state directory"),
        ("--until", "2026-02-30", "'2026-02-30' is no date: day is out of range for month"),
    ],
)
def test_dates_that_cannot_be(feed: Path, option: str, value: str, message: str) -> None:
    # COMMAND-14
    result = run("replay", feed, option, value)

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("command", [("replay", "--until"), ("explain", "--all", "--at")])
def test_a_date_needs_dates(command: tuple[str, ...], tmp_path: Path) -> None:
    # COMMAND-14
    log = written(tmp_path / "log.jsonl", "kept\n")
    name, *options = command
    more = ("--decisions", log) if name == "replay" else ()
    result = run(name, "-", *more, *options, START, stdin=NUMBERS)

    assert result.exit_code == 2
    assert f"{options[-1]}: the feed has no dates: give a time since the start" in result.stderr
    assert log.read_text() == "kept\n"


def test_a_feed_that_cannot_be_read_up_to_its_first_date() -> None:
    result = run("replay", "-", "--until", START, stdin="- {op: settle}\n- [")

    assert result.exit_code == 2
    assert "standard input:" in result.stderr


# COMMAND-16


def test_start(feed: Path, tmp_path: Path) -> None:
    _, found = run_json("replay", feed, "--start", "2026-01-31T13:00:00Z", "--until", "2h")

    # Two asks have ended, the third is bound right then.
    assert (found["asks_bound"], found["refused"], found["virtual_s"]) == (1, 1, 3600)
    assert found["wait"]["longest_s"] == 3600
    assert found["utilisation"] == {"vcore": 0.5}
    logs = [tmp_path / "whole.jsonl", tmp_path / "later.jsonl"]
    run("replay", feed, "--decisions", logs[0])
    result = run("replay", feed, "--start", "1h", "--decisions", logs[1])
    assert "\nFrom 2026-01-31T13:00:00Z to 2026-01-31T16:00:00Z\n" in result.stdout
    later = logs[1].read_text()
    assert '"seq": 1,' not in later
    assert logs[0].read_text().endswith(later)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--start", "2h", "--until", "1h"), "--until: 3600 s is before --start, 7200 s"),
        (("--start", "soon"), "'soon' is not a duration"),
    ],
)
def test_a_start_that_cannot_be(feed: Path, options: tuple[str, ...], message: str) -> None:
    result = run("replay", feed, *options)

    assert result.exit_code == 2
    assert message in result.stderr


# The other commands


@pytest.mark.parametrize(
    ("at", "ask", "text"),
    [
        (
            "2026-01-31T12:30:00Z",
            "a/x-2",
            f"2026-01-31T12:30:00Z: a/x-2 is pending in root.q since {START}, for 00:30:00",
        ),
        (
            "2026-01-31T14:00:00+01:00",
            "a/x-0",
            "2026-01-31T13:00:00Z: a/x-0 is over, completed at 2026-01-31T13:00:00Z",
        ),
        (
            "1",
            "a/huge",
            (
                "2026-01-31T12:00:01Z: a/huge does not exist yet: it is added at "
                "2026-01-31T12:30:00Z (line 4)"
            ),
        ),
    ],
)
def test_explain(feed: Path, at: str, ask: str, text: str) -> None:
    # COMMAND-14
    assert run("explain", feed, "--at", at, "--ask", ask, "--why-only").stdout.startswith(text)
    _, found = run_json("explain", feed, "--at", at, "--ask", ask, "--why-only")
    assert found["origin"] == START
    assert isinstance(found["at"], int)


def test_explain_all(feed: Path) -> None:
    at = "2026-01-31T12:45:00Z"

    assert run("explain", feed, "--at", at, "--all").stdout.startswith(f"{at}: 2 asks not running")
    assert run_json("explain", feed, "--at", at, "--all")[1]["origin"] == START


def test_compare(feed: Path, tmp_path: Path) -> None:
    slow = written(tmp_path / "slow.yaml", SLOW)
    other = written(tmp_path / "other.yaml", NUMBERS.replace("at: 0", f"at: {START}"))
    result = run("compare", feed, "--config", slow)

    assert f"The decisions differ from {START} on" in result.stdout
    assert run_json("compare", feed, "--config", slow)[1]["origin"] == START
    assert run_json("compare", feed, other)[1]["origin"] == START


def test_compare_ends_of_jobs(tmp_path: Path) -> None:
    ask = "- {op: add_ask, app: a, ask: x, count: 2, resources: {vcore: 1}, run_for: 1h}\n"
    text = "".join(NUMBERS.splitlines(keepends=True)[:2]).replace("at: 0", f"at: {START}") + ask
    feed = written(tmp_path / "feed.yaml", text)
    result = run("compare", feed, "--config", written(tmp_path / "slow.yaml", SLOW))

    titles = r"end: A +B +B - A"
    assert re.search(titles, result.stdout)
    assert re.search(
        r"a .* 2026-01-31T13:00:00Z +2026-01-31T14:00:00Z +\+3,600 s \(1 h\)\n", result.stdout
    )


def test_compare_feeds_that_begin_at_different_dates(feed: Path, tmp_path: Path) -> None:
    later = DATES.replace("2026-01-31", "2026-02-28").replace("vcore: 2", "vcore: 1")
    status, found = run_json("compare", feed, written(tmp_path / "later.yaml", later))

    assert (status, found["origin"], found["first"]["at"]) == (1, None, 0)
    assert "differ from 0 s on" in run("compare", feed, tmp_path / "later.yaml").stdout


def test_check(tmp_path: Path) -> None:
    expects = "- {op: expect, at: 2026-01-31T12:59:59.999999Z, bound: [a/x-0, a/x-1]}\n"
    text = "".join(DATES.splitlines(keepends=True)[:4]) + expects
    result = run("check", written(tmp_path / "feed.yaml", text))

    assert result.exit_code == 0, result.stdout


@pytest.mark.parametrize("name", ["x.yaml", "x.jsonl", "x.msgpack.gz"])
def test_convert(feed: Path, tmp_path: Path, name: str) -> None:
    # FEED-85
    assert run("convert", feed, tmp_path / name).exit_code == 0
    back = tmp_path / "back.jsonl"
    assert run("convert", tmp_path / name, back).exit_code == 0

    dates = re.findall('"at": ("[^"]*")', back.read_text())
    assert dates == [f'"{START}"', '"2026-01-31T12:30:00Z"', '"2026-01-31T13:30:00Z"', '"4h"']
    logs = [run("replay", one, "--decisions", "-").stdout for one in (feed, tmp_path / name)]
    assert len({re.sub(r', "line": \d+', "", log) for log in logs}) == 1


def test_a_report(feed: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    run("replay", feed, "--report", report, "--until", "2026-01-31T15:00:00Z")
    html = report.read_text()

    assert "from 2026-01-31 12:00 to 2026-01-31 15:00" in html
    assert "Ended at 2026-01-31 15:00, as was asked for." in html
    assert ">2026-01-31 13:00</span>" in html
    assert "Times are in UTC." in html
    assert f'"origin":{parse_date(START)}' in html


CONFIGURATION = "partitions: [{name: default, queues: [{name: root}]}]\n"
CONFIG_MAP = {
    "apiVersion": "v1",
    "data": {"queues.yaml": CONFIGURATION},
    "kind": "ConfigMap",
    "metadata": {"name": "yunikorn-configs"},
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
LIST = {"apiVersion": "v1", "items": [NODE], "kind": "List"}
DECISION = '{"seq": 1, "at": 0, "kind": "queue_priority", "queue": "root", "priority": 0}\n'
CSV = "job,user,submit,gpus\n1,ann,0,2\n2,bob,5,1\n"
SACCT = "JobID|User|State|Elapsed\n1|ann|COMPLETED|00:01:00\n"
SACCT_TABLE = "JobID           JobName  Partition\n------------ ---------- ----------\n1   a   b\n"
SWF = "; Version: 2.2\n; Computer: a\n  1 0 10 60 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n"
PROSE = "Dear all,\nplease find the trace: it is attached.\n\n\tAnn\n"

IMPORT = "make one of it with `muster import {kind} {{file}} -o FEED`"
SACCT_TOLD = f"is output of sacct, not a feed: {IMPORT.format(kind='slurm')}"
SWF_TOLD = f"is a workload in SWF, not a feed: {IMPORT.format(kind='swf')}"
CSV_TOLD = (
    "is CSV, not a feed: make one of it with `muster import csv {file} --mapping MAPPING -o FEED`"
)
OBJECTS_TOLD = f"has objects of Kubernetes and is not a feed: {IMPORT.format(kind='kubernetes')}"
CONFIGURATION_TOLD = "is a configuration, not a feed: check it with `muster validate {file}`"
LOG_TOLD = (
    "is a decision log, not a feed: compare it with another one with `muster compare {file} OTHER`, "
    "or name the feed that it comes from"
)
EXAMPLE = "such as `- {op: add_node, node: n1, capacity: {vcore: 4}}`"
TEXT_TOLD = f"is text, not a feed: a feed is a list of events, {EXAMPLE}"
BINARY_TOLD = "is binary, not a feed: a feed is YAML, JSON or msgpack, or one of them in gzip"
EMPTY_TOLD = f"is empty, not a feed: a feed is a list of events, {EXAMPLE}"
NOTHING_TOLD = f"is no feed: no value in it is an event, a map with `op`, {EXAMPLE}"

FILES: dict[str, tuple[str | bytes, str]] = {
    "queues.yaml": (f"# queues\n---\n{CONFIGURATION}", CONFIGURATION_TOLD),
    "anchors.yaml": (f"x: &a 5\n{CONFIGURATION}", CONFIGURATION_TOLD),
    "map.yaml": (
        f"apiVersion: v1\nkind: ConfigMap\ndata:\n  queues.yaml: |\n    {CONFIGURATION}",
        CONFIGURATION_TOLD,
    ),
    "map.json": (json.dumps(CONFIG_MAP, indent=4), CONFIGURATION_TOLD),
    "dump.yaml": (
        "apiVersion: v1\nitems:\n- {apiVersion: v1, kind: Node}\nkind: List\n",
        OBJECTS_TOLD,
    ),
    "dump.json": (json.dumps(LIST, indent=4), OBJECTS_TOLD),
    "dump": (json.dumps(LIST), OBJECTS_TOLD),
    "pods.yaml": ("kind: Pod\napiVersion: v1\n---\nkind: Pod\napiVersion: v1\n", OBJECTS_TOLD),
    "spec.yaml": ("spec: {}\nkind: Pod\napiVersion: v1\n", OBJECTS_TOLD),
    "jobs.csv": (CSV, CSV_TOLD),
    "jobs.tsv": (CSV.replace(",", "\t"), CSV_TOLD),
    "jobs.yaml": (CSV, CSV_TOLD),
    "jobs.jsonl": (CSV, CSV_TOLD),
    "sacct.txt": (SACCT, SACCT_TOLD),
    "table.txt": (SACCT_TABLE, SACCT_TOLD),
    "trace.swf": (SWF, SWF_TOLD),
    "bare.swf": (SWF.splitlines()[2], SWF_TOLD),
    "letter.txt": (PROSE, TEXT_TOLD),
    "word.txt": ("hello\n", TEXT_TOLD),
    "letter.jsonl": (PROSE, NOTHING_TOLD),
    "values.json": ("[1, 2, {}]\n", NOTHING_TOLD),
    "long.jsonl": ('{"a": 1}\n' * 2000, NOTHING_TOLD),
    "empty.yaml": ("", EMPTY_TOLD),
    "blank.jsonl": ("\n \n", EMPTY_TOLD),
    "log.jsonl": (DECISION, LOG_TOLD),
    "log.msgpack": (msgpack.packb(json.loads(DECISION)), LOG_TOLD),
    "picture.png": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00", BINARY_TOLD),
    "program": (b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)) * 20, BINARY_TOLD),
    "latin.txt": ("Grüße\n".encode("latin-1"), BINARY_TOLD),
}


# COMMAND-21: what a file is that is no feed, and what to do with it, in one line
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_kind(tmp_path: Path, name: str) -> None:
    content, message = FILES[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = run("replay", path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"{path}: {message.replace('{file}', str(path))}\n"


# COMMAND-21: every command that takes a feed says it
@pytest.mark.parametrize(
    "command",
    [
        ("replay", "FILE", "--decisions", "OUT", "--report", "OUT.html"),
        ("check", "FILE"),
        ("explain", "FILE", "--all"),
        ("explain", "FILE", "--ask", "a/x"),
        ("convert", "FILE", "OUT.yaml"),
        ("compare", "FILE", "FEED"),
        ("compare", "FEED", "FILE"),
        ("compare", "FILE", "--config", "CONFIG"),
    ],
    ids=" ".join,
)
def test_every_command_says_it(tmp_path: Path, command: tuple[str, ...]) -> None:
    places = {
        "FILE": written(tmp_path / "my jobs.csv", CSV),
        "FEED": written(tmp_path / "feed.yaml", SETUP),
        "CONFIG": written(tmp_path / "queues.yaml", CONFIGURATION),
        "OUT": tmp_path / "out",
        "OUT.html": tmp_path / "out.html",
        "OUT.yaml": tmp_path / "out.yaml",
    }
    there = sorted(tmp_path.iterdir())
    result = run(*(places.get(word, word) for word in command))

    quoted = f"'{places['FILE']}'"
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"{places['FILE']}: {CSV_TOLD.replace('{file}', quoted)}\n"
    assert sorted(tmp_path.iterdir()) == there


def test_standard_input_and_json() -> None:
    status, answer = run_json("check", "-", stdin=CONFIGURATION)

    assert status == 2
    assert answer["feeds"][0]["error"] == {
        "file": "standard input",
        "line": None,
        "message": CONFIGURATION_TOLD.replace("{file}", "-"),
    }


@pytest.mark.parametrize(
    "command", [("replay",), ("check",), ("explain", "--all"), ("compare", "CONFIG")]
)
def test_a_folder_that_is_no_state_directory(tmp_path: Path, command: tuple[str, ...]) -> None:
    config = ["--config", str(written(tmp_path / "queues.yaml", CONFIGURATION))]
    words = [command[0], *command[1:]] if command[0] != "compare" else ["compare", *config]
    result = run(*words, tmp_path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (f"{tmp_path}: is not a state directory: it has no file muster.db\n")


def test_the_file_of_a_state_directory(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (x)")
    database.close()
    result = run("replay", path)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"{path}: is a database, not a feed: if it is the one of")


@pytest.mark.parametrize(
    ("name", "feed"),
    [
        ("a.yaml", "- hello\n- {apiVersion: 5}\n" + SETUP),
        ("a.yaml", "- [1, 2]\n" + SETUP),
        ("a.yaml", "# a,b\n- {op: add_nod, node: n1}\n"),
        ("a.jsonl", 'hello\n{"op": "settle"}\n'),
        ("a.jsonl", '{"op": "settle"\n'),
        ("a.yaml", "- {op: settle, op: settle}\n"),
    ],
)
def test_a_feed_with_bad_events_is_read_as_ever(tmp_path: Path, name: str, feed: str) -> None:
    result = run("replay", written(tmp_path / name, feed))

    assert result.exit_code == 1
    assert "refused: " in result.stderr
    assert "events refused" in result.stdout


def test_a_broken_feed_is_reported_by_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.yaml", "- {op: settle\n- {op: settle}\n")
    result = run("replay", path)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"{path}:2: ")


@pytest.mark.parametrize("feed", ["[]", "# nothing yet\n", "[]\n"])
def test_a_feed_without_events_is_one(tmp_path: Path, feed: str) -> None:
    assert run("replay", written(tmp_path / "a.yaml", feed)).exit_code == 0


@pytest.mark.parametrize(
    ("name", "feed"), [("a b.yaml", SETUP + ASK), ("a.jsonl", '{"op": "settle"}\n{"op": "settle"}')]
)
def test_a_feed_in_place_of_a_configuration(tmp_path: Path, name: str, feed: str) -> None:
    path = written(tmp_path / name, feed)
    word = f"'{path}'" if " " in name else str(path)
    message = f"is a feed, not a configuration: run it with `muster replay {word}`"
    validated = run("validate", path)
    compared = run("compare", written(tmp_path / "f.yaml", SETUP), "--config", path)

    for result in (validated, compared):
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"{path}: {message}\n"
