"""Plans for larger clusters, where most nodes are left out, beside looking at every node."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, strategies as st

from muster_core.events import AddNode
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from muster_core.view.eviction.eligibility import Eligibility
from muster_core.view.eviction.plans import VictimChoice
from muster_core.view.eviction.search import PlanSearch
from tests.core.building import Queue, wish
from tests.core.view.eviction.contest import Contest, contest, names, share, urgent
from tests.share import share as fewer

APPS = "bcde"


def amounts(vcore: int, memory: int) -> Mapping[str, int]:
    return {"vcore": vcore, **({"memory": memory} if memory else {})}


@st.composite
def queues(draw: st.DrawFn, name: str) -> Queue:
    limits = {"vcore": draw(st.integers(1, 9))} if draw(st.booleans()) else None
    return share(
        name,
        guaranteed=limits,
        queue_priority=draw(st.sampled_from("0001")),
        priority_offset=draw(st.sampled_from(["0", "0", "0", "2"])),
    )


@st.composite
def contests(draw: st.DrawFn) -> Contest:
    """Give a full cluster in which ``a`` wants something."""
    plain = [share(name) for name in APPS]
    others = plain if draw(st.booleans()) else [draw(queues(name)) for name in APPS]
    made = contest(share("a", guaranteed={"vcore": 99, "memory": 99}), *others)
    for number in range(draw(st.integers(4, 14))):
        made.settle(AddNode(f"n{number:02}", Resources(amounts(12, draw(st.integers(4, 12))))))
    rng = draw(st.randoms(use_true_random=False))
    for number in range(90):
        wanted = amounts(rng.randint(1, 4), rng.randint(0, 2))
        made.enter(wish(rng.choice(APPS), f"x{number}", rng.randint(0, 6), **wanted))  # type: ignore[arg-type]
    made.settle()
    made.tell(urgent("a", "y", vcore=draw(st.integers(1, 11)), memory=draw(st.integers(1, 4))))
    return made


def by_looking_at_all(made: Contest, eligibility: Eligibility) -> str | None:
    search = PlanSearch(made.state, made.victim_index(), eligibility)
    found: list[tuple[object, str]] = []
    if all_at_once(search.begin()):
        for place, node in enumerate(made.state.nodes.in_order()):
            victims = all_at_once(VictimChoice(search, node).pick())
            if victims:
                ranks = [eligibility.rank(search.sides[one.leaf], one) for one in victims]
                worth = (max(ranks), len(victims), place)
                found.append((worth, f"{node.name}: {names(victims)}"))
    return min(found)[1] if found else None


@fewer(0.6)
@given(made=contests())
def test_no_node_is_left_out_that_is_better(made: Contest) -> None:
    if "y" in made.app("a").pending:
        for eligibility in (made.preempt("a/y"), made.reclaim("a/y")):
            assert made.planned(eligibility) == by_looking_at_all(made, eligibility)
