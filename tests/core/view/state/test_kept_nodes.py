"""Kept nodes: who keeps a node, until when, and whom that concerns."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from muster_core.events import (
    AddAsk,
    AddNode,
    Configure,
    Event,
    FailBind,
    Release,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)
from muster_core.resources import Resources
from tests.core.admission.objects import gang
from tests.core.building import Queue, configuration, wish
from tests.core.view.eviction.contest import Contest, contest, share
from tests.core.view.eviction.test_services import low, service, serving


def kept(made: Contest) -> list[str]:
    """Give the nodes that are kept, and who has kept each longest: ``n a/s``."""
    found: list[str] = []
    for node in made.state.nodes.nodes.values():
        keeper = made.state.kept_nodes.keeper_of(node.name)
        assert node.kept == (keeper is not None)
        if keeper is not None:
            found.append(f"{node.name} {keeper.app.identity.name}/{keeper.ask.name}")
    return found


def keeping(*, most: int | None = None, b: Queue | None = None) -> Contest:
    """Give a tree in which ``a/s`` keeps ``n``, where ``b/x`` has one of two cores left."""
    made = contest(serving(most=most), b or share("b", queue_priority="1"), n=2)
    made.tell(low("x", priority=9), low("y", priority=9))
    made.tell(service(vcore=2))
    made.tell(Release("b", "y"))
    assert kept(made) == ["n a/s"]
    return made


def member(name: str, vcore: int = 1) -> AddAsk:
    """Give the event of a member of ``g`` that requires ``n``."""
    return attrs.evolve(service(name, vcore), gang="default/g")


# Beginning


def test_it_keeps_its_node_when_it_was_looked_at() -> None:
    made = contest(serving(), share("b"), n=2)
    made.tell(low("x", 2, priority=9))

    assert made.tell(service()) == []
    assert kept(made) == ["n a/s"]


def test_what_comes_in_the_same_batch_is_placed_in_its_turn() -> None:
    made = contest(serving(), share("b", queue_priority="1"), n=2)

    assert made.tell(service(vcore=2), low("x", priority=1)) == ["assigned b/x n", "bound b/x n"]
    assert kept(made) == ["n a/s"]


@pytest.mark.parametrize("lacks", [service(vcore=3), service(node="m"), service(vcore=2, app="b")])
def test_who_lacks_more_than_room_or_is_no_service_keeps_nothing(lacks: Event) -> None:
    made = contest(serving(), share("b"), n=2)
    made.tell(low("x", priority=9))
    made.tell(lacks)

    assert kept(made) == []


def test_a_member_of_an_unsatisfied_gang_keeps_nothing() -> None:
    made = contest(serving(), share("b"), n=1)
    made.tell(low("x", priority=9), gang("g", 1))
    made.tell(member("m"))

    assert kept(made) == []


# Rounds


def test_other_asks_pass_by() -> None:
    made = keeping()

    assert made.tell(low("z"), low("n-only", node="n")) == []
    assert made.tell(AddNode("o", Resources({"vcore": 1}))) == ["assigned b/z o", "bound b/z o"]


def test_another_service_does_not() -> None:
    made = keeping()

    assert made.tell(service("t")) == ["assigned a/t n", "bound a/t n"]
    assert kept(made) == ["n a/s"]


def test_when_it_is_bound_those_tried_before_it_have_to_wait_for_the_next_round() -> None:
    made = contest(serving(queue_priority="1"), share("b", queue_priority="2"), share("c"), n=4)
    made.tell(low("x", 3, priority=9))
    made.tell(service(vcore=2))
    made.tell(low("before"), wish("c", "after"))
    made.tell(service("t", vcore=1, priority=-1))

    assert made.tell(Release("b", "x"))[1:] == [
        "assigned a/s n",
        "bound a/s n",
        "assigned c/after n",
        "bound c/after n",
    ]
    assert kept(made) == []


def test_its_headroom_may_end_in_a_round() -> None:
    made = contest(
        serving(most=3), share("b", queue_priority="1"), share("c", queue_priority="0"), m=2, n=2
    )
    made.tell(low("x", 2, priority=9, node="n"))
    made.tell(service(vcore=2, priority=-1))
    made.tell(UpdateNode("n", Resources({"vcore": 4})), service("t", 2, node="m", priority=1))

    assert sorted(made.app("a").bound) == ["t"]
    assert kept(made) == []


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
        [Configure(configuration(serving(most=1), share("b")))],
    ],
)
def test_it_ends(events: Sequence[Event]) -> None:
    made = keeping()
    made.tell(*events)

    assert kept(made) == []


def test_a_draining_leaf_keeps_its_settings_and_its_nodes() -> None:
    made = keeping()
    made.tell(Configure(configuration(share("b"))))

    assert kept(made) == ["n a/s"]


def test_it_does_not_end_with_a_node_that_comes_back_in_the_same_batch() -> None:
    made = keeping()
    made.tell(RemoveNode("n"), AddNode("n", Resources({"vcore": 3})), low("z", 2))

    assert sorted(made.app("a").bound) == ["s"]
    assert sorted(made.app("b").bound) == ["x"]  # In the round after the one that binds a/s.


def test_it_ends_when_its_gang_is_no_longer_satisfied() -> None:
    made = contest(serving(), share("b"), n=3)
    made.tell(gang("g", 1), member("m"), low("x", 2, priority=9))
    made.tell(member("s", 2))
    assert kept(made) == ["n a/s"]
    made.tell(RemoveGang("default/g"))

    assert kept(made) == []


def test_it_ends_when_its_bind_fails_and_begins_again() -> None:
    made = keeping()
    made.tell(FailBind("a", "s"), low("z"), low("w"))

    assert made.tell(Release("b", "x"))[1:] == [
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
    made = keeping()
    made.tell(service("t", vcore=2))
    made.tell(RemoveAsk("a", "s"))

    assert kept(made) == ["n a/t"]
