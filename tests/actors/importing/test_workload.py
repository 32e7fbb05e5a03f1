"""Jobs go into a workload in any order.

Nodes, queues, and dumps of every kind that are not quite right.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from muster.feeds import FeedError
from muster.importing import Workload, default_queues, read_queues
from muster.importing.dumps import Spool
from muster.importing.nodes import NodeFields, nodes_of, parse_nodes
from muster.importing.workload import AskGroup, Job, configuration_of, parents_with_jobs
from muster_core.errors import ConfigError
from tests.actors.importing.mutated import (
    IMPORTED,
    KINDS,
    UNUSABLE,
    FaultError,
    Kind,
    attack,
    kind_of,
    outcome_of,
)

SECOND = 1_000_000


def job(at_s: int, app: str, run_s: int | None = 10, *, count: int = 1, gang: bool = False) -> Job:
    run_us = None if run_s is None else run_s * SECOND
    part = AskGroup("task", {"vcore": 1}, count=count, run_us=run_us)
    return Job(at_s * SECOND, app, "root.a", [part], is_gang=gang)


def feed_of(*jobs: Job, dated: bool = False) -> list[dict[str, Any]]:
    target = io.BytesIO()
    with Workload() as workload:
        workload.is_dated = dated
        for one in jobs:
            workload.submit(one)
        workload.write(target, {"config": configuration_of(workload.queues)})
    return [json.loads(line) for line in target.getvalue().decode().splitlines()]


def test_jobs_come_in_the_order_of_their_instants() -> None:
    events = feed_of(job(7, "late"), job(5, "early"), job(7, "later"))

    assert [event["app"] for event in events if event["op"] == "add_app"] == [
        "early",
        "late",
        "later",
    ]
    assert [event.get("at") for event in events] == [5, None, None, 7, None, None, None]


def test_instants_are_dates_where_the_dump_has_dates() -> None:
    at_s = 1_767_225_600
    events = feed_of(job(at_s, "a"), Job(at_s * SECOND + 500_000, "b", "root.a", []), dated=True)

    assert [event["at"] for event in events if "at" in event] == [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.5Z",
    ]


def test_jobs_of_one_application_share_it() -> None:
    events = feed_of(job(0, "a"), job(5, "a"))

    assert [event["op"] for event in events] == ["configure", "add_app", "add_ask", "add_ask"]


# APP-10: an application without asks is completed after 30 seconds, and then takes no more.
def test_an_application_that_may_be_completed_goes_on_as_another_one() -> None:
    events = feed_of(job(0, "a", 10), job(39, "a", 10), job(79, "a", 10), job(1000, "b", None))

    assert [(event["op"], event["app"]) for event in events if "app" in event] == [
        ("add_app", "a"),
        ("add_ask", "a"),
        ("add_ask", "a"),
        ("add_app", "a.2"),
        ("add_ask", "a.2"),
        ("add_app", "b"),
        ("add_ask", "b"),
    ]


def test_an_application_that_never_ends_takes_more() -> None:
    events = feed_of(job(0, "a", None), job(10_000, "a"))

    assert sum(event["op"] == "add_app" for event in events) == 1


def test_each_gang_has_a_name_of_its_own() -> None:
    events = feed_of(
        job(0, "a_1", count=2, gang=True),
        job(1, "a_1", count=3, gang=True),
        job(2, "a-1", count=2, gang=True),
    )

    names = [event["gang"] for event in events if event["op"] == "add_gang"]
    assert len(set(names)) == 3
    assert [event["gang"] for event in events if event["op"] == "add_ask"] == names
    assert [event["min_member"] for event in events if event["op"] == "add_gang"] == [2, 3, 2]


def test_a_configuration_has_the_queues() -> None:
    assert configuration_of(["root.a", "root.b.c", "root.b.d"]) == {
        "partitions": [
            {
                "name": "default",
                "queues": [
                    {
                        "name": "root",
                        "submitacl": "*",
                        "queues": [
                            {"name": "a"},
                            {"name": "b", "queues": [{"name": "c"}, {"name": "d"}]},
                        ],
                    }
                ],
            }
        ]
    }


def test_queues_that_have_jobs_and_queues_below_them() -> None:
    assert parents_with_jobs(["root.a", "root.b", "root.b.c"]) == [("root.b", "root.b.c")]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers()), max_size=60),
    st.integers(min_value=100, max_value=2000),
)
def test_a_spool_sorts_like_sorted(records: list[tuple[int, int]], full_bytes: int) -> None:
    with Spool(full_bytes) as spool:
        for at_us, value in records:
            spool.add(at_us, (str(value),))
        spool.finish()
        found = [(at_us, record) for at_us, record in spool.in_order()]

    assert found == [
        (at_us, (str(value),)) for at_us, value in sorted(records, key=lambda record: record[0])
    ]
    if records:
        instants = [at_us for at_us, _ in records]
        assert (spool.first_us, spool.last_us) == (min(instants), max(instants))


def test_a_text() -> None:
    nodes = nodes_of("2x vcore=64,memory=256Gi; 1x vcore=8, nvidia.com/gpu=4")

    assert nodes == [
        NodeFields("node-a-00", {"vcore": 64, "memory": "256Gi"}),
        NodeFields("node-a-01", {"vcore": 64, "memory": "256Gi"}),
        NodeFields("node-b-00", {"vcore": 8, "nvidia.com/gpu": 4}),
    ]


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("""\
- {node: fat, capacity: {vcore: 500m}, attributes: {rack: "1", ssd: true}}
- {node: thin, count: 2, capacity: {vcore: 2}}
- {op: settle}
- {op: add_node, node: own, capacity: {memory: 1Gi}}
""")

    assert [node.event() for node in nodes_of(str(file))] == [
        {
            "op": "add_node",
            "node": "fat",
            "capacity": {"vcore": "500m"},
            "attributes": {"rack": "1", "ssd": "true"},
        },
        {"op": "add_node", "node": "thin-00", "capacity": {"vcore": 2}},
        {"op": "add_node", "node": "thin-01", "capacity": {"vcore": 2}},
        {"op": "add_node", "node": "own", "capacity": {"memory": "1Gi"}},
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("4x", "'4x' is no number of nodes with their resources: write"),
        ("4", "No such file"),
        ("4x vcore", "'vcore' is no resource with its amount"),
        ("4x vcore=many", "many"),
        ("4x vcore=1; none", "'none' is no number of nodes"),
    ],
)
def test_a_text_that_is_wrong(text: str, problem: str) -> None:
    with pytest.raises((ValueError, FeedError), match=problem):
        nodes_of(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- {node: a}\n", "1: has no `capacity`"),
        ("- {node: a, capacity: {vcore: x}}\n", "1: .*x"),
        (
            "- {node: a, capasity: {vcore: 1}}\n",
            "'capasity' is no field of a node; did you mean capacity",
        ),
        ("- {node: a, count: 0, capacity: {vcore: 1}}\n", "count: '0' is not a whole number"),
        ("- {node: a, attributes: [b], capacity: {vcore: 1}}\n", "attributes: "),
        ("- {op: settle}\n", "has no node"),
    ],
)
def test_a_file_that_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(text)

    with pytest.raises(FeedError, match=problem):
        nodes_of(str(file))


NAMES = ("account", "partition", "user")


def test_the_first_rule_that_matches_wins(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("""\
queues:
  - account: physics
    partition: gpu
    queue: science.gpu
  - account: "phys*"
    queue: root.science.{account}
  - user: bob
    queue: root.{user}.{partition}
