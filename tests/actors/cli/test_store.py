from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import muster
from tests.actors.cli.helpers import run, run_json
from tests.actors.kept import S, small
from tests.actors.store.program import made, numbers, parts_of, put_checkpoint


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
    assert lines(result.stdout)[1:10] == [
        ["partition", "default"],
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
    assert f"{directory}: format 2, 32.0 KiB" in result.stdout


def test_what_is_in_it_for_programs(directory: Path) -> None:
    assert run_json("store", directory) == (
        0,
        {
            "store": str(directory),
            "format": 2,
            "written_by": muster.__version__,
            "origin": "2023-11-14T22:13:20+00:00",
            "partition": "default",
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
