"""Dumps as wholes: nodes, queues of Volcano and Koordinator, gangs, classes, the mapping file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.config_files import parse_configuration
from muster.importing.workload import configuration_of
from tests.actors.importing.helpers import events_of, imported, refusal
from tests.actors.importing.kubernetes.samples import (
    DAY,
    ImportedFeed,
    Object,
    as_json,
    as_yaml,
    feed_of,
    node,
    object_of,
    pod,
)


# KUBERNETES-3: Several dumps
def test_of_several_records_of_a_pod_the_one_that_says_most_is_taken() -> None:
    runs, ended = pod("a", ended=None, uid="1"), pod("a", uid="1")
    for objects in ((runs, ended), (ended, runs)):
        feed = feed_of(*objects, node())

        assert feed.ask["run_for"] == 60
        assert feed.left_out == ["1 pod: a later record of the same one is taken"]


def test_pods_of_one_name_that_are_not_the_same_are_two() -> None:
    assert len(feed_of(pod("a", uid="1"), pod("a", uid="2"), node()).events_of("add_ask")) == 2


# KUBERNETES-4: Fields that matter
def test_fields_that_do_not_matter_may_have_any_form() -> None:
    made = pod("a", spec={"hostAliases": 5, "dnsPolicy": []}, finalizers="x")

    assert feed_of(made, node()).ask["ask"] == "a"


@pytest.mark.parametrize(
    ("made", "place"),
    [
        (pod("a/b"), "default/a/b: metadata.name"),
        (pod(namespace="A B"), "A B/a: metadata.namespace"),
        (pod(labels={"a": None}), "default/a: metadata.labels.a"),
        (pod(spec={"containers": {}}), "default/a: spec.containers"),
        (pod(spec={"priority": 2**40}), "default/a: spec.priority"),
        (pod(spec={"affinity": {"nodeAffinity": 3}}), "default/a: spec.affinity.nodeAffinity"),
    ],
)
def test_a_field_of_another_form_is_named(made: Object, place: str) -> None:
    feed = feed_of(made, pod("ok"), node())

    (cause,) = feed.account.left_out
    assert cause.text == "a field has another form than Kubernetes gives it"
    assert cause.example.startswith(f"{place}: ")


def test_objects_of_other_kinds_are_counted() -> None:
    feed = feed_of(pod(), node(), object_of("PodDisruptionBudget", "x"), {"metadata": {}})

    assert feed.left_out == [
        "1 object: has no kind",
        "1 object: kind PodDisruptionBudget, of which a feed says nothing",
    ]


# KUBERNETES-18: Priorities
def test_a_class_of_the_dump_comes_first_and_its_pods_name_it() -> None:
    named = {"priorityClassName": "high", "priority": 7}
    high = object_of("PriorityClass", "high", value=7, preemptionPolicy="PreemptLowerPriority")
    feed = feed_of(pod(spec=named), node(), high, object_of("PriorityClass", "system-x", value=1))

    assert feed.events_of("add_priority_class") == [
        {"name": "high", "value": 7, "preemption_policy": "PreemptLowerPriority"}
    ]
    assert feed.ask["priority_class"] == "high"
    assert "priority" not in feed.ask
    assert feed.left_out == ["1 priority class: it is built in"]


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ({"priorityClassName": "high", "priority": 8}, 8),
        ({"priorityClassName": "gone", "priority": 9}, 9),
        ({"priority": 3}, 3),
        ({"priorityClassName": "gone"}, None),
    ],
)
def test_else_its_number_counts(spec: Object, priority: int | None) -> None:
    ask = feed_of(pod(spec=spec), node(), object_of("PriorityClass", "high", value=7)).ask

    assert ask.get("priority") == priority
    assert "priority_class" not in ask


def test_a_mapping_file_sees_labels_and_the_labelled_queue(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "queues:\n"
        "- {'label:team': 'blue*', queue: 'root.teams.{label:team}'}\n"
        "- {queue_path: 'lab.*', queue: 'root.old.{queue_path}'}\n"
        "- {owner_kind: DaemonSet, queue: root.system}\n"
        "others: root.rest\n"
    )
    feed = feed_of(
        pod("a", labels={"team": "blue.sky"}),
        pod("b", labels={"queue": "root.lab.x"}),
        pod("c", owner=("DaemonSet", "d")),
        pod("e", labels={"team": "red"}),
        node(),
        queues=rules,
    )
    assert feed.queues == ["root.teams.blue-sky", "root.old.lab.x", "root.system", "root.rest"]


def test_a_field_that_pods_do_not_have_is_refused(tmp_path: Path) -> None:
    dump, rules = tmp_path / "dump.json", tmp_path / "rules.yaml"
    dump.write_text(as_json(pod(), node()))
    rules.write_text("queues:\n- {name_space: a, queue: root.b}\n")

    message = refusal("kubernetes", dump, "--queues", rules)
    assert f"{rules}:2: queues[0].name_space: is no field of these jobs" in message
    assert "did you mean namespace?" in message


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    objects = (pod("a"), pod("b", ended=None), node(), object_of("PodGroup", "g", {"minMember": 2}))
    (tmp_path / "a.yaml").write_text(as_yaml(*objects))
    (tmp_path / "a.json").write_text(as_json(*objects))

    assert (
        imported("kubernetes", tmp_path / "a.yaml")[0]
        == imported("kubernetes", tmp_path / "a.json")[0]
    )


def test_nodes_of_the_option_replace_those_of_the_dump(tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(as_json(pod(), node()))
    events, summary = imported("kubernetes", dump, "--nodes", "2x vcore=4,memory=8Gi")

    assert len(events_of(events, "add_node")) == 2
    assert summary["left_out"][0]["cause"] == "--nodes says which there are"


def test_nodes_of_a_file_may_have_taints(tmp_path: Path) -> None:
    dump, nodes = tmp_path / "dump.json", tmp_path / "nodes.yaml"
    dump.write_text(as_json(pod()))
    taint = {"key": "gpu", "effect": "NoSchedule"}
    whole = {"node": "n", "count": 2, "capacity": {"vcore": 4, "memory": "8Gi"}}
    nodes.write_text(json.dumps([whole | {"taints": [taint]}]))
    events, summary = imported("kubernetes", dump, "--nodes", nodes)

    assert [made["taints"] for made in events_of(events, "add_node")] == [[taint], [taint]]
    (cause,) = summary["not_in_feed"]
    assert cause["cause"] == "no node of the feed is one of those that it may run on"


def test_a_taint_of_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    dump, nodes = tmp_path / "dump.json", tmp_path / "nodes.yaml"
    dump.write_text(as_json(pod()))
    nodes.write_text("- {node: n, capacity: {vcore: 4}, taints: [{key: gpu, effect: NoShow}]}\n")

    message = refusal("kubernetes", dump, "--nodes", nodes)
    assert f"{nodes}:1: taints[0].effect: 'NoShow' is " in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: it has no Kubernetes object"),
        (as_json(pod()), "has no nodes: say with --nodes which nodes there are"),
        (as_json(node()), "has no job that a feed can have"),
        ("{", "dump.json:1: not JSON: Expecting value"),
    ],
)
def test_a_dump_that_makes_no_feed_is_refused(text: str, message: str, tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(text)

    assert message in refusal("kubernetes", dump)


# KUBERNETES-14: Nodes
def test_a_node_has_what_pods_can_have_of_it() -> None:
    made = node("n1", unschedulable=True)
    made["status"] = {
        "allocatable": {"cpu": "7910m", "memory": "1Gi"},
        "capacity": {"cpu": "8", "memory": "2Gi"},
    }
    assert feed_of(pod(), made).events_of("add_node") == [
        {
            "node": "n1",
            "capacity": {"vcore": "7910m", "memory": "1Gi"},
            "attributes": {"kubernetes.io/hostname": "n1"},
            "schedulable": False,
        }
    ]


def test_without_allocatable_its_capacity_counts() -> None:
    made = node("n1")
    made["status"] = {"capacity": {"cpu": "8"}}

    assert feed_of(pod(), made).events_of("add_node")[0]["capacity"] == {"vcore": 8}


def test_nodes_are_there_from_the_start() -> None:
    late = node("n2")
    late["metadata"]["creationTimestamp"] = f"{DAY}30:00Z"
    feed = feed_of(pod(), pod("b", created="30:00"), node(), late)

    assert [event["op"] for event in feed.events[1:3]] == ["add_node", "add_node"]


def test_a_younger_node_joins_if_that_is_asked_for() -> None:
    late = node("n2")
    late["metadata"]["creationTimestamp"] = f"{DAY}30:00Z"
    feed = feed_of(pod(), pod("b", created="30:00"), node(), late, nodes_join=True)

    assert [(event["op"], event.get("at")) for event in feed.events] == [
        ("configure", f"{DAY}00:00Z"),
        ("add_node", None),
        ("add_app", None),
        ("add_ask", None),
        ("add_node", f"{DAY}30:00Z"),
        ("add_app", None),
        ("add_ask", None),
    ]


def test_the_oldest_node_is_there_from_the_start_anyway() -> None:
    late = node("n2")
    late["metadata"]["creationTimestamp"] = f"{DAY}30:00Z"

    assert feed_of(pod(), late, nodes_join=True).events[1]["op"] == "add_node"


def test_the_last_record_of_a_node_counts() -> None:
    feed = feed_of(pod(), node("n1", {"disk": "hdd"}), node("n1", {"disk": "ssd"}))

    assert feed.events_of("add_node")[0]["attributes"]["disk"] == "ssd"
    assert feed.left_out == ["1 node: a later record of the same one is taken"]


@pytest.mark.parametrize("field", ["taints", "unschedulable"])
def test_a_node_with_a_field_of_another_form_is_left_out(field: str) -> None:
    bad = node("bad")
    bad["spec"] = {field: 5}
    feed = feed_of(pod(), node(), bad)

    (cause,) = feed.account.left_out
    assert cause.example.startswith(f"bad: spec.{field}: 5 is not ")


def queue_fed(*objects: Object, queue: str = "q") -> ImportedFeed:
    return feed_of(pod(labels={"volcano.sh/queue-name": queue}), node(), *objects)


# KUBERNETES-17: Queues
def test_a_queue_of_volcano_is_a_queue_of_the_made_configuration() -> None:
    spec = {
        "parent": "p",
        "capability": {"cpu": "4", "memory": "8Gi"},
        "deserved": {"cpu": "2"},
        "reclaimable": False,
        "priority": 7,
        "weight": 1,
    }
    feed = queue_fed(object_of("Queue", "q", spec), object_of("Queue", "p"))

    assert feed.settings == {
        "root.p": {},
        "root.p.q": {
            "resources": {"guaranteed": {"vcore": 2}, "max": {"vcore": 4, "memory": "8Gi"}},
            "properties": {"queue.priority": "7", "queue.reclaimable": "false"},
        },
    }
    assert not feed.notes


def test_a_quota_of_koordinator_is_one_too() -> None:
    key = "quota.scheduling.koordinator.sh"
    child = object_of("ElasticQuota", "b", {"min": {"cpu": "1"}, "max": {"cpu": "3"}})
    child["metadata"]["labels"] = {f"{key}/parent": "a"}
    parent = object_of("ElasticQuota", "a", {"max": {"cpu": "5"}})
    feed = feed_of(pod(labels={f"{key}/name": "b"}), node(), child, parent)

    assert feed.queues == ["root.a.b"]
    assert feed.settings == {
        "root.a": {"resources": {"max": {"vcore": 5}}},
        "root.a.b": {"resources": {"guaranteed": {"vcore": 1}, "max": {"vcore": 3}}},
    }


def test_weights_let_the_root_share_by_weight() -> None:
    feed = queue_fed(
        object_of("Queue", "q", {"weight": 4, "parent": "root", "capability": {"cpu": "4"}}),
        object_of("Queue", "o", {"weight": 1}),
    )

    assert not feed.notes
    assert feed.settings == {
        "root": {"properties": {"share.policy": "weight"}},
        "root.o": {},
        "root.q": {"resources": {"max": {"vcore": 4}}, "properties": {"queue.weight": "4"}},
    }


@pytest.mark.parametrize("more", [{"deserved": {"cpu": "1"}}, {"parent": "p"}])
def test_weights_are_noted_where_they_mean_nothing(more: dict[str, object]) -> None:
    feed = queue_fed(object_of("Queue", "q", {"weight": 4}), object_of("Queue", "o", more))

    assert feed.notes == [
        "1 queue: weights are not modelled where queues have parents or say what they deserve"
    ]
    assert "properties" not in feed.settings["root.q"]


def test_settings_that_a_configuration_cannot_have_are_noted_and_left_out() -> None:
    feed = queue_fed(
        object_of("Queue", "q", {"parent": "p", "deserved": {"cpu": "9"}}),
        object_of("Queue", "p", {"capability": {"cpu": "4"}}),
    )
    assert feed.notes == [
        "1 queue: a configuration that says the same would be refused: it has no limits"
    ]
    assert feed.settings["root.p"] == {"resources": {"max": {"vcore": 4}}}
    made = configuration_of(["root.p.q"], feed.settings)
    assert parse_configuration(str(made)).root.name == "root"


def test_a_queue_below_one_with_pods_is_left_out() -> None:
    feed = queue_fed(object_of("Queue", "below", {"parent": "q"}), object_of("Queue", "q"))

    assert feed.left_out == ["1 queue: a queue above it has pods of its own"]


def test_parents_in_a_circle_end() -> None:
    feed = queue_fed(
        object_of("Queue", "q", {"parent": "p"}), object_of("Queue", "p", {"parent": "q"})
    )

    assert feed.queues == ["root.p.q"]


def test_the_last_record_of_a_queue_counts() -> None:
    feed = queue_fed(
        object_of("Queue", "q", {"parent": "p"}), object_of("Queue", "q", {"parent": "o"})
    )

    assert feed.queues == ["root.o.q"]
    assert feed.left_out == ["1 queue: a later record of the same one is taken"]


LABEL = {"pod-group.scheduling.sigs.k8s.io": "g"}


def members(number: int, labels: Object = LABEL, minute: int = 0) -> list[Object]:
    return [
        pod(
            f"m{minute}-{one}",
            created=f"{minute:02}:{one:02}",
            bound=f"{minute:02}:30",
            labels=labels,
        )
        for one in range(number)
    ]


# KUBERNETES-11: Gangs
def test_a_pod_group_is_a_gang_that_is_there_before_its_first_pod() -> None:
    feed = feed_of(*members(3), node(), object_of("PodGroup", "g", {"minMember": 2}))

    assert feed.events_of("add_gang") == [{"gang": "default/g", "min_member": 2}]
    ops = [event["op"] for event in feed.events]
    assert ops.index("add_gang") < ops.index("add_app")
    assert [ask["gang"] for ask in feed.events_of("add_ask")] == ["default/g"] * 3
    assert feed.account.taken["pod group"] == 1


def test_annotations_of_koordinator_override_the_object() -> None:
    key = "gang.scheduling.koordinator.sh"
    marks = {f"{key}/name": "g", f"{key}/min-available": "3", f"{key}/waiting-time": "90s"}
    marks |= {f"{key}/mode": "NonStrict", f"{key}/groups": '["default/g", "default/none"]'}
    feed = feed_of(*members(3, marks), node(), object_of("PodGroup", "g", {"minMember": 2}))

    assert feed.events_of("add_gang") == [
        {
            "gang": "default/g",
            "min_member": 3,
            "mode": "NonStrict",
            "wait_time": 90,
            "groups": ["default/g"],
        }
    ]


def test_a_group_that_needs_one_pod_is_no_gang() -> None:
    feed = feed_of(*members(2), node(), object_of("PodGroup", "g", {"minMember": 1}))

    assert not feed.events_of("add_gang")
    assert feed.left_out == ["1 pod group: needs one member, as any pod does"]


def test_a_group_without_pods_is_left_out() -> None:
    feed = feed_of(pod(), node(), object_of("PodGroup", "g", {"minMember": 2}))

    assert feed.left_out == ["1 pod group: no pod of it is taken"]


# KUBERNETES-12: Task groups of YuniKorn
def test_a_task_group_of_yunikorn_is_a_gang() -> None:
    key = "yunikorn.apache.org"
    groups = [{"name": "driver", "minMember": 1}, {"name": "Exec", "minMember": 2}]
    driver = {f"{key}/task-groups": json.dumps(groups), f"{key}/task-group-name": "driver"}
    worker = {f"{key}/task-group-name": "Exec"}
    labels = {f"{key}/app-id": "spark"}
    feed = feed_of(
        pod("d", labels=labels, annotations=driver),
        pod("e1", labels=labels, annotations=worker),
        pod("e2", labels=labels, annotations=worker),
        node(),
    )
    (gang,) = feed.events_of("add_gang")

    assert gang["min_member"] == 2
    assert [ask.get("gang") for ask in feed.events_of("add_ask")] == [
        None,
        gang["gang"],
        gang["gang"],
    ]


# KUBERNETES-13: A gang needs no more members than came
def test_a_gang_with_fewer_pods_than_it_needs_can_start() -> None:
    feed = feed_of(*members(3), node(), object_of("PodGroup", "g", {"minMember": 5}))

    assert feed.events_of("add_gang")[0]["min_member"] == 3
    (note,) = feed.account.changes
    assert (note.what, note.example) == ("gang", "default/g: 3 of 5")


def test_pods_that_came_long_after_the_start_are_not_waited_for() -> None:
    feed = feed_of(
        *members(3), *members(2, minute=50), node(), object_of("PodGroup", "g", {"minMember": 5})
    )

    assert feed.events_of("add_gang")[0]["min_member"] == 3


def test_gangs_without_a_wait_wait_long_in_a_made_configuration() -> None:
    feed = feed_of(*members(3), node(), object_of("PodGroup", "g", {"minMember": 2}))
    spec = {"minMember": 2, "scheduleTimeoutSeconds": 60}

    assert feed.settings == {"root": {"properties": {"gang.wait.time": "24h"}}}
    assert feed_of(*members(3), node(), object_of("PodGroup", "g", spec)).settings == {}
