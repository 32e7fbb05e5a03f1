"""Shapes and their bits, rows of amounts by the numbers of the types, and running sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.resources import Resources
from muster_core.structures.amounts import (
    Types,
    add_to,
    add_to_row,
    sum_of,
    take_from,
    take_from_row,
)
from muster_core.structures.shapes import (
    EVERY_SHAPE,
    KEPT_IDLE,
    MaskCounts,
    Shape,
    ShapeTable,
    bits_of,
)
from tests.core.building import shape

AMOUNTS = st.dictionaries(
    st.sampled_from(["vcore", "memory", "gpu"]), st.integers(1, 4), min_size=1
)
ROOM = st.dictionaries(st.sampled_from(["vcore", "memory", "gpu", "other"]), st.integers(-2, 5))
SHAPES = AMOUNTS.map(lambda amounts: Shape(Resources(amounts)))


def table_of(*shapes: Shape) -> tuple[ShapeTable, list[int]]:
    table = ShapeTable()
    return table, [table.add(one) for one in shapes]


def fitting_node(table: ShapeTable, free: Mapping[str, int]) -> set[int]:
    """Return the bits of what fits on a node with so much free."""
    return set(bits_of(table.fitting_node(free, {}) & sum(1 << bit for bit in table.shapes)))


def masks(table: ShapeTable, room: Mapping[str, int]) -> tuple[set[int], set[int]]:
    """Return the bits of what fits on a node with so much free, and in such a headroom."""
    everything = sum(1 << bit for bit in table.shapes)
    return (
        fitting_node(table, room),
        set(bits_of(table.fitting_headroom(room) & everything)),
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**40 - 1)), max_size=40))
def test_how_many_masks_have_each_bit(replacements: list[tuple[int, int]]) -> None:
    masks, counts = [0] * 10, MaskCounts()
    for at, mask in replacements:
        counts.replace(masks[at], mask)
        masks[at] = mask
        counts.check(masks)
    counts.keep_only(0b1010)
    counts.check([mask & 0b1010 for mask in masks])


def test_a_mask_that_was_not_counted_cannot_be_taken_out() -> None:
    counts = MaskCounts()
    counts.replace(0, 0b011)

    with pytest.raises(AssertionError, match="was not counted"):
        counts.replace(0b110, 0)


@given(st.sets(st.integers(0, 300)))
def test_the_bits_of_a_mask(bits: set[int]) -> None:
    assert list(bits_of(sum(1 << bit for bit in bits))) == sorted(bits)


def test_a_shape_without_wishes_matches_every_node() -> None:
    assert shape(vcore=1).matches("n", {})


@pytest.mark.parametrize(
    ("attributes", "matches"),
    [
        ({"zone": "x", "disk": "ssd", "more": "1"}, True),
        ({"zone": "x"}, False),
        ({"zone": "x", "disk": "SSD"}, False),
        ({}, False),
    ],
)
def test_every_attribute_of_a_selector_must_match(
    attributes: dict[str, str],
    matches: bool,
) -> None:
    wanted = shape(selector=[("disk", "ssd"), ("zone", "x")], vcore=1)

    assert wanted.matches("n", attributes) is matches


def test_a_required_node_is_matched_exactly() -> None:
    assert shape("n1", vcore=1).matches("n1", {})
    assert not shape("n1", vcore=1).matches("N1", {})
    assert not shape("n1", [("zone", "x")], vcore=1).matches("n1", {})


def test_bit_0_is_no_shape() -> None:
    _, bits = table_of(shape(vcore=1), shape(vcore=2))

    assert bits == [1, 2]


def test_shapes_are_equal_if_nodes_cannot_tell_them_apart() -> None:
    table, (bit,) = table_of(shape(vcore=1))

    assert table.find(shape(vcore=1, memory=0)) == bit
    assert table.find(shape(vcore=2)) is None
    assert table.find(shape("n", vcore=1)) is None


def test_nothing_fits_nowhere() -> None:
    assert fitting_node(ShapeTable(), {"vcore": 5}) == set()
    assert ShapeTable().fitting_headroom({"vcore": 5}) == EVERY_SHAPE


def test_a_type_that_a_node_lacks_is_none_but_one_without_a_quota_is_free() -> None:
    table, (bit,) = table_of(shape(vcore=1, gpu=1))

    assert masks(table, {"vcore": 1}) == (set(), {bit})


def test_below_zero_only_what_asks_nothing_of_the_type_fits() -> None:
    table, (one, other) = table_of(shape(vcore=1), shape(memory=1))

    assert masks(table, {"vcore": -5, "memory": 1}) == ({other}, {other})
    assert masks(table, {"vcore": 1, "memory": -1}) == ({one}, {one})


@given(st.lists(SHAPES, unique=True, max_size=12), ROOM)
def test_the_masks_are_those_of_a_search(shapes: list[Shape], room: dict[str, int]) -> None:
    table, bits = table_of(*shapes)
    on_node = {bit for bit, one in zip(bits, shapes, strict=True) if one.resources.fits_in(room)}
    in_headroom = {
        bit
        for bit, one in zip(bits, shapes, strict=True)
        if all(one.resources[name] <= most for name, most in room.items() if one.resources[name])
    }

    assert masks(table, room) == (on_node, in_headroom)


def test_the_shapes_that_name_a_type() -> None:
    table, (cpu, both, gpu) = table_of(shape(vcore=1), shape(vcore=2, memory=9), shape(gpu=1))

    named = {name: set(bits_of(table.naming([name]))) for name in ("vcore", "memory", "other")}
    assert named == {"vcore": {cpu, both}, "memory": {both}, "other": set()}
    assert set(bits_of(table.naming(["memory", "gpu"]))) == {both, gpu}
    assert table.naming([]) == 0


@given(st.lists(SHAPES, unique=True, max_size=12), st.sets(st.sampled_from(["vcore", "gpu", "x"])))
def test_those_that_name_one_of_several_are_those_of_a_search(
    shapes: list[Shape], names: set[str]
) -> None:
    table, bits = table_of(*shapes)
    naming = {bit for bit, one in zip(bits, shapes, strict=True) if names & set(one.resources)}

    assert set(bits_of(table.naming(names))) == naming


def test_a_few_idle_shapes_are_kept() -> None:
    table, bits = table_of(*(shape(vcore=amount + 1) for amount in range(KEPT_IDLE)))

    assert table.forget_idle() == []
    assert table.find(shape(vcore=1)) == bits[0]


def test_of_too_many_those_idle_longest_are_forgotten() -> None:
    table, bits = table_of(*(shape(vcore=amount + 1) for amount in range(2 * KEPT_IDLE)))
    table.acquire(bits[0])
    table.release(bits[0])

    assert table.forget_idle() == bits[1 : KEPT_IDLE + 1]
    assert table.find(shape(vcore=1)) == bits[0]
    assert table.find(shape(vcore=2)) is None


def test_as_many_idle_shapes_are_kept_as_are_in_use() -> None:
    table, bits = table_of(*(shape(vcore=amount + 1) for amount in range(6 * KEPT_IDLE)))
    for bit in bits[: 2 * KEPT_IDLE + 1]:
        table.acquire(bit)

    assert table.forget_idle() == []
    table.release(bits[0])
    assert len(table.forget_idle()) == 2 * KEPT_IDLE
    assert len(table.shapes) == 4 * KEPT_IDLE


def test_a_bit_that_was_given_back_is_used_again() -> None:
    table, bits = table_of(*(shape(vcore=amount + 1) for amount in range(2 * KEPT_IDLE)))
    forgotten = table.forget_idle()[-1]

    assert table.add(shape(memory=7)) == forgotten == bits[KEPT_IDLE - 1]
    assert table.find(shape(vcore=1)) is None
    assert forgotten in fitting_node(table, {"memory": 7})
    assert forgotten not in fitting_node(table, {"vcore": 10_000})


class Tables(RuleBasedStateMachine):
    """A table beside the plain list of the pending asks' shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ShapeTable()
        self.pending: list[Shape] = []

    @rule(wanted=SHAPES, times=st.integers(1, 3))
    def add(self, wanted: Shape, times: int) -> None:
        bit = self.table.find(wanted)
        if bit is None:
            bit = self.table.add(wanted)
        for _ in range(times):
            self.table.acquire(bit)
        self.pending += [wanted] * times

    @rule(first=st.integers(0, 20))
    def flood(self, first: int) -> None:
        for amount in range(first, first + 2 * KEPT_IDLE):
            wanted = shape("flood", vcore=amount + 1)
            bit = self.table.find(wanted)
            bit = self.table.add(wanted) if bit is None else bit
            self.table.acquire(bit)
            self.table.release(bit)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.pending))
        self.pending.remove(gone)
        bit = self.table.find(gone)
        assert bit is not None
        self.table.release(bit)

    @rule()
    def forget(self) -> None:
        forgotten = self.table.forget_idle()

        in_use = len(set(self.pending))
        assert not set(forgotten) & set(self.table.shapes)
        assert len(self.table.shapes) < in_use + 2 * max(KEPT_IDLE, in_use)

    @invariant()
    def holds(self) -> None:
        self.table.check(self.pending)

    @invariant()
    def the_pending_ones_are_found(self) -> None:
        bits = {self.table.find(wanted) for wanted in Counter(self.pending)}
        assert len(bits) == len(set(self.pending))
        assert None not in bits

    @invariant()
    def fits_as_a_search_says(self) -> None:
        room = {"vcore": 2, "memory": 3}
        found = {self.table.shapes[bit] for bit in fitting_node(self.table, room)}
        free = {"vcore": 5, "memory": 3}
        assert self.table.fitting_node(free, {"vcore": 3}) == self.table.fitting_node(room, {})
        assert found == {one for one in self.table.shapes.values() if one.resources.fits_in(room)}


