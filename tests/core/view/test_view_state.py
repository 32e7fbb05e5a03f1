"""What the view knows: what owners report, what is computed from it and when, scopes, and limits
of users and groups.
"""

from __future__ import annotations

import attrs
import pytest

from muster._pure import is_compiled
from muster_core.config.model import Configuration, LimitEntry, Limits
from muster_core.decisions import Decision, Kind
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    Configure,
    Event,
    Release,
    RemoveApp,
    RemoveNode,
    UpdateNode,
)
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources
from muster_core.snapshots import LimitSnapshot
from muster_core.structures.amounts import Types
from muster_core.structures.shapes import KEPT_IDLE, ShapeTable
from muster_core.values.application_states import AppState
from muster_core.values.configuration import QueueConfig, SchedulingOrder, Settings, TypicalAsk
from muster_core.values.devices import DeviceNeed
from muster_core.view.state.history import DeviceDemand
from muster_core.view.state.queue_settings import Scopes
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import LimitKey, ViewLimit
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView
from tests.core.building import MAY_CREATE, ask, configuration, identity, queue, shape, wish
from tests.core.tree import Tree, lines_of, make_tree, props


def test_one_of_those_that_a_limit_lets_in_starts() -> None:
    tree = make_tree("n", config=configuration(queue("a", maxapplications="1")))
    tree.add_app("p")
    tree.add_app("q")
    tree.settle(wish("p", "x", 1), wish("q", "y", 2), wish("q", "z", 2))
    tree.check()
    assert tree.bound() == ["q/y n", "q/z n"]

    tree.settle(RemoveApp("q"))
    tree.check()
    assert tree.bound()[2:] == ["p/x n"]


# ORDER-2, LISTS-5
def test_a_queue_is_overused_when_none_of_its_pending_asks_fits() -> None:
    limited = queue("a", resources={"max": {"vcore": "4m", "memory": "1G"}})
    tree = make_tree("n", config=configuration(limited, queue("b")))
    tree.add_app("p", "root.a")
    tree.add_app("q", "root.b")
    tree.settle(wish("p", "x", vcore=3))
    view, queues = tree.machine.view, tree.machine.registry.queues
    a, b = (view.queues[queues[path].key] for path in ("root.a", "root.b"))
    assert not view.is_overused(a)

    tree.settle(wish("p", "y", vcore=2), wish("q", "z", vcore=20))

    assert (view.is_overused(a), view.types_that_keep_out(a)) == (True, ["vcore"])
    # No node has room for its ask, and no limit keeps that out.
    assert (view.is_overused(b), view.types_that_keep_out(b)) == (False, [])


def test_capacity_that_shrinks_under_what_is_used_evicts_nobody() -> None:
    tree = make_tree("n", vcore=4)
    tree.add_app("p")
    tree.settle(wish("p", vcore=4))
    tree.settle(UpdateNode("n", Resources({"vcore": 2})), wish("p", "y"))
    tree.check()
    assert tree.bound() == ["p/x n"]

    tree.settle(Release("p", "x"))
    assert tree.bound() == ["p/x n", "p/y n"]


def test_a_max_that_is_lowered_under_what_is_allocated() -> None:
    def config(most: str) -> Configuration:
        return configuration(queue("a", resources={"max": {"vcore": most}}))

    tree = make_tree("n", config=config("4m"), vcore=10, memory=10)
    tree.add_app("p")
    tree.settle(wish("p", vcore=4))
    tree.settle(Configure(config("2m")), wish("p", "y", vcore=1), wish("p", "z", memory=1))
    tree.check()

    assert tree.bound() == ["p/x n", "p/z n"]


def test_shapes_are_forgotten_and_their_bits_used_again() -> None:
    tree = make_tree("n", vcore=10_000)
    tree.add_app("p")
    for amount in range(1, 3 * KEPT_IDLE):
        tree.settle(wish("p", f"x{amount}", vcore=amount), wish("p", f"y{amount}", gpu=amount))
        tree.settle(Release("p", f"x{amount}"))
        if amount % 40 == 0:
            tree.check()

    assert len(tree.bound()) == 3 * KEPT_IDLE - 1
    tree.settle(AddNode("g", Resources({"gpu": 1})))
    assert tree.bound()[-1] == "p/y1 g"
    tree.check()


