"""Where the members of a gang stand, and what a topology says of a node then."""

from __future__ import annotations

import attrs
import pytest

from muster_core.gangs import Topology
from muster_core.nodes.node import Node
from muster_core.view.gangs import TopologyState, topology_of, topology_state_of
from tests.core.admission.objects import full, members
from tests.core.view.topology.racks import AT_MOST_ONE, PREFER, SAME, SPREAD, cluster, gang, racked

X, Y = (
    Node("a", {}, {"rack": "x"}, schedulable=True),
    Node("b", {}, {"rack": "y"}, schedulable=True),
)
NOWHERE = Node("c", {}, {}, schedulable=True)


@pytest.mark.parametrize(
    ("topology", "counts", "home", "lets"),
    [
        (SAME, {}, None, (True, True, False)),
        (SAME, {"y": 1}, "y", (False, True, False)),
        (PREFER, {"y": 1}, "y", (True, True, True)),
        (SPREAD, {"y": 9}, "y", (True, True, False)),
        (AT_MOST_ONE, {"y": 1}, "y", (True, False, False)),
    ],
)
def test_where_a_member_may_be(
    topology: Topology, counts: dict[str, int], home: str | None, lets: tuple[bool, ...]
) -> None:
    # TOPOLOGY-12
    standing = TopologyState(topology, counts, home)
    assert tuple(map(standing.lets, (X, Y, NOWHERE))) == lets


@pytest.mark.parametrize(
    ("topology", "counts", "home", "chosen", "places"),
    [
        (SAME, {"x": 1, "y": 2}, "x", None, (0, None, None)),
        (SAME, {}, None, "y", (None, 0, None)),
        (SAME, {}, None, None, (None, None, None)),
        (PREFER, {"x": 1, "y": 2}, "x", None, (0, 0, 1)),
        (PREFER, {}, None, "y", (1, 0, 1)),
        (PREFER, {}, None, None, (1, 1, 1)),
        (SPREAD, {"x": 3, "y": 2}, "x", None, (3, 2, None)),
        (AT_MOST_ONE, {"x": 1}, "x", None, (None, 0, None)),
    ],
)
def test_how_early_a_node_is_taken(
    topology: Topology,
    counts: dict[str, int],
    home: str | None,
    chosen: str | None,
    places: tuple[int | None, ...],
) -> None:
    # TOPOLOGY-4, TOPOLOGY-5, TOPOLOGY-6
    standing = TopologyState(topology, counts, home)
    assert tuple(standing.place(node, chosen) for node in (X, Y, NOWHERE)) == places


def test_waiting_and_bound_members_count_where_they_are_in_a_domain() -> None:
    made = cluster(racked("a", 1, "x"), racked("b", 1), racked("c", 1, "y"))
    made.settle(gang(PREFER, 1), members("g", "m", 3, vcore=1))
    view = made.machine.view
    standing = topology_state_of(view.gangs[full("g")], view.apps)

    assert standing is not None
    assert (standing.counts, standing.home) == ({"x": 1, "y": 1}, "x")
    made.settle(gang(attrs.evolve(PREFER, attribute="every"), 9, "h"))
    made.settle(racked("d", 1, "z"), members("h", "n", 9, vcore=1))
    standing = topology_state_of(view.gangs[full("h")], view.apps)
    assert standing is not None
    assert (standing.counts, standing.home) == ({"yes": 1}, "yes")


def test_a_gang_that_is_not_defined_has_no_topology() -> None:
    made = cluster(racked("a", 1, "x"))
    made.settle(members("g", "m", 1, vcore=1))

    assert topology_of(made.machine.view.gangs[full("g")]) is None
