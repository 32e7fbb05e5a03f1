"""A state directory is a feed of what was let in."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import muster
from muster._surface.simulation import open_simulation
from muster.feeds import FeedError, FeedItem, KeptFeed, Settle, read_feed
from muster.replay._driver import submit_item, submit_item_directly
from muster.testing import Recording
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced
from muster_core.events import AddAsk, Configure
from muster_core.resources import Resources
from tests.actors.state_directories import HandClock, decisions_in, keep, small
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios
from tests.share import share

S = 1_000_000
ONE = Resources({"vcore": 1000})
_NUMBERS = count()

SCENARIOS = scenarios() | gang_scenarios() | operations() | evictions()


@settings(share(0.2), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=SCENARIOS, checkpoints=st.frozensets(st.integers(1, 9), max_size=3))
def test_it_decides_what_was_decided(
    tmp_path: Path, steps: list[Step], checkpoints: frozenset[int]
) -> None:
    # COMMAND-12
    directory = keep(tmp_path / str(next(_NUMBERS)), steps, checkpoints=checkpoints)
    kept = decisions_in(directory)
    last_us = kept[-1].at_us if kept else 0

    assert decided(list(read_feed(directory)), last_us) == kept


def decided(items: list[FeedItem], until_us: int) -> list[Announced]:
    scheduler = PlainScheduler()
    for item in items:
        submit_item_directly(scheduler, item)
    return [one for one in scheduler.announced if one.at_us <= until_us]


@settings(share(0.1), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=SCENARIOS, at=st.integers(0, 20))
async def test_a_simulation_goes_on_from_a_checkpoint(
    tmp_path: Path, steps: list[Step], at: int
) -> None:
    # COMMAND-12
    directory = keep(tmp_path / str(next(_NUMBERS)), steps, checkpoints=range(1, 99))
    kept = decisions_in(directory)
    instants = sorted({one.at_us for one in kept}) or [0]
    since_us = instants[at % len(instants)]
    recording = Recording()
    with KeptFeed(directory, since_us=since_us, exact=False) as feed:
        assert feed.facts is None or feed.facts.coordinator.now_us <= since_us
        async with open_simulation(facts=feed.facts, journal=recording) as simulation:
            for item in feed.items():
                await submit_item(simulation, item)

        assert [one for one in kept if one.seq > first_seq(feed)] == [
            one for one in recording.decisions if one.at_us <= instants[-1]
        ]


def first_seq(feed: KeptFeed) -> int:
    return 0 if feed.facts is None else feed.facts.coordinator.announced


def summaries_of(items: list[FeedItem]) -> list[tuple[int, int, str]]:
    return [(item.index, item.at_us // S, type(item.content).__name__) for item in items]


def test_its_items(tmp_path: Path) -> None:
    directory = small(tmp_path / "state").close()

    assert summaries_of(list(read_feed(str(directory)))) == [
        (0, 1, "AddNode"),
        (1, 1, "AddApp"),
        (1, 1, "Settle"),
        (2, 2, "AddAsk"),
        (2, 2, "Settle"),
        (2, 3, "Settle"),
        (3, 4, "AddAsk"),
        (4, 4, "RemoveAsk"),
        (4, 4, "Settle"),
    ]


def test_where_the_first_batches_were_removed(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.prune(2 * S)
    directory = keeper.close()

    with KeptFeed(directory) as feed:
        assert feed.facts is not None
        assert (feed.after, feed.last, feed.facts.coordinator.now_us) == (2, 4, 2 * S)
        assert summaries_of(list(feed.items())) == [
            (2, 3, "Settle"),
            (3, 4, "AddAsk"),
            (4, 4, "RemoveAsk"),
            (4, 4, "Settle"),
        ]
        assert [batch.number for batch in feed.earlier()] == [2]
    with pytest.raises(FeedError, match="batches up to 2 were removed: use KeptFeed"):
        list(read_feed(directory))


def test_where_no_checkpoint_leads_to_what_is_left(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.prune(2 * S)
    directory = keeper.close()

    with pytest.raises(FeedError, match="the state is known only after batch 2, at 2 s"):
        KeptFeed(directory, until_us=S)
    connection = sqlite3.connect(directory / "muster.db", isolation_level=None)
    connection.execute("DELETE FROM checkpoint")
    connection.close()
    with pytest.raises(FeedError, match="no checkpoint leads to those that are left"):
        KeptFeed(directory)


def test_what_is_written_later_is_not_in_it(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    with KeptFeed(keeper.directory) as feed:
        items = feed.items()
        next(items)
        keeper.run(5 * S, [AddAsk("a", "late", ONE)])
        rest = list(items)
        keeper.close()

    assert summaries_of(rest)[-1] == (4, 4, "Settle")


def test_up_to_an_instant(tmp_path: Path) -> None:
    directory = small(tmp_path / "state").close()

    with KeptFeed(directory, until_us=3 * S) as feed:
        assert summaries_of(list(feed.items()))[-1] == (2, 3, "Settle")


@pytest.mark.parametrize("name", ["nothing", "."])
def test_what_is_no_state_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "nothing").mkdir()

    with pytest.raises(FeedError, match=r": is not a state directory: it has no file muster\.db"):
        list(read_feed(tmp_path / name))


def test_a_damaged_directory(tmp_path: Path) -> None:
    directory = small(tmp_path / "state").close()
    (directory / "muster.db").write_bytes(b"SQLite format 3\0")

    with pytest.raises(FeedError, match=r"muster\.db"):
        list(read_feed(directory))


async def test_what_a_scheduler_keeps(tmp_path: Path) -> None:
    # COMMAND-12
    directory, clock, journal = tmp_path / "state", HandClock(), Recording()
    config = "partitions: [{name: default, queues: [{name: q}]}]"
    items: list[FeedItem] = []
    async with muster.open_scheduler(
        config, store=directory, clock=clock, journal=journal, durability="process"
    ) as scheduler:
        clock.at_us += S
        await scheduler.add_node("n", {"vcore": 1})
        app = await scheduler.add_app("a", queue="root.q")
        for number in range(3):
            clock.at_us += S
            await app.add_ask(f"k{number}", {"vcore": 1}, run_for=1.5)
            items = list(read_feed(directory))
    assert isinstance(items[0].content, Configure)
    assert isinstance(items[-1].content, Settle)

    assert decided(list(read_feed(directory)), journal.decisions[-1].at_us) == journal.decisions


def test_reading_a_feed_imports_nothing_of_the_store(tmp_path: Path) -> None:
    feed = tmp_path / "feed.jsonl"
    feed.write_text('{"op": "settle"}\n')
    program = (
        "import sys; from muster.feeds import read_feed; "
        f"list(read_feed({str(feed)!r})); print(sorted({{'cattrs', 'sqlite3', 'muster.store'}} & {{*sys.modules}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "[]\n"
