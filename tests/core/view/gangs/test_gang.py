"""Gangs and groups as a round sees them."""

from __future__ import annotations

import pytest

from muster_core.events import AddNode, RemoveGang
from muster_core.gangs import GangDefinition, GangMode, GangState
from muster_core.nodes.node import Node
from muster_core.owners.asks import Allocation
from muster_core.resources import Resources
from muster_core.view.gangs import Hold, ViewGang, ViewGroup
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import Offer, Slot
from tests.core.admission.objects import full, gang, here, members, story
from tests.core.building import ask, identity

STRICT, LOOSE = GangMode.STRICT, GangMode.NON_STRICT
NODE = Node("n", {}, {}, schedulable=True)


def view_gang(
    name: str = "g",
    need: int | None = 2,
    mode: GangMode = STRICT,
    *,
    state: GangState = GangState.GATHERING,
    creation: int = 1,
    **places: int,
) -> ViewGang:
    """Give a gang with so many members in each place that is named."""
    pending, waiting, parked, bound = (
        places.get(place, 0) for place in ("pending", "waiting", "parked", "bound")
    )
    definition = None if need is None else GangDefinition(need, need, mode)
    made = ViewGang(name, 1, definition, creation, state)
    app = ViewApp(identity())
    if pending:
        made.slots[1] = slot = Slot(app, name, creation)
        slot.members.update((f"p{number}", (ask(), 1)) for number in range(pending))
    for number in range(waiting):
        held = Allocation(ask(f"w{number}"), "n", number)
        made.waiting[1, f"w{number}"] = Hold(app, held, NODE, creation * 10 + number)
    made.parked.update(((1, f"k{number}"), None) for number in range(parked))
    made.bound = {(0, f"bound-{number}"): None for number in range(bound)}
    return made


def group(*gangs: ViewGang, more: str = "") -> ViewGroup:
    """Give a group of gangs, and of names for which there is none."""
    return ViewGroup((*(one.name for one in gangs), *more), list(gangs))


# A gang


def test_who_counts_as_what() -> None:
    gang = view_gang(need=7, pending=1, waiting=2, parked=3, bound=4)

    assert (gang.pending, gang.held, gang.children, gang.missing) == (1, 6, 10, 1)


@pytest.mark.parametrize(
    ("gang", "missing"),
    [
        (view_gang(need=None, pending=3), 0),
        (view_gang(need=3), 3),
        (view_gang(need=3, waiting=1, bound=1), 1),
        (view_gang(need=1, waiting=2), 0),
        (view_gang(need=3, state=GangState.SATISFIED), 0),
    ],
)
def test_how_many_are_missing(gang: ViewGang, missing: int) -> None:
    assert gang.missing == missing


@pytest.mark.parametrize(
    ("gang", "admits"),
    [
        (view_gang(need=None, pending=3), False),
        (view_gang(need=3, pending=2), False),
        (view_gang(need=3, pending=1, waiting=1, bound=1), True),
        (view_gang(need=1, parked=1, state=GangState.TIMED_OUT), False),
        (view_gang(need=3, pending=1, state=GangState.SATISFIED), True),
    ],
)
def test_whom_a_gang_lets_through(gang: ViewGang, *, admits: bool) -> None:
    assert gang.admits() == admits


def test_those_that_are_not_defined_are_last_in_the_order_of_creation() -> None:
    gangs = [view_gang("z", creation=1), view_gang("a", creation=2), view_gang("b", creation=2)]
    undefined = view_gang("a", None)
    undefined.creation = None

    assert sorted([undefined, *reversed(gangs)], key=ViewGang.rank) == [*gangs, undefined]


# A group


def test_one_strict_gang_makes_a_group_strict() -> None:
    assert group(view_gang("g", mode=LOOSE), view_gang("h")).strict
    assert not group(view_gang("g", mode=LOOSE), view_gang("h", None)).strict


