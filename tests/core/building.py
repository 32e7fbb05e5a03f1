"""Builders for the tests of the core.

Resources, nodes, trees, a directory of names, an index of nodes, an application.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

import pytest

from muster_core.admission.registry import Registry
from muster_core.admission.routes import Route, StartApp, StartQueue, TellApp, TellQueue
from muster_core.config import default_configuration, load_configuration
from muster_core.config.model import Configuration, Limits, QueueConfig, Settings
from muster_core.decisions import Decision, Kind
from muster_core.errors import RefusedError
from muster_core.events import (
    AddApp,
    AddAsk,
    AddPriorityClass,
    Configure,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
)
from muster_core.nodes.node import Holder, Node
from muster_core.nodes.node_index import NodeIndex
from muster_core.owners.app_messages import (
    AddAsks,
    AppReport,
    AppRequest,
    AsksPending,
    Close,
    CommitApp,
    DecisionMade,
    EnterState,
    ReleaseAsk,
    SpoilBinds,
    UndoBind,
    WithdrawAsk,
)
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.asks import Allocation, AppIdentity, Ask, Origin
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape, ShapeTable
from muster_core.structures.steps import all_at_once
from muster_core.values.application_states import AppState

_positions = count(1)

Queue = dict[str, object]


MAY_CREATE: Final = {"queue.create": "enabled"}
"""The properties of a parent below which applications create queues."""


def queue(name: str, *children: Queue, **fields: object) -> Queue:
    """Return a queue as a file would have it."""
    built: Queue = {"name": name, **fields}
    if children:
        built["queues"] = list(children)
    return built


def configuration(
    *queues: Queue, props: Mapping[str, str] | None = None, **partition: object
) -> Configuration:
    """Load a configuration of one partition with these queues below root."""
    root: Queue = {"name": "root", "queues": list(queues), "properties": dict(props or {})}
    written = {"name": "default", "queues": [root], **partition}
    return load_configuration({"partitions": [written]})


def queue_config(
    path: str = "root.a",
    *,
    is_parent: bool = False,
    guaranteed: Mapping[str, int] | None = None,
    max: Mapping[str, int] | None = None,  # noqa: A002
    fence: bool = False,
    offset: int = 0,
) -> QueueConfig:
    """Return the configuration of one queue, everything else as by default."""
    return QueueConfig(
        name=path.rpartition(".")[2],
        path=path,
        is_parent=is_parent,
        guaranteed=Resources(guaranteed),
        max=Limits.of(max or {}),
        settings=Settings(fence=fence, offset=offset),
    )


def shape(
    node: str | None = None, selector: Sequence[tuple[str, str]] = (), **amounts: int
) -> Shape:
    """Return a shape."""
    return Shape(Resources(amounts), tuple(selector), node)


def ask(
    name: str = "x",
    priority: int = 0,
    *,
    run_for_us: int | None = None,
    of: Shape | None = None,
    **amounts: int,
) -> Ask:
    """Return an ask, newer than all that were made before."""
    position = next(_positions)
    wanted = of if of is not None else Shape(Resources(amounts or {"vcore": 1}))
    return Ask(
        rank=-priority,
        creation=position,
        group="",
        seq=position,
        number=0,
        name=name,
        resources=wanted.resources,
        shape=wanted,
        priority=priority,
        run_for_us=run_for_us,
    )


def allocation(of: Ask, node: str = "n", number: int = 1) -> Allocation:
    """Return an allocation of an ask."""
    return Allocation(of, node, number)


def identity(key: int = 1, name: str = "app", *, skip_starting: bool = False) -> AppIdentity:
    """Return an application of the queue root.a."""
    return AppIdentity(key, name, 2, "root.a", skip_starting)


def wish(
    app: str = "app",
    name: str = "x",
    priority: int | None = None,
    *,
    count: int | None = None,
    node: str | None = None,
    selector: Mapping[str, str] | None = None,
    run_for_us: int | None = None,
    retries: int = 0,
    gang: str | None = None,
    **amounts: int,
) -> AddAsk:
    """Return the event of an ask, of one millicore if no amount is given."""
    return AddAsk(
        app=app,
        ask=name,
        resources=Resources(amounts or {"vcore": 1}),
        priority=priority,
        count=count,
        node=node,
        selector=selector or {},
        run_for_us=run_for_us,
        retries=retries,
        gang=gang,
    )


Admissible = (
    AddApp | AddAsk | AddPriorityClass | Configure | FailBind | Release | RemoveApp | RemoveAsk
)


class Names:
    """A directory with a counter of events."""

    def __init__(self, config: Configuration | None = None) -> None:
        self.registry = Registry(config or default_configuration())
        self._seq = count(1)

    def enter(self, event: Admissible) -> list[Route]:
        routes = self.registry.handle(event, Origin(next(self._seq)))
        self.registry.check()
        return routes

    def refused(self, event: Admissible) -> str:
        """Check that an event is refused and changes nothing; return the message."""
        before = self.picture()
        with pytest.raises(RefusedError) as refusal:
            self.registry.handle(event, Origin(next(self._seq)))
        assert self.picture() == before
        self.registry.check()
        return str(refusal.value)

    def picture(self) -> object:
        queues = {
            path: (entry.key, entry.config, entry.dynamic, entry.draining, entry.apps)
            for path, entry in self.registry.queues.items()
        }
        return queues, self.registry.apps(), self.registry.completed.seen()

    def add_app(self, name: str, path: str, **fields: str) -> list[Route]:
        return self.enter(AddApp(name, path, **fields))  # type: ignore[arg-type]

    def draining(self) -> list[str]:
        return [path for path, entry in self.registry.queues.items() if entry.draining]

    def paths(self) -> list[str]:
        return sorted(self.registry.queues)


def short(routes: list[Route]) -> list[str]:
    """Return routes in short: ``+2 root.a``, ``2 Retire``, ``app 5 Enlist``."""
    lines: list[str] = []
    for route in routes:
        match route:
            case StartQueue():
                lines.append(f"+{route.key} {route.config.path}")
            case TellQueue():
                lines.append(f"{route.key} {type(route.message).__name__}")
            case StartApp():
                lines.append(f"+app {route.identity.key}")
            case TellApp():
                lines.append(f"app {route.key} {type(route.message).__name__}")
            case EnterState():
                lines.append(f"app {route.key} {route.state.value}")
    return lines


class Nodes:
    """An index with its table of shapes, updated as the view does it."""

    def __init__(self) -> None:
        self.shapes = ShapeTable()
        self.index = NodeIndex(self.shapes)

    def add(
        self,
        *names: str,
        attributes: Mapping[str, str] | None = None,
        schedulable: bool = True,
        **capacity: int,
    ) -> None:
        for name in names:
            self.index.add(name, Resources(capacity), attributes or {}, schedulable=schedulable)

    def update(
        self,
        name: str,
        *,
        attributes: Mapping[str, str] | None = None,
        schedulable: bool | None = None,
        **capacity: int,
    ) -> None:
        self.index.update(
            name, Resources(capacity) if capacity else None, attributes, schedulable=schedulable
        )

    def find(self, wanted: Shape) -> str | None:
        bit = self.shapes.find(wanted)
        if bit is None:
            bit = self.shapes.add(wanted)
            self.index.shape_added(bit)
            all_at_once(self.index.place_shapes())
        node = self.index.find(bit)
        return None if node is None else node.name

    def take(self, name: str, holder: Holder = (1, "x"), **amounts: int) -> Node:
        node = self.index.nodes[name]
        self.index.take(node, Resources(amounts), holder)
        return node

    def order(self) -> list[str]:
        self.index.check()
        return [node.name for node in self.index.in_order()]


class Application:
    """An application, driven as a coordinator drives it."""

    def __init__(self, *, skip_starting: bool = False) -> None:
        self.machine = ApplicationMachine(identity(skip_starting=skip_starting))
        self.asks: dict[str, Ask] = {}
        self.was_bound: dict[str, bool] = {}
        self._seq = count(10)
        self._epochs = count(1)
        self._binds = count(1)

    def origin(self) -> Origin:
        return Origin(next(self._seq), index=3, line=4)

    def close(self) -> AppReport:
        report = self.machine.handle(Close(next(self._epochs)))
        assert report is not None
        for action in report.actions:
            if isinstance(action, AsksPending):
                self.asks.update((ask.name, ask) for ask in action.asks)
                self.was_bound.update((ask.name, action.was_bound) for ask in action.asks)
        self.machine.check()
        return report

    def tell(self, *requests: AppRequest) -> AppReport:
        for request in requests:
            assert self.machine.handle(request) is None
        return self.close()

    def add(self, event: AddAsk) -> AppReport:
        return self.tell(AddAsks(self.origin(), event, event.priority or 0))

    def commit(
        self, *binds: str, failed: tuple[str, ...] = (), node: str = "n"
    ) -> list[Allocation]:
        held = [allocation(self.asks[ask], node, next(self._binds)) for ask in binds]
        assert self.machine.handle(CommitApp(tuple(held), failed)) is None
        self.machine.check()
        return held

    def withdraw(self, ask: str) -> AppReport:
        return self.tell(WithdrawAsk(self.origin(), ask))

    def release(self, ask: str) -> AppReport:
        return self.tell(ReleaseAsk(self.origin(), ask))

    def undo(self, ask: str) -> AppReport:
        return self.tell(UndoBind(self.origin(), ask))

    def spoil(self, ask: str, times: int = 1) -> AppReport:
        return self.tell(SpoilBinds(self.origin(), ask, times))

    def state(self) -> AppState:
        return self.machine.snapshot().state

    def refused(self, request: AppRequest) -> str:
        """Check that a request is refused and changes nothing; return the message."""
        before = (self.machine.snapshot(), self.machine.values())
        report = self.tell(request)
        (action,) = report.actions
        assert isinstance(action, DecisionMade)
        assert action.decision.kind is Kind.REJECTED
        assert (action.decision.index, action.decision.line) == (3, 4)
        assert (self.machine.snapshot(), self.machine.values(), report.credits) == (*before, 1)
        return action.decision.message or ""


def decisions_of(report: AppReport) -> list[Decision]:
    made = [action for action in report.actions if isinstance(action, DecisionMade)]
    return [one.decision for one in sorted(made, key=lambda one: one.order)]


def summaries_of(report: AppReport) -> list[str]:
    """Return the decisions in short: ``released x n completed``, ``Accepted``."""
    return [
        decision.state
        or " ".join(filter(None, (decision.kind, decision.ask, decision.node, decision.reason)))
        for decision in decisions_of(report)
    ]
