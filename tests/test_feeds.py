"""Every feed below ``tests/feeds`` is what it expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.feeds import Expect, FeedItem, Refused, Settle, read_feed
from muster.replay import Check
from tests.naive.harness import SETTLE, Relay, Step
from tests.share import every

FEEDS = Path(__file__).parent / "feeds"
ENDINGS = (".yaml", ".jsonl", ".msgpack", ".gz")  # what is no feed to be met is named .yml
PATHS = sorted(path for path in FEEDS.rglob("*") if path.name.endswith(ENDINGS))
WRONG = sorted(FEEDS.rglob("must_differ/*.yml"))


@pytest.mark.parametrize("path", PATHS, ids=[str(path.relative_to(FEEDS)) for path in PATHS])
async def test_feed(path: Path) -> None:
    check = Check()
    await check.run(read_feed(path))

    assert check.differences == []
    assert check.expects


@pytest.mark.parametrize("path", WRONG, ids=[str(path.relative_to(FEEDS)) for path in WRONG])
async def test_feed_that_expects_something_else(path: Path) -> None:
    check = Check()
    await check.run(read_feed(path))

    assert check.differences


# CHECKPOINT-6
@pytest.mark.parametrize(
    "path", every(3, PATHS), ids=[str(path.relative_to(FEEDS)) for path in PATHS]
)
def test_feed_with_a_checkpoint_after_every_batch(path: Path) -> None:
    Relay(looks=True).take([_step(item) for item in read_feed(path)])


def _step(item: FeedItem) -> Step:
    match item.content:
        case Settle() | Expect():
            return Step(item.at_us, SETTLE)
        case Refused(message):
            return Step(item.at_us, message)
        case event:
            return Step(item.at_us, event)


def test_there_are_feeds() -> None:
    assert len(PATHS) >= 80
    assert WRONG
