"""``muster compare`` with decision logs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.actors.cli.comparing import FEED, under
from tests.actors.cli.helpers import run, run_json, written


def logs(tmp_path: Path, files: dict[str, Path], ending: str) -> list[Path]:
    """Write the decision logs of both configurations."""
    made: list[Path] = []
    for name in ("a", "b"):
        feed = f"- {{op: configure, file: {files[name].name}}}\n{FEED}"
        log = tmp_path / f"{name}-log{ending}"
        run("replay", written(tmp_path / f"{name}-feed.yaml", feed), "--decisions", log)
        made.append(log)
    return made


@pytest.mark.parametrize("ending", [".jsonl", ".msgpack", ".jsonl.gz", ".msgpack.gz", ".log"])
def test_two_logs(files: dict[str, Path], tmp_path: Path, ending: str) -> None:
    a, b = logs(tmp_path, files, ending)
    status, given = run_json("compare", a, b)
    by_feed = run_json(*under(files))[1]
    in_lines = "msgpack" not in ending

    assert status == 1
    assert given["first"]["a"]["decision"]["app"] == "a"
    assert given["first"]["a"]["line"] == (6 if in_lines else None)
    assert given["first"]["a"]["elsewhere"] is None
    assert given["all"]["a"]["wait"] is None
    assert given["all"]["a"]["job_wait"] == by_feed["all"]["a"]["job_wait"]
    assert given["jobs"] == by_feed["jobs"]
    assert given["priorities"] == []
    assert run("compare", a, a).exit_code == 0


def test_two_logs_in_words(files: dict[str, Path], tmp_path: Path) -> None:
    a, b = logs(tmp_path, files, ".msgpack")
    text = run("compare", a, b).stdout

    assert f"\nA  assigned a/x on n1 in root.east  ({a}: event 5)\nB  assigned" in text
    assert re.search(r"\n mean wait of jobs +5 s +750 s +\+745 s\n", text)
    assert re.search(r"\n queue +jobs   asks bound   mean wait of jobs +median ", text)
    assert "vcore" not in text


def test_a_log_and_a_feed_are_not_compared(files: dict[str, Path], tmp_path: Path) -> None:
    (log, _) = logs(tmp_path, files, ".jsonl")
    for pair in ((log, files["feed"]), (files["feed"], log)):
        result = run("compare", *pair)
        assert result.exit_code == 2
        assert result.stderr == f"{log}: is a decision log, and the other is a feed\n"


def test_a_log_has_no_configuration_to_change(files: dict[str, Path], tmp_path: Path) -> None:
    (log, _) = logs(tmp_path, files, ".jsonl")
    result = run("compare", log, "--config", files["a"])

    assert result.exit_code == 2
    assert result.stderr == f"{log}: is a decision log: a configuration cannot change it\n"


def test_what_is_empty_is_what_the_other_is(files: dict[str, Path], tmp_path: Path) -> None:
    (log, _) = logs(tmp_path, files, ".jsonl")
    empty = written(tmp_path / "empty.yaml", "[]")

    assert run_json("compare", empty, log)[1]["jobs"]["only_b"] == 2
    assert run_json("compare", files["feed"], empty)[1]["jobs"]["only_a"] == 2
    assert run("compare", empty, empty).exit_code == 0


def test_a_log_that_breaks_off(files: dict[str, Path], tmp_path: Path) -> None:
    (log, _) = logs(tmp_path, files, ".jsonl")
    broken = written(tmp_path / "broken.jsonl", log.read_text(encoding="utf-8")[:-9])
    result = run("compare", log, broken)

    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(rf"{broken}:\d+: no decision of a log: the line is .*\n", result.stderr)
