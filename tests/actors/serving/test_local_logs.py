"""The files with the output of commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from muster.service.local.output import OutputFiles, folder_name

# LOCAL-5


@given(st.lists(st.text(min_size=1), unique=True, min_size=2))
def test_the_names_of_folders_are_safe(names: list[str]) -> None:
    folders = [folder_name(name) for name in names]

    assert len(set(folders)) == len(names)
    for folder in folders:
        assert "/" not in folder
        assert not folder.startswith(".")
        assert 1 <= len(folder.encode()) <= 200


def test_long_names_do_not_meet() -> None:
    names = ["l" * 300, "l" * 301, "%~" + "l" * 300, "\u65e5" * 100, "\u65e5" * 101]

    assert len({folder_name(name) for name in names}) == len(names)


@pytest.mark.parametrize("ask", ["..", ".", "worker-0", "a b", "\u65e5" * 100])
def test_starts_are_counted(tmp_path: Path, ask: str) -> None:
    logs = OutputFiles(tmp_path / "logs")
    assert logs.attempts("..", ask) == []
    made = [logs.begin("..", ask) for _ in range(3)]

    assert [one.number for one in made] == [1, 2, 3]
    assert logs.attempts("..", ask) == made
    assert {one.relative_to(tmp_path).parts[0] for one in tmp_path.rglob("*.log")} == {"logs"}


def test_what_ended_long_ago_is_removed(tmp_path: Path) -> None:
    # LOCAL-6
    logs = OutputFiles(tmp_path)
    for ask, ended_us in (("old", 10), ("new", 30), ("runs", None)):
        made = logs.begin("a", ask)
        about = {"started_us": 1} if ended_us is None else {"started_us": 1, "ended_us": ended_us}
        made.told.write_text(json.dumps(about))
    logs.begin("b", "starts")

    logs.prune(20)

    assert [len(logs.attempts("a", ask)) for ask in ("old", "new", "runs")] == [0, 1, 1]
    assert len(logs.attempts("b", "starts")) == 1
    assert not (tmp_path / "a" / "old").exists()
    logs.prune(10**18)
    assert [len(logs.attempts("a", ask)) for ask in ("new", "runs")] == [0, 1]
