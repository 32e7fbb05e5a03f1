from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import msgpack
import pytest

from muster.feeds import DecisionLog, Encoding, FeedError
from muster_core.decisions import Announced, Decision, Kind, Reason

BATCH = [
    Announced(1, 0, Decision(Kind.ASSIGNED, app="a", ask="é", node="n", queue="root.q")),
    Announced(2, 1_500_000, Decision(Kind.RELEASED, app="a", ask="x", reason=Reason.COMPLETED)),
    Announced(3, 2_000_000, Decision(Kind.QUEUE_PRIORITY, queue="root.q")),
    Announced(4, 2_000_000, Decision(Kind.REJECTED, message="op: 'x'", index=5, line=7)),
]
LINES = """\
{"seq": 1, "at": 0, "kind": "assigned", "app": "a", "ask": "é", "node": "n", "queue": "root.q"}
{"seq": 2, "at": 1.5, "kind": "released", "app": "a", "ask": "x", "reason": "completed"}
{"seq": 3, "at": 2, "kind": "queue_priority", "queue": "root.q", "priority": null}
{"seq": 4, "at": 2, "kind": "rejected", "message": "op: 'x'", "index": 5, "line": 7}
"""


def written(path: Path, encoding: Encoding | None = None) -> bytes:
    with DecisionLog(path, encoding=encoding) as log:
        log.write(BATCH[:1])
        log.write([])
        log.write(BATCH[1:])
    return path.read_bytes()


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.ndjson", "x.log", "x"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    assert written(tmp_path / name).decode() == LINES


@pytest.mark.parametrize("name", ["x.msgpack", "x.mp", "x.MPK"])
def test_msgpack(tmp_path: Path, name: str) -> None:
    unpacker = msgpack.Unpacker(io.BytesIO(written(tmp_path / name)))

    assert list(unpacker) == [json.loads(line) for line in LINES.splitlines()]


def test_compressed(tmp_path: Path) -> None:
    assert gzip.decompress(written(tmp_path / "x.jsonl.gz")).decode() == LINES
    assert written(tmp_path / "x.mp.gz") == written(tmp_path / "y.mp.gz")


def test_the_encoding_may_be_said(tmp_path: Path) -> None:
    assert written(tmp_path / "x", Encoding.MSGPACK) == written(tmp_path / "x.mp")


def test_there_is_no_log_in_yaml(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="a decision log is JSON Lines"):
        DecisionLog(tmp_path / "x.yaml")

    assert not (tmp_path / "x.yaml").exists()


def test_in_steps() -> None:
    stream = io.BytesIO()
    many = 100 * BATCH
    with DecisionLog(stream) as log:
        assert len(list(log.write_in_steps(many))) > 1
        assert not list(log.write_in_steps([]))

    assert stream.getvalue().decode() == 100 * LINES


def test_a_stream() -> None:
    stream = io.BytesIO()
    with DecisionLog(stream) as log:
        log.write(BATCH)

    assert stream.getvalue().decode() == LINES
