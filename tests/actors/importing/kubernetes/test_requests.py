"""What pods ask for."""

from __future__ import annotations

import pytest

from tests.actors.importing.kubernetes.feeds import fed
from tests.actors.importing.kubernetes.samples import Object, node, pod


def container(cpu: str, *, limit: str | None = None, always: bool = False) -> Object:
    resources: Object = {"requests": {"cpu": cpu}} if cpu else {}
    if limit is not None:
        resources["limits"] = {"cpu": limit}
    return {"resources": resources} | ({"restartPolicy": "Always"} if always else {})


def vcore(**spec: object) -> object:
    return fed(pod("a", spec=spec), node()).ask["resources"].get("vcore")


# IMPORT-13: How long a job was expected to run
def test_the_deadline_is_the_estimate() -> None:
    assert fed(pod("a", spec={"activeDeadlineSeconds": 90}), node()).ask["estimate"] == 90
    assert "estimate" not in fed(pod("a"), node()).ask


# KUBERNETES-9: What a pod asks for
@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"containers": [container("1"), container("500m")]}, "1500m"),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", always=True), container("3")],
            },
            4,
        ),
        (
            {
                "containers": [container("2")],
                "initContainers": [container("2"), container("1", always=True)],
            },
            3,
        ),
        ({"containers": [container("", limit="2"), container("1", limit="5")]}, 3),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, "1250m"),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, 4),
        ({"containers": [container("0.0001")]}, "1m"),
        ({"containers": [container("1500u")]}, "2m"),
    ],
)
def test_requests_are_added_up_as_kubernetes_does(spec: Object, wanted: object) -> None:
    assert vcore(**spec) == wanted


def test_each_type_counts() -> None:
    needs = {"memory": "128974848000m", "nvidia.com/gpu": "2", "kubernetes.io/batch-cpu": "500"}

    assert fed(pod("a", requests=needs), node()).ask["resources"] == {
        "memory": "123Mi",
        "nvidia.com/gpu": 2,
        "kubernetes.io/batch-cpu": 500,
        "pods": 1,
    }


def test_a_pod_that_asks_for_nothing_takes_one_of_the_pods_of_a_node() -> None:
    assert fed(pod("a", requests={}), node()).ask["resources"] == {"pods": 1}


def test_where_nodes_do_not_count_pods_it_asks_for_a_little() -> None:
    bare = node()
    del bare["status"]["allocatable"]["pods"]
    feed = fed(pod("a", requests={}), bare)

    assert feed.ask["resources"] == {"vcore": "1m"}
    assert feed.changes == ["1 pod: it asks for nothing: it has 1m of vcore"]


@pytest.mark.parametrize("cpu", ["-1", "much", "1e30", [], None])
def test_an_amount_that_is_none_leaves_the_pod_out(cpu: object) -> None:
    feed = fed(pod("a", requests={"cpu": cpu}), pod("b"), node())

    (cause,) = feed.account.left_out
    assert cause.example.startswith("default/a: spec.containers[0].resources.requests.cpu: ")


def test_a_sum_that_is_too_large_leaves_the_pod_out() -> None:
    much = {"resources": {"requests": {"memory": "8Ei"}}}
    feed = fed(pod("a", spec={"containers": [much, much]}), pod("b"), node())

    assert feed.left_out == ["1 pod: a field has another form than Kubernetes gives it"]


@pytest.mark.parametrize("requests", [{"cpu": "900"}, {"example.com/fpga": 1}])
def test_a_pod_that_is_too_large_for_each_node_is_counted(requests: dict[str, object]) -> None:
    feed = fed(pod("a", requests=requests), pod("b"), node())

    assert len(feed.of("add_ask")) == 2
    assert feed.notes == ["1 pod: asks for more than any node has: it never starts"]
