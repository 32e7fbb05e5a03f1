"""Feeds as they stand in a test: to be replayed, to be compared, and one with reservations.

And decisions drawn by Hypothesis.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from muster.compare import Compared, Comparison, FeedSide, LogSide, read_decisions, sides_of
from muster.config_files import parse_configuration
from muster.feeds import DecisionLog, Encoding, FeedItem, Refused, Settle, read_feed, read_raw
from muster.replay import Tally, replay
from muster_core.config.model import Configuration
from muster_core.decisions import Announced
from tests.naive.harness import Marker, Scenario, Step


def items(text: str) -> list[FeedItem]:
    """Read a feed in YAML."""
    return list(read_feed(io.BytesIO(text.encode())))


async def tally_of(text: str, *, until_us: int | None = None, strict: bool = False) -> Tally:
    """Replay a feed in YAML and count."""
    tally = Tally()
    await replay(items(text), tally=tally, until_us=until_us, strict=strict)
    tally.check()
    return tally


def configuration(queues: str) -> Configuration:
    """Make a configuration of the queues below ``root``, written as YAML in one line."""
    return parse_configuration(
        f"partitions: [{{name: default, queues: [{{name: root, queues: {queues}}}]}}]"
    )


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


RESERVED: Final = """\
- op: configure
  config:
    partitions:
      - name: default
        queues:
          - name: root
            queues:
              - {name: q, properties: {scheduling.order: backfill, backfill.depth: 2}}
- {op: add_node, node: n1, capacity: {vcore: 5}}
- {op: add_node, node: n2, capacity: {vcore: 4}}
- {op: add_app, app: old, queue: q}
- {op: add_ask, app: old, ask: long, resources: {vcore: 3}, run_for: 100}
- {op: add_ask, app: old, ask: open, resources: {vcore: 3}}
- {op: add_app, app: new, queue: q, at: 10}
- {op: add_ask, app: new, ask: wide, resources: {vcore: 5}, run_for: 50}
- {op: add_ask, app: new, ask: next, resources: {vcore: 4}, run_for: 20}
- {op: add_ask, app: new, ask: held, resources: {vcore: 1}, node: n1}
- {op: add_ask, app: new, ask: small, resources: {vcore: 1}, node: n1, run_for: 30}
"""
"""At 10 s n1 is reserved for new/wide from 100 s on, and n2 for new/next from an end that is not known
on. So new/held, of which no end is known, is held back, and new/small runs on n1 meanwhile."""


LATER: Final = """\
- op: configure
  config:
    partitions:
      - {name: default, queues: [{name: root, queues: [{name: q, properties: {scheduling.order: backfill}}]}]}
- {op: add_node, node: n1, capacity: {vcore: 4}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: long, resources: {vcore: 3}, estimate: 40}
- {op: add_ask, app: a, ask: short, resources: {vcore: 1}, estimate: 20}
- {op: add_ask, app: a, ask: wide, resources: {vcore: 4}, estimate: 80}
- {op: add_ask, app: a, ask: later, resources: {vcore: 1}, estimate: 90}
- {op: add_ask, app: a, ask: half, resources: {vcore: 2}, estimate: 20}
- {op: add_ask, app: a, ask: large, resources: {vcore: 5}, estimate: 20}
"""
"""At 20 s a/later has room, but it would still run when a/wide has all of n1 at 40 s."""


def reserved(folder: Path, more: str = "") -> Path:
    """Write the feed into a folder, with more events."""
    path = folder / "reserved.yaml"
    path.write_text(RESERVED + more, encoding="utf-8")
    return path
