"""Leaves as a round sees them: the order of applications, gates, strict order."""

from __future__ import annotations

import pytest

from muster_core.structures.shapes import EVERY_SHAPE
from muster_core.values.application_states import AppState
from tests.core.building import ask, configuration, queue
from tests.core.view.helpers import props
from tests.core.view.tree.world import World

# Applications of a leaf


def three(world: World) -> World:
    """Put in three applications of falling age and rising priority, the oldest using most."""
    for number in range(3):
        world.app("a", ask(priority=number), vcore=9 - 3 * number)
    return world


@pytest.mark.parametrize(
    ("policy", "by_priority", "expected"),
    [
        ("fifo", "enabled", ["p3/x", "p2/x", "p1/x"]),
        ("fifo", "disabled", ["p1/x", "p2/x", "p3/x"]),
        ("fair", "enabled", ["p3/x", "p2/x", "p1/x"]),
        ("fair", "disabled", ["p3/x", "p2/x", "p1/x"]),
    ],
)
def test_the_policies(policy: str, by_priority: str, expected: list[str]) -> None:
    properties = props(application_sort_policy=policy, application_sort_priority=by_priority)
    world = three(World(configuration(queue("a", properties=properties)), vcore=10))

    assert world.choices("a") == expected


def test_fair_goes_from_the_largest_share_down_then_by_age() -> None:
    leaf = queue("a", properties=props(application_sort_policy="fair"))
    world = World(configuration(leaf), vcore=10, memory=10)
    world.app("a", ask(), vcore=5, memory=2)
    world.app("a", ask(), vcore=1, memory=5)
    world.app("a", ask(), vcore=5, memory=1)
    world.app("a", ask())

    assert world.choices("a") == ["p4/x", "p2/x", "p3/x", "p1/x"]


def test_fair_compares_with_what_the_leaf_is_guaranteed() -> None:
    resources = {"guaranteed": {"vcore": "100m"}}
    leaf = queue("a", properties=props(application_sort_policy="fair"), resources=resources)
    world = World(configuration(leaf), vcore=1000, memory=1000)
    world.app("a", ask(), memory=50)
    world.app("a", ask(), vcore=10)
    world.app("a", ask(), memory=200)

    assert world.choices("a") == ["p1/x", "p2/x", "p3/x"]


def state_aware(by_priority: str = "enabled") -> World:
    properties = props(application_sort_policy="stateaware", application_sort_priority=by_priority)
    return World(configuration(queue("a", properties=properties)), vcore=10)


def test_one_accepted_application_beside_the_running_ones() -> None:
    world = state_aware("disabled")
    for state in (AppState.ACCEPTED, AppState.RUNNING, AppState.ACCEPTED, AppState.RUNNING):
        world.app("a", ask(), state=state)

    assert world.choices("a") == ["p1/x", "p2/x", "p4/x"]


def test_it_is_that_of_highest_priority_then_the_oldest() -> None:
    world = state_aware()
    for priority in (1, 3, 3, 2):
        world.app("a", ask(priority=priority))

    assert world.choices("a") == ["p2/x"]


def test_a_starting_application_keeps_accepted_ones_out() -> None:
    world = state_aware()
    world.app("a", ask(priority=9))
    world.app("a", state=AppState.STARTING)

    assert world.choices("a") == []


def test_one_starting_application_with_pending_asks_competes() -> None:
    world = state_aware()
    world.app("a", state=AppState.STARTING)
    world.app("a", ask(), state=AppState.STARTING)
    world.app("a", ask(), state=AppState.STARTING)

    assert world.choices("a") == ["p2/x"]


# Gates and strict order


def test_an_application_that_runs_is_not_kept_out_by_itself() -> None:
    world = World(configuration(queue("a", maxapplications="1")))
    world.app("a", ask(), state=AppState.RUNNING)
    world.app("a", ask())

    assert world.leaf("a").is_full()
    assert world.choices("a") == ["p1/x"]


def test_over_a_limit_that_was_lowered_what_runs_is_tried_on() -> None:
    world = World(configuration(queue("a", maxapplications="1")))
    world.app("a", ask(), state=AppState.RUNNING)
    world.app("a", ask(), state=AppState.STARTING)
    world.app("a", ask())

    assert world.leaf("a").is_full()
    assert world.choices("a") == ["p1/x", "p2/x"]


def test_the_limit_of_an_ancestor_counts_everything_below_it() -> None:
    limit = {"maxapplications": "1"}
    world = World(configuration(queue("a", queue("b", **limit), queue("c", **limit), **limit)))
    world.app("a.b", ask(), state=AppState.RUNNING)
    world.app("a.c", ask())

    assert world.choices("a.c") == []
    assert world.choices("a.b") == ["p1/x"]


BLOCKING = props(application_sort_blocking="enabled")


def test_a_blocking_leaf_offers_only_its_first_ask() -> None:
    world = World(configuration(queue("a", properties=BLOCKING)))
    first = world.app("a", ask("big", vcore=9), ask("small", vcore=1))
    world.refresh()

    bit = world.shapes.find(first.pending["big"].shape)
    assert world.leaf("a").open == 1 << (bit or 0)
    assert world.leaf("a").choose(EVERY_SHAPE ^ world.leaf("a").open) is None


def test_a_blocked_leaf_offers_nothing() -> None:
    world = World(configuration(queue("a", properties=BLOCKING)))
    world.app("a", ask())
    world.refresh()
    leaf = world.leaf("a")
    leaf.blocked = True
    for above in leaf.upward():
        above.refresh(world.shapes, world.total, False)

    assert leaf.open == 0
    assert world.parent().open == 0


def test_a_blocking_leaf_below_a_limit_waits_for_its_turn() -> None:
    world = World(
        configuration(
            queue("a", queue("b", properties=BLOCKING, maxapplications="3"), maxapplications="3")
        )
    )
    world.app("a.b", ask())
    world.refresh()

    assert world.leaf("a.b").visiting
    assert world.parent().visiting


def test_a_limit_of_its_own_needs_no_waiting() -> None:
    world = World(configuration(queue("a", properties=BLOCKING, maxapplications="3")))
    world.app("a", ask())
    world.refresh()

    assert not world.leaf("a").visiting


def test_an_application_that_leaves_takes_its_priority_along() -> None:
    world = World(configuration(queue("a")))
    leaving = world.app("a", ask(priority=9))
    world.app("a", ask(priority=1))
    world.refresh()
    leaf = world.leaf("a")
    leaf.remove(leaving)
    for above in leaf.upward():
        above.refresh(world.shapes, world.total, False)

    assert (leaf.priority, world.parent().priority) == (1, 1)


def test_what_is_allocated_counts_in_the_values() -> None:
    world = World(configuration(queue("a")))
    world.app("a", ask(priority=3), vcore=2)
    world.refresh()

    values = world.leaf("a").values()
    assert (values.priority, values.pending, values.allocated) == (3, {"vcore": 1}, {"vcore": 2})