others: root.rest
""")
    queues = read_queues(str(file), NAMES)

    assert queues.of({"account": "physics", "partition": "gpu"}) == "root.science.gpu"
    assert queues.of({"account": "Physics", "partition": "gpu"}) == "root.rest"
    assert queues.of({"account": "physics.Two", "user": "bob"}) == "root.science.physics-two"
    assert queues.of({"user": "bob", "partition": "a b"}) == "root.bob.a-b"
    assert queues.of({"user": "bob"}) is None  # a name on the path would be empty
    assert queues.of({}) == "root.rest"


def test_without_a_file_the_first_path_with_all_its_values_counts() -> None:
    queues = default_queues(("root.{account}.{user}", "root.{account}"), NAMES)

    assert queues.of({"account": "a", "user": "u"}) == "root.a.u"
    assert queues.of({"account": "a"}) == "root.a"
    assert queues.of({"user": "u"}) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "is not a map with `queues`"),
        ("queues: a\n", "1: queues: 'a' is not a list of rules"),
        ("queue: []\n", "1: queue: is unknown: `queues` and `others` can stand here"),
        ("queues:\n- user: a\n", "2: queues[0]: has no `queue`"),
        ("queues:\n- {acount: a, queue: b}\n", "queues[0].acount: is no field of these jobs"),
        ("queues:\n- {queue: 'root.{usr}'}\n", "{usr} is no field of these jobs"),
        ("queues:\n- {queue: 'a b'}\n", "'a b' is not a name of a queue"),
        ("others: [a]\n", "others: a list is not the path of a queue"),
        ("a: [\n", "not YAML"),
    ],
)
def test_a_mapping_file_that_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        read_queues(str(file), NAMES)

    assert f"{file}:" in str(caught.value)
    assert problem in str(caught.value)


def test_a_mapping_file_that_is_missing() -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_queues("/nowhere/queues.yaml", NAMES)


_MUTANTS = 60


@pytest.mark.parametrize("name", KINDS)
def test_an_import_stands_dumps_with_mistakes(name: str) -> None:
    outcomes, faults = attack(name, _MUTANTS, seed=1)
    assert not faults, faults[0]
    assert sum(outcomes.values()) == _MUTANTS
    assert {outcome.partition(": ")[2] for outcome in outcomes} == {IMPORTED, UNUSABLE}


@pytest.mark.parametrize("name", KINDS)
def test_the_samples_themselves_are_right(name: str) -> None:
    kind = kind_of(name)
    for sample, dump in kind.samples.items():
        assert outcome_of(kind, sample, dump) == IMPORTED, sample


def _twice(sample: str, dump: bytes, workload: Workload) -> None:
    workload.nodes = parse_nodes("1x vcore=4")
    for _ in dump.split():
        workload.submit(Job(0, "a", "root.q", [AskGroup("task", {"vcore": 1})], is_alone=True))


def _unaccounted(sample: str, dump: bytes, workload: Workload) -> None:
    workload.account.read["job"] += 1


@pytest.mark.parametrize("read", [_twice, _unaccounted])
def test_faults_are_found(read: Callable[[str, bytes, Workload], None]) -> None:
    with pytest.raises(FaultError):
        outcome_of(Kind({}, read), "sample", b"one other")
