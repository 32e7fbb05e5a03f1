from __future__ import annotations

import json

import msgpack
import pytest
from hypothesis import given

from muster.feeds import Encoding, Plain, Raw
from muster.feeds._encodings import to_json_line, to_msgpack, to_yaml_item
from tests.actors.feeds.helpers import raws
from tests.actors.feeds.strategies import VALUES


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
