"""Node services: which ones take room, from whom, and what they leave alone."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from muster_core.decisions import Kind
from muster_core.events import AddAsk, Configure, FailBind, UpdateNode
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from muster_core.view.eviction.evictor import NodeServices
from muster_core.view.eviction.plans import Planner
from tests.core.admission.objects import gang, members
from tests.core.building import Queue, configuration, wish
from tests.core.view.eviction.contest import Contest, at_once, contest, names, share, share_of


def serving(name: str = "a", *, most: int | None = None, **properties: str) -> Queue:
    """Give a leaf whose asks for one node are node services."""
    return serving_with(properties, name, most=most)


def serving_with(
    properties: Mapping[str, str], name: str = "a", *, most: int | None = None
) -> Queue:
    """Give a leaf as :func:`serving` does, with properties that are known already."""
    limit = None if most is None else {"vcore": most}
    return share_of(name, {"preemption_required_node": "enabled", **properties}, most=limit)


def service(
    name: str = "s", vcore: int = 1, node: str = "n", priority: int = 0, app: str = "a"
) -> AddAsk:
    resources = Resources({"vcore": vcore})
    return AddAsk(app, name, resources, priority=priority, node=node)


def low(name: str, vcore: int = 1, priority: int = 0, node: str | None = None) -> AddAsk:
    return AddAsk("b", name, Resources({"vcore": vcore}), priority=priority, node=node)


def found(made: Contest) -> str | None:
    """Give the plan that is found in the present state: ``a/s n: b/x b/y``."""
    services = NodeServices(made.state, Planner(made.state, made.victim_index()))
    plan = all_at_once(services.find())
    if plan is None:
        return None
    asker = f"{plan.eligibility.app.identity.name}/{plan.eligibility.ask.name}"
    return f"{asker} {plan.node.name}: {names(plan.victims)}"


def test_a_step_of_a_node_service() -> None:
    made = contest(serving(), share("b"), n=2)
    made.tell(low("x"), low("y"))

    assert made.tell(service()) == [
        "released b/y n preempted",
        "assigned a/s n",
        "bound a/s n",
    ]


def test_a_victim_is_told_for_whom() -> None:
    made = contest(serving(), share("b"), n=1)
    made.tell(low("x", priority=-2))
    released = [one for one in made.settle(service()) if one.kind is Kind.RELEASED]

    assert [one.message for one in released] == ["for a/s: it is a node service and requires n"]


def test_of_several_the_first_in_order_takes_room() -> None:
    made = contest(serving(most=0), share("b"), n=2)
    made.tell(low("x"), low("y"))
    made.tell(service("s"), service("t", priority=4), service("u", priority=5, vcore=3))
    assert found(made) is None  # Nothing fits the headroom.
    made.leaf("a").config = attrs.evolve(made.leaf("a").config, max=made.leaf("b").config.max)

    assert found(made) == "a/t n: b/y"


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
    made = contest(serving_with(properties), share("b"), n=1)
    made.tell(low("x"))

    assert made.tell(service())[0] == "released b/x n preempted"


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
    made = contest(serving(), victim, n=1)
    made.tell(low("x"))

    assert made.tell(service())[0] == "released b/x n preempted"


def test_nothing_is_taken_from_higher_priorities() -> None:
    made = contest(serving(), share("b"), n=2)
    made.tell(low("x", priority=1), low("y"))

    assert made.tell(service(vcore=2)) == []
    assert made.tell(service("t")) == ["released b/y n preempted", "assigned a/t n", "bound a/t n"]


def test_nothing_is_taken_on_other_nodes() -> None:
    made = contest(serving(), share("b"), m=1, n=1)
    made.tell(low("x", node="m"), low("y", node="n"))

    assert made.tell(service())[0] == "released b/y n preempted"


def test_equal_services_are_searched_once_and_all_keep_the_node() -> None:
    made = contest(serving(), share("b"), n=1)
    made.tell(low("x", priority=1))
    made.tell(service("s"), service("t"))
    app = made.app("a")

    assert [made.state.kept_nodes.keeps(app, app.pending[name]) for name in "st"] == [True, True]


def test_what_another_service_holds_is_not_taken_by_reclaim_either() -> None:
    made = at_once(serving(), share("b", guaranteed={"vcore": 1}), n=1)
    made.tell(service())

    assert made.tell(wish("b")) == []


def test_members_beside_a_service_are_one_unit_with_it() -> None:
    made = contest(serving(), share("b"), m=1, n=1)
    made.tell(gang("g", 2), members("g", "m", app="b", vcore=1))
    made.tell(attrs.evolve(service("own", node="n"), gang="default/g"))
    assert made.told("a") is not None

    assert made.tell(service("s", node="m"), service("t", node="n")) == []


def test_a_service_whose_bind_fails_keeps_nothing() -> None:
    made = contest(serving(), share("b"), n=1)
    made.tell(low("x"))
    made.enter(service(), FailBind("a", "s"))

    assert made.tell()[:3] == [
        "released b/x n preempted",
        "assigned a/s n",
        "released a/s n bind_failed",
    ]
    assert not made.state.kept_nodes


def test_it_is_looked_again_only_after_something_has_changed() -> None:
    made = contest(serving(), share("b"), n=2)
    made.tell(low("x", priority=1), low("y", priority=1))
    assert made.tell(service(vcore=2)) == []
    assert made.tell() == []

    assert made.tell(UpdateNode("n", Resources({"vcore": 4}))) == ["assigned a/s n", "bound a/s n"]


def test_a_leaf_may_serve_from_now_on() -> None:
    made = contest(share("a"), share("b"), n=1)
    made.tell(low("x"))
    assert made.tell(service()) == []

    said = made.tell(Configure(configuration(serving(), share("b"))))
    assert said == ["released b/x n preempted", "assigned a/s n", "bound a/s n"]
