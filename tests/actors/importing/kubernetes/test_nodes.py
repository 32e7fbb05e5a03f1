"""Nodes of a dump."""

from __future__ import annotations

import pytest

from muster.importing.kubernetes.nodes import MOST_TAINTS
from tests.actors.importing.kubernetes.feeds import fed
from tests.actors.importing.kubernetes.samples import DAY, node, pod


# KUBERNETES-14: Nodes
def test_a_node_has_what_pods_can_have_of_it() -> None:
    made = node("n1", unschedulable=True)
    made["status"] = {
        "allocatable": {"cpu": "7910m", "memory": "1Gi"},
        "capacity": {"cpu": "8", "memory": "2Gi"},
    }
    assert fed(pod(), made).of("add_node") == [
        {
            "node": "n1",
            "capacity": {"vcore": "7910m", "memory": "1Gi"},
            "attributes": {"kubernetes.io/hostname": "n1"},
            "schedulable": False,
        }
    ]


def test_without_allocatable_its_capacity_counts() -> None:
    made = node("n1")
    made["status"] = {"capacity": {"cpu": "8"}}

    assert fed(pod(), made).of("add_node")[0]["capacity"] == {"vcore": 8}


def test_nodes_are_there_from_the_start() -> None:
    late = node("n2")
    late["metadata"]["creationTimestamp"] = f"{DAY}30:00Z"
    feed = fed(pod(), pod("b", created="30:00"), node(), late)

    assert [event["op"] for event in feed.events[1:3]] == ["add_node", "add_node"]


def test_a_younger_node_joins_if_that_is_asked_for() -> None:
    late = node("n2")
    late["metadata"]["creationTimestamp"] = f"{DAY}30:00Z"
    feed = fed(pod(), pod("b", created="30:00"), node(), late, nodes_join=True)

    assert [(event["op"], event.get("at")) for event in feed.events] == [
        ("configure", f"{DAY}00:00Z"),
        ("add_node", None),
        ("add_app", None),
        ("add_ask", None),
        ("add_node", f"{DAY}30:00Z"),
        ("add_app", None),
        ("add_ask", None),
    ]


def test_the_oldest_node_is_there_from_the_start_anyway() -> None:
    late = node("n2")
    late["metadata"]["creationTimestamp"] = f"{DAY}30:00Z"

    assert fed(pod(), late, nodes_join=True).events[1]["op"] == "add_node"


def test_the_last_record_of_a_node_counts() -> None:
    feed = fed(pod(), node("n1", {"disk": "hdd"}), node("n1", {"disk": "ssd"}))

    assert feed.of("add_node")[0]["attributes"]["disk"] == "ssd"
    assert feed.left_out == ["1 node: a later record of the same one is taken"]


def test_taints_are_modelled_up_to_a_number() -> None:
    nodes = [
        node(f"n{number}", taints=[{"key": f"k{number:03}", "effect": "NoExecute"}])
        for number in range(MOST_TAINTS + 1)
    ]
    feed = fed(pod("a", spec={"tolerations": [{"operator": "Exists"}]}), *nodes)

    assert feed.notes == [
        f"1 node: more than {MOST_TAINTS} different taints: the others are not modelled"
    ]


@pytest.mark.parametrize("field", ["taints", "unschedulable"])
def test_a_node_with_a_field_of_another_form_is_left_out(field: str) -> None:
    bad = node("bad")
    bad["spec"] = {field: 5}
    feed = fed(pod(), node(), bad)

    (cause,) = feed.account.left_out
    assert cause.example.startswith(f"bad: spec.{field}: 5 is not ")
