"""Warnings: about what a feed says (CONFIG-84, CONFIG-85, CONFIG-86), about what asks and gangs
want of nodes (DEVICE-22, DEVICE-23, TOPOLOGY-16), and about ``backfill.depth`` (BACKFILL-31)
and ``queue.weight`` (SHARE-18).
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from muster.config_files import parse_configuration
from muster.feeds import read_feed
from muster.replay import FeedWarning
from muster.replay._warnings import FeedWarnings, UnmetRequests
from muster_core.errors import Problem
from muster_core.events import Configure
from tests.actors.cli.helpers import run, written


def warnings(feed: str, *, whole: bool = True) -> list[FeedWarning]:
    found: list[FeedWarning] = []
    reading = FeedWarnings(found.append)
    for item in read_feed(BytesIO(feed.encode())):
        reading.saw(item)
    if whole:
        reading.end()
    return found


def places(feed: str) -> list[tuple[int | None, str]]:
    return [(warning.line, warning.path) for warning in warnings(feed)]


CONFIGURED = """\
- op: configure
  config:
    partitions:
      - usergroupresolver: os
        nodesortpolicy: {resourceweights: {disks: 2}}
        queues:
          - name: a
            resources: {max: {gpu: 4, memory: 1Gi}}
"""


def test_warnings_of_a_configuration_have_their_place_in_the_feed() -> None:
    [warning] = warnings(CONFIGURED, whole=False)

    assert (warning.file, warning.index, warning.line) == (None, 0, 4)
    assert warning.path == "config.partitions[0].usergroupresolver"
    assert warning.message == "usergroupresolver: checked for form, but not obeyed"


def test_cpu_is_a_slip_outside_of_objects() -> None:
    object_ = "{kind: Node, metadata: {name: m}, status: {allocatable: {cpu: 1, memory: 1Gi}}}"

    assert places(
        "- {op: add_node, node: n, capacity: {cpu: 1}}\n"
        "- {op: add_node, node: o, capacity: {cpu: 1}}\n"
        f"- {{op: apply, manifest: {object_}}}\n"
        "- {op: add_app, app: a, queue: q}\n"
        "- {op: add_ask, app: a, ask: k, resources: {mem: 1}}\n"
        "- {op: update_node, node: n, capacity: {cores: 1}}\n"
    ) == [(1, "capacity.cpu"), (5, "resources.mem"), (6, "capacity.cores")]


def test_a_type_beside_another_that_differs_little() -> None:
    feed = (
        "- {op: add_node, node: n, capacity: {gpu: 1}}\n"
        "- {op: add_ask, app: a, ask: k, resources: {gpus: 1}}\n"
        "- {op: add_ask, app: a, ask: l, resources: {gpus: 1}}\n"
    )

    [warning] = warnings(feed)
    assert (warning.line, warning.path) == (2, "resources.gpus")
    assert warning.message == "the type 'gpus' differs little from 'gpu', which is used as well"


def test_a_configuration_after_the_nodes() -> None:
    node = "- {op: add_node, node: n, capacity: {gpus: 1, disks: 1}}\n"

    slip, missing = (
        warning for warning in warnings(node + CONFIGURED) if "type" in warning.message
    )
    assert (slip.line, slip.path) == (9, "config.partitions[0].queues[0].resources.max.gpu")
    assert missing.message == (
        "no node and no ask of the feed has the type 'gpu'; did you mean gpus?"
    )


def test_the_objects_of_a_manifest() -> None:
    pod = (
        "{kind: Pod, metadata: {name: p, labels: {applicationId: a}}, spec: "
        "{containers: [{resources: {requests: {gpus: 1}}}]}}"
    )
    feed = (
        "- {op: add_node, node: n, capacity: {gpu: 1}}\n"
        f"- {{op: apply, manifest: {{kind: List, items: [{pod}]}}}}\n"
    )

    assert places(feed) == [(2, "manifest.items[0].spec.gpus")]


def test_types_that_nothing_has_are_known_at_the_end() -> None:
    feed = CONFIGURED + "- {op: add_node, node: n, capacity: {vcore: 1}}\n"

    assert len(warnings(feed, whole=False)) == 1
    assert [(one.line, one.path.rpartition(".")[2]) for one in warnings(feed)[1:]] == [
        (5, "disks"),
        (8, "gpu"),
    ]


def test_a_feed_without_nodes_and_asks_says_nothing_about_types() -> None:
    assert len(warnings(CONFIGURED)) == 1


def test_msgpack_has_no_lines() -> None:
    found: list[FeedWarning] = []
    reading = FeedWarnings(found.append)
    packed = b"\x83\xa2op\xa8add_node\xa4node\xa1n\xa8capacity\x81\xa3cpu\x01"
    for item in read_feed(BytesIO(packed)):
        reading.saw(item)

    assert [(warning.index, warning.line) for warning in found] == [(0, None)]


NODES = """\
- {op: add_node, node: n, capacity: {vcore: 8}, devices: {gpu: {count: 4, model: A100}}}
- {op: add_node, node: o, capacity: {vcore: 8, fpga: 1}, devices: {gpu: {count: 4, model: t4}, fpga: 1}}
"""


def ask(rest: str) -> str:
    return f"- {{op: add_ask, app: a, ask: k, resources: {{vcore: 1}}, {rest}}}\n"


def messages(feed: str) -> list[str]:
    return [warning.message for warning in warnings(feed)]


# DEVICE-22
@pytest.mark.parametrize("name", ["gpu", "nvidia.com/gpu", "gpus", "GPU"])
def test_a_device_that_is_named_as_a_resource(name: str) -> None:
    asks = f"- {{op: add_ask, app: a, ask: k, resources: {{vcore: 1, {name}: 1}}}}\n"

    [warning] = warnings(asks + asks + NODES)
    assert (warning.index, warning.line, warning.path) == (0, 1, f"resources.{name}")
    assert warning.message == (
        f"no node has the resource '{name}', but nodes have devices of the type gpu: an ask names "
        "them in devices, such as devices: {gpu: 1}"
    )


# DEVICE-22
@pytest.mark.parametrize("name", ["fpga", "licence", "vcore"])
def test_a_resource_that_is_no_device(name: str) -> None:
    """A node may have both: fpga is a resource of one."""
    asks = f"- {{op: add_ask, app: a, ask: k, resources: {{{name}: 1}}}}\n"

    assert messages(NODES + asks) == []


# DEVICE-22
def test_a_limit_of_devices() -> None:
    queue = "{name: a, resources: {max: {gpu: 4}}}"
    configure = f"- {{op: configure, config: {{partitions: [{{queues: [{queue}]}}]}}}}\n"

    assert messages(configure + NODES) == [
        "no node and no ask of the feed has the type 'gpu'; did you mean device/gpu?"
    ]


# DEVICE-23
def test_a_model_in_another_case() -> None:
    wants = ask("devices: {gpu: {count: 1, models: [a100, H100]}}")

    [warning] = warnings(wants + NODES + wants)
    assert (warning.line, warning.path) == (1, "devices.gpu.models")
    assert warning.message == "no node has gpu of the model 'a100'; did you mean A100?"


# DEVICE-23
def test_an_ask_may_name_a_model_in_two_ways() -> None:
    both = ask("devices: {gpu: {count: 1, models: [A100, a100]}}")
    right = ask("devices: {gpu: {count: 1, models: [A100]}}")
    wrong = ask("devices: {gpu: {count: 1, models: [T4]}}")

    assert messages(NODES + both + right) == []
    assert messages(NODES + both + right + wrong) == [
        "no node has gpu of the model 'T4'; did you mean t4?"
    ]


# TOPOLOGY-16
@pytest.mark.parametrize(
    ("rule", "effect"),
    [
        ("same", "no member gets a node"),
        ("prefer", "the gang prefers nothing"),
        ("spread", "no member gets a node"),
    ],
)
def test_a_topology_whose_attribute_no_node_has(rule: str, effect: str) -> None:
    gang = f"- {{op: add_gang, gang: g, min_member: 1, topology: {{{rule}: rack}}}}\n"

    [warning] = warnings(gang + NODES)
    assert (warning.line, warning.path) == (1, f"topology.{rule}")
    assert warning.message == (
        f"no node of the feed has the attribute 'rack', so {effect}: nodes say what they have in "
        "attributes, such as {rack: a}"
    )


GANG = "- {op: add_gang, gang: g, min_member: 1, topology: {same: rack}}\n"


# TOPOLOGY-16
@pytest.mark.parametrize(
    ("attribute", "end"),
    [("racks", "; did you mean racks?"), ("zone", ": nodes have 'zone'")],
)
def test_nodes_with_other_attributes(attribute: str, end: str) -> None:
    node = f"- {{op: add_node, node: m, capacity: {{vcore: 1}}, attributes: {{{attribute}: a}}}}\n"

    [message] = messages(GANG + node)
    assert message.endswith(f"so no member gets a node{end}")


# TOPOLOGY-16
@pytest.mark.parametrize(
    "node",
    [
        "- {op: add_node, node: m, capacity: {vcore: 1}, attributes: {rack: a}}\n",
        "- {op: update_node, node: n, attributes: {rack: a}}\n",
        "- {op: apply, manifest: {kind: Node, metadata: {name: m, labels: {rack: a}}}}\n",
    ],
)
def test_one_node_with_the_attribute_is_enough(node: str) -> None:
    assert messages(NODES + GANG + node) == []


# TOPOLOGY-16
def test_a_feed_without_nodes_says_nothing_about_them() -> None:
    assert messages(GANG + ask("devices: {gpu: {count: 1, models: [a100]}}")) == []


# DEVICE-23, TOPOLOGY-16
def test_nodes_that_were_there_before_the_feed_may_have_anything() -> None:
    feed = NODES + GANG + ask("devices: {gpu: {count: 1, models: [a100]}}")
    wanted = UnmetRequests()
    for item in read_feed(BytesIO(feed.encode())):
        wanted.saw(item)
    assert len([*wanted.warnings()]) == 2

    wanted.begin([{"vcore": 1}])
    assert [*wanted.warnings()] == []


READ_BELOW = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: gpu
            properties: {scheduling.order: Backfill, backfill.depth: 5}
            queues:
              - name: a
                properties:
                  backfill.depth: 2
          - name: cpu
            properties: {backfill.depth: 3}
"""


