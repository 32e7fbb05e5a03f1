"""Typical asks; what follows from them is compared with the sentences in ``test_fragmentation``."""

from __future__ import annotations

from muster_core.nodes.ask_order import TypicalAsks
from muster_core.nodes.node import Node, NodeDevices
from muster_core.resources import Resources
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeed, DeviceStock

WHOLE = (("gpu", DeviceNeed(count=1)),)
SHARE = (("gpu", DeviceNeed(milli=600)),)


# DEVICE-15
def test_k_is_rounded_up_exactly() -> None:
    typical = TypicalAsks([TypicalAsk((("gpu", DeviceNeed(count=1)),), weight=3)])
    assert typical.weight == 3
    assert [typical.steps(0, more) for more in (-121, -120, -1, 0, 1, 120, 121)] == [
        *(-1, -1, 0, 0, 1, 1, 2)
    ]
    huge = 2**60
    assert typical.steps(0, 120 * huge + 1) == huge + 1
    assert TypicalAsks([]).steps(0, 5) == 0


# DEVICE-19
def test_what_typical_asks_cannot_use() -> None:
    typical = TypicalAsks(
        [
            TypicalAsk(WHOLE, weight=1),
            TypicalAsk(SHARE, Resources({"vcore": 2}), weight=10),
            TypicalAsk(SHARE, Resources({"vcore": 3}), weight=100),
        ]
    )
    node = Node("n", {"vcore": 2}, {}, schedulable=True)
    node.devices = NodeDevices({"gpu": DeviceStock(3)})
    node.devices.free["gpu"][:] = [1000, 700, 300]
    state = typical.state_of(node, node.devices.free)
    # 1000 of the first, 300 of the second, and all 2000 of the third, which lacks a core.
    assert typical.unusable(state, typical.mask(node, {})) == 1000 + 10 * 300 + 100 * 2000
    assert typical.unusable(state, typical.mask(node, {"vcore": 1})) == 1000 + 110 * 2000
    left = typical.without_whole(state, "gpu", 1)
    assert typical.unusable(left, typical.mask(node, {})) == 1000 + 10 * 300 + 100 * 1000