@pytest.mark.skipif(is_compiled(), reason="those of a compiled class are found at once")
def test_it_has_so_few_attributes_that_they_are_found_quickly() -> None:
    assert len(vars(ViewState())) < 30


def test_room_that_comes_free_is_used_at_once() -> None:
    tree = make_tree("n", vcore=1)
    tree.add_app("p")
    tree.settle(wish("p", count=2))
    assert tree.bound() == ["p/x-0 n"]

    tree.settle(Release("p", "x-0"))
    tree.check()
    assert tree.bound() == ["p/x-0 n", "p/x-1 n"]


def test_a_lost_node_and_another_of_its_name_in_one_batch() -> None:
    tree = make_tree("n", vcore=2)
    tree.add_app("p")
    tree.settle(wish("p", count=2))
    new = AddNode("n", Resources({"vcore": 1}))
    decisions = tree.settle(RemoveNode("n"), new)
    tree.check()

    assert lines_of(decisions) == [
        *("released p/x-0 n", "released p/x-1 n", "assigned p/x-0 n", "bound p/x-0 n"),
        *("root 0", "root.a 0"),
    ]


def test_a_policy_that_changes_with_the_applications() -> None:
    def config(policy: str) -> Configuration:
        return configuration(queue("a", properties=props(application_sort_policy=policy)))

    tree = make_tree(config=config("fifo"))
    tree.add_app("p")
    tree.settle(wish("p"))
    tree.enter(Configure(config("fair")))
    tree.add_app("q")
    tree.settle(wish("q"), wish("p", "y"))
    tree.check()

    assert tree.settle(AddNode("n", Resources({"vcore": 2})))
    assert tree.bound() == ["p/x n", "q/x n"]


@pytest.mark.parametrize("back", [False, True])
def test_a_leaf_becomes_a_parent_in_the_batch_in_which_it_empties(back: bool) -> None:
    leaf = configuration(queue("a"))
    parent = configuration(queue("a", parent="true", properties=MAY_CREATE))
    tree = make_tree("n", config=parent if back else leaf)
    tree.add_app("p", "a.x" if back else "a")
    tree.settle(wish("p", vcore=99))
    tree.enter(RemoveApp("p"), Configure(leaf if back else parent))
    tree.add_app("p", "a" if back else "a.x")
    tree.settle(wish("p"))
    tree.check()

    assert tree.bound() == ["p/x n"]


def test_a_queue_made_on_the_fly_twice_in_one_batch() -> None:
    tree = make_tree("n", config=configuration())
    tree.add_app("p", "made.up")
    tree.settle(wish("p", "x", 5, vcore=99))
    tree.enter(RemoveApp("p"))
    tree.add_app("p", "made.up")
    tree.enter(RemoveApp("p"))
    tree.add_app("p", "made.up")
    tree.settle(wish("p", "y", 6, vcore=99))
    tree.check()

    assert tree.snapshot().queues["root.made.up"].priority == 6


ONE = (("gpu", DeviceNeed(count=1)),)
WANTED = Resources({"vcore": 1000, "memory": 5, "device/gpu": 1000})
WEIGHTS = (("vcore", 1.0), ("device/gpu", 0.0))


# DEVICE-18
def test_it_is_taken_when_there_is_some_and_when_it_is_twice_as_much() -> None:
    learned = DeviceDemand()
    taken = [learned.take(WEIGHTS)]
    for _ in range(9):
        learned.note([(ONE, WANTED, 1)])
        taken.append(learned.take(WEIGHTS))
    assert [at for at, was in enumerate(taken) if was] == [1, 2, 4, 8]
    assert learned.taken == (TypicalAsk(ONE, Resources({"vcore": 1000}), 8),)


def test_the_weights_count_that_are_in_force_when_it_is_taken() -> None:
    learned = DeviceDemand()
    learned.note([(ONE, WANTED, 3)])
    assert learned.take(())
    assert learned.taken == (TypicalAsk(ONE, Resources(), 3),)
    assert not learned.take(WEIGHTS)