COMPLETE = view_gang("g", 2, waiting=1, bound=1)
SATISFIED = view_gang("h", 1, bound=1, state=GangState.SATISFIED)
LACKING = view_gang("i", 2, pending=1, waiting=1)
HOPEFUL = view_gang("j", 3, pending=3)


@pytest.mark.parametrize(
    ("one", "complete", "may_complete"),
    [
        (group(COMPLETE), True, True),
        (group(COMPLETE, SATISFIED), True, True),
        (group(COMPLETE, more="x"), False, False),
        (group(COMPLETE, LACKING), False, True),
        (group(COMPLETE, HOPEFUL), False, True),
        (group(COMPLETE, view_gang("k", 1, parked=1, state=GangState.TIMED_OUT)), False, False),
        (group(COMPLETE, view_gang("k", None, bound=1)), False, False),
        (group(COMPLETE, view_gang("k", 9, waiting=8)), False, False),
    ],
)
def test_when_a_group_is_complete(one: ViewGroup, *, complete: bool, may_complete: bool) -> None:
    assert (one.complete(), one.may_complete()) == (complete, may_complete)


def test_who_waits_is_in_the_order_of_waiting() -> None:
    late, early = view_gang("g", creation=2, waiting=2), view_gang("h", creation=1, waiting=1)

    assert [hold.number for hold in group(late, early).holds()] == [10, 20, 21]


def test_who_becomes_satisfied() -> None:
    undefined = view_gang("k", None, bound=1)

    assert group(COMPLETE, SATISFIED, undefined, LACKING).unsatisfied() == [COMPLETE, LACKING]


# How members are offered


def offers(
    *gangs: ViewGang, more: str = "", barred: bool = False, hopeless: bool = False
) -> list[Offer]:
    one = group(*gangs, more=more)
    one.barred, one.hopeless = barred, hopeless
    return [one.offer_of(gang) for gang in gangs]


LOOSE_ONE = view_gang("l", 2, LOOSE, pending=2)
NONE, EACH, FIRST = Offer.NONE, Offer.EACH, Offer.FIRST


def test_members_of_a_satisfied_gang_are_plain_asks_whatever_becomes_of_the_group() -> None:
    assert offers(SATISFIED, HOPEFUL, barred=True) == [EACH, NONE]


def test_members_of_a_loose_group_are_tried_where_they_fit() -> None:
    assert offers(LOOSE_ONE) == [EACH]


def test_members_of_a_strict_group_are_tried_whether_they_fit_or_not() -> None:
    assert offers(LOOSE_ONE, HOPEFUL) == [FIRST, FIRST]
    assert offers(LOOSE_ONE, HOPEFUL, hopeless=True) == [NONE, NONE]
    assert offers(LOOSE_ONE, HOPEFUL, barred=True) == [NONE, NONE]


def test_surplus_members_are_tried_only_while_the_group_may_be_complete() -> None:
    surplus = view_gang("s", 1, LOOSE, pending=2, waiting=1)

    assert offers(surplus, LOOSE_ONE) == [FIRST, EACH]
    assert offers(surplus, more="x") == [NONE]


def test_who_would_be_refused_is_not_offered() -> None:
    assert offers(view_gang(need=3, pending=2)) == [NONE]
    assert offers(view_gang(need=None, pending=2)) == [NONE]


# All together


def test_a_gang_that_is_defined_anew_is_behind_the_others() -> None:
    made = here("n", vcore=4)
    for name in "gah":
        made.enter(gang(name, 2))
    for name in "gah":
        # Both of a gang do not fit on one node, though each of them would.
        made.enter(members(name, f"{name}x", vcore=2), members(name, f"{name}y", vcore=3))
    assert story(made.settle()) == []

    more = AddNode("m", Resources({"vcore": 60}))
    said = story(made.settle(RemoveGang(full("a")), gang("a", 2), more))
    made.check()
    satisfied = [line for line in said if line.startswith("gang_satisfied")]
    assert satisfied == [f"gang_satisfied {full(name)}" for name in "gha"]
