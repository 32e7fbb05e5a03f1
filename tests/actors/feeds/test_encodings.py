"""The encodings of feeds: YAML, JSON Lines, JSON lists and msgpack, read and written."""

from __future__ import annotations

import io
import itertools
import json
import tracemalloc
from itertools import chain, repeat

import msgpack
import pytest
from hypothesis import given, strategies as st

from muster.feeds import (
    Encoding,
    FeedError,
    Plain,
    Raw,
    RawEvent,
    _encodings as msgpack_encoding,
    _json,
    _json as jsonl_encoding,
    convert,
    read_raw,
)
from muster.feeds._encodings import to_json_line, to_msgpack, to_yaml_item
from muster_core.config.tree import MAX_DEPTH
from tests.actors.feeds.helpers import VALUES, Pieces, raws


@given(VALUES)
def test_json_and_msgpack_say_what_they_were_given(value: Raw) -> None:
    value = json.loads(json.dumps(value), parse_int=lambda text: int(text[:15]))

    assert json.loads(to_json_line(value)) == value
    assert to_json_line(value).count(b"\n") == 1
    assert msgpack.unpackb(to_msgpack(value)) == value


@given(VALUES)
def test_yaml_says_what_it_was_given(value: Raw) -> None:
    [event] = raws(to_yaml_item(value), Encoding.YAML)

    assert event.problem is None
    assert _same(event.value, value)


def _same(read: Raw, written: Raw) -> bool:
    if isinstance(written, list):
        return isinstance(read, list) and all(map(_same, read, written))
    if isinstance(written, dict):
        return isinstance(read, dict) and all(
            key in read and _same(read[key], part) for key, part in written.items()
        )
    if isinstance(written, str):
        return read == written
    return isinstance(read, Plain) and read == json.dumps(written)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"op": "settle", "at": 1.5}, "- {op: settle, at: 1.5}\n"),
        (
            {"x": ["500m", "8Gi", "5", "off", "a/b-0", ""]},
            '- {x: [500m, 8Gi, "5", "off", a/b-0, ""]}\n',
        ),
        ({"x": [None, True, {"z": 0}]}, "- {x: [null, true, {z: 0}]}\n"),
        ("a\n\x07\x85\u2028é\U0001f600", '- "a\\n\\u0007\\u0085\\u2028é\U0001f600"\n'),
    ],
)
def test_how_yaml_looks(value: Raw, text: str) -> None:
    assert to_yaml_item(value).decode() == text


def test_what_is_no_unicode_is_escaped() -> None:
    assert to_json_line("a\udcff") == b'"a\\udcff"\n'
    assert to_msgpack("a\udcff") == b"\xa7a\\udcff"


def read_json_lines(text: str | bytes) -> list[RawEvent]:
    return raws(text, Encoding.JSON_LINES)


def test_one_event_a_line() -> None:
    events = read_json_lines('{"op": "settle"}\n\n  \r\n{"op": "settle", "at": 1.5}\r\n{"op": "x"}')

    assert [(event.index, event.line) for event in events] == [(0, 1), (1, 4), (2, 5)]
    assert events[1].value == {"op": "settle", "at": 1.5}


def test_texts_are_not_plain() -> None:
    [event] = read_json_lines('["5"]')

    assert isinstance(event.value, list)
    assert not isinstance(event.value[0], Plain)


def test_a_byte_order_mark_is_skipped() -> None:
    assert read_json_lines(b'\xef\xbb\xbf{"op": "settle"}\n')[0].problem is None


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
        ('\ufeff\ufeff{"a": 1}', "the line is not JSON: Unexpected UTF-8 BOM (decode using utf-8"),
        ('{"a": {"b": 1, "b": 2}, ]', "the line is not JSON: Expecting property name enclosed in"),
        ("[" * 300 + "]" * 300, "is nested deeper than 200 levels"),
        ("[" * 100_000, "is nested deeper than 200 levels"),
    ],
)
def test_what_is_wrong_with_one_line(line: str, message: str) -> None:
    events = read_json_lines(f'{line}\n{{"op": "settle"}}\n')

    assert (events[0].problem or "").startswith(message)
    assert events[1] == RawEvent(1, 2, {"op": "settle"})