# CHECKPOINT-4, CHECKPOINT-5
def test_it_is_saved_and_loaded() -> None:
    learned, again = DeviceDemand(), DeviceDemand()
    learned.note([(ONE, WANTED, 3), ((("nic", DeviceNeed(milli=5)),), WANTED, 1)])
    learned.take(WEIGHTS)
    learned.note([(ONE, WANTED, 3)])
    again.load(learned.facts())
    assert (again.facts(), again.taken) == (learned.facts(), learned.taken)
    for one in (learned, again):
        assert not one.take(WEIGHTS)
        one.note([(ONE, WANTED, 1)])
        assert one.take(WEIGHTS)
    assert again.taken == learned.taken


ORDERS = {"s": SchedulingOrder.STRICT, "b": SchedulingOrder.BACKFILL, "g": SchedulingOrder.GREEDY}


def line(orders: str) -> tuple[Scopes, list[ParentView | LeafView]]:
    """Return the scopes of one path, from the root down to a leaf, with these orders."""
    queues: list[ParentView | LeafView] = []
    scopes = Scopes({})
    for key, order in enumerate(orders):
        above = queues[-1] if queues else None
        assert above is None or isinstance(above, ParentView)
        settings = Settings(scheduling_order=ORDERS[order])
        is_parent = key < len(orders) - 1
        config = QueueConfig(f"q{key}", f"q{key}", is_parent=is_parent, settings=settings)
        tree = ParentView if is_parent else LeafView
        queues.append(tree(key, above, config, Types()))
        scopes.note_settings(queues[-1])
    return scopes, queues


def scope_of(orders: str) -> int | None:
    scopes, queues = line(orders)
    leaf = queues[-1]
    assert isinstance(leaf, LeafView)
    found = scopes.of(leaf)
    return None if found is None else found.key


def test_the_topmost_order_rules() -> None:
    # BACKFILL-2
    assert scope_of("ggg") is None
    assert scope_of("gsb") == 1
    assert scope_of("bss") == 0
    assert scope_of("ggs") == 2


def test_strict_and_backfill() -> None:
    # BACKFILL-4
    for orders, strict, backfill in (("gsb", 1, None), ("gbs", None, 1), ("ggg", None, None)):
        scopes, queues = line(orders)
        leaf = queues[-1]
        assert isinstance(leaf, LeafView)
        found = scopes.strict(leaf), scopes.backfill(leaf)
        assert [None if one is None else one.key for one in found] == [strict, backfill]
        assert [queue.key for queue in queues if scopes.is_strict(queue)] == (
            [] if strict is None else [strict]
        )


def test_a_queue_that_is_gone_makes_no_scope() -> None:
    scopes, queues = line("gsg")
    assert scopes
    scopes.forget(queues[1])

    assert not scopes


def limited(*entries: dict[str, object], **properties: str) -> Configuration:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return configuration(queue("a", limits=list(entries), properties=named), queue("b"), queue("c"))


def user(name: str = "u", **amounts: int) -> dict[str, object]:
    return {"users": [name], "maxresources": {kind: f"{n}m" for kind, n in amounts.items()}}


def tree_with_apps(config: Configuration, *apps: Event, vcore: int = 100) -> Tree:
    tree = Tree(config)
    tree.add_nodes("n", vcore=vcore)
    tree.enter(*apps)
    return tree


def bound(decisions: list[Decision]) -> list[str]:
    return [f"{one.app}/{one.ask}" for one in decisions if one.kind is Kind.BOUND]


def limits_of(tree: Tree) -> dict[LimitKey, dict[str, int]]:
    tree.machine.view.check()
    found = {
        limit.key: limit.used for app in tree.machine.view.apps.values() for limit in app.limits
    }
    return dict(sorted(found.items()))


P = AddApp("p", "a", user="u", groups=("g",))


