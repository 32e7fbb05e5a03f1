from __future__ import annotations

import io
import json
import tracemalloc
from itertools import chain, repeat

import pytest
from hypothesis import given, strategies as st

from muster.feeds import Encoding, FeedError, RawEvent, _json, convert, read_raw
from tests.actors.feeds.helpers import Pieces, raws
from tests.actors.feeds.strategies import VALUES


def read(text: str | bytes) -> list[RawEvent]:
    return raws(text, Encoding.JSON)


# FEED-90: a list is read event by event, each with its line
def test_a_list_of_events() -> None:
    events = read('\n [{"op": "settle"},\n\n{"op": "settle",\n"at": 1.5}\r\n, {"op": "x"}\n]\n')

    assert [(event.index, event.line) for event in events] == [(0, 2), (1, 4), (2, 6)]
    assert events[1].value == {"op": "settle", "at": 1.5}


@pytest.mark.parametrize("text", ["[]", " [ ]\n", "\ufeff[]"])
def test_a_list_without_events(text: str) -> None:
    assert read(text) == []


@given(st.lists(VALUES, max_size=5), st.integers(1, 30), st.sampled_from([None, 1]), st.booleans())
def test_it_does_not_matter_where_the_text_is_cut(
    values: list[object], size: int, indent: int | None, ascii_only: bool
) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    cut = [(event.line, event.value) for event in read_raw(Pieces(pieces), encoding=Encoding.JSON)]

    assert cut == [(event.line, event.value) for event in read(data)]
    assert [value for _, value in cut] == json.loads(data)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ('{"at": NaN}', "NaN is no number"),
        ('{"at": 1e999}', "1e999 is too large"),
        ('{"at": ' + "1" * 5000 + "}", "a number has too many digits"),
        ('{"x": {"a": 1, "a": 2}}', "the key 'a' stands twice"),
        ('{"a": "\\ud800"}', r"'\ud800' is not Unicode text"),
        ("[" * 300 + "]" * 300, "is nested deeper than 200 levels"),
    ],
)
def test_what_no_feed_can_say_refuses_one_event(event: str, message: str) -> None:
    bad, good = read(f'[{event},\n{{"op": "settle"}}]')

    assert bad.problem == message
    assert good == RawEvent(1, 2, {"op": "settle"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"op": "settle"}', "feed:1: not JSON: the end instead of ',' or ']'"),
        ('[{"op": "settle"}\n{', "feed:2: not JSON: '{' instead of ',' or ']'"),
        ('[{"op": "settle"},\n]', "feed:2: not JSON: Expecting value"),
        ('[{"op": "settle"},\n{"op": settle}]', "feed:2: not JSON: Expecting value"),
        ('[{"op": "settle"},\n{"op": "set', "feed:2: not JSON: Unterminated string starting at"),
        ('[{"op": "settle"}]\n[', "feed:2: not JSON: something follows the end of the list"),
        (b'[{"op":\n"\xff"}]', "feed:2: not text: byte 0xff: invalid start byte"),
        ("[" * 100_000, "feed:1: is nested deeper than 200 levels"),
    ],
)
def test_what_is_not_json_ends_the_feed(text: str | bytes, message: str) -> None:
    with pytest.raises(FeedError) as raised:
        read(text)

    assert str(raised.value) == message


def test_a_mistake_ends_the_feed_before_the_rest_is_read() -> None:
    pieces = Pieces(chain([b'[{"op": settle},\n'], repeat(b'{"op": "settle"},\n')))
    with pytest.raises(FeedError, match="Expecting value"):
        list(read_raw(pieces, encoding=Encoding.JSON))

    assert pieces.reads < 10


def test_an_event_that_never_ends_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json, "MAX_CHARACTERS", 200_000)
    pieces = Pieces(chain([b'[{"op": "'], repeat(b"a" * 65_536)))
    with pytest.raises(FeedError, match="an event is longer than 200000 characters"):
        list(read_raw(pieces, encoding=Encoding.JSON))


# FEED-90: neither reading nor writing a list needs more memory for more events
def test_a_list_of_any_length_is_converted_in_little_memory() -> None:
    line = json.dumps({"op": "add_app", "app": "a" * 1000, "queue": "q"}).encode()
    pieces = Pieces(chain([b"[" + line], repeat(b",\n" + line, 8_000), [b"]"]))

    class Sink:
        size = 0

        def write(self, data: bytes, /) -> None:
            self.size += len(data)

    sink = Sink()
    tracemalloc.start()
    assert convert(pieces, sink, target_encoding=Encoding.JSON) == 8_001
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert sink.size > 8_000_000
    assert peak_bytes < 2_000_000


@given(st.lists(VALUES, max_size=4))
def test_what_is_written_is_one_list_of_the_same(values: list[object]) -> None:
    lines = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    written: dict[Encoding, bytes] = {}
    for encoding in (Encoding.JSON, Encoding.JSON_LINES):
        out = io.BytesIO()
        convert(
            io.BytesIO(lines),
            out,
            source_encoding=Encoding.JSON_LINES,
            target_encoding=encoding,
        )
        written[encoding] = out.getvalue()

    same = [json.loads(line) for line in written[Encoding.JSON_LINES].splitlines()]
    assert json.loads(written[Encoding.JSON]) == same
