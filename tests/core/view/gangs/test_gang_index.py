"""All gangs as a round sees them, and which of them belong together."""

from __future__ import annotations

from hypothesis import given, strategies as st

from muster_core.gangs import GangDefinition
from muster_core.nodes.node import Node
from muster_core.owners.asks import Allocation
from muster_core.view.gang_index import GangIndex
from muster_core.view.gangs import Hold
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from tests.core.building import ask, identity

NODE = Node("n", {}, {}, schedulable=True)


def empty() -> GangIndex:
    return ViewState().gang_index


def book_of(**lists: str) -> GangIndex:
    """Give a book of gangs of one-letter names, each with those that it names, in this order."""
    gang_index = empty()
    for creation, (name, groups) in enumerate(lists.items(), 1):
        gang_index.redefine(gang_index.touch(name), definition(groups), creation)
    gang_index.refresh()
    return gang_index


def definition(groups: str = "") -> GangDefinition:
    return GangDefinition(1, 1, groups=tuple(groups))


def names(gang_index: GangIndex, name: str) -> str:
    return "".join(gang.name for gang in gang_index.group_of(gang_index.gangs[name]).gangs)


def wait(gang_index: GangIndex, name: str) -> None:
    gang = gang_index.touch(name)
    hold = Hold(ViewApp(identity()), Allocation(ask(), "n", 1), NODE, 1)
    gang.waiting[1, "x"] = hold
    gang_index.waiting[name] = gang


def end_wait(gang_index: GangIndex, name: str) -> None:
    del gang_index.touch(name).waiting[1, "x"], gang_index.waiting[name]


# Groups


def test_a_group_is_in_the_order_of_creation() -> None:
    gang_index = book_of(c="a", b="a", a="", d="")

    assert names(gang_index, "a") == names(gang_index, "b") == names(gang_index, "c") == "cba"
    assert names(gang_index, "d") == "d"


def test_all_of_a_group_have_the_same_one() -> None:
    gang_index = book_of(a="b", b="")

    assert gang_index.group_of(gang_index.gangs["a"]) is gang_index.group_of(gang_index.gangs["b"])


def test_a_name_that_no_gang_has_connects() -> None:
    gang_index = book_of(a="x", b="x")

    group = gang_index.group_of(gang_index.gangs["a"])
    assert (group.names, names(gang_index, "b")) == (("a", "b", "x"), "ab")


def test_a_gang_that_comes_later_joins_its_group() -> None:
    gang_index = book_of(a="b")
    assert names(gang_index, "a") == "a"
    gang_index.touch("b")

    assert names(gang_index, "a") == "ab"


def test_a_definition_that_changes_makes_and_breaks_groups() -> None:
    gang_index = book_of(a="b", b="", c="")
    gang_index.redefine(gang_index.gangs["c"], definition("b"), 3)
    assert names(gang_index, "a") == "abc"
    gang_index.redefine(gang_index.gangs["a"], None, None)

    assert (names(gang_index, "a"), names(gang_index, "b")) == ("a", "bc")


def test_a_gang_that_is_created_anew_has_another_place_in_its_group() -> None:
    gang_index = book_of(a="b", b="")
    assert names(gang_index, "b") == "ab"
    gang_index.redefine(gang_index.gangs["a"], definition("b"), 9)

    assert names(gang_index, "b") == "ba"


def test_a_gang_that_has_ceased_to_exist_is_in_no_group() -> None:
    gang_index = book_of(a="b", b="", c="b")
    gang_index.remove(gang_index.gangs["a"])

    assert names(gang_index, "b") == "bc"
    assert "a" not in gang_index.gangs


def test_each_group_once_in_the_order_of_its_oldest_gang() -> None:
    gang_index = book_of(z="", a="y", b="", y="z")

    groups = gang_index.groups_of(gang_index.gangs)
    assert [group.names for group in groups] == [("a", "y", "z"), ("b",)]


def test_groups_in_which_something_has_changed() -> None:
    gang_index = book_of(a="b", b="", c="")
    assert gang_index.take_changed() == []
    gang_index.touch("b")

    (changed,) = gang_index.take_changed()
    assert changed.names == ("a", "b")


# Cycles


def test_cycles_are_valid_again_in_the_next_round() -> None:
    gang_index = book_of(a="b", b="", c="")
    gang_index.invalidate(gang_index.group_of(gang_index.gangs["a"]))
    assert {name: gang.cycle_valid for name, gang in gang_index.gangs.items()} == {
        "a": False,
        "b": False,
        "c": True,
    }
    gang_index.start_cycles()

    assert all(gang.cycle_valid for gang in gang_index.gangs.values())
    gang_index.check()


# Waits


def test_a_wait_lasts_as_long_as_every_batch_ends_with_one() -> None:
    gang_index = book_of(a="", b="")
    wait(gang_index, "a")
    assert gang_index.set_waits(5) == {"a"}
    wait(gang_index, "b")
    assert gang_index.set_waits(7) == {"b"}
    end_wait(gang_index, "a")
    wait(gang_index, "a")
    assert gang_index.set_waits(8) == set()
    end_wait(gang_index, "a")
    assert gang_index.set_waits(9) == {"a"}
    wait(gang_index, "a")
    gang_index.set_waits(9)

    assert (gang_index.gangs["a"].since_us, gang_index.gangs["b"].since_us) == (9, 7)


def test_what_is_over_when_the_batch_ends_was_no_wait() -> None:
    gang_index = book_of(a="")
    wait(gang_index, "a")
    end_wait(gang_index, "a")

    assert gang_index.set_waits(5) == set()
    assert gang_index.gangs["a"].since_us is None


NAMES = "abcde"
STEPS = st.tuples(
    st.sampled_from(NAMES),
    st.none() | st.lists(st.sampled_from(NAMES), max_size=2).map("".join),
    st.booleans(),
)


@given(st.lists(STEPS))
def test_groups_are_those_of_a_fresh_book(steps: list[tuple[str, str | None, bool]]) -> None:
    """Whatever was asked for in between, and whoever came and went."""
    gang_index, lists = empty(), dict[str, tuple[int, str]]()
    for creation, (name, groups, look) in enumerate(steps):
        if groups is None and name in lists:
            gang_index.redefine(gang_index.gangs[name], None, None)
            gang_index.remove(gang_index.gangs[name])
            del lists[name]
        elif groups is not None:
            known = lists.get(name, (creation, ""))[0]
            gang_index.redefine(gang_index.touch(name), definition(groups), known)
            lists[name] = (known, groups)
        if look:
            gang_index.refresh()
            gang_index.groups_of(gang_index.gangs)
        fresh = empty()
        for one, (created, named) in lists.items():
            fresh.redefine(fresh.touch(one), definition(named), created)
        assert shown(gang_index) == shown(fresh)


def shown(gang_index: GangIndex) -> list[tuple[tuple[str, ...], list[str]]]:
    groups = gang_index.groups_of(gang_index.gangs)
    return [(group.names, [gang.name for gang in group.gangs]) for group in groups]
