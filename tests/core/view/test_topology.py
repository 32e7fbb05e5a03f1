"""Topologies and the node that a member takes; feeds/topology show the rules, these tests what
feeds show badly.

The same node is found in things as they are and in a projection of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.events import AddApp, AddAsk, AddNode, Configure, Release, RemoveApp, RemoveNode
from muster_core.gangs import GangMode, Topology
from muster_core.nodes.node import Node
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape
from muster_core.view.gangs import Member, TopologyState
from muster_core.view.node_finder import CurrentCluster, NodeFinder, PlanNodeOrder
from muster_core.view.placement_diff import PlacementDiff
from muster_core.view.reservations.projection import Projection
from tests.core.admission.objects import full_gang_name, members
from tests.core.building import Nodes, configuration, queue, wish
from tests.core.tree import Tree, props
from tests.core.view.sites import (
    AT_MOST_ONE,
    PREFER,
    SAME,
    SPREAD,
    Site,
    backfill,
    cluster,
    gang_of,
    gang_within,
    job,
    nodes_of,
    racked,
    vcores,
)

if TYPE_CHECKING:
    from muster_core.view.state.view_state import ViewState


STRICT = GangMode.STRICT


def nodes_state(tree: Tree) -> tuple[object, ...]:
    nodes = tree.machine.view.nodes
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
    tree = cluster(racked("a", 1, "x"), racked("b", 1, "y"))
    tree.settle()
    before = nodes_state(tree)
    tree.settle(gang_within(SAME, 2), members("g", "m", 1, vcore=1), second)

    assert nodes_of(tree) == {}
    assert nodes_state(tree) == before


def test_limits_of_users_count_in_the_trial() -> None:
    # TOPOLOGY-7, LIMIT-9
    limits = [{"limit": "", "users": ["sue"], "maxresources": {"vcore": "2m"}}]
    config = configuration(queue("a", limits=limits), queue("b"))
    for topology, held in ((SAME, 0), (PREFER, 2)):
        for change in (unequal, equal):
            tree = cluster(racked("a", 9, "x"), config=config)
            tree.enter(RemoveApp("p"))
            tree.settle()
            tree.settle(
                AddApp("s", "root.a", "sue"),
                gang_within(topology, 3),
                change(members("g", "m", 2, app="s")),
            )
            tree.settle(members("g", "n", 1, app="s"))
            assert len(nodes_of(tree)) == held


def test_the_headroom_of_several_queues_counts_with_members_of_both() -> None:
    # TOPOLOGY-7
    most = queue("a", queue("c"), queue("d"), resources={"max": {"vcore": "3m"}})
    tree = Tree(configuration(most))
    tree.enter(racked("x1", 9, "x"))
    tree.add_app("c", "root.a.c")
    tree.add_app("d", "root.a.d")
    tree.settle(gang_within(SAME, 4), members("g", "m", 2, app="c"), members("g", "n", 2, app="d"))
    assert nodes_of(tree) == {}
    tree.settle(
        gang_within(SAME, 3, "h"), members("h", "o", 2, app="c"), members("h", "q", 1, app="d")
    )
    assert len(nodes_of(tree)) == 3


def test_a_group_of_strict_gangs_is_bound_in_one_step_each_in_a_rack_of_its_own() -> None:
    tree = cluster(racked("a", 2, "x"), racked("b", 3, "y"))
    other = attrs.evolve(
        gang_within(SAME, 2, "h"),
        says=attrs.evolve(gang_within(SAME, 2).says, groups=(full_gang_name("g"),)),
    )
    tree.settle(gang_within(SAME, 3, mode=STRICT), other)
    tree.settle(members("h", "n", 2, vcore=1), members("g", "m", 3, vcore=1))

    assert nodes_of(tree) == {f"p/m-{at}": "b" for at in range(3)} | {"p/n-0": "a", "p/n-1": "a"}


def test_a_member_whose_node_is_lost_stays_with_the_others() -> None:
    # TOPOLOGY-3
    tree = cluster(racked("a", 1, "x"), racked("b", 1, "x"), racked("c", 9, "y"))
    tree.settle(
        gang_within(SAME, 2), wish("q", "other", node="c", vcore=8), wish("q", "one", vcore=1)
    )
    tree.settle(Release("q", "one"), Release("q", "other"), racked("d", 1, "x"))
    tree.settle(members("g", "m", 2, vcore=1))
    taken = set(nodes_of(tree).values())
    tree.settle(RemoveNode(min(taken)))

    rack = {"c"} if "c" in taken else {"a", "b", "d"}
    assert set(nodes_of(tree).values()) <= rack


def test_a_blocking_leaf_is_blocked_by_a_member_that_its_topology_keeps_from_all_nodes() -> None:
    # TOPOLOGY-11, ROUND-13
    config = configuration(
        queue("a", properties=props(application_sort_blocking="enabled")), queue("b")
    )
    tree = cluster(racked("a", 1, "x"), racked("b", 1), config=config)
    tree.settle(gang_within(SAME, 1), members("g", "m", 1, vcore=1))
    tree.settle(members("g", "late", 1, priority=1, vcore=1), wish("p", "plain", vcore=1))
    tree.settle(wish("q", "elsewhere", vcore=1))

    assert nodes_of(tree) == {"p/m-0": "a", "q/elsewhere": "b"}


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
        tree = cluster(*(racked(f"n{at}", *node) for at, node in enumerate(nodes)))
        for number, size in enumerate(sizes):
            name = f"g{number}"
            tree.enter(
                gang_within(topology, size, name, mode), members(name, f"m{number}", 1, vcore=1)
            )
            tree.settle(second(members(name, f"n{number}", size, vcore=1)))
        found.append(nodes_of(tree))

    assert found[0] == found[1]


def state_of(tree: Tree) -> ViewState:
    state: ViewState = vars(tree.machine.view)["_state"]
    return state


def present(state: ViewState, member: Member) -> str | None:
    """Return the node that a pending ask takes in the present state."""
    app, ask = member
    finder = NodeFinder(state, lambda: None)
    node = finder.find(state.leaf_of(app), app, ask, state.bit_of(ask))
    return None if node is None else node.name


def projected(projection: Projection, member: Member) -> str | None:
    node = projection.find_node(member)
    return None if node is None else node.name


def lacking(tree: Tree, topology: Topology, least: int, *vcores: int) -> list[Member]:
    """Add a gang that lacks members, so that those it has stay pending, whatever has room."""
    tree.enter(gang_within(topology, least))
    for at, vcore in enumerate(vcores):
        tree.enter(members("g", f"m{at}", 1, app="pq"[at % 2], vcore=vcore))
    tree.settle()
    slots = state_of(tree).gangs[full_gang_name("g")].slots.values()
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
    tree = cluster(
        *(racked(f"n{at}", have, rack) for at, (have, rack, _) in enumerate(nodes)),
        config=configuration(*quotas),
    )
    for at, (_, _, used) in enumerate(nodes):
        if used:
            tree.enter(AddAsk("p", f"x{at}", Resources({"vcore": used}), node=f"n{at}"))
    pending = lacking(tree, topology, 5, *vcores)
    state = state_of(tree)

    for member in pending:
        found = present(state, member)
        assert projected(Projection(state), member) == found
        assert all(
            Projection(state).fits_on(member, node) or node.name != found
            for node in state.nodes.nodes.values()
        )
    tree.check()


def test_who_is_placed_in_a_projection_draws_others_into_his_domain() -> None:
    # TOPOLOGY-4, BACKFILL-19
    tree = cluster(racked("a", 4, "x"), racked("b", 4, "y"), racked("c", 4, "y"))
    first, second = lacking(tree, SAME, 3, 1, 1)
    state = state_of(tree)
    projection = Projection(state)
    assert projected(projection, second) == "a"

    with projection.trying():
        projection.place(first, state.nodes.nodes["c"])
        assert projected(projection, second) == "b"
        assert not projection.fits_on(second, state.nodes.nodes["a"])

    assert projected(projection, second) == "a"


@pytest.mark.parametrize(("first", "held"), [("a", ["p/m-0", "p/m-1", "q/n-0"]), ("b", [])])
def test_the_others_are_the_first_in_the_order_of_queues(first: str, held: list[str]) -> None:
    # TOPOLOGY-8
    leaves = [
        queue(name, properties={"queue.priority": "1"} if name == first else {}) for name in "ab"
    ]
    tree = cluster(racked("a", 3, "x"), racked("b", 2, "y"), config=configuration(*leaves))
    large = members("g", "large", 1, app="q", vcore=4)
    tree.settle(gang_within(SAME, 3), members("g", "m", 2), members("g", "n", 1, app="q"), large)

    assert sorted(nodes_of(tree)) == held


@pytest.mark.parametrize(("priority", "held"), [(-1, ["p/m-0", "p/m-1"]), (1, [])])
def test_the_others_are_the_first_in_the_order_of_asks(priority: int, held: list[str]) -> None:
    # TOPOLOGY-8
    tree = cluster(racked("a", 2, "x"))
    large = members("g", "large", 1, priority=priority, vcore=3)
    tree.settle(gang_within(SAME, 2), members("g", "m", 2), large)

    assert sorted(nodes_of(tree)) == held


def test_the_member_at_hand_need_not_be_one_of_the_first() -> None:
    # TOPOLOGY-7
    tree = cluster(racked("a", 3, "x"))
    tree.settle(
        gang_within(SAME, 2), members("g", "m", 2, vcore=2), members("g", "n", 1, priority=-1)
    )

    assert set(nodes_of(tree)) == {"p/m-0", "p/n-0"}


def test_a_satisfied_gang_lacks_nobody() -> None:
    # TOPOLOGY-9
    tree = cluster(racked("a", 2, "x"))
    tree.settle(gang_within(SAME, 2), members("g", "m", 2), members("g", "n", 1, vcore=2))
    tree.settle(Release("p", "m-0"), Release("p", "m-1"))

    assert set(nodes_of(tree)) == {"p/n-0"}


@pytest.mark.parametrize(
    "fields",
    [
        {"resources": {"max": {"vcore": 4}}},
        {"limits": [{"users": ["*"], "maxresources": {"vcore": 4}}]},
    ],
)
def test_headroom_is_what_asks_leave_that_are_counted(fields: dict[str, object]) -> None:
    # CONFIG-25, LIMIT-9
    site = Site(1)
    site.tell(Configure(configuration(queue("q", **fields), queue("r"), props=backfill())))
    site.tell(job("x", 2))
    difference, (app, ask) = PlacementDiff(site.state), site.member("a/x")
    assert difference.has_headroom(app, ask)

    difference.count(app, ask, 1)
    assert difference.has_headroom(app, ask)
    difference.count(app, ask, 1)
    assert not difference.has_headroom(app, ask)
    difference.count(app, ask, -1)
    assert difference.has_headroom(app, ask)


def test_who_holds_nodes() -> None:
    # BACKFILL-19
    site = Site(2, 1, 4)
    site.tell(gang_of(2, loose=True), gang_of(2, name="default/h", loose=True))
    site.tell(job("m", 1, gang="default/g", count=2, node="n1"), job("o", 5, gang="default/g"))
    site.tell(job("h", 3, gang="default/h", node="n3"), job("p", 5, gang="default/h"))
    state, difference = site.state, PlacementDiff(site.state)
    bound, waiting = state.gangs["default/g"], state.gangs["default/h"]

    difference.released.add(site.member("a/m-0").holder)
    difference.place(site.member("a/o"), state.nodes.nodes["n2"])
    difference.place(site.member("a/p"), state.nodes.nodes["n3"])

    held = sorted(difference.held_by(bound))
    assert [node.name for _, node in held] == ["n1", "n2"]
    assert [node.name for _, node in sorted(difference.held_by(waiting))] == ["n3", "n3"]
    difference.released.add(site.member("a/h").holder)
    difference.undo(site.member("a/p"))
    assert not list(difference.held_by(waiting))


ANY: Final = Shape(Resources({"vcore": 1}))


def nodes() -> Nodes:
    made = Nodes()
    for name, rack in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")):
        made.add(name, vcore=4, attributes={"rack": rack})
    made.take("a", vcore=1)
    return made


@pytest.mark.parametrize(
    ("standing", "order"),
    [
        (None, "bcda"),
        (TopologyState(SAME, {"y": 1}, "y"), "bd"),
        (TopologyState(PREFER, {"x": 1}, "x"), "cabd"),
        (TopologyState(PREFER, {}, None), "bcda"),
        (TopologyState(SPREAD, {"x": 1, "y": 2}, "x"), "cabd"),
    ],
)
def test_the_topology_comes_before_the_order_of_nodes(
    standing: TopologyState | None, order: str
) -> None:
    # TOPOLOGY-13
    found = PlanNodeOrder(nodes().index, ANY, standing)
    assert "".join(node.name for node in found.every() if found.lets(node)) == order


def test_some_nodes_are_in_the_same_order() -> None:
    index = nodes().index
    for standing in (None, TopologyState(PREFER, {"x": 1}, "x")):
        found = PlanNodeOrder(index, ANY, standing)
        every = list(found.every())
        assert [*found.some({*every[1:]})] == every[1:]
        assert [*found.some({})] == []


def names(site: Site, projection: Projection, *asks: str) -> list[str]:
    order = projection.order().sorted([site.member(ask) for ask in asks])
    return [f"{member.app.identity.name}/{member.ask.name}" for member in order]


def test_asks_of_an_application() -> None:
    # BACKFILL-16
    site = Site(1)
    site.tell(job("x", 2), job("y", 2, priority=3), job("z", 2))

    assert names(site, Projection(site.state), "a/z", "a/x", "a/y") == ["a/y", "a/x", "a/z"]


def test_queues_by_what_is_used_in_the_projection() -> None:
    # BACKFILL-19
    site = Site(4)
    site.tell(job("w", 2), job("v", 1, app="b"), job("x", 5), job("x", 5, app="b"))
    projection = Projection(site.state)
    assert names(site, projection, "a/x", "b/x") == ["b/x", "a/x"]

    app = site.app("a")
    allocation, node = app.bound["w"]
    projection.release(app, allocation, node)

    assert names(site, projection, "a/x", "b/x") == ["a/x", "b/x"]


def test_who_is_placed_is_not_pending() -> None:
    # BACKFILL-19
    site = Site(4)
    site.tell(job("x", 5, priority=3), job("y", 5), job("z", 5, app="b", priority=1))
    projection, node = Projection(site.state), site.state.nodes.nodes["n1"]
    assert names(site, projection, "a/y", "b/z") == ["a/y", "b/z"]

    projection.place(site.member("a/x"), node)

    assert names(site, projection, "a/y", "b/z") == ["b/z", "a/y"]


def test_applications_of_a_leaf_by_usage() -> None:
    # BACKFILL-19
    site = Site(4)
    fair = {"application.sort.policy": "fair"}
    site.tell(Configure(configuration(queue("q", properties=fair), queue("r"), props=backfill())))
    site.tell(AddApp("c", "root.q"), AddNode("n2", vcores(1)))
    site.tell(job("w", 2), job("x", 5), job("x", 5, app="c"))
    projection = Projection(site.state)
    assert names(site, projection, "a/x", "c/x") == ["c/x", "a/x"]

    app = site.app("a")
    allocation, node = app.bound["w"]
    projection.release(app, allocation, node)

    assert names(site, projection, "a/x", "c/x") == ["a/x", "c/x"]


def anywhere(node: Node) -> int | None:
    del node
    return 0


def later_first(node: Node) -> int | None:
    return {"n1": 2, "n2": 1}.get(node.name)


def test_the_least_place_comes_before_the_order_of_nodes() -> None:
    # TOPOLOGY-5, TOPOLOGY-6, ORDER-21
    site = Site(3, 3, 3)
    site.tell(gang_of(9), job("m", 2, gang="default/g"))
    present = CurrentCluster(site.state, lambda: None, beside_victims=False)
    member = site.member("a/m")

    assert present.finder(anywhere)(member) is site.state.nodes.nodes["n1"]
    assert present.finder(later_first)(member) is site.state.nodes.nodes["n2"]
    assert present.finder(lambda _: None)(member) is None


def test_a_trial_ends_as_if_nothing_had_been_placed() -> None:
    # TOPOLOGY-7
    site = Site(3)
    site.tell(gang_of(9), job("m", 2, gang="default/g", count=2))
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
