"""What defines a gang."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.gangs import (
    NO_FIELDS,
    GangDefinition,
    GangFields,
    GangMode,
    Topology,
    TopologyRule,
    define,
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
