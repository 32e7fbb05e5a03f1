"""What a state directory holds, written as a feed, devices included."""

from __future__ import annotations

import io
import json
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, event as hypothesis_event, given, settings, strategies as st

from muster.export import Exported, export
from muster.export._preamble import preamble_of
from muster.feeds import Encoding, Expect, FeedError, FeedItem, KeptFeed, read_feed
from muster.feeds._output import write_and_read
from muster.replay import Check
from muster.replay._driver import submit_item_directly
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Decision
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    Apply,
    BindFailed,
    PodObject,
    Release,
    SetUsage,
    UpdateNode,
    Work,
)
from muster_core.gangs import GangFields
from muster_core.resources import MAX_QUANTITY, Resources, UnitSeconds
from muster_core.snapshots import Snapshot
from muster_core.values.devices import DeviceNeed, DeviceStock
from tests.actors.state_directories import ONE, Keeper, S, batches, decisions_in, small
from tests.core.building import configuration, queue
from tests.naive.aging_strategies import agings
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Marker, Step
from tests.naive.operator_strategies import operations
from tests.naive.quota_strategies import quotas
from tests.naive.strategies import scenarios
from tests.naive.time_strategies import time_limits
from tests.naive.usage_strategies import usages
from tests.naive.weight_strategies import weights
from tests.share import share

# COMMAND-13

