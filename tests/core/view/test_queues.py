"""Queues and leaves as a round sees them.

Order, quota, gates, strict order, estimates, what is to be visited.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import pytest

from muster_core.config.model import Configuration, QueueConfig
from muster_core.nodes.node import Node
from muster_core.owners.asks import Allocation, AppIdentity, Ask
from muster_core.structures.amounts import add_to, add_to_row
from muster_core.structures.shapes import EVERY_SHAPE, ShapeTable, bits_of
from muster_core.structures.steps import all_at_once
from muster_core.values.application_states import AppState
from muster_core.values.configuration import Settings
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import Offer, Slot
from muster_core.view.tree.leaf import Estimates, LeafView
from muster_core.view.tree.queue import VISIT, ParentView, ViewQueue
from tests.core.building import ask, configuration, identity, queue
from tests.core.tree import props


class World:
    """Queues and applications, put in place by hand and brought up to date.

    Args:
        config: The queues.
        total: What the partition has.
    """

    def __init__(self, config: Configuration, **total: int) -> None:
        self.shapes = ShapeTable()
        self.total = total
        self.queues: dict[str, ViewQueue] = {}
        self.shapes.types.call_when_grown(self._lengthen_rows)
        self._enter(config.root, None)

    def _lengthen_rows(self) -> None:
        for one in self.queues.values():
            one.lengthen()

    def _enter(self, config: QueueConfig, parent: ParentView | None) -> None:
        kind = ParentView if config.is_parent else LeafView
        depth = 0 if parent is None else parent.depth + 1
        made = kind(len(self.queues) + 1, parent, config, self.shapes.types, depth)
        self.queues[config.path] = made
        if parent is not None:
            parent.add(made)
        if isinstance(made, ParentView):
            for child in config.children:
                self._enter(child, made)

    def leaf(self, path: str) -> LeafView:
        found = self.queues[f"root.{path}"]
        assert isinstance(found, LeafView)
        return found

    def parent(self, path: str = "root") -> ParentView:
        found = self.queues[path]
        assert isinstance(found, ParentView)
        return found

    def app(
        self,
        path: str,
        *asks: Ask,
        state: AppState = AppState.ACCEPTED,
        waiting: Allocation | None = None,
        **allocated: int,
    ) -> ViewApp:
        """Put an application with pending asks into a leaf."""
        leaf = self.leaf(path)
        key = 1 + sum(len(one.apps) for one in self.queues.values() if isinstance(one, LeafView))
        app = ViewApp(AppIdentity(key, f"p{key}", leaf.key, leaf.config.path), state)
        leaf.apps[key] = app
        if waiting is not None:
            app.waiting[waiting.ask.name] = (waiting, Node("n", {}, {}, schedulable=True))
        leaf.starting += state is AppState.STARTING
        add_to(app.allocated, allocated)
        for one in asks:
            bit = self.shapes.find(one.shape) or self.shapes.add(one.shape)
            app.add(one, bit)
            leaf.count_shape(bit, 1)
        for above in leaf.upward():
            above.running += app.running
        self.count(leaf, allocated=allocated)
        for one in asks:
            self.count(leaf, pending=one.resources)
        return app

    def count(
        self,
        leaf: LeafView,
        *,
        pending: Mapping[str, int] | None = None,
        allocated: Mapping[str, int] | None = None,
    ) -> None:
        """Add amounts to the sums of a leaf and its ancestors."""
        types = self.shapes.types
        for above in leaf.upward():
            add_to_row(above.asked, types.numbered(pending or {}))
            add_to_row(above.asked, types.numbered(allocated or {}))
            add_to_row(above.allocated, types.numbered(allocated or {}))

    def refresh(self) -> World:
        for one in self.queues.values():
            if isinstance(one, LeafView):
                all_at_once(one.reorder(self.total))
        for one in sorted(self.queues.values(), key=lambda queue: -queue.depth):
            one.refresh(self.shapes, self.total, False)
        for one in self.queues.values():
            one.check(self.shapes, self.total)
        return self

    def order(self, path: str = "root") -> list[str]:
        """Return the children of a parent in order, by their own names."""
        self.refresh()
        parent = self.parent(path)
        listed = [child for child in parent.children.values() if child.open]
        best = sorted(listed, key=lambda child: child.key_in(parent, self.total))
        assert not best or parent.first(EVERY_SHAPE, EVERY_SHAPE) is best[0]
        return [child.config.name for child in best]

    def choices(self, path: str) -> list[str]:
        """Try every ask of a leaf, none of which is placed; return them as ``application/ask``."""
        leaf = self.leaf(path)
        tried: list[str] = []
        self.refresh()
        while leaf.open:
            chosen = leaf.choose(leaf.open)
            assert chosen is not None
            app, bit, best = chosen
            tried.append(f"{app.identity.name}/{best.name}")
            app.tried(best, bit)
            leaf.list_app(app, self.total)
            self.refresh()
        return tried


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
    """Enter an application with a member of a gang that a round should visit."""
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


BIT = 3


def test_the_shortest_that_is_pending() -> None:
    app = ViewApp(identity())
    asks = [ask(f"k{s}")._replace(estimate_us=s) for s in (7, 3, 5)]
    for one in asks:
        app.add(one, BIT)
    estimates = Estimates(Settings(), ((app, one, BIT) for one in asks))
    assert estimates.shortest(BIT) == 3
    assert estimates.shortest(BIT + 1) is None

    app.remove(asks[1], BIT)

    assert estimates.shortest(BIT) == 5
    assert [found.name for _, found in estimates.below(BIT, 7)] == ["k5"]


def test_asks_without_an_estimate_have_that_of_the_leaf() -> None:
    app, settings = ViewApp(identity()), Settings(estimate_us=9)
    one = ask("k")
    app.add(one, BIT)

    assert Estimates(settings, [(app, one, BIT)]).shortest(BIT) == 9
    assert Estimates(Settings(), [(app, one, BIT)]).shortest(BIT) is None
    assert not Estimates(settings, []).is_for(Settings())


def test_what_is_added_again_and_again_is_kept_once() -> None:
    app = ViewApp(identity())
    one = ask("k")._replace(estimate_us=5)
    app.add(one, BIT)
    estimates = Estimates(Settings(), [])

    for _ in range(300):
        estimates.add(app, one, BIT)

    assert estimates.shortest(BIT) == 5
    assert len(list(estimates.below(BIT, 6))) < 300
