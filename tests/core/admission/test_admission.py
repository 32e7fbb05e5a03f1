"""Admission: what is judged as a whole, when owners must report before that, and what was
admitted but is not reported yet.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.admission.effects import Unreported
from muster_core.decisions import Kind
from muster_core.errors import RefusedError
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    Apply,
    BindFailed,
    Event,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
)
from muster_core.gangs import GangFields
from muster_core.owners.gang import MemberKey
from muster_core.resources import Resources
from muster_core.snapshots import Snapshot
from muster_core.view import DecisionView
from tests.core.admission.objects import (
    LOOSE,
    applied,
    deleted,
    finished,
    full_gang_name,
    gang,
    gone_pod,
    members,
    places,
    pod,
    refusal,
    story,
    submit,
    tree_with_app,
)
from tests.core.building import wish
from tests.core.tree import Tree

ONE = GangFields(min_member=1)
TWO = GangFields(min_member=2)
SECOND_US = 1_000_000


def must_hear_first(tree: Tree, event: Event) -> bool:
    return tree.machine.must_hear_first(event)


def with_waiting_member(tree: Tree) -> Tree:
    """Let ``x-0`` of a gang wait, and ``x-1`` be pending."""
    submit(tree, gang("g", 2, mode=LOOSE))
    submit(tree, members("g", "x", 2))
    assert places(tree) == {"x-0": "waiting", "x-1": "pending"}
    return tree


# When owners report first


def test_in_a_batch_of_members_alone_no_owner_reports() -> None:
    tree = tree_with_app()
    for event in (gang("g", 2), members("g", "x", 9), members("h", "y", says=ONE), gang("h", 1)):
        assert not must_hear_first(tree, event)
        tree.enter(event)


@pytest.mark.parametrize(
    "before", [wish("p", "x"), RemoveAsk("p", "x"), RemoveApp("p"), Release("p", "x")]
)
def test_applications_report_first_after_what_only_they_can_judge(before: Event) -> None:
    tree = tree_with_app()
    tree.enter(before)

    assert must_hear_first(tree, members("g", "x"))
    assert must_hear_first(tree, RemoveGang(full_gang_name("g")))
    assert not must_hear_first(tree, wish("p", "y"))
    tree.report_owners()
    assert not must_hear_first(tree, members("g", "x"))


def test_a_new_application_does_not_have_to_report() -> None:
    tree = tree_with_app()
    tree.enter(AddApp("new", "root.b"))

    assert not must_hear_first(tree, members("g", "x", app="new"))
    assert submit(tree, members("g", "x", app="new", says=ONE))[-1] == "bound new/x n"


# Members


def test_a_member_whose_name_is_in_use_joins_no_gang() -> None:
    tree = tree_with_app()
    submit(tree, members("g", "x", 2))

    message = refusal(tree, members("h", "x-1", says=ONE))
    assert message == "ask: 'x-1' is already an ask of application 'p'"
    assert full_gang_name("h") not in tree.snapshot().gangs


def test_a_member_of_an_unknown_application_joins_no_gang() -> None:
    tree = tree_with_app()

    assert refusal(tree, members("g", "x", app="no")) == "app: 'no' is unknown"
    assert tree.snapshot().gangs == {}


def test_names_are_taken_within_a_batch() -> None:
    tree = tree_with_app()
    decisions = tree.settle(wish("p", "x"), members("g", "x"), members("g", "y"), wish("p", "y"))
    tree.check()

    assert [one.kind for one in decisions].count(Kind.REJECTED) == 2
    assert set(places(tree)) == {"x", "y"}


def test_names_are_free_within_a_batch_once_an_ask_is_gone() -> None:
    tree = tree_with_app()
    submit(tree, members("g", "x", 2, says=TWO))

    tree.settle(RemoveApp("p"), AddApp("p", "root.b"), members("g", "x", 3, says=ONE))
    tree.check()
    assert set(places(tree).values()) == {"bound"}
    definition = tree.snapshot().gangs[full_gang_name("g")].definition
    assert definition is not None
    assert definition.min_member == 1


def test_members_come_and_go_in_one_batch() -> None:
    tree = tree_with_app()
    submit(tree, gang("g", 1))
    tree.settle(members("g", "x", 2), RemoveAsk("p", "x-0"), RemoveApp("p"))
    tree.check()

    assert tree.bound() == []


def test_an_application_that_comes_and_goes_leaves_its_node() -> None:
    tree = tree_with_app()
    tree.settle(applied(pod("x", "new", node="n")), RemoveApp("new"))
    tree.check()

    assert dict(tree.snapshot().nodes["n"].used) == {}


# Timeouts


def test_the_members_that_wait_are_parked_when_the_time_is_over() -> None:
    tree = with_waiting_member(tree_with_app(vcore=1))
    before = len(tree.log)
    tree.pass_time(601 * SECOND_US)
    tree.check()

    assert places(tree) == {"x-0": "parked", "x-1": "parked"}
    assert story([one.decision for one in tree.log][before:]) == [
        "released p/x-0 n gang_timeout",
        "gang_timed_out default/g",
    ]
    submit(tree, members("g", "y"))
    assert places(tree)["y"] == "parked"


def test_one_wait_ends_that_of_the_whole_group_once() -> None:
    tree = tree_with_app(vcore=2)
    for name, other in (("g", "h"), ("h", "g")):
        tree.enter(gang(name, 2, other, mode=LOOSE, wait_us=5))
    submit(tree, members("g", "x", 2))
    submit(tree, members("h", "y", 2))
    before = len(tree.log)
    tree.pass_time(6)

    lines = story([one.decision for one in tree.log][before:])
    assert lines[-2:] == ["gang_timed_out default/g", "gang_timed_out default/h"]
    assert set(places(tree).values()) == {"parked"}


def test_a_satisfied_gang_has_no_time_that_could_be_over() -> None:
    tree = tree_with_app()
    submit(tree, gang("g", 1))
    submit(tree, members("g", "x"))

    assert submit(tree, members("g", "y", timed_out=True)) == ["assigned p/y n", "bound p/y n"]
    assert not tree.snapshot().gangs[full_gang_name("g")].timed_out


def test_a_mark_that_a_member_brings_sets_all_members_aside() -> None:
    tree = with_waiting_member(tree_with_app(vcore=1))

    assert submit(tree, members("g", "y", timed_out=True)) == [
        "released p/x-0 n gang_timeout",
        "gang_timed_out default/g",
    ]
    assert set(places(tree).values()) == {"parked"}
    assert submit(tree, members("g", "z", timed_out=True)) == []


def test_a_mark_reaches_those_that_came_in_the_same_batch() -> None:
    tree = tree_with_app()
    tree.enter(gang("g", 1), members("g", "x"))
    lines = story(tree.settle(members("g", "y", timed_out=True), members("g", "z")))
    tree.check()

    assert lines == ["gang_timed_out default/g"]
    assert places(tree) == {"x": "parked", "y": "parked", "z": "parked"}


def test_a_mark_before_the_gang_is_defined_stays() -> None:
    tree = tree_with_app()
    submit(tree, members("g", "x", timed_out=True))
    submit(tree, gang("g", 1))

    assert places(tree) == {"x": "parked"}


@pytest.mark.parametrize(
    "end",
    [[RemoveGang(full_gang_name("g")), gang("g", 1)], [RemoveAsk("p", "x"), members("g", "y")]],
)
def test_a_mark_goes_with_the_gang_or_its_last_member(end: list[Event]) -> None:
    tree = tree_with_app()
    submit(tree, gang("g", 1))
    submit(tree, members("g", "x", timed_out=True))
    tree.settle(*end)
    tree.check()

    assert set(places(tree).values()) == {"bound"}


def with_timed_out_gang(tree: Tree) -> Tree:
    """Let ``x-0`` and ``x-1`` of a gang be bound that is defined anew, and has timed out."""
    submit(tree, gang("g", 2))
    submit(tree, members("g", "x", 2))
    tree.settle(RemoveGang(full_gang_name("g")), gang("g", 4), members("g", "y", timed_out=True))
    assert places(tree) == {"y": "parked", "x-0": "bound", "x-1": "bound"}
    return tree


def test_a_member_that_was_not_started_is_parked_with_the_others() -> None:
    tree = with_timed_out_gang(tree_with_app())

    assert submit(tree, BindFailed("p", "x-0")) == ["released p/x-0 n bind_failed"]
    assert places(tree) == {"x-0": "parked", "y": "parked", "x-1": "bound"}
    assert tree.snapshot().gangs[full_gang_name("g")].timed_out


def test_the_time_is_over_before_a_member_was_not_started() -> None:
    tree = tree_with_app(vcore=3)
    submit(tree, gang("g", 2))
    submit(tree, members("g", "x", 2))
    tree.settle(
        RemoveGang(full_gang_name("g")), gang("g", 4, mode=LOOSE, wait_us=5), members("g", "y", 2)
    )
    tree.pass_time(5)
    lines = story(tree.settle(BindFailed("p", "x-0")))
    tree.check()

    assert lines == [
        "released p/y-0 n gang_timeout",
        "gang_timed_out default/g",
        "released p/x-0 n bind_failed",
    ]
    assert places(tree) == {"x-0": "parked", "y-0": "parked", "y-1": "parked", "x-1": "bound"}


def test_another_one_of_its_name_is_not_parked_for_its_gang() -> None:
    tree = with_timed_out_gang(tree_with_app("m", "n"))
    again = applied(finished("x-0"), pod("x-0", gang="h", node="n"))
    lines = story(tree.settle(again, BindFailed("p", "x-0")))
    tree.check()

    assert lines[-3:] == ["released p/x-0 n bind_failed", "assigned p/x-0 m", "bound p/x-0 m"]


# Removal


def test_waiting_members_of_a_removed_gang_are_pending_in_a_placeholder() -> None:
    tree = with_waiting_member(tree_with_app(vcore=1))

    assert submit(tree, RemoveGang(full_gang_name("g"))) == ["released p/x-0 n gang_rollback"]
    comparable_snapshot = tree.snapshot().gangs[full_gang_name("g")]
    assert (comparable_snapshot.definition, comparable_snapshot.since_us) == (None, None)
    assert places(tree) == {"x-0": "pending", "x-1": "pending"}


def test_a_gang_that_was_only_just_defined_can_be_removed() -> None:
    tree = tree_with_app()
    tree.enter(gang("g", 1), members("g", "x"))
    tree.settle(RemoveGang(full_gang_name("g")))
    tree.check()

    assert places(tree) == {"x": "pending"}
    assert "default/g" in refusal(tree, RemoveGang(full_gang_name("g")))


def test_a_gang_without_members_is_gone_when_it_is_removed() -> None:
    tree = tree_with_app()
    tree.settle(gang("g", 1), RemoveGang(full_gang_name("g")))
    tree.check()

    assert tree.snapshot().gangs == {}
    submit(tree, gang("g", 1))


# Any order, with and without reports of the owners in between

EVENTS: list[Event] = [
    gang("g", 2, mode=LOOSE),
    gang("h", 1, "g"),
    applied(gang("g", 3)),
    RemoveGang(full_gang_name("g")),
    RemoveGang(full_gang_name("h")),
    members("g", "x", 2),
    members("g", "x-0", app="q"),
    members("h", "y", app="q"),
    members("h", "z", says=TWO),
    members("h", "w", timed_out=True),
    wish("p", "z"),
    applied(pod("v", "q", gang="g", node="n")),
    applied(pod("u", "new", gang="h", timed_out=True)),
    applied(finished("x-0")),
    deleted(gone_pod("x-1")),
    RemoveAsk("p", "x-0"),
    Release("p", "x-1"),
    BindFailed("q", "v"),
    RemoveApp("q"),
    AddApp("q", "root.b"),
    RemoveNode("n"),
    AddNode("n", Resources({"vcore": 2})),
]


@given(st.lists(st.sampled_from(EVENTS), max_size=14), st.lists(st.booleans(), max_size=14))
def test_it_does_not_matter_when_owners_report(events: list[Event], reports: list[bool]) -> None:
    seldom, often = tree_with_app(vcore=2), tree_with_app(vcore=2)
    for tree in (seldom, often):
        tree.settle(AddApp("q", "root.b"))
    enter_in_both(seldom, often, events, reports)


AROUND_A_GANG_SET_ASIDE: list[Event] = [
    BindFailed("p", "x-0"),
    BindFailed("p", "x-0"),
    BindFailed("p", "x-1"),
    RemoveGang(full_gang_name("g")),
    gang("g", 3, mode=LOOSE),
    members("g", "z", 2),
    members("g", "w", timed_out=True),
    applied(finished("x-0"), pod("x-0", gang="h", node="n")),
    applied(finished("x-1"), pod("x-1", gang="g", node="m")),
    applied(finished("x-0")),
    wish("p", "x-0"),
    deleted(gone_pod("x-1")),
    Release("p", "x-0"),
    RemoveNode("n"),
    AddNode("n", Resources({"vcore": 3})),
]


@given(
    st.lists(st.sampled_from(range(len(AROUND_A_GANG_SET_ASIDE))), max_size=8, unique=True),
    st.lists(st.booleans(), max_size=8),
)
def test_it_does_not_matter_for_those_that_were_not_started(
    chosen: list[int], reports: list[bool]
) -> None:
    seldom, often = (with_timed_out_gang(tree_with_app("m", "n", vcore=4)) for _ in range(2))
    enter_in_both(seldom, often, [AROUND_A_GANG_SET_ASIDE[number] for number in chosen], reports)


def enter_in_both(seldom: Tree, often: Tree, events: list[Event], reports: list[bool]) -> None:
    """Enter events in both, let the owners of ``often`` report in between, and compare the two."""
    for number, event in enumerate(events):
        if number < len(reports) and reports[number]:
            often.report_owners()
        seldom.enter(event)
        often.enter(event)
    assert seldom.settle() == often.settle()
    seldom.check()
    often.check()
    assert comparable_snapshot(seldom) == comparable_snapshot(often)


def comparable_snapshot(tree: Tree) -> Snapshot:
    """Return everything but how often priorities were computed."""
    snapshot = tree.snapshot()
    queues = snapshot.queues.items()
    return attrs.evolve(
        snapshot, queues={path: attrs.evolve(one, recomputations=0) for path, one in queues}
    )


KEY = 7
ONE_VCORE = Resources({"vcore": 1})
MEMBER = AddAsk("app", "k", ONE_VCORE, gang="default/g")


@pytest.fixture
def unreported() -> Unreported:
    """What is not reported before anything was admitted."""
    return Unreported(DecisionView())


def test_no_owner_has_to_report_at_first(unreported: Unreported) -> None:
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

    unreported.clear()
    unreported.check()
    assert not unreported.must_hear_first(RemoveGang("default/g"))


def test_new_asks_are_known(unreported: Unreported) -> None:
    added = unreported.add(KEY, AddAsk("app", "k", ONE_VCORE, count=2))

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
        unreported.note_message(member, 3)
        unreported.uncertain = True
        unreported.undoable(lambda: undone.append("the last step"))
        assert unreported.has_message(member, 3)
        raise RefusedError("no")

    assert undone == ["the last step", "the tree"]
    assert not unreported.uncertain
    assert not unreported.knows(KEY, "k")
    assert not unreported.came_bound
    assert not unreported.is_forgotten(KEY, "old")
    assert not unreported.has_message(member, 3)


def test_what_is_not_refused_stays(unreported: Unreported) -> None:
    with unreported.whole(None):
        unreported.add(KEY, MEMBER)
    with pytest.raises(RefusedError), unreported.whole(None):
        raise RefusedError("no")

    assert unreported.knows(KEY, "k")
