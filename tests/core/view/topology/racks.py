"""A cluster with racks, as tests of topologies see it."""

from __future__ import annotations

from typing import Any

import attrs

from muster_core.config.model import Configuration
from muster_core.events import AddGang, AddNode
from muster_core.gangs import GangFields, GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from tests.core.admission.objects import full
from tests.core.building import configuration, queue
from tests.core.tree import Tree

SAME = Topology(TopologyRule.SAME, "rack")
PREFER = Topology(TopologyRule.PREFER, "rack")
SPREAD = Topology(TopologyRule.SPREAD, "rack")
AT_MOST_ONE = attrs.evolve(SPREAD, max=1)


def racked(name: str, vcore: int, rack: str | None = None, **more: Any) -> AddNode:  # noqa: ANN401
    attributes = {"every": "yes"} | ({} if rack is None else {"rack": rack})
    return AddNode(name, Resources({"vcore": vcore}), attributes, **more)


def gang(
    topology: Topology, least: int, name: str = "g", mode: GangMode = GangMode.NON_STRICT
) -> AddGang:
    return AddGang(full(name), GangFields(least, mode=mode, topology=topology))


def cluster(*nodes: AddNode, config: Configuration | None = None) -> Tree:
    """Give a tree with the application ``p`` in ``root.a`` and ``q`` in ``root.b``."""
    made = Tree(config or configuration(queue("a"), queue("b")))
    made.enter(*nodes)
    made.add_app("p", "root.a")
    made.add_app("q", "root.b")
    return made


def where(made: Tree) -> dict[str, str]:
    """Give the node of each ask that holds one."""
    made.check()
    apps = made.snapshot().apps.values()
    return {f"{app.name}/{ask.name}": ask.node for app in apps for ask in app.asks if ask.node}