def problems_of(text: str) -> tuple[Problem, ...]:
    configuration = parse_configuration(text, file="queues.yaml")
    assert configuration.warnings == ()  # Nothing is announced.
    return configuration.located_warnings


def queues(*written: str) -> str:
    return f"partitions: [{{queues: [{', '.join(written)}]}}]"


def test_a_depth_without_effect_is_reported_with_its_place() -> None:
    below, beside = problems_of(READ_BELOW)

    assert below == Problem(
        "root.gpu.a: backfill.depth 2 has no effect: write it on root.gpu, whose "
        "scheduling.order rules all queues below it",
        "partitions[0].queues[0].queues[0].queues[0].properties.backfill.depth",
        "queues.yaml",
        11,
    )
    assert (beside.line, beside.message) == (
        13,
        (
            "root.cpu: backfill.depth 3 has no effect: only a queue with scheduling.order: "
            "backfill reads it, and here the order is greedy: write both on one queue"
        ),
    )


@pytest.mark.parametrize(
    ("queue", "messages"),
    [
        ("{name: a, properties: {scheduling.order: backfill, backfill.depth: 5}}", []),
        ("{name: a, properties: {scheduling.order: backfill}}", []),
        (
            "{name: A, properties: {scheduling.order: strict, backfill.depth: 5}}",
            [
                (
                    "root.a: backfill.depth 5 has no effect: the scheduling.order of root.a is "
                    "strict, and only backfill has a depth"
                )
            ],
        ),
        (
            (
                "{name: a, properties: {scheduling.order: strict}, queues: "
                "[{name: b, queues: [{name: c, properties: {backfill.depth: 5}}]}]}"
            ),
            [
                (
                    "root.a.b.c: backfill.depth 5 has no effect: the scheduling.order of root.a is "
                    "strict, and only backfill has a depth"
                )
            ],
        ),
        (
            (
                "{name: a, parent: true, properties: {scheduling.order: backfill}, childtemplate: "
                "{properties: {backfill.depth: 2}}}"
            ),
            [
                (
                    "root.a (childtemplate): backfill.depth 2 has no effect: write it on root.a, "
                    "whose scheduling.order rules all queues below it"
                )
            ],
        ),
        (
            (
                "{name: a, parent: true, childtemplate: {properties: "
                "{scheduling.order: backfill, backfill.depth: 2}}}"
            ),
            [],
        ),
        (
            "{name: a, parent: true, childtemplate: {properties: {backfill.depth: 2}}}",
            [
                (
                    "root.a (childtemplate): backfill.depth 2 has no effect: only a queue with "
                    "scheduling.order: backfill reads it, and here the order is greedy: write both "
                    "on one queue"
                )
            ],
        ),
    ],
)
def test_which_depths_have_no_effect(queue: str, messages: list[str]) -> None:
    assert [problem.message for problem in problems_of(queues("{name: z}", queue))] == messages