def test_a_line_that_is_not_utf8() -> None:
    events = read_json_lines(b'{"op": "\xff"}\n{"op": "settle"}\n')

    assert events[0].problem == "the line is not UTF-8: byte 0xff: invalid start byte"
    assert events[1].problem is None


def test_surrogate_pairs_are_good() -> None:
    assert read_json_lines('{"a": "\\ud83d\\ude00"}')[0] == RawEvent(0, 1, {"a": "\U0001f600"})


def test_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_encoding, "MAX_LINE_BYTES", 20)
    events = read_json_lines(
        '{"op": "settle"}\n{"op": "settle", "at": 5, "xxxxxxxxxxxxxxxxxx": 5}\n{"op": "x"}\n'
    )

    assert [event.line for event in events] == [1, 2, 3]
    assert events[1].problem == "the line is longer than 20 bytes"


def test_json_lines_without_end_are_read_as_they_come() -> None:
    source = Pieces(itertools.repeat(b'{"op": "settle"}\n'))

    assert len(list(itertools.islice(read_raw(source), 500))) == 500
    assert source.reads <= 501


def read_json_list(text: str | bytes) -> list[RawEvent]:
    return raws(text, Encoding.JSON)


# FEED-90: a list is read event by event, each with its line
def test_a_list_of_events() -> None:
    events = read_json_list(
        '\n [{"op": "settle"},\n\n{"op": "settle",\n"at": 1.5}\r\n, {"op": "x"}\n]\n'
    )

    assert [(event.index, event.line) for event in events] == [(0, 2), (1, 4), (2, 6)]
    assert events[1].value == {"op": "settle", "at": 1.5}


@pytest.mark.parametrize("text", ["[]", " [ ]\n", "\ufeff[]"])
def test_a_list_without_events(text: str) -> None:
    assert read_json_list(text) == []


@given(st.lists(VALUES, max_size=5), st.integers(1, 30), st.sampled_from([None, 1]), st.booleans())
def test_it_does_not_matter_where_the_text_is_cut(
    values: list[object], size: int, indent: int | None, ascii_only: bool
) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    cut = [(event.line, event.value) for event in read_raw(Pieces(pieces), encoding=Encoding.JSON)]

    assert cut == [(event.line, event.value) for event in read_json_list(data)]
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
    bad, good = read_json_list(f'[{event},\n{{"op": "settle"}}]')

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
        read_json_list(text)

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


SETTLE = msgpack.packb({"op": "settle"})


def read_msgpack(data: bytes) -> list[RawEvent]:
    return raws(data, Encoding.MSGPACK)


def test_one_map_after_the_other() -> None:
    events = read_msgpack(SETTLE + msgpack.packb({"op": "x", "at": 1.5, "y": [None, True]}))

    assert events == [
        RawEvent(0, None, {"op": "settle"}),
        RawEvent(1, None, {"op": "x", "at": 1.5, "y": [None, True]}),
    ]


def test_an_empty_feed() -> None:
    assert read_msgpack(b"") == []


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
def test_what_is_wrong_with_one_event_in_msgpack(data: bytes, message: str) -> None:
    events = read_msgpack(SETTLE + data + SETTLE)

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
def test_what_ends_a_feed_in_msgpack(data: bytes, problem: str) -> None:
    reading = read_raw(Pieces(iter([SETTLE + data])))

    assert next(reading).problem is None
    with pytest.raises(FeedError) as caught:
        next(reading)
    assert caught.value.problem.startswith(problem)
    assert caught.value.line is None


def test_an_event_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msgpack_encoding, "MAX_EVENT_BYTES", 100_000)
    with pytest.raises(FeedError, match="not msgpack"):
        read_msgpack(msgpack.packb({"x": "y" * 200_000}))


