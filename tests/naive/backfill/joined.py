"""Scenarios of reservations in which nodes have devices and domains, and gangs have topologies."""

from __future__ import annotations

from random import Random
from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.config.model import Configuration, NodeSortPolicy
from muster_core.events import AddAsk, AddGang, AddNode, Configure, UpdateNode
from muster_core.gangs import Topology, TopologyRule
from muster_core.values.devices import DeviceNeed, DeviceStock
from tests.naive.backfill.strategies import backfills
from tests.naive.harness import Step, What

_RACKS: Final = ("r1", "r2", None)
_TOPOLOGIES: Final = (
    None,
    Topology(TopologyRule.SAME, "rack"),
    Topology(TopologyRule.PREFER, "rack"),
    Topology(TopologyRule.SPREAD, "rack", max=2),
)
_NEEDS: Final = (None, None, DeviceNeed(milli=500), DeviceNeed(milli=300), DeviceNeed(count=1))
_ORDERS: Final = (None, NodeSortPolicy.BESTFIT, NodeSortPolicy.FGD)


@st.composite
def joined(draw: st.DrawFn, lists: int = 3) -> list[Step]:
    """Draw a scenario of reservations, and give its nodes, asks and gangs more to look at.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    steps = draw(backfills(lists=lists))
    random = Random(draw(st.integers(0, 2**32)))
    order, has_devices = random.choice(_ORDERS), random.random() < 0.7
    return [
        attrs.evolve(step, what=_more(step.what, random, order, has_devices=has_devices))
        for step in steps
    ]


def _more(what: What, random: Random, order: NodeSortPolicy | None, *, has_devices: bool) -> What:
    rack, count = random.choice(_RACKS), random.randint(1, 3)
    need, topology = random.choice(_NEEDS), random.choice(_TOPOLOGIES)
    attributes = {} if rack is None else {"rack": rack}
    match what:
        case Configure(config):
            return attrs.evolve(what, config=_ordered(config, order))
        case AddNode():
            stock = {"gpu": DeviceStock(count=count, model=None)} if has_devices else {}
            return attrs.evolve(what, attributes={**what.attributes, **attributes}, devices=stock)
        case UpdateNode() if what.attributes is not None:
            return attrs.evolve(what, attributes={**what.attributes, **attributes})
        case AddAsk() if need is not None and has_devices:
            return attrs.evolve(what, devices={"gpu": need})
        case AddGang():
            return attrs.evolve(what, says=attrs.evolve(what.says, topology=topology))
        case _:
            return what


def _ordered(config: Configuration, order: NodeSortPolicy | None) -> Configuration:
    if order is None:
        return config
    weights = (("device/gpu", 1.0), *(one for one in config.node_weights if one[0] == "vcore"))
    return attrs.evolve(config, node_sort=order, node_weights=weights)
