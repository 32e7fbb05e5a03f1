from __future__ import annotations

from math import fsum

import pytest

from muster_core.nodes.ask_order import Leftover
from muster_core.nodes.node import Node
from muster_core.resources import Resources

ASK = Resources({"vcore": 1})


def node(name: str, used: int = 0, **capacity: int) -> Node:
    return Node(name, capacity, {}, schedulable=True, used={"vcore": used} if used else {})


# DEVICE-16
@pytest.mark.parametrize(
    "weights",
    [
        (("vcore", 0.3),),
        (("memory", 0.7), ("vcore", 0.3)),
        (("gpu", 0.1), ("memory", 0.7), ("vcore", 0.3)),
    ],
)
def test_it_is_a_sum_of_shares_of_the_largest_node(weights: tuple[tuple[str, float], ...]) -> None:
    nodes = [node("a", 3, vcore=7, memory=3), node("b", vcore=11), node("c", memory=13, gpu=3)]
    leftover = Leftover((*weights, ("tape", 5.0)))
    assert leftover.measure(nodes)
    largest = {"vcore": 11, "memory": 13, "gpu": 3}
    for one in nodes:
        parts = [
            weight
            * ((one.capacity.get(name, 0) - one.used.get(name, 0) - ASK[name]) / largest[name])
            for name, weight in weights
        ]
        assert leftover.of(one, ASK) == fsum(parts)


def test_it_says_when_a_largest_capacity_has_changed() -> None:
    leftover = Leftover((("vcore", 1.0),))
    assert leftover.measure([node("a", vcore=4)])
    assert not leftover.measure([node("a", vcore=4), node("b", vcore=3)])
    assert leftover.measure([node("b", vcore=3)])


def test_more_may_be_used_than_there_is() -> None:
    leftover = Leftover((("memory", 1e308), ("gpu", 1e308), ("vcore", 1e308)))
    one = node("a", 10**9, vcore=1, memory=1, gpu=1)
    leftover.measure([one])
    assert leftover.of(one, ASK) < 0
