"""Whether a Strict group is sure not to fit."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from unittest import mock

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.events import AddAsk, AddNode, Event
from muster_core.gangs import GangMode
from muster_core.resources import Resources
from muster_core.view.gangs import ViewGroup
from muster_core.view.permits import is_sure_not_to_fit
from muster_core.view.state.view_state import ViewState
from tests.core.admission.objects import LOOSE, gang, members, story
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree
from tests.core.view.helpers import BLOCKING


@contextmanager
def asked(*, heeded: bool) -> Generator[list[tuple[tuple[str, ...], bool]]]:
    """Note of which groups it is asked whether they fit, and what is said; heed it or not."""
    said: list[tuple[tuple[str, ...], bool]] = []

    def find(state: ViewState, group: ViewGroup) -> bool:
        hopeless = is_sure_not_to_fit(state, group)
        said.append((group.names, hopeless))
        return hopeless and heeded

    with mock.patch("muster_core.view.permits.is_sure_not_to_fit", find):
        yield said


def trees(most: dict[str, str], *nodes: Resources, blocking: bool = False) -> Tree:
    """Give a tree with ``p`` in the leaf ``a``, which may have ``most``, and ``q`` in ``b``."""
    properties = BLOCKING if blocking else {}
    leaf = queue("a", resources={"max": most}, properties=properties)
    made = Tree(configuration(leaf, queue("b")))
    made.add_app("p", "root.a")
    made.add_app("q", "root.b")
    made.settle(*(AddNode(f"n{number}", capacity) for number, capacity in enumerate(nodes)))
    return made


def answer(made: Tree, *events: Event) -> bool:
    """Give what is said of the group of the gang ``g`` when these events have come."""
    made.enter(*events)
    made.hear()
    state: ViewState = vars(made.machine.view)["_state"]
    hopeless = is_sure_not_to_fit(state, state.gang_index.group_of(state.gangs["default/g"]))
    made.settle()
    made.check()
    return hopeless


TWO = Resources({"vcore": 2})
PLENTY = Resources({"vcore": 9, "memory": 9})


def test_a_group_that_fits() -> None:
    assert answer(trees({}, TWO), gang("g", 2), members("g", "x", 2)) is False


def test_more_members_of_a_shape_than_there_is_room_for() -> None:
    assert answer(trees({}, TWO, TWO), gang("g", 5), members("g", "x", 5)) is True


def test_room_is_counted_in_whole_members_node_by_node() -> None:
    made = trees({}, Resources({"vcore": 3}), Resources({"vcore": 3}))

    assert answer(made, gang("g", 3), members("g", "x", 3, vcore=2)) is True


def test_a_queue_that_may_not_have_so_much() -> None:
    made = trees({"vcore": "3m"}, PLENTY)
    made.settle(wish("p", "plain", vcore=2))

    assert answer(made, gang("g", 2), members("g", "x", 2)) is True


def test_members_of_several_gangs_of_a_group_count_together() -> None:
    events = (gang("g", 1, "h"), gang("h", 2), members("g", "x"), members("h", "y", 2))

    assert answer(trees({}, TWO), *events) is True


@pytest.mark.parametrize("need", [1, 2])
def test_where_there_is_a_choice_of_members_nothing_is_sure(need: int) -> None:
    made = trees({}, Resources({"vcore": 1}))
    wanted = (members("g", "x", vcore=9), members("g", "y", vcore=1))

    # With two needed both are, and the bigger one fits nowhere.
    assert answer(made, gang("g", need), *wanted) is (need == 2)


def test_where_there_is_a_choice_of_queues_their_quotas_do_not_count() -> None:
    made = trees({"vcore": "0"}, PLENTY)
    wanted = (members("g", "x"), members("g", "y", app="q", priority=9))

    assert answer(made, gang("g", 1), *wanted) is False


def test_a_group_that_holds_nodes_is_tried_since_it_gives_them_up() -> None:
    made = trees({}, TWO)
    made.settle(gang("g", 1, "h"), members("g", "x"))

    said = story(made.settle(gang("h", 9), members("h", "y", 9)))
    assert said == ["released p/x n0 gang_rollback"]


def test_a_group_in_a_blocking_leaf_is_not_judged() -> None:
    made = trees({}, TWO, blocking=True)

    assert answer(made, gang("g", 9), members("g", "x", 9)) is False


def test_a_loose_group_is_not_asked_of() -> None:
    made = trees({}, TWO)
    with asked(heeded=True) as said:
        made.settle(gang("g", 9, mode=LOOSE), members("g", "x", 9), members("g", "y", vcore=2))

    assert said == []


@attrs.frozen
class Job:
    """A group of gangs, and everything there is for it."""

    most: dict[str, str]
    nodes: tuple[Resources, ...]
    events: tuple[Event, ...]

    def run(self, *, heeded: bool) -> tuple[Tree, list[tuple[str, ...]]]:
        """Let all of it come in one batch; give the groups that were said not to fit."""
        made = trees(self.most, *self.nodes)
        with asked(heeded=heeded) as said:
            made.settle(*self.events)
        made.check()
        return made, [names for names, hopeless in said if hopeless]


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
def test_what_is_said_not_to_fit_does_not_fit(job: Job) -> None:
    made, hopeless = job.run(heeded=False)

    # Within a batch that begins with nobody waiting there never comes to be more room.
    gangs = made.snapshot().gangs
    assert not any(gangs[name].satisfied for names in hopeless for name in names if name in gangs)


@given(jobs())
def test_a_group_that_is_left_out_might_as_well_have_been_tried(job: Job) -> None:
    (left_out, _), (tried, _) = job.run(heeded=True), job.run(heeded=False)

    assert left_out.log == tried.log
    assert left_out.snapshot() == tried.snapshot()
