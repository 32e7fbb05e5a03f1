"""Where two sides part, what each makes of the other's decision, and which events are refused on
one side alone.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from muster.compare import (
    MOST_REFUSALS,
    Compared,
    Comparison,
    Elsewhere,
    FeedSide,
    FirstDifference,
    LeftOut,
    Refusals,
    Version,
    events_of,
    sides_of,
)
from muster.config_files import parse_configuration
from muster.feeds import Encoding, FeedError, read_feed, read_raw
from muster.replay import Remark
from muster_core.config import default_configuration
from muster_core.config.model import Configuration
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import Configure
from muster_core.snapshots import AskPlace
from tests.actors.samples import (
    compare_configurations,
    compare_feeds,
    configuration,
    items,
    log_side,
    logged,
    of_scenario,
)
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Scenario
from tests.naive.strategies import scenarios
from tests.share import share

ANY = st.one_of(scenarios(), gang_scenarios(), evictions())

NODE = "- {op: add_node, node: n1, capacity: {vcore: 2}}\n"
TWO = """\
- {op: add_app, app: a, queue: root.east}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2}, run_for: 10}
- {op: add_app, app: b, queue: root.west}
- {op: add_ask, app: b, ask: y, resources: {vcore: 2}, run_for: 20}
"""
PLAIN = configuration("[{name: east}, {name: west}]")
RANKED = configuration('[{name: east}, {name: west, properties: {queue.priority: "5"}}]')
LIMITED = configuration("[{name: east, resources: {max: {vcore: 1}}}, {name: west}]")
SHIFTED = configuration('[{name: east}, {name: west, properties: {priority.offset: "-5"}}]')
CLOSED = configuration("[{name: east, submitacl: carol}, {name: west, submitacl: '*'}]")


def first(compared: Compared) -> FirstDifference:
    assert compared.first is not None
    return compared.first


def elsewhere(version: Version | None) -> Elsewhere:
    assert version is not None
    assert version.elsewhere is not None
    return version.elsewhere


def summary_of(version: Version | None) -> tuple[str, ...] | None:
    """Return the fields of a version's decision, and the line of the feed behind it."""
    if version is None:
        return None
    decision = version.announced.decision
    fields = (decision.kind, decision.app, decision.ask, decision.node, version.line)
    return tuple(str(one) for one in fields if one is not None)


def test_a_feed_under_one_configuration_decides_the_same() -> None:
    compared = compare_configurations(NODE + TWO, RANKED, RANKED)

    assert compared.same
    assert compared.decisions == 20
    assert compared.a == compared.b
    assert compared.jobs.wait.most_gained == compared.jobs.wait.most_lost == ()


def test_the_decisions_part_where_the_order_differs() -> None:
    found = first(compare_configurations(NODE + TWO, PLAIN, RANKED))

    assert (found.at_us, found.same) == (0, 4)
    assert summary_of(found.a) == ("assigned", "a", "x", "n1", "3")
    assert summary_of(found.b) == ("assigned", "b", "y", "n1", "5")


def test_each_side_says_by_what_its_own_ask_was_before_the_other() -> None:
    found = first(compare_configurations(NODE + TWO, PLAIN, RANKED))
    in_b, in_a = elsewhere(found.a), elsewhere(found.b)

    assert (in_b.app, in_b.ask, in_b.place) == ("a", "x", AskPlace.PENDING)
    assert in_b.turn is not None
    assert in_b.turn.startswith("NotYourTurn: b/y is tried before it")
    assert "queue.priority" in in_b.turn
    assert (in_a.app, in_a.ask, in_a.place) == ("b", "y", AskPlace.PENDING)
    assert (in_a.turn or "").startswith("NotYourTurn: a/x is tried before it")
    assert [reason.partition(":")[0] for reason in in_a.reasons] == ["NoNodeFits"]


