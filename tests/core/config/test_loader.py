"""Loading from a document: partitions, queues, what is checked but not obeyed, and names of
resource types that look like a slip (CONFIG-83).
"""

from __future__ import annotations

from typing import Any

import pytest

from muster_core.config import load_configuration
from muster_core.config.loader import MOST_COMPARED, similar_type, type_name_warning
from muster_core.config.model import (
    Configuration,
    Limits,
    NodeSortPolicy,
    QueueConfig,
    Settings,
    SortPolicy,
    Template,
)
from muster_core.config.tree import (
    MAX_DEPTH,
    LocatedMap,
    LocatedText,
    Plain,
    describe,
    entries_of,
    is_null,
    is_unicode,
    text_of,
)
from muster_core.errors import ConfigError
from muster_core.resources import Resources


def load(*partitions: dict[str, Any], partition: str | None = None) -> Configuration:
    document = {"partitions": list(partitions)}
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
    document = {"partitions": [{"name": "a", "b": 1, "c": 2}]}
    with pytest.raises(ConfigError) as caught:
        load_configuration(document, file="queues.yaml", line=4)

    assert [(problem.file, problem.line) for problem in caught.value.problems] == [
        ("queues.yaml", 4)
    ] * 2
    assert str(caught.value).startswith("queues.yaml:4: partitions[0].b: unknown field 'b'")


def test_paths_stay_on_one_line_and_short() -> None:
    [first, second] = problems({"a\nb": 1, "c" * 1000: 2})

    assert first.startswith("partitions[0].a\\nb: unknown field 'a\\nb'")
    assert second.startswith("partitions[0]." + "c" * 60 + "…: unknown field")


def test_what_an_unknown_property_may_mean_is_reported_and_not_announced() -> None:
    """CONFIG-87."""
    queue = {"name": "a", "properties": {"prioritypolicy": "fence"}}
    document = {"partitions": [{"queues": [queue]}]}
    configuration = load_configuration(document, file="f.yaml", line=3)

    [message] = configuration.warnings
    assert message.endswith("unknown property 'prioritypolicy' is kept, without effect")
    [problem] = configuration.located_warnings
    assert problem.message.startswith(f"{message}; did you mean priority.policy")
    assert (problem.file, problem.line) == ("f.yaml", 3)
    assert problem.path == "partitions[0].queues[0].properties.prioritypolicy"


# CONFIG-87
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("DefaultTime", "estimate.default"),
        ("MaxTime", "run.limit"),
        ("SchedulerType", "scheduling.order"),
    ],
)
def test_an_option_of_slurm_as_a_property(name: str, meant: str) -> None:
    queue = {"name": "a", "properties": {name: "01:00:00"}}
    configuration = load_configuration({"partitions": [{"queues": [queue]}]})

    [problem] = configuration.located_warnings
    assert problem.message.endswith(f"kept, without effect; did you mean {meant}?")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("off", "off"),
        ("", ""),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (-5, "-5"),
        (0.5, "0.5"),
        (1e16, "1e+16"),
    ],
)
def test_scalars_become_texts(value: object, text: str) -> None:
    assert text_of(value) == text


def test_problems_have_the_order_of_the_document() -> None:
    document = {"partitions": [{"b": 1, "queues": [{"z": 1}, {"name": "a", "y": 1}], "a": 1}]}
    with pytest.raises(ConfigError) as caught:
        load_configuration(document, line=7)

    assert [
        (one.line, one.path.removeprefix("partitions[0].")) for one in caught.value.problems
    ] == [
        (7, "b"),
        (7, "queues[0]"),
        (7, "queues[0].z"),
        (7, "queues[1].y"),
        (7, "a"),
    ]


def test_parts_that_know_their_lines_come_in_the_order_of_these() -> None:
    later, earlier = LocatedMap(5), LocatedMap(2)
    later[LocatedText("x", 5)] = 1
    earlier[LocatedText("y", 2)] = 1
    with pytest.raises(ConfigError) as caught:
        load_configuration({"partitions": [{**later}, {**earlier, "name": "a"}]}, line=1)

    assert [(one.line, one.path) for one in caught.value.problems] == [
        (2, "partitions[1].y"),
        (5, "partitions[0].x"),
    ]


def test_keys_that_are_numbers_are_texts() -> None:
    queue = {"name": "a", "properties": {1: 2}}
    configuration = load_configuration({"partitions": [{"queues": [queue]}]})

    assert configuration.root.children[0].own_properties == (("1", "2"),)


def test_texts_of_a_configuration_know_no_line() -> None:
    queue = {Plain("name", 3): Plain("a", 3), "properties": {LocatedText("b", 4): Plain("c", 4)}}
    [found] = load_configuration({"partitions": [{"queues": [queue]}]}).root.children

    [[name, value]] = found.own_properties
    assert {type(text) for text in (found.name, found.path, name, value)} == {str}


@pytest.mark.parametrize(
    "value", [b"x", {1, 2}, object(), "\ud800", {"\udfff": 1}, pytest.param(10**4300, id="huge")]
)
def test_what_has_no_text_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="stands where") as caught:
        load_configuration({"partitions": [{"checksum": 1, "queues": [{"name": value}]}]})

    str(caught.value).encode()


