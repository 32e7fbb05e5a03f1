from __future__ import annotations

import json
from pathlib import Path

import msgpack
import pytest

from muster.feeds import Encoding, RawEvent, read_raw
from muster.feeds._encodings import detect, encoding_of

YAML, JSON, JSONL, MSGPACK = (
    Encoding.YAML,
    Encoding.JSON,
    Encoding.JSON_LINES,
    Encoding.MSGPACK,
)


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("a.yaml", YAML),
        ("a.b.YML.gz", YAML),
        ("dir.jsonl/a.ndjson", JSONL),
        ("a.jsonl.gz", JSONL),
        ("a.msgpack", MSGPACK),
        ("a.mp.gz", MSGPACK),
        ("a.json", None),
        ("a.gz", None),
        ("a", None),
        ("-", None),
        ("", None),
    ],
)
def test_what_a_name_says(name: str, encoding: Encoding | None) -> None:
    assert encoding_of(name) is encoding


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"", YAML),
        (b"- op: settle\n", YAML),
        (b"# a comment\n---\n", YAML),
        (b"op: settle\n", YAML),
        (b"{op: settle}\n", YAML),
        (b'[{"op": "settle"},\n', JSON),
        (b'\xef\xbb\xbf\n[\n  {\n    "op": "settle"', JSON),
        (b"[]", JSON),
        (b"[\n", YAML),
        (b"[{op: settle}]", YAML),
        (b"[settle]", YAML),
        (b'{\n  "op": "settle"\n}\n', YAML),
        (b"{" * 100_000, YAML),
        ("op: settle".encode("utf-16"), YAML),
        (b'{"op": "settle"}\n', JSONL),
        (b'\n\n{"op": "settle"}', JSONL),
        (b'\xef\xbb\xbf{"op": "settle"}', JSONL),
        (b'{"op": "settle"\n', JSONL),
        (b"{}\n", JSONL),
        (msgpack.packb({"op": "settle"}), MSGPACK),
        (msgpack.packb({str(number): 1 for number in range(20)}), MSGPACK),
        (msgpack.packb({str(number): 1 for number in range(70_000)}), MSGPACK),
        (msgpack.packb([1]), MSGPACK),
    ],
)
def test_what_the_content_says(head: bytes, encoding: Encoding) -> None:
    assert detect(head, "feed") is encoding


def test_the_name_decides_where_the_content_may_be_both() -> None:
    assert detect(b'{"op": "settle"}\n', "a.yaml") is YAML
    assert detect(b"{op: settle}\n", "a.jsonl") is JSONL
    assert detect(b"\x05", "a.msgpack.gz") is MSGPACK


def test_no_text_is_msgpack_whatever_its_name() -> None:
    assert detect(msgpack.packb({"op": "settle"}), "a.yaml") is MSGPACK


@pytest.mark.parametrize("name", ["a", "a.json", "a.txt", "a.msgpack", "a.yaml", "a.jsonl"])
@pytest.mark.parametrize(
    "data",
    [
        b'{"op": "settle"}\n',
        json.dumps([{"op": "settle"}]).encode(),
        json.dumps({"op": "settle"}, indent=2).encode(),
        b"- op: settle\n",
        msgpack.packb({"op": "settle"}),
    ],
)
def test_no_name_leads_to_anything_but_a_clean_end(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    if name in {"a", "a.json", "a.txt"}:
        [event] = read_raw(path)
        assert event.value == {"op": "settle"}


def test_the_encoding_may_be_said(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b'{"op": "settle"}\n{"op": "settle"}\n')

    assert list(read_raw(path, encoding=JSONL))[1] == RawEvent(1, 2, {"op": "settle"})


# FEED-90: a `.json` file holds a list or lines
def test_lines_where_a_list_may_stand(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"op": "settle"}\n{"op": "settle"}\n')

    assert list(read_raw(path)) == list(read_raw(path, encoding=JSON))
    assert [event.line for event in read_raw(path)] == [1, 2]