def test_a_quota_is_the_cause_and_not_the_order() -> None:
    in_b = elsewhere(first(compare_configurations(NODE + TWO, PLAIN, LIMITED)).a)

    assert [reason.partition(":")[0] for reason in in_b.reasons] == ["NeverFits", "NoNodeFits"]
    assert in_b.turn is None


def test_who_takes_others_was_not_simply_before_them() -> None:
    feed = f"""\
{NODE}
- {{op: add_app, app: a, queue: root.east}}
- {{op: add_ask, app: a, ask: x, resources: {{vcore: 2}}}}
- {{op: add_app, app: b, queue: root.west, at: 5}}
- {{op: add_ask, app: b, ask: y, resources: {{vcore: 2}}}}
"""
    queues = "[{name: east}, {name: west, resources: {guaranteed: {vcore: 2}}, properties: %s}]"
    lazy, eager = (configuration(queues % f"{{preemption.delay: {delay}s}}") for delay in (60, 30))
    compared = compare_configurations(feed, lazy, eager)
    found = first(compared)

    assert (found.at_us, found.a) == (35_000_000, None)
    assert summary_of(found.b) == ("released", "a", "x", "n1", "4")
    assert elsewhere(found.b).place is AskPlace.BOUND
    assert (compared.a.asks_reclaimed, compared.b.asks_reclaimed) == (1, 1)


def test_an_ask_on_another_node_is_shown_there() -> None:
    other = NODE.replace("n1", "n0")
    found = first(compare_feeds(NODE + TWO, other + TWO))

    assert summary_of(found.a) == ("assigned", "a", "x", "n1", "3")
    assert summary_of(found.b) == ("assigned", "a", "x", "n0", "3")
    assert (elsewhere(found.a).place, elsewhere(found.a).node) == (AskPlace.BOUND, "n0")
    assert elsewhere(found.a).reasons == ()


def test_an_ask_of_which_the_other_side_knows_nothing_does_not_exist_there() -> None:
    compared = compare_configurations(NODE + TWO, PLAIN, CLOSED)
    found = first(compared)

    assert summary_of(found.a) == ("app_state", "a")
    assert summary_of(found.b) == ("rejected", "2")
    assert compared.jobs.only_a == 1
    assert compared.jobs.only_b == 0


def test_priorities_of_queues_are_compared_for_themselves() -> None:
    compared = compare_configurations(NODE + TWO, PLAIN, SHIFTED)
    found = compared.first_priority

    assert compared.first is None
    assert found is not None
    assert not compared.same
    assert [found.a and found.a.announced.decision.priority, found.b is not None] == [0, True]


def test_what_a_configuration_says_of_itself_is_no_difference() -> None:
    warned = configuration("[{name: east, limits: []}, {name: west, properties: {no.such: x}}]")
    compared = compare_configurations(NODE + TWO, PLAIN, warned)

    assert warned.warnings
    assert compared.same


def test_every_configure_of_the_feed_is_left_out() -> None:
    feed = f"""\
- {{op: configure, file: nowhere.yaml, partition: gpu}}
{NODE}
{TWO}
- {{op: configure, config: {{}}, at: 15}}
- {{op: settle}}
"""
    left_out: list[LeftOut] = []
    sides = sides_of(read_raw(io.BytesIO(feed.encode())), (PLAIN, RANKED), left_out=left_out)
    compared = Comparison(*sides, in_step=True).run()

    assert left_out == [LeftOut(0, 1, "gpu"), LeftOut(6, 9, None)]
    assert summary_of(first(compared).b) == ("assigned", "b", "y", "n1", "7")


def test_a_feed_as_it_is_against_a_configuration(tmp_path: Path) -> None:
    queues = "partitions: [{name: default, queues: [{name: root, queues: [{name: east, %s}]}]}]"
    (tmp_path / "own.yaml").write_text(queues % "resources: {max: {vcore: 1}}", encoding="utf-8")
    feed = "- {op: configure, file: own.yaml}\n" + NODE + TWO.replace("root.west", "root.east")
    sides = sides_of(read_raw(io.BytesIO(feed.encode())), (None, PLAIN), base=tmp_path)
    found = first(Comparison(*sides, in_step=True).run())

    assert summary_of(found.b) == ("assigned", "a", "x", "n1", "4")
    assert elsewhere(found.b).reasons[0].startswith("NeverFits: ")


