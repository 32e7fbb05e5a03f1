"""What is kept of the victims on a node while they come and go, beside what is made anew."""

from __future__ import annotations

import attrs
from hypothesis import given, strategies as st

from muster_core.nodes.node import Node
from muster_core.owners.asks import Allocation
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape
from muster_core.view.eviction.victims import NodeVictims, PrioritySums, Victim
from muster_core.view.gangs import ViewGang
from muster_core.view.tree.application import ViewApp
from tests.core.building import ask, identity

NODE = Node("n", {}, {}, schedulable=True)
GANG = ViewGang("default/g")
APPS = [ViewApp(attrs.evolve(identity(key), leaf=key)) for key in (1, 2, 3)]
TYPES = ("vcore", "memory")

Kind = tuple[ViewApp, int, dict[str, int], bool]

KINDS = st.tuples(
    st.sampled_from(APPS),
    st.integers(-1, 2),
    st.dictionaries(st.sampled_from(TYPES), st.integers(1, 4)),
    st.booleans(),
)
CHANGES = st.tuples(
    st.lists(st.integers(0, 100), max_size=3),
    st.lists(KINDS, max_size=3),
    st.sets(st.sampled_from(["sums", "leaves", "newest", *TYPES])),
)


def victim_of_kind(kind: Kind, number: int) -> Victim:
    app, priority, amounts, member = kind
    held = Allocation(ask(f"x{number}", priority, of=Shape(Resources(amounts))), "n", number)
    return Victim(app, held, NODE, GANG if member else None, bound=True)


def read(on_node: NodeVictims, what: str) -> None:
    """Let a node compute something, which it then keeps."""
    if what == "sums":
        on_node.sums()
        return
    for one in on_node.by_leaf().values():
        if what == "newest":
            one.in_order(by_priority=False)
        elif what in TYPES:
            one.largest(what)


@given(st.lists(KINDS, max_size=10) | st.lists(KINDS, min_size=50), st.lists(CHANGES, max_size=6))
def test_what_is_kept_is_what_would_be_made_anew(
    kinds: list[Kind], changes: list[tuple[list[int], list[Kind], set[str]]]
) -> None:
    on_node, there = NodeVictims(), [victim_of_kind(kind, at) for at, kind in enumerate(kinds)]
    on_node.change((), there)
    numbers = len(there)
    for leaving, coming, wanted in changes:
        for what in sorted(wanted):
            read(on_node, what)
        gone = [there.pop(at % len(there)) for at in leaving if there]
        come = [victim_of_kind(kind, numbers + at) for at, kind in enumerate(coming)]
        numbers += len(come)
        there += come
        on_node.change(gone, come)

        assert set(on_node.held.values()) == set(there)
        assert on_node.lowest() == min((one.place[0] for one in there), default=None)
        on_node.check()


def test_a_few_changes_leave_what_is_kept_in_place() -> None:
    on_node = NodeVictims()
    there = [victim_of_kind((APPS[at % 2], at % 3, {"vcore": at}, False), at) for at in range(24)]
    on_node.change((), there)
    sums, leaves = on_node.sums(), on_node.by_leaf()
    one = leaves[1]
    assert (sums.level_for({"vcore": 92}), one.largest("vcore")) == (1, 22)
    on_node.change([there[22]], [victim_of_kind((APPS[2], 0, {"memory": 1}, False), 24)])

    assert on_node.sums() is sums
    assert on_node.by_leaf() is leaves
    assert (leaves[1] is one, one.largest("vcore"), one.amounts) == (True, 20, {"vcore": 110})
    assert leaves[3].amounts == {"memory": 1}
    assert sums.level_for({"vcore": 92, "memory": 1}) == 1
    on_node.change(
        [on_node.held[3, "x24"]], [victim_of_kind((APPS[0], 0, {"vcore": 40}, True), 25)]
    )

    assert leaves.keys() == {1, 2}
    assert (one.largest("vcore"), on_node.members) == (40, one.members)
    assert sums.level_for({"memory": 1}) is None


def test_if_many_change_everything_is_made_anew() -> None:
    on_node = NodeVictims()
    there = [victim_of_kind((APPS[0], at, {"vcore": 1}, at > 2), at) for at in range(4)]
    on_node.change((), there)
    sums = on_node.sums()
    on_node.change(there[:1], ())

    assert on_node.sums() is not sums
    assert (on_node.plain, on_node.members) == (there[1:3], there[3:])
    on_node.check()


def test_the_last_of_a_priority_takes_its_priority_away() -> None:
    there = [victim_of_kind((APPS[0], at, {"vcore": 2}, False), at) for at in range(3)]
    sums = PrioritySums(there)
    assert sums.priorities == [0, 1, 2]
    sums.change(there[:1], ())

    assert sums.priorities == [1, 2]
    assert (sums.level_for({"vcore": 3}), sums.fewest({"vcore": 3}, 1)) == (1, 2)
