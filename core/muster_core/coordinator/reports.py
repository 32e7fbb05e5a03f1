"""The values that the coordinator collects from owners: reports of an epoch, facts and snapshots.

An epoch tracks the owners that got messages in a batch, and therefore have to report. Every request
to an application carries a credit. When the reports have returned as many credits as were sent, no
request is without an answer.

The facts of a checkpoint are those that the owners and the coordinator own and cannot compute. A
snapshot is built from those of the owners, and from the nodes and shares of the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, assert_never, final

import attrs

from muster_core.admission.routes import (
    AdmissionFacts,
    AnyRoute,
    StartApp,
    StartGang,
    StartQueue,
    TellApp,
    TellGang,
    TellQueue,
)
from muster_core.nodes.node import Node
from muster_core.owners.app_messages import AppFacts, AppReport, Close, EnterState, LoadApp
from muster_core.owners.gang import GangFacts, LoadGang
from muster_core.owners.queue import (
    CommitQueue,
    Expect,
    LoadQueue,
    QueueFacts,
    QueueReport,
    QueueSummary,
)
from muster_core.structures.steps import PART, Steps, in_order, in_pieces
from muster_core.values.application_states import AppState
from muster_core.values.configuration import Configuration
from muster_core.values.records import record
from muster_core.values.snapshots import (
    AppSnapshot,
    AskPlace,
    AskSnapshot,
    DeviceSnapshot,
    GangSnapshot,
    LimitSnapshot,
    NodeSnapshot,
    QueueSnapshot,
    Snapshot,
)
from muster_core.view import DecisionView
from muster_core.view.facts import ViewFacts
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView


@final
@record
class CoordinatorFacts:
    """The facts that the coordinator owns.

    Attributes:
        seq: The latest position in the input.
    """

    now_us: int
    seq: int
    requests: int
    batches: int
    bound: int
    refused: int
    announced: int
    admission: AdmissionFacts
    view: ViewFacts


@final
@record
class Facts:
    """The facts of the whole scheduler, between two batches."""

    coordinator: CoordinatorFacts
    queues: tuple[QueueFacts, ...]
    apps: tuple[AppFacts, ...]
    gangs: tuple[GangFacts, ...]

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self.coordinator.admission.configuration

    @property
    def has_begun(self) -> bool:
        """Whether there was a batch; otherwise all follows from the configuration."""
        return self.coordinator.batches > 0

    # CHECKPOINT-5
    def routes(self) -> Iterator[AnyRoute]:
        """Iterate over the messages that start all owners, each with its own facts."""
        for queue in self.queues:
            yield StartQueue(queue.key, queue.parent, queue.config)
            yield TellQueue(queue.key, LoadQueue(queue))
        for app in self.apps:
            yield StartApp(app.identity)
            yield TellApp(app.identity.key, LoadApp(app))
        for gang in self.gangs:
            yield StartGang(gang.key, gang.name)
            yield TellGang(gang.key, LoadGang(gang))


@final
@record
class ReportRequests:
    """The owners that have to report for an epoch.

    Attributes:
        apps: The applications that got requests.
        queues: The queues above them, the queues that got messages, and the queues above those;
            each with the number of its children that report. Empty if only applications got
            requests: these report to the coordinator, and queues get them with the commits.
        credits: How many requests to applications the reports have to answer.
        commits: The applications that are gone since an earlier epoch of the batch, for the queues
            that do not know it yet; they get them before they report.
    """

    epoch: int
    apps: Mapping[int, Close]
    queues: Mapping[int, Expect]
    credits: int
    commits: Mapping[int, CommitQueue]

    # ROUND-8
    def collect(self, root: QueueReport | None, direct: Iterable[AppReport]) -> Steps[EpochReport]:
        """Put the reports of an epoch into an order that does not depend on who reported first.

        Args:
            root: The report of the root; None if only applications report.
            direct: The reports of applications without their queues, in any order.
        """
        queues: list[QueueSummary] = []
        apps = [*direct]
        waiting = [] if root is None else [root]
        while waiting:
            yield
            report = waiting.pop()
            assert report.epoch == self.epoch, "a report of another epoch"
            queues.append(report.summary)
            apps += report.apps
            waiting += sorted(report.below, key=_SUMMARY_KEY, reverse=True)
        assert sum([app.credits for app in apps]) == self.credits, "a request was not answered"
        return EpochReport(queues, (yield from in_order(apps, _APP_KEY)))


@final
@record
class EpochReport:
    """All changes of an epoch.

    Attributes:
        queues: The queues that have reported, each parent before its children.
        apps: The reports of applications, in the order of their keys.
    """

    queues: Sequence[QueueSummary]
    apps: Sequence[AppReport]


_SUMMARY_KEY: Final = attrgetter("summary.key")
_APP_KEY: Final = attrgetter("identity.key")


@final
class Epoch:
    """Tracks the owners that have to report at the end of the present batch."""

    def __init__(self) -> None:
        #: The number of the last closed epoch.
        self.number = 0
        #: The owners that got messages in this epoch; applications with their queues.
        self._notified_apps: dict[int, int] = {}
        self._notified_queues: set[int] = set()
        self._notified_gangs: set[int] = set()
        self._credits = 0
        #: The parent of each queue, and the queue of each application, by key.
        self._parents: dict[int, int | None] = {}
        self._leaves: dict[int, int] = {}

    def note(self, routes: Iterable[AnyRoute]) -> None:
        """Record which owners get messages."""
        for route in routes:
            match route:
                case TellApp():
                    self._notified_apps[route.key] = self._leaves[route.key]
                    self._credits += 1
                case StartQueue():
                    self._parents[route.key] = route.parent
                    self._notified_queues.add(route.key)
                case TellQueue():
                    self._notified_queues.add(route.key)
                case StartApp(identity):
                    self._leaves[identity.key] = identity.leaf
                case EnterState():
                    if route.state is AppState.COMPLETED:
                        del self._leaves[route.key]
                case StartGang() | TellGang():
                    self._notified_gangs.add(route.key)
                case _:
                    assert_never(route)

    def close(self, reported: Mapping[int, int]) -> Steps[ReportRequests] | None:
        """Close the epoch.

        Args:
            reported: The applications that queues do not know of in this batch, with their leaves.

        Returns:
            Steps to the owners that have to report; None if no application and queue has to.
        """
        self.number += 1
        return self._requests(reported) if self._notified_apps or self._notified_queues else None

    def _requests(self, reported: Mapping[int, int]) -> Steps[ReportRequests]:
        expected: dict[int, Expect] = {}
        commits: dict[int, CommitQueue] = {}
        if self._notified_queues:
            commits = self._report_again(reported)
            expected = yield from self._expected([*self._notified_queues, *commits])
        apps = dict.fromkeys(self._notified_apps, Close(self.number, direct=not expected))
        closing = ReportRequests(self.number, apps, expected, self._credits, commits)
        self._notified_apps.clear()
        self._notified_queues.clear()
        self._credits = 0
        return closing

    def _report_again(self, reported: Mapping[int, int]) -> dict[int, CommitQueue]:
        """Let applications report to their leaves that reported without them in this batch.

        Returns:
            The applications that are gone, by leaf that does not know it yet.
        """
        gone: dict[int, dict[int, None]] = {}
        for app, leaf in reported.items():
            if app in self._leaves:
                self._notified_apps[app] = leaf
            elif leaf in self._parents:
                gone.setdefault(leaf, {})[app] = None
        return {leaf: CommitQueue(apps) for leaf, apps in gone.items()}

    def _expected(self, queues: Iterable[int]) -> Steps[dict[int, Expect]]:
        """Return how many children of each queue report, up to the root, some queues included."""
        children: dict[int, set[tuple[str, int]]] = {key: set() for key in queues}
        for piece in in_pieces(self._notified_apps.items()):
            yield
            for app, leaf in piece:
                children.setdefault(leaf, set()).add(("app", app))
        for key in list(children):
            yield
            below, above = key, self._parents[key]
            while above is not None:
                siblings = children.setdefault(above, set())
                if ("queue", below) in siblings:
                    break
                siblings.add(("queue", below))
                below, above = above, self._parents[above]
        return {key: Expect(self.number, len(below)) for key, below in children.items()}

    def close_gangs(self) -> Mapping[int, Close]:
        """Return the messages to the gangs that have to report, after the applications have."""
        if not self._notified_gangs:
            return {}
        closes = dict.fromkeys(sorted(self._notified_gangs), Close(self.number))
        self._notified_gangs.clear()
        return closes

    def forget(self, report: EpochReport) -> None:
        """Remove the applications and queues that are gone, according to a report."""
        for app in report.apps:
            if app.gone:
                del self._leaves[app.identity.key]
        for queue in report.queues:
            if queue.gone:
                del self._parents[queue.key]

    def check(self, view: DecisionView) -> None:
        """Assert the invariants between two batches; for tests."""
        # It knows the parent of every owner.
        assert self._leaves == {key: app.identity.leaf for key, app in view.apps.items()}
        assert self._parents == {
            key: None if queue.parent is None else queue.parent.key
            for key, queue in view.queues.items()
        }
        # Nothing is left over from the last batch.
        assert not self._notified_apps
        assert not self._notified_queues
        assert not self._notified_gangs
        assert not self._credits


def take_snapshot(
    view: DecisionView,
    at_us: int,
    completed: frozenset[str],
    apps: Iterable[AppSnapshot],
    queues: Iterable[QueueSnapshot],
    gangs: Iterable[GangSnapshot],
) -> Steps[Snapshot]:
    """Build a snapshot. Between two batches.

    Args:
        view: The decision view.
        at_us: The instant of the last batch, in microseconds.
        completed: The names of completed applications, as far as they are kept.
        apps: The snapshots of all applications.
        queues: The snapshots of all queues.
        gangs: The snapshots of all gangs.
    """
    queues, aging = sorted(queues, key=attrgetter("path")), view.aging_apps()
    # AGING-7
    if view.has_aging:
        queues = [
            attrs.evolve(one, priority=view.queues[one.key].priority, recomputations=0)
            for one in queues
        ]
    nodes: dict[str, NodeSnapshot] = {}
    for piece in in_pieces(view.nodes.in_order()):
        yield
        for node in piece:
            nodes[node.name] = NodeSnapshot(
                node.name,
                dict(node.capacity),
                dict(node.used),
                node.schedulable,
                dict(node.attributes),
                _devices_of(node),
                dict(node.reserved),
                taints=node.taints,
            )
    shares: dict[str, float] = {}
    deserved: dict[str, Mapping[str, int]] = {}
    for queue in queues:
        yield
        shares[queue.path] = view.share_of(queue.key)
        by_weight = view.deserved_by(queue.key)
        if by_weight is not None:
            deserved[queue.path] = by_weight
    by_name: dict[str, AppSnapshot] = {}
    for app in (yield from in_order(apps, attrgetter("name"))):
        by_name[app.name] = _aged(app, *aging[app.name]) if app.name in aging else app
        if not len(by_name) % PART:
            yield
    return Snapshot(
        at_us=at_us,
        apps=by_name,
        completed=completed,
        queues={queue.path: queue for queue in queues},
        shares=shares,
        deserved=deserved,
        nodes=nodes,
        gangs={gang.name: gang for gang in sorted(gangs, key=attrgetter("name"))},
        reservations=view.reservations(),
        usage=view.usage(),
        limits=tuple((yield from in_order(view.limits(), _place_of))),
    )


# AGING-7
def _aged(app: AppSnapshot, leaf: LeafView, there: ViewApp) -> AppSnapshot:
    """Return an application as it is now, with the ages of its asks."""
    asks: list[AskSnapshot] = []
    for one in app.asks:
        ask = there.find(one.name) if one.place is not AskPlace.BOUND else None
        aged = None if ask is None else leaf.priority_of(there, ask)
        asks.append(attrs.evolve(one, aged=aged))
    return attrs.evolve(app, priority=leaf.values_of(there).priority, asks=tuple(asks))


def _devices_of(node: Node) -> dict[str, DeviceSnapshot]:
    there = node.devices
    if there is None:
        return {}
    return {
        kind: DeviceSnapshot(there.stocks[kind].model, tuple(free))
        for kind, free in there.free.items()
    }


def _place_of(limit: LimitSnapshot) -> tuple[str, bool, str]:
    return limit.queue, limit.group is not None, limit.group or limit.user or ""