def test_an_event_in_pieces() -> None:
    pieces = [SETTLE[index : index + 1] for index in range(len(SETTLE))] * 3

    assert len(list(read_raw(Pieces(iter(pieces))))) == 3


def test_msgpack_without_end_is_read_as_it_comes() -> None:
    source = Pieces(itertools.repeat(SETTLE))

    assert len(list(itertools.islice(read_raw(source), 500))) == 500
    assert source.reads <= 501


def read_yaml(text: str | bytes) -> list[RawEvent]:
    return raws(text, Encoding.YAML)


def problem(text: str) -> str:
    [event] = read_yaml(text)
    assert event.problem is not None
    return event.problem


def test_one_list() -> None:
    events = read_yaml("- op: settle\n- op: add_app\n  app: a\n")

    assert [(event.index, event.line) for event in events] == [(0, 1), (1, 2)]
    assert [event.value for event in events] == [{"op": "settle"}, {"op": "add_app", "app": "a"}]


def test_one_document_for_each_event() -> None:
    events = read_yaml("op: settle\n---\n# a comment\nop: settle\nat: 5\n---\n")

    assert [(event.index, event.line) for event in events] == [(0, 1), (1, 4)]


def test_lists_and_documents_may_be_mixed() -> None:
    assert len(read_yaml("- op: settle\n- op: settle\n---\nop: settle\n--- [{op: settle}]\n")) == 4


@pytest.mark.parametrize("text", ["", "\n", "---\n", "# nothing\n", "--- ~\n", "[]", "\ufeff"])
def test_nothing_is_no_event(text: str) -> None:
    assert read_yaml(text) == []


def test_plain_text_is_kept_as_it_stands() -> None:
    [event] = read_yaml(
        "- [off, 010, 0x10, 1_000, 12:30, 1.50, ~, '5', \"x\", |\n  y\n ]\n".replace(
            ", |\n  y\n", ""
        )
    )

    assert event.value == ["off", "010", "0x10", "1_000", "12:30", "1.50", "~", "5", "x"]
    assert isinstance(event.value, list)
    assert [isinstance(part, Plain) for part in event.value] == [True] * 7 + [False] * 2


def test_a_block_is_no_plain_text() -> None:
    [event] = read_yaml("- |\n  5\n")

    assert event.value == "5\n"
    assert not isinstance(event.value, Plain)


@pytest.mark.parametrize(
    ("text", "plain"),
    [("!!str 5", False), ("! 5", False), ("!!int '5'", True), ("!!bool 'on'", True)],
)
def test_a_tag_says_what_a_text_is(text: str, plain: bool) -> None:
    [event] = read_yaml(f"- {text}\n")

    assert isinstance(event.value, Plain) is plain
    assert event.problem is None


def test_what_aliases_stand_for() -> None:
    events = read_yaml("- &one {a: &two [1, 2]}\n- {x: *one, y: *two}\n")

    assert events[1].value == {"x": {"a": ["1", "2"]}, "y": ["1", "2"]}


def test_merging() -> None:
    [event] = read_yaml("- {<<: [{a: 1, b: 1}, {b: 2, c: 2}], a: 0}\n")

    assert event.value == {"a": "0", "b": "1", "c": "2"}


def test_a_quoted_merge_key_is_a_key() -> None:
    [event] = read_yaml("- {'<<': 5}\n")

    assert event.value == {"<<": "5"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {a: 1, b: 2, a: 3}", "line 1: the key 'a' stands twice"),
        ("- {[a]: 1}", "line 1: a key is no text"),
        ("- x: !fancy 5", "line 1: the tag !fancy is not known"),
        ("- !fancy {x: 5}", "line 1: the tag !fancy is not known"),
        ("- x: !!binary aaaa", "line 1: the tag tag:yaml.org,2002:binary is not known"),
        ("- x: *y", "line 1: the alias *y names no complete node"),
        ("- &a [*a]", "line 1: the alias *a names no complete node"),
        ("- {x: &a 1, y: &a [*a]}", "line 1: the alias *a names no complete node"),
        ("- {<<: 5}", "line 1: << takes a map or a list of maps"),
        ("- a: 1\n  <<:\n  - {b: 2}\n  - 5\n", "line 2: << takes a map or a list of maps"),
    ],
)
def test_what_is_wrong_with_one_event_in_yaml(text: str, message: str) -> None:
    assert problem(text) == message


