"""Remedies work, in a replay by the command.

And one less is not enough, members of gangs included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from muster.feeds import Raw
from tests.actors.cli.helpers import run, run_json, written
from tests.actors.explain.feeds import CASES
from tests.actors.explain.helpers import take_one


def answered(feed: Path, ask: str, *more: str) -> dict[str, Any]:
    status, answer = run_json("explain", feed, "--ask", ask, *more)
    assert status == 0
    found: dict[str, Any] = answer
    return found


@cache
def answer_of(name: str) -> dict[str, Any]:
    """Explain the ask of a case; once in each process, as each of many trials is a replay."""
    case = CASES[name]
    with TemporaryDirectory() as folder:
        return answered(written(Path(folder) / "feed.yaml", case.feed), case.ask)


def bound_at(feed: Path, text: str, events: Sequence[Mapping[str, Raw]]) -> dict[str, int | float]:
    """Put events behind a feed; return when each ask is bound for the last time in the replay."""
    more = "".join(f"- {json.dumps(event)}\n" for event in events)
    changed = written(feed.with_name("changed.yaml"), text + more)
    log = run("replay", changed, "--decisions", "-", "--strict", "--until", "20s").stdout
    bound: dict[str, int | float] = {}
    for line in map(json.loads, log.splitlines()):
        if line["kind"] == "bound":
            bound[f"{line['app']}/{line['ask']}"] = line["at"]
    return bound


@pytest.mark.parametrize("name", CASES)
def test_the_reason_and_the_kinds_of_remedies(name: str) -> None:
    case = CASES[name]
    answer = answer_of(name)

    assert answer["reasons"][0]["code"] == case.code
    kinds = list(dict.fromkeys(remedy["kind"] for remedy in answer["remedies"]))
    assert tuple(kinds) == case.kinds


@pytest.mark.parametrize("name", CASES)
def test_every_remedy_gets_the_ask_bound_at_once(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    feed = written(tmp_path / "feed.yaml", case.feed)
    answer = answer_of(name)

    assert any(remedy["starts"] == "at once" for remedy in answer["remedies"])
    assert case.ask not in bound_at(feed, case.feed, [])
    for remedy in answer["remedies"]:
        bound = bound_at(feed, case.feed, remedy["events"])
        is_now = remedy["starts"] == "at once"
        assert (bound.get(case.ask) == answer["at"]) is is_now, remedy["text"]
        assert (remedy["node"] is not None) is is_now


def one_less(remedy: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the events of a remedy, each time with another one of its amounts one less."""
    found: list[list[dict[str, Any]]] = []
    for name in remedy["smallest"] or ():
        events: list[dict[str, Any]] = json.loads(json.dumps(remedy["events"]))
        lower(events, name, guaranteed=remedy["kind"] == "guaranteed")
        found.append(events)
    return found


def lower(events: list[dict[str, Any]], name: str, *, guaranteed: bool) -> None:
    last = events[-1]
    path, slash, kind = name.partition("/")
    if name == "priority":
        last["priority"] -= 1
    elif name == "nodes":
        events.pop()
    elif kind == "maxapplications":
        configured = next(event for event in events if event["op"] == "configure")
        queue_in(configured, path)["maxapplications"] -= 1
    elif slash:
        configured = next(event for event in events if event["op"] == "configure")
        what = "guaranteed" if guaranteed else "max"
        take_one(queue_in(configured, path)["resources"][what], kind)
    else:
        take_one(last["capacity"], name)


def smallest_amounts(name: str) -> dict[str, dict[str, int] | None]:
    """Return the smallest amounts of the remedies of a case by their words."""
    return {remedy["text"]: remedy["smallest"] for remedy in answer_of(name)["remedies"]}


def test_a_limit_that_is_in_nobodys_way_is_left_alone() -> None:
    renewed = "gang default/g removed and defined again, which clears the timeout"

    assert smallest_amounts("more applications and more room") == {
        "2 instead of 1 as maxapplications of root.p.q, and another node like n1, with 4 vcore": {
            "root.p.q/maxapplications": 2,
            "nodes": 1,
        }
    }
    assert smallest_amounts("the limit of applications comes next") == {
        "3 instead of 2 as maxapplications of root.q, and 4 vcore instead of 2 as max of root.q": {
            "root.q/maxapplications": 3,
            "root.q/vcore": 4000,
        }
    }
    assert smallest_amounts("a gang that had too little room") == {
        f"{renewed}, and 2 more nodes like n1, each with 1 vcore": {"nodes": 2}
    }
    assert smallest_amounts("a gang whose queue is too small") == {
        f"{renewed}, and 3 vcore instead of 2 as max of root.q": {"root.q/vcore": 3000}
    }


def test_what_is_guaranteed_is_of_as_few_types_as_possible() -> None:
    remedies = smallest_amounts("one type is guaranteed")

    assert remedies["1 gpu guaranteed to root.q, which may then reclaim for it"] == {
        "root.q/gpu": 1
    }
    assert len([text for text in remedies if "guaranteed" in text]) == 1


