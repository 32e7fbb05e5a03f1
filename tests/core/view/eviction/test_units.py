"""Units: which members of gangs go together."""

from __future__ import annotations

import pytest

from muster_core.events import Event, Release, RemoveGang
from muster_core.view.eviction.victims import UnitTracker
from tests.core.admission.objects import LOOSE, full, gang, members
from tests.core.building import wish
from tests.core.view.eviction.contest import Contest, contest, names, share


def bound_gang(*events: Event, need: int, count: int) -> Contest:
    """Give a tree in which so many members ``b/x-0``, … of a gang ``g`` are bound."""
    made = contest(share("a"), share("b"), n=9)
    made.tell(gang("g", need, mode=LOOSE), members("g", "x", count, app="b"), *events)
    return made


def unit(made: Contest, of: str, *, taken: str = "") -> str:
    """Give who goes with a member, once others were taken."""
    gang_index = UnitTracker(made.state)
    gang_index.take(made.victims(taken))
    return names(gang_index.unit_of(made.victim(of)))


def test_a_member_that_can_be_spared_goes_alone() -> None:
    made = bound_gang(need=2, count=3)

    assert unit(made, "b/x-1") == "b/x-1"


def test_all_go_if_one_more_would_be_too_few() -> None:
    made = bound_gang(need=2, count=2)

    assert unit(made, "b/x-1") == "b/x-0 b/x-1"


def test_those_that_were_taken_are_not_there_any_more() -> None:
    made = bound_gang(need=2, count=4)

    assert unit(made, "b/x-1", taken="b/x-0") == "b/x-1"
    assert unit(made, "b/x-1", taken="b/x-0 b/x-3") == "b/x-1 b/x-2"


def test_a_member_that_was_spared_is_there_again() -> None:
    made = bound_gang(need=2, count=3)
    gang_index = UnitTracker(made.state)
    first = made.victims("b/x-0")
    gang_index.take(first)
    assert gang_index.is_taken(first[0])
    gang_index.spare(first)

    assert not gang_index.is_taken(first[0])
    assert names(gang_index.unit_of(made.victim("b/x-2"))) == "b/x-2"


def test_the_same_name_in_another_application_is_another_ask() -> None:
    made = contest(share("a"), share("b"), n=9)
    made.tell(wish("a", "x"), wish("b", "x"))
    gang_index = UnitTracker(made.state)
    gang_index.take(made.victims("a/x"))

    assert gang_index.is_taken(made.victim("a/x"))
    assert not gang_index.is_taken(made.victim("b/x"))


def test_members_in_several_applications_go_together() -> None:
    made = bound_gang(members("g", "y", app="a"), need=3, count=2)

    assert set(unit(made, "a/y").split()) == {"a/y", "b/x-0", "b/x-1"}


def test_a_waiting_member_takes_all_that_wait_of_its_group_and_no_others() -> None:
    made = contest(share("a"), share("b"), share("c"), n=2)
    other = (gang("other", 9, mode=LOOSE), members("other", "z", 9, app="c"))
    made.tell(*other)
    made.add_nodes("m", vcore=3)
    made.enter(gang("g", 3, "h", mode=LOOSE), members("g", "x", 3, app="b"))
    made.tell(gang("h", 3, mode=LOOSE), members("h", "y", 3, app="a"))
    assert len(made.app("c").waiting) == 2

    for of in ("b/x-0", "a/y-1"):
        assert sorted(unit(made, of).split()) == ["a/y-0", "a/y-1", "b/x-0"]


@pytest.mark.parametrize("again", [False, True])
def test_a_member_of_a_gang_that_is_not_satisfied_goes_alone(again: bool) -> None:
    made = bound_gang(need=3, count=3)
    made.tell(RemoveGang(full("g")))
    if again:
        made.tell(gang("g", 9))

    assert unit(made, "b/x-1") == "b/x-1"


# Sparing


def breaks(made: Contest, spared: str, *, taken: str) -> bool:
    gang_index = UnitTracker(made.state)
    gang_index.take(made.victims(taken))
    return gang_index.would_break(made.victims(spared))


def test_to_spare_a_part_of_a_gang_breaks_it() -> None:
    made = bound_gang(need=2, count=3)
    everybody = "b/x-0 b/x-1 b/x-2"

    assert breaks(made, "b/x-0", taken=everybody)
    assert not breaks(made, "b/x-0 b/x-1", taken=everybody)
    assert not breaks(made, everybody, taken=everybody)
    assert not breaks(made, "b/x-0", taken="b/x-0 b/x-1")


def test_a_gang_of_which_some_have_finished_is_spared_as_it_is() -> None:
    made = bound_gang(need=2, count=2)
    made.tell(Release("b", "x-0"))

    assert not breaks(made, "b/x-1", taken="b/x-1")


def test_a_plain_ask_breaks_nothing() -> None:
    made = bound_gang(wish("b", "plain"), need=2, count=2)

    assert not breaks(made, "b/plain", taken="b/plain b/x-0 b/x-1")


def test_a_gang_that_is_not_defined_cannot_be_broken() -> None:
    made = bound_gang(need=2, count=2)
    made.tell(RemoveGang(full("g")))

    assert not breaks(made, "b/x-0", taken="b/x-0 b/x-1")
