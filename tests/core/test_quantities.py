"""Quantities, durations, resources and devices.

What is taken, what is refused, and that it is exact.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from muster_core.errors import EventError, InsufficientError, QuantityError
from muster_core.events import AddAsk, AddNode, PodObject, UpdateNode
from muster_core.resources import MAX_QUANTITY, NOTHING, Resources
from muster_core.values.devices import (
    DeviceNeed,
    DeviceStock,
    is_device_type,
    stocks_in,
    with_needs,
    with_stocks,
    without_devices,
)
from muster_core.values.resources import (
    format_quantity,
    parse_duration,
    parse_go_int32,
    parse_integer,
    parse_quantity,
    shown,
)

SUFFIXES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}
DIGITS = st.text("0123456789", min_size=1, max_size=22)
BLANKS = st.sampled_from(["", " ", "  ", "\t"])


def read(type_name: str, written: object) -> int | None:
    """Return the quantity, or None if it is refused."""
    try:
        return parse_quantity(type_name, written)
    except QuantityError:
        return None


@pytest.mark.parametrize(
    ("type_name", "written", "amount"),
    [
        ("vcore", "2", 2000),
        ("vcore", "0.5", 500),
        ("vcore", "500m", 500),
        ("vcore", "1.5m", None),
        ("vcore", "1k", 1_000_000),
        ("vcore", "1e-3", 1),
        ("memory", "1k", 1000),
        ("memory", "1Ki", 1024),
        ("memory", "1.5Gi", 3 * 2**29),
        ("memory", "7Ei", 7 * 2**60),
        ("memory", "1m", None),
        ("memory", "1e3", 1000),
        ("memory", "1E3", 1000),
        ("memory", "1e+3", 1000),
        ("memory", "2500e-2", 25),
        ("memory", "1E", 10**18),
        ("memory", " 1 k ", 1000),
        ("memory", "1 e3", 1000),
        ("nvidia.com/gpu", "8", 8),
        ("pods", "010", 10),
        ("pods", "0.0", 0),
        ("cpu", "500m", None),
    ],
)
def test_forms(type_name: str, written: str, amount: int | None) -> None:
    assert read(type_name, written) == amount


NO_QUANTITIES: list[object] = [
    *("", " ", "x", ".5", "1.", "+1", "1,5", "1_000", "0x10", "1K", "1ki", "1KB", "1e", "1e3k"),
    *("1 000", "1.2.3", "1e1.5", "12:30", "off", "nan", "inf", "--1", "9" * 2000),
    *("\N{ARABIC-INDIC DIGIT ONE}", "1\N{NO-BREAK SPACE}k"),
    *(None, True, False, [], {}, b"1", float("inf"), float("nan"), -1, -0.5),
]


@pytest.mark.parametrize("written", NO_QUANTITIES, ids=shown)
def test_anything_else_is_refused(written: object) -> None:
    with pytest.raises(QuantityError):
        parse_quantity("memory", written)


@pytest.mark.parametrize(
    ("type_name", "written", "why"),
    [
        ("memory", "-1", "'-1' is negative"),
        ("vcore", -2, "'-2' is negative"),
        ("vcore", "0.0001", "'0.0001' is not a whole number of millicores"),
        ("memory", "1.5", "'1.5' is not a whole number of base units"),
        (
            "nvidia.com/gpu",
            "1.5",
            (
                "'1.5' is not a whole number of base units: this type has no parts of a unit, "
                "so write a whole number"
            ),
        ),
        ("memory", "8Ei", "'8Ei' is too large: the most is 9223372036854775807 base units"),
        ("memory", "much", "'much' is not a quantity: write a number, alone or with one of k, M"),
        ("vcore", "1x", "alone or with one of m, k"),
        ("memory", True, "True is not a quantity"),
    ],
)
def test_the_message_shows_the_value_and_what_would_be_right(
    type_name: str, written: object, why: str
) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(type_name, written)

    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("written", "amount"), [(3, 3), (0, 0), (2.0, 2), (1e16, 10**16), (0.5, None), (1e-7, None)]
)
def test_numbers_of_json_and_msgpack(written: float, amount: int | None) -> None:
    assert read("memory", written) == amount


def test_a_float_counts_as_its_shortest_text() -> None:
    assert parse_quantity("vcore", 0.1) == 100
    assert parse_quantity("vcore", 1.1) == 1100
    assert parse_quantity("vcore", 0.001) == 1


@pytest.mark.parametrize("exponent", ["999999999999999999", "-999999999999999999"])
def test_an_exponent_beyond_all_bounds_is_quick(exponent: str) -> None:
    assert read("memory", f"1e{exponent}") is None
    assert read("memory", f"0e{exponent}") == 0


@given(whole=DIGITS, fraction=st.none() | DIGITS, suffix=st.sampled_from(list(SUFFIXES)))
@example(whole="9223372036854775807", fraction=None, suffix="")
@example(whole="9223372036854775808", fraction=None, suffix="")
@example(whole="7", fraction="999999999999999999", suffix="Ei")
def test_amounts_are_exact(whole: str, fraction: str | None, suffix: str) -> None:
    number = whole if fraction is None else f"{whole}.{fraction}"
    exact = Fraction(number) * SUFFIXES[suffix]
    fits = exact.denominator == 1 and exact <= MAX_QUANTITY

    assert read("memory", number + suffix) == (exact if fits else None)


@given(whole=DIGITS, fraction=st.none() | DIGITS, suffix=st.sampled_from([*SUFFIXES, "m"]))
def test_cores_are_exact(whole: str, fraction: str | None, suffix: str) -> None:
    number = whole if fraction is None else f"{whole}.{fraction}"
    exact = Fraction(number) * (SUFFIXES[suffix] * 1000 if suffix != "m" else 1)
    fits = exact.denominator == 1 and exact <= MAX_QUANTITY

    assert read("vcore", number + suffix) == (exact if fits else None)


@given(number=DIGITS, exponent=st.integers(-40, 40), letter=st.sampled_from("eE"))
def test_exponents_are_exact(number: str, exponent: int, letter: str) -> None:
    exact = int(number) * Fraction(10) ** exponent
    fits = exact.denominator == 1 and exact <= MAX_QUANTITY

    assert read("pods", f"{number}{letter}{exponent}") == (exact if fits else None)


@given(before=BLANKS, between=BLANKS, after=BLANKS, suffix=st.sampled_from([*SUFFIXES, "e2"]))
def test_blanks_do_not_matter(before: str, between: str, after: str, suffix: str) -> None:
    assert read("pods", f"{before}3{between}{suffix}{after}") == read("pods", f"3{suffix}")


@given(st.integers(0, MAX_QUANTITY) | st.integers(0, 10**6).map(lambda n: n * 2**20))
def test_what_is_formatted_reads_as_the_same_amount(amount: int) -> None:
    for type_name in ("vcore", "memory", "pods"):
        assert parse_quantity(type_name, format_quantity(type_name, amount)) == amount


@pytest.mark.parametrize(
    ("type_name", "amount", "text"),
    [
        ("vcore", 2000, "2"),
        ("vcore", 1500, "1500m"),
        ("memory", 0, "0"),
        ("memory", 10 * 2**30, "10Gi"),
        ("memory", 12 * 10**9, "12G"),
        ("memory", 1001, "1001"),
        ("pods", 1024, "1024"),
    ],
)
def test_formatting(type_name: str, amount: int, text: str) -> None:
    assert format_quantity(type_name, amount) == text


@given(st.text())
def test_no_text_does_anything_but_be_read_or_refused(text: str) -> None:
    for type_name in ("vcore", "memory"):
        amount = read(type_name, text)
        assert amount is None or 0 <= amount <= MAX_QUANTITY


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("1m30s", 90_000_000),
        ("3600s", 3_600_000_000),
        ("1h", 3_600_000_000),
        ("1h1m1.5s", 3_661_500_000),
        ("500ms", 500_000),
        ("1.5s", 1_500_000),
        (".5s", 500_000),
        ("1.s", 1_000_000),
        ("1us", 1),
        ("1µs", 1),
        ("1μs", 1),
        ("1500ns", 2),
        ("1499ns", 1),
        ("0.0000005", 1),
        ("90", 90_000_000),
        (" 90 ", 90_000_000),
        ("1.5", 1_500_000),
        ("1e3", 1_000_000_000),
        (91, 91_000_000),
        (0.1, 100_000),
        (0, 0),
        ("0s", 0),
        ("1s1s", 2_000_000),
    ],
)
def test_durations(written: object, microseconds: int) -> None:
    assert parse_duration(written) == microseconds


NO_DURATIONS: list[object] = [
    *("", " ", "s", ".s", "-1s", "-0", "+1s", "1 s", "1d", "1m 30s", "1s2", "1x", "soon", "12:30"),
    *("1e3s", "0x10", "1_000", "9999999999h", "1" * 2000, "\N{ARABIC-INDIC DIGIT ONE}s"),
    *(10**20, -1, -0.5, float("inf"), float("nan"), None, True, [], {}),
]


@pytest.mark.parametrize("written", NO_DURATIONS, ids=shown)
def test_what_is_no_duration(written: object) -> None:
    with pytest.raises(QuantityError):
        parse_duration(written)


def test_without_seconds_a_number_needs_a_unit() -> None:
    assert parse_duration("0", seconds=False) == 0
    assert parse_duration("30s", seconds=False) == 30_000_000
    with pytest.raises(QuantityError, match="write a duration such as"):
        parse_duration("30", seconds=False)


@given(st.integers(0, 10**12), st.integers(0, 10**9 - 1))
def test_durations_round_to_the_nearest_microsecond(whole: int, nanoseconds: int) -> None:
    exact = whole * 10**6 + Fraction(nanoseconds, 1000)

    assert abs(parse_duration(f"{whole}s{nanoseconds}ns") - exact) <= Fraction(1, 2)


DAYS = "the largest unit is h: "


# CONFIG-55
@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("1:30:00", "write 1h30m"),
        ("00:00:30", "write 30s"),
        ("0:00:00", "write 0s"),
        ("1d", f"{DAYS}write 24h"),
        ("4d 04:01:00", f"{DAYS}write 100h1m"),
        ("1-12", f"{DAYS}write 36h"),
        ("1-12:30", f"{DAYS}write 36h30m"),
        ("1-00:00:05", f"{DAYS}write 24h5s"),
        ("2 days, 3 hours", f"{DAYS}write 51h"),
        ("1:30", "write 1h30m or 1m30s"),
        ("90 min", "write 90m"),
        ("1h 30m", "write 1h30m"),
    ],
)
def test_a_duration_in_another_form_is_refused_with_what_would_be_right(
    written: str, right: str
) -> None:
    for seconds in (True, False):
        with pytest.raises(QuantityError) as caught:
            parse_duration(written, seconds=seconds)
        assert str(caught.value) == f"{written!r} is not a duration: {right}"
    for duration in right.removeprefix(DAYS).removeprefix("write ").split(" or "):
        parse_duration(duration)


@pytest.mark.parametrize("written", ["soon", "", "1:60:00", "d", "1:2:3:4", "-1d", "1" * 41 + "d"])
def test_what_resembles_no_duration_gets_examples(written: str) -> None:
    with pytest.raises(QuantityError, match="write seconds or a duration such as"):
        parse_duration(written)


@given(st.text("0123456789.hmsunµe- "))
def test_no_duration_does_anything_but_be_read_or_refused(text: str) -> None:
    try:
        duration = parse_duration(text)
    except QuantityError:
        return
    assert 0 <= duration <= MAX_QUANTITY


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("+5", 5),
        ("-5", -5),
        ("-0", 0),
        ("2147483647", 2**31 - 1),
        ("2147483648", None),
        ("-2147483648", -(2**31)),
        ("-2147483649", None),
        *((text, None) for text in ("", "+", "-", "--5", " 5", "5 ", "1_000", "0x10", "1.0")),
        *((text, None) for text in ("1e3", "\N{ARABIC-INDIC DIGIT THREE}", "five", "9" * 5000)),
    ],
)
def test_go_int32(text: str, number: int | None) -> None:
    assert parse_go_int32(text) == number


@pytest.mark.parametrize(
    ("written", "number"), [("5", 5), (6, 6), ("+5", 5), ("-5", -5), ("05", 5)]
)
def test_integers(written: object, number: int) -> None:
    assert parse_integer(written, -10, 10) == number


@pytest.mark.parametrize(
    "written",
    ["", "5.0", 5.0, True, None, 11, "11", -11, "x", " 5", "1_0", "9" * 5000],
    ids=shown,
)
def test_what_is_no_integer_between_the_bounds(written: object) -> None:
    with pytest.raises(QuantityError, match="is not a whole number between -10 and 10"):
        parse_integer(written, -10, 10)


def test_numbers_too_long_to_print_are_refused_like_others() -> None:
    huge = 10**5000
    why = "a number of more than 40 digits"

    with pytest.raises(QuantityError, match=why):
        parse_quantity("memory", huge)
    with pytest.raises(QuantityError, match=why):
        parse_duration(huge)
    with pytest.raises(QuantityError, match=why):
        parse_integer(huge, 0, 1)


def test_long_values_are_cut_short_in_messages() -> None:
    assert shown("x" * 80) == "'" + "x" * 59 + "… (82 characters)"
    assert shown("short") == "'short'"
    assert shown(10**5000) == "a number of more than 40 digits"


AMOUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 100))


def test_zero_is_the_same_as_missing() -> None:
    assert Resources({"vcore": 0}) == NOTHING
    assert hash(Resources({"vcore": 0})) == hash(Resources())
    assert "vcore" not in Resources({"vcore": 0})


def test_a_missing_type_is_zero() -> None:
    assert Resources({"vcore": 1})["memory"] == 0


def test_the_order_of_types_is_that_of_their_names() -> None:
    assert list(Resources({"vcore": 1, "memory": 2})) == ["memory", "vcore"]
    assert repr(Resources({"b": 1, "a": 2})) == "Resources({'a': 2, 'b': 1})"


@pytest.mark.parametrize("amount", [-1, MAX_QUANTITY + 1])
def test_an_amount_out_of_bounds_is_refused(amount: int) -> None:
    with pytest.raises(QuantityError, match="gpu"):
        Resources({"vcore": 1, "gpu": amount})


def test_adding_more_than_there_can_be_names_the_type() -> None:
    most = Resources({"vcore": 1, "gpu": MAX_QUANTITY})

    with pytest.raises(QuantityError, match="gpu"):
        _ = most + Resources({"gpu": 1})


def test_taking_more_than_there_is_names_the_type_and_changes_nothing() -> None:
    some = Resources({"vcore": 5, "memory": 5})

    with pytest.raises(InsufficientError, match="memory: 6 taken, but there is only 5"):
        _ = some - Resources({"vcore": 1, "memory": 6})
    assert some == Resources({"vcore": 5, "memory": 5})


def test_taking_a_type_that_is_not_there() -> None:
    with pytest.raises(InsufficientError, match="gpu: 1 taken, but there is only 0"):
        _ = NOTHING - Resources({"gpu": 1})


@pytest.mark.parametrize(
    ("amount", "room", "fits"),
    [
        ({}, {}, True),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 2}, {"a": 1, "b": 5}, False),
        ({"a": 1}, {"b": 5}, False),
    ],
)
def test_fitting(amount: dict[str, int], room: dict[str, int], fits: bool) -> None:
    assert Resources(amount).fits_in(Resources(room)) is fits
    assert Resources(amount).fits_in(room) is fits


def test_resources_differ_from_other_maps() -> None:
    assert Resources({"a": 1}) != {"a": 1}


@given(AMOUNTS, AMOUNTS)
def test_what_was_added_can_be_taken_away(left: dict[str, int], right: dict[str, int]) -> None:
    total = Resources(left) + Resources(right)

    assert total == Resources(right) + Resources(left)
    assert total - Resources(right) == Resources(left)
    assert Resources(left).fits_in(total)


@given(AMOUNTS, AMOUNTS)
def test_taking_works_exactly_where_it_fits(left: dict[str, int], right: dict[str, int]) -> None:
    fits = Resources(left).fits_in(Resources(right))

    try:
        _ = Resources(right) - Resources(left)
    except InsufficientError:
        assert not fits
    else:
        assert fits


CORE = Resources({"vcore": 1000})
GPU = {"gpu": DeviceNeed(count=2)}


@pytest.mark.parametrize("count", [0, 65, True, 1.0])
def test_a_stock_has_a_number_of_devices(count: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(EventError, match=r"count: .* is not a whole number from 1 to 64"):
        DeviceStock(count)
    with pytest.raises(EventError, match="model: '' is not a text"):
        DeviceStock(1, "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "count: 0 is not"),
        ({"milli": 1000}, "milli: 1000 is not a whole number from 1 to 999"),
        ({"milli": 5, "count": 1}, "count: 1 is not a whole number from 0 to 0"),
        ({"count": -1}, "count: -1 is not"),
        ({"count": 1, "models": []}, "models: an empty list lets the ask run nowhere"),
        ({"count": 1, "models": [""]}, "models: '' is not a text"),
    ],
)
def test_a_need_is_a_share_or_whole_ones(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(EventError, match=message):
        DeviceNeed(**fields)


def test_what_a_need_comes_to() -> None:
    share, whole = DeviceNeed(milli=250), DeviceNeed(count=3, models=["b", "a", "b"])
    assert (share.is_share, share.on_one, share.amount) == (True, 250, 250)
    assert (whole.is_share, whole.on_one, whole.amount) == (False, 1000, 3000)
    assert whole == DeviceNeed(count=3, models=("a", "b"))
    assert [whole.admits(model) for model in ("a", "c", None)] == [True, False, False]
    assert share.admits(None)


def test_types_are_labels() -> None:
    good = ["gpu", "g", "a-1", "a" * 63]
    bad = ["", "GPU", "-a", "a-", "a.b", "a/b", "a" * 64, "gpu\n"]
    assert [is_device_type(name) for name in good + bad] == [True] * 4 + [False] * 8


def test_they_are_resources_in_thousandths() -> None:
    wanted = with_needs(CORE, {"gpu": DeviceNeed(milli=5), "nic": DeviceNeed(count=2)})
    assert dict(wanted) == {"device/gpu": 5, "device/nic": 2000, "vcore": 1000}
    assert without_devices(wanted) == {"vcore": 1000}
    room = with_stocks({"vcore": 1}, {"gpu": DeviceStock(2, "T4")})
    assert room == {"device/gpu": 2000, "vcore": 1}
    assert stocks_in(room) == {"gpu": DeviceStock(2)}


def test_events_have_them_beside_their_resources() -> None:
    ask = AddAsk("a", "x", Resources(), devices=GPU)
    assert dict(ask.wanted) == {"device/gpu": 2000}
    assert AddAsk("a", "x", CORE).wanted is CORE
    node = AddNode("n", CORE, devices={"gpu": DeviceStock(1)})
    assert dict(node.room) == {"device/gpu": 1000, "vcore": 1000}


@pytest.mark.parametrize("name", ["device/gpu", "device/", "device/GPU"])
def test_they_are_not_named_among_resources(name: str) -> None:
    amount = Resources({"vcore": 1, name: 1})
    for make in (
        lambda: AddAsk("a", "x", amount),
        lambda: AddAsk("a", "x", amount, devices=GPU),
        lambda: AddNode("n", amount),
        lambda: UpdateNode("n", amount),
    ):
        with pytest.raises(EventError, match=f"{name}: devices are no resources"):
            make()


@pytest.mark.parametrize("devices", [{"GPU": DeviceNeed(count=1)}, {"gpu": 1}, 5, {1: GPU}])
def test_events_refuse_what_are_no_devices(devices: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(EventError, match="devices"):
        AddAsk("a", "x", CORE, devices=devices)
    with pytest.raises(EventError, match="devices"):
        AddNode("n", CORE, devices=devices)


def test_an_ask_needs_something() -> None:
    with pytest.raises(EventError, match=r"resources: .* is not an amount with at least one type"):
        AddAsk("a", "x", Resources(), devices={})


# DEVICE-11
def test_a_pod_has_none() -> None:
    with pytest.raises(EventError, match=r"ask\.devices: .* a Pod has no devices"):
        PodObject("a", "x", ask=AddAsk("a", "x", CORE, devices=GPU))
