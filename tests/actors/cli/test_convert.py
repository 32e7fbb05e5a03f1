from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import msgpack
import pytest

from tests.actors.cli.helpers import run, run_json, written

FEED = "- {op: settle, at: 5}\n- {op: settle}\n"
LINES = '{"op": "settle", "at": 5}\n{"op": "settle"}\n'


def test_the_name_says_how_to_write(tmp_path: Path) -> None:
    source, target = written(tmp_path / "a.yaml", FEED), tmp_path / "a.jsonl.gz"
    result = run("convert", source, target)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{target}: 2 events from {source}\n"
    assert gzip.decompress(target.read_bytes()).decode() == LINES


def test_standard_input_to_standard_output() -> None:
    result = run("convert", "-", "-", given=FEED)

    assert (result.exit_code, result.stdout, result.stderr) == (0, LINES, "")


def test_encodings_that_are_said() -> None:
    packed = run("convert", "-", "-", "--to", "msgpack", given=FEED).stdout_bytes
    back = run("convert", "-", "-", "--from", "msgpack", "--to", "yaml", given=packed)

    assert list(msgpack.Unpacker(io.BytesIO(packed)))[1] == {"op": "settle"}
    assert back.stdout == "- {op: settle, at: 5}\n- {op: settle}\n"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("missing.yaml", "a.jsonl"),
        ("a.yaml", "a.txt"),
        ("a.yaml", "missing/a.jsonl"),
        (".", "b.jsonl"),
    ],
)
def test_what_cannot_be_read_or_written(tmp_path: Path, source: str, target: str) -> None:
    written(tmp_path / "a.yaml", FEED)
    result = run("convert", tmp_path / source, tmp_path / target)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(str(tmp_path))


def test_the_line_of_a_broken_feed() -> None:
    result = run("convert", "-", "-", given=FEED + "- [\n")

    assert (result.exit_code, result.stdout) == (2, LINES)
    assert result.stderr.startswith("standard input:")


def test_json(tmp_path: Path) -> None:
    source, target = written(tmp_path / "a.yaml", FEED), tmp_path / "b.jsonl"

    assert run_json("convert", source, target) == (
        0,
        {"in": str(source), "out": str(target), "events": 2},
    )
    status, said = run_json("convert", tmp_path / "missing", target)
    assert (status, said["error"]["message"]) == (2, "No such file or directory")


def test_json_leaves_standard_output_to_the_feed() -> None:
    result = run("convert", "-", "-", "--format", "json", given=FEED)

    assert result.stdout == LINES
    assert result.stderr == '{"in": "standard input", "out": "-", "events": 2}\n'


# COMMAND-20: a feed that is converted elsewhere replays the same
def test_a_feed_with_its_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("from", "to"):
        (tmp_path / folder).mkdir()
    limited = "{name: q, resources: {max: {vcore: 1}}}"
    queues = f"partitions: [{{name: default, queues: [{{name: root, queues: [{limited}]}}]}}]\n"
    written(tmp_path / "from" / "queues.yaml", queues)
    feed = (
        "- {op: configure, file: queues.yaml}\n"
        "- {op: add_node, node: n, capacity: {vcore: 9}}\n"
        "- {op: add_app, app: a, queue: root.q}\n"
        "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 3, run_for: 5}\n"
    )
    source = written(tmp_path / "from" / "a.yaml", feed)
    monkeypatch.chdir(tmp_path / "to")
    assert run("convert", source, "b.json").exit_code == 0
    lines = run("convert", source, "-").stdout
    decided = run("replay", source, "--decisions", "-").stdout

    assert (
        json.loads(Path("b.json").read_text(encoding="utf-8"))[0]["file"] == "../from/queues.yaml"
    )
    assert decided.count('"bound"') == 3
    for result in (
        run("replay", "b.json", "--decisions", "-"),
        run("replay", "-", "--decisions", "-", given=lines),
    ):
        assert result.exit_code == 0
        assert _without_places(result.stdout) == _without_places(decided)


def _without_places(decided: str) -> list[object]:
    return [{**json.loads(line), "line": None} for line in decided.splitlines()]
