"""Write the report of a replay to a file."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from itertools import combinations
from pathlib import Path

from muster.cli._options import STDIN, name_of
from muster.feeds import FeedError, Output, is_directory
from muster.replay import Tally
from muster.report import Content, Ending, Recorder, page


def check_apart(feed: str, decisions: str | None, report: str | None) -> None:
    """Make sure that the feed, the log and the report are different files.

    Raises:
        FeedError: If two of the files are the same one.
    """
    files = [("the feed", feed), ("the log", decisions), ("the report", report)]
    named = [(what, name) for what, name in files if name is not None and name != STDIN]
    for other, name in named[1:] if named and is_directory(feed) else ():
        if Path(name).resolve().parent == Path(feed).resolve():
            raise FeedError(name, f"is in the state directory: write {other} to another folder")
    for (what, one), (other, another) in combinations(named, 2):
        if _same(Path(one), Path(another)):
            raise FeedError(another, f"is also {what}: write {other} to another file")


def _same(one: Path, another: Path) -> bool:
    if one.exists() and another.exists():
        # A device, such as /dev/null, can take both.
        return one.samefile(another) and one.is_file()
    return one.resolve() == another.resolve()


def opened(report: str) -> AbstractContextManager[Output]:
    """Open the file of a report; an existing file is replaced only at the end of the context.

    Raises:
        FeedError: If it cannot be written.
    """
    path = Path(report)
    if report != STDIN and path.is_file() and not os.access(path, os.W_OK):
        raise FeedError(report, "cannot be written: it is read-only")
    return Output(report, whole=True)


def write(
    output: Output,
    feed: str,
    recorder: Recorder,
    tally: Tally,
    ending: Ending,
    origin_us: int | None,
) -> None:
    """Write a report.

    Args:
        output: Where to.
        feed: The name of the feed.
        recorder: The recorder of the replay.
        tally: What was counted.
        ending: Why the replay ended.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.

    Raises:
        FeedError: If it cannot be written.
    """
    recorder.close(tally.at_us)
    name = name_of(feed) if feed == STDIN else Path(feed).name
    content = Content(recorder, tally.summary(), name, ending, origin_us)
    output.write(page(content).encode("utf-8"))
