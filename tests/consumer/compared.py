"""A program that finds out what a configuration changes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import assert_type

from muster import AskPlace
from muster.compare import (
    Compared,
    Comparison,
    Elsewhere,
    FeedSide,
    Figures,
    FirstDifference,
    JobChange,
    JobChanges,
    JobTimes,
    LeftOut,
    LogSide,
    Movement,
    PriorityRow,
    QueueRow,
    Refusals,
    Side,
    Version,
    events_of,
    is_decision,
    read_decisions,
    sides_of,
)
from muster.config_files import read_configuration
from muster.feeds import read_feed, read_raw
from muster.replay import Remark, WaitSummary
from muster_core.decisions import Announced


def configurations(feed: Path, new: Path) -> Compared:
    """Compare a feed as it is with a configuration."""
    left_out: list[LeftOut] = []
    sides = sides_of(
        read_raw(feed), (None, read_configuration(new)), base=feed.parent, left_out=left_out
    )
    assert_type(sides, tuple[FeedSide, ...])
    assert_type([event.partition for event in left_out], list[str | None])
    assert_type(Comparison(*sides, in_step=True).run_all(), tuple[Compared, ...])
    return Comparison(*sides, in_step=True).run()


def sides(one: Path) -> Side:
    """Read a feed, or a log."""
    if any(map(is_decision, read_raw(one))):
        return LogSide(read_decisions(read_raw(one), one.name))
    return FeedSide(events_of(read_feed(one), one.name))


def first(found: FirstDifference) -> None:
    """Print where two sides part."""
    assert_type((found.at_us, found.same), tuple[int, int])
    for version in (found.a, found.b):
        if version is not None:
            assert_type(version, Version)
            assert_type(version.announced, Announced)
            assert_type((version.index, version.line), tuple[int | None, int | None])
            assert_type(version.elsewhere, Elsewhere | None)
            if version.elsewhere is not None:
                assert_type(version.elsewhere.place, AskPlace | None)
                assert_type(version.elsewhere.reasons, tuple[str, ...])
                assert_type(version.elsewhere.turn, str | None)


def figures(side: Figures) -> None:
    """Print the figures of a side."""
    assert_type((side.jobs, side.asks_bound, side.asks_pending), tuple[int, int, int | None])
    assert_type((side.wait, side.job_wait), tuple[WaitSummary | None, WaitSummary | None])
    assert_type(side.utilisation, Mapping[str, float | None])
    assert_type(side.makespan_s, float | None)
    assert_type(side.events_refused, int | None)


def jobs(changes: JobChanges) -> None:
    """Print who gains and who loses."""
    assert_type((changes.only_a, changes.refused_a), tuple[int, int])
    for movement in (changes.wait, changes.end):
        assert_type(movement, Movement)
        assert_type(movement.most_gained, tuple[JobChange, ...])
        for change in movement.most_lost:
            assert_type((change.app, change.a, change.b), tuple[str, JobTimes, JobTimes])
            assert_type((change.a.wait_s, change.b.end_s), tuple[float | None, float | None])


def refused(refusals: Refusals) -> None:
    """Print what is refused."""
    assert_type((refusals.both, refusals.only_a, refusals.only_b), tuple[int, int, int])
    assert_type(refusals.first_both, tuple[tuple[Remark, Remark], ...])
    assert_type((refusals.first_a, refusals.first_b), tuple[tuple[Remark, ...], tuple[Remark, ...]])


def main(one: Path, other: Path) -> None:
    """Compare two feeds, or two logs."""
    comparison = Comparison(sides(one), sides(other))
    assert_type((comparison.events, comparison.decisions, comparison.at_us), tuple[int, int, int])
    compared = comparison.run()
    assert_type(compared.same, bool)
    assert_type(compared.queues, tuple[QueueRow, ...])
    assert_type(compared.priorities, tuple[PriorityRow, ...])
    if compared.first is not None:
        first(compared.first)
    figures(compared.a)
    jobs(compared.jobs)
    refused(compared.refusals)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
