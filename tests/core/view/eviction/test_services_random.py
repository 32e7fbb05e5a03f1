"""Node services against a plain algorithm: everything is sorted anew, and nothing is remembered.

Two leaves with one application each, nodes with one type, no gangs, no reclaim. So the order is short:
the leaf of higher ``queue.priority``, the priority of the ask, the position of the event.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from hypothesis import given, settings, strategies as st

from muster_core.config.model import Configuration
from muster_core.events import AddAsk, Configure, Event, FailBind, Release, RemoveAsk, UpdateNode
from muster_core.resources import Resources
from tests.core.building import configuration
from tests.core.view.eviction.contest import Contest, contest, share

NODES = {"m": 4, "n": 6}


@attrs.define
class Rules:
    """The settings that a configuration may change."""

    services: str = "enabled"
    first: str = "a"
    most: dict[str, int] = attrs.field(factory=dict[str, int])
    preempts: bool = True

    def configuration(self) -> Configuration:
        queues = [
            share(
                name,
                most={"vcore": self.most[name]} if name in self.most else None,
                queue_priority="1" if name == self.first else "0",
                preemption_required_node=self.services if name == "a" else "disabled",
            )
            for name in "ab"
        ]
        return configuration(*queues, preemption={"enabled": str(self.preempts).lower()})


@attrs.define
class Wanted:
    """An ask of the plain algorithm."""

    leaf: str
    name: str
    size: int
    priority: int
    node: str | None
    creation: int
    at: str | None = None
    age: int = 0
    fails: int = 0


@attrs.define
class Plain:
    """The plain algorithm."""

    rules: Rules
    asks: dict[str, Wanted] = attrs.field(factory=dict[str, Wanted])
    capacity: dict[str, int] = attrs.field(factory=lambda: dict(NODES))
    open: dict[str, bool] = attrs.field(factory=lambda: dict.fromkeys(NODES, True))
    keepers: list[str] = attrs.field(factory=list[str])
    bound: int = 0

    def used(self, node: str) -> int:
        return sum(ask.size for ask in self.asks.values() if ask.at == node)

    def is_service(self, ask: Wanted) -> bool:
        return ask.node is not None and ask.leaf == "a" and self.rules.services == "enabled"

    def has_headroom(self, ask: Wanted) -> bool:
        held = sum(one.size for one in self.asks.values() if one.leaf == ask.leaf and one.at)
        return held + ask.size <= self.rules.most.get(ask.leaf, 1000)

    def lacks_room_only(self, ask: Wanted) -> bool:
        """Say whether a service lacks nothing, or nothing but room."""
        return (
            self.is_service(ask)
            and ask.at is None
            and self.has_headroom(ask)
            and self.open[ask.node or ""]
            and ask.size <= self.capacity[ask.node or ""]
        )

    def prune(self) -> bool:
        before = list(self.keepers)
        self.keepers = [
            name for name in before if name in self.asks and self.lacks_room_only(self.asks[name])
        ]
        return self.keepers != before

    def fits(self, ask: Wanted, node: str) -> bool:
        return self.used(node) + ask.size <= self.capacity[node]

    def may_use(self, ask: Wanted, node: str) -> bool:
        kept = {self.asks[name].node for name in self.keepers}
        return (
            self.open[node]
            and ask.node in {None, node}
            and (node not in kept or self.is_service(ask))
        )

    def pending(self) -> list[Wanted]:
        waiting = [ask for ask in self.asks.values() if ask.at is None]
        return sorted(
            waiting, key=lambda one: (one.leaf != self.rules.first, -one.priority, one.creation)
        )

    def nodes(self) -> list[str]:
        def score(node: str) -> tuple[float, str]:
            used, most = self.used(node), self.capacity[node]
            return (used / most if most else float("inf") if used else 0.0, node)

        return sorted(NODES, key=score)

    def bind(self, ask: Wanted, node: str) -> None:
        if ask.name in self.keepers:
            self.keepers.remove(ask.name)
        if ask.fails:
            ask.fails -= 1
            return
        self.bound += 1
        ask.at, ask.age = node, self.bound

    def round(self) -> bool:
        """Try each ask once; say whether anything changed."""
        tried: set[str] = set()
        changed = False
        while True:
            untried = [
                ask
                for ask in self.pending()
                if ask.name not in tried
                and any(one.leaf == ask.leaf and self.has_headroom(one) for one in self.pending())
            ]
            if not untried:
                return changed
            ask = untried[0]
            tried.add(ask.name)
            for node in self.nodes():
                if self.has_headroom(ask) and self.may_use(ask, node) and self.fits(ask, node):
                    self.bind(ask, node)
                    changed = True
                    break
            # Whoever no longer lacks room alone keeps nothing.
            self.prune()

    def serve(self) -> bool:
        """Make room for the first service that can have it; say whether there was one."""
        for ask in self.pending():
            node = ask.node or ""
            if not self.lacks_room_only(ask) or self.fits(ask, node):
                continue
            victims = self.victims(ask, node) if self.rules.preempts else []
            if victims:
                for one in victims:
                    one.at = None
                self.bind(ask, node)
                return True
            if ask.name not in self.keepers:
                self.keepers.append(ask.name)
        return False

    def victims(self, ask: Wanted, node: str) -> list[Wanted]:
        there = [
            one
            for one in self.asks.values()
            if one.at == node and not self.is_service(one) and one.priority <= ask.priority
        ]
        there.sort(key=lambda one: (one.priority, -one.age))
        room = self.capacity[node] - self.used(node)
        taken: list[Wanted] = []
        while room < ask.size and there:
            taken.append(there.pop(0))
            room += taken[-1].size
        if room < ask.size:
            return []
        for one in reversed(list(taken)):
            if room - one.size >= ask.size:
                taken.remove(one)
                room -= one.size
        return taken

    def settle(self) -> None:
        while True:
            self.prune()
            while self.round():
                pass
            if not (self.prune() or self.serve()):
                return


@attrs.define
class Both:
    """The scheduler and the plain algorithm, with the same events."""

    made: Contest
    plain: Plain
    count: int = 0

    def apply(self, draw: st.DataObject) -> Iterator[Event]:
        """Draw an event and apply it to the plain algorithm."""
        plain = self.plain
        self.count += 1
        kind = draw.draw(
            st.sampled_from(("add", "add", "add", "end", "end", "node", "set", "fail"))
        )
        names = sorted(plain.asks)
        if kind == "add":
            leaf = draw.draw(st.sampled_from("aab"))
            node = draw.draw(st.sampled_from((None, "m", "n")))
            size = draw.draw(st.integers(1, 4))
            priority = draw.draw(st.integers(0, 2))
            name = f"x{self.count}"
            plain.asks[name] = Wanted(leaf, name, size, priority, node, self.count)
            yield AddAsk(leaf, name, Resources({"vcore": size}), priority=priority, node=node)
        elif kind == "end" and names:
            ask = plain.asks.pop(draw.draw(st.sampled_from(names)))
            yield (Release if ask.at else RemoveAsk)(ask.leaf, ask.name)
        elif kind == "fail" and names:
            ask = plain.asks[draw.draw(st.sampled_from(names))]
            if ask.at is None:
                ask.fails += 1
                yield FailBind(ask.leaf, ask.name)
        elif kind == "node":
            node = draw.draw(st.sampled_from(sorted(NODES)))
            plain.capacity[node] = draw.draw(st.integers(2, 7))
            plain.open[node] = draw.draw(st.sampled_from((True, True, False)))
            capacity = Resources({"vcore": plain.capacity[node]})
            yield UpdateNode(node, capacity, schedulable=plain.open[node])
        elif kind == "set":
            yield self.configure(draw)

    def configure(self, draw: st.DataObject) -> Configure:
        rules = self.plain.rules
        rules.services = draw.draw(st.sampled_from(("enabled", "enabled", "enabled", "disabled")))
        rules.first = draw.draw(st.sampled_from("ab"))
        rules.preempts = draw.draw(st.sampled_from((True, True, False)))
        limits = draw.draw(st.sampled_from(("", "", "a", "b", "ab")))
        rules.most = {leaf: draw.draw(st.integers(3, 9)) for leaf in limits}
        return Configure(rules.configuration())


@settings(deadline=None)
@given(draw=st.data())
def test_the_outcome_is_that_of_the_plain_algorithm(draw: st.DataObject) -> None:
    made = contest(share("a"), share("b"), **NODES)
    both = Both(made, Plain(Rules()))
    made.tell(both.configure(draw))
    for _ in range(draw.draw(st.integers(1, 8))):
        events: list[Event] = []
        for _ in range(draw.draw(st.integers(1, 4))):
            events.extend(both.apply(draw))
        made.tell(*events)
        both.plain.settle()

        placed = {
            name: allocation.node
            for leaf in "ab"
            for name, (allocation, _) in made.app(leaf).bound.items()
        }
        assert placed == {name: ask.at for name, ask in both.plain.asks.items() if ask.at}
        kept = {node.name for node in made.state.nodes.nodes.values() if node.kept}
        assert kept == {both.plain.asks[name].node for name in both.plain.keepers}
