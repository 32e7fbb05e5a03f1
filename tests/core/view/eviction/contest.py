"""Trees in which asks compete for what others hold, and ways to look for victims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from typing_extensions import override

from muster_core.config.model import QueueConfig
from muster_core.coordinator.coordinator import BatchResult
from muster_core.events import AddAsk, AddNode, AddPriorityClass, Event
from muster_core.owners.app_messages import CommitApp
from muster_core.owners.asks import Ask
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from muster_core.view.eviction.actions import PreemptionEligibility, ReclaimEligibility, claimant_of
from muster_core.view.eviction.eligibility import Eligibility
from muster_core.view.eviction.plans import Plan, Planner
from muster_core.view.eviction.search import VictimIndex
from muster_core.view.eviction.victims import Victim, victim_of
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from tests.core.admission.objects import story
from tests.core.building import Queue, configuration, queue
from tests.core.tree import Tree, props

Amounts = Mapping[str, int]

NONE: frozenset[str] = frozenset()

SIX: Amounts = {"vcore": 6}


def share(
    name: str,
    *children: Queue,
    guaranteed: Amounts | None = None,
    most: Amounts | None = None,
    **properties: str,
) -> Queue:
    """Return a queue with quotas in base units; ``queue_priority="1"`` is a property."""
    return share_of(name, properties, *children, guaranteed=guaranteed, most=most)


def share_of(
    name: str,
    properties: Mapping[str, str],
    *children: Queue,
    guaranteed: Amounts | None = None,
    most: Amounts | None = None,
) -> Queue:
    """Return a queue as :func:`share` does, with properties that are known already."""
    resources = {"guaranteed": _written(guaranteed or {}), "max": _written(most or {})}
    return queue(name, *children, resources=resources, properties=props(**properties))


def _written(amounts: Amounts) -> dict[str, str]:
    return {
        name: f"{amount}m" if name == "vcore" else f"{amount}" for name, amount in amounts.items()
    }


def urgent(app: str, name: str = "x", **amounts: int) -> AddAsk:
    """Return the event of an ask of priority 10 that may preempt."""
    return AddAsk(app, name, Resources(amounts or {"vcore": 1}), priority_class="high")


class Contest(Tree):
    """A tree with its last batch, and ways to look at the victims in it."""

    outcome: BatchResult

    @override
    def check_room(self, outcome: BatchResult) -> None:
        super().check_room(outcome)
        self.outcome = outcome

    @property
    def state(self) -> ViewState:
        state: ViewState = vars(self.machine.view)["_state"]
        return state

    def tell(self, *events: Event) -> list[str]:
        """End the batch after these events; return what became of asks and gangs."""
        lines = story(self.settle(*events))
        self.check()
        return lines

    def wait(self, seconds: float) -> list[str]:
        """Let time pass up to and including an instant; return what became of asks and gangs."""
        before = len(self.log)
        self.pass_time(round(seconds * 1_000_000) + 1)
        self.check()
        return story([one.decision for one in self.log[before:]])

    def app(self, name: str) -> ViewApp:
        return self.state.apps[self.machine.registry.locate(name) or 0]

    def commit_for(self, name: str) -> CommitApp | None:
        """Return the commit of the last batch for an application, if there is one."""
        return self.outcome.apps.get(self.app(name).identity.key)

    def leaf(self, path: str) -> LeafView:
        (found,) = [one for one in self.state.queues.values() if one.config.path == f"root.{path}"]
        assert isinstance(found, LeafView)
        return found

    def ask(self, name: str) -> tuple[ViewApp, Ask]:
        """Return a pending ask: ``application/ask``."""
        owner, _, ask = name.partition("/")
        return self.app(owner), self.app(owner).pending[ask]

    def bit(self, name: str) -> int:
        return self.state.shapes.find(self.ask(name)[1].shape) or 0

    def victim(self, name: str) -> Victim:
        owner, _, ask = name.partition("/")
        return victim_of(self.state, self.app(owner).identity.key, ask)

    def victims(self, names: str) -> tuple[Victim, ...]:
        return tuple(map(self.victim, names.split()))

    def reclaim(self, name: str, exempt: frozenset[str] = NONE) -> ReclaimEligibility:
        app, ask = self.ask(name)
        claimant = claimant_of(self.state.leaf_of(app), ask)
        assert claimant is not None
        return ReclaimEligibility(self.state, app, ask, exempt, claimant)

    def preempt(self, name: str, exempt: frozenset[str] = NONE) -> PreemptionEligibility:
        app, ask = self.ask(name)
        return PreemptionEligibility(self.state, app, ask, exempt)

    def victim_index(self) -> VictimIndex:
        """Look at all nodes, and leave no trace of that."""
        touched, nodes = self.state.nodes.touched, self.state.nodes.nodes.values()
        before, changed = dict(touched), [(node, node.changed) for node in nodes]
        touched.update(dict.fromkeys(nodes))
        victim_index = VictimIndex(self.state)
        all_at_once(victim_index.refresh())
        all_at_once(victim_index.look())
        touched.update(before)
        for node, holders in changed:
            node.changed = holders
        return victim_index

    def plan(self, eligibility: Eligibility) -> Plan | None:
        planner = Planner(self.state, self.victim_index())
        return all_at_once(
            planner.find(eligibility, self.state.shapes.find(eligibility.ask.shape) or 0)
        )

    def planned(self, eligibility: Eligibility) -> str | None:
        """Return the best plan in short: ``n1: b/x b/y``."""
        plan = self.plan(eligibility)
        return None if plan is None else f"{plan.node.name}: {names(plan.victims)}"


def names(victims: tuple[Victim, ...]) -> str:
    return " ".join(f"{one.app.identity.name}/{one.allocation.ask.name}" for one in victims)


def contest(*queues: Queue, **nodes: int) -> Contest:
    """Return a tree with an application in each leaf, which is named like its leaf.

    The delay of preemption is an hour, unless a queue says otherwise.

    Args:
        queues: The queues below root.
        nodes: How many millicores each node has.
    """
    return contest_with(queues, nodes)


def at_once(*queues: Queue, **nodes: int) -> Contest:
    """Return a tree as :func:`contest` does, without a delay of preemption."""
    return contest_with(queues, nodes, delay="0s")


def contest_with(
    queues: Sequence[Queue], nodes: Amounts, *, delay: str = "1h", enabled: bool = True
) -> Contest:
    """Return a tree with another delay, or without preemption."""
    preemption = {"enabled": "true" if enabled else "false"}
    config = configuration(*queues, props={"preemption.delay": delay}, preemption=preemption)
    tree = Contest(config)
    for leaf in _leaves(config.root):
        tree.add_app(leaf.name, leaf.path)
    tree.enter(AddPriorityClass("high", 10, preempts=True))
    tree.settle(*(AddNode(name, Resources({"vcore": vcore})) for name, vcore in nodes.items()))
    return tree


def tree_of(
    properties: Mapping[str, Mapping[str, str]] | None = None, **guaranteed: Amounts
) -> Contest:
    """Return a tree: ``a`` and ``b`` below ``p``, ``p`` and ``d`` below ``q``, and ``c`` beside it.

    The ask ``a/x`` is pending there.

    Args:
        properties: The properties of queues, by name.
        guaranteed: What queues are guaranteed; ``a`` six millicores if none is given.
    """
    quotas: Mapping[str, Amounts] = guaranteed or {"a": SIX}

    def make(name: str, *children: Queue) -> Queue:
        return share_of(
            name, (properties or {}).get(name, {}), *children, guaranteed=quotas.get(name)
        )

    tree = contest(make("q", make("p", make("a"), make("b")), make("d")), make("c"))
    tree.tell(urgent("a", "x"))
    return tree


def _leaves(config: QueueConfig) -> Iterator[QueueConfig]:
    if not config.is_parent:
        yield config
    for child in config.children:
        yield from _leaves(child)
