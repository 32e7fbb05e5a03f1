"""The cells of tables, and what is wrong with a table as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.importing.helpers import imported, refusal, written

MAPPING = "job: id\nsubmit: came\nduration: took\nresources: {vcore: cpus}\n"
HEAD = "id,came,took,cpus\n"


def options(folder: Path, nodes: str = "2x vcore=8") -> tuple[object, ...]:
    return "--mapping", written(folder / "mapping.yaml", MAPPING), "--nodes", nodes


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (HEAD.replace(",", ";"), "a.csv:1: has no column 'id'"),
        (HEAD.replace(",", ";"), "write `delimiter: ';'` in "),
        (HEAD.replace(",", "\t"), "write `delimiter: tab` in "),
        ("id,came,took,cpus,cpus\n", "a.csv:1: names the column 'cpus' twice"),
        (HEAD + 'a,0,60,1\n"b,0,60,1\nc,0,60,1\n', "a.csv:3: a cell begins with a quotation mark"),
    ],
)
def test_what_is_no_such_table_is_refused(tmp_path: Path, table: str, said: str) -> None:
    assert said in refusal("csv", written(tmp_path / "a.csv", table), *options(tmp_path))


def test_a_table_in_utf_16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEAD + "a,0,60,1\n", encoding="utf-16")

    assert "a.csv:1: is in UTF-16: save it in UTF-8" in refusal("csv", path, *options(tmp_path))


def test_a_table_of_which_nothing_can_be_taken_shows_a_value_and_what_is_right(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "a.csv", HEAD + "a,31.01.2026 18:30,60,1\n")
    message = refusal("csv", path, *options(tmp_path))

    assert "1 row: came is no instant: write 2026-01-31 18:30, a number, or its form" in message
    assert "a.csv:2: 31.01.2026 18:30" in message


@pytest.mark.parametrize(("nodes", "example"), [("2x vcore=2", "vcore 3"), ("2x cpu=8", "vcore 3")])
def test_a_job_that_is_too_large_for_each_node_is_counted(
    tmp_path: Path, nodes: str, example: str
) -> None:
    path = written(tmp_path / "a.csv", HEAD + "a,0,60,3\n")
    _, summary = imported("csv", path, *options(tmp_path, nodes))

    assert summary["taken"] == {"row": 1}
    (note,) = summary["not_in_feed"]
    assert note["cause"] == "asks for more than any node has: it never starts"
    assert note["example"] == example


def test_tasks_for_which_nothing_is_left_are_counted(tmp_path: Path) -> None:
    mapping = MAPPING.replace("vcore", "nvidia.com/gpu") + "tasks: took\namounts: per_job\n"
    path = written(tmp_path / "a.csv", HEAD + "a,0,4,1\n")
    _, summary = imported(
        "csv", path, *options(tmp_path, "2x nvidia.com/gpu=8"),
        "--mapping", written(tmp_path / "other.yaml", mapping),
    )  # fmt: skip

    (note,) = summary["not_in_feed"]
    assert note["example"] == "1 of 4 tasks"
