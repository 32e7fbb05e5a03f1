"""What the agent says, as bytes, and what is no message."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgpack
import pytest
from hypothesis import given, strategies as st

from muster.ray._messages import FromAgent
from muster.ray._process import MessageDecoder, WireError

SAID: list[dict[str, Any]] = [
    {"say": "connected", "ray": "2.60", "python": "3.11"},
    {"say": "refused", "reason": "python", "text": "x"},
    {"say": "beat"},
    {"say": "nodes", "nodes": []},
    {
        "say": "nodes",
        "nodes": [{"id": "a", "labels": {"x": "y"}, "resources": {"CPU": 1}, "draining": False}],
    },
    {"say": "started", "id": 1, "pid": 2},
    {"say": "ended", "id": 1, "status": None, "value": b"x"},
    {"say": "ended", "id": 1, "status": -9, "value": None},
    {"say": "failed", "id": 1, "how": "node_lost", "error": "E", "text": ""},
    {"say": "cancelled", "id": 1, "gone": True},
    {"say": "survivors", "survivors": []},
    {"say": "warning", "text": "x"},
    {"say": "warning", "text": "x", "node": "a"},
]


def test_every_message_is_among_the_examples() -> None:
    assert {said["say"] for said in SAID} == {
        get_args(get_type_hints(message)["say"])[0] for message in get_args(FromAgent)
    }


@given(st.lists(st.sampled_from(SAID)), st.integers(1, 50))
def test_messages_come_whole_however_they_are_cut(said: list[dict[str, Any]], size: int) -> None:
    data = b"".join(map(msgpack.packb, said))
    incoming = MessageDecoder()
    heard = [
        message
        for start in range(0, len(data), size)
        for message in incoming.feed(data[start : start + size])
    ]
    assert heard == said


@pytest.mark.parametrize("said", SAID, ids=str)
def test_a_field_that_nobody_knows_is_passed_over(said: dict[str, Any]) -> None:
    (heard,) = MessageDecoder().feed(msgpack.packb({**said, "more": [1]}))
    assert heard == {**said, "more": [1]}


@pytest.mark.parametrize("said", SAID, ids=str)
def test_every_field_is_needed_and_has_its_type(said: dict[str, Any]) -> None:
    for name in said:
        rest = {key: value for key, value in said.items() if key != name}
        if (name, said["say"]) != ("node", "warning"):
            with pytest.raises(WireError):
                list(MessageDecoder().feed(msgpack.packb(rest)))
        with pytest.raises(WireError):
            list(MessageDecoder().feed(msgpack.packb({**said, name: 1.5})))


@given(st.binary(min_size=1))
def test_whatever_comes_is_a_message_or_an_error(data: bytes) -> None:
    incoming = MessageDecoder()
    try:
        heard = list(incoming.feed(data))
    except WireError:
        return
    assert all(isinstance(message, dict) for message in heard)


def test_what_is_said_before_a_mistake_counts() -> None:
    incoming = MessageDecoder().feed(msgpack.packb({"say": "beat"}) + b"\xc1")
    assert next(incoming) == {"say": "beat"}
    with pytest.raises(WireError, match="not msgpack"):
        next(incoming)


def test_an_error_shows_the_beginning_of_a_long_message() -> None:
    with pytest.raises(WireError) as raised:
        list(MessageDecoder().feed(msgpack.packb(["x" * 10_000])))
    assert len(str(raised.value)) < 300
