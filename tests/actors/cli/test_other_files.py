"""Files of other kinds in place of a feed: every command says what they are, and changes nothing."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import msgpack
import pytest

from tests.actors.cli.helpers import ASK, SETUP, run, run_json, written

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
    content, told = FILES[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = run("replay", path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"{path}: {told.replace('{file}', str(path))}\n"


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
    status, said = run_json("check", "-", given=CONFIGURATION)

    assert status == 2
    assert said["feeds"][0]["error"] == {
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


def test_a_broken_feed_is_still_told_by_its_line(tmp_path: Path) -> None:
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
    told = f"is a feed, not a configuration: run it with `muster replay {word}`"
    validated = run("validate", path)
    compared = run("compare", written(tmp_path / "f.yaml", SETUP), "--config", path)

    for result in (validated, compared):
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"{path}: {told}\n"