def test_a_refused_event_is_refused_on_both_sides() -> None:
    feed = NODE + "- {op: no_such}\n" + TWO

    assert compare_configurations(feed, PLAIN, PLAIN).same
    assert compare_feeds(feed, feed).same


def test_the_same_feed_written_in_another_way_decides_the_same() -> None:
    spread = (NODE + TWO).replace("- {", "\n\n- {at: 0s, ")

    assert compare_feeds(NODE + TWO, spread).same


def test_a_batch_closed_earlier_is_no_difference_if_the_decisions_are_none() -> None:
    settled = NODE + "- {op: settle}\n" + TWO + "- {op: settle}\n- {op: settle}\n"

    assert compare_feeds(NODE + TWO, settled).same


def test_two_batches_of_one_instant_are_compared_each_by_itself() -> None:
    late = "- {op: settle}\n- {op: remove_app, app: a}\n"
    alone = NODE + "".join(TWO.splitlines(keepends=True)[:2]) + late
    found = first(compare_configurations(alone, PLAIN, LIMITED))

    assert (summary_of(found.a), found.b) == (("assigned", "a", "x", "n1", "3"), None)
    assert elsewhere(found.a).place is AskPlace.PENDING  # as it was before it was removed


def test_a_side_that_has_nothing_more_is_at_its_end() -> None:
    more = "- {op: add_app, app: c, queue: root.east, at: 500}\n"
    found = first(compare_feeds(NODE + TWO, NODE + TWO + more))

    assert (found.at_us, found.a) == (500_000_000, None)
    assert summary_of(found.b) == ("app_state", "c")


def test_empty_feeds_decide_the_same() -> None:
    compared = compare_feeds("", "")

    assert compared.same
    assert compared.decisions == 0
    assert compared.a.makespan_s is None
    assert (compared.queues, compared.priorities) == ((), ())


def test_a_feed_that_cannot_be_read_on_is_an_error() -> None:
    with pytest.raises(FeedError, match="feed"):
        compare_feeds(NODE, NODE + "- {op: add_app\n")


def test_counters_say_how_far_it_is() -> None:
    raws = read_raw(io.BytesIO((NODE + TWO).encode()))
    comparison = Comparison(*sides_of(raws, (PLAIN, RANKED)), in_step=True)
    before = (comparison.events, comparison.decisions, comparison.at_us)
    comparison.run()

    assert before == (0, 0, 0)
    assert comparison.events == 5
    assert comparison.decisions > 30
    assert comparison.at_us == 60_000_000


def test_the_kinds_of_a_log_say_nothing_of_asks_elsewhere() -> None:
    a = log_side(
        b'{"seq": 1, "at": 0, "kind": "app_state", "app": "a", "queue": "root.q", "state": "New"}\n'
    )
    b = log_side(b"")
    found = first(Comparison(a, b).run())

    assert summary_of(found.a) == (Kind.APP_STATE, "a", "1")
    assert found.a is not None
    assert found.a.elsewhere is None


def test_one_that_is_placed_later_in_the_batch_had_another_before_it() -> None:
    room = NODE.replace("2}", "4}")
    found = first(compare_configurations(room + TWO, PLAIN, RANKED))
    in_b = elsewhere(found.a)

    assert (in_b.place, in_b.reasons) == (AskPlace.BOUND, ())
    assert (in_b.turn or "").startswith("NotYourTurn: b/y is tried before it")


def test_one_that_was_placed_before_had_nobody_before_it() -> None:
    nodes = NODE + NODE.replace("n1", "n2").replace("2}", "1}")
    small = "- {op: add_ask, app: a, ask: z, resources: {vcore: 1}, at: 1}\n"
    other = small.replace("ask: z", "ask: u")
    found = first(compare_feeds(nodes + TWO + small, nodes + TWO + other))
    in_b = elsewhere(found.a)

    assert (in_b.ask, in_b.place, in_b.turn) == ("z", None, None)


