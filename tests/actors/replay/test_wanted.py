"""Warnings about what asks and gangs want of nodes. DEVICE-22, DEVICE-23, TOPOLOGY-16."""

from __future__ import annotations

from io import BytesIO

import pytest

from muster.feeds import read_feed
from muster.replay._warnings import UnmetRequests
from tests.actors.replay.test_reading import warnings

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
