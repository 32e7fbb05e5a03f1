from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from muster.feeds import date_text, is_like_date, parse_date

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-01-31", "2026-01-31T00:00:00Z"),
        ("2026-01-31T18:30", "2026-01-31T18:30:00Z"),
        ("2026-01-31 18:30:05", "2026-01-31T18:30:05Z"),
        ("2026-01-31t18:30:05z", "2026-01-31T18:30:05Z"),
        ("2026-01-31T18:30:05.25+01:30", "2026-01-31T17:00:05.25Z"),
        ("2026-12-31T23:30:00-0100", "2027-01-01T00:30:00Z"),
        ("2026-12-31T23:30:00-01", "2027-01-01T00:30:00Z"),
        ("2026-12-31T23:59:59.9999995Z", "2027-01-01T00:00:00Z"),
        ("2026-12-31T23:59:59.99999949Z", "2026-12-31T23:59:59.999999Z"),
        (" 2026-01-31 ", "2026-01-31T00:00:00Z"),
        ("0001-01-01", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_dates(text: str, same: str) -> None:
    # FEED-85
    assert date_text(parse_date(text)) == same


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-01", "write it like"),
        ("2026-01-31T18", "write it like"),
        ("2026-01-31Z", "write it like"),
        ("2026-1-31", "write it like"),
        ("\u0662026-01-31", "write it like"),
        ("2026-01-31T18:30:00.Z", "write it like"),
        ("2026-01-31T18:30:00 Z", "write it like"),
        ("2026-04-31", "day is out of range for month"),
        ("2026-01-31T18:60:00Z", "minute must be in 0..59"),
        ("2026-12-31T23:59:60Z", "second must be in 0..59"),
        ("2026-01-31T18:30:00+01:60", "its offset must be below 24:00"),
        ("0000-01-01", "year 0 is out of range"),
        ("0001-01-01T00:00:00+00:01", "not within the years 1 to 9999"),
        ("9999-12-31T23:59:59.9999995Z", "not within the years 1 to 9999"),
    ],
)
def test_what_is_no_date(text: str, why: str) -> None:
    # FEED-85
    with pytest.raises(ValueError, match=f"^is no date: .*{why}"):
        parse_date(text)


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_they_mean_what_python_says(date: datetime, minutes: int) -> None:
    us = (date - EPOCH) // timedelta(microseconds=1)
    assert parse_date(date_text(us)) == us
    offset = timezone(timedelta(minutes=minutes))
    try:
        there = date.astimezone(offset)
    except OverflowError:
        return
    assert parse_date(there.isoformat()) == us


def test_an_instant_without_a_date() -> None:
    last_us = parse_date("9999-12-31T23:59:59.999999Z")

    assert date_text(last_us + 1) == "253402300800 s since 1970"


@pytest.mark.parametrize(
    ("text", "is_date"),
    [("2026-01-31", True), (" 2026-", True), ("2026", False), ("26-01-31", False), ("1m", False)],
)
def test_what_is_meant_as_a_date(text: str, is_date: bool) -> None:
    assert is_like_date(text) is is_date
