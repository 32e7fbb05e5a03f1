"""Kubernetes objects: what applying and deleting one does."""

from __future__ import annotations

import attrs
import pytest

from muster_core.decisions import Kind
from muster_core.events import (
    AddGang,
    AddNode,
    AddPriorityClass,
    AppliedObject,
    Configure,
    ObjectKind,
    PodObject,
    RemoveApp,
    UpdateNode,
)
from muster_core.gangs import GangFields, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from muster_core.values.application_states import AppState
from tests.core.admission.objects import (
    LOOSE,
    applied,
    deleted,
    finished,
    full_gang_name,
    gang,
    gone_pod,
    members,
    named,
    node,
    places,
    pod,
    refusal,
    submit,
    tree_with_app,
    volcano_queue,
)
from tests.core.building import MAY_CREATE, configuration, queue, wish
from tests.core.tree import Tree, make_tree

# Priority classes


def priority_of(tree: Tree, name: str, priority_class: str) -> int:
    event = attrs.evolve(wish("p", name), priority_class=priority_class)
    submit(tree, event)
    (found,) = (ask for ask in tree.snapshot().apps["p"].asks if ask.name == name)
    return found.priority


def test_a_class_that_is_applied_again_has_its_new_value_for_later_asks() -> None:
    tree = tree_with_app()
    submit(tree, applied(AddPriorityClass("high", 5)))
    assert priority_of(tree, "x", "high") == 5
    submit(tree, applied(AddPriorityClass("high", 7)))

    assert priority_of(tree, "y", "high") == 7
    assert [ask.priority for ask in tree.snapshot().apps["p"].asks] == [5, 7]


def test_a_class_that_was_deleted_is_unknown() -> None:
    tree = tree_with_app()
    submit(tree, applied(AddPriorityClass("high", 5)))
    submit(tree, deleted(named(ObjectKind.PRIORITY_CLASS, "high")))

    message = refusal(tree, applied(pod("x", priority_class="high")))
    assert message.startswith("manifest.spec.priorityClassName: 'high' is unknown")


@pytest.mark.parametrize("name", ["high", "system-cluster-critical"])
def test_only_a_users_class_can_be_deleted(name: str) -> None:
    message = refusal(tree_with_app(), deleted(named(ObjectKind.PRIORITY_CLASS, name)))

    assert message.startswith(f"manifest.metadata.name: {name!r}")


# Nodes


def test_a_node_comes_with_all_that_is_said() -> None:
    tree = tree_with_app()
    submit(tree, applied(node("m", schedulable=False, labels={"zone": "z"}, vcore=5)))

    shown = tree.snapshot().nodes["m"]
    assert (dict(shown.capacity), shown.schedulable) == ({"vcore": 5}, False)


def test_a_node_of_which_nothing_is_known_needs_a_capacity() -> None:
    message = refusal(tree_with_app(), applied(node("m")))

    assert message.startswith("manifest.status.allocatable: 'm' is unknown")


def test_a_node_that_is_there_is_updated_and_nobody_evicted() -> None:
    tree = tree_with_app()
    submit(tree, wish("p", vcore=6))
    submit(tree, applied(node("n", schedulable=False)))
    assert dict(tree.snapshot().nodes["n"].capacity) == {"vcore": 10}
    submit(tree, applied(node("n", labels={"zone": "z"}, vcore=4)))

    shown = tree.snapshot().nodes["n"]
    assert (dict(shown.capacity), dict(shown.used)) == ({"vcore": 4}, {"vcore": 6})
    assert shown.schedulable


def test_a_node_that_is_deleted_is_lost() -> None:
    tree = tree_with_app()
    submit(tree, wish("p", "x"))

    assert submit(tree, deleted(named(ObjectKind.NODE, "n"))) == ["released p/x n node_lost"]
    assert refusal(tree, deleted(named(ObjectKind.NODE, "n"))).startswith("manifest.metadata.name")


# Pods


def test_a_pod_is_an_ask_of_an_application_that_is_made() -> None:
    tree = tree_with_app()
    submit(tree, applied(pod("x", "new", queue="root.b")))

    app = tree.snapshot().apps["new"]
    assert (app.queue, app.state) == ("root.b", AppState.STARTING)
    assert tree.bound() == ["new/x n"]


def test_a_pod_of_a_known_application_goes_where_that_is() -> None:
    tree = tree_with_app()
    submit(tree, applied(pod("x", "p", queue="root.no.such")))

    assert tree.snapshot().apps["p"].queue == "root.a"
    assert tree.bound() == ["p/x n"]


