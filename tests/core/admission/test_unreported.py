"""What was admitted and is not reported: what is known of it, and that it can be undone."""

from __future__ import annotations

import pytest

from muster_core.admission.effects import Unreported
from muster_core.errors import RefusedError
from muster_core.events import AddAsk, AddGang, Apply, RemoveApp, RemoveGang
from muster_core.gangs import GangFields
from muster_core.owners.gang import MemberKey
from muster_core.resources import Resources
from muster_core.view import DecisionView

KEY = 7
ONE = Resources({"vcore": 1})
MEMBER = AddAsk("app", "k", ONE, gang="default/g")


@pytest.fixture
def unreported() -> Unreported:
    """What is not reported before anything was admitted."""
    return Unreported(DecisionView())


def test_nothing_has_to_be_heard_at_first(unreported: Unreported) -> None:
    for event in (
        MEMBER,
        AddGang("default/g", GangFields(min_member=1)),
        RemoveGang("default/g"),
        Apply(()),
        RemoveApp("app"),
    ):
        assert not unreported.must_hear_first(event)


def test_a_gang_is_removed_only_when_its_new_members_are_known(unreported: Unreported) -> None:
    unreported.add(KEY, MEMBER)

    assert unreported.must_hear_first(RemoveGang("default/g"))
    assert not unreported.must_hear_first(MEMBER)

    unreported.heard()
    unreported.check()
    assert not unreported.must_hear_first(RemoveGang("default/g"))


def test_new_asks_are_known(unreported: Unreported) -> None:
    added = unreported.add(KEY, AddAsk("app", "k", ONE, count=2))

    assert added == (MemberKey(KEY, "app", "k-0"), MemberKey(KEY, "app", "k-1"))
    assert unreported.knows(KEY, "k-1")
    assert not unreported.knows(KEY + 1, "k-1")


def test_what_is_refused_as_a_whole_is_undone(unreported: Unreported) -> None:
    undone: list[str] = []
    member = MemberKey(KEY, "app", "old")

    with pytest.raises(RefusedError), unreported.whole(lambda: undone.append("the tree")):
        unreported.add(KEY, MEMBER)
        unreported.come_bound("g")
        unreported.forget(KEY, "old")
        unreported.tell(member, 3)
        unreported.uncertain = True
        unreported.undoable(lambda: undone.append("the last step"))
        assert unreported.is_told(member, 3)
        raise RefusedError("no")

    assert undone == ["the last step", "the tree"]
    assert not unreported.uncertain
    assert not unreported.knows(KEY, "k")
    assert not unreported.came_bound
    assert not unreported.is_forgotten(KEY, "old")
    assert not unreported.is_told(member, 3)


def test_what_is_not_refused_stays(unreported: Unreported) -> None:
    with unreported.whole(None):
        unreported.add(KEY, MEMBER)
    with pytest.raises(RefusedError), unreported.whole(None):
        raise RefusedError("no")

    assert unreported.knows(KEY, "k")