def test_a_gang_that_is_bound_in_the_same_batch_is_undone_as_well() -> None:
    gang = """\
- {op: add_gang, gang: g, min_member: 2}
- {op: add_app, app: b, queue: root.west}
- {op: add_ask, app: b, ask: y, count: 2, resources: {vcore: 1}, gang: g}
"""
    feed = NODE + "".join(TWO.splitlines(keepends=True)[:2]) + gang
    found = first(compare_configurations(feed, PLAIN, RANKED))
    in_b, in_a = elsewhere(found.a), elsewhere(found.b)

    assert (in_b.turn or "").startswith("NotYourTurn: b/y-0 is tried before it")
    assert (in_a.turn or "").startswith("NotYourTurn: a/x is tried before it")


def test_a_batch_that_takes_others_is_not_undone() -> None:
    lender = """\
- {op: add_node, node: n2, capacity: {gpu: 1}}
- {op: add_app, app: c, queue: root.lender}
- {op: add_ask, app: c, ask: z, resources: {gpu: 1}}
- {op: settle, at: 5}
- {op: add_app, app: d, queue: root.owed}
- {op: add_ask, app: d, ask: z, resources: {gpu: 1}}
"""
    queues = (
        "[{name: east}, {name: west, properties: {queue.priority: '%d'}}, {name: lender}, "
        "{name: owed, resources: {guaranteed: {gpu: 1}}, properties: {preemption.delay: 0s}}]"
    )
    sides = configuration(queues % 0), configuration(queues % 5)
    found = first(compare_configurations(NODE + lender + TWO, *sides))

    assert summary_of(found.a) == ("assigned", "a", "x", "n1", "9")
    assert elsewhere(found.a).reasons
    assert elsewhere(found.a).turn is None


def test_a_batch_that_leaves_a_gang_waiting_is_not_undone() -> None:
    gang = """\
- {op: add_node, node: n2, capacity: {gpu: 1}}
- {op: add_gang, gang: g, min_member: 2, mode: NonStrict}
- {op: add_app, app: c, queue: root.east}
- {op: add_ask, app: c, ask: z, count: 2, resources: {gpu: 1}, priority: -5, gang: g}
"""
    found = first(compare_configurations(NODE + TWO + gang, PLAIN, RANKED))

    assert {summary_of(found.a), summary_of(found.b)} == {
        ("assigned", "a", "x", "n1", "3"),
        ("assigned", "b", "y", "n1", "5"),
    }
    assert elsewhere(found.a).turn is elsewhere(found.b).turn is None


def last_configuration(scenario: Scenario) -> Configuration:
    """Return the configuration that is in force in the end."""
    configs = [step.what.config for step in scenario if isinstance(step.what, Configure)]
    return configs[-1] if configs else default_configuration()


@share(0.3)
@given(ANY, ANY)
def test_any_feed_under_any_configurations(scenario: Scenario, another: Scenario) -> None:
    one, other = last_configuration(scenario), last_configuration(another)
    feed = [item for item in of_scenario(scenario) if not isinstance(item.content, Configure)]
    same = Comparison(FeedSide(feed, one), FeedSide(feed, one), in_step=True).run()
    compared = Comparison(FeedSide(feed, one), FeedSide(feed, other), in_step=True).run()

    assert same.same
    assert same.a == same.b == compared.a
    for version, instead in both_ways(compared.first):
        turn = None if version.elsewhere is None else version.elsewhere.turn
        if turn is not None:
            decision = instead.announced.decision
            assert turn.startswith(f"NotYourTurn: {decision.app}/{decision.ask} is tried before")


def both_ways(found: FirstDifference | None) -> Iterator[tuple[Version, Version]]:
    if found is not None and found.a is not None and found.b is not None:
        yield found.a, found.b
        yield found.b, found.a


