"""Who has taken what and lost it again, so that no circle goes round for ever."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind, Reason
from muster_core.events import AddApp, AddAsk, AddNode, AddPriorityClass, Event, RemoveApp
from muster_core.owners.asks import Ask
from muster_core.resources import Resources
from muster_core.view.state.history import Evicted, EvictionHistory, alike
from tests.core.building import ask, configuration, shape, wish
from tests.core.view.eviction.contest import SIX, contest, share, urgent

X = ask("x")
GROUP = ("default/g",)


def lost(*nodes: str) -> EvictionHistory:
    """Let ``1/x`` take something from nodes and lose it again."""
    eviction_history = EvictionHistory()
    for node in nodes:
        eviction_history.note(1, X, node)
        eviction_history.evicted(1, X)
    return eviction_history


@pytest.mark.parametrize(
    "other",
    [
        ask("x", 1),
        ask("x", of=shape(vcore=2)),
        ask("x", of=shape("n", vcore=1)),
        X._replace(preempts=True),
        X._replace(gang="default/g"),
    ],
)
def test_what_asks_that_are_not_alike_differ_in(other: Ask) -> None:
    assert alike(1, other) != alike(1, X) != alike(2, X)
    assert alike(1, ask("another")) == alike(1, X)


def test_who_has_taken_something_and_holds_it_has_lost_nothing() -> None:
    eviction_history = EvictionHistory()
    eviction_history.note(1, X, "n")

    assert not eviction_history.has_lost(1, X)
    assert not eviction_history.lost_on(1, X, "n")


def test_who_has_taken_something_and_was_evicted_has_lost_it() -> None:
    eviction_history = lost("n")

    assert eviction_history.has_lost(1, X)
    assert eviction_history.lost_on(1, X, "n")
    assert not eviction_history.lost_on(1, X, "m")
    assert not eviction_history.has_lost(2, X)


def test_so_have_all_that_are_alike() -> None:
    assert lost("n").lost_on(1, ask("another"), "n")
    assert not lost("n").lost_on(1, ask("x", 1), "n")


def test_who_has_taken_nothing_loses_nothing() -> None:
    eviction_history = EvictionHistory()
    eviction_history.evicted(1, X)

    assert not eviction_history.has_lost(1, X)


def test_nothing_is_lost_twice() -> None:
    eviction_history = lost("n")
    eviction_history.forget()
    eviction_history.evicted(1, X)

    assert not eviction_history.has_lost(1, X)


def test_a_group_loses_what_it_has_taken_with_any_of_its_members() -> None:
    eviction_history = EvictionHistory()
    eviction_history.note_member(1, X, GROUP)
    assert not eviction_history.lost_by(GROUP)
    eviction_history.evicted(1, X)

    assert eviction_history.lost_by(GROUP)
    assert not eviction_history.lost_by(("default/g", "default/h"))


def test_to_forget_something_that_was_lost_is_a_change() -> None:
    eviction_history = EvictionHistory()
    eviction_history.note(1, X, "n")
    eviction_history.forget()
    assert eviction_history.changes == 0
    eviction_history = lost("n")
    eviction_history.forget()

    assert eviction_history.changes == 1
    assert not eviction_history.has_lost(1, X)
    assert not eviction_history.lost_on(1, X, "n")


# Plans


def test_a_node_on_which_it_was_lost_is_passed_over() -> None:
    made = contest(share("a", guaranteed=SIX), share("b"), m=1, n=1)
    made.tell(wish("b", "y", node="m"), wish("b", "z", 1, node="n"))
    made.tell(urgent("a"))
    eviction_history, scope = made.state.eviction_history, made.preempt("a/x")
    key = scope.app.identity.key
    assert made.planned(scope) == "m: b/y"
    eviction_history.note(key, scope.ask, "m")
    assert made.planned(scope) == "m: b/y"
    eviction_history.evicted(key, scope.ask)
    assert made.planned(scope) == "n: b/z"
    eviction_history.note(key, scope.ask, "n")
    eviction_history.evicted(key, scope.ask)

    assert made.planned(scope) is None


def test_it_is_forgotten_when_anything_new_comes_in() -> None:
    made = contest(share("b"), n=2)
    made.state.eviction_history.note(1, X, "n")
    made.state.eviction_history.evicted(1, X)
    made.tell()
    assert made.state.eviction_history.has_lost(1, X)
    made.tell(RemoveApp("nobody"))

    assert not made.state.eviction_history.has_lost(1, X)


# Circles


def rivals(count: int) -> Configuration:
    """Give a leaf, and one that is guaranteed as many cores, without delays."""
    owed = share("b", guaranteed={"vcore": count})
    return configuration(share("a"), owed, props={"preemption.delay": "0s"})


def of_class(name: str, asks: str, node: str | None, priority_class: str | None) -> AddAsk:
    amounts = {"memory": 1} if priority_class else {"memory": 1, "vcore": 1}
    return attrs.evolve(
        wish(name, asks, node=node), resources=Resources(amounts), priority_class=priority_class
    )


def circles(count: int, *, pinned: bool) -> list[Event]:
    """Give nodes of one memory, each with a circle: low, mid, then high."""
    events: list[Event] = [AddApp("a", "root.a"), AddApp("b", "root.b")]
    events += [AddPriorityClass("mid", 2, preempts=True)]
    events += [AddPriorityClass("high", 5, preempts=True)]
    nodes = [f"n{at}" for at in range(count)]
    events += [AddNode(node, Resources({"memory": 1, "vcore": 1})) for node in nodes]
    for name, one in (("b", None), ("b", "mid"), ("a", "high")):
        events += [of_class(name, f"{one}-{node}", node if pinned else None, one) for node in nodes]
    return events


def victims(count: int, *, pinned: bool) -> list[str]:
    """Give who was evicted in that many circles."""
    scheduler = PlainScheduler(rivals(count))
    for event in circles(count, pinned=pinned):
        scheduler.submit(event)
        if isinstance(event, AddAsk) and event.priority_class is None:
            scheduler.settle()
    scheduler.finish()
    return [
        f"{one.decision.app}/{one.decision.ask}"
        for one in scheduler.announced
        if one.decision.kind is Kind.RELEASED
        and one.decision.reason in (Reason.RECLAIMED, Reason.PREEMPTED)
    ]


@pytest.mark.parametrize("pinned", [True, False])
def test_many_circles_end_as_soon_as_each_of_them(pinned: bool) -> None:
    # Nobody is said to be evicted twice, so three of each circle are the most.
    found = victims(12, pinned=pinned)

    assert found
    assert len(found) == len(set(found)) <= 3 * 12


# Beside a list


ASKS = st.sampled_from([X, ask("another"), ask("z", 1)])
APPS = st.integers(1, 2)
NODES = st.sampled_from("mn")


class Histories(RuleBasedStateMachine):
    """What was taken and lost beside a list of all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.eviction_history = EvictionHistory()
        self.held: list[tuple[int, Ask, Evicted]] = []
        self.lost: list[Evicted] = []

    @rule(app=APPS, ask=ASKS, node=NODES)
    def take(self, app: int, ask: Ask, node: str) -> None:
        self._let_go(app, ask)
        self.eviction_history.note(app, ask, node)
        self.held.append((app, ask, (alike(app, ask), node, ())))

    @rule(app=APPS, ask=ASKS)
    def take_as_group(self, app: int, ask: Ask) -> None:
        self._let_go(app, ask)
        self.eviction_history.note_member(app, ask, GROUP)
        self.held.append((app, ask, (None, None, GROUP)))

    def _let_go(self, app: int, ask: Ask) -> list[Evicted]:
        found = [what for key, one, what in self.held if (key, one.name) == (app, ask.name)]
        self.held = [one for one in self.held if (one[0], one[1].name) != (app, ask.name)]
        return found

    @rule(app=APPS, ask=ASKS)
    def evict(self, app: int, ask: Ask) -> None:
        self.eviction_history.evicted(app, ask)
        self.lost += self._let_go(app, ask)

    @rule()
    def forget(self) -> None:
        self.eviction_history.forget()
        self.held.clear()
        self.lost.clear()

    @rule()
    def save_and_load(self) -> None:
        facts, loaded = self.eviction_history.facts(), EvictionHistory()
        loaded.load(facts)
        assert loaded.facts() == facts
        self.eviction_history = loaded

    @rule(app=APPS, ask=ASKS, node=NODES)
    def look(self, app: int, ask: Ask, node: str) -> None:
        assert self.eviction_history.lost_on(app, ask, node) is (
            (alike(app, ask), node, ()) in self.lost
        )
        assert self.eviction_history.lost_by(GROUP) is ((None, None, GROUP) in self.lost)
        if any(what[0] == alike(app, ask) for what in self.lost):
            assert self.eviction_history.has_lost(app, ask)


TestHistories = Histories.TestCase
