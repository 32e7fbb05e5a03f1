"""Sites for the tests of the view.

Nodes of a few cores for stories about reservations, and a cluster with racks for topologies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Event
from muster_core.gangs import GangFields, GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.snapshots import ReservationSnapshot
from muster_core.view.gangs import Member
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from tests.core.admission.objects import full_gang_name
from tests.core.building import configuration, queue
from tests.core.tree import Tree

S = 1_000_000


def backfill(**more: str) -> Mapping[str, str]:
    """Return the properties of a backfill scope, with dots for underscores."""
    own = {name.replace("_", "."): value for name, value in more.items()}
    return {"scheduling.order": "backfill", **own}


class Site:
    """Nodes ``n1``, ``n2``, … with these cores, and the application ``a`` in the queue ``q``.

    Args:
        cores: How many cores each node has.
        properties: Those of root; by default it is a backfill scope.
        most: The most cores that ``q`` may use, if there is such a limit.
    """

    def __init__(
        self, *cores: int, properties: Mapping[str, str] | None = None, most: int | None = None
    ) -> None:
        own = backfill() if properties is None else properties
        limits = {} if most is None else {"resources": {"max": {"vcore": most}}}
        config = configuration(queue("q", **limits), queue("r"), props=own)
        self.scheduler = PlainScheduler(config)
        self.tell(*(AddNode(f"n{number}", vcores(have)) for number, have in enumerate(cores, 1)))
        self.tell(AddApp("a", "root.q"), AddApp("b", "root.r"))

    def tell(self, *events: Event, at_s: int | None = None) -> None:
        """Let events come in, and end their batch."""
        at_us = None if at_s is None else at_s * S
        for event in events:
            self.scheduler.submit(event, at_us)
        self.scheduler.settle(at_us)
        self.scheduler.machine.check()

    @property
    def state(self) -> ViewState:
        """The view."""
        state: ViewState = vars(self.scheduler.machine.view)["_state"]
        return state

    def app(self, name: str) -> ViewApp:
        """Return an application."""
        return next(one for one in self.state.apps.values() if one.identity.name == name)

    def member(self, name: str) -> Member:
        """Return an ask, named ``app/ask``."""
        app, _, ask = name.partition("/")
        view = self.app(app)
        found = view.find(ask)
        assert found is not None
        return Member(view, found)

    @property
    def reserved(self) -> dict[str, tuple[str, float | None]]:
        """The node and the start in seconds of each reservation; None if it is unknown."""
        view = self.scheduler.machine.view
        return {name: brief(one) for name, one in view.reservations().items()}

    @property
    def placed(self) -> dict[str, str]:
        """The nodes of all asks that hold one, by ``app/ask``."""
        return {
            f"{app.identity.name}/{name}": node.name
            for app in self.state.apps.values()
            for places in (app.bound, app.waiting)
            for name, (_, node) in places.items()
        }


def reserved_lines(site: Site) -> list[tuple[object, ...]]:
    """Return what the log says of reservations: instant, ask, node, start."""
    return [
        (line["at"], f"{line['app']}/{line['ask']}", line["node"], line["start"])
        for line in (one.as_map() for one in site.scheduler.announced)
        if line["kind"] == Kind.RESERVED.value
    ]


def brief(one: ReservationSnapshot) -> tuple[str, float | None]:
    return one.node, None if one.start_us is None else one.start_us / S


def vcores(cores: float) -> Resources:
    return Resources({"vcore": int(cores * 1000)})


def job(
    name: str,
    cores: float,
    takes_s: int | None = None,
    *,
    app: str = "a",
    gang: str | None = None,
    count: int | None = None,
    node: str | None = None,
    priority: int = 0,
) -> AddAsk:
    """Return an ask for some cores, which is expected to take so long."""
    ask = AddAsk(app, name, vcores(cores), priority=priority, gang=gang, count=count, node=node)
    return attrs.evolve(ask, estimate_us=None if takes_s is None else takes_s * S)


def gang_of(members: int, *, name: str = "default/g", loose: bool = False) -> AddGang:
    """Define a gang."""
    mode = GangMode.NON_STRICT if loose else None
    return AddGang(name, GangFields(min_member=members, mode=mode))


SAME = Topology(TopologyRule.SAME, "rack")
PREFER = Topology(TopologyRule.PREFER, "rack")
SPREAD = Topology(TopologyRule.SPREAD, "rack")
AT_MOST_ONE = attrs.evolve(SPREAD, max=1)


def racked(name: str, vcore: int, rack: str | None = None, **more: Any) -> AddNode:  # noqa: ANN401
    attributes = {"every": "yes"} | ({} if rack is None else {"rack": rack})
    return AddNode(name, Resources({"vcore": vcore}), attributes, **more)


def gang_within(
    topology: Topology, least: int, name: str = "g", mode: GangMode = GangMode.NON_STRICT
) -> AddGang:
    return AddGang(full_gang_name(name), GangFields(least, mode=mode, topology=topology))


def cluster(*nodes: AddNode, config: Configuration | None = None) -> Tree:
    """Return a tree with the application ``p`` in ``root.a`` and ``q`` in ``root.b``."""
    tree = Tree(config or configuration(queue("a"), queue("b")))
    tree.enter(*nodes)
    tree.add_app("p", "root.a")
    tree.add_app("q", "root.b")
    return tree


def nodes_of(tree: Tree) -> dict[str, str]:
    """Return the node of each ask that holds one."""
    tree.check()
    apps = tree.snapshot().apps.values()
    return {f"{app.name}/{ask.name}": ask.node for app in apps for ask in app.asks if ask.node}
