"""The command as a whole, its help and errors, and ``muster store``."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import muster
from muster import __version__
from muster.cli import main
from muster_core.structures import ranking
from tests.actors.cli.helpers import COMMAND, run, run_json, started
from tests.actors.state_directories import S, small
from tests.actors.store.program import made, numbers, parts_of, put_checkpoint

COMMANDS = ["replay", "check", "validate", "convert", "store"]

FIRST = str(Path(__file__).parents[3] / "docs" / "feeds" / "first.yaml")
"""A feed without errors."""


def test_version() -> None:
    how = "compiled" if ranking.__file__.endswith(tuple(EXTENSION_SUFFIXES)) else "pure Python"
    assert run("--version").stdout == f"muster {__version__} ({how})\n"


def test_version_reads_no_command() -> None:
    code = (
        "import sys; from muster.cli import main\n"
        "try: main(['--version'])\n"
        "finally: print([name for name in sys.modules if 'rich' in name or 'yaml' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[1] == "[]"


def test_help_names_every_command() -> None:
    result = run("--help")

    assert result.exit_code == 0
    assert all(f"\n  {name} " in result.stdout for name in COMMANDS)
    assert "_MUSTER_COMPLETE=bash_source" in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_has_an_example(name: str) -> None:
    result = run(name, "--help")

    assert result.exit_code == 0
    assert re.search(rf"\n  Example:\n +muster {name} ", result.stdout)
    assert "--format [text|json]" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["repaly", "x"],
        ["replay"],
        ["replay", "a", "b"],
        ["replay", "a", "--until", "yesterday"],
        ["replay", "a", "--until", "-1"],
        ["replay", "a", "--format", "xml"],
        ["replay", "a", "--quickly"],
        ["check"],
        ["validate"],
        ["convert", "a"],
        ["convert", "a", "b", "--to", "xml"],
    ],
    ids=" ".join,
)
def test_unusable_arguments(arguments: list[str]) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: muster")
    assert result.stdout == ""


def test_completion() -> None:
    done = subprocess.run(
        COMMAND,
        env={**os.environ, "_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": "muster c",
             "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip

    commands = ("check", "compare", "convert", "cancel", "config")
    assert done.stdout.splitlines() == [f"plain,{command}" for command in commands]


@pytest.mark.parametrize("arguments", [["--help"], ["check", FIRST], ["check", "missing"]])
def test_no_colours_where_nobody_sees_them(arguments: list[str]) -> None:
    result = run(*arguments)

    assert "\x1b" not in result.stdout + result.stderr


def test_status_of_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status in (
        (["check", FIRST], 0),
        (["check", str(tmp_path / "missing")], 2),
        (["--quickly"], 2),
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == status
    assert "--quickly" in capsys.readouterr().err


def test_ctrl_c_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.cli._check.read_feed", interrupt)

    assert run("check", "a").exit_code == 130


@pytest.mark.parametrize("arguments", [["check", FIRST], ["replay", FIRST]])
def test_a_closed_pipe_is_quiet(arguments: list[str]) -> None:
    with started(*arguments) as running:
        running.out.close()

        assert running.err.read() == b""
    assert running.process.returncode == 141


def test_a_closed_pipe_leaves_nothing_to_complain_of(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as caught:
            main(["check", FIRST])
        stream.flush()

    assert caught.value.code == 141


@pytest.mark.parametrize("arguments", [["check", FIRST], ["replay", FIRST]])
def test_without_standard_output(arguments: list[str]) -> None:
    words = ["sh", "-c", '"$@" >&-', "sh", *COMMAND, *arguments]
    done = subprocess.run(words, capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, b"check", os.fsencode(tmp_path) + b"/\xff.yaml"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.endswith(b".yaml: No such file or directory\n")


@pytest.mark.parametrize("name", ["replay", "check", "validate"])
def test_a_closed_standard_input_cannot_be_read(name: str) -> None:
    command = f'"{sys.executable}" -m muster {name} - <&-'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (2, "standard input: is closed\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["--help", "--version", "check ok.yaml", "replay ok.yaml"])
def test_a_full_disk_is_not_a_difference(arguments: str, tmp_path: Path) -> None:
    (tmp_path / "ok.yaml").write_text("- op: settle\n", encoding="utf-8")
    command = f'cd "{tmp_path}" && "{sys.executable}" -m muster {arguments} > /dev/full'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == "standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (["repaly", "feed.yaml"], "did you mean replay?"),
        (["replay", "--decision", "log", "feed.yaml"], "--decisions"),
        (["check", "--strikt", "feed.yaml"], "--strict"),
    ],
)
def test_a_misspelt_command_or_option_is_guessed(arguments: list[str], question: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert question in result.stderr


def test_a_command_like_no_other() -> None:
    assert run("xyz").stderr.splitlines()[-1] == "Error: No such command 'xyz'."


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with seven batches and two checkpoints, closed."""
    with made(tmp_path / "state", 7) as writer:
        for batch in (3, 6):
            put_checkpoint(writer, batch, parts_of(batch))
    return tmp_path / "state"


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


