"""Plans: on which node an ask could be placed if others went.

By hand, in large clusters, and beside a plain search that takes no short cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pytest
from hypothesis import assume, event as hypothesis_event, given, strategies as st

from muster_core.errors import ConfigError
from muster_core.events import AddAsk, AddNode, Event, UpdateNode
from muster_core.nodes.node import Node
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from muster_core.view.eviction.actions import PreemptionEligibility, ReclaimEligibility, claimant_of
from muster_core.view.eviction.eligibility import Eligibility, Losses
from muster_core.view.eviction.evictor import ServiceEligibility
from muster_core.view.eviction.plans import Planner, VictimChoice
from muster_core.view.eviction.search import PlanSearch
from muster_core.view.eviction.victims import UnitTracker, Victim, VictimUnit
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import Queue, wish
from tests.core.view.eviction.contest import SIX, Contest, contest, names, share, urgent
from tests.share import share as fewer


def contest_of_two(*events: Event, wanted: AddAsk | None = None, **nodes: int) -> Contest:
    """Return ``a``, which is guaranteed six and may preempt, and ``b`` with what has come there."""
    tree = contest(share("a", guaranteed=SIX), share("b"), share("c"), **nodes)
    for event in events:
        tree.tell(event)
    tree.tell(wanted or urgent("a"))
    return tree


def ask_on(node: str, name: str, priority: int = 0, vcore: int = 1) -> AddAsk:
    """Return the event of an ask in ``b`` that can only be on one node."""
    return wish("b", name, priority, node=node, vcore=vcore)


def common_plan(tree: Contest) -> str | None:
    """Return the plan for ``a/x``, where reclaim and preemption have the same."""
    planned = tree.planned(tree.reclaim("a/x"))
    assert planned == tree.planned(tree.preempt("a/x"))
    return planned


def test_the_first_in_order_goes() -> None:
    assert common_plan(contest_of_two(ask_on("n", "y"), ask_on("n", "z"), n=2)) == "n: b/z"


def test_as_many_as_it_takes_in_order() -> None:
    tree = contest_of_two(
        ask_on("n", "y"), ask_on("n", "z", -1), ask_on("n", "w"), wanted=urgent("a", vcore=2), n=3
    )

    assert common_plan(tree) == "n: b/z b/w"


def test_nothing_is_taken_that_does_not_suffice() -> None:
    tree = contest_of_two(ask_on("n", "y"), ask_on("n", "z", 10), wanted=urgent("a", vcore=2), n=2)

    assert tree.planned(tree.preempt("a/x")) is None
    assert tree.planned(tree.reclaim("a/x")) == "n: b/y b/z"


def test_an_ask_larger_than_every_node() -> None:
    tree = contest_of_two(ask_on("n", "y"), wanted=urgent("a", vcore=2), m=1, n=1)

    assert common_plan(tree) is None


def test_where_nobody_has_anything() -> None:
    assert common_plan(contest_of_two(n=0)) is None


def test_without_any_node() -> None:
    assert common_plan(contest_of_two()) is None


# What is useful


def test_only_what_stands_on_the_node() -> None:
    tree = contest_of_two(
        ask_on("m", "y"), ask_on("n", "z", vcore=2), wanted=urgent("a", vcore=2), m=1, n=2
    )

    assert common_plan(tree) == "n: b/z"


def test_only_of_a_type_that_is_lacking() -> None:
    tree = contest(share("a", guaranteed=SIX), share("b"))
    tree.tell(AddNode("n", Resources({"vcore": 2, "memory": 2})))
    tree.tell(wish("b", "y", vcore=2), wish("b", "z", -5, memory=1))
    tree.tell(urgent("a"))

    assert common_plan(tree) == "n: b/y"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_is_useless_takes_no_useful_ones_place(elsewhere: bool) -> None:
    """If ``b/z`` went, ``b/y`` would have to stay, since ``b`` keeps a millicore."""
    b = share("b", guaranteed={"vcore": 1})
    tree = contest(share("p", share("a", guaranteed=SIX), b, most={"memory": 1}), m=1)
    tree.tell(AddNode("n", Resources({"vcore": 1, "memory": 1, "gpu": 1})))
    tree.tell(wish("b", "y", vcore=1, memory=1))
    if not elsewhere:
        tree.tell(UpdateNode("n", Resources({"vcore": 3, "memory": 1, "gpu": 1})))
    tree.tell(wish("b", "z", -5, node="m" if elsewhere else "n"))
    tree.tell(urgent("a", vcore=1, memory=1))

    assert common_plan(tree) == "n: b/y"


def test_what_was_useful_before_others_went_is_spared() -> None:
    tree = contest_of_two(
        ask_on("n", "y", -1), ask_on("n", "z", vcore=3), wanted=urgent("a", vcore=3), n=4
    )

    assert common_plan(tree) == "n: b/z"


def test_from_the_last_to_the_first() -> None:
    """Without ``v`` it fits if ``w`` goes; and without ``w``, but that is asked first."""
    wanted = urgent("a", vcore=3)
    tree = contest_of_two(
        ask_on("n", "v", -2), ask_on("n", "w", -1), ask_on("n", "y", vcore=2), wanted=wanted, n=4
    )

    assert common_plan(tree) == "n: b/v b/y"


def test_headroom_is_made_wherever_it_is_held() -> None:
    p = share("p", share("a", guaranteed={"vcore": 2}), share("b"), most={"vcore": 4})
    tree = contest(p, m=3, n=1)
    tree.tell(wish("b", "y", vcore=3, node="m"), wish("b", "z", 1, node="n"))
    tree.tell(AddNode("o", Resources({"vcore": 1, "memory": 1})), urgent("a", memory=1, vcore=1))

    assert common_plan(tree) == "o: b/y"


def test_all_of_a_queue_goes_if_its_whole_quota_is_wanted() -> None:
    p = share("p", share("a", guaranteed={"vcore": 4}), share("b"), most={"vcore": 4})
    tree = contest(p, m=4, n=4)
    tree.tell(wish("b", "y", vcore=3, node="m"), wish("b", "z", node="m"))
    tree.tell(urgent("a", vcore=4))

    assert common_plan(tree) == "n: b/z b/y"


def test_a_victim_elsewhere_is_no_use_for_the_node() -> None:
    p = share("p", share("a", guaranteed={"vcore": 2}), share("b"), most={"vcore": 4})
    tree = contest(p, m=3, n=1)
    tree.tell(wish("b", "y", vcore=3, node="m"), wish("b", "z", 1, node="n"))
    tree.tell(urgent("a", vcore=1))

    # On either node one goes, which makes the headroom too; the lowest goes.
    assert tree.planned(tree.preempt("a/x")) == "m: b/y"


# Which node


def test_the_node_whose_highest_victim_stands_lowest() -> None:
    events = ask_on("m", "y", 3, vcore=2), ask_on("n", "z", 2), ask_on("n", "w", 1)
    tree = contest_of_two(*events, wanted=urgent("a", vcore=2), m=2, n=2)

    assert tree.planned(tree.preempt("a/x")) == "n: b/w b/z"
    assert tree.planned(tree.reclaim("a/x")) == "m: b/y"


def test_the_highest_of_the_victims_counts_not_the_lowest() -> None:
    events = ask_on("m", "v", 0), ask_on("m", "w", 5), ask_on("n", "y", 3), ask_on("n", "z", 4)
    tree = contest_of_two(*events, wanted=urgent("a", vcore=2), m=2, n=2)

    assert tree.planned(tree.preempt("a/x")) == "n: b/y b/z"


def test_the_node_with_the_lowest_queue_priority() -> None:
    tree = contest(share("a", guaranteed=SIX), share("b", queue_priority="1"), share("c"), m=2, n=2)
    tree.tell(wish("b", "y", vcore=2, node="m"), wish("c", "z", node="n"), wish("c", "w", node="n"))
    tree.tell(urgent("a", vcore=2))

    assert tree.planned(tree.reclaim("a/x")) == "n: c/w c/z"
    assert tree.planned(tree.preempt("a/x")) == "m: b/y"


def test_then_that_with_the_fewest() -> None:
    events = ask_on("m", "y"), ask_on("m", "z"), ask_on("n", "w", vcore=2)

    assert common_plan(contest_of_two(*events, wanted=urgent("a", vcore=2), m=2, n=2)) == "n: b/w"


def test_then_the_first_in_the_order_of_nodes() -> None:
    events = ask_on("m", "y", vcore=2), ask_on("n", "z", vcore=2)

    assert common_plan(contest_of_two(*events, wanted=urgent("a", vcore=2), m=2, n=3)) == "n: b/z"
    assert common_plan(contest_of_two(*events, wanted=urgent("a", vcore=2), m=2, n=2)) == "m: b/y"


def test_a_node_that_is_closed_or_does_not_match_is_passed_over() -> None:
    tree = contest_of_two(ask_on("l", "v"), ask_on("m", "y"), ask_on("n", "z"), l=1, m=1, n=1)
    tree.tell(UpdateNode("l", schedulable=False))
    assert common_plan(tree) == "m: b/y"

    tree.tell(wish("a", "w", node="n"))
    assert tree.planned(tree.reclaim("a/w")) == "n: b/z"


def test_a_node_with_less_than_is_used() -> None:
    tree = contest_of_two(ask_on("n", "y"), ask_on("n", "z"), wanted=urgent("a", vcore=9), n=2)
    tree.tell(UpdateNode("n", Resources({"vcore": 1})))
    tree.tell(wish("a", "w"))

    assert tree.planned(tree.reclaim("a/w")) == "n: b/z b/y"


# Gangs


def test_a_gang_goes_as_one_where_its_first_member_stands() -> None:
    three = members("g", "m", 2, app="b", priority=1), members("g", "low", app="b")
    before = contest_of_two(gang("g", 3), *three, wish("b", "y"), n=4)
    after = contest_of_two(wish("b", "y"), gang("g", 3), *three, n=4)

    assert common_plan(before) == "n: b/y"
    assert common_plan(after) == "n: b/low b/m-1 b/m-0"


def test_of_a_gang_with_more_than_it_needs_one_goes() -> None:
    tree = contest_of_two(gang("g", 2), members("g", "m", 3, app="b"), n=3)

    assert common_plan(tree) == "n: b/m-2"


def test_of_a_gang_with_just_enough_all_go() -> None:
    tree = contest_of_two(gang("g", 2), members("g", "m", 2, app="b"), n=2)

    assert common_plan(tree) == "n: b/m-1 b/m-0"


def test_waiting_members_go_together_wherever_they_are() -> None:
    tree = contest_of_two(gang("g", 3, mode=LOOSE), members("g", "m", 3, app="b"), m=1, n=1)

    assert common_plan(tree) == "m: b/m-1 b/m-0"


def test_one_member_that_may_not_go_keeps_them_all() -> None:
    pair = members("g", "m", app="b", priority=10), members("g", "low", app="b")
    tree = contest_of_two(gang("g", 2), *pair, n=2)

    assert tree.planned(tree.preempt("a/x")) is None
    assert tree.planned(tree.reclaim("a/x")) == "n: b/low b/m"


def test_a_gang_is_spared_whole() -> None:
    tree = contest_of_two(
        gang("g", 2),
        members("g", "m", 2, app="b"),
        wish("b", "y", 1, vcore=4),
        wanted=urgent("a", vcore=4),
        n=6,
    )

    assert common_plan(tree) == "n: b/y"


def test_a_unit_that_spares_nothing_stays_taken() -> None:
    """All three go one by one, and of the last two none can come back alone."""
    tree = contest_of_two(gang("g", 2), members("g", "m", 3, app="b", vcore=1), n=3)
    tree.tell(wish("a", "w", vcore=2))

    assert tree.planned(tree.reclaim("a/w")) == "n: b/m-2 b/m-1 b/m-0"


APPS = "bcde"


def capacity(vcore: int, memory: int) -> Mapping[str, int]:
    return {"vcore": vcore, **({"memory": memory} if memory else {})}


@st.composite
def limited_queues(draw: st.DrawFn, name: str) -> Queue:
    limits = {"vcore": draw(st.integers(1, 9))} if draw(st.booleans()) else None
    return share(
        name,
        guaranteed=limits,
        queue_priority=draw(st.sampled_from("0001")),
        priority_offset=draw(st.sampled_from(["0", "0", "0", "2"])),
    )


@st.composite
def full_contests(draw: st.DrawFn) -> Contest:
    """Return a full cluster in which ``a`` wants something."""
    plain = [share(name) for name in APPS]
    others = plain if draw(st.booleans()) else [draw(limited_queues(name)) for name in APPS]
    tree = contest(share("a", guaranteed={"vcore": 99, "memory": 99}), *others)
    for number in range(draw(st.integers(4, 14))):
        tree.settle(AddNode(f"n{number:02}", Resources(capacity(12, draw(st.integers(4, 12))))))
    rng = draw(st.randoms(use_true_random=False))
    for number in range(90):
        wanted = capacity(rng.randint(1, 4), rng.randint(0, 2))
        tree.enter(wish(rng.choice(APPS), f"x{number}", rng.randint(0, 6), **wanted))  # type: ignore[arg-type]
    tree.settle()
    tree.tell(urgent("a", "y", vcore=draw(st.integers(1, 11)), memory=draw(st.integers(1, 4))))
    return tree


def by_looking_at_all(tree: Contest, eligibility: Eligibility) -> str | None:
    search = PlanSearch(tree.state, tree.victim_index(), eligibility)
    found: list[tuple[object, str]] = []
    if all_at_once(search.begin()):
        for place, node in enumerate(tree.state.nodes.in_order()):
            victims = all_at_once(VictimChoice(search, node).pick())
            if victims:
                ranks = [eligibility.rank(search.sides[one.leaf], one) for one in victims]
                worth = (max(ranks), len(victims), place)
                found.append((worth, f"{node.name}: {names(victims)}"))
    return min(found)[1] if found else None


@fewer(0.6)
@given(tree=full_contests())
def test_no_node_is_left_out_that_is_better(tree: Contest) -> None:
    if "y" in tree.app("a").pending:
        for eligibility in (tree.preempt("a/y"), tree.reclaim("a/y")):
            assert tree.planned(eligibility) == by_looking_at_all(tree, eligibility)


@attrs.frozen
class PlainSearch:
    """The plain search: every victim is looked at, and sorted anew, each time."""

    tree: Contest
    eligibility: Eligibility

    def planned(self) -> str | None:
        plans: list[tuple[tuple[object, ...], str]] = []
        for place, node in enumerate(self.tree.state.nodes.in_order()):
            units = self.taken_on(node) if self.matches(node) else None
            if units:
                victims = [victim for unit in self.spared(node, units) for victim in unit]
                rank = max(self.rank(victim) for victim in victims)
                line = f"{node.name}: {names(tuple(victims))}"
                plans.append(((rank, len(victims), place), line))
        return min(plans)[1] if plans else None

    def matches(self, node: Node) -> bool:
        return node.schedulable and self.eligibility.ask.shape.matches(node.name, node.attributes)

    def held(self) -> list[Victim]:
        return [
            self.tree.victim(f"{app.identity.name}/{name}")
            for app in self.tree.state.apps.values()
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
        gang_index, losses = UnitTracker(self.tree.state), self.losses(taken)
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
        kept, gang_index = list(taken), UnitTracker(self.tree.state)
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
                losses.take(victim, self.tree.state.leaf_of(victim.app).upward())
        return losses

    def on_node(self, node: Node, taken: Sequence[VictimUnit]) -> set[str]:
        """Return the types that the node lacks."""
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
        above = self.tree.state.leaf_of(victim.app).upward()
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
    """Return a queue; ``a`` is guaranteed much, and only what is above others limits much."""
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
    """Return the events of an ask, or of a gang, that may get a node."""
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
    """Return a tree in which ``a/x`` is pending."""
    leaves = {name: draw(queues(name)) for name in NAMES}
    below = draw(st.sampled_from(["bc", "bc", "ab", "abc", ""]))
    top = [leaf for name, leaf in leaves.items() if name not in below]
    if below:
        top.append(draw(queues("p", *(leaves[name] for name in below))))
    try:
        tree = contest(*top)
    except ConfigError:
        assume(False)
        raise
    for name in "lmn"[: draw(st.integers(1, 3))]:
        tree.settle(AddNode(name, Resources(amounts(draw, 6))))
    for number in range(draw(st.integers(2, 9))):
        tree.settle(*draw(holders(number)))
    if draw(st.integers(0, 7)) == 7:
        tree.settle(UpdateNode("l", schedulable=False))
    tree.settle(AddAsk("a", "x", Resources(amounts(draw, 4)), priority_class="high"))
    assume("x" in tree.app("a").pending)
    return tree


@fewer(0.8)
@given(tree=contests(), exempt=st.booleans())
def test_the_plan_is_that_of_the_plain_search(tree: Contest, *, exempt: bool) -> None:
    app, ask = tree.ask("a/x")
    gangs = frozenset(tree.state.gangs) if exempt else frozenset[str]()
    scopes: list[Eligibility] = [PreemptionEligibility(tree.state, app, ask, gangs)]
    claimant = claimant_of(tree.state.leaf_of(app), ask)
    if claimant is not None:
        scopes.append(ReclaimEligibility(tree.state, app, ask, gangs, claimant))
    for eligibility in scopes:
        planned = PlainSearch(tree, eligibility).planned()
        hypothesis_event(f"{eligibility.reason}: {len((planned or '').split())}")

        assert tree.planned(eligibility) == planned


@fewer(0.8)
@given(tree=contests(), exempt=st.booleans())
def test_the_plan_of_a_node_service_is_that_of_the_plain_search(
    tree: Contest, *, exempt: bool
) -> None:
    app, ask = tree.ask("a/x")
    gangs = frozenset(tree.state.gangs) if exempt else frozenset[str]()
    eligibility = ServiceEligibility(tree.state, app, ask, gangs)
    plain, planner = PlainSearch(tree, eligibility), Planner(tree.state, tree.victim_index())
    assume(tree.state.leaf_of(app).has_room(ask))
    for node in tree.state.nodes.in_order():
        if not plain.on_node(node, []):
            continue
        units = plain.taken_on(node) or []
        expected = [victim for unit in plain.spared(node, units) for victim in unit]
        plan = all_at_once(planner.find_on(eligibility, node))
        hypothesis_event(f"victims: {len(expected)}, in gangs: {any(one.gang for one in expected)}")

        assert names(() if plan is None else plan.victims) == names(tuple(expected))
        # What the rule says, apart from what may go together.
        for victim in expected:
            assert victim.allocation.ask.priority <= ask.priority
            assert victim.node is node or victim.gang is not None
