"""Permits: which members of a gang are tried, how their group ends, and whether it is sure
not to fit.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from unittest import mock

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.events import (
    AddAsk,
    AddNode,
    Event,
    FailBind,
    Release,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
)
from muster_core.gangs import GangMode
from muster_core.resources import Resources
from muster_core.snapshots import GangSnapshot
from muster_core.view.gangs import ViewGroup
from muster_core.view.permits import is_sure_not_to_fit
from muster_core.view.state.view_state import ViewState
from tests.core.admission.objects import (
    LOOSE,
    applied,
    full_gang_name,
    gang,
    members,
    places,
    story,
    tree_with_app,
)
from tests.core.building import configuration, queue, wish
from tests.core.tree import BLOCKING, Tree, make_tree, props


def tell(tree: Tree, *events: Event | str) -> list[str]:
    """Let a batch pass; return what became of asks and gangs."""
    lines = story(tree.settle(*events))
    tree.check()
    return lines


def gang_snapshot(tree: Tree, name: str = "g") -> GangSnapshot:
    return tree.snapshot().gangs[full_gang_name(name)]


def two_leaves(size: int, first: dict[str, str] | None = None, **most: str) -> Tree:
    """Return a tree with the application ``p`` in ``root.a`` and ``q`` in ``root.b``."""
    tree = make_tree(
        "n",
        config=configuration(
            queue("a", properties=first or {}, resources={"max": most}), queue("b")
        ),
        vcore=size,
    )
    tree.add_app("p", "root.a")
    tree.add_app("q", "root.b")
    return tree


# Permit


def test_a_gang_is_bound_in_one_step_in_the_order_of_waiting() -> None:
    assert tell(tree_with_app(), gang("g", 3), members("g", "x", 3)) == [
        "assigned p/x-0 n",
        "waiting p/x-0 n",
        "assigned p/x-1 n",
        "waiting p/x-1 n",
        "assigned p/x-2 n",
        "gang_satisfied default/g",
        "bound p/x-0 n",
        "bound p/x-1 n",
        "bound p/x-2 n",
    ]


def test_a_gang_of_one_is_satisfied_by_its_first_member() -> None:
    assert tell(tree_with_app(), gang("g", 1), members("g", "x", 1)) == [
        "assigned p/x-0 n",
        "gang_satisfied default/g",
        "bound p/x-0 n",
    ]


def test_a_group_is_bound_when_every_gang_of_it_has_enough() -> None:
    tree = tree_with_app()
    assert tell(tree, gang("g", 1, "h"), members("g", "x")) == [
        "assigned p/x n",
        "waiting p/x n",
    ]
    tell(tree, gang("h", 2))

    assert tell(tree, members("h", "y", 2)) == [
        "assigned p/y-0 n",
        "waiting p/y-0 n",
        "assigned p/y-1 n",
        "gang_satisfied default/g",
        "gang_satisfied default/h",
        "bound p/x n",
        "bound p/y-0 n",
        "bound p/y-1 n",
    ]


def test_bound_members_count_for_the_gang_that_is_defined_anew() -> None:
    tree = tree_with_app()
    tell(tree, gang("g", 2), members("g", "x", 2))
    tell(tree, RemoveGang(full_gang_name("g")))
    assert not gang_snapshot(tree).satisfied

    assert tell(tree, gang("g", 3)) == []
    assert tell(tree, members("g", "y")) == [
        "assigned p/y n",
        "gang_satisfied default/g",
        "bound p/y n",
    ]


def test_a_group_for_which_nothing_is_missing_is_bound_when_a_round_starts() -> None:
    tree = tree_with_app(vcore=2)
    tell(tree, gang("g", 3, mode=LOOSE), members("g", "x", 3))
    assert gang_snapshot(tree).waiting == (("p", "x-0"), ("p", "x-1"))

    assert tell(tree, applied(gang("g", 2, mode=LOOSE))) == [
        "gang_satisfied default/g",
        "bound p/x-0 n",
        "bound p/x-1 n",
    ]


def test_what_was_plain_of_a_satisfied_gang_stays_bound_alone() -> None:
    tree = tree_with_app()
    tell(tree, gang("g", 2), members("g", "x", 2))

    assert tell(tree, members("g", "y")) == ["assigned p/y n", "bound p/y n"]


# PreFilter


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], "its gang is undefined"),
        ([gang("g", 3)], "its gang has fewer children than min_member"),
        ([gang("g", 2), members("g", "y", timed_out=True)], "its gang has timed out"),
    ],
)
def test_a_member_that_is_refused_holds_nothing(events: list[Event], why: str) -> None:
    tree = tree_with_app()
    tell(tree, *events, members("g", "x", 2))

    assert tree.bound() == [], why
    assert gang_snapshot(tree).waiting == ()
    assert gang_snapshot(tree).cycle_valid


def test_a_parked_member_is_a_child_of_its_gang() -> None:
    tree = tree_with_app()
    tell(tree, gang("g", 2), members("g", "x", timed_out=True))

    assert places(tree) == {"x": "parked"}
    assert gang_snapshot(tree).timed_out


def test_a_surplus_member_holds_no_node_until_its_group_is_satisfied() -> None:
    tree = tree_with_app()
    tell(tree, gang("g", 1, "h"), gang("h", 1), members("g", "x", 3))
    assert places(tree) == {"x-0": "waiting", "x-1": "pending", "x-2": "pending"}

    lines = tell(tree, members("h", "y"))
    assert lines[-4:] == ["assigned p/x-1 n", "bound p/x-1 n", "assigned p/x-2 n", "bound p/x-2 n"]


def test_a_surplus_member_was_tried_in_the_round_that_satisfies_its_group() -> None:
    """So an ask behind it comes first, which a later round would not have it."""
    tree = tree_with_app(vcore=3)
    tell(tree, gang("g", 1, "h", mode=LOOSE), gang("h", 1, mode=LOOSE))

    lines = tell(
        tree,
        members("g", "x", 2, priority=9),
        members("h", "y", priority=5),
        wish("p", "plain", 1),
    )
    assert [line for line in lines if line.startswith("bound")] == [
        "bound p/x-0 n",
        "bound p/y n",
        "bound p/plain n",
    ]


# Filter fails


def test_a_strict_group_that_does_not_fit_leaves_no_trace() -> None:
    tree = tree_with_app(vcore=2)

    assert tell(tree, gang("g", 3), members("g", "x", 3)) == []
    assert not gang_snapshot(tree).cycle_valid
    assert dict(tree.snapshot().nodes["n"].used) == {}


def test_a_loose_group_keeps_what_it_got() -> None:
    tree = tree_with_app(vcore=2)
    tell(tree, gang("g", 3, mode=LOOSE), members("g", "x", 3))

    assert gang_snapshot(tree).waiting == (("p", "x-0"), ("p", "x-1"))
    assert gang_snapshot(tree).cycle_valid


def test_one_strict_gang_makes_its_group_strict() -> None:
    tree = tree_with_app(vcore=2)
    tell(tree, gang("g", 1, "h", mode=LOOSE), gang("h", 2), members("g", "x"))
    assert gang_snapshot(tree).waiting == (("p", "x"),)

    assert tell(tree, members("h", "y", 2)) == ["released p/x n gang_rollback"]
    assert not gang_snapshot(tree).cycle_valid
    assert not gang_snapshot(tree, "h").cycle_valid


def test_members_that_waited_before_are_released_in_the_order_of_waiting() -> None:
    tree = tree_with_app(vcore=3)
    tell(tree, gang("g", 2, "h", "i"), gang("h", 1), gang("i", 2))
    tell(tree, members("h", "z"))
    tell(tree, members("g", "x", 2))

    assert tell(tree, members("i", "w", 2, vcore=3)) == [
        "released p/z n gang_rollback",
        "released p/x-0 n gang_rollback",
        "released p/x-1 n gang_rollback",
    ]


def test_what_is_given_up_is_free_for_those_behind_in_the_same_round() -> None:
    tree = tree_with_app(vcore=2)
    tell(tree, gang("g", 1, "h"), gang("h", 2), members("g", "x"))

    assert tell(tree, members("h", "y", 2, priority=5), wish("p", "plain", 1, vcore=2)) == [
        "released p/x n gang_rollback",
        "assigned p/plain n",
        "bound p/plain n",
    ]


def test_what_was_tried_before_there_was_more_room_waits_for_the_next_round() -> None:
    tree = tree_with_app(vcore=2)
    tell(tree, gang("g", 1, "h"), gang("h", 2), members("g", "x"))

    lines = tell(
        tree,
        wish("p", "first", 9, vcore=2),  # It does not fit beside x.
        members("h", "y", 2, priority=5),  # This gives x up.
        wish("p", "last", 1),  # This is tried after that, in the same round.
    )
    assert lines == ["released p/x n gang_rollback", "assigned p/last n", "bound p/last n"]


def test_the_next_cycle_begins_with_the_next_batch() -> None:
    tree = tree_with_app(vcore=2)
    tell(tree, gang("g", 3), members("g", "x", 3))
    assert not gang_snapshot(tree).cycle_valid

    lines = tell(tree, AddNode("m", Resources({"vcore": 1})))
    assert lines[-4:] == [
        "gang_satisfied default/g",
        "bound p/x-0 m",
        "bound p/x-1 n",
        "bound p/x-2 n",
    ]


def test_a_group_that_cannot_be_tried_keeps_its_cycle() -> None:
    tree = two_leaves(5, vcore="1m")
    tell(tree, wish("p", "plain"))
    tell(tree, gang("g", 2), members("g", "x", 2))

    # The queue of the members is overused, so nobody tries them.
    assert gang_snapshot(tree).cycle_valid


# Activation


def test_activation_passes_by_what_keeps_applications_out() -> None:
    tree = two_leaves(9, props(application_sort_policy="stateaware"))
    tree.add_app("r", "root.a")
    tell(tree, gang("g", 2))

    lines = tell(tree, members("g", "x", app="p"), members("g", "y", app="r"))
    assert lines[-2:] == ["bound p/x n", "bound r/y n"]


def test_activation_tries_members_alone_in_order_wherever_they_are() -> None:
    tree = two_leaves(9)
    tell(tree, gang("g", 3))

    lines = tell(
        tree,
        members("g", "x", 2, app="p"),
        wish("q", "between", 7),
        members("g", "y", app="q", priority=8),
    )
    assert [line for line in lines if line.startswith("assigned")] == [
        "assigned q/y n",
        "assigned p/x-0 n",
        "assigned p/x-1 n",
        "assigned q/between n",
    ]


def test_activated_members_still_need_headroom() -> None:
    tree = two_leaves(9, vcore="1m")
    tell(tree, gang("g", 3, mode=LOOSE))
    tell(tree, members("g", "x", 2, app="p"), members("g", "y", app="q", priority=5))

    assert places(tree, "p") == {"x-0": "waiting", "x-1": "pending"}
    assert places(tree, "q") == {"y": "waiting"}


def test_a_blocked_leaf_fails_its_activated_members() -> None:
    tree = two_leaves(9, BLOCKING)
    tell(tree, gang("g", 2))
    tell(tree, wish("p", "big", 9, vcore=99))

    # Leaf b has its turn after leaf a was found blocked.
    assert tell(tree, members("g", "x", app="p"), members("g", "y", app="q")) == []
    assert not gang_snapshot(tree).cycle_valid


def test_a_member_that_fits_nowhere_blocks_its_leaf() -> None:
    tree = two_leaves(2, BLOCKING)
    tell(tree, gang("g", 2, mode=LOOSE))
    tell(tree, members("g", "x", 2, app="p", priority=9, vcore=2), wish("p", "plain", 1))

    assert places(tree, "p") == {"x-0": "waiting", "x-1": "pending", "plain": "pending"}


def test_a_refusal_does_not_block() -> None:
    tree = two_leaves(2, BLOCKING)
    tell(tree, gang("g", 2))
    tell(tree, members("g", "x", app="p", priority=9), wish("p", "plain", 1))

    assert tree.bound() == ["p/plain n"]


def test_members_compete_by_the_creation_of_their_gang() -> None:
    tree = tree_with_app(vcore=2)
    tell(tree, gang("old", 1), wish("p", "plain", vcore=9))

    lines = tell(tree, gang("new", 1), members("new", "x"), members("old", "y"))
    assert lines[0] == "assigned p/y n"


# Binds that fail


def test_a_bind_that_fails_sends_one_member_back_alone() -> None:
    tree = tree_with_app()
    tell(tree, gang("g", 2))

    assert tell(tree, members("g", "x", 2), FailBind("p", "x-0")) == [
        "assigned p/x-0 n",
        "waiting p/x-0 n",
        "assigned p/x-1 n",
        "gang_satisfied default/g",
        "released p/x-0 n bind_failed",
        "bound p/x-1 n",
        "assigned p/x-0 n",
        "bound p/x-0 n",
    ]


def test_the_last_one_may_be_the_one_whose_bind_fails() -> None:
    tree = tree_with_app()
    tell(tree, gang("g", 2))
    lines = tell(tree, members("g", "x", 2), FailBind("p", "x-1", 2))

    assert lines[-6:] == [
        "bound p/x-0 n",
        "released p/x-1 n bind_failed",
        "assigned p/x-1 n",
        "released p/x-1 n bind_failed",
        "assigned p/x-1 n",
        "bound p/x-1 n",
    ]


def test_waiting_spends_no_failure() -> None:
    tree = tree_with_app(vcore=1)
    tell(tree, gang("g", 2, mode=LOOSE))
    lines = tell(tree, members("g", "x", 2), FailBind("p", "x-0"))

    assert lines == ["assigned p/x-0 n", "waiting p/x-0 n"]
    assert tell(tree, AddNode("m", Resources({"vcore": 1})))[-4:] == [
        "released p/x-0 n bind_failed",
        "bound p/x-1 m",
        "assigned p/x-0 n",
        "bound p/x-0 n",
    ]


# After the gang


def test_a_gang_that_lost_all_is_a_gang_again() -> None:
    tree = tree_with_app()
    tell(tree, gang("g", 2), members("g", "x", 2))

    assert tell(tree, RemoveNode("n")) == [
        "released p/x-0 n node_lost",
        "released p/x-1 n node_lost",
    ]
    assert not gang_snapshot(tree).satisfied
    assert tell(tree, AddNode("m", Resources({"vcore": 1}))) == []


def test_a_gang_whose_members_have_finished_is_satisfied_still() -> None:
    tree = tree_with_app(vcore=2)
    tell(tree, gang("g", 2), members("g", "x", 3))

    assert tell(tree, Release("p", "x-0"), Release("p", "x-1"))[-1] == "bound p/x-2 n"


def test_waiting_members_of_a_removed_one_wait_on() -> None:
    tree = tree_with_app(vcore=2)
    tell(tree, gang("g", 3, mode=LOOSE), members("g", "x", 3))

    # Without x-0 the gang has fewer children than it needs: x-2 may not hold a node either.
    assert tell(tree, RemoveAsk("p", "x-0")) == ["released p/x-0 n removed"]
    assert gang_snapshot(tree).waiting == (("p", "x-1"),)


@pytest.mark.parametrize("vcore", range(1, 7))
@pytest.mark.parametrize("mode", [None, LOOSE])
def test_no_group_is_bound_in_part_whatever_lacks(mode: GangMode | None, vcore: int) -> None:
    tree = tree_with_app(vcore=vcore)
    tell(tree, gang("g", 2, "h", mode=mode), gang("h", 3, mode=mode))
    tell(tree, members("g", "x", 2), members("h", "y", 3))

    assert len(tree.bound()) == (5 if vcore >= 5 else 0)


@contextmanager
def recorded_checks(*, heeded: bool) -> Generator[list[tuple[tuple[str, ...], bool]]]:
    """Record which groups are checked for being hopeless, with the answers; heed these or not."""
    lines: list[tuple[tuple[str, ...], bool]] = []

    def find(state: ViewState, group: ViewGroup) -> bool:
        hopeless = is_sure_not_to_fit(state, group)
        lines.append((group.names, hopeless))
        return hopeless and heeded

    with mock.patch("muster_core.view.permits.is_sure_not_to_fit", find):
        yield lines


def trees(most: dict[str, str], *nodes: Resources, blocking: bool = False) -> Tree:
    """Return a tree with ``p`` in the leaf ``a``, which may have ``most``, and ``q`` in ``b``."""
    properties = BLOCKING if blocking else {}
    leaf = queue("a", resources={"max": most}, properties=properties)
    tree = Tree(configuration(leaf, queue("b")))
    tree.add_app("p", "root.a")
    tree.add_app("q", "root.b")
    tree.settle(*(AddNode(f"n{number}", capacity) for number, capacity in enumerate(nodes)))
    return tree


def is_hopeless(tree: Tree, *events: Event) -> bool:
    """Return whether the group of the gang ``g`` is found hopeless after these events."""
    tree.enter(*events)
    tree.report_owners()
    state: ViewState = vars(tree.machine.view)["_state"]
    hopeless = is_sure_not_to_fit(state, state.gang_index.group_of(state.gangs["default/g"]))
    tree.settle()
    tree.check()
    return hopeless


TWO = Resources({"vcore": 2})
PLENTY = Resources({"vcore": 9, "memory": 9})


def test_a_group_that_fits() -> None:
    assert is_hopeless(trees({}, TWO), gang("g", 2), members("g", "x", 2)) is False


def test_more_members_of_a_shape_than_there_is_room_for() -> None:
    assert is_hopeless(trees({}, TWO, TWO), gang("g", 5), members("g", "x", 5)) is True


def test_room_is_counted_in_whole_members_node_by_node() -> None:
    tree = trees({}, Resources({"vcore": 3}), Resources({"vcore": 3}))

    assert is_hopeless(tree, gang("g", 3), members("g", "x", 3, vcore=2)) is True


def test_a_queue_that_may_not_have_so_much() -> None:
    tree = trees({"vcore": "3m"}, PLENTY)
    tree.settle(wish("p", "plain", vcore=2))

    assert is_hopeless(tree, gang("g", 2), members("g", "x", 2)) is True


def test_members_of_several_gangs_of_a_group_count_together() -> None:
    events = (gang("g", 1, "h"), gang("h", 2), members("g", "x"), members("h", "y", 2))

    assert is_hopeless(trees({}, TWO), *events) is True


@pytest.mark.parametrize("need", [1, 2])
def test_where_there_is_a_choice_of_members_nothing_is_sure(need: int) -> None:
    tree = trees({}, Resources({"vcore": 1}))
    wanted = (members("g", "x", vcore=9), members("g", "y", vcore=1))

    # With two needed both are, and the bigger one fits nowhere.
    assert is_hopeless(tree, gang("g", need), *wanted) is (need == 2)


def test_where_there_is_a_choice_of_queues_their_quotas_do_not_count() -> None:
    tree = trees({"vcore": "0"}, PLENTY)
    wanted = (members("g", "x"), members("g", "y", app="q", priority=9))

    assert is_hopeless(tree, gang("g", 1), *wanted) is False


def test_a_group_that_holds_nodes_is_tried_since_it_gives_them_up() -> None:
    tree = trees({}, TWO)
    tree.settle(gang("g", 1, "h"), members("g", "x"))

    lines = story(tree.settle(gang("h", 9), members("h", "y", 9)))
    assert lines == ["released p/x n0 gang_rollback"]


def test_a_group_in_a_blocking_leaf_is_not_judged() -> None:
    tree = trees({}, TWO, blocking=True)

    assert is_hopeless(tree, gang("g", 9), members("g", "x", 9)) is False


def test_a_loose_group_is_not_asked_of() -> None:
    tree = trees({}, TWO)
    with recorded_checks(heeded=True) as lines:
        tree.settle(gang("g", 9, mode=LOOSE), members("g", "x", 9), members("g", "y", vcore=2))

    assert lines == []


@attrs.frozen
class Job:
    """A group of gangs, and everything there is for it."""

    most: dict[str, str]
    nodes: tuple[Resources, ...]
    events: tuple[Event, ...]

    def run(self, *, heeded: bool) -> tuple[Tree, list[tuple[str, ...]]]:
        """Enter all of it in one batch; return the groups that were found hopeless."""
        tree = trees(self.most, *self.nodes)
        with recorded_checks(heeded=heeded) as lines:
            tree.settle(*self.events)
        tree.check()
        return tree, [names for names, hopeless in lines if hopeless]


SMALL = st.integers(0, 3)
AMOUNTS = st.fixed_dictionaries({"vcore": st.integers(1, 3), "memory": SMALL}).map(Resources)
NAMES = ("g", "h", "i")


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    events: list[Event] = []
    names = NAMES[: draw(st.integers(1, 3))]
    for name in names:
        groups = draw(st.lists(st.sampled_from(names), max_size=1))
        mode = draw(st.sampled_from([None, None, GangMode.NON_STRICT]))
        events.append(gang(name, draw(st.integers(1, 4)), *groups, mode=mode))
    for number in range(draw(st.integers(1, 6))):
        wanted = AddAsk(
            app=draw(st.sampled_from("pq")),
            ask=f"x{number}",
            resources=draw(AMOUNTS),
            priority=draw(st.sampled_from([0, 0, 1])),
            count=draw(st.integers(1, 3)),
            gang=draw(st.sampled_from([*(f"default/{name}" for name in names), None])),
        )
        events.append(wanted)
    most = draw(st.dictionaries(st.just("vcore"), st.sampled_from(["2m", "4m", "6m"])))
    nodes = draw(st.lists(AMOUNTS, min_size=1, max_size=4))
    return Job(most, tuple(nodes), tuple(events))


@given(jobs())
def test_what_is_found_hopeless_does_not_fit(job: Job) -> None:
    tree, hopeless = job.run(heeded=False)

    # In a batch that begins without waiting asks the room never grows.
    gangs = tree.snapshot().gangs
    assert not any(gangs[name].satisfied for names in hopeless for name in names if name in gangs)


@given(jobs())
def test_a_group_that_is_left_out_might_as_well_have_been_tried(job: Job) -> None:
    (left_out, _), (tried, _) = job.run(heeded=True), job.run(heeded=False)

    assert left_out.log == tried.log
    assert left_out.snapshot() == tried.snapshot()
