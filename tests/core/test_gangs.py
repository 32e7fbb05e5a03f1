"""What defines a gang, which gangs belong together, the states of a gang, and what a topology
says.
"""

from __future__ import annotations

from itertools import product

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.gangs import (
    GANG_TRANSITIONS,
    NO_FIELDS,
    GangDefinition,
    GangFields,
    GangLinks,
    GangMode,
    GangState,
    GangTrigger,
    Topology,
    TopologyRule,
    define,
    next_gang_state,
)

FIELDS = st.builds(
    GangFields,
    min_member=st.none() | st.integers(1, 3),
    total=st.none() | st.integers(1, 3),
    mode=st.none() | st.sampled_from(GangMode),
    wait_us=st.none() | st.integers(1, 3),
    groups=st.none() | st.sampled_from([(), ("default/h",)]),
    topology=st.none() | st.builds(Topology, st.sampled_from(TopologyRule), st.just("rack")),
)


def test_defaults() -> None:
    assert define(GangFields(min_member=3)) == GangDefinition(3, 3, GangMode.STRICT, None, ())


def test_everything_that_is_said_counts() -> None:
    rack = Topology(TopologyRule.SAME, "rack")
    fields = GangFields(2, 5, GangMode.NON_STRICT, 7, ("default/h",), rack)

    assert define(fields) == GangDefinition(2, 5, GangMode.NON_STRICT, 7, ("default/h",), rack)


def test_without_the_number_of_members_nothing_is_defined() -> None:
    assert define(GangFields(None, 5, GangMode.STRICT, 7, ())) is None


@pytest.mark.parametrize("field", [field.name for field in attrs.fields(GangFields)])
def test_one_overrides_the_other_field_by_field(field: str) -> None:
    above = GangFields(1, 2, GangMode.STRICT, 3, ())
    below = GangFields(4, 5, GangMode.NON_STRICT, 6, ("default/h",))
    without = attrs.evolve(above, **{field: None})

    both = without.over(below)
    assert getattr(both, field) == getattr(below, field)
    assert attrs.evolve(both, **{field: getattr(above, field)}) == above


@given(FIELDS, FIELDS, FIELDS)
def test_it_does_not_matter_in_which_steps_they_are_put_together(
    one: GangFields, two: GangFields, three: GangFields
) -> None:
    assert one.over(two).over(three) == one.over(two.over(three))
    assert one.over(NO_FIELDS) == NO_FIELDS.over(one) == one.over(one) == one


NAMES = "abcdefg"
LISTS = st.lists(st.sampled_from(NAMES), max_size=3).map(tuple)


def connected(lists: dict[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """Return the group of a gang the plain way."""
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
    looked_up: set[tuple[str, ...]] = set()
    for name, named, looked_at in steps:
        changed = links.relink(name, named)
        lists[name] = named
        # All and only the groups that were looked up and have changed since.
        outdated = {group for group in looked_up if connected(lists, group[0]) != group}
        assert outdated <= changed <= looked_up
        looked_up -= changed
        group = links.group_of(looked_at)
        assert group == connected(lists, looked_at)
        looked_up.add(group)
    for name in NAMES:
        assert links.group_of(name) == connected(lists, name)


def test_every_state_can_be_reached_and_left() -> None:
    reached = {GangState.PLACEHOLDER}
    for _ in GangState:
        reached |= {after for (before, _), after in GANG_TRANSITIONS.items() if before in reached}

    assert reached == set(GangState)
    assert {before for before, _ in GANG_TRANSITIONS} == set(GangState)


def test_everything_that_may_happen_changes_something_somewhere() -> None:
    assert {trigger for _, trigger in GANG_TRANSITIONS} == set(GangTrigger)
    assert all(after is not before for (before, _), after in GANG_TRANSITIONS.items())


@pytest.mark.parametrize(("state", "trigger"), list(product(GangState, GangTrigger)))
def test_what_is_not_in_the_table_changes_nothing(state: GangState, trigger: GangTrigger) -> None:
    after = GANG_TRANSITIONS.get((state, trigger), state)

    assert next_gang_state(state, trigger, defined=True) is after


@pytest.mark.parametrize("state", list(GangState))
def test_whatever_it_was_a_removed_gang_is_a_placeholder(state: GangState) -> None:
    after = next_gang_state(state, GangTrigger.REMOVED, defined=False)

    assert after is GangState.PLACEHOLDER


@pytest.mark.parametrize("state", [GangState.SATISFIED, GangState.TIMED_OUT])
def test_what_came_before_its_gang_gathers_in_a_placeholder(state: GangState) -> None:
    after = next_gang_state(state, GangTrigger.EMPTIED, defined=False)

    assert after is GangState.PLACEHOLDER


@pytest.mark.parametrize("state", list(GangState))
def test_without_members_a_gang_is_as_new(state: GangState) -> None:
    defined = state is not GangState.PLACEHOLDER
    after = next_gang_state(state, GangTrigger.EMPTIED, defined=defined)

    assert after is (GangState.GATHERING if defined else GangState.PLACEHOLDER)


@pytest.mark.parametrize(
    ("topology", "written", "shown"),
    [
        (Topology(TopologyRule.SAME, "rack"), {"same": "rack"}, "same: rack"),
        (Topology(TopologyRule.PREFER, "rack"), {"prefer": "rack"}, "prefer: rack"),
        (Topology(TopologyRule.SPREAD, "zone"), {"spread": "zone"}, "spread: zone"),
        (
            Topology(TopologyRule.SPREAD, "zone", 2),
            {"spread": "zone", "max": 2},
            "spread: zone, max: 2",
        ),
    ],
)
def test_as_written_and_as_shown(
    topology: Topology, written: dict[str, str | int], shown: str
) -> None:
    assert topology.written() == written
    assert str(topology) == shown
