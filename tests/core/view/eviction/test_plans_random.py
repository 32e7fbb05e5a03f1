"""Plans for small random clusters beside those of a plain search that takes no short cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from hypothesis import assume, event, given, strategies as st

from muster_core.errors import ConfigError
from muster_core.events import AddAsk, AddNode, Event, UpdateNode
from muster_core.nodes.node import Node
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from muster_core.view.eviction.actions import PreemptionEligibility, ReclaimEligibility, claimant_of
from muster_core.view.eviction.eligibility import Eligibility, Losses
from muster_core.view.eviction.evictor import ServiceEligibility
from muster_core.view.eviction.plans import Planner
from muster_core.view.eviction.victims import UnitTracker, Victim, VictimUnit
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import Queue, wish
from tests.core.view.eviction.contest import Contest, contest, names, share
from tests.share import share as fewer


@attrs.frozen
class Plain:
    """The plain search: every victim is looked at, and sorted anew, each time."""

    made: Contest
    eligibility: Eligibility

    def planned(self) -> str | None:
        plans: list[tuple[tuple[object, ...], str]] = []
        for place, node in enumerate(self.made.state.nodes.in_order()):
            units = self.taken_on(node) if self.matches(node) else None
            if units:
                victims = [victim for unit in self.spared(node, units) for victim in unit]
                rank = max(self.rank(victim) for victim in victims)
                said = f"{node.name}: {names(tuple(victims))}"
                plans.append(((rank, len(victims), place), said))
        return min(plans)[1] if plans else None

    def matches(self, node: Node) -> bool:
        return node.schedulable and self.eligibility.ask.shape.matches(node.name, node.attributes)

    def held(self) -> list[Victim]:
        return [
            self.made.victim(f"{app.identity.name}/{name}")
            for app in self.made.state.apps.values()
            for name in (*app.bound, *app.waiting)
        ]

    def taken_on(self, node: Node) -> list[VictimUnit] | None:
        taken: list[VictimUnit] = []
        while self.lacks(node, taken):
            unit = self.first(node, taken)
            if unit is None:
                return None
            taken.append(unit)
        return taken

    def first(self, node: Node, taken: Sequence[VictimUnit]) -> VictimUnit | None:
        gang_index, losses = UnitTracker(self.made.state), self.losses(taken)
        for unit in taken:
            gang_index.take(unit)
        found: list[tuple[object, list[Victim]]] = []
        for victim in self.held():
            if gang_index.is_taken(victim):
                continue
            unit = (victim,) if victim.gang is None else gang_index.unit_of(victim)
            useful = any(self.is_useful(one, node, taken) for one in unit)
            if useful and self.eligibility.may_take(unit, losses):
                in_order = sorted(unit, key=lambda one: self.key(one, losses))
                found.append((self.key(in_order[0], losses), in_order))
        return tuple(min(found, key=lambda one: one[0])[1]) if found else None  # type: ignore[arg-type, return-value]

    def spared(self, node: Node, taken: Sequence[VictimUnit]) -> list[VictimUnit]:
        kept, gang_index = list(taken), UnitTracker(self.made.state)
        for unit in taken:
            gang_index.take(unit)
        for unit in reversed(taken):
            rest = [other for other in kept if other is not unit]
            if not self.lacks(node, rest) and not gang_index.would_break(unit):
                gang_index.spare(unit)
                kept = rest
        return kept

    def key(self, victim: Victim, losses: Losses) -> tuple[tuple[int, ...], float, int, int]:
        side = self.eligibility.side(victim.app.identity.leaf)
        assert side is not None
        return self.eligibility.key(side, victim, losses)

    def rank(self, victim: Victim) -> tuple[int, ...]:
        side = self.eligibility.side(victim.app.identity.leaf)
        assert side is not None
        return self.eligibility.rank(side, victim)

    def losses(self, taken: Sequence[VictimUnit]) -> Losses:
        losses = Losses()
        for unit in taken:
            for victim in unit:
                losses.take(victim, self.made.state.leaf_of(victim.app).upward())
        return losses

    def on_node(self, node: Node, taken: Sequence[VictimUnit]) -> set[str]:
        """Give the types that the node lacks."""
        gone = [one.allocation.ask for unit in taken for one in unit if one.node is node]
        return {
            name
            for name, amount in self.eligibility.ask.resources.items()
            if node.used.get(name, 0) - sum(one.resources[name] for one in gone) + amount
            > node.capacity.get(name, 0)
        }

    def lacks(self, node: Node, taken: Sequence[VictimUnit]) -> bool:
        return bool(self.on_node(node, taken) or self.eligibility.lacking(self.losses(taken)))

    def is_useful(self, victim: Victim, node: Node, taken: Sequence[VictimUnit]) -> bool:
        has = set(victim.allocation.ask.resources)
        if victim.node is node and has & self.on_node(node, taken):
            return True
        lacking = self.eligibility.lacking(self.losses(taken))
        above = self.made.state.leaf_of(victim.app).upward()
        return any(has & lacking.get(queue.key, set()) for queue in above)


NAMES = "abcd"
KINDS = st.sampled_from(["vcore", "memory"])
PRIORITIES = st.integers(-1, 9)


def amounts(draw: st.DrawFn, most: int) -> dict[str, int]:
    drawn = {"vcore": draw(st.integers(1, most)), "memory": draw(st.integers(0, most))}
    return {name: amount for name, amount in drawn.items() if amount}


NO_QUOTA: st.SearchStrategy[Mapping[str, int]] = st.just({})


def quotas(least: int, most: int) -> st.SearchStrategy[Mapping[str, int]]:
    return st.dictionaries(KINDS, st.integers(least, most), max_size=2)


@st.composite
def queues(draw: st.DrawFn, name: str, *children: Queue) -> Queue:
    """Give a queue; ``a`` is guaranteed much, and only what is above others limits much."""
    guaranteed = quotas(4, 9) if name == "a" else quotas(1, 2) | NO_QUOTA
    return share(
        name,
        *children,
        guaranteed=draw(quotas(9, 14) | NO_QUOTA if children else guaranteed),
        most=draw(NO_QUOTA | quotas(9, 14) if children else NO_QUOTA),
        queue_priority=draw(st.sampled_from(["0", "0", "1", "2"])),
        queue_reclaimable=draw(seldom("true", "false")),
        priority_offset=draw(st.sampled_from(["0", "0", "-3", "4"])),
        priority_policy=draw(seldom("default", "fence")),
        preemption_policy=draw(seldom("default", "fence")),
        preemption_required_node=draw(seldom("disabled", "enabled")),
    )


def seldom(mostly: str, other: str) -> st.SearchStrategy[str]:
    return st.integers(0, 7).map(lambda number: other if number == 7 else mostly)


@st.composite
def holders(draw: st.DrawFn, number: int) -> list[Event]:
    """Give the events of an ask, or of a gang, that may get a node."""
    name, app = f"x{number}", draw(st.sampled_from("bbcda"))
    priority = draw(PRIORITIES)
    if draw(st.integers(0, 2)):
        node = draw(st.none() | st.sampled_from("lmn"))
        return [wish(app, name, priority, node=node, **amounts(draw, 3))]  # type: ignore[arg-type]
    other = draw(st.sampled_from("bcd"))
    need, count = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    return [
        gang(name, need, mode=LOOSE),
        members(name, name, count, app=app, priority=priority, **amounts(draw, 1)),  # type: ignore[arg-type]
        members(name, f"{name}o", 1, app=other, priority=draw(PRIORITIES)),
    ]


@st.composite
def contests(draw: st.DrawFn) -> Contest:
    """Give a tree in which ``a/x`` is pending."""
    leaves = {name: draw(queues(name)) for name in NAMES}
    below = draw(st.sampled_from(["bc", "bc", "ab", "abc", ""]))
    top = [leaf for name, leaf in leaves.items() if name not in below]
    if below:
        top.append(draw(queues("p", *(leaves[name] for name in below))))
    try:
        made = contest(*top)
    except ConfigError:
        assume(False)
        raise
    for name in "lmn"[: draw(st.integers(1, 3))]:
        made.settle(AddNode(name, Resources(amounts(draw, 6))))
    for number in range(draw(st.integers(2, 9))):
        made.settle(*draw(holders(number)))
    if draw(st.integers(0, 7)) == 7:
        made.settle(UpdateNode("l", schedulable=False))
    made.settle(AddAsk("a", "x", Resources(amounts(draw, 4)), priority_class="high"))
    assume("x" in made.app("a").pending)
    return made


@fewer(0.8)
@given(made=contests(), exempt=st.booleans())
def test_the_plan_is_that_of_the_plain_search(made: Contest, *, exempt: bool) -> None:
    app, ask = made.ask("a/x")
    gangs = frozenset(made.state.gangs) if exempt else frozenset[str]()
    scopes: list[Eligibility] = [PreemptionEligibility(made.state, app, ask, gangs)]
    claimant = claimant_of(made.state.leaf_of(app), ask)
    if claimant is not None:
        scopes.append(ReclaimEligibility(made.state, app, ask, gangs, claimant))
    for eligibility in scopes:
        planned = Plain(made, eligibility).planned()
        event(f"{eligibility.reason}: {len((planned or '').split())}")

        assert made.planned(eligibility) == planned


@fewer(0.8)
@given(made=contests(), exempt=st.booleans())
def test_the_plan_of_a_node_service_is_that_of_the_plain_search(
    made: Contest, *, exempt: bool
) -> None:
    app, ask = made.ask("a/x")
    gangs = frozenset(made.state.gangs) if exempt else frozenset[str]()
    eligibility = ServiceEligibility(made.state, app, ask, gangs)
    plain, planner = Plain(made, eligibility), Planner(made.state, made.victim_index())
    assume(made.state.leaf_of(app).has_room(ask))
    for node in made.state.nodes.in_order():
        if not plain.on_node(node, []):
            continue
        units = plain.taken_on(node) or []
        expected = [victim for unit in plain.spared(node, units) for victim in unit]
        plan = all_at_once(planner.find_on(eligibility, node))
        event(f"victims: {len(expected)}, in gangs: {any(one.gang for one in expected)}")

        assert names(() if plan is None else plan.victims) == names(tuple(expected))
        # What the rule says, apart from what may go together.
        for victim in expected:
            assert victim.allocation.ask.priority <= ask.priority
            assert victim.node is node or victim.gang is not None
