"""The machines of the core put together without tasks: a mailbox each, any interleaving.

The tests of the view and of its reasons take their small tree, decisions in short, and
questions why an ask is not running from here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from muster_core.admission.routes import (
    AnyRoute,
    StartApp,
    StartGang,
    StartQueue,
    TellApp,
    TellGang,
    TellQueue,
)
from muster_core.config import default_configuration
from muster_core.config.model import Configuration
from muster_core.coordinator.coordinator import BatchResult, CoordinatorMachine
from muster_core.coordinator.plain_scheduler import pass_time
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import AddApp, AddNode, Event
from muster_core.owners.app_messages import AppReport, EnterState, ToApplication
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.gang import GangMachine, GangReport, ToGang
from muster_core.owners.queue import QueueMachine, QueueReport, ToQueue
from muster_core.reasons import Code, Explanation, Fact
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace, Snapshot
from muster_core.structures.steps import all_at_once
from muster_core.values.application_states import AppState
from tests.core import building
from tests.core.building import configuration, queue as made_queue
from tests.naive.harness import Marker, Scenario

Pick = Callable[[int], int]


def oldest(_: int) -> int:
    return 0


class Tree:
    """A scheduler without tasks.

    Args:
        configuration: The first configuration.
        pick: Chooses which of so many machines with mail is next.
    """

    def __init__(self, configuration: Configuration | None = None, pick: Pick = oldest) -> None:
        self.machine = CoordinatorMachine(configuration or default_configuration())
        self.apps: dict[int, ApplicationMachine] = {}
        self.queues: dict[int, QueueMachine] = {}
        self.log: list[Announced] = []
        self._app_mail: dict[int, deque[ToApplication]] = {}
        self._queue_mail: dict[int, deque[ToQueue]] = {}
        self.gangs: dict[int, GangMachine] = {}
        self._gang_mail: dict[int, deque[ToGang]] = {}
        self._reports: list[QueueReport] = []
        self._direct: list[AppReport] = []
        self._gang_reports: list[GangReport] = []
        self._pick = pick
        self._open = True
        self._deliver(self.machine.start())

    # What a program does

    def add_nodes(self, *names: str, **capacity: int) -> None:
        self.enter(*(AddNode(name, Resources(capacity)) for name in names))

    def add_app(self, name: str, queue: str = "root.a", **tags: str) -> None:
        self.enter(AddApp(name, queue, tags=tags))

    def enter(self, *events: Event | str, index: int | None = None) -> None:
        """Let events in, in the present batch."""
        for event in events:
            self._begin()
            if self.machine.must_hear_first(event):
                self._hear_owners()
            if isinstance(event, str):
                self.machine.refuse(event, index)
            else:
                self._deliver(self.machine.enter(event, index))

    def settle(self, *events: Event | str) -> list[Decision]:
        """End the batch, after these events; return what it decided."""
        self.enter(*events)
        self._begin()
        before = len(self.log)
        self._end()
        return [announced.decision for announced in self.log[before:]]

    def refused(self, event: Event) -> str:
        """Enter an event that must be refused, alone in a batch; return the message."""
        decisions = self.settle(event)
        refusals = [one.message for one in decisions if one.kind is Kind.REJECTED]
        assert len(refusals) == len(decisions) == 1, decisions
        return refusals[0] or ""

    def report_owners(self) -> str | None:
        """Let the owners report in the middle of a batch; return why the last event was refused."""
        self._hear_owners()
        return self.machine.refusal_of(self.machine.entered)

    def pass_time(self, at_us: int | None) -> None:
        """End the batch and let time pass up to an instant, its timers not included; None: all."""
        self._end()
        for _ in pass_time(self.machine, None if at_us is None else at_us - 1):
            self._begin()
            self._end()
        if at_us is not None:
            self.machine.now_us = at_us

    def run(self, scenario: Scenario) -> Sequence[Announced]:
        """Return the log of a whole scenario."""
        for index, step in enumerate(scenario):
            if step.at_us > self.machine.now_us:
                self.pass_time(step.at_us)
            if isinstance(step.what, Marker):
                self.settle()
            else:
                self.enter(step.what, index=index)
        self.pass_time(None)
        return self.log

    # What a program sees

    def bound(self) -> list[str]:
        """Return every bind so far: ``app/ask node``."""
        bound = (one.decision for one in self.log if one.decision.kind is Kind.BOUND)
        return [f"{decision.app}/{decision.ask} {decision.node}" for decision in bound]

    def snapshot(self) -> Snapshot:
        for key, commit in self.machine.settle_cycles().items():
            self._gang_mail[key].append(commit)
        self._work()
        steps = self.machine.snapshot(
            [app.snapshot() for app in self.apps.values()],
            [queue.snapshot() for queue in self.queues.values()],
            [gang.snapshot() for gang in self.gangs.values()],
        )
        return all_at_once(steps)

    def recomputations(self, path: str) -> int:
        return self.snapshot().queues[path].recomputations

    def check(self) -> None:
        """Check every machine, and that owners and view agree; at the end of a batch."""
        assert not self._open, "a batch is open"
        self._work()
        self.machine.check()
        view = self.machine.view
        assert {key: app.values() for key, app in self.apps.items()} == {
            key: app.values() for key, app in view.apps.items()
        }
        assert self.queues.keys() == view.queues.keys()
        for key, queue in self.queues.items():
            queue.check()
            owned, shown = queue.values(), view.queues[key].values()
            assert (owned.pending, owned.allocated) == (shown.pending, shown.allocated)
            assert queue.current_priority() == view.queues[key].priority
        for key, app in self.apps.items():
            app.check()
            seen = view.apps[key]
            failed = {ask.name: ask for ask in app.snapshot().asks if ask.failed_binds}
            assert {name: (one.times, one.last_us) for name, one in seen.in_a_row.items()} == {
                name: (ask.failed_binds, ask.last_failed_us) for name, ask in failed.items()
            }
            assert app.snapshot().state is seen.state
            assert {ask.name: ask.node for ask in app.snapshot().asks} == {
                **dict.fromkeys((*seen.pending, *seen.parked, *seen.backing_off)),
                **{name: held.node for name, (held, _) in seen.waiting.items()},
                **{name: held.node for name, (held, _) in seen.bound.items()},
            }

        self._check_gangs()

    def _check_gangs(self) -> None:
        """Check that gangs know where their members are, and that the view agrees with them."""
        view = self.machine.view
        assert {gang.name for gang in self.gangs.values()} == view.gangs.keys()
        members: dict[str, dict[tuple[str, str], AskPlace]] = {name: {} for name in view.gangs}
        for app in self.apps.values():
            shown = app.snapshot()
            for ask in shown.asks:
                if ask.gang is not None:
                    members[ask.gang][shown.name, ask.name] = ask.place
        for key, gang in self.gangs.items():
            gang.check()
            owned, seen = gang.snapshot(), view.gangs[gang.name]
            places = {
                AskPlace.PENDING: owned.pending,
                AskPlace.PARKED: owned.parked,
                AskPlace.WAITING: owned.waiting,
                AskPlace.BOUND: owned.bound,
            }
            assert members[gang.name] == {
                member: place for place, there in places.items() for member in there
            }
            holds = sorted(seen.waiting.values(), key=lambda hold: hold.number)
            waiting = [(hold.app.identity.name, hold.allocation.ask.name) for hold in holds]
            assert list(owned.waiting) == waiting
            assert (key, gang.state) == (seen.key, seen.state)
            assert (owned.definition, owned.cycle_valid, owned.since_us) == (
                seen.definition,
                seen.cycle_valid,
                seen.since_us,
            )

    # What the actors do

    def _begin(self) -> None:
        if not self._open:
            self._open = True
            self._deliver(all_at_once(self.machine.begin(self.machine.now_us)))

    def _end(self) -> None:
        if not self._open:
            return
        self._open = False
        self._hear_owners()
        outcome = all_at_once(self.machine.decide())
        self.log.extend(outcome.announced)
        self.check_room(outcome)
        for key, app_commit in outcome.apps.items():
            self._app_mail[key].append(app_commit)
        for key, queue_commit in outcome.queues.items():
            self._queue_mail[key].append(queue_commit)
        for key, gang_commit in outcome.gangs.items():
            if gang_commit is None:
                del self.gangs[key], self._gang_mail[key]
            else:
                self._gang_mail[key].append(gang_commit)

    def check_room(self, outcome: BatchResult) -> None:
        """Check that whatever got a node had room, there and in every queue above it.

        Not so what waited there before: capacities and quotas may have shrunk since.
        """
        view = self.machine.view
        for key, commit in outcome.apps.items():
            before = {ask.name: ask.node for ask in self.apps[key].snapshot().asks}
            for held in (*commit.waiting, *commit.bound):
                if before[held.ask.name] == held.node:
                    continue
                node = view.nodes.nodes[held.node]
                for name in held.ask.resources:
                    assert node.used[name] <= node.capacity[name]
                    for above in view.queues[view.apps[key].identity.leaf].upward():
                        limits = dict(above.config.max.amounts)
                        assert above.used(name) <= limits.get(name, above.used(name))

    def _deliver(self, routes: list[AnyRoute]) -> None:
        for route in routes:
            match route:
                case TellApp():
                    self._app_mail[route.key].append(route.message)
                case EnterState(key, AppState.COMPLETED):
                    del self.apps[key], self._app_mail[key]
                case EnterState():
                    self._app_mail[route.key].append(route)
                case TellQueue():
                    self._queue_mail[route.key].append(route.message)
                case StartApp(identity):
                    self.apps[identity.key] = ApplicationMachine(identity)
                    self._app_mail[identity.key] = deque()
                case StartQueue():
                    self.queues[route.key] = QueueMachine(route.key, route.parent, route.config)
                    self._queue_mail[route.key] = deque()
                case StartGang():
                    self.gangs[route.key] = GangMachine(route.key, route.name)
                    self._gang_mail[route.key] = deque()
                case TellGang():
                    self._gang_mail[route.key].append(route.message)
                case _:
                    assert_never(route)

    def _hear_owners(self) -> None:
        steps = self.machine.close()
        if steps is not None:
            closing = all_at_once(steps)
            for key, commit in closing.commits.items():
                self._queue_mail[key].append(commit)
            for key, expect in closing.queues.items():
                self._queue_mail[key].append(expect)
            for key, close in closing.apps.items():
                self._app_mail[key].append(close)
            self._work()
            assert len(self._reports) == (1 if closing.queues else 0)
            root = self._reports.pop() if self._reports else None
            report = all_at_once(closing.collect(root, self._direct))
            self._direct.clear()
            self._deliver(all_at_once(self.machine.apply(report)))
        for key, close in self.machine.close_gangs().items():
            self._gang_mail[key].append(close)
        self._work()
        all_at_once(self.machine.apply_gangs(self._gang_reports))
        self._gang_reports.clear()

    def _work(self) -> None:
        """Let the machines handle their mail until none is left."""
        while True:
            steps = [
                *((self._handle_app, key) for key, mail in self._app_mail.items() if mail),
                *((self._handle_queue, key) for key, mail in self._queue_mail.items() if mail),
                *((self._handle_gang, key) for key, mail in self._gang_mail.items() if mail),
            ]
            if not steps:
                return
            handle, key = steps[self._pick(len(steps))]
            handle(key)

    def _handle_app(self, key: int) -> None:
        app = self.apps[key]
        report = app.handle(self._app_mail[key].popleft())
        if report is None:
            return
        if report.direct:
            self._direct.append(report)
        else:
            self._queue_mail[app.identity.leaf].append(report)
        if report.gone:
            del self.apps[key], self._app_mail[key]

    def _handle_queue(self, key: int) -> None:
        queue = self.queues[key]
        report = queue.handle(self._queue_mail[key].popleft())
        if report is None:
            return
        if queue.parent is None:
            self._reports.append(report)
        else:
            self._queue_mail[queue.parent].append(report)
        if report.gone:
            del self.queues[key], self._queue_mail[key]

    def _handle_gang(self, key: int) -> None:
        report = self.gangs[key].handle(self._gang_mail[key].popleft())
        if report is None:
            return
        self._gang_reports.append(report)
        if report.gone:
            del self.gangs[key], self._gang_mail[key]


def settled_tree(*nodes: str, vcore: int = 10) -> Tree:
    """Return a tree with two queues, ``root.a`` and ``root.b``, that has decided on its nodes."""
    tree = Tree(building.configuration(building.queue("a"), building.queue("b")))
    tree.add_nodes(*nodes, vcore=vcore)
    tree.settle()
    return tree


def props(**properties: str) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in properties.items()}


BLOCKING = props(application_sort_blocking="enabled")


def make_tree(*nodes: str, config: Configuration | None = None, **capacity: int) -> Tree:
    tree = Tree(config or configuration(made_queue("a"), made_queue("b")))
    tree.add_nodes(*nodes, **(capacity or {"vcore": 10}))
    return tree


def lines_of(decisions: list[Decision]) -> list[str]:
    """Return decisions in short: ``bound p/x n``, ``p Starting``, ``root.a 5``."""
    lines: list[str] = []
    for one in decisions:
        if one.kind is Kind.APP_STATE:
            lines.append(f"{one.app} {one.state}")
        elif one.kind is Kind.QUEUE_PRIORITY:
            lines.append(f"{one.queue} {one.priority}")
        else:
            lines.append(" ".join(filter(None, (one.kind, f"{one.app}/{one.ask}", one.node))))
    return lines


def explain(tree: Tree, ask: str = "p/x", at_us: int | None = None) -> Explanation:
    """Explain an ask that is not bound; the scheduler is as it was afterwards."""
    tree.check()
    found = explained(tree, ask, at_us)
    tree.check()
    assert found is not None, f"{ask} is bound or unknown"
    return found


def explained(tree: Tree, ask: str = "p/x", at_us: int | None = None) -> Explanation | None:
    app, _, name = ask.partition("/")
    return tree.machine.explain(app, name, at_us)


def why(tree: Tree, ask: str = "p/x", at_us: int | None = None) -> str:
    """Return the dominant reason of an ask."""
    return str(explain(tree, ask, at_us))


def codes(tree: Tree, ask: str = "p/x", at_us: int | None = None) -> list[Code]:
    """Return the codes that hold of an ask, the dominant one first."""
    return [reason.code for reason in explain(tree, ask, at_us).reasons]


def message_of(tree: Tree, code: Code, ask: str = "p/x", at_us: int | None = None) -> str:
    """Return the message of the only reason with a code."""
    (message,) = (one.message for one in explain(tree, ask, at_us).reasons if one.code is code)
    return message


def facts(tree: Tree, code: Code, ask: str = "p/x") -> Mapping[str, Fact]:
    """Return the facts of the only reason with a code."""
    (found,) = (one.facts for one in explain(tree, ask).reasons if one.code is code)
    return found
