"""What the page for operators of YuniKorn says is shown by feeds, and their file by all its rules."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml

from muster.feeds import FeedItem, read_feed
from muster.replay import Check
from tests.actors.cli.helpers import run
from tests.share import every
from tests.test_feeds import FEEDS, PATHS

PAGE: Final = Path(__file__).parent.parent / "docs" / "coming-from-yunikorn.md"
HERE: Final = FEEDS / "yunikorn"
CONFIG_MAP: Final = HERE / "files" / "configmap.yml"
SHOWN_BY: Final = HERE / "operators_file.yaml"

COLUMNS: Final = ["status", "subject", "YuniKorn", "Muster", "why", "feeds"]
STATUS: Final = ["same", "differs", "not there"]

DEFAULTS: Final = {
    ("preemption", "enabled"),
    ("placementrules", 0, "filter", "type"),
    ("placementrules", 1, "create"),
    ("queues", 0, "queues", 0, "parent"),
}
"""What the file says and would hold without saying it."""

NEEDED: Final = {
    ("queues", 0, "queues", 2, "parent"),
    ("queues", 0, "queues", 3, "parent"),
    ("queues", 0, "queues", 2, "limits", 1),
}
"""Without these another rule would be refused: a placement rule, and the limit of the group `*`."""

REMARKS: Final = {"limit", "name"}
ENTRIES: Final = {"limits", "placementrules"}
"""Lists of which each entry as a whole is a rule, too."""

Where = tuple[str | int, ...]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


TABLE: Final = [
    cells(line) for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"
]
ROWS: Final = TABLE[2:]


def linked(row: list[str]) -> list[Path]:
    """Return the files to which the last cell of a row has links."""
    return [(PAGE.parent / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", row[-1])]


def test_one_table_with_these_columns() -> None:
    assert TABLE[0] == COLUMNS
    assert TABLE[1] == ["---"] * len(COLUMNS)
    assert len(ROWS) > len(STATUS)


def test_what_is_the_same_comes_first_and_what_is_not_there_last() -> None:
    found = [row[0] for row in ROWS]

    assert sorted(found, key=STATUS.index) == found
    assert set(found) == set(STATUS)


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_row_has_feeds_that_the_suite_runs(row: list[str]) -> None:
    assert len(row) == len(COLUMNS)
    assert all(row[1:4])
    assert row[0] == "same" or row[4], "it says no reason"
    assert linked(row)
    assert [path for path in linked(row) if path not in PATHS] == []


def test_each_feed_about_yunikorn_is_in_a_row() -> None:
    named = {path for row in ROWS for path in linked(row)}

    assert {path for path in PATHS if path.parent == HERE} <= named


def test_the_files_bring_no_warning() -> None:
    for result in (
        run("validate", "--strict", CONFIG_MAP),
        run("check", "--strict", *sorted(HERE.glob("*.yaml"))),
    ):
        assert (result.exit_code, result.stderr) == (0, "")
        assert "warning" not in result.stdout


def rules(value: object, where: Where = ()) -> Iterator[Where]:
    """Yield where each rule of a configuration is: single values, and whole entries."""
    if isinstance(value, dict):
        pairs = list(cast("dict[str | int, object]", value).items())
    elif isinstance(value, list):
        pairs = list[tuple[str | int, object]](enumerate(cast("list[object]", value)))
    else:
        yield where
        return
    for key, inner in pairs:
        if where and where[-1] in ENTRIES:
            yield (*where, key)
        if key not in REMARKS:
            yield from rules(inner, (*where, key))


def changed(partition: dict[str, Any], where: Where) -> Iterator[dict[str, Any]]:
    """Yield partitions without a value, or with another one where it cannot be left out."""
    for other in (None, "2", "1", "7", "root.default", "someone-else"):
        result = copy.deepcopy(partition)
        owner: Any = result
        for key in where[:-1]:
            owner = owner[key]
        if other is None:
            del owner[where[-1]]
        elif other == owner[where[-1]]:
            continue
        else:
            owner[where[-1]] = other
        yield result


def read_partition() -> dict[str, Any]:
    text = yaml.safe_load(CONFIG_MAP.read_text(encoding="utf-8"))["data"]["queues.yaml"]
    # As texts, as they stand there.
    (partition,) = yaml.load(text, Loader=yaml.BaseLoader)["partitions"]
    return cast("dict[str, Any]", partition)


PARTITION: Final = read_partition()
RULES: Final = [where for where in rules(PARTITION) if where not in DEFAULTS | NEEDED]


@pytest.mark.parametrize(
    "where", every(3, RULES), ids=[".".join(map(str, where)) for where in RULES]
)
async def test_the_feed_shows_each_rule_of_the_file(where: Where, tmp_path: Path) -> None:
    """With one value of the file changed, to something that loads, the feed is not met any more."""
    feed = shutil.copy(SHOWN_BY, tmp_path)
    file = tmp_path / "files" / CONFIG_MAP.name
    file.parent.mkdir()
    for partition in changed(PARTITION, where):
        file.write_text(json.dumps({"partitions": [partition]}), encoding="utf-8")
        if run("validate", file).exit_code == 0:
            break
    else:
        pytest.fail("no other value loads")
    check = Check()
    await check.run(until_different(read_feed(Path(feed)), check))

    assert check.differences


def until_different(items: Iterable[FeedItem], check: Check) -> Iterator[FeedItem]:
    """Yield the items of a feed until something is different: the rest takes time only."""
    for item in items:
        yield item
        if check.differences:
            return
