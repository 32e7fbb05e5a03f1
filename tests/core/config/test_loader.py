"""Loading from a document: partitions, queues, and what the machines get."""

from __future__ import annotations

from typing import Any

import pytest

from muster_core.config import load_configuration
from muster_core.config.model import (
    Configuration,
    Limits,
    NodeSortPolicy,
    QueueConfig,
    Settings,
    SortPolicy,
    Template,
)
from muster_core.errors import ConfigError
from muster_core.resources import Resources
from tests.core.building import from_python


def load(*partitions: dict[str, Any], partition: str | None = None) -> Configuration:
    document = from_python({"partitions": list(partitions)})
    return load_configuration(document, partition=partition)


def load_queue(**fields: Any) -> QueueConfig:  # noqa: ANN401 - a JSON value
    return load({"queues": [{"name": "q", **fields}]}).root.children[0]


def problems(*partitions: dict[str, Any], partition: str | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(*partitions, partition=partition)
    return [str(problem) for problem in caught.value.problems]


def test_everything_said_of_a_queue() -> None:
    queue = load_queue(
        parent=True,
        resources={"guaranteed": {"vcore": 0.5, "pods": 0}, "max": {"memory": "1Ki", "pods": 0}},
        maxapplications=3,
        properties={"queue.priority": 7, "x": True},
    )

    assert queue == QueueConfig(
        name="q",
        path="root.q",
        is_parent=True,
        guaranteed=Resources({"vcore": 500}),
        max=Limits((("memory", 1024), ("pods", 0))),
        max_applications=3,
        settings=Settings(queue_priority=7),
        own_properties=(("queue.priority", "7"), ("x", "true")),
    )


def test_defaults_of_a_partition() -> None:
    assert load({}) == Configuration(
        partition="default", root=QueueConfig(name="root", path="root", is_parent=True)
    )


def test_everything_said_of_a_partition() -> None:
    configuration = load(
        {
            "name": "gpu",
            "nodesortpolicy": {"type": "BinPacking", "resourceweights": {"vcore": 2, "gpu": 0.5}},
            "preemption": {"enabled": False},
        }
    )

    assert configuration.partition == "gpu"
    assert configuration.node_sort is NodeSortPolicy.BINPACKING
    assert configuration.node_weights == (("gpu", 0.5), ("vcore", 2.0))
    assert not configuration.preemption_enabled


def test_empty_weights_are_the_default_ones() -> None:
    weights: dict[str, object] = {}

    assert load({"nodesortpolicy": {"resourceweights": weights}}).node_weights == (
        ("memory", 1.0),
        ("vcore", 1.0),
    )


def test_names_and_paths_are_in_lower_case() -> None:
    root = load({"queues": [{"name": "A", "queues": [{"name": "B"}]}]}).root

    assert (root.children[0].name, root.children[0].children[0].path) == ("a", "root.a.b")


@pytest.mark.parametrize(
    ("fields", "is_parent"),
    [
        ({}, False),
        ({"parent": True}, True),
        ({"parent": "no"}, False),
        ({"queues": []}, False),
        ({"queues": [{"name": "x"}]}, True),
        ({"parent": False, "queues": [{"name": "x"}]}, True),
    ],
)
def test_leaf_or_parent(fields: dict[str, Any], is_parent: bool) -> None:
    assert load_queue(**fields).is_parent is is_parent


TOP_QUEUES: list[tuple[list[object], list[str]]] = [
    ([], []),
    ([{"name": "a"}], ["root.a"]),
    ([{"name": "root", "queues": [{"name": "a"}]}], ["root.a"]),
    ([{"parent": False, "name": "ROOT"}], []),
    ([{"name": "root", "resources": {"max": {}}}], []),
    ([{"name": "root"}, {"name": "a"}], ["root.root", "root.a"]),
]


@pytest.mark.parametrize(("queues", "paths"), TOP_QUEUES)
def test_the_root_may_be_implied(queues: list[object], paths: list[str]) -> None:
    root = load({"queues": queues}).root

    assert root.is_parent
    assert [child.path for child in root.children] == paths


@pytest.mark.parametrize("queue", [{}, {"maxapplications": 1}, None])
def test_a_queue_needs_a_name(queue: object) -> None:
    assert problems({"queues": [queue]}) == ["partitions[0].queues[0]: a queue needs a name"]


@pytest.mark.parametrize("queue", [1, [], "root"])
def test_a_queue_is_a_map(queue: object) -> None:
    [problem] = problems({"queues": [queue]})

    assert problem.endswith("stands where a map is expected")


def test_settings_are_inherited_down_the_tree() -> None:
    below = [{"name": "b", "queues": [{"name": "c"}]}]
    queue = load_queue(properties={"preemption.delay": "1s"}, queues=below)

    assert queue.children[0].children[0].settings == Settings(preemption_delay_us=1_000_000)


def test_a_template() -> None:
    queue = load_queue(
        parent=True,
        childtemplate={
            "maxapplications": 2,
            "properties": {"application.sort.policy": "fair"},
            "resources": {"guaranteed": {"vcore": 1}, "max": {"vcore": 2}},
        },
    )

    assert queue.template == Template(
        guaranteed=Resources({"vcore": 1000}),
        max=Limits((("vcore", 2000),)),
        max_applications=2,
        properties=(("application.sort.policy", "fair"),),
    )
    assert queue.settings.sort_policy is SortPolicy.FIFO


@pytest.mark.parametrize(
    "written",
    [None, {}, {"resources": {}}, {"properties": {}}, {"resources": {"guaranteed": {"vcore": 0}}}],
)
def test_an_empty_template_is_none(written: object) -> None:
    assert load_queue(childtemplate=written).template is None


def test_a_template_that_allows_nothing_is_one() -> None:
    assert load_queue(childtemplate={"resources": {"max": {"vcore": 0}}}).template is not None


@pytest.mark.parametrize(
    ("names", "wanted", "chosen"),
    [
        (["a"], None, "a"),
        (["a", "default"], None, "default"),
        (["a", "default"], "a", "a"),
        (["a", "b"], "b", "b"),
        (["a", None], None, "default"),
        (["a", ""], None, "default"),
        (["A", "a"], "a", "a"),
    ],
)
def test_which_partition_runs(names: list[str | None], wanted: str | None, chosen: str) -> None:
    partitions = [{"name": name} for name in names]

    assert load(*partitions, partition=wanted).partition == chosen


@pytest.mark.parametrize(
    ("names", "wanted", "why"),
    [
        ([], None, "partitions: there is no partition"),
        ([], "a", "partitions: there is no partition"),
        (["a", "b"], None, "none of the partitions is called default: choose one of a, b"),
        (["a"], "default", "there is no partition 'default', only a"),
        (["a"], "A", "there is no partition 'A', only a"),
    ],
)
def test_no_partition_runs(names: list[str], wanted: str | None, why: str) -> None:
    [problem] = problems(*({"name": name} for name in names), partition=wanted)

    assert why in problem


def test_problems_of_all_partitions_come_in_the_order_of_the_text() -> None:
    found = problems({"queues": [{"name": "."}], "x": 1}, {"queues": 1, "name": []}, {"name": "y"})

    assert [problem.partition(":")[0] for problem in found] == [
        "partitions[0].queues[0].name",
        "partitions[0].x",
        "partitions[1].queues",
        "partitions[1].name",
    ]


def test_warnings_are_those_of_the_partition_that_runs() -> None:
    partitions = (
        {"name": "a", "queues": [{"name": "x", "properties": {"mine": 1}}]},
        {"name": "b", "queues": [{"name": "y", "properties": {"yours": 1}}]},
    )

    assert load(*partitions, partition="a").warnings == (
        "root.x: unknown property 'mine' is kept, without effect",
    )


def test_an_unknown_property_is_logged_once_and_kept() -> None:
    queues = [{"name": name, "properties": {"mine": name}} for name in "ab"]
    configuration = load({"queues": queues})

    assert configuration.warnings == ("root.a: unknown property 'mine' is kept, without effect",)
    assert [child.own_properties for child in configuration.root.children] == [
        (("mine", "a"),),
        (("mine", "b"),),
    ]


def test_a_file_is_named_in_every_problem() -> None:
    document = from_python({"partitions": [{"name": "a", "b": 1, "c": 2}]}, line=4)
    with pytest.raises(ConfigError) as caught:
        load_configuration(document, file="queues.yaml")

    assert [(problem.file, problem.line) for problem in caught.value.problems] == [
        ("queues.yaml", 4)
    ] * 2
    assert str(caught.value).startswith("queues.yaml:4: partitions[0].b: unknown field 'b'")


def test_paths_stay_on_one_line_and_short() -> None:
    [first, second] = problems({"a\nb": 1, "c" * 1000: 2})

    assert first.startswith("partitions[0].a\\nb: unknown field 'a\\nb'")
    assert second.startswith("partitions[0]." + "c" * 60 + "…: unknown field")


def test_what_an_unknown_property_may_mean_is_told_and_not_announced() -> None:
    """CONFIG-87."""
    queue = {"name": "a", "properties": {"prioritypolicy": "fence"}}
    document = from_python({"partitions": [{"queues": [queue]}]}, line=3)
    configuration = load_configuration(document, file="f.yaml")

    [message] = configuration.warnings
    assert message.endswith("unknown property 'prioritypolicy' is kept, without effect")
    [told] = configuration.told
    assert told.message.startswith(f"{message}; did you mean priority.policy")
    assert (told.file, told.line) == ("f.yaml", 3)
    assert told.path == "partitions[0].queues[0].properties.prioritypolicy"


# CONFIG-87
@pytest.mark.parametrize(
    ("name", "meant"),
    [("DefaultTime", "estimate.default"), ("SchedulerType", "scheduling.order")],
)
def test_an_option_of_slurm_as_a_property(name: str, meant: str) -> None:
    queue = {"name": "a", "properties": {name: "01:00:00"}}
    configuration = load_configuration(from_python({"partitions": [{"queues": [queue]}]}))

    [told] = configuration.told
    assert told.message.endswith(f"kept, without effect; did you mean {meant}?")
