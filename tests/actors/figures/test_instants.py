"""Instants in the messages of reasons."""

from __future__ import annotations

from muster.figures.text import dated, instant_of


def date(at_us: int) -> str:
    return f"<{at_us}>"


def test_the_instant_of_a_message_is_written_as_a_date() -> None:
    reserved = "it would delay the reservation of a/k on n, which starts at 90.5 s"
    backs_off = "it is not tried before 7 s, for 2 s"

    assert dated(reserved, 90_500_000, date) == reserved.replace("90.5 s", "<90500000>")
    assert dated(backs_off, 7_000_000, date) == backs_off.replace("7 s", "<7000000>")


def test_other_numbers_stay() -> None:
    told = "at 17 s, at 7 sites, before 7.5 s, for 7 s"

    assert dated(told, 7_000_000, date) == told
    assert dated("which starts at 7 s", None, date) == "which starts at 7 s"


def test_facts_have_one_instant_or_none() -> None:
    assert instant_of({"until_us": 5, "left_us": 1}) == 5
    assert instant_of({"delays": "a/k", "start_us": 9}) == 9
    assert instant_of({"start_us": None}) is None
    assert instant_of({"left_us": 3}) is None