# SHARE-18
@pytest.mark.parametrize(
    ("parent", "who"),
    [
        ("queues: [{name: b, properties: {queue.weight: 3}}]", ["root.a.b"]),
        (
            "parent: true, childtemplate: {properties: {queue.weight: 3}}",
            ["root.a (childtemplate)"],
        ),
        (
            (
                "properties: {queue.weight: 3, share.policy: weight}, "
                "queues: [{name: b, properties: {queue.weight: 3}}]"
            ),
            ["root.a"],
        ),
        (
            (
                "properties: {usage.half.life: 1h}, queues: [{name: b, properties: "
                "{queue.weight: 3}, queues: [{name: c, properties: {queue.weight: 3}}]}]"
            ),
            [],
        ),
        (
            ("parent: true, childtemplate: {properties: {queue.weight: 3, usage.half.life: 1h}}"),
            [],
        ),
    ],
)
def test_which_weights_have_no_effect(parent: str, who: list[str]) -> None:
    messages = [problem.message for problem in problems_of(queues(f"{{name: a, {parent}}}"))]

    assert [message.partition(": ")[0] for message in messages] == who
    above = "root" if who == ["root.a"] else "root.a"
    for message in messages:
        assert message.endswith(
            ": queue.weight 3 has no effect: weights count where the parent has share.policy: "
            f"weight or a usage.half.life, and {above} has neither"
        )


