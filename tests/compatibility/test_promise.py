"""What ``docs/compatibility.md`` promises holds: facts, and decisions, as they are kept in ``promised``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from muster.store._rows import FORMAT
from tests.compatibility import decisions
from tests.compatibility.facts import differences
from tests.compatibility.promised import HERE, QUICK, kept_facts, kept_logs

FEEDS: Final = kept_logs("decisions")
TRACES: Final = kept_logs("traces")
STORES: Final = kept_logs("stores")


def check(kept: Sequence[str], now: Sequence[str]) -> None:
    """Check that two logs are the same; fail with the first difference."""
    difference = decisions.first_difference(kept, now)
    assert difference is None, difference


@pytest.mark.parametrize("name", QUICK)
def test_nothing_that_is_promised_is_gone_or_another(name: str) -> None:
    kept = kept_facts(name)

    assert sum(len(facts.promises) for facts in kept.values()) > 50
    wrong, _ = differences(kept, QUICK[name]())
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("feed", FEEDS)
def test_a_feed_is_decided_as_it_was(feed: str) -> None:
    check(FEEDS[feed], decisions.of_feed(feed))


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(name, marks=pytest.mark.takes_long if name.startswith("0e4a51") else ())
        for name in decisions.TRACES
    ],
)
def test_a_trace_of_the_demo_is_decided_as_it_was(trace: str) -> None:
    check(TRACES[trace], decisions.of_trace(trace))


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_the_store_of_each_format_is_read_and_decided_again(tmp_path: Path, number: int) -> None:
    # STORE-8
    check(STORES[f"format {number}"], decisions.of_store(number, tmp_path))

    assert (tmp_path / f"muster.db.format-{number}").exists() == (number < FORMAT)


def test_each_theme_of_the_feeds_is_in_the_corpus() -> None:
    folders = {path.name for path in (HERE.parents[1] / "feeds").iterdir() if path.is_dir()}

    assert {Path(feed).parent.name for feed in FEEDS} == {*folders, "feeds"}


def test_the_files_are_small() -> None:
    assert sum(path.stat().st_size for path in HERE.iterdir()) < 400_000
