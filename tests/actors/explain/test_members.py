"""Remedies that take members of gangs away: of a gang that needs each of them, all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.actors.cli.helpers import written
from tests.actors.explain.test_remedies import answered, bound_at

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
    said = "nodes n1 and n2" if nodes == 2 else "4 nodes"
    assert text == f"gang default/g ends and releases {said}"


def test_a_member_that_a_gang_can_spare_ends_alone(tmp_path: Path) -> None:
    feed = NODE + gang("g", 1, 2) + LATER

    assert [text for text, _ in remedies(tmp_path, feed, "release")] == [
        "b/y-0 ends and releases node n1",
        "b/y-1 ends and releases node n1",
    ]
