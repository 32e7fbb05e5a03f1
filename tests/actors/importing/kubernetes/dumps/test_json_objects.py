"""Objects of a List in JSON come one by one, however the text is cut."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from muster.feeds import FeedError, _json
from muster.importing.kubernetes.dumps import read_json

LIST = """\
{
    "apiVersion": "v1",
    "items": [
        {"kind": "Pod", "n": 1},
        {"kind": "Node"}
    ],
    "kind": "List"
}
"""


class Slow(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._stream = io.BytesIO(data)
        self._size = size

    @override
    def readable(self) -> bool:
        return True

    @override
    def read(self, size: int = -1, /) -> bytes:
        return self._stream.read(self._size)


def objects(text: str, size: int = 1000) -> list[tuple[object, int | None, str]]:
    stream = Slow(text.encode(), size)
    return [(raw.value, raw.line, kind) for raw, kind in read_json(stream, "x")]  # type: ignore[arg-type] # it has what is read of it


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_items_come_one_by_one_with_their_lines(size: int) -> None:
    assert objects(LIST, size) == [({"kind": "Pod", "n": 1}, 4, ""), ({"kind": "Node"}, 5, "")]


def test_the_kind_of_a_list_names_its_items() -> None:
    assert objects('{"kind": "PodList", "items": [{"a": 1}]}') == [({"a": 1}, 1, "PodList")]


def test_single_objects_lines_of_objects_and_lists_of_objects_are_read() -> None:
    assert [value for value, _, _ in objects('{"a": 1}\n{"b": 2}\n[{"c": 3}, {"d": 4}]')] == [
        {"a": 1},
        {"b": 2},
        {"c": 3},
        {"d": 4},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"items": [{"a": 1}', "x:1: not JSON: the end instead of ',' or ']'"),
        ('{"items":\n[{"a": 1} {', "x:2: not JSON: '{' instead of ',' or ']'"),
        ('{"items":\n[{"a": 1},\n{a', "x:3: not JSON: Expecting property name"),
        ('{"a": NaN}', "x:1: not JSON: NaN is no number"),
        ('{"a": ' + "9" * 5000 + "}", "x:1: not JSON: Exceeds the limit"),
        ('{"a": ' + "[" * 100_000, "x:1: is nested deeper than 200 levels"),
        ("{1: 2}", "x:1: not JSON: a key of a map has to be a text"),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(FeedError) as caught:
        objects(text, 1 << 20)
    assert str(caught.value).startswith(said)


def test_a_value_that_never_ends_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json, "MAX_CHARACTERS", 200_000)
    with pytest.raises(FeedError, match="a value is longer than 200000 characters"):
        objects('{"items": ["' + "a" * 1_000_000, 65_536)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(FeedError, match="not text: byte 0xff: invalid start byte"):
        list(read_json(io.BytesIO(b'{"a": "\xff"}'), "x"))


@pytest.mark.parametrize("text", [b'[{"a": "\\ud800"}, {}]', b'{"a": "\\ud800", "b": 1} {}'])
def test_half_a_surrogate_is_a_problem_of_its_object(text: bytes) -> None:
    found = [raw.problem for raw, _ in read_json(io.BytesIO(text), "x")]

    assert found == ["'\\ud800' is not Unicode text", None]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\é\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy"), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(_VALUES), st.integers(1, 9), st.sampled_from([None, 2]))
def test_any_list_is_read_as_by_the_library(
    items: list[object], size: int, indent: int | None
) -> None:
    text = json.dumps({"items": items}, indent=indent)

    assert [value for value, _, _ in objects(text, size)] == items
