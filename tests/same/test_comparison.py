"""The comparison notices what differs, what is missing, and when there is too little to compare."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.same.collector import keep
from tests.same.comparison import WIDTH, Comparison, compare
from tests.same.inputs import draw
from tests.same.interface import masked, show_help
from tests.same.replays import feeds_below, replay_feeds

LEAST = 25


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collect the help of all commands."""
    folder = tmp_path_factory.mktemp("old")
    show_help(partial(keep, folder))
    return folder


@pytest.fixture
def new(old: Path, tmp_path: Path) -> Path:
    """Copy what was collected."""
    return Path(shutil.copytree(old, tmp_path / "new"))


def report_on(result: Comparison) -> str:
    return "\n".join(result.lines("help", 3))


def test_the_same_is_the_same(old: Path, new: Path) -> None:
    result = compare(old, new, LEAST)

    assert result.is_same
    assert report_on(result) == "help: the same"


def alter_a_word(folder: Path) -> None:
    path = folder / "muster replay"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("virtual time", "simulated time", 1), encoding="utf-8")


def remove_one(folder: Path) -> None:
    (folder / "muster check").unlink()


def add_one(folder: Path) -> None:
    (folder / "muster dance").write_text("Dance.\n", encoding="utf-8")


def lengthen_one(folder: Path) -> None:
    with (folder / "muster why").open("a", encoding="utf-8") as file:
        file.write("one more\n")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (
            alter_a_word,
            ["  muster replay:", "-  Replay a feed in virtual", "+  Replay a feed in sim"],
        ),
        (remove_one, ["  muster check:\n    is missing now"]),
        (add_one, ["  muster dance:\n    was not there before"]),
        (lengthen_one, ["  muster why:", "+one more"]),
    ],
)
def test_a_change_is_shown(
    old: Path, new: Path, change: Callable[[Path], None], parts: list[str]
) -> None:
    change(new)
    result = compare(old, new, LEAST)

    assert not result.is_same
    assert report_on(result).startswith("help: 1 DIFFER\n")
    assert [one for one in parts if one not in report_on(result)] == []


def test_too_few_are_not_the_same(old: Path, new: Path) -> None:
    result = compare(old, new, 1_000)

    assert not result.is_same
    assert report_on(result).startswith("help: TOO FEW\n")


def test_of_a_long_line_the_place_is_shown(tmp_path: Path) -> None:
    for name, end in (("one", "x"), ("two", "y")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log").write_text("." * 10_000 + end, encoding="utf-8")
    text = report_on(compare(tmp_path / "one", tmp_path / "two", 1))

    assert "character 9,921 on" in text
    assert max(map(len, text.splitlines())) <= WIDTH + 5


def test_items_do_not_replace_each_other(tmp_path: Path) -> None:
    keep(tmp_path, "a/b" * 100, "one")
    keep(tmp_path, "a/b" * 101, "two")

    with pytest.raises(FileExistsError):
        keep(tmp_path, "a/b" * 100, "three")


def test_random_feeds_are_drawn_and_replayed_the_same_each_time(tmp_path: Path) -> None:
    texts: list[dict[str, str]] = []
    for number in range(2):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        draw(folder, ("gangs", 3))
        found: dict[str, str] = {}
        replay_feeds(folder, feeds_below(folder), found.__setitem__, check=False)
        texts.append(found)

    assert texts[0] == texts[1]
    assert len(texts[0]) == 3
    assert all('"kind": "' in text for text in texts[0].values())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("35 decisions in 0.0172 s (2,037 a second).", "35 decisions in … s."),
        ('{"virtual_s": 3.0, "real_s": 0.01, "x": 1}', '{"virtual_s": 3.0, "real_s": …, "x": 1}'),
        ("4,077 events, 94d 23:59:15, 1,240 decisions/s, 97.7 % read\nend", "end"),
        ("bound at 3.5 s", "bound at 3.5 s"),
    ],
)
def test_only_what_is_measured_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
