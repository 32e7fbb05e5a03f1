"""Changes in a cluster are reconciled at once, unless only labels of nodes have changed."""

from __future__ import annotations

import pytest

from muster.kubernetes._cache import Cache
from muster.kubernetes._objects import read_node, read_pod
from tests.kubernetes.world import Object, node_of, pod_of


@pytest.fixture
def cache() -> Cache:
    """Return the cache of a cluster of one node, all of which is reconciled."""
    cache = Cache()
    cache.note_node(read_node(node_of("n")))
    cache.dirty_nodes.clear()
    cache.has_time = True
    return cache


@pytest.mark.parametrize(
    ("node", "has_time"),
    [
        (node_of("n", labels={"zone": "b"}), True),
        (node_of("n", cpu="8"), False),
        ({**node_of("n", labels={"zone": "b"}), "spec": {"unschedulable": True}}, False),
        (node_of("m"), False),
    ],
)
def test_labels_have_time(cache: Cache, node: Object, has_time: bool) -> None:
    cache.note_node(read_node(node))

    assert list(cache.dirty_nodes) == [node["metadata"]["name"]]
    assert cache.has_time == has_time


def test_nothing_has_time_once_something_is_urgent(cache: Cache) -> None:
    cache.note_node(read_node(node_of("n", cpu="8")))
    cache.note_node(read_node(node_of("n", cpu="8", labels={"zone": "b"})))

    assert not cache.has_time


def test_a_new_pod_is_urgent_and_may_need_a_status(cache: Cache) -> None:
    pod = pod_of("p")
    pod["metadata"]["uid"] = "uid-p"
    cache.note_pod(read_pod(pod, "muster"))

    assert not cache.has_time
    assert list(cache.unexplained) == ["uid-p"]


def test_pods_of_others_need_no_status(cache: Cache) -> None:
    cache.note_pod(read_pod(pod_of("p", scheduler="other"), "muster"))
    cache.note_pod(read_pod(pod_of("q", nodeName="n"), "muster"))

    assert list(cache.unexplained) == []
