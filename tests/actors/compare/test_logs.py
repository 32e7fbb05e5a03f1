"""Decision logs: what is one, and that they compare as the feeds do that they come from."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given, strategies as st

from muster.compare import (
    Compared,
    Comparison,
    FeedSide,
    Figures,
    FirstDifference,
    JobChange,
    Movement,
    Version,
    is_decision,
    read_decisions,
)
from muster.feeds import (
    Encoding,
    Expect,
    FeedError,
    FeedItem,
    Raw,
    RawEvent,
    Refused,
    Settle,
    read_raw,
)
from muster.replay import Reserved
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Decision, Kind, Reason
from tests.actors.samples import RESERVED, compare_items, items, log_side, logged, of_scenario
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Marker, Scenario, Step
from tests.naive.strategies import scenarios
from tests.share import share

ANY = st.one_of(scenarios(), gang_scenarios(), evictions())
ENCODINGS = st.sampled_from([Encoding.JSON_LINES, Encoding.MSGPACK])

GOOD: dict[str, Raw] = {
    "seq": 1, "at": 0, "kind": "bound", "app": "a", "ask": "x", "node": "n", "queue": "root.q",
}  # fmt: skip
STATE = Decision(Kind.APP_STATE, "a", queue="root.q", state="New")


def decided(scenario: Scenario) -> Sequence[Announced]:
    scheduler = PlainScheduler()
    for index, step in enumerate(scenario):
        if isinstance(step.what, Marker):
            scheduler.settle(step.at_us)
        else:
            scheduler.submit(step.what, step.at_us, index, index + 1)
    scheduler.finish()
    return scheduler.announced


def compare_logs(
    a: Sequence[Announced], b: Sequence[Announced], encoding: Encoding = Encoding.JSON_LINES
) -> Compared:
    return Comparison(log_side(logged(a, encoding)), log_side(logged(b, encoding))).run()


def without_asks(figures: Figures) -> Figures:
    """Return what of the figures a log can tell."""
    return attrs.evolve(
        figures,
        asks_unbound=None,
        asks_pending=None,
        wait=None,
        utilisation={},
        lost=None,
        fairness=None,
        utilisation_to_last_arrival={},
        measures=None,
    )


def without_app_ends(movement: Movement) -> Movement:
    """Leave out when applications ended."""

    def without(change: JobChange) -> JobChange:
        a, b = (attrs.evolve(times, end_s=None) for times in (change.a, change.b))
        return attrs.evolve(change, a=a, b=b)

    return attrs.evolve(
        movement,
        most_gained=tuple(map(without, movement.most_gained)),
        most_lost=tuple(map(without, movement.most_lost)),
    )


def summary_of(found: FirstDifference | None) -> tuple[object, ...] | None:
    if found is None:
        return None
    sides = (found.a, found.b)
    return (found.at_us, found.same, *(decision_of(version) for version in sides))


def decision_of(version: Version | None) -> Decision | None:
    return None if version is None else version.announced.decision


@share(0.2)
@given(ANY, ENCODINGS)
def test_a_log_is_the_same_as_itself(scenario: Scenario, encoding: Encoding) -> None:
    log = decided(scenario)
    compared = compare_logs(log, log, encoding)

    assert compared.same
    assert compared.priorities == ()
    assert compared.jobs.only_a == compared.jobs.only_b == 0


@share(0.2)
@given(ANY, st.data())
def test_logs_differ_as_their_feeds_do(scenario: Scenario, data: st.DataObject) -> None:
    feed = of_scenario(scenario)
    left_out = data.draw(st.integers(0, max(len(feed) - 1, 0)))
    other = [item for item in feed if item.index != left_out]
    of_feeds = compare_items(feed, other)
    of_logs = compare_logs(decided(scenario), _decided_of(other))

    assert of_logs.same is of_feeds.same
    assert summary_of(of_logs.first) == summary_of(of_feeds.first)
    assert summary_of(of_logs.first_priority) == summary_of(of_feeds.first_priority)
    assert of_logs.a == without_asks(of_feeds.a)
    assert of_logs.b == without_asks(of_feeds.b)
    assert of_logs.jobs.compared == of_feeds.jobs.compared
    assert without_app_ends(of_logs.jobs.wait) == without_app_ends(of_feeds.jobs.wait)
    if not (of_feeds.a.asks_pending or of_feeds.b.asks_pending):
        # A log does not know of asks that never got a node.
        assert of_logs.jobs == of_feeds.jobs


def _decided_of(feed: Sequence[FeedItem]) -> Sequence[Announced]:
    side = FeedSide(feed)
    announced: list[Announced] = []
    while (us := side.next_us()) is not None:
        for batch in side.act(us):
            announced.extend(batch)
    return announced


@share(0.2)
@given(ANY, ANY)
def test_the_first_difference_is_that_of_a_plain_look(one: Scenario, other: Scenario) -> None:
    a, b = decided(one), decided(other)
    found = compare_logs(a, b).first
    plain = next(
        (
            pair
            for pair in zip(*_compared_decisions(a, b), strict=False)
            if pair[0][1:] != pair[1][1:]
        ),
        None,
    )
    lengths = {len(log) for log in _compared_decisions(a, b)}

    assert (found is None) == (plain is None and len(lengths) == 1)
    if found is None or plain is None:
        return
    at_us = min(entry[1] for entry in plain)
    sides = [entry[0] if entry[1] == at_us else None for entry in plain]
    assert found.at_us == at_us
    assert [version and version.announced.seq for version in (found.a, found.b)] == sides


def _compared_decisions(*logs: Sequence[Announced]) -> list[list[tuple[int, int, Decision]]]:
    """Return the decisions that are compared, with their numbers and instants."""
    return [
        [
            (one.seq, one.at_us, one.decision._replace(index=None, line=None))
            for one in log
            if one.decision.kind not in {Kind.QUEUE_PRIORITY, Kind.CONFIG}
            and not (one.decision.kind is Kind.WARNING and one.decision.index is not None)
        ]
        for log in logs
    ]


def test_where_a_decision_stands_in_its_log() -> None:
    same = [Announced(1, 0, STATE), Announced(4, 5, STATE._replace(app="b"))]
    other = [same[0], same[1]._replace(decision=STATE._replace(app="c"))]
    for encoding, line in ((Encoding.JSON_LINES, 2), (Encoding.MSGPACK, None)):
        found = compare_logs(same, other, encoding).first
        assert found is not None
        assert found.a is not None
        assert (found.a.index, found.a.line, found.a.elsewhere) == (1, line, None)


def test_places_in_a_feed_are_no_difference() -> None:
    refused = Decision(Kind.REJECTED, message="no", index=3, line=4)
    moved = refused._replace(index=8, line=90)

    assert compare_logs([Announced(1, 0, refused)], [Announced(7, 0, moved)]).same


def test_the_warnings_of_a_configuration_are_no_difference_but_those_of_gangs_are() -> None:
    config = Decision(Kind.CONFIG, message="in force", index=0)
    warned = Decision(Kind.WARNING, message="an offset", index=0)
    deadlock = Decision(Kind.WARNING, message="deadlock of gangs a, b")
    quiet = [Announced(1, 0, STATE)]

    def numbered(*decisions: Decision) -> list[Announced]:
        return [Announced(number, 0, one) for number, one in enumerate(decisions, 1)]

    assert compare_logs(numbered(config, warned, STATE), quiet).same
    assert compare_logs(numbered(warned._replace(index=None), STATE), quiet).same
    assert not compare_logs(numbered(config, deadlock, STATE), quiet).same
    assert not compare_logs(numbered(STATE, deadlock), quiet).same


def test_an_application_of_a_log_that_was_removed_is_over() -> None:
    log = [
        Announced(1, 0, STATE),
        Announced(2, 0, Decision(Kind.BOUND, "a", "x", "n", "root.q")),
    ]
    (removed,) = json.loads(
        b'[{"seq": 3, "at": 7, "kind": "released", "app": "a", "ask": "x", "node": "n",'
        b' "queue": "root.q", "reason": "removed"}]'
    )
    lines = logged(log, Encoding.JSON_LINES) + json.dumps(removed).encode() + b"\n"
    compared = Comparison(log_side(lines), log_side(logged(log, Encoding.JSON_LINES))).run()
    (change,) = compared.jobs.end.most_lost

    assert (change.app, change.a.end_s, change.b.end_s) == ("a", 7, None)


def test_an_application_of_a_log_of_which_an_ask_lost_its_node_is_not_over() -> None:
    def decision_on(kind: Kind, ask: str, reason: Reason | None = None) -> Decision:
        return Decision(kind, "a", ask, "n", "root.q", reason=reason)

    lost = [
        STATE,
        decision_on(Kind.RELEASED, "x", Reason.REMOVED),
        decision_on(Kind.BOUND, "y"),
        decision_on(Kind.RELEASED, "y", Reason.NODE_LOST),
    ]
    ended = [*lost, STATE._replace(state="Completing")]
    log, other = (
        [Announced(at, at, one) for at, one in enumerate(every, 1)] for every in (lost, ended)
    )
    (change,) = compare_logs(log, other).jobs.end.most_gained

    assert (change.a.end_s, change.b.end_s) == (None, 5e-6)


def test_a_log_that_does_not_begin_at_the_start_tells_what_it_can() -> None:
    tail = [
        STATE._replace(state="Running"),
        Decision(Kind.BOUND, "a", "x", "n", "root.q"),
        Decision(Kind.RELEASED, "a", "x", "n", "root.q", reason=Reason.REMOVED),
    ]
    log = [Announced(number, number, one) for number, one in enumerate(tail, 7)]
    compared = compare_logs(log, log)

    assert compared.same
    assert (compared.a.jobs, compared.a.asks_bound, compared.jobs.compared) == (0, 1, 0)


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (GOOD, True),
        ({"seq": 1, "kind": "no such kind"}, True),
        ({"op": "settle"}, False),
        ({"op": "settle", "seq": 1, "kind": "bound"}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_log_differs_from_a_feed_by_its_content(value: object, is_one: bool) -> None:
    (raw,) = read_raw(io.BytesIO(json.dumps(value).encode()), encoding=Encoding.JSON_LINES)

    assert is_decision(raw) is is_one


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"seq": 0}, "seq: 0 is no number from 1"),
        ({"seq": True}, "seq: True is no whole number"),
        ({"at": -1}, "at: -1 is no time in seconds"),
        ({"at": "0"}, "at: '0' is no time in seconds"),
        ({"kind": "bind"}, "kind: 'bind' is none; there are: assigned, "),
        ({"kind": ["bound"]}, "kind: ['bound'] is none"),
        ({"ask": None}, "ask: is missing, of a decision 'bound'"),
        ({"node": 3}, "node: 3 is no text"),
        ({"line": 1.5}, "line: 1.5 is no whole number"),
        ({"reason": "why not"}, "reason: 'why not' is none; there are: completed, "),
        ({"what": 1}, "what: there is no such field; there are: app, ask, at, "),
    ],
)
def test_what_is_no_decision_is_an_error(change: dict[str, object], problem: str) -> None:
    line = json.dumps({**GOOD, **change}).encode()
    with pytest.raises(FeedError) as error:
        list(read_decisions(read_raw(io.BytesIO(b"\n" + line), encoding=Encoding.JSON_LINES), "l"))

    assert str(error.value).startswith(f"l:2: no decision of a log: {problem}")


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ({"seq": 1}, "seq: 1 comes after 1; numbers go up"),
        ({"seq": 2, "at": 0}, "at: 0 is before the decision before it"),
    ],
)
def test_decisions_stand_in_order(second: dict[str, Raw], problem: str) -> None:
    raws = [RawEvent(0, None, {**GOOD, "at": 1}), RawEvent(1, None, {**GOOD, "at": 1, **second})]
    with pytest.raises(FeedError, match=f"^l: decision 1: no decision of a log: {problem}$"):
        list(read_decisions(raws, "l"))


def test_what_is_no_map_or_cannot_be_read_is_an_error() -> None:
    for raw in (RawEvent(0, 1, []), RawEvent(0, 1, None, "the line is not JSON")):
        with pytest.raises(FeedError, match=r"^l:1: no decision of a log: (it is|the line)"):
            list(read_decisions([raw], "l"))


# COMMAND-26
def test_reservations_are_no_difference() -> None:
    deep, shallow = (items(text) for text in (RESERVED, RESERVED.replace("depth: 2", "depth: 1")))
    compared = compare_items(deep, shallow)
    a, b = (decided_by(some) for some in (deep, shallow))

    assert [one.as_map() for one in a] != [one.as_map() for one in b]
    assert compared.same
    left_out = {Kind.RESERVED, Kind.CONFIG}
    assert compared.decisions == sum(one.decision.kind not in left_out for one in a)
    assert compared.a.reserved == Reserved(asks=3, kept=3)
    assert compared.b.reserved == Reserved(asks=2, kept=2)
    logs = compare_logs(a, b)
    assert (logs.same, logs.decisions) == (True, compared.decisions)
    assert (logs.a.reserved, logs.b.reserved) == (compared.a.reserved, compared.b.reserved)


def decided_by(some: Sequence[FeedItem]) -> Sequence[Announced]:
    steps: list[Step] = []
    for one in some:
        assert not isinstance(one.content, Settle | Expect | Refused)
        steps.append(Step(one.at_us, one.content))
    return decided(steps)
