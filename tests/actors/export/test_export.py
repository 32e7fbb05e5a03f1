"""What a state directory holds, written as a feed."""

from __future__ import annotations

import io
from itertools import count
from pathlib import Path

import attrs
from hypothesis import HealthCheck, event, given, settings, strategies as st

from muster.export import Exported, export
from muster.feeds import FeedItem, KeptFeed, read_feed
from muster.feeds._written.events import written_and_read
from muster.replay import Check
from muster.replay._plainly import let_in_plainly
from muster_core.coordinator.plain import PlainScheduler
from muster_core.decisions import Announced, Decision
from muster_core.snapshots import Snapshot
from tests.actors.kept import Keeper, batches, decisions_in
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Marker, Step
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios
from tests.share import share

# COMMAND-13

_NUMBERS = count()
SCENARIOS = scenarios() | gang_scenarios() | operations() | evictions()
RANDOM = settings(
    share(0.1), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def kept_in(tmp_path: Path, steps: list[Step]) -> Path:
    """Keep a scenario, without what no feed can say."""
    keeper = Keeper(tmp_path / str(next(_NUMBERS)))
    for at_us, events in batches([one for step in steps for one in said(step)]):
        keeper.run(at_us, events)
    return keeper.close()


def said(step: Step) -> list[Step]:
    """Give a step as a feed says it; nothing if no feed can."""
    if isinstance(step.what, str | Marker):
        return [step]
    try:
        return [Step(step.at_us, written_and_read(step.what)[1])]
    except ValueError:
        return []


def exported(
    directory: Path,
    *,
    since_us: int | None = None,
    until_us: int | None = None,
    expects: bool = False,
) -> tuple[list[FeedItem], Exported]:
    """Export a directory as JSON Lines, and read that."""
    written = io.BytesIO()
    done = export(directory, written, since_us=since_us, until_us=until_us, expects=expects)
    return list(read_feed(io.BytesIO(written.getvalue()))), done


def decided(items: list[FeedItem], until_us: int) -> list[tuple[int, Decision]]:
    scheduler = PlainScheduler()
    for item in items:
        let_in_plainly(scheduler, item)
    scheduler.pass_until(until_us)
    return alike(scheduler.announced)


def alike(announced: list[Announced]) -> list[tuple[int, Decision]]:
    return [(one.at_us, attrs.evolve(one.decision, index=None, line=None)) for one in announced]


@RANDOM
@given(steps=SCENARIOS, expects=st.booleans())
async def test_it_replays_the_same(tmp_path: Path, steps: list[Step], expects: bool) -> None:
    directory = kept_in(tmp_path, steps)
    items, done = exported(directory, expects=expects)
    kept = decisions_in(directory)

    assert done == Exported(len(items), ())
    assert decided(items, kept[-1].at_us if kept else 0) == alike(kept)
    if expects:
        check = Check()
        await check.run(items)
        # Timers go off after the last event, too, and nothing is refused then.
        assert check.differences == []
        assert check.expects


@RANDOM
@given(steps=SCENARIOS, at=st.integers(0, 20))
async def test_it_begins_with_the_state_or_tells(
    tmp_path: Path, steps: list[Step], at: int
) -> None:
    # COMMAND-14
    directory = kept_in(tmp_path, steps)
    instants = sorted({one.at_us for one in decisions_in(directory)}) or [0]
    since_us = instants[at % len(instants)]
    items, done = exported(directory, since_us=since_us, until_us=since_us - 1, expects=True)
    with KeptFeed(directory, since_us=since_us) as feed:
        if feed.facts is None:
            return
        wanted = PlainScheduler(facts=feed.facts).snapshot()
    scheduler = PlainScheduler()
    for item in items:
        let_in_plainly(scheduler, item)

    told = [note for note in done.notes if "as they were" in note or "refused" in note]
    event(f"differences: {[note.split(':')[0] for note in told]}")
    assert (look(scheduler.snapshot()) == look(wanted)) or told
    check = Check()
    await check.run(items)
    assert [one for one in check.differences if one.field != "rejected"] == []


def look(snapshot: Snapshot) -> object:
    asks = {
        (app.name, ask.name): (ask.place, ask.node)
        for app in snapshot.apps.values()
        for ask in app.asks
    }
    queues = {path: (one.allocated, one.pending) for path, one in snapshot.queues.items()}
    return asks, queues, {name: (one.capacity, one.used) for name, one in snapshot.nodes.items()}