def test_a_pod_whose_queue_takes_no_application() -> None:
    message = refusal(tree_with_app(), applied(pod("x", "new", queue="root")))

    assert message.startswith("manifest.metadata.labels.queue: ")


def test_a_pod_without_requests_is_no_ask() -> None:
    message = refusal(tree_with_app(), applied(PodObject("p", "x", "root.a")))

    assert message.startswith("manifest.spec.containers: ")


def test_a_pod_that_runs_is_bound_from_the_start_and_counts() -> None:
    tree = tree_with_app()

    assert submit(tree, applied(pod("x", node="n", vcore=4))) == ["bound p/x n"]
    snapshot = tree.snapshot()
    assert snapshot.apps["p"].state is AppState.STARTING
    assert snapshot.nodes["n"].used == snapshot.queues["root.a"].allocated == {"vcore": 4}


def test_a_pod_runs_where_nothing_new_may_come() -> None:
    tree = tree_with_app()
    submit(tree, UpdateNode("n", schedulable=False))

    assert submit(tree, applied(pod("x", node="n"))) == ["bound p/x n"]


@pytest.mark.parametrize("where", ["no", "n"])
def test_a_pod_that_cannot_run_there(where: str) -> None:
    message = refusal(tree_with_app(vcore=3), applied(pod("x", node=where, vcore=4)))

    assert message.startswith(f"manifest.spec.nodeName: {where!r}")


def test_a_pod_that_runs_needs_headroom_in_every_queue_above() -> None:
    limited = queue("a", queue("b"), resources={"max": {"vcore": "3m"}})
    tree = make_tree("n", config=configuration(limited))
    tree.add_app("p", "root.a.b")
    submit(tree, applied(pod("x", node="n", vcore=2)))

    message = refusal(tree, applied(pod("y", node="n", vcore=2)))
    assert message.startswith("manifest.spec.nodeName: ")
    assert "root.a" in message


@pytest.mark.parametrize("most", [2, 3])
def test_pods_of_one_batch_share_the_headroom(most: int) -> None:
    tree = make_tree(
        "n", config=configuration(queue("a", resources={"max": {"vcore": f"{most}m"}}))
    )
    tree.add_app("p", "root.a")
    tree.enter(*(applied(pod(name, node="n")) for name in "xyz"))
    decisions = tree.settle()
    tree.check()

    assert len([one for one in decisions if one.kind is Kind.BOUND]) == most
    assert len([one for one in decisions if one.kind is Kind.REJECTED]) == 3 - most


def test_a_pod_that_runs_satisfies_its_gang_and_binds_who_waits() -> None:
    tree = tree_with_app("n", vcore=1)
    submit(tree, gang("g", 2, mode=LOOSE))
    submit(tree, members("g", "x", 2))
    submit(tree, AddNode("m", Resources({"gpu": 1})))

    assert submit(tree, applied(node("m", vcore=5), pod("y", node="m", gang="g"))) == [
        "gang_satisfied default/g",
        "bound p/y m",
        "bound p/x-0 n",
        "assigned p/x-1 m",
        "bound p/x-1 m",
    ]


def test_a_pod_that_runs_makes_parked_members_pending() -> None:
    tree = tree_with_app(vcore=1)
    submit(tree, gang("g", 2))
    submit(tree, members("g", "x", timed_out=True))
    assert places(tree) == {"x": "parked"}

    submit(tree, applied(pod("y", node="n", gang="g")))
    assert places(tree) == {"x": "pending", "y": "bound"}


@pytest.mark.parametrize("place", list(AskPlace))
@pytest.mark.parametrize("how", ["completed", "removed"])
def test_a_pod_that_has_finished_or_is_deleted_is_gone_wherever_it_was(
    place: AskPlace, how: str
) -> None:
    tree = tree_with_app(vcore=1)
    submit(tree, gang("g", 1 if place is AskPlace.BOUND else 2, mode=LOOSE))
    count = 2 if place is AskPlace.WAITING else None
    submit(tree, members("g", "x", count, timed_out=place is AskPlace.PARKED))
    name = "x" if count is None else "x-0"
    assert places(tree)[name] == place

    where = f"p/{name} n" if place in {AskPlace.BOUND, AskPlace.WAITING} else f"p/{name}"
    event = applied(finished(name)) if how == "completed" else deleted(gone_pod(name))
    assert submit(tree, event)[0] == f"released {where} {how}"
    assert name not in places(tree)