FOUR = Resources({name: 4 * amount for name, amount in ONE.amounts.items()})
_NUMBERS = count()
SCENARIOS = st.one_of(
    *(scenarios(), gang_scenarios(), operations(), evictions(), time_limits(lists=2)),
    *(usages(lists=2), agings(lists=2), quotas(lists=2), weights()),
)
RANDOM = settings(
    share(0.1), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def keep_scenario(tmp_path: Path, steps: list[Step]) -> Path:
    """Keep a scenario, without what no feed can say, with the timers of its last instant."""
    keeper = Keeper(tmp_path / str(next(_NUMBERS)))
    for at_us, events in batches([one for step in steps for one in as_exported(step)]):
        keeper.run(at_us, events)
    keeper.pass_until(keeper.scheduler.machine.now_us)
    return keeper.close()


def as_exported(step: Step) -> list[Step]:
    """Return a step as a feed says it; nothing if no feed can."""
    if isinstance(step.what, str | Marker):
        return [step]
    try:
        return [Step(step.at_us, write_and_read(step.what)[1])]
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
        submit_item_directly(scheduler, item)
    scheduler.pass_until(until_us)
    return without_places(scheduler.announced)


def without_places(announced: list[Announced]) -> list[tuple[int, Decision]]:
    return [(one.at_us, one.decision._replace(index=None, line=None)) for one in announced]


@RANDOM
@given(steps=SCENARIOS, expects=st.booleans())
async def test_it_replays_the_same(tmp_path: Path, steps: list[Step], expects: bool) -> None:
    directory = keep_scenario(tmp_path, steps)
    items, done = exported(directory, expects=expects)
    kept = decisions_in(directory)

    assert done == Exported(len(items), ())
    assert decided(items, kept[-1].at_us if kept else 0) == without_places(kept)
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
    directory = keep_scenario(tmp_path, steps)
    instants = sorted({one.at_us for one in decisions_in(directory)}) or [0]
    since_us = instants[at % len(instants)]
    items, done = exported(directory, since_us=since_us, until_us=since_us - 1, expects=True)
    with KeptFeed(directory, since_us=since_us) as feed:
        if feed.facts is None:
            return
        wanted = PlainScheduler(facts=feed.facts).snapshot()
    scheduler = PlainScheduler()
    for item in items:
        submit_item_directly(scheduler, item)

    notes = [note for note in done.notes if "as they were" in note or "refused" in note]
    hypothesis_event(f"differences: {[note.split(':')[0] for note in notes]}")
    assert (comparable(scheduler.snapshot()) == comparable(wanted)) or notes
    check = Check()
    await check.run(items)
    assert [one for one in check.differences if one.field != "rejected"] == []


def asks_in(items: list[FeedItem]) -> dict[str, AddAsk]:
    """Return the asks of a feed by name, those of Pods included."""
    asks = [one.content for one in items if isinstance(one.content, AddAsk)]
    for one in items:
        if isinstance(one.content, Apply):
            pods = [each.content for each in one.content.objects]
            asks += [pod.ask for pod in pods if isinstance(pod, PodObject) and pod.ask]
    return {ask.ask: ask for ask in asks}


def comparable(snapshot: Snapshot) -> object:
    asks = {
        (app.name, ask.name): (ask.place, ask.node)
        for app in snapshot.apps.values()
        for ask in app.asks
    }
    queues = {path: (one.allocated, one.pending) for path, one in snapshot.queues.items()}
    return asks, queues, {name: (one.capacity, one.used) for name, one in snapshot.nodes.items()}


# Small ones


def as_maps(directory: Path, *, expects: bool = False) -> list[Any]:
    written = io.BytesIO()
    export(directory, written, expects=expects)
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_it_closes_a_batch_only_where_time_does_not(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.run(4 * S, [Release("a", "two")])

    assert as_maps(keeper.close()) == [
        {"op": "add_node", "at": 1, "node": "n", "capacity": {"vcore": 1}},
        {"op": "add_app", "app": "a", "queue": "root.q"},
        {
            "op": "add_ask",
            "at": 2,
            "app": "a",
            "ask": "one",
            "resources": {"vcore": 1},
            "run_for": 1,
        },
        {"op": "add_ask", "at": 4, "app": "a", "ask": "two", "resources": {"vcore": 1}},
        {"op": "remove_ask", "app": "a", "ask": "three"},
        {"op": "settle"},
        {"op": "release", "app": "a", "ask": "two"},
    ]


def test_what_happened(tmp_path: Path) -> None:
    found = as_maps(small(tmp_path / "state").close(), expects=True)

    expected = [one for one in found if one["op"] == "expect"]
    assert expected[:3] == [
        {"op": "expect", "order": []},
        {"op": "expect", "order": ["a/one"], "placed": {"a/one": "n"}},
        {
            "op": "expect",
            "order": ["a/two"],
            "placed": {"a/two": "n"},
            "rejected": ["ask: 'three' is no ask of application 'a'"],
        },
    ]
    assert expected[3]["bound"] == ["a/two"]
    assert expected[3]["apps"] == {"a": {"state": "Running", "priority": None}}
    assert len(expected) == 4


def test_sums_that_no_feed_can_say_are_not_expected(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "state")
    most = Resources({"vcore": MAX_QUANTITY})
    keeper.run(S, [AddNode("n", ONE), AddApp("a", "root.q"), AddAsk("a", "one", most, count=2)])

    *_, last = as_maps(keeper.close(), expects=True)

    assert last["queues"]["root.q"] == {"priority": 0, "allocated": {}, "state": "active"}


async def test_the_state_is_that_after_the_last_timer(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "state")
    keeper.run(S, [AddNode("n", ONE), AddApp("a", "root.q"), AddAsk("a", "one", ONE)])
    keeper.pass_until(301 * S)

    items, _ = exported(keeper.close(), expects=True)

    check = Check()
    await check.run(items)
    assert not check.differences
    assert items[-1].at_us == 301 * S


async def test_a_timer_of_the_last_instant_has_gone_off_in_the_state(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "state")
    late = AddAsk("a", "late", ONE, start_by_us=S)
    keeper.run(S, [AddApp("a", "root.q"), late])  # Nobody ran its timer before it was closed.

    items, _ = exported(keeper.close(), expects=True)

    check = Check()
    await check.run(items)
    assert not check.differences
    assert isinstance(last := items[-1].content, Expect)
    assert (items[-1].at_us, last.pending) == (S, frozenset())


async def test_what_happens_otherwise_is_found(tmp_path: Path) -> None:
    items, _ = exported(small(tmp_path / "state").close(), expects=True)
    other = [
        attrs.evolve(one, content=attrs.evolve(one.content, node="m"))
        if isinstance(one.content, AddNode)
        else one
        for one in items
    ]
    check = Check()
    await check.run(other)

    assert [one.field for one in check.differences][:2] == ["placed.a/one", "placed.a/two"]


def test_what_is_decided_otherwise_today_is_not_expected(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.lie(5 * S)
    items, done = exported(keeper.close(), expects=True)

    assert sum(isinstance(one.content, Expect) for one in items) == 3
    (note,) = done.notes
    assert note.startswith("batch 5 decides otherwise from what the feed says than it did")


def test_what_no_feed_can_say(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.run(5 * S, [Release("a", "two", message="file \udc80")])
    target = tmp_path / "feed.yaml"
    target.write_text("before")

    with pytest.raises(FeedError, match=r"batch 5: no feed can say Release: .* is not Unicode"):
        export(keeper.close(), target)
    assert target.read_text() == "before"


def test_a_feed_is_not_written_into_the_directory(tmp_path: Path) -> None:
    directory = small(tmp_path / "state").close()

    with pytest.raises(FeedError, match="is in the state directory: write to another folder"):
        export(directory, directory / "muster.db", encoding=Encoding.JSON_LINES)


# COMMAND-14


def test_the_state_at_an_instant(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "state")
    keeper.run(S, [AddNode("n", ONE), AddNode("m", ONE), AddApp("a", "root.q", "sue")])
    keeper.run(2 * S, [AddAsk("a", "runs", ONE, run_for_us=9 * S), AddAsk("a", "stays", ONE)])
    keeper.run(3 * S, [AddAsk("a", "waits", ONE, priority=7)])
    keeper.run(8 * S, [Release("a", "stays")])
    items, done = exported(keeper.close(), since_us=4 * S, expects=True)

    assert {one.at_us for one in items} == {3 * S, 8 * S}
    (runs,) = (
        one.content
        for one in items
        if isinstance(one.content, AddAsk) and one.content.ask == "runs"
    )
    assert runs.run_for_us == 8 * S
    first = next(one.content for one in items if isinstance(one.content, Expect))
    assert first.placed == {"a/runs": "m", "a/stays": "n"}
    assert first.pending == frozenset({"a/waits"})
    last = [one.content for one in items if isinstance(one.content, Expect)][-2]
    assert last.order == ("a/waits",)
    assert done.notes == (
        "asks that are not bound begin to wait now, and came alone, not by a `count` (1)",
        "asks run only as long as was left, also if they run again (1)",
    )


def test_asks_have_what_is_left_of_their_times(tmp_path: Path) -> None:
    # TIME-3, TIME-10
    keeper = Keeper(tmp_path / "state")
    keeper.run(S, [AddNode("n", ONE), AddNode("m", ONE), AddApp("a", "root.q")])
    runs = AddAsk("a", "runs", ONE, run_limit_us=9 * S, start_by_us=3 * S)
    keeper.run(2 * S, [runs, AddAsk("a", "old", ONE, start_by_us=3 * S)])
    keeper.run(4 * S, [BindFailed("a", "old"), UpdateNode("n", schedulable=False)])
    keeper.run(4 * S, [AddAsk("a", "new", ONE, start_by_us=7 * S)])
    items, _ = exported(keeper.close(), since_us=5 * S)

    limits = {name: (ask.run_limit_us, ask.start_by_us) for name, ask in asks_in(items).items()}
    assert limits == {"runs": (7 * S, None), "old": (None, None), "new": (None, 7 * S)}


def test_what_others_use_and_who_does_not_come_back_is_in_the_feed(tmp_path: Path) -> None:
    # RESERVED-1, ONCE-1
    keeper = Keeper(tmp_path / "state")
    keeper.run(S, [AddNode("n", ONE), AddNode("m", ONE), AddApp("a", "root.q")])
    keeper.run(2 * S, [AddAsk("a", "runs", ONE, once=True)])
    keeper.run(3 * S, [UpdateNode(node, reserved=ONE) for node in "mn"])
    keeper.run(4 * S, [AddAsk("a", "waits", ONE, once=True)])
    items, _ = exported(keeper.close(), since_us=5 * S)

    assert {name: ask.once for name, ask in asks_in(items).items()} == {"runs": True, "waits": True}
    nodes = [one.content for one in items if isinstance(one.content, UpdateNode)]
    assert [one.node for one in nodes if one.reserved == ONE] == ["n", "m"]


def test_what_asks_run_is_in_the_feed(tmp_path: Path) -> None:
    # FEED-83
    keeper = Keeper(tmp_path / "state", checkpoints=[2])
    keeper.run(S, [AddNode("n", ONE, lease_us=30 * S), AddApp("a", "root.q")])
    work = Work(("date", "-u"), env={"TZ": "UTC"}, workdir="/srv")
    keeper.run(2 * S, [AddAsk("a", "runs", ONE, work=work)])
    keeper.run(3 * S, [AddAsk("a", "waits", ONE, count=2, work=Work(shell="date; true"))])
    directory = keeper.close()
    whole, _ = exported(directory)
    since, done = exported(directory, since_us=3 * S)

    found = [{name: ask.work for name, ask in asks_in(items).items()} for items in (whole, since)]
    assert found == [{"runs": work, "waits": Work(shell="date; true")}] * 2
    assert [one.content.lease_us for one in whole if isinstance(one.content, AddNode)] == [30 * S]
    assert not any("lose" in note for note in done.notes)


def test_a_bound_ask_keeps_what_the_annotation_of_a_pod_can_say(tmp_path: Path) -> None:
    # COMMAND-14, OBJECT-30
    keeper = Keeper(tmp_path / "state")
    keeper.run(S, [AddNode("n", FOUR), AddApp("a", "root.q")])
    asks = [
        AddAsk("a", "again", ONE, retries=2, priority=0, estimate_us=1_500_000),
        AddAsk("a", "there", ONE, node="n", start_by_us=90 * S, priority=0, estimate_us=60 * S),
        AddAsk("a", "ends", ONE, run_for_us=9 * S, priority=0),
    ]
    keeper.run(2 * S, [*asks])
    keeper.run(3 * S, [UpdateNode("n", attributes={"zone": "b"})])
    items, done = exported(keeper.close(), since_us=3 * S)

    found = asks_in(items)
    assert [found[ask.ask] for ask in asks[:2]] == asks[:2]
    assert not any("lose" in note for note in done.notes)


CORE = Resources({"vcore": 1000})
SHARE = {"gpu": DeviceNeed(milli=400, models=("T4",))}


def test_nodes_and_asks_have_their_devices_again() -> None:
    scheduler = PlainScheduler()
    for event in (
        AddNode("n", CORE, devices={"gpu": DeviceStock(2, "T4")}),
        AddApp("a", "root.q"),
        AddAsk("a", "share", Resources(), devices=SHARE, count=2),
        AddAsk("a", "whole", CORE, devices={"gpu": DeviceNeed(count=1)}),
        AddAsk("a", "large", Resources(), devices={"gpu": DeviceNeed(count=2)}),
    ):
        scheduler.submit(event)
    scheduler.settle()

    made = preamble_of(scheduler.facts())

    before, after = scheduler.snapshot(), made.scheduler.snapshot()
    assert [*before.nodes.values()] == [*after.nodes.values()]
    assert before.apps["a"].asks == after.apps["a"].asks
    assert not [note for note in made.notes if "refused" in note or "devices" in note]


def test_a_gang_of_which_few_are_left_is_none() -> None:
    scheduler = PlainScheduler()
    for event in (
        AddNode("n", CORE, devices={"gpu": DeviceStock(1, "T4")}),
        AddApp("a", "root.q"),
        AddGang("default/g", GangFields(min_member=1)),
        AddAsk("a", "x", Resources(), devices=SHARE, gang="default/g"),
    ):
        scheduler.submit(event)
    scheduler.settle()
    facts = scheduler.facts()
    assert preamble_of(facts).scheduler.snapshot().apps["a"].asks[0].node == "n"


def test_usage_comes_along() -> None:
    # COMMAND-14
    over_time = {"usage.half.life": "256s"}
    scheduler = PlainScheduler(configuration(queue("a"), queue("b"), props=over_time))
    one = Resources({"vcore": 1000})
    left = UnitSeconds.MOST * S
    seven = SetUsage("root.b", UnitSeconds({"vcore": 7000, "gpu": UnitSeconds.MOST}))
    for event in (AddNode("n", one), AddApp("p", "root.a"), seven, AddAsk("p", "x", one)):
        scheduler.submit(event)
    scheduler.settle(2_500_000)
    for _ in range(2):  # two ticks, USAGE-3
        left = left * 4_283_353_945 >> 32
    preamble = preamble_of(scheduler.facts())
    assert [event for event in preamble.events if event["op"] == "set_usage"] == [
        {"op": "set_usage", "queue": "root.a", "usage": {"vcore": "2497m"}},
        {"op": "set_usage", "queue": "root.b", "usage": {"gpu": str(left // S), "vcore": "6962m"}},
    ]
    assert [note for note in preamble.notes if "usage" in note] == [
        "usages are rounded down, with what the present tick has had (2)"
    ]
