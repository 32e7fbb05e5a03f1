from __future__ import annotations

import itertools

import pytest

from muster.feeds import Encoding, FeedError, Plain, RawEvent, read_raw
from muster.feeds._raw import MAX_DEPTH
from tests.actors.feeds.helpers import Pieces, raws


def read(text: str | bytes) -> list[RawEvent]:
    return raws(text, Encoding.YAML)


def problem(text: str) -> str:
    [event] = read(text)
    assert event.problem is not None
    return event.problem


def test_one_list() -> None:
    events = read("- op: settle\n- op: add_app\n  app: a\n")

    assert [(event.index, event.line) for event in events] == [(0, 1), (1, 2)]
    assert [event.value for event in events] == [{"op": "settle"}, {"op": "add_app", "app": "a"}]


def test_one_document_for_each_event() -> None:
    events = read("op: settle\n---\n# a comment\nop: settle\nat: 5\n---\n")

    assert [(event.index, event.line) for event in events] == [(0, 1), (1, 4)]


def test_lists_and_documents_may_be_mixed() -> None:
    assert len(read("- op: settle\n- op: settle\n---\nop: settle\n--- [{op: settle}]\n")) == 4


@pytest.mark.parametrize("text", ["", "\n", "---\n", "# nothing\n", "--- ~\n", "[]", "\ufeff"])
def test_nothing_is_no_event(text: str) -> None:
    assert read(text) == []


def test_plain_text_is_kept_as_it_stands() -> None:
    [event] = read(
        "- [off, 010, 0x10, 1_000, 12:30, 1.50, ~, '5', \"x\", |\n  y\n ]\n".replace(
            ", |\n  y\n", ""
        )
    )

    assert event.value == ["off", "010", "0x10", "1_000", "12:30", "1.50", "~", "5", "x"]
    assert isinstance(event.value, list)
    assert [isinstance(part, Plain) for part in event.value] == [True] * 7 + [False] * 2


def test_a_block_is_no_plain_text() -> None:
    [event] = read("- |\n  5\n")

    assert event.value == "5\n"
    assert not isinstance(event.value, Plain)


@pytest.mark.parametrize(
    ("text", "plain"),
    [("!!str 5", False), ("! 5", False), ("!!int '5'", True), ("!!bool 'on'", True)],
)
def test_a_tag_says_what_a_text_is(text: str, plain: bool) -> None:
    [event] = read(f"- {text}\n")

    assert isinstance(event.value, Plain) is plain
    assert event.problem is None


def test_what_aliases_stand_for() -> None:
    events = read("- &one {a: &two [1, 2]}\n- {x: *one, y: *two}\n")

    assert events[1].value == {"x": {"a": ["1", "2"]}, "y": ["1", "2"]}


def test_merging() -> None:
    [event] = read("- {<<: [{a: 1, b: 1}, {b: 2, c: 2}], a: 0}\n")

    assert event.value == {"a": "0", "b": "1", "c": "2"}


def test_a_quoted_merge_key_is_a_key() -> None:
    [event] = read("- {'<<': 5}\n")

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
        ("- {<<: 5}", "line 1: << takes a map or a list of maps"),
    ],
)
def test_what_is_wrong_with_one_event(text: str, message: str) -> None:
    assert problem(text) == message


def test_the_next_event_is_good_again() -> None:
    events = read("- {a: 1, a: *x}\n- {op: settle}\n--- *x\n---\nop: settle\n")

    assert [event.problem is None for event in events] == [False, True, False, True]


def test_an_anchor_ends_with_its_document() -> None:
    events = read("--- &a {op: settle}\n--- *a\n")

    assert [event.problem is None for event in events] == [True, False]


def test_deep_nesting_is_refused() -> None:
    assert problem(f"- {'[' * MAX_DEPTH}{'[' * 5}{']' * 5}{']' * MAX_DEPTH}").endswith("levels")


def test_nesting_by_aliases_is_refused() -> None:
    half = MAX_DEPTH // 2 + 10
    events = read(f"- &a {'[' * half}{']' * half}\n- {'[' * half}*a{']' * half}\n- op: settle\n")

    assert [event.problem is None for event in events] == [True, False, True]


def test_bottomless_nesting_ends_the_feed() -> None:
    with pytest.raises(FeedError, match="nested deeper than 400 levels"):
        read("[" * 450)


def test_what_aliases_multiply_is_counted() -> None:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]" for n in range(30)]
    events = read("\n".join([*lines, "- op: settle\n"]))

    assert events[4].problem is None
    assert events[30].problem == "line 31: has more than 1000000 values, aliases counted"
    assert events[31].problem is None


@pytest.mark.parametrize(
    ("text", "line", "said"),
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
def test_what_ends_the_feed(text: bytes, line: int, said: str) -> None:
    with pytest.raises(FeedError) as caught:
        read(text)

    assert caught.value.line == line
    assert caught.value.problem.startswith(said)


def test_events_before_the_broken_place_are_given_out() -> None:
    reading = read_raw(Pieces(itertools.chain([b"- op: settle\n"] * 1000, [b"- [\n"])))

    with pytest.raises(FeedError):
        assert len([next(reading) for _ in range(900)]) == len(list(reading))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_marked_encodings(encoding: str) -> None:
    [event] = read("op: ä\n".encode(encoding))

    assert event.value == {"op": "ä"}


@pytest.mark.parametrize(
    "piece", [b"- {op: settle, x: 'y'}\n", b"- op: settle\n", b"---\nop: settle\n"]
)
def test_a_feed_without_end_is_read_as_it_comes(piece: bytes) -> None:
    source = Pieces(itertools.repeat(piece))
    events = list(itertools.islice(read_raw(source), 500))

    assert [event.index for event in events] == list(range(500))
    assert source.reads < 1000
