"""Which events are refused on one side alone, and what is no feed."""

from __future__ import annotations

import io

import pytest

from muster.compare import MOST_REFUSALS, Comparison, Refusals, events_of, sides_of
from muster.feeds import Encoding, FeedError, read_feed, read_raw
from muster.replay import Remark
from muster_core.decisions import Announced, Decision, Kind
from tests.actors.compare.helpers import (
    compare_configurations,
    compare_feeds,
    configuration,
    items,
    log_side,
    logged,
)

PLAIN = configuration("[{name: east}, {name: west}]")
CLOSED = configuration("[{name: east, submitacl: '*'}, {name: west, submitacl: carol}]")
SHUT = configuration("[{name: east, submitacl: carol}, {name: west, submitacl: '*'}]")
NODE = "- {op: add_node, node: n1, capacity: {vcore: 2}}\n"
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
    compared = compare_configurations(feed, PLAIN, CLOSED)
    back = compare_configurations(feed, CLOSED, PLAIN)

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
    sides = sides_of(raws, (PLAIN, CLOSED), name="it")

    with pytest.raises(FeedError, match=r"^it:1: op: 'bogus' "):
        Comparison(*sides, in_step=True).run()


def test_a_feed_of_configurations_alone_is_one() -> None:
    good = "{partitions: [{name: default, queues: [{name: root}]}]}"
    feed = f"- {{op: configure, config: {good}}}\n- {{op: bogus}}\n"

    assert compare_configurations(feed, PLAIN, PLAIN).refusals.both == 1
