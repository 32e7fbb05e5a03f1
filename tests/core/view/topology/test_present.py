"""The picture of things as they are, and trials in it."""

from __future__ import annotations

from muster_core.nodes.node import Node
from muster_core.view.node_finder import CurrentCluster
from tests.core.view.reservations.site import Site, gang, job


def anywhere(node: Node) -> int | None:
    del node
    return 0


def later_first(node: Node) -> int | None:
    return {"n1": 2, "n2": 1}.get(node.name)


def test_the_least_place_comes_before_the_order_of_nodes() -> None:
    # TOPOLOGY-5, TOPOLOGY-6, ORDER-21
    site = Site(3, 3, 3)
    site.tell(gang(9), job("m", 2, gang="default/g"))
    present = CurrentCluster(site.state, lambda: None, beside_victims=False)
    member = site.member("a/m")

    assert present.finder(anywhere)(member) is site.state.nodes.nodes["n1"]
    assert present.finder(later_first)(member) is site.state.nodes.nodes["n2"]
    assert present.finder(lambda _: None)(member) is None


def test_a_trial_ends_as_if_nothing_had_been_placed() -> None:
    # TOPOLOGY-7
    site = Site(3)
    site.tell(gang(9), job("m", 2, gang="default/g", count=2))
    present = CurrentCluster(site.state, lambda: None, beside_victims=False)
    node, nodes = site.state.nodes.nodes["n1"], site.state.nodes
    before = nodes.grown, nodes.changes

    with present.trying():
        present.place(site.member("a/m-0"), node)
        assert present.finder(anywhere)(site.member("a/m-1")) is None
        assert list(present.difference.placed) == [site.member("a/m-0").holder]

    assert present.finder(anywhere)(site.member("a/m-1")) is node
    assert (nodes.grown, nodes.changes, node.used) == (*before, {})
    assert not present.difference.placed
    site.scheduler.machine.check()
