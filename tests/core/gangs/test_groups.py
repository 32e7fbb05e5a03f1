"""Which gangs belong together."""

from __future__ import annotations

from hypothesis import given, strategies as st

from muster_core.gangs import GangLinks

NAMES = "abcdefg"
LISTS = st.lists(st.sampled_from(NAMES), max_size=3).map(tuple)


def connected(lists: dict[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """Give the group of a gang the plain way."""
    found = {name}
    while True:
        more = found | {
            one
            for owner, named in lists.items()
            if found & {owner, *named}
            for one in (owner, *named)
        }
        if more == found:
            return tuple(sorted(found))
        found = more


def test_a_gang_without_a_list_is_alone() -> None:
    assert GangLinks().group_of("a") == ("a",)


def test_it_does_not_matter_which_side_names_the_other() -> None:
    links = GangLinks()
    links.relink("a", ("b",))
    links.relink("c", ("b",))

    assert links.group_of("a") == links.group_of("b") == links.group_of("c") == ("a", "b", "c")


def test_a_gang_that_names_itself_is_alone() -> None:
    links = GangLinks()

    assert links.relink("a", ("a",)) == set()
    assert links.group_of("a") == ("a",)


def test_all_of_a_group_have_the_same_tuple() -> None:
    links = GangLinks()
    links.relink("a", ("b",))

    assert links.group_of("a") is links.group_of("b")


def test_a_new_list_says_which_groups_are_no_longer_what_they_were() -> None:
    links = GangLinks()
    links.relink("a", ("b",))
    links.relink("c", ("d",))
    for name in "abcdx":
        links.group_of(name)

    assert links.relink("b", ("c",)) == {("a", "b"), ("c", "d")}
    assert links.group_of("d") == ("a", "b", "c", "d")
    assert links.relink("b", ()) == {("a", "b", "c", "d")}
    assert links.group_of("d") == ("c", "d")
    assert links.relink("b", ()) == set()


@given(st.lists(st.tuples(st.sampled_from(NAMES), LISTS, st.sampled_from(NAMES))))
def test_groups_are_what_is_connected(
    steps: list[tuple[str, tuple[str, ...], str]],
) -> None:
    links, lists = GangLinks(), dict[str, tuple[str, ...]]()
    asked: set[tuple[str, ...]] = set()
    for name, named, looked_at in steps:
        changed = links.relink(name, named)
        lists[name] = named
        # All and only the groups that somebody has seen and that are others now.
        outdated = {group for group in asked if connected(lists, group[0]) != group}
        assert outdated <= changed <= asked
        asked -= changed
        group = links.group_of(looked_at)
        assert group == connected(lists, looked_at)
        asked.add(group)
    for name in NAMES:
        assert links.group_of(name) == connected(lists, name)
