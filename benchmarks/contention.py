"""A full cluster with evictions, and a measurement of the stretches between pauses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import attrs

from muster_core.config.model import Configuration, QueueConfig, Settings
from muster_core.coordinator.coordinator import BatchResult
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind
from muster_core.events import AddApp, AddAsk, AddNode, AddPriorityClass, Configure, Release
from muster_core.resources import Resources
from muster_core.structures.steps import Steps

PLANS = 9
"""How often the same plan is computed, for the median."""

SETTINGS = Settings(preemption_delay_us=0)


def vcores(amount: int) -> Resources:
    """Return this many cores."""
    return Resources({"vcore": amount})


class ContendedCluster:
    """The cluster of W2, with room for two thirds of the asks.

    Args:
        nodes: The number of nodes.
        asks: The number of asks for each node.
    """

    def __init__(self, nodes: int, asks: int) -> None:
        parents = [
            _queue(f"root.p{at}", [_queue(f"root.p{at}.l{leaf}") for leaf in range(10)])
            for at in range(10)
        ]
        owed = attrs.evolve(_queue("root.owed"), guaranteed=vcores(10**9))
        root = _queue("root", [*parents, owed, _queue("root.urgent")])
        config = Configuration(partition="default", root=root, preemption_enabled=True)
        self.scheduler = PlainScheduler(config)
        self.scheduler.submit(Configure(config=config))
        self.scheduler.submit(AddPriorityClass("high", 20, preempts=True))
        self.scheduler.submit(AddPriorityClass("low", 0, preempts=True))
        capacity = Resources({"vcore": 200 * asks, "memory": 3 * asks})
        for at in range(nodes):
            self.scheduler.submit(AddNode(node=f"node-{at:05}", capacity=capacity))
        for at in range(nodes * asks):
            self._add(at)
        self.scheduler.settle()
        self.scheduler.submit(AddApp(app="owed", queue="root.owed"))
        self.scheduler.submit(AddApp(app="urgent", queue="root.urgent"))
        self.scheduler.settle()
        self._numbers = 0
        bound = (
            one.decision for one in self.scheduler.announced if one.decision.kind is Kind.BOUND
        )
        self._bound = [(one.app or "", one.ask or "") for one in bound]

    def _add(self, at: int) -> None:
        app, number = divmod(at, 10)
        if not number:
            self.scheduler.submit(
                AddApp(app=f"app-{app:05}", queue=f"root.p{app % 10}.l{app // 10 % 10}")
            )
        shape = (app + number) % 16
        self.scheduler.submit(
            AddAsk(
                app=f"app-{app:05}",
                ask=f"ask-{number}",
                priority=(app * 7 + number * 3) % 10,
                resources=Resources({"vcore": 100 + 25 * shape, "memory": 1 + shape % 4}),
            )
        )

    def evict(self, app: str, size: int) -> float:
        """Add an ask that evicts others; return the seconds of that batch."""
        self._numbers += 1
        self.scheduler.submit(
            AddAsk(
                app=app,
                ask=f"ask-{self._numbers}",
                resources=vcores(size),
                priority_class="high" if app == "urgent" else None,
            )
        )
        start = time.process_time()
        self.scheduler.settle()
        return time.process_time() - start

    def plan(self, app: str, size: int) -> float:
        """Return the seconds of the plan of an ask's evictions, if nothing has changed before."""
        self.evict(app, size)
        return median(self.evict(app, size) for _ in range(PLANS))

    def add_futile(self) -> None:
        """Add asks to all leaves that may preempt, but find no lower priority to preempt."""
        for at in range(100):
            name = f"vain-{at}"
            self.scheduler.submit(AddApp(app=name, queue=f"root.p{at % 10}.l{at // 10}"))
            for number in range(10):
                self.scheduler.submit(
                    AddAsk(name, f"ask-{number}", vcores(450 + number), priority_class="low")
                )
        self.scheduler.settle()

    def replace(self) -> float:
        """Release an ask, which makes room for another one; return the seconds of that batch."""
        app, ask = self._bound.pop()
        self.scheduler.submit(Release(app, ask))
        start = time.process_time()
        self.scheduler.settle()
        return time.process_time() - start


def _queue(path: str, children: Sequence[QueueConfig] = ()) -> QueueConfig:
    return QueueConfig(
        name=path.rpartition(".")[2],
        path=path,
        is_parent=bool(children),
        settings=SETTINGS,
        children=tuple(children),
    )


class StretchTimer:
    """Measures how long a scheduler decides without a pause.

    Args:
        scheduler: The scheduler.
    """

    def __init__(self, scheduler: PlainScheduler) -> None:
        self._decide = scheduler.machine.decide
        #: The longest stretch so far, in seconds.
        self.longest_s = 0.0
        vars(scheduler.machine)["decide"] = self.decide

    def decide(self) -> Steps[BatchResult]:
        """Decide, with the same pauses."""
        steps = self._decide()
        while True:
            start = time.thread_time()
            try:
                next(steps)
            except StopIteration as end:
                result: BatchResult = end.value
                return result
            finally:
                self.longest_s = max(self.longest_s, time.thread_time() - start)
            yield