def test_a_snapshot_has_what_users_and_groups_have_of_their_limits() -> None:
    config = configuration(
        queue("a", limits=[user(vcore=2), {"groups": ["g"], "maxapplications": 5}]),
        limits=[{"users": ["*"], "maxresources": {"vcore": "9m"}}],
    )
    tree = tree_with_apps(config, P, AddApp("q", "a"))
    tree.settle(wish("p", vcore=2), wish("q"))

    def amount(value: int) -> dict[str, int]:
        return {"vcore": value}

    assert tree.snapshot().limits == (
        LimitSnapshot("root", None, None, amount(9), 0, amount(1), 1),
        LimitSnapshot("root", "u", None, amount(9), 0, amount(2), 1),
        LimitSnapshot("root.a", "u", None, amount(2), 0, amount(2), 1),
        LimitSnapshot("root.a", None, "g", {}, 5, amount(2), 1),
    )
    apps = tree.snapshot().apps
    assert [(app.user, app.group) for app in apps.values()] == [("u", "g"), (None, None)]


def test_an_application_without_limits_has_none() -> None:
    tree = tree_with_apps(limited(user("v", vcore=1)), P)
    tree.settle(wish("p", count=3))

    assert limits_of(tree) == {}


def test_usage_follows_binds_and_releases() -> None:
    tree = tree_with_apps(limited(user(vcore=2)), P)

    assert bound(tree.settle(wish("p", count=3))) == ["p/x-0", "p/x-1"]
    assert list(limits_of(tree).values()) == [{"vcore": 2}]
    assert bound(tree.settle(Release("p", "x-0"))) == ["p/x-2"]
    tree.settle(RemoveApp("p"))
    assert limits_of(tree) == {}


def test_a_smaller_ask_behind_one_that_is_over_the_limit_is_tried() -> None:
    tree = tree_with_apps(limited(user(vcore=2)), P)

    assert bound(tree.settle(wish("p", "large", vcore=3), wish("p", "small"))) == ["p/small"]


def test_a_new_shape_is_held_against_the_limit() -> None:
    tree = tree_with_apps(limited(user(vcore=2)), P)
    tree.settle(wish("p"))

    assert bound(tree.settle(wish("p", "y", vcore=2))) == []
    assert bound(tree.settle(wish("p", "z"))) == ["p/z"]


def test_an_application_of_the_same_user_elsewhere_counts_in_a_common_queue_alone() -> None:
    config = configuration(
        queue("a", limits=[user(vcore=2)]),
        queue("b"),
        limits=[{"users": ["*"], "maxresources": {"vcore": "3m"}}],
    )
    tree = tree_with_apps(config, P, AddApp("q", "b", user="u"), AddApp("r", "b", user="v"))

    tree.settle(wish("p", count=2))
    tree.settle(wish("q", count=3), wish("r", count=4))

    found = {(key.queue, key.name): used["vcore"] for key, used in limits_of(tree).items()}
    assert found == {(1, "u"): 3, (1, "v"): 3, (2, "u"): 2}


@pytest.mark.parametrize("mode", list(GangMode))
def test_waiting_members_count(mode: GangMode) -> None:
    tree = tree_with_apps(limited(user(vcore=2)), P, AddApp("q", "b", user="w"))
    says = GangFields(min_member=3, mode=mode)
    member = AddAsk("p", "m", Resources({"vcore": 1}), count=2, gang="default/g")
    late = AddAsk("q", "m", Resources({"vcore": 1}), gang="default/g")
    tree.enter(AddGang("default/g", says))

    tree.settle(member, wish("p"))
    assert list(limits_of(tree).values()) == [{"vcore": 1}], "the gang lacks a member"
    decisions = tree.settle(late)
    full = mode is GangMode.STRICT  # Its members fail, and nobody of the group keeps a node.
    assert bound(decisions) == []
    assert list(limits_of(tree).values()) == [{"vcore": 1 if full else 2}]


def test_a_new_configuration_finds_the_limits_again() -> None:
    tree = tree_with_apps(limited(user(vcore=1)), P)
    tree.settle(wish("p", count=9))

    assert bound(tree.settle(Configure(limited(user(vcore=3))))) == ["p/x-1", "p/x-2"]
    group: dict[str, object] = {"groups": ["g"], "maxresources": {"vcore": "5m"}}
    assert bound(tree.settle(Configure(limited(group)))) == ["p/x-3", "p/x-4"]
    assert [key.of_group for key in limits_of(tree)] == [True]
    assert bound(tree.settle(Configure(limited()))) == ["p/x-5", "p/x-6", "p/x-7", "p/x-8"]
    assert limits_of(tree) == {}


