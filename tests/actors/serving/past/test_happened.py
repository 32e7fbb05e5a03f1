"""What happened in a span of the kept history, and which moments there are."""

from __future__ import annotations

from pathlib import Path
from threading import Event as Flag
from typing import cast

import pytest

from muster._runtime.observers import Filter
from muster.config_files import parse_configuration
from muster.service.past.spans import (
    BUCKETS,
    Span,
    SpanSummary,
    adjacent_instant,
    history_extent,
    summarize_span,
)
from muster.store import StateReader
from muster_core.config import default_configuration
from muster_core.decisions import Kind, Reason
from muster_core.events import AddApp, AddAsk, AddNode, AddPriorityClass, Configure, RemoveNode
from tests.actors.kept import ONE, S
from tests.actors.serving.past.keeping import Live


@pytest.fixture
def live(tmp_path: Path) -> Live:
    live = Live(tmp_path / "state", [4])
    live.run(S, [Configure(default_configuration()), AddNode("n", ONE), AddApp("a", "root.q")])
    live.run(2 * S, [AddAsk("a", "one", ONE, run_for_us=S)])
    live.run(4 * S, [AddNode("n", ONE), AddNode("m", ONE), RemoveNode("x"), RemoveNode("n")])
    live.run(6 * S, [AddAsk("a", "two", ONE), AddAsk("b", "three", ONE)])
    return live


def happened(
    live: Live,
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
def test_it_counts_what_happened_in_a_span(live: Live) -> None:
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
def test_refused_events_brought_no_node_and_took_none(live: Live) -> None:
    found = happened(live, 2 * S, 4 * S)

    assert (found.came.count, found.came.first) == (1, [(4 * S, "m")])
    assert (found.went.count, found.went.first) == (1, [(4 * S, "n")])
    assert happened(live, 4 * S + 1, 9 * S).came.count == 0


# PAGE-65
def test_a_span_begins_and_ends_with_its_instants(live: Live) -> None:
    assert happened(live, 2 * S, 2 * S).kinds[Kind.BOUND] == 1
    assert happened(live, 2 * S + 1, 3 * S - 1).decisions == []
    # The batch of a timer.
    assert happened(live, 2 * S + 1, 3 * S).reasons == {Reason.COMPLETED: 1}


# PAGE-65
def test_its_decisions_come_in_pages(live: Live) -> None:
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
def test_a_filter_narrows_down_what_is_counted(live: Live) -> None:
    found = happened(live, 0, 10 * S, Filter(frozenset((Kind.BOUND, Kind.RELEASED)), "a"))

    assert found.kinds == {Kind.BOUND: 2, Kind.RELEASED: 1}
    assert {one.decision.kind for one in found.decisions} == {Kind.BOUND, Kind.RELEASED}


# PAGE-63
def test_the_history_has_an_extent_and_a_place_for_each_decision(live: Live) -> None:
    directory = live.close()
    kept = history_extent(directory)

    assert kept is not None
    assert (kept.first, kept.first_us, kept.last, kept.last_us) == (1, S, 5, 6 * S)
    assert len(kept.per_bucket) == BUCKETS
    last = happened(live, 0, 10 * S).decisions[-1].seq
    first = happened(live, 0, S).decisions[-1].seq
    assert sum(kept.per_bucket) == last - first


# PAGE-63
def test_one_goes_from_batch_to_batch(live: Live) -> None:
    directory = live.close()
    with StateReader(directory) as reader:
        later = [
            adjacent_instant(reader, at_us, 1) for at_us in (S, 2 * S, 3 * S + 1, 4 * S, 6 * S)
        ]
        earlier = [adjacent_instant(reader, at_us, -1) for at_us in (6 * S, 5 * S, 3 * S, S)]
    assert later == [2 * S, 3 * S, 4 * S, 6 * S, None]
    assert earlier == [4 * S, 3 * S, 2 * S, None]


# PAGE-62
def test_after_the_first_batches_were_removed_it_begins_with_a_checkpoint(live: Live) -> None:
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
    live = Live(tmp_path / "state")
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
    live = Live(tmp_path / "state")
    live.run(S, [AddNode("n", ONE), AddApp("a", "root.q"), AddAsk("a", "low", ONE, priority=0)])
    high = AddAsk("a", "high", ONE, priority_class="high")
    live.run(2 * S, [AddPriorityClass("high", 1000, preempts=True), high])
    live.run(100 * S, [])
    found = happened(live, 0, 100 * S)
    assert [(one.decision.ask, one.decision.reason) for one in found.evictions] == [
        ("low", Reason.PREEMPTED)
    ]
    assert found.evicted == 1