def test_what_is_in_it(directory: Path) -> None:
    result = run("store", directory)

    assert result.exit_code == 0
    assert lines(result.stdout)[1:11] == [
        ["partition", "default"],
        ["term", "1"],
        ["written", "by", "Muster", muster.__version__],
        ["origin", "of", "time", "2023-11-14T22:13:20+00:00"],
        ["first", "batch", "1", "at", "1", "s,", "2023-11-14T22:13:21+00:00"],
        ["last", "batch", "7", "at", "7", "s,", "2023-11-14T22:13:27+00:00"],
        ["batches", "7"],
        ["events", "7", "(323", "bytes)"],
        ["decisions", "7", "(259", "bytes)"],
        ["checkpoints", "2"],
    ]
    assert lines(result.stdout)[-2:] == [
        ["3", "3", "s", "2", "117", "bytes", "yes"],
        ["6", "6", "s", "2", "117", "bytes", "yes"],
    ]
    assert f"{directory}: format 3, 32.0 KiB" in result.stdout


def test_what_is_in_it_for_programs(directory: Path) -> None:
    assert run_json("store", directory) == (
        0,
        {
            "store": str(directory),
            "format": 3,
            "written_by": muster.__version__,
            "origin": "2023-11-14T22:13:20+00:00",
            "partition": "default",
            "term": 1,
            "first": {"batch": 1, "at": 1},
            "last": {"batch": 7, "at": 7},
            "batches": 7,
            "events": 7,
            "decisions": 7,
            "bytes": (directory / "muster.db").stat().st_size,
            "checkpoints": [
                {"batch": batch, "at": batch, "parts": 2, "bytes": 117, "complete": True}
                for batch in (3, 6)
            ],
        },
    )


def test_an_empty_one(tmp_path: Path) -> None:
    made(tmp_path, 0).close()

    assert ["first", "batch", "none"] in lines(run("store", tmp_path).stdout)
    assert run_json("store", tmp_path)[1]["first"] is None


def test_one_that_is_in_use(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    status, found = run_json("store", keeper.directory, "--verify")
    keeper.close()

    assert (status, found["batches"], found["ok"]) == (0, 4, True)


def test_verify(tmp_path: Path) -> None:
    directory = small(tmp_path / "state").close()
    result = run("store", directory, "--verify")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, f"{directory}: ok (4 batches)")

    connection = sqlite3.connect(directory / "muster.db", isolation_level=None)
    connection.execute("UPDATE batch SET at_us = 0 WHERE number = 3")
    connection.close()

    result = run("store", directory, "--verify")
    assert result.exit_code == 1
    problem, last = result.stdout.splitlines()[-2:]
    assert "batch 3 does not match its digest" in problem
    assert last == f"{directory}: 1 problem (4 batches)"
    status, found = run_json("store", directory, "--verify")
    assert (status, found["ok"], found["problems"]) == (1, False, [problem])


def test_verify_where_the_first_batches_were_removed(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.prune(2 * S)
    directory = keeper.close()

    result = run("store", directory, "--verify")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, f"{directory}: ok (3 batches)")


def test_verify_makes_all_decisions_again(directory: Path) -> None:
    # STORE-18
    result = run("store", directory, "--verify")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2] == (
        f"{directory / 'muster.db'}: batch 1, decision 1: it was seq=1 at=1 kind='bound' "
        "app='app' ask='ask-1' node='node' queue='root.a', and is now seq=1 at=1 "
        "kind='rejected' message=\"app: 'app' is unknown\" index=0"
    )


def test_compact(directory: Path) -> None:
    assert run("store", directory, "--compact").exit_code == 0
    assert numbers(directory) == [1, 2, 3, 4, 5, 6, 7]


def test_compacting_what_is_in_use_is_refused(tmp_path: Path) -> None:
    with made(tmp_path, 1):
        result = run("store", tmp_path, "--compact")

    assert result.exit_code == 2
    assert "has had the directory open for writing" in result.stderr


def test_what_is_no_state_directory(tmp_path: Path) -> None:
    result = run("store", tmp_path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (f"{tmp_path}: is not a state directory: it has no file muster.db\n")
    assert run_json("store", tmp_path) == (
        2,
        {
            "error": {
                "file": str(tmp_path),
                "line": None,
                "message": "is not a state directory: it has no file muster.db",
            }
        },
    )