# AGING-11
def test_an_ask_waits_until_it_is_old_enough() -> None:
    (waits,) = [one for one in answer_of("not old enough")["remedies"] if one["kind"] == "age"]
    text = "wait until 7 s, when age has given it priority 6: it starts with the first batch"
    assert text in waits["text"]
    assert (waits["starts"], waits["node"], waits["applicable"]) == (7, None, False)
    assert waits["events"][-1] == {"op": "settle", "at": 7}


# AGING-11
def test_age_does_not_help_where_others_end(tmp_path: Path) -> None:
    text = """
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [{name: q, properties: {priority.aging: 1s}}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 4}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: y, resources: {vcore: 4}, run_for: 9}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
"""
    answer = answered(written(tmp_path / "feed.yaml", text), "a/x")
    assert "age" not in [one["kind"] for one in answer["remedies"]]


# OUTLOOK-30, OUTLOOK-34
def test_what_starts_when_others_end_is_combined_with_one_new_node_at_most(tmp_path: Path) -> None:
    gang = """
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [{name: q, resources: {max: {vcore: 4}}}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 4}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: y, resources: {vcore: 4}, run_for: 9}
- {op: add_app, app: b, queue: q}
- {op: add_gang, gang: g, min_member: COUNT}
- {op: add_ask, app: b, ask: x, resources: {vcore: 2}, count: COUNT, gang: g}
"""

    def remedies(count: int) -> list[tuple[str, object]]:
        feed = written(tmp_path / "feed.yaml", gang.replace("COUNT", str(count)))
        answer = answered(feed, "b/x-0")
        return [(one["text"], one["starts"]) for one in answer["remedies"]]

    # It fits when y ends, so that it may start as things are: no node is needed for that.
    more = "8 vcore instead of 4 as max of root.q, and another node like n1, with 4 vcore"
    assert remedies(2)[0] == (more, "at once")
    # Four members would need another node even if nothing else ran, and two more with y.
    assert remedies(4) == [("min_member 2 instead of 4 for gang default/g", 9), (more, 9)]


def test_all_that_a_node_is_changed_in_is_said() -> None:
    (remedy,) = answer_of("the node that it names takes nothing")["remedies"]

    assert remedy["text"] == (
        "6 vcore instead of 4 as capacity of node n2, and node n2 becomes schedulable again"
    )
    changed = {"capacity": {"vcore": 6}, "schedulable": True}
    assert remedy["events"][1:] == [{"op": "update_node", "node": "n2", **changed}]


def test_a_node_that_comes_has_what_the_selector_asks_for() -> None:
    assert list(smallest_amounts("too large for its queue, and no node matches")) == [
        "2 vcore instead of 1 as max of root.q, and another node like n1, with 4 vcore and disk=ssd"
    ]


# AFFINITY-15
def test_the_requirement_is_named_that_is_left_out() -> None:
    again = "the ask is withdrawn and submitted again, and counts as created then"

    assert f"toleration of k:NoSchedule: {again}" in smallest_amounts(
        "a taint that it does not tolerate"
    )
    assert f"an affinity without disk Exists: {again}" in smallest_amounts(
        "an affinity that no node matches"
    )
    assert "give node n1 the attributes that it requires: disk=true" in smallest_amounts(
        "an affinity that no node matches"
    )
    assert f"no affinity: {again.replace('the ask is', 'it and its gang are')}" in smallest_amounts(
        "the members of a gang are choosy"
    )


def test_a_delay_is_written_with_its_unit() -> None:
    assert "preemption.delay: 11s for root.q" in smallest_amounts(
        "it may not preempt yet, for 11 s"
    )


# RUNTIME-2
def test_a_minimum_run_time_of_another_leaf_is_taken_away() -> None:
    remedies = smallest_amounts("what runs has not run for long enough")

    assert "preemption.min.runtime: 0s for root.r" in remedies


def test_the_longest_delay_is_named_with_which_its_back_off_is_over() -> None:
    # Its last bind failed at 12 s, the third in a row: it backs off for four times the delay.
    remedies = smallest_amounts("it backs off after three binds that failed")

    assert "bind.retry.delay: 1125ms for root.q" in remedies


# BACKFILL-25
def test_the_longest_estimate_is_named_that_ends_by_the_start() -> None:
    (first, *_) = smallest_amounts("it would delay a reservation")
    assert first.startswith("an estimate of 1 min 35 s or less, if its work takes no longer")

    (first, *_) = smallest_amounts("it would delay a reservation with an unknown start")
    assert first.startswith("an estimate, if its work takes no longer")


# BACKFILL-25
def test_an_estimate_that_is_too_long_by_little_does_not_help(tmp_path: Path) -> None:
    case = CASES["it would delay a reservation"]
    feed = written(tmp_path / "feed.yaml", case.feed)
    *events, last = answer_of("it would delay a reservation")["remedies"][0]["events"]
    assert last["estimate"] == 95

    events.append({**last, "estimate": 95.001})
    assert case.ask not in bound_at(feed, case.feed, events)


