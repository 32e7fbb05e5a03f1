"""The naive model's topologies: one small case for each sentence, written out by hand."""

from __future__ import annotations

import attrs

from muster_core.config.model import Configuration, NodeSortPolicy, QueueConfig, Settings
from muster_core.events import AddGang, AddNode, Configure, Release, RemoveNode, UpdateNode
from muster_core.gangs import GangFields, GangMode, Topology, TopologyRule
from tests.naive.story import APP, LOOSE, Story, asks, node
from tests.naive.test_evictions import evicted
from tests.naive.test_reasons import HIGH, queue, tree

SAME = Topology(TopologyRule.SAME, "rack")
PREFER = Topology(TopologyRule.PREFER, "rack")
SPREAD = Topology(TopologyRule.SPREAD, "rack")
AT_MOST_ONE = attrs.evolve(SPREAD, max=1)


def racked(name: str, cores: int, rack: str | None = None) -> AddNode:
    return attrs.evolve(node(name, cores), attributes={} if rack is None else {"rack": rack})


def gang(topology: Topology, least: int, mode: GangMode | None = None) -> AddGang:
    return AddGang("default/g", GangFields(least, None, mode, topology=topology))


def packed(policy: NodeSortPolicy) -> Configure:
    root = QueueConfig(name="root", path="root", is_parent=True)
    return Configure(Configuration(partition="default", root=root, node_sort=policy))


def where(story: Story) -> dict[str, str]:
    """Give the node of each ask that has one, without the name of the application."""
    held = story.model.bound + story.model.waiting
    return {name.removeprefix("a/"): place for name, place in held}


TWO_RACKS = (racked("a", 1, "x"), racked("b", 2, "y"), racked("c", 1, "y"), racked("d", 9))


def test_same_takes_the_first_domain_in_which_all_that_is_lacking_fits() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 3), asks("m", of="g", count=3))
    assert where(story) == {"m-0": "b", "m-1": "c", "m-2": "b"}


def test_with_no_domain_same_fails_like_an_ask_that_fits_no_node() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 4), asks("m", of="g", count=4))
    assert where(story) == {}
    loose = Story(*TWO_RACKS, APP, gang(SAME, 4, LOOSE), asks("m", of="g", count=4))
    assert where(loose) == {}


def test_the_headroom_counts_too() -> None:
    story = Story(
        tree(queue("q", most=2)), *TWO_RACKS, APP, gang(SAME, 3), asks("m", of="g", count=3)
    )
    assert where(story) == {}


def test_later_members_stay_in_the_domain_satisfied_or_not() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 2), asks("m", of="g", count=5))
    assert len(where(story)) == 3
    story.play(RemoveNode("b"))
    assert set(where(story).values()) == {"c"}


def test_when_no_member_is_left_a_satisfied_gang_chooses_anew_for_one() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 2), asks("m", of="g", count=3))
    story.play(asks("n", of="g"))
    assert "n" not in where(story)
    story.play(*(Release("a", f"m-{number}") for number in range(3)))
    assert where(story) == {"n": "a"}, "which has no room for two"


def test_of_members_in_two_domains_the_earliest_assigned_counts() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 2), asks("m", of="g", count=2))
    assert where(story) == {"m-0": "b", "m-1": "c"}
    story.play(UpdateNode("b", attributes={"rack": "x"}), asks("n", of="g"))
    assert where(story)["n"] == "a"
    story.play(UpdateNode("b", attributes={}), asks("k", of="g"))
    assert "k" not in where(story), "c alone counts, and is full"


def test_prefer_fills_the_chosen_domain_first_and_then_any() -> None:
    story = Story(*TWO_RACKS, APP, gang(PREFER, 3), asks("m", of="g", count=5))
    assert where(story) == {"m-0": "b", "m-1": "c", "m-2": "b", "m-3": "a", "m-4": "d"}


def test_with_no_domain_prefer_prefers_nothing() -> None:
    story = Story(*TWO_RACKS, APP, gang(PREFER, 4), asks("m", of="g", count=4))
    assert where(story)["m-0"] == "a"
    assert where(story)["m-1"] == "b", "and then none but the one before"


def test_spread_takes_the_domain_with_fewest_members() -> None:
    three = (racked("a", 9, "x"), racked("b", 3, "x"), racked("c", 3, "y"), racked("d", 9))
    story = Story(*three, APP, gang(SPREAD, 2), asks("m", of="g", count=5))
    assert where(story) == {"m-0": "a", "m-1": "c", "m-2": "b", "m-3": "c", "m-4": "a"}


def test_max_is_kept_by_all_members() -> None:
    story = Story(*TWO_RACKS, APP, gang(AT_MOST_ONE, 2), asks("m", of="g", count=4))
    assert where(story) == {"m-0": "a", "m-1": "b"}


def test_domains_are_ordered_like_nodes_with_their_sums() -> None:
    racks = (racked("a", 4, "x"), racked("b", 4, "y"), racked("c", 4, "y"))
    for policy, first in ((NodeSortPolicy.FAIR, "a"), (NodeSortPolicy.BINPACKING, "c")):
        story = Story(packed(policy), *racks, APP, asks("k", on="b", cores=4))
        story.play(asks("j", on="a"))
        story.play(gang(SAME, 2), asks("m", of="g", count=2))
        assert where(story)["m-0"] == first, policy


def test_a_victim_is_taken_only_where_a_member_may_be() -> None:
    """The members are in the rack y, so that nothing is taken in the rack x."""
    settings = Settings(preemption_delay_us=0)
    story = Story(
        tree(queue("q", settings=settings)),
        *(APP, HIGH, racked("a", 1, "x"), racked("b", 2, "y"), gang(SAME, 1)),
        *(asks("m", of="g", on="b"), asks("k", count=2, priority=-1)),
    )
    assert where(story) == {"m": "b", "k-0": "a", "k-1": "b"}
    decisions = story.decide(asks("n", of="g", named="high"), asks("j", of="g", named="high"))
    assert evicted(decisions) == ["released k-1 preempted"]
    assert "j" not in where(story)


def test_in_section_7_the_first_member_needs_any_domain() -> None:
    settings = Settings(preemption_delay_us=0)
    story = Story(
        tree(queue("q", settings=settings)),
        *(APP, HIGH, racked("a", 1), racked("b", 1, "y"), racked("c", 1, "x")),
        *(asks("k", count=3, priority=-1), gang(SAME, 1)),
    )
    decisions = story.decide(asks("n", of="g", named="high"))
    assert evicted(decisions) == ["released k-1 preempted"], "not on a, which is in no rack"
