"""The first node for one member after another is the one that a projection finds."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from muster_core.events import Configure
from muster_core.view.reservations.capacity import FirstNodes
from muster_core.view.reservations.projection import Projection
from tests.core.building import configuration, queue
from tests.core.view.reservations.site import Site, backfill, gang, job

CORES = st.lists(st.integers(1, 6), min_size=1, max_size=5)


@pytest.mark.parametrize("order", ["fair", "binpacking", "bestfit"])
@given(nodes=CORES, wanted=CORES)
def test_as_a_projection_finds_it(order: str, nodes: list[int], wanted: list[int]) -> None:
    # BACKFILL-19
    site = Site(*nodes)
    made = configuration(queue("q"), queue("r"), props=backfill(), nodesortpolicy={"type": order})
    # One that fits nowhere lets all others wait.
    asks = [job(f"m-{at}", cores, gang="default/g") for at, cores in enumerate(wanted)]
    site.tell(Configure(made), gang(len(wanted) + 1), job("m-last", 9, gang="default/g"), *asks)
    state = site.state
    plain, projection = Projection(state), Projection(state)
    first = FirstNodes(projection, list(state.nodes.nodes.values()))

    for at in range(len(wanted)):
        member = site.member(f"a/m-{at}")
        node = plain.find_node(member)
        assert first.find(member) is node
        if node is not None:
            plain.place(member, node)
            first.place(member, node)
