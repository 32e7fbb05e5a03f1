"""The latest of very many names."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from muster_core.admission.registry import RecentNames


def names_of(*added: str, kept: int = 3) -> RecentNames:
    names = RecentNames(kept)
    for name in added:
        names.add(name)
        names.check()
    return names


def test_few_names_are_all_known() -> None:
    assert names_of("a", "b").seen() == {"a", "b"}


def test_of_many_the_latest_are_known() -> None:
    names = names_of(*(str(number) for number in range(100)))

    assert {"97", "98", "99"} <= names.seen()
    assert len(names.seen()) < 6


def test_a_name_may_be_forgotten_wherever_it_is() -> None:
    names = names_of("old", "b", "c", "young")
    for name in ("old", "young", "unknown"):
        names.discard(name)
        names.check()

    assert names.seen() == {"b", "c"}


def test_what_is_handed_out_is_the_same_until_something_changes() -> None:
    names = names_of("a")
    before = names.seen()
    names.discard("unknown")

    assert names.seen() is before
    names.add("b")
    assert before == {"a"}
    assert names.seen() == {"a", "b"}


@pytest.mark.parametrize("name", ["b", "d", "unknown"])
def test_a_name_goes_back_to_where_it_was_and_drops_no_other(name: str) -> None:
    names = names_of("a", "b", "c", "d", "e")
    before = names.seen()
    restore = names.save(name)
    names.discard(name)
    restore()
    names.check()

    assert names.seen() == before
    names.add("f")  # It fills the young set, which replaces the old one.
    assert names.seen() == {"d", "e", "f"}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9))), st.integers(1, 4))
def test_whatever_comes_the_latest_are_known(changes: list[tuple[bool, int]], kept: int) -> None:
    names, added, gone = RecentNames(kept), list[str](), set[str]()
    for comes, number in changes:
        name = str(number)
        if comes:
            added = [*(one for one in added if one != name), name]
            gone.discard(name)
            names.add(name)
        else:
            gone.add(name)
            names.discard(name)
        names.check()
        assert (name in names) == comes
        assert set(added[-kept:]) - gone <= names.seen() <= set(added) - gone
        assert len(names.seen()) < 2 * kept
