"""The case: the ask and the state that the search for remedies works on."""

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
from muster_core.owners.messages.asks import Ask
from muster_core.owners.messages.failed_binds import FailedBinds
from muster_core.reasons import Explanation
from muster_core.snapshots import GangSnapshot, Snapshot
from muster_core.structures.totals import add_to
from muster_core.view.gangs.gang import ViewGang
from muster_core.view.reasons.words import amount as amount_text, listed
from muster_core.view.tree.queue import ViewQueue


@final
class Case:
    """An ask that is not bound, and the state around it.

    Args:
        scheduler: The scheduler, between two batches.
        trials: Tries events on copies of it.
        event: The event that adds only this ask, under its own name.
        explanation: Why it is not running.
        at_us: The instant, in microseconds.
        real: The case with all the other asks, if this one is without them; or None.
    """

    def __init__(
        self,
        scheduler: PlainScheduler,
        trials: Trials,
        event: AddAsk,
        explanation: Explanation,
        at_us: int,
        real: Case | None = None,
    ) -> None:
        self.real = real
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
        """The queue of the ask and all its parents, nearest first."""
        key = self.machine.registry.queues[self.explanation.queue].key
        return self.machine.view.queues[key].upward()

    @cached_property
    def snapshot(self) -> Snapshot:
        """The whole state."""
        return self.scheduler.snapshot()

    def names_in(self, app: str) -> set[str]:
        """Return the names of the asks of an application, also of those that are left out here."""
        real = self.snapshot if self.real is None else self.real.snapshot
        return {ask.name for ask in real.apps[app].asks}

    @cached_property
    def gang(self) -> ViewGang | None:
        """Its gang; None if it has none, or a satisfied one, which no longer constrains it."""
        gang = self.machine.view.gangs.get(self.event.gang or "")
        return None if gang is None or gang.satisfied else gang

    @cached_property
    def group(self) -> Sequence[ViewGang]:
        """The gangs of its group; empty if :attr:`gang` is None."""
        return () if self.gang is None else self.machine.view.group_of(self.gang.name)

    @cached_property
    def ask(self) -> Ask:
        """The ask in the state."""
        app = self.machine.view.apps[self.machine.registry.app_key(self.event.app)]
        found = app.find(self.event.ask)
        assert found is not None, "a case without its ask"
        return found

    @cached_property
    def back_off(self) -> FailedBinds | None:
        """The failed binds of the ask if it backs off, or None."""
        app = self.machine.view.apps[self.machine.registry.app_key(self.event.app)]
        return app.in_a_row[self.event.ask] if self.event.ask in app.backing_off else None

    @cached_property
    def under_same_limits(self) -> frozenset[str]:
        """The applications that count for every limit of a user or a group that refuses the ask."""
        apps = self.machine.view.apps
        app = apps[self.machine.registry.app_key(self.event.app)]
        ask = app.find(self.event.ask)
        refusing = [
            limit
            for limit in app.limits
            if (ask is not None and not limit.admits_more(ask))
            or (limit.is_full and not app.running)
        ]
        if not refusing:
            return frozenset()
        first, *others = refusing
        counted = [
            other for key, other in first.apps.items() if all(key in limit.apps for limit in others)
        ]
        return frozenset(other.identity.name for other in counted)

    @cached_property
    def together(self) -> Mapping[str, int]:
        """The resources to place before the ask is bound: its own, or those its group lacks."""
        if self.gang is None:
            return dict(self.event.wanted)
        total = self._sum(gang.pending for gang in self._gangs)
        add_to(total, self._parked)
        return total or dict(self.event.wanted)

    @property
    def _gangs(self) -> list[GangSnapshot]:
        return [self.snapshot.gangs[gang.name] for gang in self.group]

    @cached_property
    def _parked(self) -> dict[str, int]:
        """The resources of parked members of its group, pending again once it is renewed."""
        return self._sum(gang.parked for gang in self._gangs)

    def _sum(self, members: Iterable[Iterable[tuple[str, str]]]) -> dict[str, int]:
        """Return the sum of the resources of asks, given by application and name."""
        names = {name for some in members for name in some}
        total: dict[str, int] = {}
        for app in {app for app, _ in names}:
            for ask in self.snapshot.apps[app].asks:
                if (app, ask.name) in names:
                    add_to(total, ask.resources)
        return total

    @cached_property
    def lacking(self) -> int:
        """How many asks to place before the ask is bound: 1, or as many as its group lacks."""
        return max(sum(len(gang.pending) + len(gang.parked) for gang in self._gangs), 1)

    @cached_property
    def pending(self) -> Mapping[str, int]:
        """The pending resources of all queues, of the types in :attr:`together`."""
        total = dict(self.snapshot.queues["root"].pending)
        add_to(total, self._parked)
        return {name: max(total.get(name, 0), amount) for name, amount in self.together.items()}

    @cached_property
    def steps(self) -> Mapping[str, int]:
        """The greatest common divisor of the amounts of all asks, by type."""
        found: dict[str, int] = {}
        for app in self.snapshot.apps.values():
            for ask in app.asks:
                for name, amount in ask.resources.items():
                    found[name] = gcd(found.get(name, 0), amount)
        return found

    def matches(self, node: Node, *, attributes: bool = True) -> bool:
        """Return whether the ask may use a node, free or not.

        Args:
            node: The node.
            attributes: Whether its attributes count.
        """
        if self.event.node not in {None, node.name}:
            return False
        wanted = self.event.selector.items() if attributes else ()
        return all(node.attributes.get(key) == value for key, value in wanted)

    def lack(self, node: Node) -> dict[str, int]:
        """Return the resources that a node lacks to hold the ask; empty if it has room."""
        return {
            name: amount + node.used.get(name, 0) - node.capacity.get(name, 0)
            for name, amount in self.event.wanted.items()
            if amount + node.used.get(name, 0) > node.capacity.get(name, 0)
        }

    def by_lack(self, nodes: Iterable[Node]) -> list[Node]:
        """Return nodes sorted by how much they lack for the ask, least first."""
        wanted = self.event.wanted

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
        """Try events; return them as a remedy if the ask is then bound, otherwise None.

        Args:
            kind: The kind of change.
            text: The change in words.
            events: The events that make it.
            smallest: Its amounts, if the search has shown that none of them can be one less.
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
        """Yield the result of a search as a remedy, if there is one.

        Args:
            kind: The kind of change.
            names: The names of the amounts.
            found: The result of the search, or None.
            text: Returns the amounts in words.
            events: Returns the events that set the amounts.
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
    """Return amounts as text for messages: ``8 nvidia.com/gpu and 43 vcore``."""
    return listed(amount_text(name, number) for name, number in amounts.items())