def test_the_next_event_is_good_again() -> None:
    events = read_yaml("- {a: 1, a: *x}\n- {op: settle}\n--- *x\n---\nop: settle\n")

    assert [event.problem is None for event in events] == [False, True, False, True]


def test_an_anchor_ends_with_its_document() -> None:
    events = read_yaml("--- &a {op: settle}\n--- *a\n")

    assert [event.problem is None for event in events] == [True, False]


def test_deep_nesting_is_refused() -> None:
    assert problem(f"- {'[' * MAX_DEPTH}{'[' * 5}{']' * 5}{']' * MAX_DEPTH}").endswith("levels")


def test_nesting_by_aliases_is_refused() -> None:
    half = MAX_DEPTH // 2 + 10
    events = read_yaml(
        f"- &a {'[' * half}{']' * half}\n- {'[' * half}*a{']' * half}\n- op: settle\n"
    )

    assert [event.problem is None for event in events] == [True, False, True]


def test_bottomless_nesting_ends_the_feed() -> None:
    with pytest.raises(FeedError, match="nested deeper than 400 levels"):
        read_yaml("[" * 450)


def test_what_aliases_multiply_is_counted() -> None:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]" for n in range(30)]
    events = read_yaml("\n".join([*lines, "- op: settle\n"]))

    assert events[4].problem is None
    assert events[30].problem == "line 31: has more than 1000000 values, aliases counted"
    assert events[31].problem is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (b"- op: settle\n- op: [\n", 3, "not YAML: while parsing a flow node"),
        (b"- op: settle\n- 'x\n", 3, "not YAML: while scanning a quoted scalar"),
        (b"- op: settle\n- op: \xff\n", 2, "not text: byte 0xff"),
        (b"- op: settle\n- op: \xc3", 2, "not text: byte 0xc3"),
        (b"- op: settle\n- op: \x00\n", 2, "not YAML: the character U+0000"),
        (b'- op: settle\n- "\\U99999999"\n', 2, "not YAML"),
        (
            b'- op: settle\n- "\\ud800"\n',
            2,
            "not YAML: while parsing a quoted scalar found invalid",
        ),
        (b"- op: settle\n- !<\n", 2, "not YAML"),
        (b"%YAML 1.111\n---\nop: settle\n", 1, "not YAML"),
        (b"%YAML 1.9\n---\nop: settle\n", 1, "not YAML"),
        (b"%YAML 9.9\n---\n", 1, "not YAML: found incompatible YAML document"),
    ],
)
def test_what_ends_a_feed_in_yaml(text: bytes, line: int, message: str) -> None:
    with pytest.raises(FeedError) as caught:
        read_yaml(text)

    assert caught.value.line == line
    assert caught.value.problem.startswith(message)


def test_events_before_the_broken_place_are_given_out() -> None:
    reading = read_raw(Pieces(itertools.chain([b"- op: settle\n"] * 1000, [b"- [\n"])))

    with pytest.raises(FeedError):
        assert len([next(reading) for _ in range(900)]) == len(list(reading))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_marked_encodings(encoding: str) -> None:
    [event] = read_yaml("op: ä\n".encode(encoding))

    assert event.value == {"op": "ä"}


@pytest.mark.parametrize(
    "piece", [b"- {op: settle, x: 'y'}\n", b"- op: settle\n", b"---\nop: settle\n"]
)
def test_yaml_without_end_is_read_as_it_comes(piece: bytes) -> None:
    source = Pieces(itertools.repeat(piece))
    events = list(itertools.islice(read_raw(source), 500))

    assert [event.index for event in events] == list(range(500))
    assert source.reads < 1000
