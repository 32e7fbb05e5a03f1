"""A choice finds the same node in things as they are and in a projection of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from muster_core.events import AddAsk
from muster_core.resources import Resources
from muster_core.view.gangs import Member
from muster_core.view.node_finder import NodeFinder
from muster_core.view.reservations.projection import Projection
from tests.core.admission.objects import full, members
from tests.core.building import configuration, queue
from tests.core.view.topology.racks import AT_MOST_ONE, PREFER, SAME, SPREAD, cluster, gang, racked

if TYPE_CHECKING:
    from muster_core.gangs import Topology
    from muster_core.view.state.view_state import ViewState
    from tests.core.tree import Tree


def state_of(made: Tree) -> ViewState:
    state: ViewState = vars(made.machine.view)["_state"]
    return state


def present(state: ViewState, member: Member) -> str | None:
    """Give the node that a pending ask takes as things are."""
    app, ask = member
    finder = NodeFinder(state, lambda: None)
    node = finder.find(state.leaf_of(app), app, ask, state.bit_of(ask))
    return None if node is None else node.name


def projected(projection: Projection, member: Member) -> str | None:
    node = projection.find_node(member)
    return None if node is None else node.name


def lacking(made: Tree, topology: Topology, least: int, *vcores: int) -> list[Member]:
    """Add a gang that lacks members, so that those it has stay pending, whatever has room."""
    made.enter(gang(topology, least))
    for at, vcore in enumerate(vcores):
        made.enter(members("g", f"m{at}", 1, app="pq"[at % 2], vcore=vcore))
    made.settle()
    slots = state_of(made).gangs[full("g")].slots.values()
    return [Member(slot.app, ask) for slot in slots for ask, _ in slot.members.values()]


NODES = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from("xyz"), st.integers(0, 3)), max_size=6
)
TOPOLOGIES = st.sampled_from((SAME, PREFER, SPREAD, AT_MOST_ONE))


@given(NODES, TOPOLOGIES, st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(2, 9))
def test_a_projection_that_differs_in_nothing(
    nodes: list[tuple[int, str, int]], topology: Topology, vcores: list[int], most: int
) -> None:
    # TOPOLOGY-7, TOPOLOGY-8, TOPOLOGY-10, BACKFILL-19
    quotas = [queue(name, resources={"max": {"vcore": f"{most}m"}}) for name in "ab"]
    made = cluster(
        *(racked(f"n{at}", have, rack) for at, (have, rack, _) in enumerate(nodes)),
        config=configuration(*quotas),
    )
    for at, (_, _, used) in enumerate(nodes):
        if used:
            made.enter(AddAsk("p", f"x{at}", Resources({"vcore": used}), node=f"n{at}"))
    pending = lacking(made, topology, 5, *vcores)
    state = state_of(made)

    for member in pending:
        found = present(state, member)
        assert projected(Projection(state), member) == found
        assert all(
            Projection(state).fits_on(member, node) or node.name != found
            for node in state.nodes.nodes.values()
        )
    made.check()


def test_who_is_placed_in_a_projection_draws_others_into_his_domain() -> None:
    # TOPOLOGY-4, BACKFILL-19
    made = cluster(racked("a", 4, "x"), racked("b", 4, "y"), racked("c", 4, "y"))
    first, second = lacking(made, SAME, 3, 1, 1)
    state = state_of(made)
    projection = Projection(state)
    assert projected(projection, second) == "a"

    with projection.trying():
        projection.place(first, state.nodes.nodes["c"])
        assert projected(projection, second) == "b"
        assert not projection.fits_on(second, state.nodes.nodes["a"])

    assert projected(projection, second) == "a"
