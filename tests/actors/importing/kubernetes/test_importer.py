"""Dumps as wholes: records of one pod, classes, the mapping file, other objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.importing.helpers import imported, of, refusal
from tests.actors.importing.kubernetes.feeds import fed
from tests.actors.importing.kubernetes.samples import Object, as_json, as_yaml, node, other, pod


# KUBERNETES-3: Several dumps
def test_of_several_records_of_a_pod_the_one_that_says_most_is_taken() -> None:
    runs, ended = pod("a", ended=None, uid="1"), pod("a", uid="1")
    for objects in ((runs, ended), (ended, runs)):
        feed = fed(*objects, node())

        assert feed.ask["run_for"] == 60
        assert feed.left_out == ["1 pod: a later record of the same one is taken"]


def test_pods_of_one_name_that_are_not_the_same_are_two() -> None:
    assert len(fed(pod("a", uid="1"), pod("a", uid="2"), node()).of("add_ask")) == 2


# KUBERNETES-4: Fields that matter
def test_fields_that_do_not_matter_may_have_any_form() -> None:
    made = pod("a", spec={"hostAliases": 5, "dnsPolicy": []}, finalizers="x")

    assert fed(made, node()).ask["ask"] == "a"


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
    feed = fed(made, pod("ok"), node())

    (cause,) = feed.account.left_out
    assert cause.text == "a field has another form than Kubernetes gives it"
    assert cause.example.startswith(f"{place}: ")


def test_objects_of_other_kinds_are_counted() -> None:
    feed = fed(pod(), node(), other("PodDisruptionBudget", "x"), {"metadata": {}})

    assert feed.left_out == [
        "1 object: has no kind",
        "1 object: kind PodDisruptionBudget, of which a feed says nothing",
    ]


# KUBERNETES-18: Priorities
def test_a_class_of_the_dump_comes_first_and_its_pods_name_it() -> None:
    named = {"priorityClassName": "high", "priority": 7}
    high = other("PriorityClass", "high", value=7, preemptionPolicy="PreemptLowerPriority")
    feed = fed(pod(spec=named), node(), high, other("PriorityClass", "system-x", value=1))

    assert feed.of("add_priority_class") == [
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
    ask = fed(pod(spec=spec), node(), other("PriorityClass", "high", value=7)).ask

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
    feed = fed(
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

    told = refusal("kubernetes", dump, "--queues", rules)
    assert f"{rules}:2: queues[0].name_space: is no field of these jobs" in told
    assert "did you mean namespace?" in told


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    objects = (pod("a"), pod("b", ended=None), node(), other("PodGroup", "g", {"minMember": 2}))
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

    assert len(of(events, "add_node")) == 2
    assert summary["left_out"][0]["cause"] == "--nodes says which there are"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty: it has no Kubernetes object"),
        (as_json(pod()), "has no nodes: say with --nodes which nodes there are"),
        (as_json(node()), "has no job that a feed can have"),
        ("{", "dump.json:1: not JSON: Expecting value"),
    ],
)
def test_a_dump_that_makes_no_feed_is_refused(text: str, said: str, tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(text)

    assert said in refusal("kubernetes", dump)