def test_of_a_pod_that_is_there_only_the_phase_counts() -> None:
    tree = tree_with_app()
    submit(tree, applied(pod("x", vcore=2)))

    assert submit(tree, applied(pod("x", node="no", vcore=9), PodObject("p", "x", "root.a"))) == []
    assert dict(tree.snapshot().nodes["n"].used) == {"vcore": 2}


def test_an_unknown_pod_that_has_finished_is_nothing() -> None:
    tree = tree_with_app()

    assert submit(tree, applied(finished("x", "new"), finished("x", "p"))) == []
    assert "new" not in tree.snapshot().apps


@pytest.mark.parametrize(
    ("name", "field"), [("p", "metadata.name"), ("q", "metadata.labels.applicationId")]
)
def test_an_unknown_pod_cannot_be_deleted(name: str, field: str) -> None:
    assert refusal(tree_with_app(), deleted(gone_pod("x", name))).startswith(f"manifest.{field}: ")


# PodGroups


def test_a_pod_group_is_the_object_of_its_gang() -> None:
    tree = tree_with_app()
    submit(tree, applied(gang("g", 2, total=5)))
    submit(tree, applied(gang("g", 3)))

    definition = tree.snapshot().gangs[full_gang_name("g")].definition
    assert definition is not None
    assert (definition.min_member, definition.total) == (3, 3)
    assert refusal(tree, gang("g", 3)).startswith("gang: ")


def test_a_pod_group_that_is_applied_again_leaves_the_state() -> None:
    tree = tree_with_app()
    submit(tree, gang("g", 2))
    submit(tree, members("g", "x", 2))
    submit(tree, applied(gang("g", 9)))

    assert tree.snapshot().gangs[full_gang_name("g")].satisfied


def test_members_of_a_pod_group_that_is_deleted_stay() -> None:
    tree = tree_with_app(vcore=1)
    submit(tree, gang("g", 2, mode=LOOSE))
    submit(tree, members("g", "x", 2))
    name = named(ObjectKind.POD_GROUP, "g")

    assert submit(tree, deleted(name)) == ["released p/x-0 n gang_rollback"]
    assert places(tree) == {"x-0": "pending", "x-1": "pending"}
    assert refusal(tree, deleted(name)).startswith("manifest.metadata.name: ")


# Queues


def config_of(tree: Tree, path: str) -> dict[str, object]:
    tree.settle()
    config = tree.machine.registry.queues[path].config
    return {
        "priority": config.settings.queue_priority,
        "reclaimable": config.settings.reclaimable,
        "weight": config.settings.weight,
        "max": dict(config.max.amounts),
        "guaranteed": dict(config.guaranteed),
    }


def test_a_queue_is_made_below_the_root_to_stay() -> None:
    tree = tree_with_app()
    manifest = volcano_queue(
        "New", priority=3, reclaimable=False, max={"vcore": 5}, guaranteed={"vcore": 2}, weight=7
    )
    submit(tree, applied(manifest))
    tree.add_app("q", "root.new")
    submit(tree, RemoveApp("q"))

    assert config_of(tree, "root.new") == {
        "priority": 3,
        "reclaimable": False,
        "weight": 7,
        "max": {"vcore": 5},
        "guaranteed": {"vcore": 2},
    }
    assert "root.new" in tree.snapshot().queues


def test_only_what_is_said_is_set() -> None:
    tree = tree_with_app()
    submit(tree, applied(volcano_queue("a", priority=3, max={"vcore": 5}, weight=2)))
    submit(tree, applied(volcano_queue("a", reclaimable=False, guaranteed={"vcore": 1})))
    submit(tree, applied(volcano_queue("a")))

    assert config_of(tree, "root.a") == {
        "priority": 3,
        "reclaimable": False,
        "weight": 2,
        "max": {"vcore": 5},
        "guaranteed": {"vcore": 1},
    }


def test_what_is_set_counts_at_once() -> None:
    tree = tree_with_app()
    tree.add_app("q", "root.b")
    tree.enter(applied(volcano_queue("b", priority=3)), wish("p"), wish("q"))
    tree.settle(applied(volcano_queue("a", max={"vcore": 0})))
    tree.check()

    assert tree.bound() == ["q/x n"]


def test_a_queue_below_one_that_becomes_a_parent() -> None:
    tree = tree_with_app()
    submit(tree, applied(volcano_queue("c", "b")))
    submit(tree, applied(volcano_queue("d", "root.b.c")))

    assert {"root.b.c", "root.b.c.d"} <= tree.snapshot().queues.keys()
    assert refusal(tree, applied(volcano_queue("e", "a"))).startswith("manifest.spec.parent: ")
    assert refusal(tree, applied(volcano_queue("e", "no"))).startswith("manifest.spec.parent: ")


