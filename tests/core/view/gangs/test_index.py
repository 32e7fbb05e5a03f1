"""All gangs as a round sees them, and which of them belong together."""

from __future__ import annotations

from hypothesis import given, strategies as st

from muster_core.gangs.definition import GangDefinition
from muster_core.nodes.node import Node
from muster_core.owners.messages.asks import Allocation
from muster_core.view.gangs.gang import Hold
from muster_core.view.gangs.index import GangBook
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from tests.core.building import ask, identity

NODE = Node("n", {}, {}, schedulable=True)


def empty() -> GangBook:
    return ViewState().book


def book_of(**lists: str) -> GangBook:
    """Give a book of gangs of one-letter names, each with those that it names, in this order."""
    book = empty()
    for creation, (name, groups) in enumerate(lists.items(), 1):
        book.redefine(book.touch(name), definition(groups), creation)
    book.refresh()
    return book


def definition(groups: str = "") -> GangDefinition:
    return GangDefinition(1, 1, groups=tuple(groups))


def names(book: GangBook, name: str) -> str:
    return "".join(gang.name for gang in book.group_of(book.gangs[name]).gangs)


def wait(book: GangBook, name: str) -> None:
    gang = book.touch(name)
    hold = Hold(ViewApp(identity()), Allocation(ask(), "n", 1), NODE, 1)
    gang.waiting[1, "x"] = hold
    book.waiting[name] = gang


def end_wait(book: GangBook, name: str) -> None:
    del book.touch(name).waiting[1, "x"], book.waiting[name]


# Groups


def test_a_group_is_in_the_order_of_creation() -> None:
    book = book_of(c="a", b="a", a="", d="")

    assert names(book, "a") == names(book, "b") == names(book, "c") == "cba"
    assert names(book, "d") == "d"


def test_all_of_a_group_have_the_same_one() -> None:
    book = book_of(a="b", b="")

    assert book.group_of(book.gangs["a"]) is book.group_of(book.gangs["b"])


def test_a_name_that_no_gang_has_connects() -> None:
    book = book_of(a="x", b="x")

    group = book.group_of(book.gangs["a"])
    assert (group.names, names(book, "b")) == (("a", "b", "x"), "ab")


def test_a_gang_that_comes_later_joins_its_group() -> None:
    book = book_of(a="b")
    assert names(book, "a") == "a"
    book.touch("b")

    assert names(book, "a") == "ab"


def test_a_definition_that_changes_makes_and_breaks_groups() -> None:
    book = book_of(a="b", b="", c="")
    book.redefine(book.gangs["c"], definition("b"), 3)
    assert names(book, "a") == "abc"
    book.redefine(book.gangs["a"], None, None)

    assert (names(book, "a"), names(book, "b")) == ("a", "bc")


def test_a_gang_that_is_created_anew_has_another_place_in_its_group() -> None:
    book = book_of(a="b", b="")
    assert names(book, "b") == "ab"
    book.redefine(book.gangs["a"], definition("b"), 9)

    assert names(book, "b") == "ba"


def test_a_gang_that_has_ceased_to_exist_is_in_no_group() -> None:
    book = book_of(a="b", b="", c="b")
    book.remove(book.gangs["a"])

    assert names(book, "b") == "bc"
    assert "a" not in book.gangs


def test_each_group_once_in_the_order_of_its_oldest_gang() -> None:
    book = book_of(z="", a="y", b="", y="z")

    groups = book.groups_of(book.gangs)
    assert [group.names for group in groups] == [("a", "y", "z"), ("b",)]


def test_groups_in_which_something_has_changed() -> None:
    book = book_of(a="b", b="", c="")
    assert book.take_changed() == []
    book.touch("b")

    (changed,) = book.take_changed()
    assert changed.names == ("a", "b")


# Cycles


def test_cycles_are_valid_again_in_the_next_round() -> None:
    book = book_of(a="b", b="", c="")
    book.invalidate(book.group_of(book.gangs["a"]))
    assert {name: gang.cycle_valid for name, gang in book.gangs.items()} == {
        "a": False,
        "b": False,
        "c": True,
    }
    book.start_cycles()

    assert all(gang.cycle_valid for gang in book.gangs.values())
    book.check()


# Waits


def test_a_wait_lasts_as_long_as_every_batch_ends_with_one() -> None:
    book = book_of(a="", b="")
    wait(book, "a")
    assert book.set_waits(5) == {"a"}
    wait(book, "b")
    assert book.set_waits(7) == {"b"}
    end_wait(book, "a")
    wait(book, "a")
    assert book.set_waits(8) == set()
    end_wait(book, "a")
    assert book.set_waits(9) == {"a"}
    wait(book, "a")
    book.set_waits(9)

    assert (book.gangs["a"].since_us, book.gangs["b"].since_us) == (9, 7)


def test_what_is_over_when_the_batch_ends_was_no_wait() -> None:
    book = book_of(a="")
    wait(book, "a")
    end_wait(book, "a")

    assert book.set_waits(5) == set()
    assert book.gangs["a"].since_us is None


NAMES = "abcde"
STEPS = st.tuples(
    st.sampled_from(NAMES),
    st.none() | st.lists(st.sampled_from(NAMES), max_size=2).map("".join),
    st.booleans(),
)


@given(st.lists(STEPS))
def test_groups_are_those_of_a_fresh_book(steps: list[tuple[str, str | None, bool]]) -> None:
    """Whatever was asked for in between, and whoever came and went."""
    book, lists = empty(), dict[str, tuple[int, str]]()
    for creation, (name, groups, look) in enumerate(steps):
        if groups is None and name in lists:
            book.redefine(book.gangs[name], None, None)
            book.remove(book.gangs[name])
            del lists[name]
        elif groups is not None:
            known = lists.get(name, (creation, ""))[0]
            book.redefine(book.touch(name), definition(groups), known)
            lists[name] = (known, groups)
        if look:
            book.refresh()
            book.groups_of(book.gangs)
        fresh = empty()
        for one, (created, named) in lists.items():
            fresh.redefine(fresh.touch(one), definition(named), created)
        assert shown(book) == shown(fresh)


def shown(book: GangBook) -> list[tuple[tuple[str, ...], list[str]]]:
    groups = book.groups_of(book.gangs)
    return [(group.names, [gang.name for gang in group.gangs]) for group in groups]
