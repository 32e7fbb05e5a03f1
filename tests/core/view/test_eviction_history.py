"""Who has taken what and lost it again, so that no circle goes round for ever.

And who keeps a node, until when.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind, Reason
from muster_core.events import (
    AddApp,
    AddAsk,
    AddNode,
    AddPriorityClass,
    Configure,
    Event,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)
from muster_core.owners.asks import Ask
from muster_core.resources import Resources
from muster_core.view.state.history import Evicted, EvictionHistory, alike
from tests.core.admission.objects import gang
from tests.core.building import Queue, ask, configuration, shape, wish
from tests.core.view.eviction.contest import SIX, Contest, contest, share, urgent
from tests.core.view.eviction.test_services import ask_of_b, service, service_leaf

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
    tree = contest(share("a", guaranteed=SIX), share("b"), m=1, n=1)
    tree.tell(wish("b", "y", node="m"), wish("b", "z", 1, node="n"))
    tree.tell(urgent("a"))
    eviction_history, scope = tree.state.eviction_history, tree.preempt("a/x")
    key = scope.app.identity.key
    assert tree.planned(scope) == "m: b/y"
    eviction_history.note(key, scope.ask, "m")
    assert tree.planned(scope) == "m: b/y"
    eviction_history.evicted(key, scope.ask)
    assert tree.planned(scope) == "n: b/z"
    eviction_history.note(key, scope.ask, "n")
    eviction_history.evicted(key, scope.ask)

    assert tree.planned(scope) is None


def test_it_is_forgotten_when_anything_new_comes_in() -> None:
    tree = contest(share("b"), n=2)
    tree.state.eviction_history.note(1, X, "n")
    tree.state.eviction_history.evicted(1, X)
    tree.tell()
    assert tree.state.eviction_history.has_lost(1, X)
    tree.tell(RemoveApp("nobody"))

    assert not tree.state.eviction_history.has_lost(1, X)


# Circles


def rivals(count: int) -> Configuration:
    """Return a leaf, and one that is guaranteed as many cores, without delays."""
    owed = share("b", guaranteed={"vcore": count})
    return configuration(share("a"), owed, props={"preemption.delay": "0s"})


def of_class(name: str, asks: str, node: str | None, priority_class: str | None) -> AddAsk:
    amounts = {"memory": 1} if priority_class else {"memory": 1, "vcore": 1}
    return attrs.evolve(
        wish(name, asks, node=node), resources=Resources(amounts), priority_class=priority_class
    )


def circles(count: int, *, pinned: bool) -> list[Event]:
    """Return nodes of one memory, each with a circle: low, mid, then high."""
    events: list[Event] = [AddApp("a", "root.a"), AddApp("b", "root.b")]
    events += [AddPriorityClass("mid", 2, preempts=True)]
    events += [AddPriorityClass("high", 5, preempts=True)]
    nodes = [f"n{at}" for at in range(count)]
    events += [AddNode(node, Resources({"memory": 1, "vcore": 1})) for node in nodes]
    for name, one in (("b", None), ("b", "mid"), ("a", "high")):
        events += [of_class(name, f"{one}-{node}", node if pinned else None, one) for node in nodes]
    return events


def victims(count: int, *, pinned: bool) -> list[str]:
    """Return who was evicted in that many circles."""
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
    # No ask is reported as evicted twice, so three of each circle are the most.
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


def kept_nodes(tree: Contest) -> list[str]:
    """Return the nodes that are kept, and who has kept each longest: ``n a/s``."""
    found: list[str] = []
    for node in tree.state.nodes.nodes.values():
        keeper = tree.state.kept_nodes.keeper_of(node.name)
        assert node.kept == (keeper is not None)
        if keeper is not None:
            found.append(f"{node.name} {keeper.app.identity.name}/{keeper.ask.name}")
    return found


def with_kept_node(*, most: int | None = None, b: Queue | None = None) -> Contest:
    """Return a tree in which ``a/s`` keeps ``n``, where ``b/x`` has one of two cores left."""
    tree = contest(service_leaf(most=most), b or share("b", queue_priority="1"), n=2)
    tree.tell(ask_of_b("x", priority=9), ask_of_b("y", priority=9))
    tree.tell(service(vcore=2))
    tree.tell(Release("b", "y"))
    assert kept_nodes(tree) == ["n a/s"]
    return tree


def member(name: str, vcore: int = 1) -> AddAsk:
    """Return the event of a member of ``g`` that requires ``n``."""
    return attrs.evolve(service(name, vcore), gang="default/g")


# Beginning


def test_it_keeps_its_node_when_it_was_looked_at() -> None:
    tree = contest(service_leaf(), share("b"), n=2)
    tree.tell(ask_of_b("x", 2, priority=9))

    assert tree.tell(service()) == []
    assert kept_nodes(tree) == ["n a/s"]


def test_what_comes_in_the_same_batch_is_placed_in_its_turn() -> None:
    tree = contest(service_leaf(), share("b", queue_priority="1"), n=2)

    assert tree.tell(service(vcore=2), ask_of_b("x", priority=1)) == [
        "assigned b/x n",
        "bound b/x n",
    ]
    assert kept_nodes(tree) == ["n a/s"]


@pytest.mark.parametrize("lacks", [service(vcore=3), service(node="m"), service(vcore=2, app="b")])
def test_who_lacks_more_than_room_or_is_no_service_keeps_nothing(lacks: Event) -> None:
    tree = contest(service_leaf(), share("b"), n=2)
    tree.tell(ask_of_b("x", priority=9))
    tree.tell(lacks)

    assert kept_nodes(tree) == []


def test_a_member_of_an_unsatisfied_gang_keeps_nothing() -> None:
    tree = contest(service_leaf(), share("b"), n=1)
    tree.tell(ask_of_b("x", priority=9), gang("g", 1))
    tree.tell(member("m"))

    assert kept_nodes(tree) == []


# Rounds


def test_other_asks_pass_by() -> None:
    tree = with_kept_node()

    assert tree.tell(ask_of_b("z"), ask_of_b("n-only", node="n")) == []
    assert tree.tell(AddNode("o", Resources({"vcore": 1}))) == ["assigned b/z o", "bound b/z o"]


def test_another_service_does_not() -> None:
    tree = with_kept_node()

    assert tree.tell(service("t")) == ["assigned a/t n", "bound a/t n"]
    assert kept_nodes(tree) == ["n a/s"]


def test_when_it_is_bound_those_tried_before_it_have_to_wait_for_the_next_round() -> None:
    tree = contest(
        service_leaf(queue_priority="1"), share("b", queue_priority="2"), share("c"), n=4
    )
    tree.tell(ask_of_b("x", 3, priority=9))
    tree.tell(service(vcore=2))
    tree.tell(ask_of_b("before"), wish("c", "after"))
    tree.tell(service("t", vcore=1, priority=-1))

    assert tree.tell(Release("b", "x"))[1:] == [
        "assigned a/s n",
        "bound a/s n",
        "assigned c/after n",
        "bound c/after n",
    ]
    assert kept_nodes(tree) == []


def test_its_headroom_may_end_in_a_round() -> None:
    tree = contest(
        service_leaf(most=3),
        share("b", queue_priority="1"),
        share("c", queue_priority="0"),
        m=2,
        n=2,
    )
    tree.tell(ask_of_b("x", 2, priority=9, node="n"))
    tree.tell(service(vcore=2, priority=-1))
    tree.tell(UpdateNode("n", Resources({"vcore": 4})), service("t", 2, node="m", priority=1))

    assert sorted(tree.app("a").bound) == ["t"]
    assert kept_nodes(tree) == []


# The end


@pytest.mark.parametrize(
    "events",
    [
        [RemoveAsk("a", "s")],
        [RemoveAsk("a", "s"), service(vcore=9)],
        [UpdateNode("n", Resources({"vcore": 1}))],
        [UpdateNode("n", None, schedulable=False)],
        [RemoveNode("n")],
        [Configure(configuration(share("a"), share("b")))],
        [Configure(configuration(service_leaf(most=1), share("b")))],
    ],
)
def test_it_ends(events: Sequence[Event]) -> None:
    tree = with_kept_node()
    tree.tell(*events)

    assert kept_nodes(tree) == []


def test_a_draining_leaf_keeps_its_settings_and_its_nodes() -> None:
    tree = with_kept_node()
    tree.tell(Configure(configuration(share("b"))))

    assert kept_nodes(tree) == ["n a/s"]


def test_it_does_not_end_with_a_node_that_comes_back_in_the_same_batch() -> None:
    tree = with_kept_node()
    tree.tell(RemoveNode("n"), AddNode("n", Resources({"vcore": 3})), ask_of_b("z", 2))

    assert sorted(tree.app("a").bound) == ["s"]
    assert sorted(tree.app("b").bound) == ["x"]  # In the round after the one that binds a/s.


def test_it_ends_when_its_gang_is_no_longer_satisfied() -> None:
    tree = contest(service_leaf(), share("b"), n=3)
    tree.tell(gang("g", 1), member("m"), ask_of_b("x", 2, priority=9))
    tree.tell(member("s", 2))
    assert kept_nodes(tree) == ["n a/s"]
    tree.tell(RemoveGang("default/g"))

    assert kept_nodes(tree) == []


def test_it_ends_when_its_bind_fails_and_begins_again() -> None:
    tree = with_kept_node()
    tree.tell(FailBind("a", "s"), ask_of_b("z"), ask_of_b("w"))

    assert tree.tell(Release("b", "x"))[1:] == [
        "assigned a/s n",
        "released a/s n bind_failed",
        "assigned b/z n",
        "bound b/z n",
        "assigned b/w n",
        "bound b/w n",
        "released b/w n preempted",
        "released b/z n preempted",
        "assigned a/s n",
        "bound a/s n",
    ]


def test_one_of_two_is_enough() -> None:
    tree = with_kept_node()
    tree.tell(service("t", vcore=2))
    tree.tell(RemoveAsk("a", "s"))

    assert kept_nodes(tree) == ["n a/t"]