def test_the_refusal_names_the_path_and_the_line() -> None:
    with pytest.raises(ConfigError, match=r"^3: partitions\[1\]\.name: bytes stands where a text"):
        load_configuration({"partitions": [{}, {"name": b""}]}, line=3)


def test_nesting_has_an_end() -> None:
    deep: object = {"name": "a"}
    for _ in range(MAX_DEPTH):
        deep = {"name": "a", "queues": [deep]}
    with pytest.raises(ConfigError, match="nested deeper than 200 levels"):
        load_configuration({"partitions": [{"queues": [deep]}]})


def test_a_list_within_itself_is_refused() -> None:
    endless: dict[str, Any] = {"name": "a"}
    endless["queues"] = [endless]

    with pytest.raises(ConfigError, match="nested deeper"):
        load_configuration({"partitions": [{"queues": [endless]}]})


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_nothing(text: str) -> None:
    assert is_null(Plain(text))
    assert not is_null(LocatedText(text))


def test_descriptions_are_short() -> None:
    assert describe("x") == "'x'"
    assert describe("x" * 100) == "'" + "x" * 60 + "'…"
    assert describe({}) == "a map"
    assert describe([]) == "a list"


def test_the_entries_of_a_map_with_a_key_that_stands_twice() -> None:
    node = LocatedMap(1)
    node["a"] = 1
    node.others = [("a", 2)]

    assert entries_of(node) == [("a", 1), ("a", 2)]
    assert entries_of([]) is None


def test_half_a_surrogate_pair_is_no_text() -> None:
    assert not is_unicode("a\ud800b")
    assert is_unicode("a\U0001f600b")


def warnings_of(top: dict[str, Any] | None = None, **partition: Any) -> tuple[str, ...]:  # noqa: ANN401
    document = {"partitions": [partition], **(top or {})}
    return load_configuration(document).warnings


@pytest.mark.parametrize(
    ("partition", "name"),
    [
        ({"usergroupresolver": "os"}, "usergroupresolver"),
        ({"usergroupresolver": {"type": "os"}}, "usergroupresolver"),
        ({"usergroupresolver": {}}, "usergroupresolver"),
    ],
)
def test_one_warning_each(partition: dict[str, Any], name: str) -> None:
    assert warnings_of(**partition) == (f"{name}: checked for form, but not obeyed",)


@pytest.mark.parametrize("checksum", ["ABC", 0])
def test_a_checksum(checksum: object) -> None:
    assert warnings_of({"checksum": checksum}) == ("checksum: checked for form, but not obeyed",)


@pytest.mark.parametrize(
    "partition",
    [
        {"usergroupresolver": None},
        {"preemption": {"quotapreemptionenabled": None}},
    ],
)
def test_empty_values_give_no_warnings(partition: dict[str, Any]) -> None:
    assert warnings_of({"checksum": ""}, **partition) == ()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"usergroupresolver": ["os"]}, "usergroupresolver"),
    ({"usergroupresolver": {"type": {}}}, "usergroupresolver.type"),
]


@pytest.mark.parametrize(("partition", "path"), WRONG)
def test_a_wrong_form_is_refused(partition: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        warnings_of(**partition)

    assert [problem.path for problem in caught.value.problems] == [f"partitions[0].{path}"]


@pytest.mark.parametrize("name", ["cpu", "CPU", "cpus", "cores", "vcores", "vCPU"])
def test_what_means_vcore(name: str) -> None:
    assert (
        type_name_warning(name)
        == f"the type {name!r} is not vcore, but one of its own: write vcore"
    )


@pytest.mark.parametrize("name", ["mem", "MEM", "ram"])
def test_what_means_memory(name: str) -> None:
    assert "write memory" in (type_name_warning(name) or "")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("gpus", "gpu"),
        ("GPU", "gpu"),
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("nvidia.com/GPU", "nvidia.com/gpu"),
        ("nvdia.com/gpu", "nvidia.com/gpu"),
        ("memry", "memory"),
        ("memroy", "memory"),
        ("Memory", "memory"),
        ("ephemeral_storage", "ephemeral-storage"),
        ("licence", "licences"),
    ],
)
def test_names_that_differ_little(name: str, other: str) -> None:
    assert similar_type(name, ["pods", other]) == other
    assert similar_type(other, ["pods", name]) == name
    assert type_name_warning(name, [other]) is not None


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("gpu", "gpu"),
        ("gpu", "tpu"),
        ("gpu", "vgpu"),
        ("nvidia.com/gpu", "nvidia.com/vgpu"),
        ("nvidia.com/gpu", "amd.com/gpu"),
        ("hugepages-1Gi", "hugepages-2Mi"),
        ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"),
        ("a10", "a100"),
        ("rtx4090", "rtx4090s"),
        ("rtx4090", "rtx4090d"),
        ("hdd", "ssd"),
        ("pods", "ports"),
        ("memory", "memories"),
    ],
)
def test_names_of_two_types(name: str, other: str) -> None:
    assert similar_type(name, [other]) is None
    assert similar_type(other, [name]) is None


def test_only_some_are_compared() -> None:
    known = [*(f"type{number}" for number in range(MOST_COMPARED)), "gpu"]

    assert similar_type("gpus", known) is None
    assert similar_type("gpus", known[1:]) == "gpu"