def test_a_name_that_several_queues_have_needs_a_parent() -> None:
    tree = tree_with_app()
    submit(tree, applied(volcano_queue("x", "b"), volcano_queue("c")))
    submit(tree, applied(volcano_queue("x", "c")))

    message = refusal(tree, applied(volcano_queue("x", priority=1)))
    assert "root.b.x" in message
    assert "root.c.x" in message
    submit(tree, applied(volcano_queue("x", "c", priority=1)))
    assert config_of(tree, "root.c.x")["priority"] == 1


@pytest.mark.parametrize("name", ["x.y", "a b", "x" * 65])
def test_a_queue_that_cannot_have_its_name(name: str) -> None:
    tree = tree_with_app()

    assert refusal(tree, applied(volcano_queue(name))).startswith("manifest.metadata.name: ")
    message = refusal(tree, applied(volcano_queue(name, "root.b")))
    assert message.startswith("manifest.metadata.name: ")


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (volcano_queue("a", max={"vcore": 1}, guaranteed={"vcore": 2}), "spec.deserved"),
        (volcano_queue("x", "b", max={"vcore": 9}), "spec.capability"),
        (volcano_queue("root", max={"vcore": 9}), "metadata.name"),
    ],
)
def test_what_a_configuration_could_not_say_is_refused(manifest: AppliedObject, field: str) -> None:
    tree = tree_with_app()
    submit(tree, applied(volcano_queue("b", max={"vcore": 5})))

    assert refusal(tree, applied(manifest)).startswith(f"manifest.{field}: ")


def test_queues_below_inherit_what_they_do_not_say() -> None:
    tree = tree_with_app()
    submit(tree, applied(volcano_queue("x", "b"), volcano_queue("y", "b", reclaimable=True)))
    submit(tree, applied(volcano_queue("b", reclaimable=False)))

    assert config_of(tree, "root.b")["reclaimable"] is False
    assert config_of(tree, "root.b.y")["reclaimable"] is True


def test_a_queue_that_is_deleted_drains_while_it_is_in_use() -> None:
    tree = tree_with_app()
    submit(tree, deleted(named(ObjectKind.QUEUE, "a")))
    assert tree.snapshot().queues["root.a"].draining
    submit(tree, RemoveApp("p"))
    assert "root.a" not in tree.snapshot().queues
    submit(tree, deleted(named(ObjectKind.QUEUE, "b")))

    assert set(tree.snapshot().queues) == {"root"}


def test_a_queue_that_drains_takes_applications_again_when_it_is_applied() -> None:
    tree = tree_with_app()
    submit(tree, deleted(named(ObjectKind.QUEUE, "a")))
    submit(tree, applied(volcano_queue("a")))

    assert not tree.snapshot().queues["root.a"].draining


def test_an_object_of_a_gang_says_no_topology() -> None:
    says = GangFields(1, topology=Topology(TopologyRule.SAME, "rack"))
    message = refusal(tree_with_app(), applied(AddGang("default/g", says)))

    assert message == "manifest.topology: an object of Kubernetes cannot say it: add_gang says it"


@pytest.mark.parametrize("name", ["root", "no"])
def test_a_queue_that_cannot_be_deleted(name: str) -> None:
    message = refusal(tree_with_app(), deleted(named(ObjectKind.QUEUE, name)))

    assert message.startswith(f"manifest.metadata.name: {name!r}")


def test_a_queue_made_on_the_fly_goes_with_the_last_queue_below_it() -> None:
    tree = tree_with_app()
    tree.settle(Configure(configuration(queue("a"), props=MAY_CREATE)))
    tree.add_app("q", "root.fly.x")
    submit(tree, applied(volcano_queue("y", "root.fly")))
    submit(tree, RemoveApp("q"))
    assert "root.fly" in tree.snapshot().queues
    submit(tree, deleted(named(ObjectKind.QUEUE, "y")))

    assert "root.fly" not in tree.snapshot().queues


def test_a_configuration_takes_no_queue_away_that_an_object_made() -> None:
    tree = tree_with_app()
    submit(tree, applied(volcano_queue("new", priority=3)))
    tree.settle(Configure(configuration(queue("a"))))
    tree.check()

    assert {"root.a", "root.new"} == tree.snapshot().queues.keys() - {"root"}