def test_only_the_partition_that_runs_is_checked() -> None:
    text = (
        "partitions: [{name: p, queues: [{name: a, properties: {backfill.depth: 5}}]}, "
        "{name: default, queues: [{name: a}]}]"
    )

    assert parse_configuration(text).located_warnings == ()
    assert len(parse_configuration(text, partition="p").located_warnings) == 1


def test_a_configuration_in_a_feed() -> None:
    queue = "{name: root, properties: {backfill.depth: 2}}"
    feed = f"- op: configure\n  config:\n    partitions:\n    - queues: [{queue}]\n"

    [item] = read_feed(BytesIO(feed.encode()))
    assert isinstance(item.content, Configure)
    [problem] = item.content.config.located_warnings
    assert (problem.line, problem.path) == (
        4,
        "config.partitions[0].queues[0].properties.backfill.depth",
    )
    assert problem.message.startswith("root: backfill.depth 2 has no effect: only a queue with")


# BACKFILL-15: a job at its limit takes no reservation, so a depth of 1 is enough for the others.
def test_limits_of_users_in_a_scope_of_one_reservation_need_no_warning() -> None:
    limited = "limits: [{limit: each user, users: ['*'], maxresources: {vcore: 12}}]"
    leaf = "{name: root, properties: {scheduling.order: backfill}, queues: [{name: a, %s}]}"
    assert problems_of(queues(leaf % limited)) == ()


# BACKFILL-31
def test_validate_compare_and_import_tell_it(tmp_path: Path) -> None:
    idle = "{name: root, queues: [{name: a, properties: {backfill.depth: 2}}]}"
    config = written(tmp_path / "queues.yaml", queues(idle))
    feed = written(tmp_path / "feed.jsonl", '{"op": "add_node", "node": "n", "capacity": {}}\n')
    trace = written(tmp_path / "t.swf", "1 0 5 100 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n")
    named = "partitions[0].queues[0].queues[0].properties.backfill.depth"
    warning = f"warning: {named}: root.a: backfill.depth 2 has no effect"

    assert warning in run("validate", config).output
    assert warning in run("compare", feed, "--config", config).stderr
    words = ("--nodes", "1x vcore=4", "--config", config, "-o", tmp_path / "t.jsonl")
    assert warning in run("import", "swf", trace, *words).stderr
