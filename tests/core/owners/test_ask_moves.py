"""The moves of asks, and the actions that report them."""

from __future__ import annotations

from muster_core.decisions import Reason
from muster_core.owners.app_messages import (
    DecisionMade,
    Freed,
    GroupChanged,
    MemberMoved,
    Parked,
    Pending,
    Unparked,
    Withdrawn,
)
from muster_core.owners.ask_moves import AskMessages, AskMoves
from muster_core.owners.asks import Ask, AskPlaces
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import PART
from tests.core.building import allocation, ask, identity

ORDER = (3, 1, 0)


def moves_of(*pending: Ask) -> tuple[AskMoves, AskPlaces]:
    """Give the moves and the places of an application that has reported its pending asks."""
    places = AskPlaces()
    moves = AskMoves(places, AskMessages(identity(), places))
    moves.add({one.name: one for one in pending})
    moves.end_row()
    moves.actions.clear()
    return moves, places


def member(name: str) -> Ask:
    """Give a member of a gang."""
    return ask(name, vcore=1)._replace(gang="default/g")


def test_asks_added_in_a_row_are_one_action_before_the_next() -> None:
    moves, places = moves_of()
    first, second = ask("a", vcore=1), ask("b", vcore=2)

    moves.add({"a": first})
    moves.add({"b": second})
    assert moves.actions == []
    moves.act(GroupChanged("staff"))

    assert moves.actions == [Pending((first, second)), GroupChanged("staff")]
    assert places.pending_total == {"vcore": 3}


def test_very_many_asks_are_counted_at_once() -> None:
    moves, places = moves_of()

    moves.add({f"k-{number}": ask(f"k-{number}", vcore=1) for number in range(PART + 1)})

    assert moves.came == []
    assert places.pending_total == {"vcore": PART + 1}


def test_no_action_is_none() -> None:
    moves, _ = moves_of()

    moves.act_if(None)

    assert moves.actions == []


def test_a_pending_member_is_set_aside_and_taken_up() -> None:
    one = member("m")
    moves, places = moves_of(one)

    moves.set_aside("m", ORDER)
    assert (dict(places.parked), dict(places.pending)) == ({"m": one}, {})
    moves.set_aside("m", ORDER)  # It is not pending any more.
    moves.take_up("m", ORDER)
    moves.take_up("m", ORDER)

    assert (dict(places.parked), dict(places.pending)) == ({}, {"m": one})
    assert moves.actions == [
        Withdrawn(one),
        Parked(one),
        MemberMoved(ORDER, one, AskPlace.PARKED),
        Unparked(one),
        Pending((one,)),
        MemberMoved(ORDER, one, AskPlace.PENDING),
    ]


def test_what_held_a_node_is_given_up_and_put_back() -> None:
    one = member("m")
    moves, places = moves_of(one)
    held = allocation(one)
    places.bind((held,))

    moves.give_up(held, Reason.NODE_LOST, ORDER)
    moves.put_back(one, ORDER, park=True, lost=True, was_bound=True)

    freed, said, *rest = moves.actions
    assert isinstance(said, DecisionMade)
    assert (freed, said.decision.reason) == (Freed(held), Reason.NODE_LOST)
    assert rest == [
        Parked(one, was_bound=True),
        MemberMoved(ORDER, one, AskPlace.PARKED, lost=True),
    ]
    places.check()


def test_an_ask_is_removed_from_wherever_it_is() -> None:
    bound, parked, pending = member("b"), member("p"), ask("w", vcore=1)
    moves, places = moves_of(bound, parked, pending)
    places.bind((allocation(bound),))
    moves.set_aside("p", ORDER)

    for name in "bpw":
        moves.remove(name, Reason.REMOVED, ORDER)

    assert places.is_empty()
    places.check()
    ends = [action.ask.name for action in moves.actions if isinstance(action, MemberMoved)]
    assert ends == ["p", "b", "p"]  # set aside, then removed; what is no member moves for no gang
