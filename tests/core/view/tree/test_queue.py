"""Queues as a round sees them: order, quota, what is to be visited."""

from __future__ import annotations

from math import inf

import pytest

from muster_core.owners.asks import Allocation
from muster_core.structures.shapes import EVERY_SHAPE, bits_of
from muster_core.view.tree.constraints import Offer, Slot
from muster_core.view.tree.queue import VISIT
from tests.core.building import ask, configuration, queue
from tests.core.view.helpers import props
from tests.core.view.tree.world import World

# Children of a parent


def test_only_queues_with_something_pending_compete() -> None:
    world = World(configuration(queue("a"), queue("b")), vcore=10)
    world.app("a")
    world.app("b", ask())

    assert world.order() == ["b"]


def test_queue_priority_comes_before_current_priority() -> None:
    world = World(
        configuration(queue("a"), queue("b", properties=props(queue_priority="1"))), vcore=10
    )
    world.app("a", ask(priority=100))
    world.app("b", ask(priority=-100))

    assert world.order() == ["b", "a"]


def test_current_priority_comes_before_the_share() -> None:
    world = World(configuration(queue("a"), queue("b")), vcore=10)
    world.app("a", ask(priority=1))
    world.app("b", ask(priority=2), vcore=9)

    assert world.order() == ["b", "a"]


def test_the_offset_shifts_a_queue_and_the_fence_replaces_it() -> None:
    world = World(
        configuration(
            queue("a", properties=props(priority_offset="5")),
            queue("b"),
            queue("c", properties=props(priority_policy="fence", priority_offset="-1")),
        ),
        vcore=10,
    )
    for path, priority in (("a", 1), ("b", 4), ("c", 1000)):
        world.app(path, ask(priority=priority))

    assert world.order() == ["a", "b", "c"]
    assert [world.leaf(path).priority for path in "abc"] == [6, 4, -1]


def test_then_the_fair_share_ascending() -> None:
    world = World(configuration(queue("a"), queue("b"), queue("c")), vcore=10)
    for path, used in (("a", 3), ("b", 1), ("c", 2)):
        world.app(path, ask(), vcore=used)

    assert world.order() == ["b", "c", "a"]
    assert world.leaf("a").fair_share(world.total) == 0.3


def test_then_more_pending_first_then_the_path() -> None:
    world = World(configuration(queue("a"), queue("b"), queue("c")), vcore=10)
    for path, wanted in (("a", 1), ("b", 1), ("c", 2)):
        world.app(path, ask(vcore=wanted))

    assert world.order() == ["c", "a", "b"]


def test_a_share_of_what_is_not_there_is_infinite() -> None:
    world = World(configuration(queue("a"), queue("b")))
    world.app("a", ask(), gpu=1)
    world.app("b", ask())

    assert world.order() == ["b", "a"]
    assert world.leaf("a").fair_share(world.total) == inf


def test_without_priorities_only_share_pending_and_path_count() -> None:
    world = World(
        configuration(
            queue("a"),
            queue("b", properties=props(queue_priority="9", priority_offset="9")),
            props=props(application_sort_priority="disabled"),
        ),
        vcore=10,
    )
    world.app("a", ask(priority=-5), vcore=1)
    world.app("b", ask(priority=5), vcore=2)

    assert world.order() == ["a", "b"]


def test_a_parent_without_anything_placeable_has_no_first() -> None:
    world = World(configuration(queue("a"))).refresh()

    with pytest.raises(AssertionError, match="nothing can be placed"):
        world.parent().first(EVERY_SHAPE, EVERY_SHAPE)


# Quota


def test_an_overused_queue_does_not_enter() -> None:
    world = World(configuration(queue("a", resources={"max": {"vcore": "2m"}}), queue("b")))
    world.app("a", ask(vcore=2), vcore=1)
    world.app("b", ask())

    assert world.order() == ["b"]
    assert world.leaf("a").priority == 0


