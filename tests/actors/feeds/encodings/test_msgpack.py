from __future__ import annotations

import itertools

import msgpack
import pytest

from muster.feeds import Encoding, FeedError, RawEvent, _encodings as msgpack_encoding, read_raw
from tests.actors.feeds.helpers import Pieces, raws

SETTLE = msgpack.packb({"op": "settle"})


def read(data: bytes) -> list[RawEvent]:
    return raws(data, Encoding.MSGPACK)


def test_one_map_after_the_other() -> None:
    events = read(SETTLE + msgpack.packb({"op": "x", "at": 1.5, "y": [None, True]}))

    assert events == [
        RawEvent(0, None, {"op": "settle"}),
        RawEvent(1, None, {"op": "x", "at": 1.5, "y": [None, True]}),
    ]


def test_an_empty_feed() -> None:
    assert read(b"") == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (msgpack.packb({1: 2}), "the key 1 is no text"),
        (b"\x82\xa1a\x01\xa1a\x02", "the key 'a' stands twice"),
        (msgpack.packb({"a": b"x"}), "b'x' is bytes, which no field of a feed is"),
        (b"\x81\xa1a\xa1\xff", r"'\udcff' is not Unicode text"),
        (b"\x81\xa1\xff\x01", r"'\udcff' is not Unicode text"),
        (msgpack.packb(msgpack.ExtType(5, b"x")), "ExtType(code=5, data=b'x') is ExtType"),
        (msgpack.packb({"a": msgpack.Timestamp(1)}), "Timestamp(seconds=1"),
        (b"\x91" * 300 + b"\x01", "is nested deeper than 200 levels"),
        (b"\x81" + b"\x91" * 3 + b"\x01" * 2, "the key [[[1]]] is no text"),
    ],
)
def test_what_is_wrong_with_one_event(data: bytes, message: str) -> None:
    events = read(SETTLE + data + SETTLE)

    assert [event.problem is None for event in events] == [True, False, True]
    assert (events[1].problem or "").startswith(message)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (SETTLE[:-1], "event 1 at byte 11: the feed ends within it"),
        (b"\xc1", "event 1 at byte 11: not msgpack"),
        (b"\x91" * 5000, "event 1 at byte 11: not msgpack"),
        (b"\xdd\xff\xff\xff\xff", "event 1 at byte 11: not msgpack"),
        (b"\xd4\xff\x00", "event 1 at byte 11: not msgpack"),
    ],
)
def test_what_ends_the_feed(data: bytes, problem: str) -> None:
    reading = read_raw(Pieces(iter([SETTLE + data])))

    assert next(reading).problem is None
    with pytest.raises(FeedError) as caught:
        next(reading)
    assert caught.value.problem.startswith(problem)
    assert caught.value.line is None


def test_an_event_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msgpack_encoding, "MAX_EVENT_BYTES", 100_000)
    with pytest.raises(FeedError, match="not msgpack"):
        read(msgpack.packb({"x": "y" * 200_000}))


def test_an_event_in_pieces() -> None:
    pieces = [SETTLE[index : index + 1] for index in range(len(SETTLE))] * 3

    assert len(list(read_raw(Pieces(iter(pieces))))) == 3


def test_a_feed_without_end_is_read_as_it_comes() -> None:
    source = Pieces(itertools.repeat(SETTLE))

    assert len(list(itertools.islice(read_raw(source), 500))) == 500
    assert source.reads <= 501