TestTables = Tables.TestCase


HUGE_AMOUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2**70))


def test_types_are_numbered_as_they_appear() -> None:
    types = Types()

    assert types.row({"b": 5, "a": 7}) == [5, 7]
    assert types.row({"c": 1, "a": 2}) == [0, 2, 1]
    assert types.names == ["b", "a", "c"]
    assert [types.find(name) for name in "abcd"] == [1, 0, 2, None]


@given(st.lists(HUGE_AMOUNTS))
def test_a_row_has_the_amounts_without_zeros(several: list[dict[str, int]]) -> None:
    types = Types()
    rows = [types.row(amounts) for amounts in several]

    for row, amounts in zip(rows, several, strict=True):
        types.lengthen(row)
        assert types.amounts(row) == {name: amount for name, amount in amounts.items() if amount}


@given(HUGE_AMOUNTS, HUGE_AMOUNTS)
def test_amounts_are_added_and_taken_by_number(one: dict[str, int], other: dict[str, int]) -> None:
    types = Types()
    row, more = types.row(one), types.numbered(other)
    types.lengthen(row)
    before = list(row)

    add_to_row(row, more)
    assert row == [one.get(name, 0) + other.get(name, 0) for name in types.names]
    take_from_row(row, more)
    assert row == before


def test_who_keeps_rows_is_called_when_there_are_more_types() -> None:
    types = Types()
    kept = types.row({"a": 1})
    lengths: list[int] = []

    def lengthen() -> None:
        types.lengthen(kept)
        lengths.append(len(kept))

    types.call_when_grown(lengthen)
    types.numbered({"a": 5})
    assert lengths == []
    assert types.numbered({"c": 2, "b": 3, "a": 4}) == ((1, 2), (2, 3), (0, 4))
    assert lengths == [3]
    assert kept == [1, 0, 0]


POSITIVE_AMOUNTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 2**63 - 1))


def test_sums_have_no_limit() -> None:
    total: dict[str, int] = {}
    for _ in range(3):
        add_to(total, {"a": 2**63 - 1})

    assert total == {"a": 3 * (2**63 - 1)}


def test_the_sum_of_amounts() -> None:
    assert sum_of([{"a": 2, "b": 3}, {}, {"a": 1}]) == {"a": 3, "b": 3}
    assert sum_of([]) == {}


def test_there_are_no_zeros() -> None:
    total = {"a": 2, "b": 3}
    take_from(total, {"a": 2, "b": 1})

    assert total == {"b": 2}


def test_what_was_never_there_cannot_be_taken() -> None:
    with pytest.raises(KeyError):
        take_from({"a": 1}, {"b": 1})


@given(
    st.lists(POSITIVE_AMOUNTS).flatmap(
        lambda parts: st.tuples(st.just(parts), st.permutations(parts))
    )
)
def test_what_was_added_can_be_taken_in_any_order(
    parts: tuple[list[dict[str, int]], list[dict[str, int]]],
) -> None:
    total: dict[str, int] = {}
    for part in parts[0]:
        add_to(total, part)
    for part in parts[1]:
        take_from(total, part)

    assert total == {}