def test_jobs_are_in_the_queues_that_rules_choose() -> None:
    def configured(rule: str) -> Configuration:
        queues = "[{name: sue}, {name: rest}, {name: own}]"
        return parse_configuration(
            f"partitions: [{{name: default, placementrules: [{{{rule}}}], queues: {queues}}}]"
        )

    feed = (
        "- {op: add_node, node: n, capacity: {vcore: 4}}\n"
        "- {op: add_app, app: a, queue: root.own, user: sue}\n"
        "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 5}\n"
    )
    found = compare_configurations(
        feed, configured("name: user"), configured("name: fixed, value: rest")
    )

    figures = [(row.queue, row.a.jobs, row.b.jobs, row.b.asks_bound) for row in found.queues]
    assert figures == [("root.rest", 0, 1, 1), ("root.sue", 1, 0, 0)]


WEST_FOR_CAROL = configuration("[{name: east, submitacl: '*'}, {name: west, submitacl: carol}]")
SHUT = configuration("[{name: east, submitacl: carol}, {name: west, submitacl: '*'}]")
POD = """\
- op: apply
  manifest:
    apiVersion: v1
    kind: Pod
    metadata: {name: p, labels: {applicationId: pods, queue: root.east}}
    spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


def submitted(app: str, queue: str) -> str:
    return f"- {{op: add_app, app: {app}, queue: {queue}}}\n"


def lines(remarks: tuple[Remark, ...]) -> list[int | None]:
    return [remark.line for remark in remarks]


def test_what_a_configuration_refuses() -> None:
    feed = NODE + submitted("a", "root.east") + submitted("b", "root.west")
    compared = compare_configurations(feed, PLAIN, WEST_FOR_CAROL)
    back = compare_configurations(feed, WEST_FOR_CAROL, PLAIN)

    assert (compared.refusals.only_a, compared.refusals.only_b) == (0, 1)
    assert lines(compared.refusals.first_b) == [3]
    assert "does not admit" in compared.refusals.first_b[0].message
    assert (compared.jobs.only_a, compared.jobs.refused_a, compared.jobs.refused_b) == (1, 1, 0)
    assert (back.jobs.only_b, back.jobs.refused_b, back.jobs.refused_a) == (1, 1, 0)
    assert (back.refusals.first_a, back.refusals.first_b) == (compared.refusals.first_b, ())
    assert (compared.a.events_refused, compared.b.events_refused) == (0, 1)


def test_the_end_of_an_ask_that_is_not_bound_on_one_side() -> None:
    # COMMAND-15
    narrow = configuration("[{name: east, resources: {max: {vcore: 1}}}, {name: west}]")
    ask = "- {op: add_ask, app: a, ask: %s, resources: {vcore: 1}}\n"
    end = "- {op: %s, app: a, ask: %s, at: %s}\n"
    feed = NODE + submitted("a", "root.east") + ask % "one" + ask % "two"
    feed += end % ("release", "two", 1) + end % ("release", "one", 2)
    feed += submitted("a", "root.east")  # both refuse it
    compared = compare_configurations(feed, PLAIN, narrow)

    found = compared.refusals
    assert (found.only_a, found.ends_a, found.only_b, found.ends_b) == (0, 0, 1, 1)
    assert (compared.a.asks_bound, compared.b.asks_bound) == (2, 2)
    assert found.both == 1


def test_a_pod_brings_a_job_that_is_refused() -> None:
    compared = compare_configurations(NODE + POD, PLAIN, SHUT)

    assert (compared.jobs.only_a, compared.jobs.refused_a) == (1, 1)


def test_a_job_that_the_other_feed_has_not_is_not_refused() -> None:
    feed = NODE + submitted("a", "root.east")
    compared = compare_feeds(feed, NODE)

    assert (compared.jobs.only_a, compared.jobs.refused_a) == (1, 0)
    assert compared.refusals == Refusals(0, 0, 0, (), (), ())


def test_a_second_job_of_a_name_that_is_refused_is_not_a_job() -> None:
    feed = NODE + submitted("a", "root.east") * 3
    compared = compare_feeds(feed, NODE)

    assert (compared.jobs.only_a, compared.jobs.refused_b) == (1, 0)
    assert lines(compared.refusals.first_a) == [3, 4]


def test_two_feeds_refuse_alike_at_an_instant_whatever_the_line() -> None:
    bad = "- {op: bogus}\n"
    a = compare_feeds(NODE + bad * 3, f"- {{op: settle}}\n{NODE}{bad}").refusals
    other = compare_feeds(NODE + bad, NODE + "- {op: bogus, at: 1}\n").refusals

    assert (a.both, a.only_a, a.only_b) == (1, 2, 0)
    assert [(one.line, two.line) for one, two in a.first_both] == [(2, 3)]
    assert lines(a.first_a) == [3, 4]
    assert (other.both, other.only_a, other.only_b) == (0, 1, 1)


def test_the_first_are_named() -> None:
    number = MOST_REFUSALS + 2
    feed = NODE + submitted("a", "root.east") * number
    both = compare_configurations(feed, PLAIN, PLAIN).refusals
    one = compare_feeds(feed, NODE).refusals

    assert (both.both, len(both.first_both)) == (number - 1, MOST_REFUSALS)
    assert one.only_a == number - 1
    assert lines(one.first_a) == list(range(3, 3 + MOST_REFUSALS))


def test_an_event_of_one_feed_is_one_event_whatever_is_said_of_it() -> None:
    parent = configuration("[{name: east, queues: [{name: leaf}]}, {name: west}]")
    found = compare_configurations(submitted("a", "root.east"), parent, SHUT).refusals

    assert (found.both, found.only_a, found.only_b) == (1, 0, 0)
    assert found.first_both[0][0].message != found.first_both[0][1].message


def test_logs_tell_their_own_lines() -> None:
    decisions = [
        Announced(1, 0, Decision(Kind.WARNING, message="mind", index=6, line=7)),
        Announced(2, 0, Decision(Kind.REJECTED, message="no", index=8, line=9)),
    ]
    a, b = (log_side(logged(some, Encoding.JSON_LINES)) for some in (decisions, decisions[:1]))
    refused = Comparison(a, b).run().refusals

    assert (refused.both, refused.only_a, refused.only_b) == (0, 1, 0)
    assert refused.first_a == (Remark(1, 2, "no"),)


def test_what_is_no_feed() -> None:
    with pytest.raises(FeedError, match="nothing in it can be read as an event") as caught:
        list(events_of(items("- {op: bogus}\n- 3\n"), "it"))
    assert (caught.value.file, caught.value.line) == ("it", 1)
    assert caught.value.problem.startswith("op: 'bogus' ")


def test_what_is_no_feed_without_lines() -> None:
    with pytest.raises(FeedError, match=r"^it: event 0: event: 1 is not a map; nothing"):
        list(events_of(read_feed(io.BytesIO(b"\x01\x02"), encoding=Encoding.MSGPACK), "it"))


@pytest.mark.parametrize("feed", ["", "- {op: bogus}\n- {op: settle}\n", "- {op: settle}\n"])
def test_what_is_a_feed(feed: str) -> None:
    assert list(events_of(items(feed), "it")) == items(feed)


def test_one_feed_that_is_none_under_two_configurations() -> None:
    raws = read_raw(io.BytesIO(b"- {op: bogus}\n"))
    sides = sides_of(raws, (PLAIN, WEST_FOR_CAROL), name="it")

    with pytest.raises(FeedError, match=r"^it:1: op: 'bogus' "):
        Comparison(*sides, in_step=True).run()


def test_a_feed_of_configurations_alone_is_one() -> None:
    good = "{partitions: [{name: default, queues: [{name: root}]}]}"
    feed = f"- {{op: configure, config: {good}}}\n- {{op: bogus}}\n"

    assert compare_configurations(feed, PLAIN, PLAIN).refusals.both == 1