def queue_in(event: Mapping[str, Any], path: str) -> dict[str, Any]:
    names = path.split(".")
    below = event["config"]["partitions"][0]["queues"]
    queue: dict[str, Any] = {}
    for name in names:
        queue = next(one for one in below if one["name"] == name)
        below = queue.get("queues", [])
    return queue


MEASURED = {"priority", "guaranteed", "max", "maxapplications", "capacity", "node", "combined"}


@pytest.mark.parametrize("name", CASES)
def test_one_less_does_not_do(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    feed = written(tmp_path / "feed.yaml", case.feed)
    answer = answer_of(name)

    for remedy in answer["remedies"]:
        if remedy["kind"] in MEASURED:
            assert remedy["smallest"] or remedy["kind"] == "combined", remedy["text"]
            for events in one_less(remedy):
                bound = bound_at(feed, case.feed, events)
                assert bound.get(case.ask) != answer["at"], remedy["text"]


BLOCKING = """\
- op: configure
  config:
    partitions:
      - queues:
          - {name: q, properties: {application.sort.blocking: enabled}}
"""
NODE = "- {op: add_node, node: n1, capacity: {vcore: 4}}\n"
LATER = """\
- {op: add_app, app: a, queue: q, at: 1}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
"""


def gang(name: str, least: int, vcore: int, *, more: str = "", app: str = "b") -> str:
    return (
        f"- {{op: add_gang, gang: {name}, min_member: {least}{more}}}\n"
        f"- {{op: add_app, app: {app}, queue: q}}\n"
        f"- {{op: add_ask, app: {app}, ask: y, count: 2, gang: {name}, "
        f"resources: {{vcore: {vcore}}}}}\n"
    )


def remedies(folder: Path, feed: str, kind: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the texts and events of remedies; each gets the ask bound in a replay."""
    path = written(folder / "feed.yaml", feed)
    answer = answered(path, "a/x")
    found = [
        (remedy["text"], remedy["events"])
        for remedy in answer["remedies"]
        if remedy["kind"] == kind
    ]
    for text, events in found:
        assert bound_at(path, feed, events).get("a/x") == answer["at"], text
    return found


def test_a_gang_that_waits_ahead_goes_as_a_whole(tmp_path: Path) -> None:
    feed = BLOCKING + NODE + gang("g", 2, 3) + LATER

    [(text, events)] = remedies(tmp_path, feed, "remove_ahead")
    assert text == "without gang default/g, which is tried before it"
    assert events[1:] == [{"op": "remove_app", "app": "b"}]


def test_other_asks_of_its_application_stay(tmp_path: Path) -> None:
    other = "- {op: add_ask, app: b, ask: z, resources: {vcore: 1}}\n"
    feed = BLOCKING + NODE + gang("g", 2, 3) + other + LATER

    [(_, events)] = remedies(tmp_path, feed, "remove_ahead")
    assert events[1:] == [
        {"op": "remove_ask", "app": "b", "ask": "y-0"},
        {"op": "remove_ask", "app": "b", "ask": "y-1"},
    ]


def test_the_gangs_of_a_group_go_together(tmp_path: Path) -> None:
    group = gang("g", 2, 3, more=", groups: [h]") + gang("h", 2, 3, more=", groups: [g]", app="c")

    [(text, events)] = remedies(tmp_path, BLOCKING + NODE + group + LATER, "remove_ahead")
    assert text == "without gangs default/g and default/h, which are tried before it"
    assert [event["app"] for event in events[1:]] == ["b", "c"]


def test_a_gang_that_runs_ends_as_a_whole(tmp_path: Path) -> None:
    feed = NODE + gang("g", 2, 2) + LATER

    [(text, events)] = remedies(tmp_path, feed, "release")
    assert text == "gang default/g ends and releases node n1"
    assert [event["ask"] for event in events[1:]] == ["y-0", "y-1"]


@pytest.mark.parametrize("nodes", [2, 4])
def test_the_nodes_of_a_gang_are_named_unless_they_are_many(tmp_path: Path, nodes: int) -> None:
    added = NODE + "".join(NODE.replace("n1", f"n{number}") for number in range(2, nodes + 1))
    members = gang("g", nodes, 4).replace("count: 2", f"count: {nodes}")

    [(text, _)] = remedies(tmp_path, added + members + LATER, "release")
    queue_in = "nodes n1 and n2" if nodes == 2 else "4 nodes"
    assert text == f"gang default/g ends and releases {queue_in}"


def test_a_member_that_a_gang_can_spare_ends_alone(tmp_path: Path) -> None:
    feed = NODE + gang("g", 1, 2) + LATER

    assert [text for text, _ in remedies(tmp_path, feed, "release")] == [
        "b/y-0 ends and releases node n1",
        "b/y-1 ends and releases node n1",
    ]
