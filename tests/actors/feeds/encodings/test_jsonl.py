from __future__ import annotations

import itertools

import pytest

from muster.feeds import Encoding, Plain, RawEvent, _json as jsonl_encoding, read_raw
from tests.actors.feeds.helpers import Pieces, raws


def read(text: str | bytes) -> list[RawEvent]:
    return raws(text, Encoding.JSON_LINES)


def test_one_event_a_line() -> None:
    events = read('{"op": "settle"}\n\n  \r\n{"op": "settle", "at": 1.5}\r\n{"op": "x"}')

    assert [(event.index, event.line) for event in events] == [(0, 1), (1, 4), (2, 5)]
    assert events[1].value == {"op": "settle", "at": 1.5}


def test_texts_are_not_plain() -> None:
    [event] = read('["5"]')

    assert isinstance(event.value, list)
    assert not isinstance(event.value[0], Plain)


def test_a_byte_order_mark_is_skipped() -> None:
    assert read(b'\xef\xbb\xbf{"op": "settle"}\n')[0].problem is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"op": ', "the line is not JSON: Expecting value (column 8)"),
        ('{"op": 1} x', "the line is not JSON: Extra data (column 11)"),
        ("{op: settle}", "the line is not JSON: Expecting property name enclosed in double quotes"),
        ('{"at": NaN}', "the line is not JSON: NaN is no number"),
        ('{"at": -Infinity}', "the line is not JSON: -Infinity is no number"),
        ('{"at": 1e999}', "the line is not JSON: 1e999 is too large"),
        ('{"at": ' + "1" * 5000 + "}", "the line is not JSON: a number has too many digits"),
        ('{"a": 1, "b": 1, "a": 2}', "the key 'a' stands twice"),
        ('{"x": {"a": 1, "a": 2}}', "the key 'a' stands twice"),
        ('{"a": "\\ud800"}', r"'\ud800' is not Unicode text"),
        ('{"\\uD800": 1}', r"'\ud800' is not Unicode text"),
        ("[" * 300 + "]" * 300, "is nested deeper than 200 levels"),
        ("[" * 100_000, "is nested deeper than 200 levels"),
    ],
)
def test_what_is_wrong_with_one_line(line: str, message: str) -> None:
    events = read(f'{line}\n{{"op": "settle"}}\n')

    assert (events[0].problem or "").startswith(message)
    assert events[1] == RawEvent(1, 2, {"op": "settle"})


def test_a_line_that_is_not_utf8() -> None:
    events = read(b'{"op": "\xff"}\n{"op": "settle"}\n')

    assert events[0].problem == "the line is not UTF-8: byte 0xff: invalid start byte"
    assert events[1].problem is None


def test_surrogate_pairs_are_good() -> None:
    assert read('{"a": "\\ud83d\\ude00"}')[0] == RawEvent(0, 1, {"a": "\U0001f600"})


def test_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_encoding, "MAX_LINE_BYTES", 20)
    events = read(
        '{"op": "settle"}\n{"op": "settle", "at": 5, "xxxxxxxxxxxxxxxxxx": 5}\n{"op": "x"}\n'
    )

    assert [event.line for event in events] == [1, 2, 3]
    assert events[1].problem == "the line is longer than 20 bytes"


def test_a_feed_without_end_is_read_as_it_comes() -> None:
    source = Pieces(itertools.repeat(b'{"op": "settle"}\n'))

    assert len(list(itertools.islice(read_raw(source), 500))) == 500
    assert source.reads <= 501
