"""Lists of Kubernetes objects: their items one by one, or none of them."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.decisions import Decision, Kind
from muster_core.events import (
    AddAsk,
    AddNode,
    AddPriorityClass,
    AppliedObject,
    Apply,
    Delete,
    Event,
    ObjectKind,
    ObjectName,
)
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace, Snapshot
from tests.core.admission.objects import (
    LOOSE,
    applied,
    deleted,
    finished,
    gang,
    gone_pod,
    members,
    named,
    node,
    pod,
    refusal,
    story,
    submit,
    tree_with_app,
    volcano_queue,
)
from tests.core.building import wish
from tests.core.tree import Tree

TWO = GangFields(min_member=2)


def test_an_item_may_need_the_one_before_it() -> None:
    tree = tree_with_app()
    submit(
        tree,
        applied(
            node("m", gpu=1),
            volcano_queue("new"),
            AddPriorityClass("high", 5),
            gang("g", 2),
            pod("x", "new", queue="root.new", gang="g", node="m", gpu=1),
            pod("y", "new", priority_class="high", gang="g", vcore=1),
        ),
    )

    assert tree.bound() == ["new/x m", "new/y n"]


def test_two_pods_cannot_have_the_same_room() -> None:
    message = refusal(tree_with_app(vcore=1), applied(pod("x", node="n"), pod("y", node="n")))

    assert message.startswith("manifest.items[1].spec.nodeName: ")


def test_a_pod_that_comes_twice_comes_once() -> None:
    tree = tree_with_app()

    assert submit(tree, applied(pod("x"), pod("x", vcore=5))) == ["assigned p/x n", "bound p/x n"]


def with_waiting_member(tree: Tree) -> Tree:
    """Let ``x-0`` of a gang wait on node ``n``, and ``x-1`` be pending."""
    submit(tree, gang("g", 3, mode=LOOSE))
    submit(tree, members("g", "x", 3))
    return tree


G = named(ObjectKind.POD_GROUP, "g")
N = named(ObjectKind.NODE, "n")
MARK = pod("y", gang="g", timed_out=True)


@pytest.mark.parametrize(
    "event",
    [
        deleted(gone_pod("x-0"), G),
        deleted(G, gone_pod("x-0")),
        deleted(N, G),
        deleted(G, N),
        deleted(N, gone_pod("x-0"), G),
        applied(finished("x-0"), MARK),
        applied(MARK, finished("x-0")),
        applied(finished("x-1"), MARK),
        applied(finished("x-0"), pod("y", gang="g", node="m")),
        applied(MARK, pod("z", gang="g", node="m"), finished("x-0")),
    ],
)
def test_members_that_end_in_a_list_that_concerns_their_gang(event: Apply | Delete) -> None:
    """The items of a list do what they do one by one."""
    whole, apart = (with_waiting_member(tree_with_app("n", vcore=1)) for _ in range(2))
    for tree in (whole, apart):
        submit(tree, AddNode("m", Resources({"gpu": 1, "vcore": 1}), schedulable=False))
    one_by_one(whole, apart, event)


@pytest.mark.parametrize(
    "event",
    [
        applied(finished("x"), pod("y", gang="g", node="n")),
        applied(finished("x"), pod("y", gang="g")),
        applied(finished("x"), pod("x", gang="g")),
    ],
)
def test_the_last_member_of_a_gang_that_has_timed_out_ends_in_a_list(event: Apply | Delete) -> None:
    """A gang without members is as new, for the next item already."""
    whole, apart = (tree_with_app(vcore=1) for _ in range(2))
    for tree in (whole, apart):
        submit(tree, gang("g", 2))
        submit(tree, members("g", "x", timed_out=True))
    one_by_one(whole, apart, event)


@pytest.mark.parametrize(
    "event",
    [
        applied(finished("x"), pod("y", node="n")),
        applied(finished("x"), pod("x")),
        applied(finished("x"), pod("y", gang="g", says=GangFields(min_member=3))),
    ],
)
def test_what_a_pod_had_is_free_for_the_next_item(event: Apply | Delete) -> None:
    whole, apart = (tree_with_app(vcore=1) for _ in range(2))
    for tree in (whole, apart):
        submit(tree, members("g", "x", says=GangFields(min_member=1)))
        assert tree.bound() == ["p/x n"]
    one_by_one(whole, apart, event)


def one_by_one(whole: Tree, apart: Tree, event: Apply | Delete) -> None:
    """Enter a list whole in one tree, item by item in the other; both become the same."""
    assert submit(whole, event) == story(apart.settle(*items_of(event)))
    apart.check()
    assert comparable_snapshot(whole) == comparable_snapshot(apart)


def comparable_snapshot(tree: Tree) -> Snapshot:
    """Return the snapshot; how often priorities were computed depends on when owners report."""
    snapshot = tree.snapshot()
    queues = {
        path: attrs.evolve(queue, recomputations=0) for path, queue in snapshot.queues.items()
    }
    return attrs.evolve(snapshot, queues=queues)


def items_of(event: Apply | Delete) -> list[Event]:
    if isinstance(event, Apply):
        return [Apply((one,)) for one in event.objects]
    return [Delete((one,)) for one in event.objects]


# What was refused was never there

BAD: list[AppliedObject] = [
    node("unknown"),
    pod("z", node="unknown"),
    pod("z", priority_class="unknown"),
    volcano_queue("a", max={"vcore": 1}, guaranteed={"vcore": 2}),
    gang("annotated", 1, total=1),
    pod("z", gang="annotated", says=GangFields(min_member=5)),
]

GOOD: list[AppliedObject] = [
    node("n", schedulable=False, labels={"zone": "z"}, vcore=3),
    node("n", vcore=1),
    node("new", vcore=4),
    AddPriorityClass("high", 9),
    gang("g", 1),
    gang("h", 2, "g"),
    gang("annotated", 3),
    pod("x", gang="g"),
    pod("y", gang="h", says=TWO),
    pod("w", "q", queue="root.fly.q", gang="g"),
    pod("v", "r", queue="root.a", node="n", gang="g"),
    pod("u", node="n", vcore=2),
    pod("t", gang="g", timed_out=True),
    pod("s", priority_class="high"),
    finished("m-0"),
    finished("k"),
    volcano_queue("a", priority=4, max={"vcore": 6}),
    volcano_queue("new", "b", reclaimable=False),
    volcano_queue("b", guaranteed={"vcore": 1}),
]

UNKNOWN = [gone_pod("unknown"), named(ObjectKind.NODE, "unknown")]
KNOWN: list[ObjectName] = [
    gone_pod("m-0"),
    gone_pod("m-1"),
    gone_pod("k"),
    named(ObjectKind.NODE, "n"),
    named(ObjectKind.POD_GROUP, "g"),
    named(ObjectKind.POD_GROUP, "annotated"),
    named(ObjectKind.PRIORITY_CLASS, "low"),
    named(ObjectKind.QUEUE, "a"),
    named(ObjectKind.QUEUE, "b"),
]

AFTERWARDS: list[Event] = [
    members("g", "later", 2),
    members("annotated", "later", says=TWO),
    AddAsk("p", "plain", Resources({"vcore": 1}), priority_class="low"),
    applied(pod("x", gang="g"), pod("late", "late", queue="root.b")),
    AddNode("more", Resources({"vcore": 9})),
    applied(volcano_queue("new", "b"), gang("h", 1)),
]


def busy() -> Tree:
    """Return a tree in which there is something of everything."""
    tree = tree_with_app("n", vcore=3)
    tree.settle(
        AddPriorityClass("low", -1),
        gang("g", 3, mode=LOOSE),
        members("g", "m", 3),
        members("annotated", "k", says=TWO),
        wish("p", "plain-one", vcore=2),
    )
    tree.check()
    return tree


def messages_aside(decisions: list[Decision]) -> list[Decision]:
    return [one._replace(message=None) for one in decisions]


def leaves_no_trace(event: Event, prelude: list[Event]) -> None:
    """Let an event in that is refused, and what else comes; nobody can tell it from nonsense."""
    with_it, without = busy(), busy()
    one = with_it.settle(*prelude, event)
    other = without.settle(*prelude, "nonsense")
    assert messages_aside(one) == messages_aside(other)
    with_it.check()
    assert with_it.snapshot() == without.snapshot()
    for later in AFTERWARDS:
        assert messages_aside(with_it.settle(later)) == messages_aside(without.settle(later))
    with_it.check()
    assert with_it.snapshot() == without.snapshot()


PRELUDES = st.lists(st.sampled_from(AFTERWARDS), max_size=2, unique_by=id)


@given(
    prelude=PRELUDES,
    good=st.lists(st.sampled_from(GOOD), max_size=6),
    bad=st.sampled_from(BAD),
)
def test_a_list_with_a_bad_item_is_refused_whole(
    prelude: list[Event], good: list[AppliedObject], bad: AppliedObject
) -> None:
    tree = busy()
    tree.settle(*prelude)
    decisions = tree.settle(applied(*good, bad, node("last", vcore=1)))
    if [one.kind for one in decisions][:1] == [Kind.REJECTED]:
        leaves_no_trace(applied(*good, bad, node("last", vcore=1)), prelude)


@given(
    prelude=PRELUDES,
    known=st.lists(st.sampled_from(KNOWN), max_size=5),
    unknown=st.sampled_from(UNKNOWN),
)
def test_a_list_of_which_one_is_unknown_deletes_nothing(
    prelude: list[Event], known: list[ObjectName], unknown: ObjectName
) -> None:
    leaves_no_trace(deleted(*known, unknown), prelude)


def test_a_refused_list_leaves_the_mark_of_a_gang_that_it_would_have_satisfied() -> None:
    tree = tree_with_app(vcore=9)
    submit(tree, gang("g", 2))
    submit(tree, members("g", "x", timed_out=True))
    decisions = tree.settle(applied(pod("y", gang="g", node="n"), pod("z", node="unknown")))
    assert [one.kind for one in decisions] == [Kind.REJECTED]
    tree.check()

    tree.settle(members("g", "later"))
    tree.check()
    assert {ask.place for ask in tree.snapshot().apps["p"].asks} == {AskPlace.PARKED}
