"""Comparing feeds as they stand in a test, and decisions drawn by Hypothesis."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from muster.compare import Compared, Comparison, FeedSide, LogSide, read_decisions, sides_of
from muster.config_files import parse_configuration
from muster.feeds import DecisionLog, Encoding, FeedItem, Refused, Settle, read_feed, read_raw
from muster_core.config.model import Configuration
from muster_core.decisions import Announced
from tests.naive.harness import Marker, Scenario, Step


def configuration(queues: str) -> Configuration:
    """Make a configuration of the queues below ``root``, written as YAML in one line."""
    return parse_configuration(
        f"partitions: [{{name: default, queues: [{{name: root, queues: {queues}}}]}}]"
    )


def items(text: str) -> list[FeedItem]:
    """Read a feed in YAML."""
    return list(read_feed(io.BytesIO(text.encode())))


def compare_feeds(a: str, b: str) -> Compared:
    """Compare two feeds in YAML."""
    return Comparison(FeedSide(items(a)), FeedSide(items(b))).run()


def compare_configurations(feed: str, a: Configuration | None, b: Configuration) -> Compared:
    """Compare a feed in YAML under two configurations."""
    raws = read_raw(io.BytesIO(feed.encode()))
    return Comparison(*sides_of(raws, (a, b)), in_step=True).run()


def of_scenario(scenario: Scenario) -> list[FeedItem]:
    """Make a feed of a scenario; each line is one more than the index."""
    return [_item(index, step) for index, step in enumerate(scenario)]


def _item(index: int, step: Step) -> FeedItem:
    match step.what:
        case Marker():
            return FeedItem(index, index + 1, step.at_us, Settle())
        case str(message):
            return FeedItem(index, index + 1, step.at_us, Refused(message))
        case event:
            return FeedItem(index, index + 1, step.at_us, event)


def logged(decisions: Sequence[Announced], encoding: Encoding) -> bytes:
    """Write a decision log."""
    stream = io.BytesIO()
    with DecisionLog(stream, encoding=encoding) as log:
        log.write(decisions)
    return stream.getvalue()


def log_side(log: bytes) -> LogSide:
    """Read a decision log."""
    return LogSide(read_decisions(read_raw(io.BytesIO(log)), "log"))


def compare_items(a: Iterable[FeedItem], b: Iterable[FeedItem]) -> Compared:
    """Compare two feeds."""
    return Comparison(FeedSide(a), FeedSide(b)).run()
