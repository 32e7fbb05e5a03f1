"""The date of the start of a feed, and instants that are dates."""

from __future__ import annotations

import io
import json

import msgpack
import pytest
from hypothesis import given, strategies as st

from muster.feeds import Encoding, FeedOrigin, Refused, date_text, parse_date, read_feed
from tests.actors.feeds.helpers import items

START = parse_date("2026-01-01")
EVENT = {"op": "add_app", "queue": "root.q"}


def origin_of(text: str) -> int | None:
    origin = FeedOrigin()
    list(read_feed(io.BytesIO(text.encode()), origin=origin))
    return origin.us


def instants(*written: object) -> list[int]:
    """Give the instants of events with these `at`, in JSON; None for no `at`."""
    events = [{**EVENT, "app": f"a{n}", "at": at} for n, at in enumerate(written)]
    found = items("".join(json.dumps(event) + "\n" for event in events), Encoding.JSON_LINES)
    assert not any(isinstance(item.content, Refused) for item in found)
    return [item.at_us for item in found]


def test_the_first_date_is_instant_0() -> None:
    # FEED-86
    assert instants(None, 0, "2026-01-01", None, "2026-01-01T00:00:02Z", 3, "4s") == [
        *(0, 0, 0, 0, 2_000_000, 3_000_000, 4_000_000)
    ]


@pytest.mark.parametrize(
    ("feed", "origin_us"),
    [
        ("- {op: settle}\n- {op: settle, at: 2026-01-01}\n- {op: settle, at: 2026-01-02}", START),
        ("- {op: unknown, at: 2026-01-01}", START),
        ("- {op: settle, at: 5}\n- {op: settle, at: 2026-01-01}", None),
        ("- {op: settle, at: 2026-02-30}", None),
        ("- {op: settle}", None),
    ],
)
def test_the_origin(feed: str, origin_us: int | None) -> None:
    # FEED-86
    assert origin_of(feed) == origin_us


def test_the_origin_is_known_with_the_first_date() -> None:
    origin = FeedOrigin()
    feed = b"- {op: settle}\n- {op: settle, at: 2026-01-01}\n- {op: settle, at: 9999-01-01}\n"
    found = read_feed(io.BytesIO(feed), origin=origin)

    assert [next(found).at_us, origin.us] == [0, None]
    assert [next(found).at_us, origin.us] == [0, START]


@pytest.mark.parametrize("at", ["2026-01-01T00:00:05Z", "2026-01-01T01:00:05+01:00"])
def test_every_encoding_has_dates(at: str) -> None:
    # FEED-85
    events = [{"op": "settle", "at": "2026-01-01"}, {"op": "settle", "at": at}]
    feeds = [
        f"- {{op: settle, at: 2026-01-01}}\n- {{op: settle, at: {at}}}".encode(),
        f"- {{op: settle, at: '2026-01-01'}}\n- {{op: settle, at: '{at}'}}".encode(),
        "".join(json.dumps(event) + "\n" for event in events).encode(),
        b"".join(msgpack.packb(event) for event in events),
    ]
    for feed in feeds:
        assert [item.at_us for item in read_feed(io.BytesIO(feed))] == [0, 5_000_000]


def test_what_is_neither_a_duration_nor_a_date() -> None:
    [item] = items("- {op: settle, at: soon}")
    assert isinstance(item.content, Refused)
    assert item.content.message == (
        "at: 'soon' is not a duration: write seconds or a duration such as '1m30s', '500ms' or "
        "'1.5h', or a date such as '2026-01-31T18:30:00Z'"
    )


WRITTEN = st.sampled_from(["date", "number", "missing"])
DELTAS = st.integers(0, 10**12) | st.sampled_from([0, 1, 999_999, 86_400_000_000])


@given(st.integers(0, 10**15), st.lists(st.tuples(DELTAS, WRITTEN), max_size=8))
def test_a_feed_with_dates_is_one_with_numbers(
    origin_us: int, steps: list[tuple[int, str]]
) -> None:
    # FEED-86
    numbers: list[object] = [0]
    dates: list[object] = [date_text(origin_us)]
    at_us = 0
    for delta_us, how in steps:
        if how == "missing":
            numbers.append(None)
            dates.append(None)
            continue
        at_us += delta_us
        numbers.append(f"{at_us}us")
        dates.append(date_text(origin_us + at_us) if how == "date" else f"{at_us}us")
    assert instants(*dates) == instants(*numbers)
