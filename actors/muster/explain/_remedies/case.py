"""What the search for remedies knows of an ask and of the state around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import gcd
from typing import final

from muster.explain._remedies.remedy import Remedy, RemedyKind
from muster.explain._remedies.search import Smallest
from muster.explain._trials import Trials, evicted_in, node_of
from muster.explain._writing import Written
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain import PlainScheduler
from muster_core.events import AddAsk
from muster_core.nodes.node import Node
from muster_core.reasons import Explanation
from muster_core.snapshots import GangSnapshot, Snapshot
from muster_core.structures.totals import add_to
from muster_core.values.quantities import format_quantity
from muster_core.view.gangs.gang import ViewGang
from muster_core.view.tree.queue import ViewQueue


@final
class Case:
    """An ask that is not bound, and what surrounds it.

    Args:
        scheduler: The scheduler, between two batches.
        trials: Copies of it.
        event: The ask as it came, under its own name.
        explanation: Why it is not running.
        at_us: The instant, in microseconds.
    """

    def __init__(
        self,
        scheduler: PlainScheduler,
        trials: Trials,
        event: AddAsk,
        explanation: Explanation,
        at_us: int,
    ) -> None:
        self.scheduler = scheduler
        self.trials = trials
        self.event = event
        self.explanation = explanation
        self.at_us = at_us

    @property
    def machine(self) -> CoordinatorMachine:
        """The coordinator's machine."""
        return self.scheduler.machine

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by name."""
        return self.machine.view.nodes.nodes

    @cached_property
    def path(self) -> Sequence[ViewQueue]:
        """The queue of the ask and all above it, nearest first."""
        key = self.machine.registry.queues[self.explanation.queue].key
        return self.machine.view.queues[key].upward()

    @cached_property
    def snapshot(self) -> Snapshot:
        """Everything there is."""
        return self.scheduler.snapshot()

    @cached_property
    def gang(self) -> ViewGang | None:
        """Its gang, unless that is satisfied and constrains nothing."""
        gang = self.machine.view.gangs.get(self.event.gang or "")
        return None if gang is None or gang.satisfied else gang

    @cached_property
    def group(self) -> Sequence[ViewGang]:
        """The gangs of its group; none if it is no member, or as good as none."""
        return () if self.gang is None else self.machine.view.group_of(self.gang.name)

    @cached_property
    def together(self) -> Mapping[str, int]:
        """What has to be placed for the ask to be bound: itself, or what lacks of its group."""
        if self.gang is None:
            return dict(self.event.resources)
        total = self._sum(gang.pending for gang in self._gangs)
        add_to(total, self._parked)
        return total or dict(self.event.resources)

    @property
    def _gangs(self) -> list[GangSnapshot]:
        return [self.snapshot.gangs[gang.name] for gang in self.group]

    @cached_property
    def _parked(self) -> dict[str, int]:
        """What is parked of its group, which is pending again once the gangs are renewed."""
        return self._sum(gang.parked for gang in self._gangs)

    def _sum(self, members: Iterable[Iterable[tuple[str, str]]]) -> dict[str, int]:
        """Add up what asks want, given by their application and name."""
        names = {name for some in members for name in some}
        total: dict[str, int] = {}
        for app in {app for app, _ in names}:
            for ask in self.snapshot.apps[app].asks:
                if (app, ask.name) in names:
                    add_to(total, ask.resources)
        return total

    @cached_property
    def pending(self) -> Mapping[str, int]:
        """What is pending in all queues together, the ask and its group included."""
        total = dict(self.snapshot.queues["root"].pending)
        add_to(total, self._parked)
        return {name: max(total.get(name, 0), amount) for name, amount in self.together.items()}

    @cached_property
    def steps(self) -> Mapping[str, int]:
        """Of each type what all amounts are multiples of."""
        found: dict[str, int] = {}
        for app in self.snapshot.apps.values():
            for ask in app.asks:
                for name, amount in ask.resources.items():
                    found[name] = gcd(found.get(name, 0), amount)
        return found

    def matches(self, node: Node, *, attributes: bool = True) -> bool:
        """Say whether the ask may use a node, whatever is free there.

        Args:
            node: The node.
            attributes: Whether its attributes count.
        """
        if self.event.node not in {None, node.name}:
            return False
        wanted = self.event.selector.items() if attributes else ()
        return all(node.attributes.get(key) == value for key, value in wanted)

    def lack(self, node: Node) -> dict[str, int]:
        """Give what a node would have to have more to hold the ask; nothing if it has room."""
        return {
            name: amount + node.used.get(name, 0) - node.capacity.get(name, 0)
            for name, amount in self.event.resources.items()
            if amount + node.used.get(name, 0) > node.capacity.get(name, 0)
        }

    def by_lack(self, nodes: Iterable[Node]) -> list[Node]:
        """Sort nodes by how much they lack for the ask, least first."""
        wanted = self.event.resources

        def key(node: Node) -> tuple[float, str]:
            return sum(amount / wanted[name] for name, amount in self.lack(node).items()), node.name

        return sorted(nodes, key=key)

    def remedy(
        self,
        kind: RemedyKind,
        text: str,
        events: Sequence[Written],
        *,
        smallest: Mapping[str, int] | None = None,
    ) -> Remedy | None:
        """Try events; give the remedy that they are, or None if they are none.

        Args:
            kind: What is changed.
            text: The change in words.
            events: The events that make it.
            smallest: The amounts of it, if it was found that one less of each does not do.
        """
        after = self.trials.after(events)
        node = None if after is None else node_of(after, self.event.app, self.event.ask)
        if after is None or node is None:
            return None
        least = None if self.trials.exhausted else smallest
        put = self.trials.put_first(events)
        return Remedy(kind, text, node, put, least or None, evicted_in(after))

    def found(
        self,
        kind: RemedyKind,
        names: Sequence[str],
        found: Smallest | None,
        text: Callable[[tuple[int, ...]], str],
        events: Callable[[tuple[int, ...]], Sequence[Written]],
    ) -> Iterator[Remedy]:
        """Give what a search has found as a remedy, if it has found anything.

        Args:
            kind: What is changed.
            names: What the amounts are called.
            found: The amounts.
            text: Says them in words.
            events: Makes events of them.
        """
        if found is None:
            return
        values = found.values
        raised = zip(names, values, found.raised, strict=True)
        amounts = {name: value for name, value, counts in raised if counts}
        remedy = self.remedy(
            kind, text(values), events(values), smallest=amounts if found.proved else None
        )
        if remedy is not None:
            yield remedy


def told(amounts: Mapping[str, int]) -> str:
    """Write amounts for people."""
    return ", ".join(f"{name} {format_quantity(name, amount)}" for name, amount in amounts.items())
