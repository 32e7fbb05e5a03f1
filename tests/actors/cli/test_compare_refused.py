"""``muster compare`` where something is refused: the command itself, a file, events."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.actors.cli.comparing import FEED, QUEUES, under
from tests.actors.cli.helpers import COMMAND, run, run_json, written

# What cannot be compared


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["{feed}"],
            "There is only one feed: name a second one, or a configuration with --config.",
        ),
        (["{feed}"] * 3, "There are 3 feeds; compare two."),
        (["{feed}", *["--config", "{a}"] * 27], "There are 27 configurations; compare 26 at most."),
        (["{feed}", "{feed}", "--partition", "p"], "--partition needs --config"),
        (["-", "-"], "Standard input can be read only once: name a file."),
        (["-", "--config", "-"], "Standard input can be read only once: name a file."),
        ([], "Missing argument 'FEED...'"),
    ],
)
def test_arguments_that_make_no_sense(
    files: dict[str, Path], arguments: list[str], problem: str
) -> None:
    names = {name: str(path) for name, path in files.items()}
    result = run("compare", *(argument.format(**names) for argument in arguments))

    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_a_configuration_that_is_refused(files: dict[str, Path]) -> None:
    files["b"].write_text(QUEUES.replace("west", "east").replace("root", "root!"), encoding="utf-8")
    result = run(*under(files))
    status, given = run_json(*under(files))

    assert (result.exit_code, result.stdout, status) == (2, "", 2)
    assert result.stderr.startswith(f"{files['b']}:4: partitions[0].queues[0].name: ")
    assert given["error"]["file"] == str(files["b"])
    assert given["error"]["line"] == 4


@pytest.mark.parametrize("which", ["feed", "a"])
def test_a_file_that_is_not_there(files: dict[str, Path], which: str) -> None:
    files[which].unlink()
    result = run(*under(files))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{files[which]}: ")


def test_standard_input_that_is_closed(files: dict[str, Path]) -> None:
    command = [*COMMAND, *map(str, ["compare", files["feed"], "--config", "-"])]
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *command], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "standard input: cannot be read: it is closed\n"


def test_what_is_no_feed(files: dict[str, Path], tmp_path: Path) -> None:
    problem = f"{files['a']}: is a configuration, not a feed: check it with `muster validate {files['a']}`\n"
    lines = written(tmp_path / "lines.jsonl", '{"op": "bogus"}\n{}\n')

    for arguments in (
        [files["a"], files["b"]],
        [files["feed"], files["a"]],
        [files["a"], "--config", files["b"]],
        [files["a"], "--config", files["b"], "--config", files["b"]],
    ):
        result = run("compare", *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", problem)
    result = run("compare", lines, files["feed"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{lines}:1: op: 'bogus' ")


def test_a_feed_of_which_something_can_be_read(files: dict[str, Path], tmp_path: Path) -> None:
    bogus = written(tmp_path / "bogus.yaml", "- {op: bogus}\n- {op: settle}\n")
    result = run("compare", bogus, bogus)

    assert result.exit_code == 0
    assert result.stderr.startswith(f"{bogus}:1: refused: op: 'bogus' ")


# Events that are refused


REFUSING = (
    QUEUES.replace("- {name: west}", "- {name: west, submitacl: alice}")
    .replace("- name: root", "- name: root\n        submitacl: ' '")
    .replace("{name: east}", "{name: east, submitacl: '*'}")
)
STRANGE = "- {op: add_app, app: z, queue: root.east}\n- {op: add_app, app: z, queue: root.east}\n"


def test_a_configuration_that_refuses_jobs(files: dict[str, Path]) -> None:
    files["b"].write_text(REFUSING, encoding="utf-8")
    files["feed"].write_text(FEED + STRANGE, encoding="utf-8")
    result = run(*under(files))
    feed = files["feed"]

    assert result.exit_code == 1
    assert (
        f"\nOnly B refuses 2 events:\n\n   {feed}:4: queue: 'root.west' does not admit "
    ) in result.stdout
    assert f"\n   {feed}:5: app: 'b' is unknown\n" in result.stdout
    assert "Only A refuses" not in result.stdout
    assert re.search(r"\n events refused +1 +3 +\+2\n", result.stdout)
    assert "\nOnly in A: 1 job; B refused it.\n" in result.stdout
    # COMMAND-28
    summary = run(*under(files), "--summary").stdout
    assert "\nOnly B refuses 2 events.\n" in summary
    assert "app: 'b' is unknown" not in summary
    assert summary.endswith("\nOnly in A: 1 job; B refused it.\n\n")
    # What both refuse is said as a replay says it, once.
    assert result.stderr == f"{feed}:7: refused: app: 'z' is already an application\n"


def test_refused_jobs_as_json(files: dict[str, Path]) -> None:
    files["b"].write_text(REFUSING, encoding="utf-8")
    files["feed"].write_text(FEED + STRANGE, encoding="utf-8")
    given = run_json(*under(files))[1]
    refused = given["refused"]

    assert (refused["both"], refused["only_a"], refused["only_b"]) == (1, 0, 2)
    assert [(one["index"], one["line"]) for one in refused["first_b"]] == [(3, 4), (4, 5)]
    assert refused["first_b"][1]["message"] == "app: 'b' is unknown"
    assert refused["first_a"] == []
    assert refused["first_both"][0]["a"] == refused["first_both"][0]["b"]
    assert refused["first_both"][0]["a"]["line"] == 7
    assert given["all"]["b"]["events_refused"] == 3
    assert given["all"]["difference"]["events_refused"] == 2
    assert (given["jobs"]["only_a"], given["jobs"]["refused_a"]) == (1, 1)
    assert (given["jobs"]["only_b"], given["jobs"]["refused_b"]) == (0, 0)


def test_many_refusals_are_counted(files: dict[str, Path], tmp_path: Path) -> None:
    repeated = STRANGE.splitlines(keepends=True)[0] * 13
    files["feed"].write_text(FEED + repeated, encoding="utf-8")
    lines = run(*under(files)).stderr.splitlines()
    other = written(tmp_path / "other.yaml", FEED)
    text = run("compare", files["feed"], other).stdout

    assert len(lines) == 11
    assert lines[-1] == f"{files['feed']}: refused: … 12 in all on both sides"
    assert "\nOnly A refuses 12 events:\n" in text
    assert "\n   … and 2 more\n" in text


def test_refusals_of_two_feeds(files: dict[str, Path], tmp_path: Path) -> None:
    files["feed"].write_text(FEED + STRANGE, encoding="utf-8")
    other = written(tmp_path / "other.yaml", f"# The same.\n{FEED}{STRANGE}")
    result = run("compare", files["feed"], other)

    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        f"{files['feed']}:7: refused: app: 'z' is already an application",
        f"{other}:8: refused: app: 'z' is already an application",
    ]


def test_an_event_refused_for_two_reasons(files: dict[str, Path]) -> None:
    files["a"].write_text(
        REFUSING.replace("{name: east,", "{name: east, queues: [{name: leaf}],"), encoding="utf-8"
    )
    files["b"].write_text(REFUSING.replace("submitacl: '*'", "submitacl: bob"), encoding="utf-8")
    result = run(*under(files))

    lines = [line for line in result.stderr.splitlines() if f"{files['feed']}:2: " in line]
    assert len(set(lines)) == 2
    assert "Only" not in result.stdout
