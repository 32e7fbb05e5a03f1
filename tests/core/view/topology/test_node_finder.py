"""The node that a member takes; feeds/topology show the rules, and here is what feeds show badly."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.events import AddApp, AddAsk, Release, RemoveApp, RemoveNode
from muster_core.gangs import GangMode, Topology
from tests.core.admission.objects import full, members
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree
from tests.core.view.helpers import props
from tests.core.view.topology.racks import (
    AT_MOST_ONE,
    PREFER,
    SAME,
    SPREAD,
    cluster,
    gang,
    racked,
    where,
)

STRICT = GangMode.STRICT


def state_of(made: Tree) -> tuple[object, ...]:
    nodes = made.machine.view.nodes
    used = {name: (dict(node.used), dict(node.held)) for name, node in nodes.nodes.items()}
    return used, [node.name for node in nodes.in_order()], nodes.grown, nodes.changes


def equal(ask: AddAsk) -> AddAsk:
    return ask


def unequal(ask: AddAsk) -> AddAsk:
    """Give members a shape of their own, which matches every node."""
    return attrs.evolve(ask, selector={"every": "yes"})


@pytest.mark.parametrize("second", [members("g", "n", 1, vcore=2), members("g", "n", 1, vcore=1)])
def test_a_trial_in_vain_leaves_no_trace(second: AddAsk) -> None:
    # TOPOLOGY-7
    made = cluster(racked("a", 1, "x"), racked("b", 1, "y"))
    made.settle()
    before = state_of(made)
    made.settle(gang(SAME, 2), members("g", "m", 1, vcore=1), second)

    assert where(made) == {}
    assert state_of(made) == before


def test_limits_of_users_count_in_the_trial() -> None:
    # TOPOLOGY-7, LIMIT-9
    limits = [{"limit": "", "users": ["sue"], "maxresources": {"vcore": "2m"}}]
    config = configuration(queue("a", limits=limits), queue("b"))
    for topology, held in ((SAME, 0), (PREFER, 2)):
        for change in (unequal, equal):
            made = cluster(racked("a", 9, "x"), config=config)
            made.enter(RemoveApp("p"))
            made.settle()
            made.settle(
                AddApp("s", "root.a", "sue"),
                gang(topology, 3),
                change(members("g", "m", 2, app="s")),
            )
            made.settle(members("g", "n", 1, app="s"))
            assert len(where(made)) == held


def test_the_headroom_of_several_queues_counts_with_members_of_both() -> None:
    # TOPOLOGY-7
    most = queue("a", queue("c"), queue("d"), resources={"max": {"vcore": "3m"}})
    made = Tree(configuration(most))
    made.enter(racked("x1", 9, "x"))
    made.add_app("c", "root.a.c")
    made.add_app("d", "root.a.d")
    made.settle(gang(SAME, 4), members("g", "m", 2, app="c"), members("g", "n", 2, app="d"))
    assert where(made) == {}
    made.settle(gang(SAME, 3, "h"), members("h", "o", 2, app="c"), members("h", "q", 1, app="d"))
    assert len(where(made)) == 3


def test_a_group_of_strict_gangs_is_bound_in_one_step_each_in_a_rack_of_its_own() -> None:
    made = cluster(racked("a", 2, "x"), racked("b", 3, "y"))
    other = attrs.evolve(
        gang(SAME, 2, "h"), says=attrs.evolve(gang(SAME, 2).says, groups=(full("g"),))
    )
    made.settle(gang(SAME, 3, mode=STRICT), other)
    made.settle(members("h", "n", 2, vcore=1), members("g", "m", 3, vcore=1))

    assert where(made) == {f"p/m-{at}": "b" for at in range(3)} | {"p/n-0": "a", "p/n-1": "a"}


def test_a_member_whose_node_is_lost_stays_with_the_others() -> None:
    # TOPOLOGY-3
    made = cluster(racked("a", 1, "x"), racked("b", 1, "x"), racked("c", 9, "y"))
    made.settle(gang(SAME, 2), wish("q", "other", node="c", vcore=8), wish("q", "one", vcore=1))
    made.settle(Release("q", "one"), Release("q", "other"), racked("d", 1, "x"))
    made.settle(members("g", "m", 2, vcore=1))
    taken = set(where(made).values())
    made.settle(RemoveNode(min(taken)))

    rack = {"c"} if "c" in taken else {"a", "b", "d"}
    assert set(where(made).values()) <= rack


def test_a_blocking_leaf_is_blocked_by_a_member_that_its_topology_keeps_from_all_nodes() -> None:
    # TOPOLOGY-11, ROUND-13
    config = configuration(
        queue("a", properties=props(application_sort_blocking="enabled")), queue("b")
    )
    made = cluster(racked("a", 1, "x"), racked("b", 1), config=config)
    made.settle(gang(SAME, 1), members("g", "m", 1, vcore=1))
    made.settle(members("g", "late", 1, priority=1, vcore=1), wish("p", "plain", vcore=1))
    made.settle(wish("q", "elsewhere", vcore=1))

    assert where(made) == {"p/m-0": "a", "q/elsewhere": "b"}


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["x", "y", "z", None])), max_size=6),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sampled_from([SAME, PREFER, SPREAD, AT_MOST_ONE]),
    st.sampled_from(GangMode),
)
def test_members_of_two_shapes_are_placed_as_equal_ones_are(
    nodes: list[tuple[int, str | None]], sizes: list[int], topology: Topology, mode: GangMode
) -> None:
    found: list[dict[str, str]] = []
    for second in (unequal, equal):
        made = cluster(*(racked(f"n{at}", *node) for at, node in enumerate(nodes)))
        for number, size in enumerate(sizes):
            name = f"g{number}"
            made.enter(gang(topology, size, name, mode), members(name, f"m{number}", 1, vcore=1))
            made.settle(second(members(name, f"n{number}", size, vcore=1)))
        found.append(where(made))

    assert found[0] == found[1]
