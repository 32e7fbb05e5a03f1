"""Node services: which ones take room, from whom, what they leave alone.

By hand and against a plain algorithm that remembers nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from muster_core.config.model import Configuration
from muster_core.decisions import Kind
from muster_core.events import AddAsk, Configure, Event, FailBind, Release, RemoveAsk, UpdateNode
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from muster_core.view.eviction.evictor import NodeServices
from muster_core.view.eviction.plans import Planner
from tests.core.admission.objects import gang, members
from tests.core.building import Queue, configuration, wish
from tests.core.view.eviction.contest import Contest, at_once, contest, names, share, share_of


def service_leaf(name: str = "a", *, most: int | None = None, **properties: str) -> Queue:
    """Return a leaf whose asks for one node are node services."""
    return serving_with(properties, name, most=most)


def serving_with(
    properties: Mapping[str, str], name: str = "a", *, most: int | None = None
) -> Queue:
    """Return a leaf as :func:`service_leaf` does, with properties that are known already."""
    limit = None if most is None else {"vcore": most}
    return share_of(name, {"preemption_required_node": "enabled", **properties}, most=limit)


def service(
    name: str = "s", vcore: int = 1, node: str = "n", priority: int = 0, app: str = "a"
) -> AddAsk:
    resources = Resources({"vcore": vcore})
    return AddAsk(app, name, resources, priority=priority, node=node)


def ask_of_b(name: str, vcore: int = 1, priority: int = 0, node: str | None = None) -> AddAsk:
    return AddAsk("b", name, Resources({"vcore": vcore}), priority=priority, node=node)


def plan_in(tree: Contest) -> str | None:
    """Return the plan that is found in the present state: ``a/s n: b/x b/y``."""
    services = NodeServices(tree.state, Planner(tree.state, tree.victim_index()))
    plan = all_at_once(services.find())
    if plan is None:
        return None
    asker = f"{plan.eligibility.app.identity.name}/{plan.eligibility.ask.name}"
    return f"{asker} {plan.node.name}: {names(plan.victims)}"


def test_a_step_of_a_node_service() -> None:
    tree = contest(service_leaf(), share("b"), n=2)
    tree.tell(ask_of_b("x"), ask_of_b("y"))

    assert tree.tell(service()) == [
        "released b/y n preempted",
        "assigned a/s n",
        "bound a/s n",
    ]


def test_the_message_of_a_victim_names_the_ask_it_made_room_for() -> None:
    tree = contest(service_leaf(), share("b"), n=1)
    tree.tell(ask_of_b("x", priority=-2))
    released = [one for one in tree.settle(service()) if one.kind is Kind.RELEASED]

    assert [one.message for one in released] == ["for a/s: it is a node service and requires n"]


def test_of_several_the_first_in_order_takes_room() -> None:
    tree = contest(service_leaf(most=0), share("b"), n=2)
    tree.tell(ask_of_b("x"), ask_of_b("y"))
    tree.tell(service("s"), service("t", priority=4), service("u", priority=5, vcore=3))
    assert plan_in(tree) is None  # Nothing fits the headroom.
    tree.leaf("a").config = attrs.evolve(tree.leaf("a").config, max=tree.leaf("b").config.max)

    assert plan_in(tree) == "a/t n: b/y"


@pytest.mark.parametrize(
    "properties",
    [
        {"preemption_delay": "1h"},
        {"preemption_policy": "disabled"},
        {"preemption_policy": "fence"},
        {"priority_offset": "-9"},
    ],
)
def test_no_setting_of_its_leaf_stands_against_it(properties: dict[str, str]) -> None:
    tree = contest(serving_with(properties), share("b"), n=1)
    tree.tell(ask_of_b("x"))

    assert tree.tell(service())[0] == "released b/x n preempted"


@pytest.mark.parametrize(
    "victim",
    [
        share("b", preemption_policy="disabled"),
        share("b", queue_reclaimable="false"),
        share("b", guaranteed={"vcore": 9}),
        share("b", priority_policy="fence", priority_offset="9"),
    ],
)
def test_no_setting_protects_a_victim(victim: Queue) -> None:
    tree = contest(service_leaf(), victim, n=1)
    tree.tell(ask_of_b("x"))

    assert tree.tell(service())[0] == "released b/x n preempted"


def test_nothing_is_taken_from_higher_priorities() -> None:
    tree = contest(service_leaf(), share("b"), n=2)
    tree.tell(ask_of_b("x", priority=1), ask_of_b("y"))

    assert tree.tell(service(vcore=2)) == []
    assert tree.tell(service("t")) == ["released b/y n preempted", "assigned a/t n", "bound a/t n"]


def test_nothing_is_taken_on_other_nodes() -> None:
    tree = contest(service_leaf(), share("b"), m=1, n=1)
    tree.tell(ask_of_b("x", node="m"), ask_of_b("y", node="n"))

    assert tree.tell(service())[0] == "released b/y n preempted"


def test_equal_services_are_searched_once_and_all_keep_the_node() -> None:
    tree = contest(service_leaf(), share("b"), n=1)
    tree.tell(ask_of_b("x", priority=1))
    tree.tell(service("s"), service("t"))
    app = tree.app("a")

    assert [tree.state.kept_nodes.keeps(app, app.pending[name]) for name in "st"] == [True, True]


def test_what_another_service_holds_is_not_taken_by_reclaim_either() -> None:
    tree = at_once(service_leaf(), share("b", guaranteed={"vcore": 1}), n=1)
    tree.tell(service())

    assert tree.tell(wish("b")) == []


def test_members_beside_a_service_are_one_unit_with_it() -> None:
    tree = contest(service_leaf(), share("b"), m=1, n=1)
    tree.tell(gang("g", 2), members("g", "m", app="b", vcore=1))
    tree.tell(attrs.evolve(service("own", node="n"), gang="default/g"))
    assert tree.commit_for("a") is not None

    assert tree.tell(service("s", node="m"), service("t", node="n")) == []


def test_a_service_whose_bind_fails_keeps_nothing() -> None:
    tree = contest(service_leaf(), share("b"), n=1)
    tree.tell(ask_of_b("x"))
    tree.enter(service(), FailBind("a", "s"))

    assert tree.tell()[:3] == [
        "released b/x n preempted",
        "assigned a/s n",
        "released a/s n bind_failed",
    ]
    assert not tree.state.kept_nodes


def test_it_is_looked_again_only_after_something_has_changed() -> None:
    tree = contest(service_leaf(), share("b"), n=2)
    tree.tell(ask_of_b("x", priority=1), ask_of_b("y", priority=1))
    assert tree.tell(service(vcore=2)) == []
    assert tree.tell() == []

    assert tree.tell(UpdateNode("n", Resources({"vcore": 4}))) == ["assigned a/s n", "bound a/s n"]


def test_a_leaf_may_serve_from_now_on() -> None:
    tree = contest(share("a"), share("b"), n=1)
    tree.tell(ask_of_b("x"))
    assert tree.tell(service()) == []

    lines = tree.tell(Configure(configuration(service_leaf(), share("b"))))
    assert lines == ["released b/x n preempted", "assigned a/s n", "bound a/s n"]


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
class PlainAsk:
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
class PlainServices:
    """The plain algorithm."""

    rules: Rules
    asks: dict[str, PlainAsk] = attrs.field(factory=dict[str, PlainAsk])
    capacity: dict[str, int] = attrs.field(factory=lambda: dict(NODES))
    open: dict[str, bool] = attrs.field(factory=lambda: dict.fromkeys(NODES, True))
    keepers: list[str] = attrs.field(factory=list[str])
    bound: int = 0

    def used(self, node: str) -> int:
        return sum(ask.size for ask in self.asks.values() if ask.at == node)

    def is_service(self, ask: PlainAsk) -> bool:
        return ask.node is not None and ask.leaf == "a" and self.rules.services == "enabled"

    def has_headroom(self, ask: PlainAsk) -> bool:
        held = sum(one.size for one in self.asks.values() if one.leaf == ask.leaf and one.at)
        return held + ask.size <= self.rules.most.get(ask.leaf, 1000)

    def lacks_room_only(self, ask: PlainAsk) -> bool:
        """Return whether a service lacks nothing, or nothing but room."""
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

    def fits(self, ask: PlainAsk, node: str) -> bool:
        return self.used(node) + ask.size <= self.capacity[node]

    def may_use(self, ask: PlainAsk, node: str) -> bool:
        kept = {self.asks[name].node for name in self.keepers}
        return (
            self.open[node]
            and ask.node in {None, node}
            and (node not in kept or self.is_service(ask))
        )

    def pending(self) -> list[PlainAsk]:
        waiting = [ask for ask in self.asks.values() if ask.at is None]
        return sorted(
            waiting, key=lambda one: (one.leaf != self.rules.first, -one.priority, one.creation)
        )

    def nodes(self) -> list[str]:
        def score(node: str) -> tuple[float, str]:
            used, most = self.used(node), self.capacity[node]
            return (used / most if most else float("inf") if used else 0.0, node)

        return sorted(NODES, key=score)

    def bind(self, ask: PlainAsk, node: str) -> None:
        if ask.name in self.keepers:
            self.keepers.remove(ask.name)
        if ask.fails:
            ask.fails -= 1
            return
        self.bound += 1
        ask.at, ask.age = node, self.bound

    def round(self) -> bool:
        """Try each ask once; return whether anything changed."""
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
            # A service that lacks more than room keeps no node.
            self.prune()

    def serve(self) -> bool:
        """Make room for the first service that can have it; return whether there was one."""
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

    def victims(self, ask: PlainAsk, node: str) -> list[PlainAsk]:
        there = [
            one
            for one in self.asks.values()
            if one.at == node and not self.is_service(one) and one.priority <= ask.priority
        ]
        there.sort(key=lambda one: (one.priority, -one.age))
        room = self.capacity[node] - self.used(node)
        taken: list[PlainAsk] = []
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
class BothSchedulers:
    """The scheduler and the plain algorithm, with the same events."""

    tree: Contest
    plain: PlainServices
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
            plain.asks[name] = PlainAsk(leaf, name, size, priority, node, self.count)
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
    tree = contest(share("a"), share("b"), **NODES)
    both = BothSchedulers(tree, PlainServices(Rules()))
    tree.tell(both.configure(draw))
    for _ in range(draw.draw(st.integers(1, 8))):
        events: list[Event] = []
        for _ in range(draw.draw(st.integers(1, 4))):
            events.extend(both.apply(draw))
        tree.tell(*events)
        both.plain.settle()

        placed = {
            name: allocation.node
            for leaf in "ab"
            for name, (allocation, _) in tree.app(leaf).bound.items()
        }
        assert placed == {name: ask.at for name, ask in both.plain.asks.items() if ask.at}
        kept = {node.name for node in tree.state.nodes.nodes.values() if node.kept}
        assert kept == {both.plain.asks[name].node for name in both.plain.keepers}