def test_an_application_that_comes_after_an_equal_configuration_counts_for_the_same_limit() -> None:
    tree = tree_with_apps(limited(user(vcore=2)), P)
    tree.settle(wish("p"))

    tree.enter(Configure(limited(user(vcore=2), queue_priority="1")), AddApp("q", "a", user="u"))
    assert bound(tree.settle(wish("q", count=2))) == ["q/x-0"]
    assert list(limits_of(tree).values()) == [{"vcore": 2}]


def test_a_lowered_number_of_applications_does_not_keep_those_that_run() -> None:
    def config(most: int) -> Configuration:
        return limited({"users": ["u"], "maxapplications": most})

    tree = tree_with_apps(config(2), P, AddApp("q", "a", user="u"), AddApp("r", "a", user="u"))
    tree.settle(wish("p"), wish("q"))
    assert bound(tree.settle(Configure(config(1)), wish("p", "y"), wish("q", "y"))) == [
        "p/y",
        "q/y",
    ]
    assert bound(tree.settle(wish("r"))) == []
    tree.settle(RemoveApp("p"))
    assert bound(tree.settle(RemoveApp("q"))) == ["r/x"]


def limit(applications: int = 0, **most: int) -> ViewLimit[ViewApp]:
    entry = LimitEntry(users=("u",), max=Limits.of(most), max_applications=applications)
    return ViewLimit(LimitKey(1, of_group=False, name="u"), "root", entry)


def app(key: int = 1, *, runs: bool = False, **allocated: int) -> ViewApp:
    made = ViewApp(identity(key), allocated=dict(allocated))
    made.state = AppState.RUNNING if runs else AppState.ACCEPTED
    return made


def test_the_sum_of_all_applications_counts() -> None:
    made = limit(vcore=5)
    one, two = app(1, vcore=2), app(2, vcore=1, memory=7)
    made.add(one)
    made.add(two)
    made.check(ShapeTable())

    assert made.used == {"vcore": 3, "memory": 7}
    assert made.admits_more(ask(vcore=2))
    assert not made.admits_more(ask(vcore=3))

    made.remove(one)
    made.check(ShapeTable())
    assert made.admits_more(ask(vcore=3))


def test_a_type_that_is_not_named_is_not_limited_and_0_allows_nothing() -> None:
    made = limit(vcore=1, gpu=0)

    assert made.admits_more(ask(memory=10**15))
    assert not made.admits_more(ask(gpu=1))


def test_who_is_over_a_lowered_limit_may_ask_for_other_types() -> None:
    made = limit(vcore=1)
    made.add(app(vcore=9))

    assert not made.admits_more(ask(vcore=1))
    assert made.admits_more(ask(memory=1))


def test_it_refuses_the_shapes_that_do_not_fit() -> None:
    shapes, made = ShapeTable(), limit(vcore=5)
    small, large = shapes.add(shape(vcore=1)), shapes.add(shape(vcore=4))
    made.add(app(vcore=2))

    assert made.refresh(shapes)
    assert made.refuses == 1 << large != 1 << small
    assert not made.refresh(shapes), "nothing has changed"


def test_without_maxresources_it_refuses_nothing() -> None:
    shapes, made = ShapeTable(), limit(applications=1)
    shapes.add(shape(vcore=10**15))

    assert not made.refresh(shapes)
    assert made.refuses == 0


def test_gangs_that_are_offered_together_are_never_refused() -> None:
    shapes, made = ShapeTable(), limit(vcore=1)
    shapes.add(attrs.evolve(shape(vcore=9), members=9))

    assert not made.refresh(shapes)


def test_it_is_full_while_as_many_run_as_may() -> None:
    made = limit(applications=1)
    runs = app(1, runs=True)
    made.add(runs)
    assert made.refresh(ShapeTable()), "who does not run must wait"

    waits = app(2)
    waits.limits = runs.limits = (made,)
    assert waits.must_wait()
    assert not runs.must_wait()

    made.remove(runs)
    assert not waits.must_wait()


def test_0_applications_are_no_limit() -> None:
    made = limit(vcore=1)
    made.add(app(runs=True))

    assert not made.is_full
