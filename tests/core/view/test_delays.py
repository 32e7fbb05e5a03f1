"""``preemption.delay``: since when asks are pending, and when they may take something."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.config.model import PreemptionPolicy, Settings
from muster_core.owners.asks import AppIdentity, Ask
from muster_core.resources import Resources
from muster_core.structures.amounts import Types
from muster_core.structures.shapes import Shape
from muster_core.structures.steps import all_at_once
from muster_core.view.state.delays import Delays
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView, ViewQueue
from tests.core.building import ask, queue_config

VCORE = {"vcore": 5}
DISABLED = PreemptionPolicy.DISABLED


class DelayedLeaves:
    """Delays, two leaves below a parent, and one application in each."""

    def __init__(self) -> None:
        types = Types()
        root = ParentView(1, None, queue_config("root", is_parent=True), types)
        self.parent = ParentView(2, root, queue_config("root.q", is_parent=True), types, 1)
        self.queues: dict[int, ViewQueue] = {1: root, 2: self.parent}
        self.delays = Delays(self.queues)
        self.apps: dict[int, ViewApp] = {}
        for key in (3, 4):
            leaf = LeafView(key, self.parent, queue_config(f"root.q.l{key}"), types, 2)
            self.queues[key] = leaf
            identity = AppIdentity(key, "p", key, leaf.config.path)
            self.apps[key] = leaf.apps[key] = ViewApp(identity)
        for key in (3, 4):
            self.configure(key)

    def leaf(self, key: int = 3) -> LeafView:
        leaf = self.queues[key]
        assert isinstance(leaf, LeafView)
        return leaf

    def configure(
        self,
        key: int = 3,
        *,
        delay_us: int = 100,
        policy: PreemptionPolicy = PreemptionPolicy.DEFAULT,
        guaranteed: Mapping[str, int] | None = None,
    ) -> None:
        """Give a queue other settings."""
        queue = self.queues[key]
        settings = Settings(preemption_delay_us=delay_us, preemption_policy=policy)
        config = queue_config(queue.config.path, guaranteed=guaranteed)
        queue.config = attrs.evolve(config, settings=settings)
        self.refresh()

    def refresh(self) -> None:
        self.delays.stale = True
        all_at_once(self.delays.refresh())
        self.delays.check()

    def add(self, name: str = "x", at_us: int = 0, key: int = 3, **amounts: int) -> Ask:
        made = ask(name, of=Shape(Resources(amounts or {"vcore": 1})))
        return self.put(made._replace(came_us=at_us), key)

    def put(self, one: Ask, key: int = 3) -> Ask:
        leaf, app = self.leaf(key), self.apps[key]
        app.add(one, 1)
        if one.preempts:
            leaf.count_preempting(one, 1, 1)
        if leaf.watches(one):
            self.delays.add(leaf, app.pending_since_us(one))
        self.delays.check()
        return one

    def remove(self, one: Ask, key: int = 3) -> None:
        leaf, app = self.leaf(key), self.apps[key]
        app.remove(one, 1)
        if one.preempts:
            leaf.count_preempting(one, 1, -1)
        if leaf.watches(one):
            self.delays.remove(leaf, app.pending_since_us(one))
        self.delays.check()

    def is_over(self, one: Ask, now_us: int) -> bool:
        return Delays.is_over(self.leaf(), self.apps[3], one, now_us)


def pending_ask(kind: str = "vcore") -> DelayedLeaves:
    made = DelayedLeaves()
    made.configure(guaranteed={kind: 5})
    return made


# Which asks have a timer


def test_nothing_that_could_take_anything_is_pending() -> None:
    made = DelayedLeaves()
    made.add()

    assert made.delays.next_us() is None


def test_the_end_of_the_delay() -> None:
    made = pending_ask()
    made.add(at_us=7)

    assert made.delays.next_us() == 107


def test_the_first_end_of_several() -> None:
    made = pending_ask()
    made.configure(4, delay_us=10, guaranteed=VCORE)
    made.add("x", at_us=20)
    made.add("y", at_us=30, key=4)

    assert made.delays.next_us() == 40


def test_only_an_ask_of_a_type_that_is_guaranteed() -> None:
    made = pending_ask("memory")
    made.add("x", vcore=1)
    assert made.delays.next_us() is None

    made.add("y", vcore=1, memory=1)
    assert made.delays.next_us() == 100


def test_what_the_parent_is_guaranteed_counts_too() -> None:
    made = DelayedLeaves()
    made.configure(2, guaranteed=VCORE)
    made.add(at_us=5)

    assert made.delays.next_us() == 105


def test_what_root_would_be_guaranteed_does_not() -> None:
    made = DelayedLeaves()
    made.configure(1, guaranteed=VCORE)
    made.add()

    assert made.delays.next_us() is None


def test_an_ask_that_may_preempt_needs_no_guarantee() -> None:
    made = DelayedLeaves()
    made.put(ask()._replace(preempts=True, came_us=3))

    assert made.delays.next_us() == 103


@pytest.mark.parametrize("policy", [PreemptionPolicy.FENCE, DISABLED])
def test_a_leaf_that_may_not_take_anything(policy: PreemptionPolicy) -> None:
    made = DelayedLeaves()
    made.configure(policy=policy, guaranteed=VCORE)
    made.put(ask()._replace(preempts=True))

    assert made.delays.next_us() == (None if policy is DISABLED else 100)


def test_a_partition_without_preemption() -> None:
    made = pending_ask()
    one = made.add()
    made.delays.enabled = False
    made.refresh()

    assert made.delays.next_us() is None
    assert not made.leaf().watches(one)


def test_settings_count_once_they_are_taken_over() -> None:
    made = pending_ask()
    made.add()
    made.delays.enabled = False
    all_at_once(made.delays.refresh())
    assert made.delays.next_us() == 100

    made.refresh()
    assert made.delays.next_us() is None


# When it is over


def test_it_is_over_at_that_very_instant() -> None:
    made = pending_ask()
    one = made.add(at_us=7)

    assert [made.is_over(one, now_us) for now_us in (106, 107, 108)] == [False, True, True]


def test_without_a_delay_it_is_over_at_once_and_needs_no_timer() -> None:
    made = pending_ask()
    made.configure(delay_us=0, guaranteed=VCORE)
    made.delays.pass_to(7)
    one = made.add(at_us=7)

    assert made.is_over(one, 7)
    assert made.delays.next_us() is None


def test_an_end_that_has_passed_is_no_timer() -> None:
    made = pending_ask()
    made.add("x")
    made.add("y", at_us=50)
    made.delays.pass_to(100)

    assert made.delays.next_us() == 150


def test_asks_of_one_instant_have_one_end_until_the_last_of_them_goes() -> None:
    made = pending_ask()
    first, second = made.add("x"), made.add("y")
    made.remove(first)
    assert made.delays.next_us() == 100
    made.remove(second)

    assert made.delays.next_us() is None


def test_what_went_and_came_again_at_one_instant() -> None:
    made = pending_ask()
    made.remove(made.add())
    made.add()

    assert made.delays.next_us() == 100


def test_far_off_ends_for_asks_that_have_gone_are_not_kept() -> None:
    made = DelayedLeaves()
    made.configure(delay_us=10**15, guaranteed=VCORE)
    for at_us in range(1_000):
        one = made.add(at_us=at_us)
        assert made.delays.next_us() == at_us + 10**15
        made.remove(one)

    assert len(made.delays) < 100


def test_it_begins_anew_for_what_lost_its_node() -> None:
    made = pending_ask()
    made.apps[3].since_us["x"] = 60
    one = made.add(at_us=7)

    assert made.delays.next_us() == 160
    assert not made.is_over(one, 159)


def test_not_for_another_of_its_name_that_came_later() -> None:
    made = pending_ask()
    made.apps[3].since_us["x"] = 60
    made.add(at_us=80)

    assert made.delays.next_us() == 180


@pytest.mark.parametrize("delay_us", [50, 200])
def test_a_delay_that_changes_while_it_runs(delay_us: int) -> None:
    made = pending_ask()
    one = made.add(at_us=7)
    made.delays.pass_to(30)
    made.configure(delay_us=delay_us, guaranteed=VCORE)

    assert made.delays.next_us() == 7 + delay_us
    assert not made.is_over(one, 7 + delay_us - 1)


def test_a_delay_that_is_over_since_it_became_shorter() -> None:
    made = pending_ask()
    one = made.add()
    made.delays.pass_to(30)
    made.configure(delay_us=20, guaranteed=VCORE)

    assert made.is_over(one, 30)
    assert made.delays.next_us() is None


def test_a_leaf_that_is_gone_has_no_timer() -> None:
    made = pending_ask()
    made.add()
    del made.queues[3]

    assert made.delays.next_us() is None


LEAVES = st.sampled_from([3, 4])
GUARANTEED = st.sampled_from([{}, VCORE, {"memory": 1}, {"vcore": 1, "memory": 1}])
POLICIES = st.sampled_from([PreemptionPolicy.DEFAULT, PreemptionPolicy.FENCE, DISABLED])


class Histories(RuleBasedStateMachine):
    """Delays beside a plain look at every ask."""

    def __init__(self) -> None:
        super().__init__()
        self.made = DelayedLeaves()
        self.now_us = 0
        self.pending: list[tuple[int, Ask]] = []
        self.numbers = 0

    @rule(key=LEAVES, kind=st.sampled_from(["vcore", "memory"]), preempts=st.booleans())
    def come(self, key: int, kind: str, preempts: bool) -> None:
        self.numbers += 1
        made = ask(f"x{self.numbers}", of=Shape(Resources({kind: 1})))
        one = made._replace(preempts=preempts, came_us=self.now_us)
        self.pending.append((key, self.made.put(one, key)))

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), back=st.booleans())
    def go(self, data: st.DataObject, back: bool) -> None:
        """Let an ask go, or get a node and lose it at once."""
        key, one = chosen = data.draw(st.sampled_from(self.pending))
        self.made.remove(one, key)
        if back:
            self.made.apps[key].since_us[one.name] = self.now_us
            self.made.put(one, key)
        else:
            self.pending.remove(chosen)

    @rule(key=st.sampled_from([2, 3, 4]), delay=st.integers(0, 9), policy=POLICIES, of=GUARANTEED)
    def configure(self, key: int, delay: int, policy: PreemptionPolicy, of: dict[str, int]) -> None:
        self.made.configure(key, delay_us=delay, policy=policy, guaranteed=of)

    @rule(enabled=st.booleans())
    def enable(self, enabled: bool) -> None:
        self.made.delays.enabled = enabled
        self.made.refresh()

    @rule(by_us=st.integers(0, 12))
    def pass_time(self, by_us: int) -> None:
        self.now_us += by_us
        self.made.delays.pass_to(self.now_us)

    def ends(self) -> list[int]:
        """Return the end of every delay of an ask that could take something then."""
        ends: list[int] = []
        for key, one in self.pending:
            leaf = self.made.leaf(key)
            settings = leaf.config.settings
            named = {*leaf.config.guaranteed, *self.made.parent.config.guaranteed}
            useful = one.preempts or named & set(one.resources)
            if self.made.delays.enabled and settings.preemption_policy is not DISABLED and useful:
                since_us = self.made.apps[key].since_us.get(one.name, one.came_us)
                ends.append(since_us + settings.preemption_delay_us)
        return ends

    @invariant()
    def the_next_end_is_the_first_that_is_to_come(self) -> None:
        later = [end for end in self.ends() if end > self.now_us]
        assert self.made.delays.next_us() == min(later, default=None)

    @invariant()
    def holds(self) -> None:
        self.made.delays.check()


TestHistories = Histories.TestCase