def test_a_parent_enters_if_a_leaf_below_does() -> None:
    limited = {"max": {"vcore": "2m"}}
    world = World(configuration(queue("a", queue("b"), queue("c"), resources=limited)))
    world.app("a.b", ask(vcore=3))
    world.app("a.c", ask(vcore=2))

    assert world.order() == ["a"]
    assert list(bits_of(world.parent("root.a").open)) == [world.shapes.find(ask(vcore=2).shape)]


def test_the_quotas_of_all_ancestors_count() -> None:
    world = World(
        configuration(queue("a", queue("b"), resources={"max": {"vcore": "2m"}}), queue("c"))
    )
    world.app("a.b", ask(vcore=1), vcore=2)

    assert world.order() == []
    assert world.leaf("a.b").open != 0


def test_a_max_of_zero_allows_nothing_and_an_unnamed_type_everything() -> None:
    world = World(configuration(queue("a", resources={"max": {"gpu": "0"}})))
    world.app("a", ask("no", gpu=1, vcore=1), ask("yes", vcore=999))

    assert world.choices("a") == ["p1/yes"]


def test_headroom_below_zero_lets_other_types_through() -> None:
    world = World(configuration(queue("a", resources={"max": {"vcore": "2m"}})))
    world.app("a", ask("no", vcore=1), ask("yes", memory=1), vcore=5)

    assert world.choices("a") == ["p1/yes"]


def test_a_child_that_leaves_is_listed_no_more() -> None:
    world = World(configuration(queue("a"), queue("b")))
    world.app("a", ask(priority=9))
    world.app("b", ask(priority=1))
    world.refresh()
    parent = world.parent()
    parent.remove(world.leaf("a"))

    assert parent.first(EVERY_SHAPE, EVERY_SHAPE) is world.leaf("b")
    assert parent.tally.top() == 1


# What is to be tried whether it fits or not


def with_member(world: World, path: str, vcore: int = 1) -> None:
    """Put in an application with a member of a gang that is to be visited."""
    app = world.app(path)
    leaf = world.leaf(path)
    one = ask(vcore=vcore)._replace(gang="g")
    bit = world.shapes.find(one.shape) or world.shapes.add(one.shape)
    app.slots["g"] = Slot(app, "g", 1, offer=Offer.FIRST)
    leaf.slots += 1
    leaf.count_shape(bit, 1)
    app.add(one, bit)
    world.count(leaf, pending=one.resources)


def test_a_leaf_with_a_member_to_visit_is_visited_all_the_way() -> None:
    world = World(configuration(queue("a", queue("b"), queue("c"))))
    with_member(world, "a.b")
    world.refresh()

    assert world.leaf("a.b").visiting == world.parent().visiting != 0
    assert world.parent().open == 0
    assert world.parent("root.a").first(0, EVERY_SHAPE) is world.leaf("a.b")
    chosen = world.leaf("a.b").choose(VISIT)
    assert chosen is not None
    assert chosen[2].gang == "g"


def test_a_leaf_that_does_not_enter_is_not_visited() -> None:
    limited = {"max": {"vcore": "3m"}}
    world = World(configuration(queue("a", queue("b"), queue("c"), resources=limited)))
    with_member(world, "a.b", vcore=4)
    world.refresh()
    assert world.leaf("a.b").visiting
    assert not world.parent().visiting

    # Another ask of the leaf that fits the headroom lets it enter.
    world.app("a.b", ask(vcore=3))
    world.refresh()
    assert world.parent().visiting


def test_in_an_exact_round_every_leaf_is_visited_that_has_something_to_try() -> None:
    world = World(configuration(queue("a"), queue("b")))
    world.app("a", ask())
    world.app("b")
    world.refresh()
    for path in ("a", "b"):
        world.leaf(path).refresh(world.shapes, world.total, exact=True)

    assert world.leaf("a").visiting
    assert not world.leaf("b").visiting


def test_an_application_that_waits_is_running_for_a_limit() -> None:
    world = World(configuration(queue("a", maxapplications="1")))
    held = Allocation(ask("held"), "n", 1)
    waits = world.app("a", ask(), waiting=held)
    world.app("a", ask())

    assert waits.running
    assert world.leaf("a").is_full()
    assert world.choices("a") == ["p1/x"]
