"""States of the past: each equals the state at that time, and is rebuilt once, while a client waits.

What happened in a span.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Event as Flag
from typing import cast

import pytest
import trio
from hypothesis import given, strategies as st
from starlette.requests import Request
from starlette.types import Message

from muster._runtime.observers import Filter
from muster.config_files import parse_configuration
from muster.service.input.dry_runs import ClientGoneError
from muster.service.past.spans import (
    BUCKETS,
    Span,
    SpanSummary,
    adjacent_instant,
    history_extent,
    summarize_span,
)
from muster.service.past.states import (
    MOST_PAST_STATES,
    PastState,
    PastStateCache,
    read_all,
    rebuild_state,
)
from muster.service.payloads import Problem
from muster.service.queries.reader import ReadContext
from muster.store import StateReader
from muster_core.config import default_configuration
from muster_core.decisions import Kind, Reason
from muster_core.events import AddApp, AddAsk, AddNode, AddPriorityClass, Configure, RemoveNode
from muster_core.structures.steps import Steps
from tests.actors.serving.histories import ListRows, StoredScheduler, list_rows
from tests.actors.state_directories import ONE, S
from tests.naive.back_off_strategies import back_offs
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios
from tests.share import share


def past_rows(directory: Path, at_us: int) -> ListRows:
    """Return the rows of every list at an instant of the past."""
    with StateReader(directory) as reader:
        number = reader.batch_at(at_us)
    past = rebuild_state(directory, number, Flag())
    assert past.number == number
    # To read a later instant before the next batch changes nothing.
    list_rows(ReadContext(past.machine_at(at_us + 1), past.ledger, past.ask_index))
    return list_rows(ReadContext(past.machine_at(at_us), past.ledger, past.ask_index))


def compare(steps: list[Step], checkpoints: list[int], pruned: float = 0) -> None:
    """Compare every instant of a scenario with the rows shown then."""
    with tempfile.TemporaryDirectory() as folder:
        live = StoredScheduler(Path(folder) / "state", checkpoints)
        live.play(steps)
        instants = list(live.rows)
        if pruned and instants:
            live.keeper.prune(instants[int(len(instants) * pruned)])
        directory = live.close()
        kept = history_extent(directory)
        for at_us, rows in live.rows.items():
            if kept is not None and at_us >= kept.first_us:
                assert past_rows(directory, at_us) == rows


# PAGE-60
@share(0.2)
@given(scenarios() | operations(), st.lists(st.integers(1, 8), max_size=3))
def test_every_list_shows_what_it_showed_then(steps: list[Step], checkpoints: list[int]) -> None:
    compare(steps, checkpoints)


# PAGE-60
@share(0.2)
@given(gang_scenarios() | evictions() | back_offs(), st.lists(st.integers(1, 8), max_size=3))
def test_with_gangs_evictions_and_timers(steps: list[Step], checkpoints: list[int]) -> None:
    compare(steps, checkpoints)


# PAGE-60
@share(0.1)
@given(scenarios() | gang_scenarios(), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_where_the_first_batches_were_removed(steps: list[Step], checkpoints: list[int]) -> None:
    compare(steps, checkpoints, 0.6)


def small_store(directory: Path) -> StoredScheduler:
    live = StoredScheduler(directory, [2])
    live.run(S, [AddNode("n", ONE), AddApp("a", "root.q")])
    live.run(2 * S, [AddAsk("a", "one", ONE, run_for_us=S)])
    live.run(4 * S, [AddAsk("a", "two", ONE)])
    return live


# PAGE-60
def test_decisions_that_are_others_today_are_said(tmp_path: Path) -> None:
    live = small_store(tmp_path / "state")
    live.keeper.lie(5 * S)
    directory = live.close()

    with pytest.raises(Problem, match="decides otherwise today") as refused:
        rebuild_state(directory, 5, Flag())
    assert refused.value.status == 409


# PAGE-61
def test_it_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    directory = small_store(tmp_path / "state").close()
    gone = Flag()
    gone.set()

    with pytest.raises(ClientGoneError):
        rebuild_state(directory, 4, gone)


def test_it_tells_how_far_it_is(tmp_path: Path) -> None:
    directory = small_store(tmp_path / "state").close()
    progress: list[float] = []

    rebuild_state(directory, 4, Flag(), progress.append)
    assert progress == [0.5, 1.0]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    live = StoredScheduler(tmp_path / "state", [2])
    live.run(S, [AddNode("n", ONE), AddApp("a", "root.q")])
    for number in range(2, 9):
        live.run(number * S, [AddAsk("a", f"ask-{number}", ONE)])
    return live.close()


def request(leaves: trio.Event | None = None) -> Request:
    """Return a request whose browser leaves when the event is set, or never."""

    async def receive() -> Message:
        await (trio.Event() if leaves is None else leaves).wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "headers": []}, receive)


def asks(past: PastState, _gone: Flag) -> tuple[int, int]:
    return past.number, sum(len(app.asks) for app in past.ledger.book.apps.values())


# PAGE-61
async def test_the_last_ones_stay_and_are_not_made_again(directory: Path) -> None:
    moments = PastStateCache(directory)
    seen: list[PastState] = []

    def note(past: PastState, _gone: Flag) -> None:
        seen.append(past)

    for number in range(1, 9):
        assert await moments.read(request(), number, asks) == (number, number - 1)
        await moments.read(request(), number, note)
        await moments.read(request(), max(1, number - 1), note)
    made = {id(past) for past in seen}
    assert len(made) == 8
    last = seen[-1]
    await moments.read(request(), 8, note)
    assert seen[-1] is seen[-3]
    assert seen[-1] is not last
    # One that was let go is made again.
    assert await moments.read(request(), 1, asks) == (1, 0)
    assert len(moments.numbers) == MOST_PAST_STATES
    assert 1 in moments.numbers


# PAGE-61
async def test_it_is_made_once_for_all_who_look_at_it(directory: Path) -> None:
    moments = PastStateCache(directory)
    seen: list[PastState] = []

    def note(past: PastState, _gone: Flag) -> None:
        seen.append(past)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(moments.read, request(), 5, note)
    assert len(seen) == 10
    assert len({id(past) for past in seen}) == 1


# PAGE-61
async def test_work_ends_when_the_browser_leaves(directory: Path) -> None:
    moments = PastStateCache(directory)
    leaves, began = trio.Event(), Flag()

    def wait(_past: PastState, gone: Flag) -> bool:
        began.set()
        return gone.wait(60)

    async def leave() -> None:
        assert moments.under_way() == 0.0
        await trio.to_thread.run_sync(began.wait, 60)
        leaves.set()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            assert await moments.read(request(leaves), 5, wait)
    assert moments.under_way() is None
    gone = trio.Event()
    gone.set()
    with trio.fail_after(60), pytest.raises(Problem, match="nobody waits"):
        await moments.read(request(gone), 6, _until_gone)
    # The next one makes it.
    assert await moments.read(request(), 6, asks) == (6, 5)


def _steps() -> Steps[None]:
    yield


def _until_gone(_past: PastState, gone: Flag) -> None:
    gone.wait(60)
    read_all(_steps(), gone)


@pytest.fixture
def live(tmp_path: Path) -> StoredScheduler:
    live = StoredScheduler(tmp_path / "state", [4])
    live.run(S, [Configure(default_configuration()), AddNode("n", ONE), AddApp("a", "root.q")])
    live.run(2 * S, [AddAsk("a", "one", ONE, run_for_us=S)])
    live.run(4 * S, [AddNode("n", ONE), AddNode("m", ONE), RemoveNode("x"), RemoveNode("n")])
    live.run(6 * S, [AddAsk("a", "two", ONE), AddAsk("b", "three", ONE)])
    return live


def happened(
    live: StoredScheduler,
    from_us: int,
    until_us: int,
    wanted: Filter | None = None,
    after: int = 0,
    limit: int = 100,
) -> SpanSummary:
    machine = live.machine
    entered = (machine.batches, machine.requests)
    span = Span(from_us, until_us, wanted or Filter(), after, limit, entered)
    return summarize_span(live.keeper.directory, span, Flag())


# PAGE-65
def test_it_counts_what_happened_in_a_span(live: StoredScheduler) -> None:
    found = happened(live, 0, 10 * S)

    assert (found.batches, found.events, found.until_us) == (5, 10, None)
    assert found.kinds[Kind.BOUND] == 2
    assert found.reasons == {Reason.COMPLETED: 1}
    assert found.kinds[Kind.REJECTED] == 3
    assert found.configurations.first == [(S, "")]
    assert [(one.at_us, one.difference, one.is_first) for one in found.changes] == [(S, None, True)]
    assert (found.bound, found.states["New"]) == ({"a": 2}, 1)
    assert [one.decision.kind for one in found.refusals] == 3 * [Kind.REJECTED]
    assert [one.seq for one in found.decisions] == list(range(1, len(found.decisions) + 1))


# PAGE-65
def test_refused_events_brought_no_node_and_took_none(live: StoredScheduler) -> None:
    found = happened(live, 2 * S, 4 * S)

    assert (found.came.count, found.came.first) == (1, [(4 * S, "m")])
    assert (found.went.count, found.went.first) == (1, [(4 * S, "n")])
    assert happened(live, 4 * S + 1, 9 * S).came.count == 0


# PAGE-65
def test_a_span_begins_and_ends_with_its_instants(live: StoredScheduler) -> None:
    assert happened(live, 2 * S, 2 * S).kinds[Kind.BOUND] == 1
    assert happened(live, 2 * S + 1, 3 * S - 1).decisions == []
    # The batch of a timer.
    assert happened(live, 2 * S + 1, 3 * S).reasons == {Reason.COMPLETED: 1}


# PAGE-65
def test_its_decisions_come_in_pages(live: StoredScheduler) -> None:
    whole = happened(live, 0, 10 * S).decisions
    found, after = list(whole[:0]), 0
    while True:
        page = happened(live, 0, 10 * S, after=after, limit=3)
        found += page.decisions
        assert page.kinds.total() == len(whole)
        if page.more is None:
            break
        assert len(page.decisions) == 3
        after = page.more
    assert found == whole


# PAGE-65
def test_a_filter_narrows_down_what_is_counted(live: StoredScheduler) -> None:
    found = happened(live, 0, 10 * S, Filter(frozenset((Kind.BOUND, Kind.RELEASED)), "a"))

    assert found.kinds == {Kind.BOUND: 2, Kind.RELEASED: 1}
    assert {one.decision.kind for one in found.decisions} == {Kind.BOUND, Kind.RELEASED}


# PAGE-63
def test_the_history_has_an_extent_and_a_place_for_each_decision(live: StoredScheduler) -> None:
    directory = live.close()
    kept = history_extent(directory)

    assert kept is not None
    assert (kept.first, kept.first_us, kept.last, kept.last_us) == (1, S, 5, 6 * S)
    assert len(kept.per_bucket) == BUCKETS
    last = happened(live, 0, 10 * S).decisions[-1].seq
    first = happened(live, 0, S).decisions[-1].seq
    assert sum(kept.per_bucket) == last - first


# PAGE-63
def test_one_goes_from_batch_to_batch(live: StoredScheduler) -> None:
    directory = live.close()
    with StateReader(directory) as reader:
        later = [
            adjacent_instant(reader, at_us, 1) for at_us in (S, 2 * S, 3 * S + 1, 4 * S, 6 * S)
        ]
        earlier = [adjacent_instant(reader, at_us, -1) for at_us in (6 * S, 5 * S, 3 * S, S)]
    assert later == [2 * S, 3 * S, 4 * S, 6 * S, None]
    assert earlier == [4 * S, 3 * S, 2 * S, None]


# PAGE-62
def test_after_the_first_batches_were_removed_it_begins_with_a_checkpoint(
    live: StoredScheduler,
) -> None:
    live.run(8 * S, [AddAsk("a", "four", ONE)])
    live.keeper.prune(4 * S)
    directory = live.close()
    kept = history_extent(directory)

    assert kept is not None
    assert kept.first_us == 6 * S
    with StateReader(directory) as reader:
        assert adjacent_instant(reader, 8 * S, -1) == 6 * S
        assert adjacent_instant(reader, 6 * S, -1) is None


# PAGE-65
def test_a_configuration_says_what_it_has_changed(tmp_path: Path) -> None:
    live = StoredScheduler(tmp_path / "state")
    live.run(S, [Configure(default_configuration())])
    live.run(2 * S, [AddNode("n", ONE)])
    queues = "queues: [{name: root, queues: [{name: more}]}]"
    after = parse_configuration(f"partitions: [{{name: default, {queues}}}]".encode())
    live.run(3 * S, [RemoveNode("x"), Configure(after)])
    # The one before came before the span.
    (change,) = happened(live, 2 * S, 4 * S).changes
    added: object = {"queue": "root.more", "change": "added", "fields": []}
    assert change.difference is not None
    assert added in cast("list[object]", change.difference["queues"])


# PAGE-65
def test_who_was_evicted_and_why_is_named(tmp_path: Path) -> None:
    live = StoredScheduler(tmp_path / "state")
    live.run(S, [AddNode("n", ONE), AddApp("a", "root.q"), AddAsk("a", "low", ONE, priority=0)])
    high = AddAsk("a", "high", ONE, priority_class="high")
    live.run(2 * S, [AddPriorityClass("high", 1000, preempts=True), high])
    live.run(100 * S, [])
    found = happened(live, 0, 100 * S)
    assert [(one.decision.ask, one.decision.reason) for one in found.evictions] == [
        ("low", Reason.PREEMPTED)
    ]
    assert found.evicted == 1
