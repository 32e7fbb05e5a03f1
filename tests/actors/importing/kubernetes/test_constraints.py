"""On which nodes pods may run, and what of this is not modelled."""

from __future__ import annotations

import pytest

from muster.importing.kubernetes.nodes import Toleration, tolerates
from tests.actors.importing.kubernetes.feeds import fed
from tests.actors.importing.kubernetes.samples import Object, node, pod


def required(*terms: Object) -> Object:
    selector = {"nodeSelectorTerms": list(terms)}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    }


def one_in(key: str, *values: str, operator: str = "In") -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


SSD = node("n1", {"disk": "ssd", "zone": "a"})


# KUBERNETES-15: Selectors
@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd"}),
        (required({"matchExpressions": [one_in("disk", "ssd")]}), {"disk": "ssd"}),
        (
            {"nodeSelector": {"zone": "a"}}
            | required({"matchExpressions": [one_in("disk", "ssd")]}),
            {"zone": "a", "disk": "ssd"},
        ),
    ],
)
def test_what_a_selector_can_say_is_said(spec: Object, selector: Object) -> None:
    feed = fed(pod("a", spec=spec), SSD)

    assert feed.ask["selector"] == selector
    assert not feed.notes


def test_an_affinity_to_one_node_names_it() -> None:
    feed = fed(pod("a", spec=required({"matchFields": [one_in("metadata.name", "n1")]})), node())

    assert feed.ask["node"] == "n1"


@pytest.mark.parametrize(
    "spec",
    [
        required({"matchExpressions": [one_in("disk", "ssd", "hdd")]}),
        required({"matchExpressions": [one_in("disk", "ssd", operator="NotIn")]}),
        required({"matchExpressions": [one_in("disk", operator="Exists")]}),
        required({"matchExpressions": [one_in("disk", "ssd")]}, {}),
        required({"matchExpressions": [one_in("disk", "ssd"), one_in("disk", "hdd")]}),
        required({"matchFields": [one_in("metadata.uid", "n1")]}),
        {"nodeSelector": {"disk": "hdd"}} | required({"matchExpressions": [one_in("disk", "ssd")]}),
    ],
)
def test_any_other_affinity_is_noted(spec: Object) -> None:
    feed = fed(pod("a", spec=spec), SSD, node("n2", {"disk": "hdd"}))

    assert feed.notes == ["1 pod: a node affinity that is no selector is not modelled"]


NOT_MODELLED: list[tuple[Object, str]] = [
    ({"affinity": {"podAffinity": {"a": 1}}}, "affinity to other pods is not modelled"),
    (
        {"affinity": {"podAntiAffinity": {"a": 1}}},
        "anti-affinity to other pods is not modelled",
    ),
    (
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        "a preferred node affinity is not modelled",
    ),
    ({"topologySpreadConstraints": [{}]}, "topology spread constraints are not modelled"),
    ({"runtimeClassName": "kata"}, "a runtime class is not modelled"),
    (
        {"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]},
        "volume claims are not modelled",
    ),
    ({"containers": [{"ports": [{"hostPort": 80}]}]}, "host ports are not modelled"),
    (
        {"nodeSelector": {"disk": "tape"}},
        "no node of the feed is one of those that it may run on",
    ),
]


@pytest.mark.parametrize(("spec", "note"), NOT_MODELLED)
def test_what_is_not_modelled_is_noted(spec: Object, note: str) -> None:
    feed = fed(pod("a", spec=spec), node())

    assert feed.notes == [f"1 pod: {note}"]


def test_what_is_there_and_empty_is_not_noted() -> None:
    spec: Object = {"affinity": {}, "topologySpreadConstraints": [], "volumes": [{"emptyDir": {}}]}

    assert not fed(pod("a", spec=spec), node()).notes


@pytest.mark.parametrize("owner", ["DaemonSet", "Node"])
def test_a_pod_that_belongs_to_a_node_is_asked_for_there(owner: str) -> None:
    only = node("n1", taints=[{"key": "a", "effect": "NoSchedule"}])
    feed = fed(pod("a", owner=(owner, "x"), spec={"nodeSelector": {"disk": "ssd"}}), only)

    assert feed.ask["node"] == "n1"
    assert "selector" not in feed.ask


@pytest.mark.parametrize("others", [[node("n2")], [node("n2"), node("n1", unschedulable=True)]])
def test_a_pod_whose_node_takes_none_is_left_out(others: list[Object]) -> None:
    feed = fed(pod("a", owner=("DaemonSet", "x")), pod("b"), *others)

    assert feed.left_out == [
        "1 pod: it belongs to a node that is not in the feed, or accepts no pods"
    ]


# KUBERNETES-16: Taints
@pytest.mark.parametrize(
    ("toleration", "does"),
    [
        (("k", "Equal", "v", "NoSchedule"), True),
        (("k", "", "v", ""), True),
        (("k", "Exists", "", ""), True),
        (("", "Exists", "", ""), True),
        (("k", "Equal", "w", ""), False),
        (("l", "Exists", "", ""), False),
        (("k", "Exists", "", "NoExecute"), False),
    ],
)
def test_tolerations(toleration: Toleration, does: bool) -> None:
    assert tolerates([toleration], ("k", "v", "NoSchedule")) is does


def test_a_pod_that_does_not_tolerate_a_taint_asks_for_a_node_without_it() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    passing = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    feed = fed(
        pod("a"),
        pod("b", spec={"tolerations": [{"key": "k", "operator": "Exists"}]}),
        node("n1", taints=[taint]),
        node("n2", taints=[soft, passing]),
    )
    without = {"without-taint:k=v:NoSchedule": "true"}

    assert [ask.get("selector") for ask in feed.of("add_ask")] == [without, None]
    first, second = (made["attributes"] for made in feed.of("add_node"))
    assert first == {"kubernetes.io/hostname": "n1"}
    assert second == {"kubernetes.io/hostname": "n2", **without}
